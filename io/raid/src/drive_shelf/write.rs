//! Stripes on their way to the drives: payload becomes sectors, sectors get parity, every drive gets one write.

use super::segments::{Deferred, Run};
use super::{DriveShelf, Member};
use crate::sector::{PAYLOAD_BYTES, Position};
use crate::segment_map::{Column, Entry};
use crate::{ALIGN, AlignedBuf, Done, Error, Result, Shelf, parity};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A write of some rows of a segment.
struct Writing {
    segment: u32,
    entry: Arc<Entry>,
    rows: (u32, u32),
    state: Mutex<State>,
}

/// By column, who gets it.
type Targets = Vec<Option<(Column, Arc<Member>)>>;

struct State {
    left: usize,
    /// Columns that were written completely.
    whole: usize,
    failure: Option<Error>,
    done: Option<Done<()>>,
}

impl State {
    fn new(targets: &Targets, done: Done<()>) -> Self {
        // One more, so that it can't complete before everything was submitted.
        let left = 1 + targets.iter().flatten().count();
        Self { left, whole: 0, failure: None, done: Some(done) }
    }
}

impl DriveShelf {
    pub(super) fn write_stripes(&self, segment: u32, offset: u32, stripes: Arc<AlignedBuf>, done: Done<()>) {
        if let Err(cause) = self.check_running() {
            return done(Err(cause));
        }
        let len = stripes.len() as u32;
        let layout = self.layout();
        layout.assert_stripes(shelf::SegmentId(segment), offset, stripes.len());
        let rows = (offset / layout.stripe_bytes, (offset + len) / layout.stripe_bytes);
        let entry = {
            let mut segments = self.segments.lock();
            let found = &mut segments.list[segment as usize];
            if let Some(gate) = &mut found.gate {
                gate.push(Box::new(move |shelf| shelf.write_stripes(segment, offset, stripes, done)));
                drop(segments);
                return self.background.hurry();
            }
            if let Some(allocating) = &mut found.allocating {
                return allocating
                    .push(Box::new(move |shelf| shelf.write_stripes(segment, offset, stripes, done)));
            }
            if segments.is_doomed(segment) {
                let runs = segments.begin_discard(segment);
                drop(segments);
                self.discard_runs(runs);
                return self.write_stripes(segment, offset, stripes, done);
            }
            let is_free = segments.list[segment as usize].entry.is_none();
            if is_free && (segments.discarding > 0 || segments.awaits_doomed()) {
                let again: Deferred =
                    Box::new(move |shelf| shelf.write_stripes(segment, offset, stripes, done));
                return segments.waiting.push(again);
            }
            let known = segments.list[segment as usize].entry.clone();
            let is_new = known.is_none();
            let Some(entry) = known.or_else(|| segments.place(segment)) else {
                drop(segments);
                let what = format!("the drives that are left have no room for segment {segment}");
                return done(Err(Error::Drive { what }));
            };
            if is_new && self.is_sparse(&entry) {
                let again: Deferred =
                    Box::new(move |shelf| shelf.write_stripes(segment, offset, stripes, done));
                segments.list[segment as usize].allocating = Some(vec![again]);
                drop(segments);
                return self.allocate(segment, entry);
            }
            segments.begin(segment, rows);
            entry
        };
        self.counters.foreground.fetch_add(1, Ordering::Relaxed);
        let (me, targets) = (self.me.clone(), self.targets(&entry));
        let writing = Writing { segment, entry, rows, state: Mutex::new(State::new(&targets, done)) };
        self.workers().run(move || {
            if let Some(shelf) = me.upgrade() {
                shelf.write_rows(Arc::new(writing), targets, &stripes);
            }
        });
    }

    /// The members that get a column of a segment; columns without one are left out.
    fn targets(&self, entry: &Entry) -> Targets {
        let member = |column: Column| Some((column, self.member(usize::from(column.slot))?));
        let columns = entry.columns.iter().map(|column| column.filter(|column| !column.stale));
        columns.map(|column| column.and_then(member)).collect()
    }

