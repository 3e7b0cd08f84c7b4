//! The spine of I/O commands: table row, QoS admission, checks, handler.

use crate::command::{Request, Work, of_disk};
use crate::controller::Controller;
use crate::path::{Access, InProgress, Path};
use crate::sqe::{ALL_NAMESPACES, Outcome, Sqe};
use crate::status::Status;
use crate::{copy, read_write, reservation};
use block::{Data, Op, Pending};
use export::Operation;
use std::sync::Arc;
use transport::Running;

// Opcodes that are handled before the command tables are consulted.
pub(crate) const FLUSH: u8 = 0x00;
pub(crate) const WRITE: u8 = 0x01;
pub(crate) const COMPARE: u8 = 0x05;
pub(crate) const VERIFY: u8 = 0x0C;

/// State of a started command.
pub(crate) enum Execution {
    /// It has ended.
    Done(Outcome),
    /// It is running.
    Task(Running<Outcome>),
}

impl From<Status> for Execution {
    fn from(status: Status) -> Self {
        Execution::Done(status.into())
    }
}

/// Amount of data of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// None.
    None,
    /// Its number of logical blocks.
    Blocks,
    /// Ranges of this many bytes, counted by dword 10 or 12; a host may send more than the last one.
    Ranges(u64),
    /// A data structure of at least this many bytes.
    AtLeast(u64),
    /// The length that the host asks for.
    Any,
}

/// A row of the command table.
pub(crate) struct Row {
    pub(crate) opcode: u8,
    pub(crate) name: &'static str,
    /// Clause of NVM Command Set 1.0, or of Base 2.0.
    pub(crate) clause: &'static str,
    pub(crate) operation: Operation,
    pub(crate) access: Access,
    pub(crate) length: Length,
    /// Whether the command names a run of blocks by SLBA and NLB.
    pub(crate) has_run: bool,
    handler: fn(Request) -> Result<Work, Status>,
}

const fn row(
    (opcode, name, clause): (u8, &'static str, &'static str),
    (operation, access, length): (Operation, Access, Length),
    has_run: bool,
    handler: fn(Request) -> Result<Work, Status>,
) -> Row {
    Row { opcode, name, clause, operation, access, length, has_run, handler }
}

/// The I/O commands (Base figure 390, NVM Command Set figure 16).
pub(crate) const ROWS: &[Row] = &[
    row(
        (FLUSH, "Flush", "Base 7.1"),
        (Operation::Other, Access::None, Length::None),
        false,
        read_write::flush,
    ),
    row(
        (WRITE, "Write", "3.2.6"),
        (Operation::Write, Access::Write, Length::Blocks),
        true,
        read_write::write,
    ),
    row((0x02, "Read", "3.2.4"), (Operation::Read, Access::Read, Length::Blocks), true, read_write::read),
    row(
        (COMPARE, "Compare", "3.2.1"),
        (Operation::Read, Access::Read, Length::Blocks),
        true,
        read_write::compare,
    ),
    row(
        (0x08, "Write Zeroes", "3.2.8"),
        (Operation::WriteSame, Access::Write, Length::None),
        true,
        read_write::write_zeroes,
    ),
    row(
        (0x09, "Dataset Management", "3.2.3"),
        (Operation::Unmap, Access::Write, Length::Ranges(16)),
        false,
        read_write::dataset_management,
    ),
    row(
        (VERIFY, "Verify", "3.2.5"),
        (Operation::Other, Access::Read, Length::None),
        true,
        read_write::verify,
    ),
    row(
        (0x0D, "Reservation Register", "Base 7.3"),
        (Operation::Other, Access::None, Length::AtLeast(16)),
        false,
        reservation::register,
    ),
    row(
        (0x0E, "Reservation Report", "Base 7.5"),
        (Operation::Other, Access::None, Length::Any),
        false,
        reservation::report,
    ),
    row(
        (0x11, "Reservation Acquire", "Base 7.2"),
        (Operation::Other, Access::None, Length::AtLeast(16)),
        false,
        reservation::acquire,
    ),
    row(
        (0x15, "Reservation Release", "Base 7.4"),
        (Operation::Other, Access::None, Length::AtLeast(8)),
        false,
        reservation::release,
    ),
    row((0x19, "Copy", "3.2.2"), (Operation::Copy, Access::Write, Length::Ranges(32)), false, copy::copy),
];

/// The row of an opcode.
pub(crate) fn find(opcode: u8) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.opcode == opcode)
}

impl Row {
    /// Checks the amount of data that the host announced against what the command needs.
    fn check_data(&self, sqe: &Sqe, block_bytes: u32) -> Result<(), Status> {
        let announced = u64::from(sqe.data_bytes());
        let fits = match self.length {
            Length::None => announced == 0,
            Length::Blocks => announced == sqe.blocks() * u64::from(block_bytes),
            Length::Ranges(bytes) => announced >= self.ranges(sqe) * bytes,
            Length::AtLeast(bytes) => announced >= bytes,
            Length::Any => true,
        };
        if fits { Ok(()) } else { Err(Status::DATA_SGL_LENGTH_INVALID) }
    }

    /// The request for a command, on the path to its namespace, with the required amount of data.
    fn request(&self, controller: &Arc<Controller>, sqe: Sqe, data: Data) -> Result<Request, Status> {
        let path = controller.path_of(&sqe).ok_or(Status::INVALID_NAMESPACE)?;
        self.check_data(&sqe, path.volume.block_bytes())?;
        Ok(Request { controller: controller.clone(), path, sqe, data })
    }

