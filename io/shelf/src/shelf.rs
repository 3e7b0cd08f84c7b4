//! The contract between the engine and whatever keeps its bytes: drives here, RADOS later.

use bytes::Bytes;
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Alignment in bytes of every offset, length and buffer that a device sees.
pub const ALIGN: usize = 4096;

/// Sizes fixed when the shelf was formatted, in bytes unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of payload in a segment; a multiple of `stripe_bytes`.
    pub segment_bytes: u32,
    /// The unit in which a segment is written, front to back: the payload of a full stripe. Any number of bytes.
    pub stripe_bytes: u32,
    /// Number of segments. It may grow while the shelf is open, when drives are added.
    pub segments: u32,
    /// What the journal holds before it must be trimmed, counted by [`Shelf::journal_taken`]; a batch takes no more than
    /// [`Layout::journal_cost`]. Every opening since the last trim may have taken one page more.
    pub journal_bytes: u64,
    /// Largest `head` plus `body` of one journal batch.
    pub batch_bytes: u32,
    /// Largest superblock payload.
    pub superblock_bytes: u32,
}

impl Layout {
    /// Bytes of `journal_bytes` that a batch takes at most: head and the shelf's own header in whole pages, and the body.
    pub fn journal_cost(head: usize, body: usize) -> u64 {
        crate::journal::cost(head, body)
    }
}

/// A segment of the log, `0..Layout::segments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u32);

/// How many more discarded segments can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// So that these, and those that are in use, get all the protection that the drives that are left can give.
    pub protected: u32,
    /// At all. Who stays within it is never refused for want of space.
    pub any: u32,
}

/// The number of a journal batch: 1, 2, 3… over the whole life of the shelf, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JournalPos(pub u64);

/// One durable group commit as recovery finds it.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Its number.
    pub pos: JournalPos,
    /// The descriptors, as appended.
    pub head: Bytes,
    /// The data pages, as appended, in one piece.
    pub body: Bytes,
}

/// What the engine keeps at the root of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The first journal batch that recovery needs; earlier ones may be overwritten once this is durable.
    pub journal_from: JournalPos,
    /// The engine's own root, opaque here.
    pub payload: Bytes,
}

/// What can go wrong below the engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too few drives hold the bytes, or took the write. `what` names the drive and the cause.
    #[error("drive failure: {what}")]
    Drive {
        /// Drive, operation, position and the system's message.
        what: String,
    },
    /// The bytes came back, but are not the ones written, in every copy.
    #[error("corrupt: {what}")]
    Corrupt {
        /// Where, and how it was noticed.
        what: String,
    },
    /// The file system, or whatever else is below a drive, has no space for a write, which was not done. The drive is as
    /// good as before, and the same write may succeed later.
    #[error("no space: {what}")]
    NoSpace {
        /// Drive, operation, position and the system's message.
        what: String,
    },
    /// A newer owner has taken the shelf; this one must stop for good.
    #[error("fenced by epoch {epoch}")]
    Fenced {
        /// The epoch of the newer owner.
        epoch: u64,
    },
    /// The journal has no room until it is trimmed by a superblock.
    #[error("journal full")]
    JournalFull,
    /// The drives do not make up a shelf that can be opened; the text says what to do.
    #[error("{0}")]
    Unusable(String),
}

/// What a shelf operation ends with.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// Called once with the outcome, from any thread, perhaps before the method that was given it returns; must not
/// block. When the shelf is dropped meanwhile it is dropped uncalled.
pub type Done<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// Protected space. One owner at a time: opening takes a new, higher epoch, written to the drives, and every write of
/// an older owner is refused with [`Error::Fenced`] from then on.
///
/// No method blocks; outcomes come through [`Done`], or through [`wait`] as a future.
pub trait Shelf: Send + Sync {
    /// Sizes, fixed for the life of the shelf except that segments may be added.
    fn layout(&self) -> Layout;

    /// What there is room for now. Less than there are segments when drives have gone and what is left is short. A shelf
    /// that always has room for all of its segments need not say, nor one that has stopped.
    fn room(&self) -> Room {
        Room { protected: u32::MAX, any: u32::MAX }
    }

    /// True while writes wait because what is below the drives has no space for them. They are tried again until it has;
    /// reads and the journal go on.
    fn is_starved(&self) -> bool {
        false
    }

    /// Appends one batch to the journal and answers when enough copies are durable. Batches become durable in the
    /// order of the calls: when one is answered, all before it are durable too. Several may be under way.
    ///
    /// `head` describes what is in `body` and means nothing to the shelf; it shares the batch's first page with the
    /// shelf's own header. Every piece of `body` starts on a 4096-byte border of memory and is a multiple of 4096
    /// long, so that it goes to the device as it is (see [`AlignedBuf::share`]). An error is final for this owner, but
    /// for [`Error::JournalFull`], which is answered at once: nothing was written, and after a superblock that trims
    /// the journal the batch may be appended again.
    ///
    /// # Panics
    /// When `head` and `body` together are longer than [`Layout::batch_bytes`].
    fn append(&self, head: Bytes, body: Vec<Bytes>, done: Done<JournalPos>);

    /// Bytes of [`Layout::journal_bytes`] that the batches before `pos` take which have not been trimmed, those under way
    /// among them. Zero before the journal of an older owner has been recovered.
    fn journal_taken(&self, pos: JournalPos) -> u64;

