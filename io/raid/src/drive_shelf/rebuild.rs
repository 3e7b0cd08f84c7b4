//! The background: what is at risk is placed again, worst first; what was found wrong is repaired.
//!
//! All of it is known from the map and the labels, so nothing has to be remembered over a restart: a segment is at risk
//! when a column of it is missing or on a drive that is out or leaving. Its lost columns are computed and written to
//! drives that have none of it; where there is no such drive, the whole segment is written again in a form for the
//! drives that there are. So is one that was placed with less parity while drives or space were short. Writes to a
//! segment wait while it is moved; reads go on at the old place.

use super::read::How;
use super::{DriveShelf, Member};
use crate::DriveState;
use crate::geometry::{Form, MOST_COLUMNS};
use crate::journal::Ring;
use crate::segment_map::{Column, Entry};
use crate::{ALIGN, AlignedBuf, Done, Error, Result, Wait, parity, wait};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes a second that the background may write while hosts are served, and while they are not.
const BUSY_PACE: u64 = 100 << 20;
const IDLE_PACE: u64 = 2 << 30;

/// How many times as long as without the background a drive may take under it, in the median, and what counts as no time,
/// in µs. Beyond, the background gets half of its pace, and then a quarter: what is at risk can't wait for ever.
const BEARABLE: u64 = 2;
const PROMPT: u64 = 1_000;
const WHOLE: u64 = 4;

/// Bytes of a journal copy made at once.
const COPIED: u64 = 1 << 20;

#[derive(Default)]
pub struct Background(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: Option<Done<()>>,
    wanted: bool,
    /// Segments in which something was found wrong.
    suspects: BTreeSet<u32>,
    /// What is at risk, the worst last; none when that is to be found out. What could not be placed elsewhere is in it
    /// again when something has changed.
    queue: Option<Vec<u32>>,
    /// There was no room for something, when there was room for so many segments.
    short: Option<u32>,
    /// When the clock last struck, the operations counted then, and the bytes that may be written.
    clock: Option<(Duration, u64)>,
    budget: i64,
    /// Quarters of the pace that it has lost while hosts are served.
    lost: u64,
    /// Bytes written since the drives were last judged, and what they took without the background.
    spent: u64,
    calm: u64,
    paced: Option<Done<()>>,
    copying: bool,
    copied: Vec<Done<()>>,
}

impl Background {
    /// Something may have to be done.
    pub fn wake(&self) {
        let waiting = {
            let mut state = self.0.lock();
            state.wanted = true;
            (state.queue, state.short) = (None, None);
            state.waiting.take()
        };
        if let Some(waiting) = waiting {
            waiting(Ok(()));
        }
    }

    /// There is room for so many segments, which may be enough for what there was none for.
    pub fn has_room(&self, room: u32) {
        if self.0.lock().short.is_some_and(|before| room > before) {
            self.wake();
        }
    }

    pub fn suspect(&self, segment: u32) {
        let waiting = {
            let mut state = self.0.lock();
            state.suspects.insert(segment);
            state.wanted = true;
            state.waiting.take()
        };
        if let Some(waiting) = waiting {
            waiting(Ok(()));
        }
    }

    async fn idle(&self) {
        let (done, woken) = wait();
        {
            let mut state = self.0.lock();
            if std::mem::take(&mut state.wanted) {
                return;
            }
            state.waiting = Some(done);
        }
        let _ = woken.await;
        self.0.lock().wanted = false;
    }

    pub fn tick(&self, now: Duration, foreground: u64) {
        let paced = {
            let mut state = self.0.lock();
            if let Some((before, operations)) = state.clock {
                let busy = BUSY_PACE * (WHOLE - state.lost) / WHOLE;
                let pace = if operations == foreground { IDLE_PACE } else { busy };
                let earned = (now.saturating_sub(before).as_secs_f64() * pace as f64) as u64;
                state.budget = (state.budget + earned as i64).min(pace as i64 / 10);
            }
            state.clock = Some((now, foreground));
            if state.budget > 0 { state.paced.take() } else { None }
        };
        if let Some(paced) = paced {
            paced(Ok(()));
        }
    }

