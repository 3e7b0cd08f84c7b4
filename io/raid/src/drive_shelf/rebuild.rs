//! Rebuild and repair in the background: degraded segments first, the most degraded of them before the others.
//!
//! The work is derived from the segment map and the labels, so that nothing has to be remembered over a restart. A segment
//! is degraded if a column of it is missing, or on a drive that has failed or is being evacuated. Its lost columns are
//! reconstructed onto drives that have none of it; if there is no such drive, the whole segment is written again with a
//! profile for the drives that remain. The same is done for segments that were placed with less parity while drives or
//! space were short. Writes to a segment wait while it is moved; reads continue from the old place.

use super::read::ReadMode;
use super::{DriveShelf, Member};
use crate::DriveState;
use crate::geometry::{MAX_COLUMNS, Profile};
use crate::journal::JournalRing;
use crate::limits::Limits;
use crate::segment_map::{Column, Entry};
use crate::{ALIGN, AlignedBuf, Done, Error, Result, Wait, parity, wait};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Rebuild is slowed to a half, then to a quarter of its rate if the median latency of the drives exceeds this many times
/// what it is without rebuild, but no less than the minimum. It never stops: degraded segments can't wait forever.
const MAX_LATENCY_FACTOR: u64 = 2;
const MIN_BASELINE_US: u64 = 1_000;
const RATE_STEPS: u64 = 4;

#[derive(Default)]
pub struct Background(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: Option<Done<()>>,
    wanted: bool,
    /// Segments in which a wrong page was found, to be scrubbed.
    suspects: BTreeSet<u32>,
    /// Degraded segments, the most degraded last; `None` if that is to be determined. A segment that could not be
    /// rebuilt is in it again when something has changed.
    queue: Option<Vec<u32>>,
    /// A segment could not be rebuilt for lack of space, when there was room for this many segments.
    short: Option<u32>,
    /// The time of the last tick and the operations counted then; the bytes that may be written now.
    clock: Option<(Duration, u64)>,
    budget: i64,
    /// Quarters by which the rate is reduced while hosts do I/O.
    lost: u64,
    /// Bytes written since the last latency sample, and the latency without rebuild.
    spent: u64,
    calm: u64,
    throttled: Vec<Done<()>>,
    copying: bool,
    copied: Vec<Done<()>>,
}

impl Background {
    /// There may be work.
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

    /// There is room for this many segments now, which may be enough for one that could not be rebuilt.
    pub fn has_room(&self, room: u32) {
        if self.0.lock().short.is_some_and(|before| room > before) {
            self.wake();
        }
    }

