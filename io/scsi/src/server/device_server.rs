//! The device server as the sessions of a transport see it, wherever the logical units are.

use crate::{
    Command, Execution, Lun, Management, ManagementFunction, ManagementResponse, Nexus, TransferBound,
};
use bytes::Bytes;

/// The device server as the session of a transport sees it: an I_T nexus, here or at another controller. Dropping it is the
/// loss of the nexus.
pub trait DeviceServer: Send {
    /// Upper bounds on the data of a command by its CDB, which may be any bytes, for any logical unit.
    fn transfer_bound(&self, lun: Lun, cdb: &Bytes) -> TransferBound;
    /// Performs a command that has all its data.
    fn execute(&mut self, command: Command) -> Execution;
    /// Performs a task management function. Once it has ended, no task that it aborts takes effect.
    fn manage(&mut self, lun: Lun, function: ManagementFunction) -> Management;
}

impl DeviceServer for Nexus {
    fn transfer_bound(&self, lun: Lun, cdb: &Bytes) -> TransferBound {
        Nexus::transfer_bound(self, lun, cdb)
    }

    fn execute(&mut self, command: Command) -> Execution {
        Nexus::execute(self, command)
    }

    fn manage(&mut self, lun: Lun, function: ManagementFunction) -> Management {
        self.manage_and_save(lun, function)
    }
}

impl Nexus {
    /// As [`Nexus::manage`]; ends once the state is saved that the function has reset.
    pub fn manage_and_save(&self, lun: Lun, function: ManagementFunction) -> Management {
        let response = self.manage(lun, function);
        match self.saved(lun, function).filter(|_| response == ManagementResponse::Complete) {
            None => response.into(),
            Some(saved) => Management::Later(Box::pin(async move {
                Some(if saved.await { response } else { ManagementResponse::Rejected })
            })),
        }
    }
}
