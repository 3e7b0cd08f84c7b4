//! Task management (RFC 7143 11.5, 11.6).

use crate::pdu::incoming::Pdu;
use crate::pdu::{FINAL, Header, opcode};
use crate::session::{Session, SessionEnd};
use crate::wire::{StatSn, Wire, before};
use scsi::{Data, Lun, ManagementFunction, ManagementResponse};

/// Functions (11.5.1).
const ABORT_TASK: u8 = 1;
const ABORT_TASK_SET: u8 = 2;
const CLEAR_TASK_SET: u8 = 4;
const LOGICAL_UNIT_RESET: u8 = 5;
const TARGET_WARM_RESET: u8 = 6;
/// Resets the units that the initiator sees, and ends its sessions and those of all initiators that share a unit with
/// it. With LUN masking these units are the whole target to the initiator, so sessions that share none of them
/// continue.
const TARGET_COLD_RESET: u8 = 7;
const TASK_REASSIGN: u8 = 8;

/// Responses (11.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Outcome {
    Complete = 0,
    TaskDoesNotExist = 1,
    LunDoesNotExist = 2,
    ReassignmentNotSupported = 4,
    NotSupported = 5,
    Rejected = 255,
}

impl From<ManagementResponse> for Outcome {
    fn from(response: ManagementResponse) -> Self {
        match response {
            ManagementResponse::Complete => Outcome::Complete,
            ManagementResponse::IncorrectLun => Outcome::LunDoesNotExist,
            ManagementResponse::Rejected => Outcome::Rejected,
        }
    }
}

impl Session {
    /// Task Management Function Request. Once the response is queued, no aborted task sends one.
    pub(super) fn manage(&mut self, wire: &mut Wire, header: &Header) -> Result<(), SessionEnd> {
        let lun = Lun(header.lun());
        let function = header.flags() & 0x7f;
        let outcome = match function {
            ABORT_TASK => self.abort_task(header, lun),
            ABORT_TASK_SET => self.all_tasks(header, Some(lun), ManagementFunction::AbortTaskSet),
            CLEAR_TASK_SET => self.all_tasks(header, Some(lun), ManagementFunction::ClearTaskSet),
            LOGICAL_UNIT_RESET => self.all_tasks(header, Some(lun), ManagementFunction::LogicalUnitReset),
            TARGET_WARM_RESET | TARGET_COLD_RESET => {
                self.all_tasks(header, None, ManagementFunction::TargetReset)
            }
            TASK_REASSIGN => Outcome::ReassignmentNotSupported,
            // CLEAR ACA among them: there is never an ACA condition.
            _ => Outcome::NotSupported,
        };
        tracing::info!(initiator = %self.identity.initiator, function, ?outcome, "task management");
        let response = Header::new(opcode::TASK_MANAGEMENT_RESPONSE, FINAL)
            .put(2, [outcome as u8])
            .with_itt(header.itt());
        wire.send(&self.window, response, &Data::new(), StatSn::Next);
        if function == TARGET_COLD_RESET && outcome == Outcome::Complete {
            return Err(SessionEnd::ColdReset);
        }
        // An abort may have freed memory, or unblocked held commands.
        self.catch_up(wire)?;
        self.advance(wire);
        Ok(())
    }

    fn call(&mut self, lun: Lun, function: ManagementFunction) -> Outcome {
        self.device().map_or(Outcome::Rejected, |device| device.manage(lun, function).into())
    }

    /// ABORT TASK. A task that has ended counts as aborted: its response and this request have crossed, and some
    /// initiators reset the unit if the response is that the task does not exist.
    fn abort_task(&mut self, header: &Header, lun: Lun) -> Outcome {
        let (itt, cmd_sn) = (header.ttt(), header.u32::<32>());
        if let Some(expectation) = self.transfers.remove(itt, lun) {
            self.free_window_slot(&expectation);
            return Outcome::Complete;
        }
        let running = self.tasks.about(itt).is_some_and(|(_, of)| *of == lun);
        let outcome = self.call(lun, ManagementFunction::AbortTask { tag: u64::from(itt) });
        if running && let Some((expectation, _)) = self.tasks.remove(itt) {
            self.free_window_slot(&expectation);
        }
        if running || outcome != Outcome::Complete || before(cmd_sn, self.window.expected()) {
            return outcome;
        }
        // The command has not arrived (11.6.1): it counts as received if its number is in the window and before this
        // request's, and is ignored when it arrives.
        match () {
            () if before(header.cmd_sn(), cmd_sn) || before(self.window.max(), cmd_sn) => {
                Outcome::TaskDoesNotExist
            }
            // An immediate command has the number of this request, and it has ended.
            () if cmd_sn == header.cmd_sn() => Outcome::Complete,
            () => {
                if let Some(pdu) = self.early.remove(&cmd_sn) {
                    self.early_bytes -= Self::early_charge(&pdu);
                }
                self.aborted_early.insert(cmd_sn);
                Outcome::Complete
            }
        }
    }

    /// A function on every task of a logical unit, or of all of them.
    fn all_tasks(&mut self, header: &Header, lun: Option<Lun>, function: ManagementFunction) -> Outcome {
        let outcome = self.call(Lun(header.lun()), function);
        if outcome == Outcome::Complete {
            self.remove_commands(lun);
            self.void_early(lun, header.cmd_sn());
        }
        outcome
    }

    /// Early commands are included if they were sent before this request.
    fn void_early(&mut self, lun: Option<Lun>, cmd_sn: u32) {
        let is_meant = |pdu: &Pdu| {
            pdu.header.opcode() == opcode::SCSI_COMMAND
                && lun.is_none_or(|lun| pdu.header.lun() == lun.0)
                && before(pdu.header.cmd_sn(), cmd_sn)
        };
        let (aborted_early, bytes) = (&mut self.aborted_early, &mut self.early_bytes);
        self.early.retain(|number, pdu| {
            let stays = !is_meant(pdu);
            if !stays {
                aborted_early.insert(*number);
                *bytes -= Self::early_charge(pdu);
            }
            stays
        });
    }
}
