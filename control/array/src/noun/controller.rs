//! Operator requests about controllers.

use crate::array::Array;
use crate::array::projection::{RECENT_SECONDS, addresses};
use crate::array::transaction::Transaction;
use crate::parts::membership::{Controller, ControllerChange, ControllerState, JoinToken};
use crate::parts::target_ports::iscsi_sessions;
use crate::request::verbs;
use crate::{Error, Result, Severity};

verbs! {
    #![tag = "array"]

    /// List controllers
    ListControllers {} -> Vec<Controller>, Read "list" "controller", Viewer,
        at GET "/controllers" says "The controllers; one if the array is not shared"
        => |tx, _| Ok(tx.array.controllers());
    /// Get a controller
    ShowController {
        /// Number, or name of the machine
        number
    } -> Controller, Read "show" "controller", Viewer, about number, at GET "/controllers/{number}"
        => |tx, it| tx.array.controller(&it.number);
    /// Create a join token
    ///
    /// By it a new controller gets what it needs to take part, within an hour, once. The controllers must have links, and the token
    /// is valid only while this controller is the home.
    CreateJoinToken {} -> JoinToken, Change "create" "join token", Admin,
        at POST "/join-tokens" 201 says "The token, which is not shown again"
        => |tx, _| tx.create_join_token();
    /// Remove a controller that is lost or was stopped
    ///
    /// The alert about its loss ends. A controller that runs is refused, the home as well. If it is started later, it takes part
    /// again.
    RemoveController {
        /// Number, or name of the machine
        number
    } -> (), Change "remove" "controller", Admin, about number, at DELETE "/controllers/{number}" says "Removed"
        => |tx, it| tx.array.change_controller(&it.number, ControllerChange::Remove).await.map(|_| ());
    /// Drain a controller
    ///
    /// From then on it becomes the home only if no other controller can. A home hands the array over in order: it asks hosts to log
    /// out, closes the array, and another controller opens it. That is refused if no other controller runs and is not drained. It
    /// stays drained when it is started again, such as with other software, until it is resumed.
    DrainController {
        /// Number, or name of the machine
        number
    } -> Controller, Change "drain" "controller", Admin, about number,
        at POST "/controllers/{number}/drain" says "The controller; a home begins to hand over"
        => |tx, it| tx.array.change_controller(&it.number, ControllerChange::Drain).await;
    /// Resume a controller that is drained
    ///
    /// The array stays where it is.
    ResumeController {
        /// Number, or name of the machine
        number
    } -> Controller, Change "resume" "controller", Admin, about number, at POST "/controllers/{number}/resume"
        => |tx, it| tx.array.change_controller(&it.number, ControllerChange::Resume).await;
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
