//! Segment cleaning: garbage collection of the log.
//!
//! The log never overwrites, so segments fill with data that nothing refers to any more. The cleaner picks a victim by
//! age and live data, copies what is live out of it (frames at once; metadata by marking it for the next checkpoint),
//! and the checkpoint that follows frees the segment. How much it copies for each flushed byte bounds write
//! amplification, and rises as free segments run out, so that hosts see the same speed at every moment. What is in a victim
//! is read and verified by workers (`window`), and moved in order (`victim`).

mod victim;
mod window;

use crate::appender::Appender;
use crate::core::Core;
use crate::entry::BLOCK;
use crate::space::{Live, Location};
use shelf::Room;
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
