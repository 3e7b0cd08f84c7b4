//! Segment cleaning: garbage collection of the log.
//!
//! The log never overwrites, so segments fill with data that nothing refers to any more. The cleaner picks a victim by
//! age and live data, copies what is live out of it (frames at once; metadata by marking it for the next checkpoint),
//! and the checkpoint that follows frees the segment. How much it copies for each flushed byte bounds write
//! amplification, and rises as free segments run out, so that hosts see the same speed at every moment.

use crate::appender::Appender;
use crate::checkpoint::page_index;
use crate::core::Core;
use crate::entry::BLOCK;
use crate::frame::{self, Fingerprint, HEADER, Header, ObjectKind, Packer};
use crate::map::Need;
use crate::space::{Live, Location};
use crate::wake::pause;
use bytes::{Bytes, BytesMut};
use shelf::{Room, SegmentId, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Outcome of a step of cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// Live data was moved; there may be more.
    Moved,
    /// A checkpoint is due: it frees segments.
    NeedsCheckpoint,
    /// Nothing can be reclaimed before something changes.
    Nothing,
}

/// The cleaner.
pub struct Cleaner {
    core: Arc<Core>,
    packer: Packer,
    /// Segments that could not be emptied, with the live bytes that they had.
    stuck: BTreeMap<u32, u64>,
    /// Segments that were cleaned since the last checkpoint, or whose metadata was marked for the next.
    marked: BTreeSet<u32>,
    /// Number of segments cleaned since the last checkpoint.
    cleaned: usize,
    /// Number of changes and room on the drives when the last step reclaimed nothing: wait until either differs.
    exhausted: Option<(u64, Room)>,
    rounds: Rounds,
    /// Bytes to be moved before more is flushed.
    to_move_bytes: u64,
}

/// Rounds of cleaning, each ended by a checkpoint, during which hosts changed nothing.
#[derive(Default)]
struct Rounds {
    changes: u64,
    /// Bytes that could be written when the round began: checkpoints between rounds use some.
    free_bytes: u64,
    /// Rounds in a row that gained less than a block. What a victim held lies in an open segment then, so a round need not
    /// gain a whole segment.
    fruitless: u32,
    /// The most bytes that could be written after a round.
    best_free_bytes: u64,
    /// Segments cleaned since then. What rounds gain, checkpoints between them may use: for some time that brings the
    /// log into order, but it need not end.
    cleaned_since_best: usize,
    /// The most segments that could be written when cleaning was given up.
    room: u32,
}

impl Rounds {
    /// Counts a round that cleaned this many segments, and after which this many bytes can be written.
    fn end(&mut self, cleaned: usize, free_bytes: u64) {
        let gained = free_bytes >= self.free_bytes + BLOCK as u64;
        self.fruitless = if gained { 0 } else { self.fruitless + 1 };
        if free_bytes >= self.best_free_bytes + BLOCK as u64 {
            (self.best_free_bytes, self.cleaned_since_best) = (free_bytes, 0);
        } else {
            self.cleaned_since_best += cleaned;
        }
    }

    /// Whether to give up: no round gains anything, or as many segments as there are were cleaned to no end.
    fn are_useless(&self, max_fruitless: u32, segments: usize) -> bool {
        self.fruitless >= max_fruitless || self.cleaned_since_best >= segments
    }

    /// Begins again with more room than whenever cleaning was given up, and returns whether it does: the file systems below
    /// have got space back. Room that cleaning itself gains and loses does not count, so it ends.
    fn begin_again(&mut self, room: u32) -> bool {
        let more = room > self.room;
        if more {
            (self.room, self.fruitless, self.cleaned_since_best) = (room, 0, 0);
        }
        more
    }
}

