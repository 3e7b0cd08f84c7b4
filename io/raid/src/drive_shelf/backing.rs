//! Thin-provisioned drives: a sparse file allocates blocks of a file system, which may run out of them.
//!
//! Space that the array can't do without is reserved in advance: labels, superblocks, map and journal when a drive
//! becomes a member or is opened, the columns of a segment when it is placed. So only placing a segment needs space
//! that may not be there, and a write never runs out in the middle of a segment. [`Shelf::room`](crate::Shelf::room)
//! reports no more than the file systems have space for. If something else uses up that space first, writes to new
//! segments wait and are retried: the drives are as good as before, none is failed for it, and reads and the journal
//! go on.

use super::segments::Deferred;
use super::{DriveShelf, Member};
use crate::FileSystem;
use crate::geometry::{Geometry, Profile};
use crate::label::Label;
use crate::segment_map::Entry;
use crate::{ALIGN, Drive, Error, Result, Shelf, wait};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often file systems are examined, and waiting writes retried.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// State of the space below the drives.
#[derive(Default)]
pub struct BackingSpace {
    /// True if some drive is thin-provisioned.
    sparse: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    looked: Duration,
    file_systems: Vec<FileSystem>,
    /// Segments that there is space for; `None` if no drive is sparse.
    room: Option<u32>,
    /// Writes that wait for space.
    starved: Vec<Deferred>,
    /// When a reservation last failed.
    starved_at: Option<Duration>,
    now: Duration,
}

/// Reserves the space that a drive needs besides segments.
pub(super) async fn allocate_fixed(drive: &dyn Drive, plan: &Geometry, bytes: u64) -> Result {
    for (at, len) in [(0, plan.granules_at()), (Label::second_at(bytes), ALIGN as u64)] {
        let (done, allocated) = wait();
        drive.allocate(at, len, done);
        // Other errors are left for the writes to find.
        if let Err(Error::NoSpace { what }) = allocated.await {
            let what = format!(
                "{what}: its file system has no room for the array's own records; give it more space, or use smaller drives"
            );
            return Err(Error::NoSpace { what });
        }
    }
    Ok(())
}

impl DriveShelf {
    /// Reserves the space that the members need besides segments. A full file system does not prevent the opening: the
    /// drives had that space reserved before, unless they were copied since.
    pub(super) async fn allocate_members(&self) {
        for member in self.present().into_iter().filter(|member| member.is_sparse()) {
            if let Err(cause) = allocate_fixed(member.drive(), &self.plan, member.bytes).await {
                tracing::error!(%cause, drive = member.name(), "a drive lacks space for the array's own records");
            }
        }
        self.refresh_backing();
    }

    /// Reserves the columns of a segment that was just placed, then runs the writes that wait for it.
    pub(super) fn allocate(&self, segment: u32, entry: Arc<Entry>) {
        self.spawn(|shelf| async move {
            match shelf.allocate_columns(&entry, |_| true).await {
                Err(cause) if shelf.check_running().is_ok() => {
                    let again: Deferred = Box::new(move |shelf| shelf.allocate(segment, entry));
                    shelf.defer_write(&cause, again);
                }
                _ => {
                    // Where the file systems are the limit, space that was discarded since they were examined counts
                    // before a host is refused.
                    if shelf.backing_room().is_some_and(|room| room < shelf.layout().segments) {
                        shelf.refresh_backing();
                    }
                    let waiting = shelf.segments.lock().list[segment as usize].allocating.take();
                    waiting.into_iter().flatten().for_each(|next| next(&shelf));
                }
            }
        });
    }

    /// # Errors
    /// Only [`Error::NoSpace`].
    pub(super) async fn allocate_columns(&self, entry: &Entry, wanted: impl Fn(usize) -> bool) -> Result {
        // Not only at the next look: a writer fills a small file system in between.
        if let Some(room) = &mut self.backing_space.state.lock().room {
            *room = room.saturating_sub(1);
        }
        let len = u64::from(self.plan.chunk_pages(entry.profile)) * self.plan.granule_bytes();
        let columns = entry.columns.iter().enumerate().filter(|(index, _)| wanted(*index));
        let waits: Vec<_> = columns
            .filter_map(|(_, column)| {
                let column = column.filter(|column| !column.stale)?;
                let member = self.member(usize::from(column.slot)).filter(|member| member.is_sparse())?;
                let (done, allocated) = wait();
                member.allocate(self.plan.page_at(entry.profile, column.granule, 0, 0), len, done);
                Some(allocated)
            })
            .collect();
        let mut outcome = Ok(());
        for allocated in waits {
            // Other errors are left for the writes to find.
            if let Err(cause @ Error::NoSpace { .. }) = allocated.await {
                outcome = Err(cause);
            }
        }
        outcome
    }

    /// True if a segment placed here needs space that may not be there.
    pub(super) fn is_sparse(&self, entry: &Entry) -> bool {
        let on_sparse = |slot: u8| self.member(usize::from(slot)).is_some_and(|member| member.is_sparse());
        self.backing_space.sparse.load(Ordering::Relaxed)
            && entry.columns.iter().flatten().any(|column| on_sparse(column.slot))
    }

