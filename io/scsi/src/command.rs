//! What a handler gets and gives: a request whose generic checks are done, and how it goes on.

use crate::cdb::Cdb;
use crate::opcode::Row;
use crate::sense::Fault;
use crate::target::View;
use crate::unit::Path;
use block::{Data, Extent, Pending, Reply};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What a command ends with.
pub(crate) type CommandResult = Result<Completion, Fault>;

pub(crate) type Handler = fn(Request<'_>) -> Result<Flow, Fault>;

/// A command on its way to its handler. All of the generic checks are done.
pub(crate) struct Request<'a> {
    pub(crate) path: &'a Arc<Path>,
    /// What else this initiator sees; nothing beyond it can be named by a command.
    pub(crate) peers: &'a Arc<View>,
    pub(crate) row: &'static Row,
    pub(crate) cdb: &'a Cdb,
    /// Data-Out, as long as the CDB asks for; shorter where the command takes that.
    pub(crate) data: Data,
}

/// The good end of a command.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    pub(crate) data_in: Data,
    /// CONDITION MET instead of GOOD.
    pub(crate) condition_met: bool,
}

/// How a command goes on from its handler.
pub(crate) enum Flow {
    Done(Completion),
    /// The disk's answer is the answer: data that was read, or nothing.
    Disk(Pending),
    Later(Pin<Box<dyn Future<Output = CommandResult> + Send>>),
}

impl Flow {
    /// GOOD without data.
    pub(crate) fn good() -> Self {
        Flow::Done(Completion::default())
    }

    /// GOOD with data.
    pub(crate) fn data(data: impl Into<Data>) -> Self {
        Flow::Done(data.into().into())
    }

    pub(crate) fn later(future: impl Future<Output = CommandResult> + Send + 'static) -> Self {
        Flow::Later(Box::pin(future))
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<CommandResult> {
        match self {
            Flow::Done(answer) => Poll::Ready(Ok(std::mem::take(answer))),
            Flow::Disk(pending) => Pin::new(pending).poll(context).map(finish),
            Flow::Later(future) => future.as_mut().poll(context),
        }
    }
}

/// The end of a command whose answer is the disk's.
pub(crate) fn finish(result: block::Result) -> CommandResult {
    match result? {
        Reply::Data(data) => Ok(data.into()),
        Reply::Done | Reply::Status(_) => Ok(Completion::default()),
    }
}

impl From<Data> for Completion {
    fn from(data_in: Data) -> Self {
        Completion { data_in, condition_met: false }
    }
}

impl Request<'_> {
    /// The run of blocks that the CDB names.
    pub(crate) fn extent(&self) -> Extent {
        self.row.extent(self.cdb)
    }
}