    /// True while batches in the journal bear fewer losses than they did when they were appended, as a drive that has a
    /// part of them has gone, or can't be taken away because of them. A superblock that trims them is what mends that.
    fn wants_trim(&self) -> bool {
        false
    }

    /// Reads the journal from `from` to its end: every batch whose append was answered, in order, and perhaps some
    /// that were not. A torn or stale batch ends it. Called once after opening, before the first append; on a shelf
    /// that was just formatted it may be left out.
    fn recover(&self, from: JournalPos, done: Done<Vec<Batch>>);

    /// Writes whole stripes of a segment at `offset`, a multiple of `stripe_bytes`. Not durable before a later
    /// [`Shelf::sync`]. A stripe is written once after [`Shelf::discard`], never twice,
    /// and a segment that an older owner began is discarded before it is written again.
    fn write(&self, segment: SegmentId, offset: u32, stripes: Arc<AlignedBuf>, done: Done<()>);

    /// Reads `len` bytes of a segment at `offset`, any alignment; the answer holds exactly these bytes. They are
    /// verified as far as the shelf can; reads of bytes never written are [`Error::Corrupt`] or arbitrary.
    fn read(&self, segment: SegmentId, offset: u32, len: u32, done: Done<Bytes>);

    /// Answers when every segment write answered before the call is durable.
    fn sync(&self, done: Done<()>);

    /// The contents of the segment are no longer needed; it may be written again from its front. The sooner a shelf
    /// knows, the more space it has to protect the rest with. Discarding twice does nothing more.
    fn discard(&self, segment: SegmentId);

    /// Writes the superblock durably in every place it is kept. Journal batches before
    /// `superblock.journal_from` are trimmed when it is answered.
    fn write_superblock(&self, superblock: Superblock, done: Done<()>);

    /// The newest valid superblock, or none on a shelf that was just formatted.
    fn superblock(&self) -> Option<Superblock>;
}

/// A buffer that devices can read and write directly: its start and capacity are aligned to 4096 bytes.
/// The journal's and the log's writers fill it once; afterwards it is shared, never changed.
pub struct AlignedBuf {
    memory: Box<[Page]>,
    len: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; ALIGN]);

impl AlignedBuf {
    /// An empty buffer that can hold `capacity` bytes, rounded up to 4096.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { memory: zeroed_pages(capacity.div_ceil(ALIGN)), len: 0 }
    }

    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        Self { len, ..Self::with_capacity(len) }
    }

    /// Bytes that it can hold.
    pub fn capacity(&self) -> usize {
        self.memory.len() * ALIGN
    }

    /// Adds bytes at the end and returns the offset of the first.
    ///
    /// # Panics
    /// When they do not fit: the writer has asked [`AlignedBuf::capacity`].
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let at = self.len;
        assert!(
            at + bytes.len() <= self.capacity(),
            "{} more bytes after {at} of {}",
            bytes.len(),
            self.capacity()
        );
        self.len += bytes.len();
        self[at..].copy_from_slice(bytes);
        at
    }

    /// Makes it `len` bytes long; new bytes are zero or what an earlier, longer content left.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity());
        self.len = len;
    }

    /// Shares `range` of the buffer as [`Bytes`] without a copy; the buffer lives as long as they do.
    pub fn share(self: &Arc<Self>, range: std::ops::Range<usize>) -> Bytes {
        Bytes::from_owner(Shared(self.clone())).slice(range)
    }
}

impl std::ops::Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `Page` is a plain array of bytes without padding, and `len` never exceeds the pages' bytes.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.len) }
    }
}

impl std::ops::DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the buffer is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.len) }
    }
}

/// Pages of zeros. Large ones come from the system as they are, and nobody writes zeros over zeros.
fn zeroed_pages(count: usize) -> Box<[Page]> {
    let layout = std::alloc::Layout::array::<Page>(count).expect("no machine has so much memory");
    if layout.size() == 0 {
        return Box::default();
    }
    // SAFETY: the layout is not empty, and is that of a boxed slice of so many pages, each valid when it is all zeros.
    unsafe {
        let memory = std::alloc::alloc_zeroed(layout);
        if memory.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory.cast(), count))
    }
}

struct Shared(Arc<AlignedBuf>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A callback and the future that it completes. When the callback is dropped uncalled the future ends with
/// [`Error::Drive`]: nothing waits for ever on a device that went away.
pub fn wait<T: Send + 'static>() -> (Done<T>, Wait<T>) {
    let slot = Arc::new(Mutex::new(Slot { outcome: None, waker: None }));
    let promise = Promise(slot.clone());
    (Box::new(move |outcome| promise.complete(outcome)), Wait(slot))
}

/// The future of [`wait`].
pub struct Wait<T>(Arc<Mutex<Slot<T>>>);

struct Slot<T> {
    outcome: Option<Result<T>>,
    waker: Option<Waker>,
}

struct Promise<T>(Arc<Mutex<Slot<T>>>);

impl<T> Promise<T> {
    fn complete(&self, outcome: Result<T>) {
        let waker = {
            let mut slot = self.0.lock();
            slot.outcome = Some(outcome);
            slot.waker.take()
        };
        // With the lock released: a waker may poll at once, on this thread.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        // After an answer was taken nobody polls again, and this one is never seen.
        if self.0.lock().outcome.is_none() {
            self.complete(Err(Error::Drive { what: "the device dropped the request".into() }));
        }
    }
}

impl<T> Future for Wait<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let mut slot = self.0.lock();
        match slot.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