    /// Takes note of what requests to the drives take, in µs, in the median: what hosts feel.
    pub fn feel(&self, median: u64) {
        let mut state = self.0.lock();
        if std::mem::take(&mut state.spent) == 0 {
            state.calm = if state.calm == 0 { median } else { (3 * state.calm + median) / 4 };
            return;
        }
        let kept = WHOLE - state.lost;
        let kept = if median > BEARABLE * state.calm.max(PROMPT) { kept / 2 } else { kept * 2 };
        state.lost = WHOLE - kept.clamp(1, WHOLE);
    }

    /// Waits until so many bytes may be written. Without a clock there is no pace.
    pub async fn spend(&self, bytes: u64) {
        let (done, paced) = wait();
        {
            let mut state = self.0.lock();
            state.budget -= bytes as i64;
            state.spent += bytes;
            if state.clock.is_none() || state.budget > 0 {
                return;
            }
            state.paced = Some(done);
        }
        let _ = paced.await;
    }

    /// Waits while a copy of the journal is being made.
    pub async fn journal_copied(&self) {
        let (done, copied) = wait();
        {
            let mut state = self.0.lock();
            if !state.copying {
                return;
            }
            state.copied.push(done);
        }
        let _ = copied.await;
    }

    fn end_copying(&self) {
        let told = {
            let mut state = self.0.lock();
            state.copying = false;
            std::mem::take(&mut state.copied)
        };
        told.into_iter().for_each(|done| done(Ok(())));
    }
}

/// True for what was placed with less parity than these drives can give it.
fn is_weak(entry: &Entry, staying: u64) -> bool {
    entry.form.parity < Form::of(staying.count_ones() as usize).parity
}

impl DriveShelf {
    /// Rebuild and repair. Whoever opened the shelf drives this future; it ends when the shelf stops.
    pub fn background(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let shelf = self.clone();
        async move {
            while shelf.check_running().is_ok() {
                if !shelf.work_step().await {
                    shelf.background.idle().await;
                }
            }
        }
    }

    /// Does everything that there is to do now: what [`DriveShelf::background`] does, until it would wait.
    pub async fn settle(&self) {
        while self.check_running().is_ok() && self.work_step().await {}
    }

    async fn work_step(&self) -> bool {
        if self.copy_journal().await {
            return true;
        }
        if let Some(segment) = self.worst() {
            self.heal(segment).await;
            return true;
        }
        let suspect = self.background.0.lock().suspects.pop_first();
        if let Some(segment) = suspect {
            self.scrub_segment(segment, &mut shelf::pool::ScrubReport::default()).await;
            return true;
        }
        let staying = self.staying();
        if self.segments.lock().is_outdated(staying) {
            return self.commit().await.is_ok();
        }
        self.promise_more().await || self.retire().await
    }

    /// The slots whose drives are there and are to stay.
    pub(super) fn staying(&self) -> u64 {
        let present = self.present();
        let roster = self.roster.lock();
        let stays =
            |slot: &usize| roster.members.get(*slot).is_some_and(|member| member.state == DriveState::InUse);
        present.iter().map(|member| member.slot).filter(stays).fold(0, |set, slot| set | 1 << slot)
    }