impl Cleaner {
    /// A cleaner with nothing to do yet.
    pub fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            packer: Packer::default(),
            stuck: BTreeMap::new(),
            marked: BTreeSet::new(),
            cleaned: 0,
            exhausted: None,
            rounds: Rounds::default(),
            to_move_bytes: 0,
        }
    }

    /// Something changed that may have made segments reclaimable.
    pub fn retry(&mut self) {
        self.exhausted = None;
    }

    /// Decides how much to clean after `flushed` bytes were flushed: the fewer segments are free, the more. False if
    /// enough are free.
    pub fn plan(&mut self, appender: &Appender, flushed: u64) -> bool {
        let (min, enough) = (self.core.reserved_from_data(), self.core.clean_below());
        if appender.protected_free_count() >= enough {
            self.to_move_bytes = 0;
            return false;
        }
        // What has been cleaned becomes free with the next checkpoint.
        let free = appender.protected_free_count() + self.cleaned;
        let (missing, all) = (enough.saturating_sub(free), enough - min);
        self.to_move_bytes +=
            flushed * self.core.options.tunables.moved_per_flushed_byte_max * missing.min(all) as u64
                / all as u64;
        true
    }

    /// Whether more has to be moved before more is flushed.
    pub fn is_owing(&self, appender: &Appender) -> bool {
        self.to_move_bytes > 0 && appender.protected_free_count() < self.core.clean_below()
    }

    /// Counts moved bytes.
    pub fn note_moved(&mut self, bytes: u64) {
        let min = u64::from(self.core.layout.stripe_bytes);
        self.to_move_bytes = self.to_move_bytes.saturating_sub(bytes.max(min));
    }

    /// Nothing can be moved now.
    pub fn give_up(&mut self) {
        self.to_move_bytes = 0;
    }

    /// Moves live data out of a segment as long as there is room for it; then asks for a checkpoint, which frees the
    /// empty segments. `catalog` is where the catalog lies.
    pub async fn step(&mut self, appender: &mut Appender, catalog: &[Location]) -> block::Result<Cleaned> {
        let changes = self.core.activity.changes();
        let now = (changes, self.core.log.shelf().room());
        if self.exhausted == Some(now) {
            return Ok(Cleaned::Nothing);
        }
        if self.rounds.changes != changes {
            let free_bytes = appender.free_bytes();
            let (best_free_bytes, room) = (free_bytes, now.1.any);
            self.rounds = Rounds { changes, free_bytes, best_free_bytes, room, ..Rounds::default() };
        }
        let max_fruitless = self.core.options.tunables.fruitless_rounds_max;
        let segments = self.core.state.read().maps.usage.segments().len();
        if self.rounds.are_useless(max_fruitless, segments) && !self.rounds.begin_again(now.1.any) {
            self.exhausted = Some(now);
            return Ok(Cleaned::Nothing);
        }
        if self.cleaned == 0 {
            self.rounds.free_bytes = appender.free_bytes();
        }
        appender.begin_cleaning();
        let dead = appender.dead_count();
        let reclaimable = self.cleaned > 0 || dead > 0;
        let soon = appender.writable_count() <= self.core.reserved_for_checkpoints()
            || dead >= self.core.clean_below();
        if !(reclaimable && soon) && self.clean(appender, catalog).await? {
            return Ok(Cleaned::Moved);
        }
        // Without room to move a victim to, a checkpoint may still free segments that hold metadata alone.
        if reclaimable || self.cleaned > 0 {
            self.mark_metadata(appender, catalog).await?;
            return Ok(Cleaned::NeedsCheckpoint);
        }
        self.exhausted = Some(now);
        Ok(Cleaned::Nothing)
    }

    /// A checkpoint has freed these segments: a round is over, after which this many bytes can be written.
    pub fn end_checkpoint(&mut self, freed: &[u32], free_bytes: u64) {
        self.marked.clear();
        freed.iter().for_each(|segment| _ = self.stuck.remove(segment));
        match std::mem::take(&mut self.cleaned) {
            0 => {}
            cleaned => self.rounds.end(cleaned, free_bytes),
        }
    }

    /// Cleans the best victim. False if there is none, or no room to move things to.
    async fn clean(&mut self, appender: &mut Appender, catalog: &[Location]) -> block::Result<bool> {
        let Some(victim) = self.victim(appender, |_| true) else { return Ok(false) };
        let before = self.core.state.read().maps.usage.of(victim);
        self.move_segment(appender, catalog, victim).await?;
        self.cleaned += 1;
        let after = self.core.state.read().maps.usage.of(victim);
        if after.data > 0 {
            // Something in it can't be read, or there was no room: not again before it has changed.
            self.stuck.insert(victim, after.total());
        }
        Ok(after.data < before.data || before.meta > 0)
    }

    /// Marks metadata in segments that hold little else, as much as a checkpoint may well write, so that it frees more
    /// segments than it fills.
    async fn mark_metadata(&mut self, appender: &mut Appender, catalog: &[Location]) -> block::Result<()> {
        while self.core.dirty_bytes() < self.core.dirty_limit() {
            let Some(victim) = self.victim(appender, |live| live.data == 0) else { break };
            self.move_segment(appender, catalog, victim).await?;
            self.cleaned += 1;
        }
        Ok(())
    }

    /// Victim selection by cost and benefit: the segment with the best ratio of reclaimed bytes, weighted by the
    /// segment's age, to bytes read and written.
    fn victim(&self, appender: &Appender, fits: impl Fn(Live) -> bool) -> Option<u32> {
        let open = appender.open_segments();
        let size = u64::from(self.core.layout.segment_bytes);
        let limit = size * self.core.options.tunables.victim_live_16ths_max / 16;
        let state = self.core.state.read();
        let worth =
            |segment: u32, live: u64| (size - live.min(size)) * appender.age(segment) * 1024 / (size + live);
        (0..)
            .zip(state.maps.usage.segments())
            .filter(|(_, live)| fits(**live))
            .map(|(segment, live)| (segment, live.total()))
            .filter(|(segment, live)| {
                (1..limit).contains(live)
                    && !appender.is_free(*segment)
                    && !open.contains(segment)
                    && self.stuck.get(segment) != Some(live)
                    && !self.marked.contains(segment)
            })
            .max_by_key(|(segment, live)| worth(*segment, *live))
            .map(|(segment, _)| segment)
    }

    async fn move_segment(
        &mut self,
        appender: &mut Appender,
        catalog: &[Location],
        segment: u32,
    ) -> block::Result<()> {
        self.marked.insert(segment);
        let (size, stripe) = (self.core.layout.segment_bytes, self.core.layout.stripe_bytes);
        let mut window = Window { base: 0, bytes: Bytes::new() };
        let mut at = 0;
        while at < size {
            if self.core.state.read().maps.usage.of(segment).total() == 0 {
                break;
            }
            let next_stripe = (at / stripe + 1) * stripe;
            let Some(header) = self.header_at(&mut window, segment, at).await? else {
                at = next_stripe;
                continue;
            };
            let len = header.len() as u32;
            let Some(object) = self.object_at(&mut window, segment, at, len).await? else {
                at = next_stripe;
                continue;
            };
            let location = Location { segment, offset: at, len };
            if !self.move_object(appender, catalog, location, &header, object).await? {
                return Ok(());
            }
            at += len;
            appender.grant_credit();
            pause().await;
        }
        Ok(())
    }

    async fn header_at(&self, window: &mut Window, segment: u32, at: u32) -> block::Result<Option<Header>> {
        let bytes = self.bytes_at(window, segment, at, HEADER as u32).await?;
        Ok(bytes.and_then(|bytes| Header::decode(&bytes).ok()))
    }

    async fn object_at(
        &self,
        window: &mut Window,
        segment: u32,
        at: u32,
        len: u32,
    ) -> block::Result<Option<Bytes>> {
        let bytes = self.bytes_at(window, segment, at, len).await?;
        Ok(bytes.filter(|bytes| frame::verify(bytes).is_ok()))
    }

    /// Bytes of a segment through the window; `None` beyond its end, or where nothing can be read.
    async fn bytes_at(
        &self,
        window: &mut Window,
        segment: u32,
        at: u32,
        len: u32,
    ) -> block::Result<Option<Bytes>> {
        let size = self.core.layout.segment_bytes;
        if u64::from(at) + u64::from(len) > u64::from(size) {
            return Ok(None);
        }
        if window.get(at, len).is_none() {
            // Stripe by stripe: a segment may end early, and reading beyond its end fails.
            let stripe = self.core.layout.stripe_bytes;
            let mut bytes = BytesMut::new();
            let base = at / stripe * stripe;
            let mut next = base;
            while next < size
                && (next < at + len || next - base < self.core.options.tunables.clean_window_bytes)
            {
                let (done, read) = wait();
                self.core.log.shelf().read(SegmentId(segment), next, stripe, done);
                let Ok(read) = read.await else { break };
                bytes.extend_from_slice(&read);
                next += stripe;
            }
            *window = Window { base, bytes: bytes.freeze() };
        }
        Ok(window.get(at, len))
    }

    /// Moves an object if it is live. False if there is no room.
    async fn move_object(
        &mut self,
        appender: &mut Appender,
        catalog: &[Location],
        location: Location,
        header: &Header,
        object: Bytes,
    ) -> block::Result<bool> {
        let number = header.number;
        match header.kind {
            ObjectKind::Frame => return self.move_frame(appender, location, header, object).await,
            ObjectKind::Map => {
                if self.core.state.read().maps.page_index.get(number).location == location
                    && self.core.load(Need::Map(number)).await.is_ok()
                {
                    self.core.state.write().maps.mark(number);
                }
            }
            ObjectKind::Table => {
                if self.core.state.read().maps.table.page_index.get(number).location == location
                    && self.core.load(Need::Table(number)).await.is_ok()
                {
                    self.core.state.write().maps.table.mark(number);
                }
            }
            kind @ (ObjectKind::MapIndex | ObjectKind::TableIndex) => {
                let mut state = self.core.state.write();
                let page_index = page_index(kind, &mut state.maps);
                if page_index.locations.get(&number) == Some(&location) {
                    page_index.mark(number);
                }
            }
            ObjectKind::Catalog => {
                if catalog.contains(&location) {
                    self.core.state.write().catalog.dirty = true;
                }
            }
            ObjectKind::Index => {
                if self.core.state.read().maps.index_log.holds(number, location) {
                    let Some(new) = appender.append_index(object).await? else { return Ok(false) };
                    self.core.state.write().maps.move_index_object(number, new);
                }
            }
            ObjectKind::Root => {}
        }
        Ok(true)
    }

    async fn move_frame(
        &mut self,
        appender: &mut Appender,
        location: Location,
        header: &Header,
        object: Bytes,
    ) -> block::Result<bool> {
        let number = header.number;
        let found = self.core.state.read().maps.table.get(number).map(|frame| frame.cloned());
        let found = match found {
            Ok(found) => found,
            Err(absent) => {
                if self.core.load(absent.into()).await.is_err() {
                    return Ok(true);
                }
                self.core.state.read().maps.table.get(number).ok().flatten().cloned()
            }
        };
        let Some(frame) = found.filter(|frame| frame.location == location) else { return Ok(true) };
        let live = frame.live();
        if frame.stored != header.stored || live & !header.stored != 0 {
            let (has, stored) = (header.stored, frame.stored);
            let what = format!("frame {number} at {location} holds blocks {has:#b}, not {stored:#b}");
            self.core.inconsistencies.note(what);
            return Ok(true);
        }
        let object = if live == header.stored {
            object
        } else {
            match without_dead(&mut self.packer, &object, header, live) {
                Some(object) => object,
                None => return Ok(true),
            }
        };
        let Some(new) = appender.append_moved(object).await? else { return Ok(false) };
        let maps = &mut self.core.state.write().maps;
        // It may have died while it was written; then the copy is dead too.
        let is_current =
            maps.table.get(number).ok().flatten().is_some_and(|frame| frame.location == location);
        if is_current {
            maps.table.relocate(number, new, live, &mut maps.usage);
        }
        Ok(true)
    }
}