    /// Number of ranges; the fields count from zero.
    fn ranges(&self, sqe: &Sqe) -> u64 {
        let dword = if self.operation == Operation::Copy { 12 } else { 10 };
        u64::from(sqe.dword(dword) & 0xFF) + 1
    }

    /// Bytes that a command reads, writes, deallocates or copies.
    fn bytes(&self, request: &Request) -> u64 {
        let blocks = match self.has_run {
            true => request.sqe.blocks(),
            false => match self.operation {
                Operation::Unmap => read_write::deallocated_blocks(&request.sqe, &request.data),
                Operation::Copy => copy::copied_blocks(&request.sqe, &request.data),
                _ => 0,
            },
        };
        blocks.saturating_mul(request.path.volume.block_bytes().into())
    }

    fn unmaps(&self, sqe: &Sqe) -> bool {
        match self.operation {
            Operation::Unmap => true,
            Operation::WriteSame => read_write::deallocates(sqe),
            _ => false,
        }
    }
}

/// Information about a command for its statistics.
#[derive(Clone, Copy)]
struct Info {
    operation: Operation,
    bytes: u64,
    began: u64,
}

impl Info {
    fn record(self, path: &Path, now: u64, outcome: &Outcome) {
        let latency = outcome.status.is_success().then(|| now.saturating_sub(self.began));
        path.recorder.record(self.operation, self.bytes, latency);
    }
}

/// Starts an I/O command whose data are complete. A command that memory can answer has ended on return.
pub(crate) fn start(controller: &Arc<Controller>, sqe: Sqe, data: Data) -> Execution {
    let Some(row) = find(sqe.opcode()) else { return Status::INVALID_OPCODE.into() };
    if row.opcode == FLUSH && sqe.nsid() == ALL_NAMESPACES {
        // Writes are durable when they complete.
        return Execution::Done(Outcome::success());
    }
    match row.request(controller, sqe, data) {
        Ok(request) => run(row, request, row.handler),
        Err(status) => status.into(),
    }
}

/// Performs both halves of Compare and Write as one operation (NVM Command Set 3.2.1, Base 3.4.2).
pub(crate) fn compare_and_write(
    controller: &Arc<Controller>,
    sqe: Sqe,
    compare: Data,
    write: Data,
) -> Execution {
    const ROW: Row = row(
        (COMPARE, "Compare and Write", "Base 3.4.2"),
        (Operation::CompareAndWrite, Access::Write, Length::Blocks),
        true,
        read_write::compare,
    );
    match ROW.request(controller, sqe, Data::new()) {
        Ok(request) => run(&ROW, request, move |request| {
            request.check_range(request.extent())?;
            request.perform(Op::CompareAndWrite { lba: request.sqe.slba(), compare, write })
        }),
        Err(status) => status.into(),
    }
}

fn run(
    row: &Row,
    request: Request,
    handler: impl FnOnce(Request) -> Result<Work, Status> + Send + 'static,
) -> Execution {
    let controller = request.controller.clone();
    let now = move || controller.clock().now();
    let path = request.path.clone();
    let info = Info { operation: row.operation, bytes: row.bytes(&request), began: now() };
    let (access, name, clause) = (row.access, row.name, row.clause);
    let admission = path.is_limited().then(|| {
        let transferred = if access == Access::None { 0 } else { u64::from(request.sqe.data_bytes()) };
        let unmapped = row.unmaps(&request.sqe).then_some(info.bytes);
        path.request_admission(row.operation, transferred, unmapped)
    });
    if let Some(mut admission) = admission.flatten() {
        return Execution::Task(Box::pin(async move {
            std::future::poll_fn(|cx| admission.poll(cx)).await;
            let outcome = match begin(request, access, handler) {
                Ok((mut work, _entry)) => std::future::poll_fn(|cx| work.poll(cx)).await,
                Err(status) => status.into(),
            };
            info.record(&path, now(), &outcome);
            outcome
        }));
    }
    let (mut work, entry) = match begin(request, access, handler) {
        Ok(begun) => begun,
        Err(status) => {
            tracing::debug!(command = name, clause, nsid = path.nsid, ?status, "refused");
            let outcome = Outcome::from(status);
            info.record(&path, now(), &outcome);
            return Execution::Done(outcome);
        }
    };
    let done = match &mut work {
        Work::Done(outcome) => Some(outcome.clone()),
        Work::Disk(Pending::Ready(result)) => result.take().map(of_disk),
        Work::Disk(Pending::Later(_)) | Work::Later(_) => None,
    };
    if let Some(outcome) = done {
        info.record(&path, now(), &outcome);
        return Execution::Done(outcome);
    }
    Execution::Task(Box::pin(async move {
        let _entry = entry;
        let outcome = std::future::poll_fn(|cx| work.poll(cx)).await;
        info.record(&path, now(), &outcome);
        outcome
    }))
}

/// Performs the checks of every command and calls its handler. A command that writes is counted before the checks, so
/// that a change of the reservation finds it either refused or in progress.
fn begin(
    request: Request,
    access: Access,
    handler: impl FnOnce(Request) -> Result<Work, Status>,
) -> Result<(Work, Option<InProgress>), Status> {
    let entry = (access == Access::Write).then(|| request.path.enter());
    request.path.check(access)?;
    Ok((handler(request)?, entry))
}
