//! An I/O command with its data, and the result of its handler.

use crate::controller::Controller;
use crate::path::Path;
use crate::sqe::{Outcome, Sqe};
use crate::status::Status;
use block::{Data, Extent, Op, Pending, Reply};
use std::sync::Arc;
use std::task::{Context, Poll};
use transport::Running;

/// Result of a handler.
pub(crate) enum Work {
    /// The command has ended.
    Done(Outcome),
    /// The result of a disk operation ends the command.
    Disk(Pending),
    /// The command takes several steps.
    Later(Running<Result<Outcome, Status>>),
}

impl Work {
    pub(crate) fn later(work: impl Future<Output = Result<Outcome, Status>> + Send + 'static) -> Work {
        Work::Later(Box::pin(work))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        match self {
            Work::Done(outcome) => Poll::Ready(outcome.clone()),
            Work::Disk(pending) => std::pin::Pin::new(pending).poll(cx).map(of_disk),
            Work::Later(work) => work.as_mut().poll(cx).map(Outcome::from),
        }
    }
}

/// The outcome of an operation of the disk.
pub(crate) fn of_disk(result: block::Result) -> Outcome {
    match result {
        Ok(Reply::Data(data)) => Outcome::data(data),
        Ok(Reply::Done | Reply::Located(_) | Reply::Status(_) | Reply::Image(_)) => Outcome::success(),
        Err(error) => Status::from(error).into(),
    }
}

/// A command with the inputs of its handler.
pub(crate) struct Request {
    pub(crate) controller: Arc<Controller>,
    pub(crate) path: Arc<Path>,
    pub(crate) sqe: Sqe,
    /// Data that the host sent.
    pub(crate) data: Data,
}

impl Request {
    /// The run of blocks that most commands name.
    pub(crate) fn extent(&self) -> Extent {
        Extent::new(self.sqe.slba(), self.sqe.blocks())
    }

    /// Checks that a run is within the namespace.
    pub(crate) fn check_range(&self, extent: Extent) -> Result<(), Status> {
        let blocks = self.path.volume.geometry().blocks;
        match extent.end() {
            Some(end) if end <= blocks => Ok(()),
            _ => Err(Status::LBA_OUT_OF_RANGE),
        }
    }

    /// Performs an operation on the disk.
    pub(crate) fn perform(&self, op: Op) -> Result<Work, Status> {
        Ok(Work::Disk(self.path.volume.perform(op)))
    }
}