    /// Retries an operation when there may be space.
    pub(super) fn defer_write(&self, cause: &Error, again: Deferred) {
        let first = {
            let mut state = self.backing_space.state.lock();
            state.starved.push(again);
            let now = state.now;
            state.starved_at.replace(now).is_none()
        };
        if first {
            tracing::error!(%cause, "writes wait for space below the drives: make room on their file system");
        }
    }

    /// True while writes wait for space below the drives.
    pub(super) fn waits_for_space(&self) -> bool {
        let state = self.backing_space.state.lock();
        !state.starved.is_empty() || state.starved_at.is_some()
    }

    /// The file systems of sparse drives, as last examined.
    pub(super) fn file_systems(&self) -> Vec<FileSystem> {
        self.backing_space.state.lock().file_systems.clone()
    }

    /// Segments that the backing file systems have space for; `None` if that is no limit.
    pub(super) fn backing_room(&self) -> Option<u32> {
        if self.backing_space.sparse.load(Ordering::Relaxed) {
            self.backing_space.state.lock().room
        } else {
            None
        }
    }

    /// Retries everything that waits for space.
    pub(super) fn retry_starved(&self) {
        let starved = std::mem::take(&mut self.backing_space.state.lock().starved);
        starved.into_iter().for_each(|again| again(self));
    }

    /// Examines the file systems at intervals, and retries what waits for space.
    pub(super) fn tick_backing(&self, now: Duration) {
        {
            let mut state = self.backing_space.state.lock();
            state.now = now;
            if now.saturating_sub(state.looked) < REFRESH_INTERVAL {
                return;
            }
            state.looked = now;
            let over = |at: Duration| now.saturating_sub(at) > 2 * REFRESH_INTERVAL;
            if state.starved.is_empty() && state.starved_at.is_some_and(over) {
                state.starved_at = None;
                tracing::warn!("there is space below the drives again");
            }
        }
        if self.backing_space.sparse.load(Ordering::Relaxed) {
            self.refresh_backing();
            self.retry_starved();
        }
    }

    /// Examines the file systems of sparse drives.
    pub(super) fn refresh_backing(&self) {
        let sparse: Vec<_> =
            self.present().into_iter().filter_map(|member| Some((member.backing()?, member))).collect();
        self.backing_space.sparse.store(!sparse.is_empty(), Ordering::Relaxed);
        if sparse.is_empty() {
            return;
        }
        let mut found: BTreeMap<u64, (FileSystem, i128)> = BTreeMap::new();
        for (backing, member) in &sparse {
            let (file_system, spare) = found.entry(backing.file_system).or_insert_with(|| {
                let (free, total) = (backing.free, backing.total);
                (FileSystem { slots: Vec::new(), free, total, growth: 0 }, 0)
            });
            file_system.slots.push(member.slot);
            file_system.growth += member.bytes.saturating_sub(backing.allocated);
            // Less than nothing while the space of segments that were placed is being reserved.
            *spare += i128::from(backing.allocated) - i128::from(self.taken_bytes(member));
        }
        let profile = Profile::of(self.present().len());
        let column = u64::from(self.plan.chunk_pages(profile)) * self.plan.granule_bytes();
        let room = found.values().map(|(file_system, spare)| {
            let columns = file_system.slots.len().min(profile.width()) as u64;
            (i128::from(file_system.free) + spare).max(0) / i128::from(columns * column)
        });
        let room = room.min().map(|room| u32::try_from(room).unwrap_or(u32::MAX));
        let (before, first) = {
            let mut state = self.backing_space.state.lock();
            let first = state.file_systems.is_empty();
            state.file_systems = found.into_values().map(|(file_system, _)| file_system).collect();
            (std::mem::replace(&mut state.room, room), first)
        };
        if first {
            self.file_systems().iter().filter(|it| it.growth > it.free).for_each(warn);
        }
        if room > before {
            self.background.wake();
        }
    }

    /// Bytes of a drive that the array uses.
    fn taken_bytes(&self, member: &Member) -> u64 {
        let left = match self.segments.lock().space.drives.get(member.slot) {
            Some(Some(free)) => free.left(),
            _ => 0,
        };
        let taken = self.plan.granules(member.bytes).saturating_sub(left);
        self.plan.granules_at() + ALIGN as u64 + u64::from(taken) * self.plan.granule_bytes()
    }
}

fn warn(file_system: &FileSystem) {
    let FileSystem { slots, free, growth, .. } = file_system;
    tracing::warn!(
        ?slots,
        free,
        growth,
        "the drives of these slots are sparse files that may grow by more than their file system has free: capacity is what \
         fits there, less whatever else is written to it. Give the file system more space, or use smaller drives"
    );
}

#[cfg(test)]
#[path = "backing_test.rs"]
mod tests;
