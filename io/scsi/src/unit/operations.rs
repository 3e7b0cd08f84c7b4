//! Third-party copy operations of one path by list identifier: their progress and results, for RECEIVE COPY RESULTS,
//! RECEIVE COPY STATUS (LID4) and RECEIVE ROD TOKEN INFORMATION, and COPY OPERATION ABORT.
//!
//! Identifiers of one byte (LID1) are those of four bytes (LID4) below 256. A result is kept until another copy uses its
//! identifier, or [`MAX_RESULTS`] later ones have come.

use crate::encoding::sense::{Code, Fault};
use crate::unit::command::{CommandResult, Flow};
use crate::unit::path::Path;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Segment descriptors in one list.
pub(crate) const MAX_SEGMENTS: usize = 256;

/// Results that are kept for one path.
const MAX_RESULTS: usize = 256;

/// Sense data of one result at most, so that its length fits in a byte.
const MAX_SENSE_BYTES: usize = 252;

/// The third-party copies of a path.
#[derive(Default)]
pub(crate) struct Operations(Mutex<Table>);

#[derive(Default)]
struct Table {
    operations: BTreeMap<u32, Operation>,
    begun: u64,
}

/// A copy operation, as status commands report it.
#[derive(Clone)]
struct Operation {
    /// The service action of the command.
    action: u8,
    /// Its place in the order of their beginnings.
    begun: u64,
    state: State,
}

#[derive(Clone)]
enum State {
    Running(Option<Arc<Work>>),
    Done(Done),
    Failed {
        sense: Bytes,
        status: u8,
        transferred: Transferred,
    },
    /// By COPY OPERATION ABORT.
    Aborted,
}

/// The result of a copy that succeeded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) segments: usize,
    pub(crate) transferred: Transferred,
    /// It transferred less than the command asked for, and a further command may transfer the rest.
    pub(crate) truncated: bool,
    /// The ROD token that it made.
    pub(crate) token: Option<Bytes>,
}

/// Progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transferred {
    Bytes(u64),
    Blocks(u64),
}

impl Default for Transferred {
    fn default() -> Self {
        Transferred::Bytes(0)
    }
}

/// The work of a copy, which COPY OPERATION ABORT can take away: it has then taken effect whole or never will.
struct Work {
    flow: Mutex<(Option<Flow>, Option<Waker>)>,
}

/// Stores the result of one copy; a copy that is dropped before its end has failed.
pub(crate) struct OperationGuard {
    path: Arc<Path>,
    list_id: Option<u32>,
}

/// The copy operation status of parameter data for LID4 (SPC-5 table 282).
mod status {
    pub(crate) const COMPLETED: u8 = 0x01;
    pub(crate) const COMPLETED_WITH_ERRORS: u8 = 0x02;
    /// Hosts take this for a shorter transfer than they asked for: Windows knows no other such status.
    pub(crate) const COMPLETED_PARTIALLY: u8 = 0x03;
    pub(crate) const IN_PROGRESS: u8 = 0x11;
    pub(crate) const TERMINATED: u8 = 0x60;
}

impl Operations {
    /// Registers a copy by the service action of its command. Refuses an identifier that a running copy of the path uses.
    pub(crate) fn begin(
        path: &Arc<Path>,
        list_id: Option<u32>,
        action: Option<u8>,
    ) -> Result<OperationGuard, Fault> {
        if let Some(list_id) = list_id {
            let mut table = path.copies.0.lock();
            if table.operations.get(&list_id).is_some_and(Operation::is_running) {
                return Err(Code::OPERATION_IN_PROGRESS.into());
            }
            table.begun += 1;
            let (action, begun) = (action.unwrap_or_default(), table.begun);
            table.operations.insert(list_id, Operation { action, begun, state: State::Running(None) });
            table.forget_oldest();
        }
        Ok(OperationGuard { path: path.clone(), list_id })
    }

    fn get(&self, list_id: u32) -> Result<Operation, Fault> {
        self.0.lock().operations.get(&list_id).cloned().ok_or(Fault::cdb_byte(2))
    }