/// A verified frame with only its live blocks; `None` if it can't be decoded.
fn without_dead(packer: &mut Packer, object: &Bytes, header: &Header, live: u8) -> Option<Bytes> {
    let decoded = frame::unpack(object, header.number).ok()?;
    let known = frame::fingerprints(object, header).ok()?;
    let stored = (0..8u8).filter(|index| header.stored >> index & 1 == 1);
    let (mut blocks, mut fingerprints) = (Vec::<Bytes>::new(), Vec::<Fingerprint>::new());
    for (index, fingerprint) in stored.zip(known).filter(|(index, _)| live >> index & 1 == 1) {
        blocks.extend(decoded.blocks(index, 1));
        fingerprints.push(fingerprint);
    }
    let blocks = blocks.iter().map(|block| &block[..]);
    Some(packer.pack(header.number, live, blocks, &fingerprints, header.method(), header.skipped))
}

/// Bytes of a segment that were read ahead.
struct Window {
    base: u32,
    bytes: Bytes,
}

impl Window {
    fn get(&self, at: u32, len: u32) -> Option<Bytes> {
        let from = at.checked_sub(self.base)? as usize;
        let to = from + len as usize;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }
}

#[cfg(test)]
mod tests {
    use super::Rounds;

    #[test]
    fn cleaning_begins_again_only_with_more_room_than_ever() {
        let mut rounds = Rounds { room: 10, ..Rounds::default() };
        let mut restarts = 0;
        for room in [10, 9, 10, 11, 11, 8, 11, 12] {
            rounds.fruitless = 20;
            restarts += u32::from(rounds.begin_again(room) && rounds.fruitless == 0);
        }
        assert_eq!((restarts, rounds.room), (2, 12));
    }

    #[test]
    fn cleaning_ends_if_what_it_gains_is_used_between_rounds() {
        let mut rounds = Rounds { best_free_bytes: 1000 * 4096, ..Rounds::default() };
        let mut cleaned = 0;
        while !rounds.are_useless(20, 64) {
            rounds.free_bytes = 900 * 4096;
            rounds.end(3, 1000 * 4096);
            cleaned += 3;
        }
        assert_eq!((rounds.fruitless, cleaned), (0, 66));
    }

    #[test]
    fn cleaning_goes_on_as_long_as_it_gains() {
        let mut rounds = Rounds::default();
        for round in 1..1000 {
            rounds.free_bytes = (round - 1) * 4096;
            rounds.end(3, round * 4096);
            assert!(!rounds.are_useless(20, 64));
        }
    }
}