    /// The segment that can bear least, of those that have not been tried since something changed.
    fn worst(&self) -> Option<u32> {
        if let Some(queue) = &mut self.background.0.lock().queue {
            return queue.pop();
        }
        // What changes from here on has it found out again.
        self.background.0.lock().queue = Some(Vec::new());
        let staying = self.staying();
        // What is left of the parity, and whether a better form is all that is wanted.
        let mut rated: Vec<(i64, bool, u32)> = Vec::new();
        for (index, segment) in (0..).zip(&self.segments.lock().list) {
            let Some(entry) = &segment.entry else { continue };
            let (parity, lost) = (i64::from(entry.form.parity), entry.lost(staying).count());
            rated.extend((lost > 0).then_some((parity - lost as i64, false, index)));
            rated.extend(is_weak(entry, staying).then_some((parity, true, index)));
        }
        rated.sort_unstable_by(|one, other| other.cmp(one));
        let mut queue: Vec<u32> = rated.into_iter().map(|(.., index)| index).collect();
        let worst = queue.pop();
        if let Some(empty) = &mut self.background.0.lock().queue {
            *empty = queue;
        }
        worst
    }

    /// Keeps writes and discards away from a segment and waits for those under way.
    async fn shut(&self, segment: u32) {
        let (done, drained) = wait();
        {
            let mut segments = self.segments.lock();
            let found = &mut segments.list[segment as usize];
            found.gate = Some(Vec::new());
            if found.under_way == 0 {
                return;
            }
            found.drained = Some(done);
        }
        let _ = drained.await;
    }

    fn open_gate(&self, segment: u32) {
        let waiting = self.segments.lock().list[segment as usize].gate.take();
        waiting.into_iter().flatten().for_each(|next| next(self));
    }

    /// Runs with nothing of a segment changing but by what runs.
    pub(super) async fn alone<T>(&self, segment: u32, work: impl Future<Output = T>) -> T {
        self.shut(segment).await;
        let outcome = work.await;
        self.open_gate(segment);
        outcome
    }

    async fn heal(&self, segment: u32) {
        match self.alone(segment, self.place_elsewhere(segment)).await {
            Ok(true) => {}
            Ok(false) => {
                let room = self.segments.lock().room_protected();
                self.background.0.lock().short = Some(room);
            }
            Err(cause) => tracing::warn!(segment, %cause, "a segment could not be placed elsewhere"),
        }
    }