    /// RECEIVE COPY RESULTS, COPY STATUS (LID1) (SPC-4 6.24.2)
    pub(crate) fn status(&self, list_id: u8) -> Result<Vec<u8>, Fault> {
        let (status, segments, transferred) = match self.get(list_id.into())?.state {
            State::Running(_) => (0x00, 0, Transferred::default()),
            State::Done(done) => (0x01, done.segments, done.transferred),
            State::Failed { .. } | State::Aborted => (0x02, 0, Transferred::default()),
        };
        let mut out = vec![0, 0, 0, 8, status];
        out.extend_from_slice(&(segments.min(MAX_SEGMENTS) as u16).to_be_bytes());
        let (unit, count) = match transferred {
            Transferred::Blocks(blocks) => (0xF1, u32::try_from(blocks).unwrap_or(u32::MAX)),
            // In KiB, or in MiB where that does not fit.
            Transferred::Bytes(bytes) => match u32::try_from(bytes >> 10) {
                Ok(count) if bytes.is_multiple_of(1024) => (0x01, count),
                _ => u32::try_from(bytes).map_or((0x02, (bytes >> 20) as u32), |bytes| (0x00, bytes)),
            },
        };
        out.push(unit);
        out.extend_from_slice(&count.to_be_bytes());
        Ok(out)
    }

    /// RECEIVE COPY RESULTS, FAILED SEGMENT DETAILS (LID1) (SPC-4 6.24.5)
    pub(crate) fn failed_segment(&self, list_id: u8) -> Result<Vec<u8>, Fault> {
        let State::Failed { sense, status, .. } = self.get(list_id.into())?.state else {
            return Ok(vec![0; 4]);
        };
        let mut out = vec![0; 60];
        out[56] = status;
        out[58..60].copy_from_slice(&(sense.len() as u16).to_be_bytes());
        out.extend_from_slice(&sense);
        let available = out.len() as u32 - 4;
        out[..4].copy_from_slice(&available.to_be_bytes());
        Ok(out)
    }

    /// RECEIVE COPY STATUS (LID4) (SPC-5 6.32), and with `tokens` RECEIVE ROD TOKEN INFORMATION (SPC-5 6.33).
    pub(crate) fn long_status(&self, list_id: u32, tokens: bool) -> Result<Vec<u8>, Fault> {
        let Operation { action, state, .. } = self.get(list_id)?;
        let (status, completion, sense) = match &state {
            State::Running(_) => (status::IN_PROGRESS, 0, &[][..]),
            State::Done(done) if done.truncated => (status::COMPLETED_PARTIALLY, 0, &[][..]),
            State::Done(_) => (status::COMPLETED, 0, &[][..]),
            State::Failed { sense, status, .. } => (status::COMPLETED_WITH_ERRORS, *status, &sense[..]),
            State::Aborted => (status::TERMINATED, crate::Status::TaskAborted as u8, &[][..]),
        };
        let (segments, transferred, token) = match &state {
            State::Done(done) => (done.segments, done.transferred, done.token.as_ref()),
            State::Failed { transferred, .. } => (0, *transferred, None),
            _ => (0, Transferred::default(), None),
        };
        let sense = &sense[..sense.len().min(MAX_SENSE_BYTES)];
        let padded = sense.len().next_multiple_of(4);
        let mut out = vec![0; 32 + padded];
        (out[4], out[5]) = (action, status);
        out[8..12].copy_from_slice(&u32::MAX.to_be_bytes()); // no estimate of when to ask again
        (out[12], out[13], out[14]) = (completion, padded as u8, sense.len() as u8);
        let (unit, count) = match transferred {
            Transferred::Bytes(bytes) => (0x00, bytes),
            Transferred::Blocks(blocks) => (0xF1, blocks),
        };
        out[15] = unit;
        out[16..24].copy_from_slice(&count.to_be_bytes());
        out[24..26].copy_from_slice(&(segments.min(MAX_SEGMENTS) as u16).to_be_bytes());
        out[32..32 + sense.len()].copy_from_slice(sense);
        if tokens {
            // One descriptor at most: the identifier of the CSCD descriptor that made it, which is zero, and the token.
            let length = token.map_or(0, |token| 2 + token.len());
            out.extend_from_slice(&(length as u32).to_be_bytes());
            if let Some(token) = token {
                out.extend_from_slice(&[0, 0]);
                out.extend_from_slice(token);
            }
        }
        let available = out.len() as u32 - 4;
        out[..4].copy_from_slice(&available.to_be_bytes());
        Ok(out)
    }

