//! The spine: implements [`Shelf`] on drives with a given geometry.
//!
//! Down: [`Shelf::append`] assigns a batch its address in the ring and writes it to every journal copy; stripes become
//! sectors and parity and go to the columns of their segment; a superblock goes to the first slot of all drives, then to
//! the second. Up: completions are counted, batches complete in order. A drive that fails a write or a sync is failed:
//! the labels of the others record that, parity replaces it, and the background rebuilds what it held elsewhere. The
//! shelf stops (fail-stop) only if too few drives are left to keep what was acknowledged.
//!
//! Fencing: opening takes an epoch above every one found and writes it to all labels before it reads anything else.
//! Locks on files and devices (see [`device`](crate::device)) exclude a second owner on one machine; if drives are
//! shared between machines, an old owner notices the higher epoch when it next writes a superblock or changes the
//! labels (see [`journal`](crate::journal)).

use crate::encryption::{Envelope, Keyring};
use crate::geometry::Geometry;
use crate::journal::JournalRing;
use crate::label::Label;
use crate::limits::Limits;
use crate::{
    AlignedBuf, Batch, BufferPool, Done, Drive, Error, JournalPos, Layout, Result, Room, SegmentId, Shelf,
    Superblock, Wait, Workers, wait,
};
use bytes::Bytes;
use member::Member;
use parking_lot::{Mutex, RwLock};
use segments::Segments;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

mod append;
mod backing;
mod commit;
mod evacuate;
mod gather;
mod grow;
mod keys;
mod member;
mod membership;
mod open;
mod pool;
mod read;
mod rebuild;
mod recover;
mod scrub;
mod segments;
mod slow_drives;
mod status;
mod superblocks;
mod write;

use append::Journal;
pub use keys::Opening;
pub use open::FormatOptions;
pub(crate) use open::read_candidates;

/// A store on drives. See the module documentation.
pub struct DriveShelf {
    /// For callbacks and futures that outlive a call.
    me: Weak<DriveShelf>,
    limits: Limits,
    plan: Geometry,
    array: u128,
    epoch: u64,
    /// Random: no other owner has the same.
    salt: u64,
    keyring: Keyring,
    envelope: Mutex<Option<Envelope>>,
    /// By slot.
    members: RwLock<Vec<Option<Arc<Member>>>>,
    membership: Mutex<membership::Membership>,
    journal: Mutex<Journal>,
    /// For the parities of striped batches.
    parity_buffers: BufferPool,
    /// For stripes with their parities.
    stripe_buffers: BufferPool,
    superblocks: Mutex<superblocks::SuperblockWriter>,
    segments: Mutex<Segments>,
    commits: Mutex<commit::Commits>,
    backing_space: backing::BackingSpace,
    background: rebuild::Background,
    workers: RwLock<Workers>,
    slow_drives: Mutex<slow_drives::SlowDriveDetector>,
    counters: Counters,
    /// Drives that were given at the opening, have a label of this array, and are not members.
    former_drives: Mutex<Vec<String>>,
    /// Former members that still have a wrapped key, as far as is known.
    unwiped_drives: Mutex<Vec<String>>,
    stopped: Mutex<Option<Error>>,
}

/// Segments that are not announced as room: placements in flight may still need them.
const PLACEMENT_RESERVE_SEGMENTS: u32 = 2;

#[derive(Default)]
struct Counters {
    /// Pages that were wrong and have been repaired.
    repaired: AtomicU64,
    /// Pages that could not be reconstructed.
    lost: AtomicU64,
    /// Segments rebuilt elsewhere.
    rebuilt: AtomicU64,
    /// Rows reconstructed from other columns.
    reconstructed: AtomicU64,
    /// Operations of the engine, from which the rebuild rate follows.
    foreground: AtomicU64,
}

/// The slots in a set of bits.
fn slots(set: u64) -> impl Iterator<Item = usize> {
    (0..u64::BITS as usize).filter(move |slot| set >> slot & 1 == 1)
}

fn read_bytes(drive: &dyn Drive, at: u64, len: u32) -> Wait<Bytes> {
    let (done, read) = wait();
    drive.read(at, len, done);
    read
}

