//! Operator requests about controllers.

use crate::array::Array;
use crate::membership::{Controller, ControllerChange, ControllerState, JoinToken};
use crate::ports::iscsi_sessions;
use crate::projection::{RECENT_SECONDS, addresses};
use crate::request::verbs;
use crate::transaction::Transaction;
use crate::{Error, Result, Severity};
use serde::Serialize;

/// All controllers, by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListControllers;

/// One controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowController {
    /// Its number, or the name of its machine.
    pub which: String,
}

/// Forget a controller that is lost or was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemoveController {
    /// Its number, or the name of its machine.
    pub which: String,
}

/// Keep a controller from being the home while another one can be. A home hands the array over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DrainController {
    /// Its number, or the name of its machine.
    pub which: String,
}

/// End that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResumeController {
    /// Its number, or the name of its machine.
    pub which: String,
}

/// Create a token by which a new controller can join, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateJoinToken;

verbs! {
    ListControllers -> Vec<Controller>, Read "list" "controller", Viewer
        => |tx, _| Ok(tx.array.controllers());
    ShowController -> Controller, Read "show" "controller", Viewer, about which
        => |tx, it| tx.array.controller(&it.which);
    CreateJoinToken -> JoinToken, Change "create" "join token", Admin
        => |tx, _| tx.create_join_token();
    RemoveController -> (), Change "remove" "controller", Admin, about which
        => |tx, it| tx.array.change_controller(&it.which, ControllerChange::Remove).await.map(|_| ());
    DrainController -> Controller, Change "drain" "controller", Admin, about which
        => |tx, it| tx.array.change_controller(&it.which, ControllerChange::Drain).await;
    ResumeController -> Controller, Change "resume" "controller", Admin, about which
        => |tx, it| tx.array.change_controller(&it.which, ControllerChange::Resume).await;
}

impl Transaction<'_> {
    fn create_join_token(&self) -> Result<JoinToken> {
        let made = self.array.parts.controllers.add()?;
        let (number, user) = (made.controller, &self.caller.user);
        let message = format!("a join token for controller {number} was created by {user}");
        self.array.log_event(Severity::Info, "controller.token-created", None, message);
        Ok(made)
    }
}

impl Array {
    /// The process that has the array is the home: what it listens on is known better than from the membership.
    pub(crate) fn controllers(&self) -> Vec<Controller> {
        let texts = |portals: &[_]| addresses(portals).iter().map(ToString::to_string).collect();
        let mut all = self.parts.controllers.controllers();
        for home in all.iter_mut().filter(|it| it.state == ControllerState::Home) {
            home.portals = texts(&self.parts.server.portals());
            home.nvme_portals = texts(&self.parts.subsystem.portals());
            home.takeover = self.parts.controllers.takeover();
        }
        if let Some(own) = self.own_ports.get() {
            let sessions = iscsi_sessions(&self.parts.target);
            let of = |port: u16| own.controller_of(port);
            let mut recent = self.metering.recent_controllers(RECENT_SECONDS);
            for it in &mut all {
                it.sessions = sessions.iter().filter(|(_, port)| of(*port) == Some(it.number)).count();
                it.recent = recent.take(it.number);
            }
        }
        all
    }

    /// A controller by its number or the name of its machine.
    pub(crate) fn controller(&self, which: &str) -> Result<Controller> {
        let number = which.parse::<u16>().ok();
        let wanted = |it: &Controller| Some(it.number) == number || it.name == which;
        let mut found = self.controllers().into_iter().filter(wanted);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (Some(_), Some(_)) => Err(Error::conflict(format!(
                "several controllers are on machines that are called {which:?}: name one by its number"
            ))),
            (None, _) => Err(Error::not_found(format!(
                "there is no controller {which:?}: name one by its number, such as 1, or its machine"
            ))),
        }
    }

    /// Makes a change of a controller; returns the controller as it is after that, or was before it was removed.
    async fn change_controller(&self, which: &str, change: ControllerChange) -> Result<Controller> {
        let before = self.controller(which)?;
        self.parts.controllers.change(before.number, change).await?;
        let all = self.controllers();
        Ok(all.into_iter().find(|it| it.number == before.number).unwrap_or(before))
    }
}