    /// COPY OPERATION ABORT (SPC-5 6.3): when this returns, the copy has taken effect whole or never will.
    pub(crate) fn abort(&self, list_id: u32) -> Result<(), Fault> {
        let work = {
            let mut table = self.0.lock();
            let running = table.operations.get_mut(&list_id).filter(|operation| operation.is_running());
            let operation = running.ok_or(Fault::cdb_byte(2))?;
            match std::mem::replace(&mut operation.state, State::Aborted) {
                State::Running(work) => work,
                _ => None,
            }
        };
        if let Some(work) = work {
            let (flow, waker) = std::mem::take(&mut *work.flow.lock());
            drop(flow);
            waker.into_iter().for_each(Waker::wake);
        }
        Ok(())
    }
}

impl Table {
    /// Removes the oldest results beyond the limit; copies in progress stay.
    fn forget_oldest(&mut self) {
        while self.operations.len() > MAX_RESULTS {
            let over = self.operations.iter().filter(|(_, operation)| !operation.is_running());
            let Some(oldest) = over.min_by_key(|(_, operation)| operation.begun).map(|(id, _)| *id) else {
                return;
            };
            self.operations.remove(&oldest);
        }
    }
}

impl Operation {
    fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }
}

impl OperationGuard {
    /// The work of this copy as the flow of its command, which COPY OPERATION ABORT ends.
    pub(crate) fn run(
        self,
        work: impl Future<Output = (Result<Done, Fault>, Transferred)> + Send + 'static,
        immediate: bool,
    ) -> Flow {
        let (path, list_id) = (self.path.clone(), self.list_id);
        let flow = Flow::later(async move {
            let (end, transferred) = work.await;
            let fault = end.as_ref().err().copied();
            self.end(end, transferred);
            // With IMMED the command has succeeded by then, and the status of the copy reports the error.
            fault.filter(|_| !immediate).map_or_else(|| Ok(Default::default()), Err)
        });
        let Some(list_id) = list_id else { return flow };
        let work = Arc::new(Work { flow: Mutex::new((Some(flow), None)) });
        if let Some(operation) = path.copies.0.lock().operations.get_mut(&list_id) {
            operation.state = State::Running(Some(work.clone()));
        }
        Flow::later(Runner(work))
    }

    /// Ends the copy with an error that was found before it began.
    pub(crate) fn refuse(self, fault: Fault) -> Fault {
        self.end(Err(fault), Transferred::default());
        fault
    }

    fn end(&self, end: Result<Done, Fault>, transferred: Transferred) {
        let descriptor = self.path.unit.descriptor_sense.load(std::sync::atomic::Ordering::Relaxed);
        self.store(match end {
            Ok(done) => State::Done(done),
            Err(Fault::Check(sense)) => {
                State::Failed { sense: sense.encode(descriptor), status: 0x02, transferred }
            }
            Err(Fault::Status(status)) => {
                State::Failed { sense: Bytes::new(), status: status as u8, transferred }
            }
        });
    }

    /// Replaces the state of a running copy.
    fn store(&self, state: State) {
        let Some(list_id) = self.list_id else { return };
        let before = self.path.copies.0.lock().operations.get_mut(&list_id).and_then(|operation| {
            operation.is_running().then(|| std::mem::replace(&mut operation.state, state))
        });
        drop(before); // after the lock: it may hold the work, which locks for its end
    }
}

/// Runs the work as the task of its command. Dropping it, as an abort of the task does, drops the work.
struct Runner(Arc<Work>);

impl Future for Runner {
    type Output = CommandResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CommandResult> {
        let mut held = self.0.flow.lock();
        let (flow, waker) = &mut *held;
        let Some(running) = flow else { return Poll::Ready(Err(Code::COPY_ABORTED.into())) };
        let end = running.poll(context);
        match &end {
            Poll::Pending => *waker = Some(context.waker().clone()),
            Poll::Ready(_) => *flow = None,
        }
        end
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let held = std::mem::take(&mut *self.0.flow.lock());
        drop(held);
    }
}

impl Drop for OperationGuard {
    fn drop(&mut self) {
        let status = crate::Status::TaskAborted as u8;
        self.store(State::Failed { sense: Bytes::new(), status, transferred: Transferred::default() });
    }
}