impl DriveShelf {
    /// A shelf of these members; the caller loads labels and map.
    fn new(
        members: Vec<Option<Arc<Member>>>,
        label: &Label,
        (keyring, salt): (Keyring, u64),
        ring: Option<JournalRing>,
        limits: Limits,
    ) -> Arc<Self> {
        let mut segments = Segments::new(label.geometry, label.segments, (label.epoch, salt));
        for member in members.iter().flatten() {
            segments.add_space(member.slot, member.bytes);
        }
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            limits,
            plan: label.geometry,
            array: label.array,
            epoch: label.epoch,
            salt,
            keyring,
            envelope: Mutex::default(),
            members: RwLock::new(members),
            membership: Mutex::new(membership::Membership::new(label)),
            journal: Mutex::new(Journal::new(ring, label.journal)),
            parity_buffers: BufferPool::new(limits.kept_buffers_max),
            stripe_buffers: BufferPool::new(limits.kept_buffers_max),
            superblocks: Mutex::default(),
            segments: Mutex::new(segments),
            commits: Mutex::new(commit::Commits::new(label.geometry)),
            backing_space: backing::BackingSpace::default(),
            background: rebuild::Background::default(),
            workers: RwLock::default(),
            slow_drives: Mutex::default(),
            counters: Counters::default(),
            former_drives: Mutex::default(),
            unwiped_drives: Mutex::default(),
            stopped: Mutex::new(None),
        })
    }

    /// The identity of the array.
    pub fn array(&self) -> u128 {
        self.array
    }

    /// The epoch of this owner.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    fn workers(&self) -> Workers {
        self.workers.read().clone()
    }

    /// Runs a future on the workers; it may outlive the call.
    fn on_worker<F: Future<Output: Send> + Send + 'static>(
        &self,
        start: impl FnOnce(Arc<Self>) -> F,
    ) -> Wait<F::Output> {
        match self.me.upgrade() {
            Some(owner) => self.workers().spawn(start(owner)),
            None => wait().1,
        }
    }

    /// The slots whose drives carry a copy of the journal.
    pub fn journal_copies(&self) -> Vec<usize> {
        slots(self.journal.lock().members).collect()
    }

    /// The names of the drives that are present, by slot.
    pub fn drives(&self) -> Vec<String> {
        self.present().iter().map(|member| member.name().to_owned()).collect()
    }

    /// The member in a slot, unless it has failed.
    fn member(&self, slot: usize) -> Option<Arc<Member>> {
        self.members.read().get(slot)?.clone().filter(|member| !member.is_failed())
    }

    /// The members that have not failed.
    fn present(&self) -> Vec<Arc<Member>> {
        self.members.read().iter().flatten().filter(|member| !member.is_failed()).cloned().collect()
    }

    fn stop(&self, cause: &Error) {
        let waiting = {
            let mut stopped = self.stopped.lock();
            if stopped.is_none() {
                tracing::error!(%cause, "the shelf stops");
                *stopped = Some(cause.clone());
            }
            std::mem::take(&mut self.journal.lock().waiting)
        };
        waiting.into_iter().for_each(|batch| (batch.done)(Err(cause.clone())));
        self.retry_starved();
        self.background.wake();
    }

    fn check_running(&self) -> Result {
        self.stopped.lock().clone().map_or(Ok(()), Err)
    }

    /// Advances the clock; `now` is of any monotonic clock. Requests time out: reads are served from other drives, and
    /// drives that do not complete writes are failed, all of them or none: the others must have everything, including
    /// a copy of the journal. Failing one of two that are late, when only one can be spared, would cost the last
    /// redundancy, and writes to the other would keep waiting. The background gets its share of the time. To be called
    /// several times a second.
    pub fn tick(&self, now: std::time::Duration) {
        let members: Vec<_> = self.members.read().iter().flatten().cloned().collect();
        let (out, late): (Vec<_>, Vec<_>) =
            members.iter().filter(|member| member.tick(now)).partition(|member| member.is_failed());
        out.iter().for_each(|member| member.abort_overdue());
        if !late.is_empty() && self.can_spare(late.iter().fold(0, |set, member| set | 1 << member.slot)) {
            late.iter().for_each(|member| member.abort_overdue());
        }
        self.detect_slow_drives(now, &members);
        self.tick_backing(now);
        self.background.tick(now, self.counters.foreground.load(Ordering::Relaxed), &self.limits);
    }

    /// Runs a future that may outlive the call.
    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, start: impl FnOnce(Arc<Self>) -> F) {
        if let Some(owner) = self.me.upgrade() {
            shelf::spawn(start(owner));
        }
    }
}

impl Shelf for DriveShelf {
    fn layout(&self) -> Layout {
        self.plan.layout(self.segments.lock().announced)
    }

    fn room(&self) -> Room {
        if self.check_running().is_err() {
            // A writer gets the error that stopped the shelf, not a lack of room.
            return Room { protected: u32::MAX, any: u32::MAX };
        }
        let Room { protected, any } = self.segments.lock().reported_room(self.backing_room());
        Room {
            protected: protected.saturating_sub(PLACEMENT_RESERVE_SEGMENTS),
            any: any.saturating_sub(PLACEMENT_RESERVE_SEGMENTS),
        }
    }

    fn is_starved(&self) -> bool {
        self.waits_for_space()
    }

    fn use_workers(&self, workers: &Workers) {
        *self.workers.write() = workers.clone();
    }

    fn journal_cost(&self, head: usize, body: usize) -> u64 {
        crate::journal::cost(head, body)
    }

    fn append(&self, head: Bytes, body: Vec<Bytes>, done: Done<JournalPos>) {
        self.append_batch(head, body, done);
    }

    fn journal_taken(&self, pos: JournalPos) -> u64 {
        self.journal.lock().ring.as_ref().map_or(0, |ring| ring.taken(pos))
    }

    fn wants_trim(&self) -> bool {
        self.lacks_columns()
    }

    fn recover(&self, from: JournalPos, done: Done<Vec<Batch>>) {
        self.spawn(|shelf| async move { done(shelf.recover_journal(from).await) });
    }

    fn write(&self, segment: SegmentId, offset: u32, stripes: Arc<AlignedBuf>, done: Done<()>) {
        self.write_stripes(segment.0, offset, stripes, done);
    }

    fn read(&self, segment: SegmentId, offset: u32, len: u32, done: Done<Bytes>) {
        self.read_payload(segment.0, offset, len, false, done);
    }

    fn read_in_background(&self, segment: SegmentId, offset: u32, len: u32, done: Done<Bytes>) {
        self.read_payload(segment.0, offset, len, true, done);
    }

    fn sync(&self, done: Done<()>) {
        self.spawn(|shelf| async move { done(shelf.sync_all().await) });
    }

    fn discard(&self, segment: SegmentId) {
        self.discard_segment(segment.0);
    }

    fn write_superblock(&self, superblock: Superblock, done: Done<()>) {
        self.queue_superblock(superblock, done);
    }

    fn superblock(&self) -> Option<Superblock> {
        self.superblocks.lock().newest.as_ref().map(|stored| stored.superblock.clone())
    }
}

#[cfg(test)]
#[path = "drive_shelf_test.rs"]
mod tests;

#[cfg(test)]
#[path = "drive_shelf/tamper_test.rs"]
mod tamper_tests;
