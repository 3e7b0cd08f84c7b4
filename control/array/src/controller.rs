//! Operator requests about controllers.

use crate::array::Array;
use crate::membership::{Controller, ControllerState};
use crate::request::verbs;
use crate::{Error, Result};
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

verbs! {
    ListControllers -> Vec<Controller>, Read "list" "controller", Viewer
        => |tx, _| Ok(tx.array.controllers());
    ShowController -> Controller, Read "show" "controller", Viewer, about which
        => |tx, it| tx.array.controller(&it.which);
}

impl Array {
    /// The process that has the array is the home: what it listens on is known better than from the membership.
    pub(crate) fn controllers(&self) -> Vec<Controller> {
        let mut all = self.parts.controllers.controllers();
        for home in all.iter_mut().filter(|it| it.state == ControllerState::Home) {
            home.portals = self.parts.server.portals().iter().map(ToString::to_string).collect();
            home.nvme_portals = self.parts.subsystem.portals().iter().map(ToString::to_string).collect();
            home.takeover = self.parts.controllers.takeover();
        }
        all
    }

    fn controller(&self, which: &str) -> Result<Controller> {
        let number = which.parse::<u16>().ok();
        let wanted = |it: &Controller| Some(it.number) == number || it.name == which;
        self.controllers().into_iter().find(wanted).ok_or_else(|| {
            Error::not_found(format!(
                "there is no controller {which:?}: name one by its number, such as 1, or its machine"
            ))
        })
    }
}
