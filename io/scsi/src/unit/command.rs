//! The interface of a handler: a request whose generic checks are done, and how the command continues.

use crate::encoding::cdb::Cdb;
use crate::encoding::sense::Fault;
use crate::unit::path::Path;
use crate::unit::row::Row;
use crate::unit::view::View;
use block::{Data, Extent, Note, Pending, Recipe, Reply, Sequence};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The result of a command.
pub(crate) type CommandResult = Result<Completion, Fault>;

pub(crate) type Handler = fn(Request<'_>) -> Result<Flow, Fault>;

/// A command for its handler. All generic checks are done.
pub(crate) struct Request<'a> {
    pub(crate) path: &'a Arc<Path>,
    /// All paths of the nexus; a command can name no other unit.
    pub(crate) peers: &'a Arc<View>,
    pub(crate) row: &'static Row,
    pub(crate) cdb: &'a Cdb,
    /// Data-Out, as long as the CDB asks for; shorter only where the command accepts that.
    pub(crate) data: Data,
    pub(crate) notes: Notes,
    /// Bytes of Data-In that may be located instead of read: none, unless its front end reads them itself.
    pub(crate) located_bytes: u64,
}

/// What is noted with the operations of a command: its place among those of its front end, if it came by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notes(pub(crate) Option<Sequence>);

impl Notes {
    /// With this operation the command takes effect as a whole.
    pub(crate) fn whole(self) -> Option<Note> {
        self.step(true)
    }

    /// With this operation a part of the command takes effect: the rest, if it is the last one.
    pub(crate) fn step(self, last: bool) -> Option<Note> {
        self.0.map(|sequence| Note { sequence, whole: last })
    }
}

/// The result of a command that succeeded.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    pub(crate) data_in: Data,
    /// Where the Data-In is, instead of it.
    pub(crate) located: Option<Recipe>,
    /// CONDITION MET instead of GOOD.
    pub(crate) condition_met: bool,
}

/// How a command continues after its handler.
pub(crate) enum Flow {
    Done(Completion),
    /// The result of a disk operation is the result of the command: the data read, or nothing.
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

/// The result of a command that is the result of a disk operation.
pub(crate) fn finish(result: block::Result) -> CommandResult {
    match result? {
        Reply::Data(data) => Ok(data.into()),
        Reply::Located(recipe) => Ok(Completion { located: Some(recipe), ..Completion::default() }),
        Reply::Done | Reply::Status(_) | Reply::Image(_) => Ok(Completion::default()),
    }
}

impl From<Data> for Completion {
    fn from(data_in: Data) -> Self {
        Completion { data_in, ..Completion::default() }
    }
}

impl Request<'_> {
    /// The run of blocks that the CDB names.
    pub(crate) fn extent(&self) -> Extent {
        self.row.extent(self.cdb)
    }
}