    pub fn queue_repair(&self, segment: u32) {
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

    async fn wait_for_work(&self) {
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

    pub fn tick(&self, now: Duration, foreground: u64, limits: &Limits) {
        let throttled = {
            let mut state = self.0.lock();
            if let Some((before, operations)) = state.clock {
                let busy = limits.busy_bytes_per_second * (RATE_STEPS - state.lost) / RATE_STEPS;
                let rate = if operations == foreground { limits.idle_bytes_per_second } else { busy };
                let earned = (now.saturating_sub(before).as_secs_f64() * rate as f64) as u64;
                state.budget = (state.budget + earned as i64).min(rate as i64 / 10);
            }
            state.clock = Some((now, foreground));
            if state.budget > 0 { std::mem::take(&mut state.throttled) } else { Vec::new() }
        };
        throttled.into_iter().for_each(|done| done(Ok(())));
    }

    /// Ends waits for the rate: an operation waits for their end.
    pub fn hurry(&self) {
        let throttled = std::mem::take(&mut self.0.lock().throttled);
        throttled.into_iter().for_each(|done| done(Ok(())));
    }

    /// Takes the median latency of the drives, in µs, from which the rebuild rate follows.
    pub fn observe_latency(&self, median: u64) {
        let mut state = self.0.lock();
        if std::mem::take(&mut state.spent) == 0 {
            state.calm = if state.calm == 0 { median } else { (3 * state.calm + median) / 4 };
            return;
        }
        let kept = RATE_STEPS - state.lost;
        let kept =
            if median > MAX_LATENCY_FACTOR * state.calm.max(MIN_BASELINE_US) { kept / 2 } else { kept * 2 };
        state.lost = RATE_STEPS - kept.clamp(1, RATE_STEPS);
    }

    /// Charges bytes to the rate; returns what to wait for before more are read or written. Without a clock there is no
    /// limit.
    fn charge(&self, bytes: u64) -> Option<Wait<()>> {
        let mut state = self.0.lock();
        state.budget -= bytes as i64;
        state.spent += bytes;
        if state.clock.is_none() || state.budget > 0 {
            return None;
        }
        let (done, throttled) = wait();
        state.throttled.push(done);
        Some(throttled)
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
        let waiters = {
            let mut state = self.0.lock();
            state.copying = false;
            std::mem::take(&mut state.copied)
        };
        waiters.into_iter().for_each(|done| done(Ok(())));
    }
}

/// True if it was placed with less parity than these drives can give it.
fn is_under_protected(entry: &Entry, in_use_drives: u64) -> bool {
    entry.profile.parity < Profile::of(in_use_drives.count_ones() as usize).parity
}

impl DriveShelf {
    /// Rebuild and repair. The code that opened the shelf polls this future; it ends when the shelf stops.
    pub fn background(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let shelf = self.clone();
        async move {
            while shelf.check_running().is_ok() {
                if !shelf.work_step().await {
                    shelf.background.wait_for_work().await;
                }
            }
        }
    }

    /// Does all background work that there is now, and returns when it would wait.
    pub async fn settle(&self) {
        while self.check_running().is_ok() && self.work_step().await {}
    }

    async fn work_step(&self) -> bool {
        if self.copy_journal().await {
            return true;
        }
        let at_once = self.workers().count();
        let degraded: Vec<u32> = std::iter::from_fn(|| self.most_degraded()).take(at_once).collect();
        if !degraded.is_empty() {
            self.on_workers(degraded, |shelf, segment| async move { shelf.rebuild_segment(segment).await })
                .await;
            return true;
        }
        let suspects: Vec<u32> = {
            let mut state = self.background.0.lock();
            std::iter::from_fn(|| state.suspects.pop_first()).take(at_once).collect()
        };
        if !suspects.is_empty() {
            self.on_workers(
                suspects,
                |shelf, segment| async move { shelf.scrub_segment(segment, false).await },
            )
            .await;
            return true;
        }
        let in_use_drives = self.in_use_drives();
        if self.segments.lock().is_outdated(in_use_drives) {
            return self.commit().await.is_ok();
        }
        self.raise_failures_to_tolerate().await || self.remove_empty_members().await
    }

    /// Works on segments at the same time, on the workers, and waits for all.
    async fn on_workers<F: Future<Output: Send> + Send + 'static>(
        &self,
        segments: Vec<u32>,
        work: impl Fn(Arc<Self>, u32) -> F,
    ) {
        let begin = |segment: u32| self.on_worker(|shelf| work(shelf, segment));
        let begun: Vec<_> = segments.into_iter().map(begin).collect();
        for ended in begun {
            // Workers that have ended drop what they have: it is found again at the next start.
            let _ = ended.await;
        }
    }

    /// The slots whose drives are present and not being evacuated.
    pub(super) fn in_use_drives(&self) -> u64 {
        let present = self.present();
        let membership = self.membership.lock();
        let stays = |slot: &usize| {
            membership.members.get(*slot).is_some_and(|member| member.state == DriveState::Online)
        };
        present.iter().map(|member| member.slot).filter(stays).fold(0, |set, slot| set | 1 << slot)
    }

    /// The segment that tolerates the fewest failures, of those that have not been tried since something changed.
    fn most_degraded(&self) -> Option<u32> {
        if let Some(queue) = &mut self.background.0.lock().queue {
            return queue.pop();
        }
        // A change from here on clears it again.
        self.background.0.lock().queue = Some(Vec::new());
        let in_use_drives = self.in_use_drives();
        // Failures that it still tolerates, and whether it lacks only parity.
        let mut rated: Vec<(i64, bool, u32)> = Vec::new();
        for (index, segment) in (0..).zip(&self.segments.lock().list) {
            let Some(entry) = &segment.entry else { continue };
            let (parity, lost) = (i64::from(entry.profile.parity), entry.lost(in_use_drives).count());
            rated.extend((lost > 0).then_some((parity - lost as i64, false, index)));
            rated.extend(is_under_protected(entry, in_use_drives).then_some((parity, true, index)));
        }
        rated.sort_unstable_by(|one, other| other.cmp(one));
        let mut queue: Vec<u32> = rated.into_iter().map(|(.., index)| index).collect();
        let worst = queue.pop();
        if let Some(empty) = &mut self.background.0.lock().queue {
            *empty = queue;
        }
        worst
    }

    /// Holds writes and discards of a segment back and waits for those in flight. If something else holds them back
    /// already, it waits for its end first.
    async fn close_gate(&self, segment: u32) {
        loop {
            let (done, ready) = wait();
            let was_open = {
                let mut segments = self.segments.lock();
                let found = &mut segments.list[segment as usize];
                match &mut found.gate {
                    Some(gate) => {
                        gate.push(Box::new(|_| done(Ok(()))));
                        false
                    }
                    None => {
                        found.gate = Some(Vec::new());
                        if found.in_flight == 0 {
                            return;
                        }
                        found.drained = Some(done);
                        true
                    }
                }
            };
            let _ = ready.await;
            if was_open {
                return;
            }
        }
    }

    /// Keeps background work on a segment to its rate, of which it has just used this many bytes. There is no limit while
    /// something waits for the segment: hosts would wait for the rate. What is used then is made up for later.
    pub(super) async fn throttle(&self, segment: u32, bytes: u64) {
        let Some(throttled) = self.background.charge(bytes) else { return };
        let is_awaited =
            self.segments.lock().list[segment as usize].gate.as_ref().is_some_and(|gate| !gate.is_empty());
        if is_awaited {
            self.background.hurry();
        }
        let _ = throttled.await;
    }

    fn open_gate(&self, segment: u32) {
        let waiting = self.segments.lock().list[segment as usize].gate.take();
        waiting.into_iter().flatten().for_each(|next| next(self));
    }

    /// Runs `work` while nothing else changes the segment.
    pub(super) async fn exclusively<T>(&self, segment: u32, work: impl Future<Output = T>) -> T {
        self.close_gate(segment).await;
        let outcome = work.await;
        self.open_gate(segment);
        outcome
    }

    async fn rebuild_segment(&self, segment: u32) {
        match self.exclusively(segment, self.rebuild(segment)).await {
            Ok(true) => {}
            Ok(false) => {
                let room = self.segments.lock().room_protected();
                self.background.0.lock().short = Some(room);
            }
            Err(cause) => tracing::warn!(segment, %cause, "a segment could not be rebuilt"),
        }
    }

    /// False if there is no room for it.
    async fn rebuild(&self, segment: u32) -> Result<bool> {
        let found = {
            let segments = self.segments.lock();
            let found = &segments.list[segment as usize];
            found.entry.clone().map(|entry| (entry, found.completed))
        };
        let Some((old, rows)) = found else { return Ok(true) };
        let in_use_drives = self.in_use_drives();
        let lost: Vec<usize> = old.lost(in_use_drives).collect();
        if lost.is_empty() && !is_under_protected(&old, in_use_drives) {
            return Ok(true);
        }
        let place = loop {
            // A discard in flight might be executed after a write to the same place.
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
        let copied = self.copy_rows(segment, (&old, &new), &wanted, rows).await;
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
        replaced.for_each(|column| segments.give_column(old.profile, *column));
        self.counters.rebuilt.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Frees what was allocated for a new place.
    fn give_wanted(&self, new: &Entry, wanted: &[bool]) {
        let mut segments = self.segments.lock();
        for (column, _) in new.columns.iter().zip(wanted).filter(|(_, wanted)| **wanted) {
            column.iter().for_each(|column| segments.give_column(new.profile, *column));
        }
    }

    /// Makes the new place, which has been written, the segment's; returns its columns. An error if a drive of it has
    /// failed: it lacks what is written to the segment from then on, and the code that failed it has marked the columns of the
    /// old place as stale, not these.
    fn install(
        &self,
        segment: u32,
        old: &Entry,
        new: &Entry,
        wanted: &[bool],
        rows: u32,
    ) -> Result<SmallVec<[Option<Column>; MAX_COLUMNS]>> {
        // A drive is marked as failed before the segments learn of it under this lock.
        let mut segments = self.segments.lock();
        let written = new.columns.iter().zip(wanted).filter(|(_, wanted)| **wanted);
        let mut slots = written.filter_map(|(column, _)| column.map(|column| usize::from(column.slot)));
        if slots.any(|slot| self.member(slot).is_none()) {
            return Err(Error::Drive { what: "a drive failed while it was written".into() });
        }
        let kept = new.columns.clone();
        let mut new = new.clone();
        // Columns that stay may have become stale since.
        let now = segments.list[segment as usize].entry.clone();
        let now = now.as_deref().unwrap_or(old);
        for (index, _) in wanted.iter().enumerate().filter(|(_, wanted)| !**wanted) {
            new.columns[index] = now.columns[index];
        }
        segments.replace(segment, old.generation, Entry { filled: rows, ..new });
        segments.list[segment as usize].unsynced = false;
        Ok(kept)
    }

    /// Allocates the new place of a segment: its columns, and which of them are to be written. While discards are in
    /// flight, the error is what to wait for.
    fn new_place(
        &self,
        segment: u32,
        old: &Entry,
        lost: &[usize],
    ) -> std::result::Result<Option<(Entry, Vec<bool>)>, Wait<()>> {
        let in_use_drives = self.in_use_drives();
        let mut segments = self.segments.lock();
        if segments.discarding > 0 {
            let (done, discarded) = wait();
            segments.waiting.push(Box::new(|_| done(Ok(()))));
            return Err(discarded);
        }
        let mut new = old.clone();
        let mut taken = Vec::new();
        for index in lost {
            // A lost column's drive may hold a new one.
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
        taken.iter().for_each(|column| segments.give_column(old.profile, *column));
        let left = i64::from(old.profile.parity) - lost.len() as i64;
        let Some(new) = segments.place_again(segment, old) else { return Ok(None) };
        // Columns of an evacuating drive move with as much parity as the remaining drives allow: the operator accepted less
        // when the evacuation began.
        let leaves = |column: &Column| {
            let slot = usize::from(column.slot);
            in_use_drives >> slot & 1 == 0 && self.member(slot).is_some()
        };
        let leaving = old.columns.iter().flatten().any(leaves);
        let allowed = Profile::of(in_use_drives.count_ones() as usize).parity.min(old.profile.parity);
        if i64::from(new.profile.parity) <= left && !(leaving && new.profile.parity >= allowed) {
            segments.give(&new);
            return Ok(None);
        }
        let wanted = vec![true; new.columns.len()];
        Ok(Some((new, wanted)))
    }

    /// Copies the rows of a segment to the wanted columns of its new place and syncs them.
    async fn copy_rows(
        &self,
        segment: u32,
        (old, new): (&Entry, &Entry),
        wanted: &[bool],
        rows: u32,
    ) -> Result {
        let chunk = self.plan.chunk_pages(old.profile);
        for row in 0..rows {
            let found = self
                .read_row(old, (row, 0, chunk), ReadMode { with_parity: false, long_timeout: true })
                .await;
            if found.unread && !found.lost.is_empty() {
                return Err(Error::Drive { what: format!("row {row} can't be read now") });
            }
            if found.never_was() {
                continue;
            }
            self.counters.lost.fetch_add(found.lost.len() as u64, Ordering::Relaxed);
            if !found.lost.is_empty() {
                tracing::error!(pages = found.lost.len(), "pages can't be reconstructed");
            }
            let stripe = Arc::new(self.restripe(&found.data, new));
            self.throttle(segment, stripe.len() as u64).await;
            let size = self.plan.chunk_pages(new.profile) as usize * ALIGN;
            let (mut waits, mut gone) = (Vec::new(), None);
            for part in 0..new.profile.width() {
                let Some(column) = new.column(row, part).filter(|_| wanted[new.index(row, part)]) else {
                    continue;
                };
                let Some(member) = self.member(usize::from(column.slot)) else {
                    gone =
                        Some(Error::Drive { what: format!("the drive in slot {} has failed", column.slot) });
                    break;
                };
                let (done, written) = wait();
                let at = self.plan.page_at(new.profile, column.granule, row, 0);
                member.write(at, vec![stripe.share(part * size..(part + 1) * size)], false, done);
                waits.push((member, written));
            }
            // Writes complete before their place may be allocated again.
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
                    self.fail_drive(member.slot, &cause);
                }
                outcome = Err(cause);
            }
        }
        outcome
    }

    /// The columns of a stripe with another profile: sectors stay as they are, only parity is recomputed.
    pub(super) fn restripe(&self, columns: &[AlignedBuf], new: &Entry) -> AlignedBuf {
        let chunk = self.plan.chunk_pages(new.profile) as usize * ALIGN;
        let mut stripe = AlignedBuf::zeroed(new.profile.width() * chunk);
        let (data, parities) = stripe.split_at_mut(usize::from(new.profile.data) * chunk);
        let pages = columns.iter().flat_map(|column| column.chunks_exact(ALIGN));
        for (page, to) in pages.take(self.plan.stripe_pages as usize).zip(data.chunks_exact_mut(ALIGN)) {
            to.copy_from_slice(page);
        }
        let data: Vec<&[u8]> = data.chunks_exact(chunk).collect();
        match new.profile.parity {
            0 => {}
            1 => parity::compute(&data, parities, None),
            _ => {
                let (p, q) = parities.split_at_mut(chunk);
                parity::compute(&data, p, Some(q));
            }
        }
        stripe
    }

    /// Removes a failed or evacuating member that holds nothing any more.
    async fn remove_empty_members(&self) -> bool {
        let held: BTreeSet<usize> = {
            let segments = self.segments.lock();
            segments
                .needed()
                .flat_map(|entry| entry.columns.iter().flatten().map(|column| usize::from(column.slot)))
                .collect()
        };
        let journal = {
            let journal = self.journal.lock();
            journal.striped().fold(journal.members, |set, stripe_set| set | stripe_set.drives())
        };
        let retired = {
            let mut membership = self.membership.lock();
            let old = membership.members.iter_mut().enumerate().find(|(slot, member)| {
                matches!(member.state, DriveState::Failed | DriveState::Evacuating)
                    && !held.contains(slot)
                    && journal >> slot & 1 == 0
            });
            old.map(|(slot, member)| (slot, std::mem::take(member).drive))
        };
        let Some((slot, drive)) = retired else { return false };
        tracing::info!(slot, "a drive holds nothing any more: it is no member now");
        let member = self.members.write().get_mut(slot).and_then(Option::take);
        self.count_members();
        let recorded = self.persist_membership().await.is_ok();
        if recorded {
            self.wipe_removed(slot, drive, member);
        } else if let Some(member) = member {
            member.mark_failed();
        }
        recorded
    }

    /// Makes one more copy of the journal if there are too few, or moves one. False if there is nothing to do.
    async fn copy_journal(&self) -> bool {
        let mut misplaced = self.misplaced_copies();
        let count = {
            let journal = self.journal.lock();
            if journal.ring.is_none() || journal.members == 0 {
                return false;
            }
            journal.members.count_ones() as usize
        };
        let Some(slot) = self.journal_copy_candidate() else {
            let Some(old) = misplaced.first().filter(|_| count > 1) else { return false };
            self.journal.lock().drop_copy(*old);
            return self.persist_membership().await.is_ok();
        };
        misplaced.extend(self.slow_journal_copies());
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
            self.fail_drive(slot, cause);
        }
        if joined {
            tracing::info!(slot, "the journal has another copy");
            return self.persist_membership().await.is_ok();
        }
        true
    }

    async fn make_copy(&self, slot: usize) -> Result {
        let (pieces, before) = {
            self.background.0.lock().copying = true;
            let mut journal = self.journal.lock();
            let ring = journal.ring.as_ref().ok_or_else(super::append::not_recovered)?;
            let found = (ring.copied_ranges(), crate::JournalPos(ring.next().0 - 1));
            journal.joining = Some(slot);
            found
        };
        let (done, completed) = wait();
        {
            let mut journal = self.journal.lock();
            if journal.waiting.front().is_some_and(|batch| batch.pos <= before) {
                journal.watchers.push((before, done));
            } else {
                drop(journal);
                done(Ok(()));
            }
        }
        completed.await?;
        let out = || Error::Drive { what: format!("the drive in slot {slot} has failed") };
        let most = self.limits.journal_copy_pages * ALIGN as u64;
        let mut runs = runs(&pieces, most).peekable();
        while runs.peek().is_some() {
            let mut waits = Vec::new();
            let mut bytes = 0;
            while bytes < most
                && let Some((at, len)) = runs.next()
            {
                bytes += len;
                for (start, len) in JournalRing::parts(self.plan.journal_bytes, at, len) {
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
            outcome = member.read_with_write_timeout(at, len).await;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }
}

/// Splits ranges of the ring into reads.
fn runs(pieces: &[(u64, u64)], most: u64) -> impl Iterator<Item = (u64, u64)> {
    let cut = move |(at, len): (u64, u64)| {
        (0..len).step_by(most as usize).map(move |from| (at + from, most.min(len - from)))
    };
    pieces.iter().copied().flat_map(cut)
}

#[cfg(test)]
#[path = "rebuild_test.rs"]
mod tests;