    /// False when there is no room for it.
    async fn place_elsewhere(&self, segment: u32) -> Result<bool> {
        let found = {
            let segments = self.segments.lock();
            let found = &segments.list[segment as usize];
            found.entry.clone().map(|entry| (entry, found.answered))
        };
        let Some((old, rows)) = found else { return Ok(true) };
        let staying = self.staying();
        let lost: Vec<usize> = old.lost(staying).collect();
        if lost.is_empty() && !is_weak(&old, staying) {
            return Ok(true);
        }
        let place = loop {
            // A discard that is under way may well come behind a write to the same place.
            match self.new_place(segment, &old, &lost) {
                Ok(place) => break place,
                Err(discarded) => _ = discarded.await,
            }
        };
        let Some((new, wanted)) = place else { return Ok(false) };
        if self.allocate_columns(&new, |index| wanted[index]).await.is_err() {
            self.give_wanted(&new, &wanted);
            return Ok(false);
        }
        let copied = self.copy_rows(&old, &new, &wanted, rows).await;
        let kept = match copied.and_then(|()| self.install(segment, &old, &new, &wanted, rows)) {
            Ok(kept) => kept,
            Err(cause) => {
                self.give_wanted(&new, &wanted);
                return Err(cause);
            }
        };
        self.commit().await?;
        let mut segments = self.segments.lock();
        let replaced = old.columns.iter().flatten().filter(|column| !kept.contains(&Some(**column)));
        replaced.for_each(|column| segments.give_column(old.form, *column));
        self.counters.healed.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Gives back what was taken for a new place.
    fn give_wanted(&self, new: &Entry, wanted: &[bool]) {
        let mut segments = self.segments.lock();
        for (column, _) in new.columns.iter().zip(wanted).filter(|(_, wanted)| **wanted) {
            column.iter().for_each(|column| segments.give_column(new.form, *column));
        }
    }

    /// Makes the new place, which has been written, the segment's; the answer is where its columns had been chosen. An
    /// error when a drive of it is out: from then on it lacks what is written to the segment, and whoever put it out
    /// has marked what it found in the old place, not this.
    fn install(
        &self,
        segment: u32,
        old: &Entry,
        new: &Entry,
        wanted: &[bool],
        rows: u32,
    ) -> Result<SmallVec<[Option<Column>; MOST_COLUMNS]>> {
        // A drive is out before the segments are told of it, behind this lock.
        let mut segments = self.segments.lock();
        let written = new.columns.iter().zip(wanted).filter(|(_, wanted)| **wanted);
        let mut slots = written.filter_map(|(column, _)| column.map(|column| usize::from(column.slot)));
        if slots.any(|slot| self.member(slot).is_none()) {
            return Err(Error::Drive { what: "a drive failed while it was written".into() });
        }
        let kept = new.columns.clone();
        let mut new = new.clone();
        // What stays where it was may have become stale meanwhile.
        let now = segments.list[segment as usize].entry.clone();
        let now = now.as_deref().unwrap_or(old);
        for (index, _) in wanted.iter().enumerate().filter(|(_, wanted)| !**wanted) {
            new.columns[index] = now.columns[index];
        }
        segments.replace(segment, old.generation, Entry { filled: rows, ..new });
        segments.list[segment as usize].unsynced = false;
        Ok(kept)
    }

    /// Where a segment shall be: its columns and which of them are to be written. While drives discard, what to wait
    /// for.
    fn new_place(
        &self,
        segment: u32,
        old: &Entry,
        lost: &[usize],
    ) -> std::result::Result<Option<(Entry, Vec<bool>)>, Wait<()>> {
        let staying = self.staying();
        let mut segments = self.segments.lock();
        if segments.discarding > 0 {
            let (done, discarded) = wait();
            segments.waiting.push(Box::new(|_| done(Ok(()))));
            return Err(discarded);
        }
        let mut new = old.clone();
        let mut taken = Vec::new();
        for index in lost {
            // On a drive that is left the old column is not counted as one of the segment's.
            new.columns[*index] = None;
        }
        for index in lost {
            let Some(column) = segments.take_column(&new) else { break };
            new.columns[*index] = Some(column);
            taken.push(column);
        }
        if taken.len() == lost.len() && !lost.is_empty() {
            let wanted = (0..new.columns.len()).map(|index| lost.contains(&index)).collect();
            return Ok(Some((new, wanted)));
        }
        taken.iter().for_each(|column| segments.give_column(old.form, *column));
        let left = i64::from(old.form.parity) - lost.len() as i64;
        let Some(new) = segments.place_again(segment, old) else { return Ok(None) };
        // What is on a drive that leaves goes elsewhere with as much parity as the number of those that stay allows. Less
        // was accepted when the evacuation began.
        let leaves = |column: &Column| {
            let slot = usize::from(column.slot);
            staying >> slot & 1 == 0 && self.member(slot).is_some()
        };
        let leaving = old.columns.iter().flatten().any(leaves);
        let allowed = Form::of(staying.count_ones() as usize).parity.min(old.form.parity);
        if i64::from(new.form.parity) <= left && !(leaving && new.form.parity >= allowed) {
            segments.give(&new);
            return Ok(None);
        }
        let wanted = vec![true; new.columns.len()];
        Ok(Some((new, wanted)))
    }

    /// Copies the rows of a segment to the wanted columns of its new place and makes them durable.
    async fn copy_rows(&self, old: &Entry, new: &Entry, wanted: &[bool], rows: u32) -> Result {
        let chunk = self.plan.chunk_pages(old.form);
        for row in 0..rows {
            let found = self.read_row(old, (row, 0, chunk), How { all: false, patient: true }).await;
            if found.unread && !found.lost.is_empty() {
                return Err(Error::Drive { what: format!("row {row} can't be read now") });
            }
            if found.never_was() {
                continue;
            }
            self.counters.lost.fetch_add(found.lost.len() as u64, Ordering::Relaxed);
            if !found.lost.is_empty() {
                tracing::error!(pages = found.lost.len(), "pages can't be given back");
            }
            let stripe = Arc::new(self.restripe(&found.data, new));
            self.background.spend(stripe.len() as u64).await;
            let size = self.plan.chunk_pages(new.form) as usize * ALIGN;
            let (mut waits, mut gone) = (Vec::new(), None);
            for part in 0..new.form.width() {
                let Some(column) = new.column(row, part).filter(|_| wanted[new.index(row, part)]) else {
                    continue;
                };
                let Some(member) = self.member(usize::from(column.slot)) else {
                    gone = Some(Error::Drive { what: format!("the drive in slot {} is out", column.slot) });
                    break;
                };
                let (done, written) = wait();
                let at = self.plan.page_at(new.form, column.granule, row, 0);
                member.write(at, vec![stripe.share(part * size..(part + 1) * size)], false, done);
                waits.push((member, written));
            }
            // What was asked for ends before its place is given to somebody else.
            self.all_or_out(waits).await?;
            gone.map_or(Ok(()), Err)?;
        }
        self.sync_drives().await
    }

    async fn all_or_out(&self, waits: Vec<(Arc<Member>, crate::Wait<()>)>) -> Result {
        let mut outcome = Ok(());
        for (member, written) in waits {
            if let Err(cause) = written.await {
                if !matches!(cause, Error::NoSpace { .. }) {
                    self.put_out(member.slot, &cause);
                }
                outcome = Err(cause);
            }
        }
        outcome
    }

    /// The columns of a stripe in another form: sectors stay as they are, only parity is new.
    pub(super) fn restripe(&self, columns: &[AlignedBuf], new: &Entry) -> AlignedBuf {
        let chunk = self.plan.chunk_pages(new.form) as usize * ALIGN;
        let mut stripe = AlignedBuf::zeroed(new.form.width() * chunk);
        let (data, parities) = stripe.split_at_mut(usize::from(new.form.data) * chunk);
        let pages = columns.iter().flat_map(|column| column.chunks_exact(ALIGN));
        for (page, to) in pages.take(self.plan.stripe_pages as usize).zip(data.chunks_exact_mut(ALIGN)) {
            to.copy_from_slice(page);
        }
        let data: Vec<&[u8]> = data.chunks_exact(chunk).collect();
        match new.form.parity {
            0 => {}
            1 => parity::compute(&data, parities, None),
            _ => {
                let (p, q) = parities.split_at_mut(chunk);
                parity::compute(&data, p, Some(q));
            }
        }
        stripe
    }

    /// A member that is out or leaving and holds nothing any more is none.
    async fn retire(&self) -> bool {
        let held: BTreeSet<usize> = {
            let segments = self.segments.lock();
            segments
                .needed()
                .flat_map(|entry| entry.columns.iter().flatten().map(|column| usize::from(column.slot)))
                .collect()
        };
        let journal = {
            let journal = self.journal.lock();
            journal.striped().fold(journal.members, |set, lanes| set | lanes.drives())
        };
        let retired = {
            let mut roster = self.roster.lock();
            let old = roster.members.iter_mut().enumerate().find(|(slot, member)| {
                matches!(member.state, DriveState::Failed | DriveState::Draining)
                    && !held.contains(slot)
                    && journal >> slot & 1 == 0
            });
            old.map(|(slot, member)| (slot, std::mem::take(member).drive))
        };
        let Some((slot, drive)) = retired else { return false };
        tracing::info!(slot, "nothing is left on a drive: it is not a member any more");
        let member = self.members.write().get_mut(slot).and_then(Option::take);
        self.count_members();
        let recorded = self.record().await.is_ok();
        if recorded {
            self.wipe_retired(slot, drive, member);
        } else if let Some(member) = member {
            member.put_out();
        }
        recorded
    }

    /// Makes one more copy of the journal when there are too few. False when there is nothing to do.
    async fn copy_journal(&self) -> bool {
        let mut misplaced = self.misplaced_copies();
        let count = {
            let journal = self.journal.lock();
            if journal.ring.is_none() || journal.members == 0 {
                return false;
            }
            journal.members.count_ones() as usize
        };
        let Some(slot) = self.without_copy() else {
            let Some(old) = misplaced.first().filter(|_| count > 1) else { return false };
            self.journal.lock().drop_copy(*old);
            return self.record().await.is_ok();
        };
        misplaced.extend(self.lagging_copies());
        if count >= crate::geometry::JOURNAL_COPIES && misplaced.is_empty() {
            return false;
        }
        let outcome = self.make_copy(slot).await;
        self.background.end_copying();
        let joined = {
            let mut journal = self.journal.lock();
            let joined = outcome.is_ok() && journal.joining == Some(slot);
            if joined {
                journal.members |= 1 << slot;
                if let Some(old) = misplaced.first() {
                    journal.drop_copy(*old);
                }
            }
            journal.joining = None;
            joined
        };
        if let Err(cause) = &outcome {
            tracing::warn!(slot, %cause, "a copy of the journal could not be made");
            if matches!(cause, Error::NoSpace { .. }) {
                return false;
            }
            self.put_out(slot, cause);
        }
        if joined {
            tracing::info!(slot, "the journal has another copy");
            return self.record().await.is_ok();
        }
        true
    }

    async fn make_copy(&self, slot: usize) -> Result {
        let (pieces, before) = {
            self.background.0.lock().copying = true;
            let mut journal = self.journal.lock();
            let ring = journal.ring.as_ref().ok_or_else(super::append::not_recovered)?;
            let found = (ring.copied(), crate::JournalPos(ring.next().0 - 1));
            journal.joining = Some(slot);
            found
        };
        let (done, answered) = wait();
        {
            let mut journal = self.journal.lock();
            if journal.waiting.front().is_some_and(|batch| batch.pos <= before) {
                journal.watchers.push((before, done));
            } else {
                drop(journal);
                done(Ok(()));
            }
        }
        answered.await?;
        let out = || Error::Drive { what: format!("the drive in slot {slot} is out") };
        let mut runs = runs(&pieces).peekable();
        while runs.peek().is_some() {
            let mut waits = Vec::new();
            let mut bytes = 0;
            while bytes < COPIED
                && let Some((at, len)) = runs.next()
            {
                bytes += len;
                for (start, len) in Ring::parts(self.plan.journal_bytes, at, len) {
                    let place = self.plan.journal_at() + start;
                    let bytes = self.read_copy(place, len as u32).await?;
                    let (done, written) = wait();
                    self.member(slot).ok_or_else(out)?.write(place, vec![bytes], false, done);
                    waits.push(written);
                }
            }
            for written in waits {
                written.await?;
            }
        }
        let (done, synced) = wait();
        self.member(slot).ok_or_else(out)?.sync(done);
        synced.await
    }

    async fn read_copy(&self, at: u64, len: u32) -> Result<bytes::Bytes> {
        let members = self.journal.lock().members;
        let mut outcome = Err(super::append::not_recovered());
        for slot in super::slots(members) {
            let Some(member) = self.member(slot) else { continue };
            outcome = member.read_patiently(at, len).await;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }
}

/// Pieces of the ring in runs that are read at once.
fn runs(pieces: &[(u64, u64)]) -> impl Iterator<Item = (u64, u64)> {
    let cut = |(at, len): (u64, u64)| {
        (0..len).step_by(COPIED as usize).map(move |from| (at + from, COPIED.min(len - from)))
    };
    pieces.iter().copied().flat_map(cut)
}

#[cfg(test)]
#[path = "rebuild_test.rs"]
mod tests;
