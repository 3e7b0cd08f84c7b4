//! The spine: drives under a plan become a [`Shelf`].
//!
//! Down: [`Shelf::append`] gives a batch its place in the ring and writes it to every journal copy at once; stripes
//! become sectors and parity and go to the columns of their segment; a superblock goes to slot 0 of all drives, then
//! to slot 1. Up: answers are counted, batches answered in their order. A drive that fails a write or a sync is put
//! out: the others' labels say so, what it held is given back by parity, and the background places it elsewhere. The
//! shelf stops only when too few drives are left to keep a promise that was made.
//!
//! Fencing: opening takes an epoch above every one found and writes it to all labels before it reads anything else.
//! Locks on files and devices (see [`device`](crate::device)) keep a second owner on one machine out; where drives
//! are shared between machines, an old owner notices the higher epoch when it next writes a superblock or changes
//! the labels, and what it appended meanwhile does not belong to the journal (see [`journal`](crate::journal)).

use crate::buffer_pool::Spares;
use crate::encryption::{Envelope, Vault};
use crate::geometry::Geometry;
use crate::journal::Ring;
use crate::label::Label;
use crate::{
    AlignedBuf, Batch, Done, Drive, Error, JournalPos, Layout, Result, Room, SegmentId, Shelf, Superblock,
    Wait, wait,
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
mod drain;
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

/// Drives as protected space. See the module's text.
pub struct DriveShelf {
    /// For callbacks and futures that outlive a call.
    me: Weak<DriveShelf>,
    plan: Geometry,
    array: u128,
    epoch: u64,
    /// Random: no other owner has it.
    salt: u64,
    vault: Vault,
    envelope: Mutex<Option<Envelope>>,
    /// In the order of their slots.
    members: RwLock<Vec<Option<Arc<Member>>>>,
    roster: Mutex<membership::Roster>,
    journal: Mutex<Journal>,
    /// For the parities of the journal's batches.
    spares: Spares,
    roots: Mutex<superblocks::Roots>,
    segments: Mutex<Segments>,
    commits: Mutex<commit::Commits>,
    /// Buffers of stripes that have been written, to be filled again.
    buffers: Mutex<Vec<AlignedBuf>>,
    below: backing::Below,
    background: rebuild::Background,
    watch: Mutex<slow_drives::Watch>,
    counters: Counters,
    /// Drives that were given at the opening and have a label of this array, and are not members.
    strays: Mutex<Vec<String>>,
    /// Drives that were members and keep a wrapped key, as far as is known.
    unwiped: Mutex<Vec<String>>,
    stopped: Mutex<Option<Error>>,
}

/// Segments that may have been promised and are not placed before a write: whoever asks for room once more finds it.
const AT_ONCE: u32 = 2;

#[derive(Default)]
struct Counters {
    /// Pages that were not what had been written, and were given back by parity.
    repaired: AtomicU64,
    /// Pages that could not be given back.
    lost: AtomicU64,
    /// Segments placed elsewhere.
    healed: AtomicU64,
    /// Stripes computed from other columns because one could not be read.
    reconstructed: AtomicU64,
    /// Operations of the engine, for the pace of the background.
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
    /// A shelf of these members; what the labels and the map say is taken over by the caller.
    fn new(
        members: Vec<Option<Arc<Member>>>,
        label: &Label,
        (vault, salt): (Vault, u64),
        ring: Option<Ring>,
    ) -> Arc<Self> {
        let mut segments = Segments::new(label.geometry, label.segments, (label.epoch, salt));
        for member in members.iter().flatten() {
            segments.bring(member.slot, member.bytes);
        }
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            plan: label.geometry,
            array: label.array,
            epoch: label.epoch,
            salt,
            vault,
            envelope: Mutex::default(),
            members: RwLock::new(members),
            roster: Mutex::new(membership::Roster::new(label)),
            journal: Mutex::new(Journal::new(ring, label.journal)),
            spares: Spares::default(),
            roots: Mutex::default(),
            segments: Mutex::new(segments),
            commits: Mutex::new(commit::Commits::new(label.geometry)),
            buffers: Mutex::default(),
            below: backing::Below::default(),
            background: rebuild::Background::default(),
            watch: Mutex::default(),
            counters: Counters::default(),
            strays: Mutex::default(),
            unwiped: Mutex::default(),
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

    /// The slots whose drives carry a copy of the journal.
    pub fn journal_copies(&self) -> Vec<usize> {
        slots(self.journal.lock().members).collect()
    }

    /// The names of the drives that are there, by slot.
    pub fn drives(&self) -> Vec<String> {
        self.present().iter().map(|member| member.name().to_owned()).collect()
    }

    /// The member in a slot, unless it is out.
    fn member(&self, slot: usize) -> Option<Arc<Member>> {
        self.members.read().get(slot)?.clone().filter(|member| !member.is_out())
    }

    /// The members that are not out.
    fn present(&self) -> Vec<Arc<Member>> {
        self.members.read().iter().flatten().filter(|member| !member.is_out()).cloned().collect()
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

    /// Tells the time, of any clock that only goes forward. Requests that drives have had for too long are given up:
    /// reads are answered from the others, and after some seconds the drives that do not take writes are put out, all of
    /// them or none: the others must have everything, a copy of the journal too. Putting out one of two that are late,
    /// where only one can be spared, would cost the last redundancy, and what waits for the other would wait on. The
    /// background gets its share of the time. To be called some times a second.
    pub fn tick(&self, now: std::time::Duration) {
        let members: Vec<_> = self.members.read().iter().flatten().cloned().collect();
        let (out, late): (Vec<_>, Vec<_>) =
            members.iter().filter(|member| member.tick(now)).partition(|member| member.is_out());
        out.iter().for_each(|member| member.give_up_late());
        if !late.is_empty() && self.can_spare(late.iter().fold(0, |set, member| set | 1 << member.slot)) {
            late.iter().for_each(|member| member.give_up_late());
        }
        self.watch(now, &members);
        self.tick_below(now);
        self.background.tick(now, self.counters.foreground.load(Ordering::Relaxed));
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
        self.plan.layout(self.segments.lock().told)
    }

    fn room(&self) -> Room {
        if self.check_running().is_err() {
            // Whoever writes is told why it stopped, not that there is no room.
            return Room { protected: u32::MAX, any: u32::MAX };
        }
        let Room { protected, any } = self.segments.lock().room_told(self.room_below());
        Room { protected: protected.saturating_sub(AT_ONCE), any: any.saturating_sub(AT_ONCE) }
    }

    fn is_starved(&self) -> bool {
        self.waits_for_space()
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
        self.read_payload(segment.0, offset, len, done);
    }

    fn sync(&self, done: Done<()>) {
        self.spawn(|shelf| async move { done(shelf.sync_all().await) });
    }

    fn discard(&self, segment: SegmentId) {
        self.discard_segment(segment.0);
    }

    fn write_superblock(&self, superblock: Superblock, done: Done<()>) {
        self.queue_root(superblock, done);
    }

    fn superblock(&self) -> Option<Superblock> {
        self.roots.lock().newest.as_ref().map(|root| root.superblock.clone())
    }
}

#[cfg(test)]
#[path = "drive_shelf_test.rs"]
mod tests;

#[cfg(test)]
#[path = "drive_shelf/tamper_test.rs"]
mod tamper_tests;
