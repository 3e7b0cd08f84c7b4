//! An I_T nexus: the logical units that one initiator port sees through one target port, and the commands and task
//! management functions that come by it.

use crate::server::target::Target;
use crate::unit::command::Notes;
use crate::unit::path::Path;
use crate::unit::view::{Shared, View};
use crate::{
    Command, Execution, Lun, ManagementFunction, ManagementResponse, Response, Status, server::execute,
    server::incorrect_lun, server::task_management,
};
use block::Sequence;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

/// A save of state.
pub type Saved = Pin<Box<dyn Future<Output = bool> + Send>>;

/// An I_T nexus: one initiator port at one target port. Dropping it is the loss of the nexus.
pub struct Nexus {
    target: Arc<Target>,
    shared: Arc<Shared>,
}

impl Nexus {
    pub(crate) fn new(target: Arc<Target>, shared: Arc<Shared>) -> Nexus {
        Nexus { target, shared }
    }

    /// Starts a command. A command that memory can answer is complete on return.
    pub fn execute(&self, command: Command) -> Execution {
        self.execute_forwarded(command, None, false)
    }

    /// Starts a command that has this place among those of its front end. Its disks note it with its effect on their content, and
    /// on the state that they save: see [`Command::is_noted`]. If the front end reads what is located, the response to a READ may
    /// say where the data are.
    pub fn execute_forwarded(
        &self,
        command: Command,
        sequence: Option<Sequence>,
        locates: bool,
    ) -> Execution {
        let view = self.view();
        let path = command.lun.number().and_then(|number| view.get(&number));
        let Some(path) = path else {
            let luns: Vec<u16> = view.keys().copied().collect();
            return Execution::Done(incorrect_lun::respond(&command, &self.target.identity, &luns));
        };
        let now = self.target.clock().now();
        execute::start(path, &view, command, now, (Notes(sequence), locates))
    }

    /// The response to a command that has taken effect already.
    pub fn done(&self, command: &Command) -> Response {
        let view = self.view();
        let unit = command.lun.number().and_then(|number| view.get(&number)).map(|path| &path.unit);
        let data_out_wanted = unit.map_or(0, |unit| command.data_out_wanted(unit.block_bytes));
        Response { data_out_wanted, ..Response::with_status(Status::Good) }
    }

    /// Performs a task management function. When it returns, aborted tasks have taken effect whole or never will.
    /// On a read-only mapping only tasks of this nexus are aborted; functions that reach other nexuses are rejected.
    pub fn manage(&self, lun: Lun, function: ManagementFunction) -> ManagementResponse {
        let view = self.view();
        if function == ManagementFunction::TargetReset {
            let mut reset = BTreeSet::new();
            let (own, shared): (Vec<_>, Vec<_>) = view.values().partition(|path| path.is_mapped_read_only());
            let shared = shared.into_iter().filter(|path| reset.insert(path.unit.id));
            shared.for_each(task_management::reset_unit);
            for path in own {
                path.abort_all(None);
            }
            return ManagementResponse::Complete;
        }
        let Some(path) = lun.number().and_then(|number| view.get(&number)) else {
            return ManagementResponse::IncorrectLun;
        };
        if path.gate.is_replaced() {
            return ManagementResponse::IncorrectLun;
        }
        match function {
            ManagementFunction::AbortTask { tag } => path.abort(tag, None),
            ManagementFunction::AbortTaskSet => {
                path.abort_all(None);
            }
            ManagementFunction::ClearTaskSet | ManagementFunction::LogicalUnitReset
                if path.is_mapped_read_only() =>
            {
                return ManagementResponse::Rejected;
            }
            ManagementFunction::ClearTaskSet => task_management::clear_task_set(path),
            ManagementFunction::LogicalUnitReset | ManagementFunction::TargetReset => {
                task_management::reset_unit(path);
            }
        }
        ManagementResponse::Complete
    }

    /// Completes when the state that a function has changed is saved for a takeover, with true if it could be. `None` if nothing
    /// is to be saved.
    pub fn saved(&self, lun: Lun, function: ManagementFunction) -> Option<Saved> {
        let view = self.view();
        let changed: Vec<_> = match function {
            ManagementFunction::AbortTask { .. } | ManagementFunction::AbortTaskSet => Vec::new(),
            ManagementFunction::TargetReset => view.values().collect(),
            ManagementFunction::ClearTaskSet | ManagementFunction::LogicalUnitReset => {
                lun.number().and_then(|number| view.get(&number)).into_iter().collect()
            }
        };
        let is_saved = |path: &&&Arc<Path>| path.unit.volume.state().saves_volatile();
        let units: Vec<_> = changed.iter().filter(is_saved).map(|path| path.unit.clone()).collect();
        let save = async move {
            for unit in units.iter() {
                if unit.save_volatile().await.is_err() {
                    return false;
                }
            }
            true
        };
        changed.iter().any(|path| is_saved(&path)).then(|| -> Saved { Box::pin(save) })
    }

    /// The logical unit numbers that this nexus sees, in order.
    pub fn luns(&self) -> Vec<u16> {
        self.view().keys().copied().collect()
    }

    /// Block length of a logical unit. `None` if the nexus does not see it.
    pub(crate) fn block_bytes(&self, lun: Lun) -> Option<u32> {
        let view = self.shared.view.read();
        view.get(&lun.number()?).map(|path| path.unit.block_bytes)
    }

    fn view(&self) -> Arc<View> {
        self.shared.view.read().clone()
    }
}

impl Drop for Nexus {
    fn drop(&mut self) {
        self.target.detach(&self.shared);
    }
}
