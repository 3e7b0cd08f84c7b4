//! Application of changes that a tap of another engine has seen.

use crate::builder::ChangeBuilder;
use crate::catalog::MAX_BYTES;
use crate::change::{Change, MAX_CHANGE_PAGES, Made};
use crate::engine::Engine;
use crate::entry::BLOCK;
use crate::record::Mutation;
use crate::tap::{Part, Tap, Tapped};
use block::{DiskId, Error, Result};
use std::sync::Arc;

/// Whether any volume can have the blocks of a part.
fn is_within_volumes(part: &Part) -> bool {
    let (block, count) = match part {
        Part::Data { block, data } => (*block, (data.len() / BLOCK) as u64),
        Part::Same { block, count, .. } | Part::Hole { block, count, .. } => (*block, *count),
        _ => return true,
    };
    block.checked_add(count).is_some_and(|end| end <= MAX_BYTES / BLOCK as u64)
}

/// Changes that were made by [`Engine::apply`] and may not be durable yet.
pub struct Applied(Made);

impl Engine {
    /// Sets the tap of volumes, all at one moment; `None` removes it. Those that do not exist are passed over. It ends with the
    /// process.
    pub fn tap(&self, volumes: &[DiskId], tap: Option<&Arc<dyn Tap>>) {
        let mut state = self.core.state.write();
        for id in volumes {
            let Some(number) = state.catalog.number(*id) else { continue };
            match tap {
                Some(tap) => _ = state.taps.insert(number, tap.clone()),
                None => _ = state.taps.remove(&number),
            }
        }
    }

    /// Makes changes that a tap of another engine has seen, all at one moment. Two calls, of which the second begins after the first
    /// has returned, take effect in this order.
    ///
    /// # Errors
    /// As operations on the volumes, and [`Error::Malformed`] for parts that have no content.
    pub async fn apply(&self, changes: &[Tapped]) -> Result<Applied> {
        let mut change = self.applied(changes)?;
        self.core.make_cells(&mut change);
        let made = self.core.make_when_possible(&change).await;
        let made = self.core.confirm_error(made).await?;
        made.map(Applied).ok_or(Error::NotReady)
    }

    /// Waits until changes, and all that were applied before them, are durable.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub async fn confirm(&self, applied: Applied) -> Result<()> {
        self.core.acknowledge(applied.0).await
    }

    fn applied(&self, changes: &[Tapped]) -> Result<Change> {
        if changes.iter().any(|tapped| !is_within_volumes(&tapped.part)) {
            return Err(Error::Malformed("a change of blocks that no volume has"));
        }
        let pages = |tapped: &Tapped| match &tapped.part {
            Part::Data { data, .. } | Part::Same { data, .. } => data.len().div_ceil(BLOCK),
            _ => 0,
        };
        let pages: usize = changes.iter().map(pages).sum();
        if pages > MAX_CHANGE_PAGES {
            return Err(Error::Malformed("more than 256 MiB in one operation"));
        }
        let mut builder = ChangeBuilder::new(pages);
        for Tapped { volume, part } in changes {
            let volume = self.core.state.read().catalog.number(*volume).ok_or(Error::Deleted)?;
            match part {
                Part::Data { block, data } if data.len().is_multiple_of(BLOCK) => {
                    let numbered = (*block..).zip(data.chunks(BLOCK));
                    numbered.for_each(|(block, bytes)| builder.block(volume, block, bytes));
                }
                Part::Same { block, count, data } if data.len() == BLOCK => {
                    builder.same(volume, *block, *count, data);
                }
                Part::Hole { block, count, mapped } => builder.hole(volume, *block, *count, *mapped),
                Part::Resized { blocks } => {
                    builder.mutation(Mutation::Resize { volume, blocks: *blocks });
                }
                _ => return Err(Error::Malformed("a change that has no content")),
            }
        }
        let change = builder.finish();
        match change.mutations.is_empty() {
            true => Err(Error::Malformed("a change of nothing")),
            false => Ok(change),
        }
    }
}
