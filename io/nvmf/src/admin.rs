//! Admin commands (NVM Express Base 2.0 clause 5): their table and dispatch. Asynchronous Event Request and Connect are
//! handled by the queue.

use crate::controller::Controller;
use crate::execute::Execution;
use crate::fabrics;
use crate::sqe::{FABRICS, Outcome, Sqe};
use crate::status::Status;
use crate::{abort, features, identify, log_pages};
use std::sync::Arc;

/// Opcode of Abort.
pub(crate) const ABORT: u8 = 0x08;
/// Opcode of Asynchronous Event Request.
pub(crate) const EVENT_REQUEST: u8 = 0x0C;

/// A row of the table of admin commands.
pub(crate) struct Row {
    pub(crate) opcode: u8,
    pub(crate) name: &'static str,
    /// Clause of Base 2.0.
    pub(crate) clause: &'static str,
    /// Whether discovery controllers support the command.
    pub(crate) discovery: bool,
    handler: fn(&Arc<Controller>, &Sqe) -> Execution,
}

/// The admin commands.
pub(crate) const ROWS: &[Row] = &[
    Row {
        opcode: 0x02,
        name: "Get Log Page",
        clause: "5.16",
        discovery: true,
        handler: |controller, sqe| Execution::Done(log_pages::get(controller, sqe).into()),
    },
    Row {
        opcode: 0x06,
        name: "Identify",
        clause: "5.17",
        discovery: true,
        handler: |controller, sqe| Execution::Done(identify::identify(controller, sqe).into()),
    },
    Row {
        opcode: ABORT,
        name: "Abort",
        clause: "5.1",
        discovery: false,
        handler: |controller, sqe| abort(controller, sqe.dword(10) as u16, (sqe.dword(10) >> 16) as u16),
    },
    Row {
        opcode: 0x09,
        name: "Set Features",
        clause: "5.27",
        discovery: true,
        handler: |controller, sqe| features::set(controller, sqe),
    },
    Row {
        opcode: 0x0A,
        name: "Get Features",
        clause: "5.15",
        discovery: true,
        handler: |controller, sqe| Execution::Done(features::get(controller, sqe).into()),
    },
    Row {
        opcode: EVENT_REQUEST,
        name: "Asynchronous Event Request",
        clause: "5.2",
        discovery: true,
        handler: |_, _| Status::INVALID_OPCODE.into(),
    },
    Row {
        opcode: 0x18,
        name: "Keep Alive",
        clause: "5.18",
        discovery: true,
        handler: |_, _| Execution::Done(Outcome::success()),
    },
    Row {
        opcode: FABRICS,
        name: "Fabrics",
        clause: "6",
        discovery: true,
        handler: |controller, sqe| Execution::Done(fabrics::execute(controller, sqe).into()),
    },
];

/// Abort of a command of an I/O queue.
fn abort(controller: &Controller, qid: u16, cid: u16) -> Execution {
    let Some(aborts) = controller.aborts(qid) else { return Execution::Done(abort::outcome(false)) };
    match aborts.request(cid) {
        Ok(performed) => Execution::Task(Box::pin(performed)),
        Err(status) => status.into(),
    }
}

/// The row of an opcode, if the controller supports it.
pub(crate) fn find(opcode: u8, discovery: bool) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.opcode == opcode && (row.discovery || !discovery))
}

/// Starts an admin command. Until the host enables the controller, only fabrics commands are accepted.
pub(crate) fn start(controller: &Arc<Controller>, sqe: &Sqe) -> Execution {
    let Some(row) = find(sqe.opcode(), controller.discovery) else { return Status::INVALID_OPCODE.into() };
    if row.opcode != FABRICS && !controller.is_ready() {
        return Status::COMMAND_SEQUENCE_ERROR.into();
    }
    let execution = (row.handler)(controller, sqe);
    if let Execution::Done(Outcome { status, .. }) = &execution
        && !status.is_success()
    {
        let (command, clause) = (row.name, row.clause);
        tracing::debug!(command, clause, detail = sqe.dword(10), ?status, "refused");
    }
    execution
}
