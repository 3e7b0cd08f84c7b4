//! Task management (RFC 7143 11.5, 11.6).

use crate::pdu::incoming::Pdu;
use crate::pdu::{FINAL, Header, opcode};
use crate::session::{Managing, Session, SessionEnd};
use crate::wire::{StatSn, Wire, before};
use scsi::{Data, Lun, Management, ManagementFunction, ManagementResponse};
use std::task::{Context, Poll};

/// Functions (11.5.1).
const ABORT_TASK: u8 = 1;
const ABORT_TASK_SET: u8 = 2;
const CLEAR_TASK_SET: u8 = 4;
const LOGICAL_UNIT_RESET: u8 = 5;
const TARGET_WARM_RESET: u8 = 6;
/// Resets the units that the initiator sees, and ends its sessions and those of all initiators that share a unit with
/// it. With LUN masking, these units are the whole target from the initiator's view, so sessions that share none of
/// them continue.
const TARGET_COLD_RESET: u8 = 7;
const TASK_REASSIGN: u8 = 8;

/// Responses (11.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
enum Outcome {
    #[error("function complete")]
    Complete = 0,
    #[error("task does not exist")]
    TaskDoesNotExist = 1,
    #[error("LUN does not exist")]
    LunDoesNotExist = 2,
    #[error("task allegiance reassignment not supported")]
    ReassignmentNotSupported = 4,
    #[error("task management function not supported")]
    NotSupported = 5,
    #[error("function rejected")]
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
    /// Task Management Function Request. After the response is queued, no aborted task sends one.
    pub(super) fn manage(&mut self, wire: &mut Wire, header: &Header) -> Result<(), SessionEnd> {
        let lun = Lun(header.lun());
        let function = match header.flags() & 0x7f {
            ABORT_TASK => ManagementFunction::AbortTask { tag: u64::from(header.ttt()) },
            ABORT_TASK_SET => ManagementFunction::AbortTaskSet,
            CLEAR_TASK_SET => ManagementFunction::ClearTaskSet,
            LOGICAL_UNIT_RESET => ManagementFunction::LogicalUnitReset,
            TARGET_WARM_RESET | TARGET_COLD_RESET => ManagementFunction::TargetReset,
            TASK_REASSIGN => return self.respond(wire, header, Outcome::ReassignmentNotSupported),
            // Includes CLEAR ACA: an ACA condition never exists.
            _ => return self.respond(wire, header, Outcome::NotSupported),
        };
        if let ManagementFunction::AbortTask { .. } = function
            && let Some(expectation) = self.transfers.remove(header.ttt(), lun)
        {
            self.free_window_slot(&expectation);
            return self.respond(wire, header, Outcome::Complete);
        }
        let device = self.device().map(|device| device.manage(lun, function));
        let mut managing = Managing { header: *header, function, running: None };
        match device.unwrap_or(Management::Done(ManagementResponse::Rejected)) {
            Management::Done(response) => self.managed(wire, &managing, response),
            Management::Later(running) => {
                managing.running = Some(running);
                self.managing = Some(managing);
                Ok(())
            }
        }
    }

    /// The function in progress elsewhere, once it has ended.
    pub(super) fn poll_managing(&mut self, cx: &mut Context<'_>) -> Option<(Managing, ManagementResponse)> {
        let running = self.managing.as_mut()?.running.as_mut()?;
        let Poll::Ready(response) = running.as_mut().poll(cx) else { return None };
        Some((self.managing.take()?, response.unwrap_or(ManagementResponse::Rejected)))
    }

    /// Continues after the device server has performed a function.
    pub(super) fn managed(
        &mut self,
        wire: &mut Wire,
        managing: &Managing,
        response: ManagementResponse,
    ) -> Result<(), SessionEnd> {
        let header = &managing.header;
        let lun = Some(Lun(header.lun()));
        let outcome = match managing.function {
            ManagementFunction::AbortTask { .. } => self.abort_task(header, response.into()),
            ManagementFunction::TargetReset => self.all_tasks(header, None, response.into()),
            _ => self.all_tasks(header, lun, response.into()),
        };
        self.respond(wire, header, outcome)
    }

    fn respond(&mut self, wire: &mut Wire, header: &Header, outcome: Outcome) -> Result<(), SessionEnd> {
        let function = header.flags() & 0x7f;
        if let Some(left_out) = self.log_gate().admit() {
            let initiator = &self.identity.initiator;
            tracing::info!(initiator, function, %outcome, left_out, "task management");
        }
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

    /// Completes ABORT TASK. A task that has ended counts as aborted: its response and this request have crossed, and
    /// some initiators reset the unit if the response says that the task does not exist.
    fn abort_task(&mut self, header: &Header, outcome: Outcome) -> Outcome {
        let (itt, cmd_sn) = (header.ttt(), header.u32::<32>());
        let running = self.tasks.about(itt).is_some_and(|(_, of)| *of == Lun(header.lun()));
        if running && let Some((expectation, _)) = self.tasks.remove(itt) {
            self.free_window_slot(&expectation);
        }
        if running || outcome != Outcome::Complete || before(cmd_sn, self.window.expected()) {
            return outcome;
        }
        // The command has not arrived (11.6.1): if its number is in the window and before this request's, it counts as
        // received, and is ignored when it arrives.
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

    /// Completes a function on every task of a logical unit, or of all units.
    fn all_tasks(&mut self, header: &Header, lun: Option<Lun>, outcome: Outcome) -> Outcome {
        if outcome == Outcome::Complete {
            self.remove_commands(lun);
            self.void_early(lun, header.cmd_sn());
        }
        outcome
    }

    /// Voids early commands that were sent before this request.
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
