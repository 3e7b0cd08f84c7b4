//! Handle of a volume: what its operations share to submit changes and to wait.

use crate::change::{Change, Made};
use crate::commit::depends_on_catalog;
use crate::core::Core;
use crate::entry::BLOCK;
use crate::record::Mutation;
use crate::span::Span;
use crate::state::Refusal;
use block::{Error, Extent, Geometry, Note, Pending, Reply, Result};
use std::sync::Arc;

/// What an operation needs of its volume while it waits.
#[derive(Clone)]
pub struct Handle {
    pub core: Arc<Core>,
    pub number: u32,
    /// Its block length, which never changes.
    pub block_bytes: u32,
    /// What is noted with the change that the operation makes, if it makes one.
    pub note: Option<Note>,
}

impl Handle {
    /// Returns an error as soon as it is certain.
    pub fn refuse(&self, error: Error) -> Pending {
        match depends_on_catalog(&error) {
            true => self.later(|_| std::future::ready(Err(error))),
            false => Pending::ready(Err(error)),
        }
    }

    pub fn later<F>(&self, work: impl FnOnce(Handle) -> F) -> Pending
    where
        F: Future<Output = Result> + Send + 'static,
    {
        let (volume, work) = (self.clone(), work(self.clone()));
        Pending::later(async move { volume.core.confirm_error(work.await).await })
    }

    /// The handle of preparations: the command takes effect later.
    pub fn without_note(&self) -> Self {
        Self { note: None, ..self.clone() }
    }

    pub fn geometry(&self) -> Result<Geometry> {
        self.core.state.read().volume(self.number).map(|volume| volume.geometry)
    }

    pub fn span(&self, extent: Extent) -> Result<Span> {
        Span::of(self.geometry()?, extent)
    }

    /// Makes a change now if that is possible, else as soon as it is.
    pub fn submit(&self, mut change: Change) -> Pending {
        if change.mutations.is_empty() {
            // That it succeeds says that the volume exists, as an error says the opposite.
            return self
                .later(|volume| async move { volume.core.confirm_catalog().await.map(|()| Reply::Done) });
        }
        change.addressed = Some(self.number);
        change.mutations.extend(self.note.map(Mutation::Note));
        let core = self.core.clone();
        core.make_cells(&mut change);
        match core.make(&change, false) {
            Ok(made) => Pending::later(async move { core.acknowledge(made).await.map(|()| Reply::Done) }),
            Err(Refusal::Error(error)) if error != Error::NoSpace => self.refuse(error),
            Err(_) => {
                self.later(|volume| async move { volume.core.change(change).await.map(|()| Reply::Done) })
            }
        }
    }

    /// Makes a change prepared from blocks that it expects; `None` if one of them has changed.
    pub async fn attempt(&self, mut change: Change) -> Result<Option<Reply>> {
        if change.mutations.is_empty() {
            return self.core.confirm_unchanged(&change).await.map(|()| Some(Reply::Done));
        }
        change.addressed = Some(self.number);
        change.mutations.extend(self.note.map(Mutation::Note));
        self.core.make_cells(&mut change);
        let Some(made): Option<Made> = self.core.make_when_possible(&change).await? else { return Ok(None) };
        self.core.acknowledge(made).await.map(|()| Some(Reply::Done))
    }

    /// Converts an error that names a 4 KiB block to the logical blocks of the volume, from this byte of it on.
    pub fn in_blocks(&self, error: Error, from: u64) -> Error {
        match (error, self.geometry()) {
            (Error::Medium { lba }, Ok(geometry)) => {
                Error::Medium { lba: (lba * BLOCK as u64).max(from) / u64::from(geometry.block_bytes) }
            }
            (error, _) => error,
        }
    }
}