    fn write_rows(&self, writing: Arc<Writing>, targets: Targets, stripes: &[u8]) {
        let (entry, rows) = (&writing.entry, writing.rows);
        let width = entry.profile.width();
        let chunk = self.plan.chunk_pages(entry.profile) as usize * ALIGN;
        let mut pieces: Vec<Vec<Bytes>> = vec![Vec::with_capacity((rows.1 - rows.0) as usize); width];
        for (row, stripe) in (rows.0..).zip(stripes.chunks_exact(self.plan.stripe_bytes() as usize)) {
            let columns = self.stripe(entry, row, stripe);
            for part in 0..width {
                pieces[entry.index(row, part)].push(columns.slice(part * chunk..(part + 1) * chunk));
            }
        }
        for (target, pieces) in targets.into_iter().zip(pieces) {
            let Some((column, member)) = target else { continue };
            let at = self.plan.page_at(entry.profile, column.granule, rows.0, 0);
            self.write_column(&writing, member, at, pieces);
        }
        self.column_written(&writing, None, Ok(()));
    }

    /// Writes one column. If there is no space below the drive, in spite of the reservation, the write waits.
    fn write_column(&self, writing: &Arc<Writing>, member: Arc<Member>, at: u64, pieces: Vec<Bytes>) {
        if let Err(cause) = self.check_running() {
            // A retry after the shelf stopped: it says nothing about the drive.
            return self.column_written(writing, None, Err(cause));
        }
        let kept = member.is_sparse().then(|| pieces.clone());
        let (me, writing, drive) = (self.me.clone(), writing.clone(), member.clone());
        let ended = move |outcome: Result| {
            let Some(shelf) = me.upgrade() else { return };
            match (outcome, kept) {
                (Err(cause @ Error::NoSpace { .. }), Some(pieces)) => {
                    let again: Deferred =
                        Box::new(move |shelf| shelf.write_column(&writing, drive, at, pieces));
                    shelf.defer_write(&cause, again);
                }
                (outcome, _) => shelf.column_written(&writing, Some(drive.slot), outcome),
            }
        };
        member.write(at, pieces, false, Box::new(ended));
    }

    /// The sectors and parities of a stripe, column after column.
    fn stripe(&self, entry: &Entry, row: u32, payload: &[u8]) -> Bytes {
        let chunk = self.plan.chunk_pages(entry.profile) as usize * ALIGN;
        let mut buffer = self.stripe_buffers.take(entry.profile.width() * chunk);
        let data = usize::from(entry.profile.data) * chunk;
        let first = row * self.plan.stripe_pages;
        let makes = self.keyring.sectors(entry.salt);
        let (sectors, parities) = buffer.split_at_mut(data);
        for ((payload, sector), page) in
            payload.chunks(PAYLOAD_BYTES).zip(sectors.chunks_exact_mut(ALIGN)).zip(first..)
        {
            makes.write(Position { generation: entry.generation, page }, payload, sector);
        }
        sectors[self.plan.stripe_pages as usize * ALIGN..].fill(0);
        let columns: Vec<&[u8]> = sectors.chunks_exact(chunk).collect();
        match entry.profile.parity {
            0 => {}
            1 => parity::compute(&columns, parities, None),
            _ => {
                let (p, q) = parities.split_at_mut(chunk);
                parity::compute(&columns, p, Some(q));
            }
        }
        self.stripe_buffers.share(buffer)
    }

    fn column_written(&self, writing: &Arc<Writing>, slot: Option<usize>, outcome: Result) {
        if let (Err(cause), Some(slot)) = (&outcome, slot) {
            self.fail_drive(slot, cause);
        }
        let ended = {
            let mut state = writing.state.lock();
            state.left -= 1;
            state.whole += usize::from(outcome.is_ok() && slot.is_some());
            if let Err(cause) = outcome {
                state.failure.get_or_insert(cause);
            }
            let (whole, failure, left) = (state.whole, state.failure.take(), state.left);
            if left > 0 {
                state.failure = failure;
                return;
            }
            (state.done.take(), whole, failure)
        };
        let (Some(done), whole, failure) = ended else { return };
        let drained = self.segments.lock().written(writing.segment, writing.entry.generation, writing.rows);
        if let Some(drained) = drained {
            drained(Ok(()));
        }
        done(if whole >= usize::from(writing.entry.profile.data) {
            Ok(())
        } else {
            let none =
                Error::Drive { what: format!("too few drives are left for segment {}", writing.segment) };
            Err(failure.unwrap_or(none))
        });
    }

