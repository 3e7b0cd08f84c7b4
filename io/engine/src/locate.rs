//! Located reads: a look-up that says where the bytes are instead of fetching them, so that a controller that shares the store
//! reads them itself.
//!
//! Bytes instead are what a read returns (1) that is part of a sequential stream, as the read-ahead is here, (2) that begins or
//! ends within a block of 4 KiB, and (3) that needs a frame which no other process can read: it is not written yet, or the store
//! does not know how another process reads it.

use crate::core::Core;
use crate::entry::{BLOCK, BlockId, Entry, Kind};
use crate::handle::Handle;
use crate::map::{Need, Seen};
use crate::read::{Blocked, Fetched, Observed};
use crate::space::Location;
use crate::span::Span;
use crate::state::State;
use block::{Extent, FrameBlocks, Pending, Piece, Place, Recipe, Reply, Result};
use shelf::Source;

/// Gathers where blocks are, in order.
struct Locating<'a> {
    core: &'a Core,
    state: &'a State,
    recipe: Recipe,
    batch: u64,
    need: Option<Need>,
    /// Something is not to be located.
    is_here: bool,
}

impl Locating<'_> {
    fn add_zeros(&mut self, bytes: u64) {
        match self.recipe.pieces.last_mut() {
            Some(Piece::Zeros(last)) => *last += bytes,
            _ => self.recipe.pieces.push(Piece::Zeros(bytes)),
        }
    }

    fn add(&mut self, entry: Entry) {
        match self.state.maps.resolve(entry).kind() {
            Kind::Unmapped | Kind::Zero => self.add_zeros(BLOCK as u64),
            Kind::Slot(slot) => {
                self.batch = self.batch.max(slot.batch);
                match self.state.maps.slots.get(slot) {
                    Some(slot) => self.recipe.pieces.push(Piece::Bytes(slot.contents.page.clone())),
                    None => self.is_here = true,
                }
            }
            Kind::Block(block) => self.add_block(block),
        }
    }

    fn add_block(&mut self, block: BlockId) {
        if let Some(Piece::Blocks(last)) = self.recipe.pieces.last_mut()
            && last.frame == block.frame
            && last.first + last.count == block.index
        {
            let more = FrameBlocks { count: last.count + 1, ..*last };
            if more.is_valid() {
                *last = more;
                return;
            }
        }
        let (location, stored) = match self.state.maps.table.get(block.frame) {
            Err(absent) => {
                self.need.get_or_insert(absent.into());
                return;
            }
            Ok(Some(frame)) => (frame.location, frame.stored),
            Ok(None) => return self.is_here = true,
        };
        let Some(source) = self.core.source(location) else { return self.is_here = true };
        let Location { segment, offset, len } = location;
        let writing = (source.writing.generation, source.writing.salt);
        let place = Place { segment, offset, len, writing };
        let blocks = FrameBlocks { frame: block.frame, stored, first: block.index, count: 1, place };
        self.is_here |= !blocks.is_valid();
        self.recipe.opening = source.opening;
        self.recipe.pieces.push(Piece::Blocks(blocks));
    }
}

impl Core {
    /// How another process reads an object of the log.
    fn source(&self, location: Location) -> Option<Source> {
        if self.log.is_in_memory(location) {
            return None;
        }
        self.log.shelf().source(location.segment(), location.offset, location.len)
    }

    /// Locations of all blocks of a span in this state; `None` if they are to be read here.
    fn locate_in(
        &self,
        state: &State,
        volume: u32,
        span: Span,
    ) -> std::result::Result<Option<Observed<Recipe>>, Blocked> {
        let found = state.volume(volume)?;
        span.check(found.geometry)?;
        let (from, count) = span.blocks();
        let (recipe, batch) = (Recipe::default(), found.changed);
        let mut locating = Locating { core: self, state, recipe, batch, need: None, is_here: false };
        state.maps.scan(found.tree, from, from + count, &mut |seen| match seen {
            Seen::Hole(_, count) => locating.add_zeros(count * BLOCK as u64),
            Seen::Blocks(blocks) => blocks.iter().for_each(|entry| locating.add(*entry)),
        })?;
        match locating {
            Locating { is_here: true, .. } => Ok(None),
            Locating { need: Some(need), .. } => Err(need.into()),
            Locating { recipe, batch, .. } => Ok(Some(Observed { what: recipe, batch, marked: false })),
        }
    }
}

impl Handle {
    /// See [`block::Op::Locate`].
    pub fn locate(&self, extent: Extent) -> Result<Pending> {
        let span = self.span(extent)?;
        let (first, count) = span.blocks();
        let core = &self.core;
        if span.len() == 0
            || !span.is_aligned()
            || core.streams.note_located(&core.options.tunables, self.number, first..first + count)
        {
            return self.read(extent);
        }
        let seen = match self.look_for(span) {
            Ok(None) => return self.read(extent),
            Ok(Some(seen)) if seen.batch <= core.journal.durable() => {
                core.activity.note_read();
                return Ok(Pending::ready(Ok(Reply::Located(seen.what))));
            }
            Err(Blocked::Error(error)) => return Err(error),
            seen => seen,
        };
        core.activity.note_read();
        Ok(self.later(move |volume| volume.locate_later(extent, span, seen)))
    }

    async fn locate_later(
        self,
        extent: Extent,
        span: Span,
        mut seen: std::result::Result<Option<Observed<Recipe>>, Blocked>,
    ) -> Result {
        loop {
            match seen {
                Ok(Some(seen)) => return self.core.durable(seen).await.map(Reply::Located),
                Ok(None) => return self.read(extent)?.await,
                Err(blocked) => {
                    let from = extent.lba * u64::from(self.block_bytes);
                    let unblocked = self.core.unblock(blocked, &mut Fetched::default()).await;
                    unblocked.map_err(|error| self.in_blocks(error, from))?;
                }
            }
            seen = self.look_for(span);
        }
    }

    fn look_for(&self, span: Span) -> std::result::Result<Option<Observed<Recipe>>, Blocked> {
        self.core.locate_in(&self.core.state.read(), self.number, span)
    }
}
