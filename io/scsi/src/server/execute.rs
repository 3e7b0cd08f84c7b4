//! The spine of the device server: a command from its CDB through task set, QoS admission and checks to its handler.

use crate::encoding::block_limits::BlockLimits;
use crate::encoding::cdb::Cdb;
use crate::encoding::sense::{Code, Fault};
use crate::encoding::task_set::Class;
use crate::server::opcode;
use crate::unit::command::{Flow, Notes, Request};
use crate::unit::gate::{Flags, TaskSetEntry};
use crate::unit::path::Path;
use crate::unit::response::CommandInfo;
use crate::unit::row::{ConflictRule, Row};
use crate::unit::task::{Running, Task};
use crate::unit::view::View;
use crate::{Command, Direction, Execution, Response, TaskAttribute};
use block::{Data, Pending};
use export::{Admission, Cost, Operation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Starts a command: finds its row in the command table, enters the task set, requests admission, checks, and calls the
/// handler.
pub(crate) fn start(
    path: &Arc<Path>,
    view: &Arc<View>,
    command: Command,
    began: u64,
    (notes, locates): (Notes, bool),
) -> Execution {
    let Command { tag, attribute, direction, data_out: data, .. } = command;
    let located_bytes = if locates { command.data_in_limit } else { 0 };
    let cdb = Cdb::new(command.cdb);
    let Some(row) = opcode::find(&cdb) else {
        return Execution::Done(refuse(path, &cdb, began));
    };
    let info = command_info(path, row, &cdb, &data, began);
    if attribute == TaskAttribute::Aca {
        return Execution::Done(path.respond(Err(Code::INVALID_MESSAGE.into()), &info));
    }
    let (entry, flags) = path.enter_task_set(row.class.with(attribute));
    // Locked while a command that changes something begins: an abort then finds it begun or not at all.
    let changes = matches!(row.conflict, ConflictRule::Write | ConflictRule::Own);
    let tasks = changes.then(|| path.tasks());
    if path.is_closed() {
        return Execution::Done(path.respond(Err(Code::UNIT_NOT_SUPPORTED.into()), &info));
    }
    let admission = if flags.limited() { request_admission(path, row, &cdb, &data, attribute) } else { None };
    let given = Given { direction, data, notes, located_bytes };
    if admission.is_some() || !entry.may_dispatch() {
        drop(tasks);
        let queued = Queued { row, cdb, given, entry, admission };
        return queue(path, view, tag, info, queued);
    }
    let flow = match begin(path, view, (row, &cdb), given, flags) {
        Ok(flow) => flow,
        Err(fault) => return Execution::Done(path.respond(Err(fault), &info)),
    };
    match flow {
        Flow::Done(completion) => Execution::Done(path.respond(Ok(completion), &info)),
        Flow::Disk(Pending::Ready(Some(result))) => {
            let result = crate::unit::command::finish(result);
            Execution::Done(path.respond(result, &info))
        }
        flow => {
            let task = Task::new(tag, path.clone(), flow, Some(entry), info);
            let mut tasks = tasks.unwrap_or_else(|| path.tasks());
            enlist(path, &mut tasks, task)
        }
    }
}

fn command_info(path: &Path, row: &Row, cdb: &Cdb, data: &Data, began: u64) -> CommandInfo {
    let block_bytes = path.unit.block_bytes;
    CommandInfo {
        operation: row.operation,
        bytes: opcode::amount(row, cdb, data, block_bytes),
        began,
        data_out_wanted: row.data_out(cdb, block_bytes),
        allocation: row.allocation(cdb),
    }
}

/// Requests admission by the QoS limits. `None` if the command is admitted at once.
fn request_admission(
    path: &Path,
    row: &Row,
    cdb: &Cdb,
    data: &Data,
    attribute: TaskAttribute,
) -> Option<Admission> {
    if row.class != Class::Media {
        return None;
    }
    let limits = BlockLimits::of(path.unit.block_bytes);
    let bytes = |blocks: u64| blocks.saturating_mul(path.unit.block_bytes.into());
    let transferred = match row.operation {
        Operation::Read => bytes(row.extent(cdb).blocks.min(limits.transfer.into())),
        _ => data.len() as u64,
    };
    let cost = Cost { operations: 1, bytes: transferred };
    let unmapped = || opcode::amount(row, cdb, data, path.unit.block_bytes).min(bytes(limits.write_same));
    let charges = path.unit.volume.limiters().charges(cost, row.unmaps(cdb).then(unmapped));
    // Locks of clustered file systems must not be delayed, and HEAD OF QUEUE goes ahead of everything.
    if row.operation == Operation::CompareAndWrite || attribute == TaskAttribute::HeadOfQueue {
        Admission::count(&charges);
        return None;
    }
    Admission::request(charges, path.host())
}

/// What comes with a CDB.
struct Given {
    direction: Direction,
    data: Data,
    notes: Notes,
    located_bytes: u64,
}

/// A command that has to wait before it may begin.
struct Queued {
    row: &'static Row,
    cdb: Cdb,
    given: Given,
    entry: TaskSetEntry,
    admission: Option<Admission>,
}

/// Queues a command until it may be dispatched and is admitted by the QoS limits; it is checked then. Until then it is a
/// task like every other: aborts and resets reach it.
fn queue(path: &Arc<Path>, view: &Arc<View>, tag: u64, info: CommandInfo, queued: Queued) -> Execution {
    let (own_path, own_view) = (path.clone(), view.clone());
    let work = Flow::later(async move {
        let Queued { row, cdb, given, entry, admission } = queued;
        std::future::poll_fn(|context| entry.poll_dispatch(context)).await;
        if let Some(mut admission) = admission {
            std::future::poll_fn(|context| admission.poll(context)).await;
        }
        let mut flow = begin(&own_path, &own_view, (row, &cdb), given, entry.flags())?;
        std::future::poll_fn(|context| flow.poll(context)).await
    });
    let task = Task::new(tag, path.clone(), work, None, info);
    enlist(path, &mut path.tasks(), task)
}

/// Adds a task to the tasks of its path.
fn enlist(path: &Arc<Path>, tasks: &mut BTreeMap<u64, Arc<Task>>, task: Arc<Task>) -> Execution {
    if tasks.contains_key(&task.tag) {
        task.abort(None);
        return Execution::Done(path.refuse(Code::OVERLAPPED.into(), path.unit.clock.now()));
    }
    tasks.insert(task.tag, task.clone());
    Execution::Task(Box::pin(Running::new(task)))
}

/// Makes the checks that every command goes through, in the order of their precedence, and calls its handler.
fn begin(
    path: &Arc<Path>,
    view: &Arc<View>,
    (row, cdb): (&'static Row, &Cdb),
    given: Given,
    flags: Flags,
) -> Result<Flow, Fault> {
    if !flags.plain() {
        check_flags(path, row, cdb, flags)?;
    }
    let Given { direction, mut data, notes, located_bytes } = given;
    if cdb.bytes().len() < row.usage.len() {
        return Err(Code::INVALID_FIELD_IN_CDB.into());
    }
    if let Some((byte, bit)) = row.stray_bit(cdb) {
        return Err(Fault::cdb_bit(byte, bit));
    }
    let wanted = row.data_out(cdb, path.unit.block_bytes);
    let given = data.len() as u64;
    if given > wanted && row.exact() {
        return Err(Code::INVALID_FIELD_IN_CDB.into());
    }
    // Less than the CDB asks for is accepted only from an initiator that announced it: one that announced no Data-Out
    // must not see GOOD.
    let takes_less = row.takes_less() && direction == Direction::Out;
    if given < wanted && !takes_less {
        return Err(Code::SHORT_DATA.into());
    }
    data.truncate(wanted as usize);
    let flow = (row.handler)(Request { path, peers: view, row, cdb, data, notes, located_bytes });
    if let Err(fault) = &flow {
        tracing::debug!(command = row.name, lun = path.lun, ?fault, "refused");
    }
    flow
}

/// Checks what the flags of the path ask for: unit attentions, whether the initiator means this unit, reservations, write
/// protection.
fn check_flags(path: &Arc<Path>, row: &Row, cdb: &Cdb, flags: Flags) -> Result<(), Fault> {
    let reports = flags.unit_attention() && row.conflict != ConflictRule::Open;
    if let Some(sense) = reports.then(|| path.take_unit_attention()).flatten() {
        return Err(sense.into());
    }
    if flags.replaced() && row.conflict != ConflictRule::Open {
        return Err(Code::UNIT_NOT_SUPPORTED.into());
    }
    if flags.reserved() && path.unit.lock().reservations.refuses(path, row, cdb) {
        return Err(Fault::CONFLICT);
    }
    match flags.protected().then(|| path.protection(row.effect)).flatten() {
        Some(code) => Err(code.into()),
        None => Ok(()),
    }
}

/// The response to a CDB that is not in the command table.
fn refuse(path: &Path, cdb: &Cdb, began: u64) -> Response {
    let fault = path.take_unit_attention().map_or_else(|| unknown(cdb), Fault::from);
    path.refuse(fault, began)
}

/// INVALID COMMAND OPERATION CODE, or INVALID FIELD IN CDB if only the service action is unknown.
pub(crate) fn unknown(cdb: &Cdb) -> Fault {
    if opcode::known(cdb.u8(0)) { Fault::cdb_bit(1, 4) } else { Code::INVALID_OPCODE.into() }
}