    /// Gives the space of a segment back to the drives: now, or when few others are under way, so that writes to new segments wait
    /// for few.
    pub(super) fn discard_segment(&self, segment: u32) {
        let runs = {
            let mut segments = self.segments.lock();
            assert!((segment as usize) < segments.list.len(), "segment {segment} exists");
            if let Some(gate) = &mut segments.list[segment as usize].gate {
                gate.push(Box::new(move |shelf| shelf.discard_segment(segment)));
                drop(segments);
                return self.background.hurry();
            }
            if segments.discarding >= self.limits.discarded_segments_max {
                return segments.doom(segment);
            }
            segments.begin_discard(segment)
        };
        self.discard_runs(runs);
    }

    /// Discards the next ones of those that are to be discarded. Discards that complete at once would call this again: they leave the
    /// rest to the call that is under way.
    fn discard_doomed(&self) {
        if std::mem::replace(&mut self.segments.lock().discards_doomed, true) {
            return;
        }
        loop {
            let runs = {
                let mut segments = self.segments.lock();
                let may_begin = segments.discarding < self.limits.discarded_segments_max;
                let next = if may_begin { segments.next_doomed() } else { None };
                let Some(segment) = next else {
                    segments.discards_doomed = false;
                    let none_left = may_begin && segments.discarding == 0;
                    let waiting = if none_left { std::mem::take(&mut segments.waiting) } else { Vec::new() };
                    drop(segments);
                    return waiting.into_iter().for_each(|next| next(self));
                };
                if segments.list[segment as usize].gate.is_some() {
                    // What waits there may be a write, which has to find that the segment is to be discarded.
                    segments.doom(segment);
                    segments.discards_doomed = false;
                    let gate = &mut segments.list[segment as usize].gate;
                    gate.iter_mut().for_each(|gate| gate.push(Box::new(|shelf| shelf.discard_doomed())));
                    return;
                }
                segments.begin_discard(segment)
            };
            self.discard_runs(runs);
        }
    }

    /// Discards runs on the drives. `discarding` counts them already.
    pub(super) fn discard_runs(&self, runs: Vec<Run>) {
        if runs.is_empty() {
            return;
        }
        let me = self.me.clone();
        let ended: Done<()> = Box::new(move |_| {
            let Some(shelf) = me.upgrade() else { return };
            let (waiting, room) = {
                let mut segments = shelf.segments.lock();
                segments.discarding -= 1;
                if segments.discarding > 0 {
                    return;
                }
                (std::mem::take(&mut segments.waiting), segments.room_protected())
            };
            waiting.into_iter().for_each(|next| next(&shelf));
            shelf.discard_doomed();
            shelf.background.has_room(room);
        });
        let members: Vec<(Run, Option<Arc<Member>>)> = runs
            .into_iter()
            .map(|run| (self.member(run.slot), run))
            .map(|(member, run)| (run, member))
            .collect();
        let gather = super::gather::Gather::new(members.len(), (), ended);
        for (run, member) in members {
            let gather = gather.clone();
            let (me, slot) = (self.me.clone(), run.slot);
            let part: Done<()> = Box::new(move |outcome: Result| {
                // A drive with a failed discard is removed: a late discard would destroy what is written there next.
                if let (Err(cause), Some(shelf)) = (&outcome, me.upgrade()) {
                    shelf.fail_drive(slot, cause);
                }
                gather.part(outcome, |(), ()| ());
            });
            match member {
                Some(member) => member.discard(run.at, run.bytes, part),
                None => part(Ok(())),
            }
        }
    }
}

#[cfg(test)]
#[path = "write_test.rs"]
mod tests;
