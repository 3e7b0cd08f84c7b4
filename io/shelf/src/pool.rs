//! The management side of a store: status, background work, drives and encryption keys.
//!
//! The control plane manages every store through [`Pool`], so that it does not depend on the implementation.
//! Drives and keys are optional: [`Pool::drives`] and [`Pool::keys`].

use crate::{Drive, Result, Shelf};
use bytes::Bytes;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A future that a trait object returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Called before each segment of a scrub with its number and the findings so far; ends the scrub by returning false.
pub type ScrubStep<'a> = Box<dyn FnMut(u32, &ScrubReport) -> bool + Send + 'a>;

/// A store that can be managed.
pub trait Pool: Shelf {
    /// The identity of the array.
    fn array(&self) -> u128;

    /// The format that it has, and those that this release reads.
    fn format(&self) -> (u32, RangeInclusive<u32>);

    /// Redundancy, capacity and drives now.
    fn status(&self) -> PoolStatus;

    /// Advances the clock for request timeouts and for throttling background work. `now` is from any monotonic clock.
    /// Call it several times a second.
    fn tick(&self, now: Duration);

    /// Background work: rebuild, repair, changes of membership. The returned future ends when the store stops.
    /// The code that opened the store polls it.
    fn background(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Reads and verifies everything in use from a segment on, and repairs what is wrong. A store that scrubs by itself
    /// returns an empty report immediately, as this default does.
    fn scrub<'a>(&'a self, from: u32, step: ScrubStep<'a>) -> BoxFuture<'a, ScrubReport> {
        _ = (from, step);
        Box::pin(async { ScrubReport::default() })
    }

    /// Scrubs one segment, and hands over what it read: a reader of everything needs to read nothing twice. A store that scrubs by
    /// itself returns an empty report and no payload, as this default does.
    fn scrub_segment(&self, segment: u32) -> BoxFuture<'_, ScrubbedSegment> {
        _ = segment;
        Box::pin(async { ScrubbedSegment::default() })
    }

    /// Management of its drives; `None` if the store has no drives.
    fn drives(&self) -> Option<&dyn Drives> {
        None
    }

    /// Management of its encryption key; `None` if the store does not encrypt.
    fn keys(&self) -> Option<&dyn Keys> {
        None
    }
}

/// Changes to the drives of a store. [`PoolStatus::drives`] lists them.
pub trait Drives: Send + Sync {
    /// Examines a drive that may be added. Only its labels and both ends are read.
    ///
    /// # Errors
    /// [`Error::Drive`](crate::Error::Drive) when it can't be read.
    fn contents<'a>(&'a self, drive: &'a dyn Drive) -> BoxFuture<'a, Result<DriveContents>>;

    /// Adds a drive and returns its slot. New segments are placed on it, the number of segments grows, and segments with
    /// reduced redundancy are rebuilt on it. This is also how a failed drive is replaced.
    ///
    /// # Errors
    /// [`Error::Unusable`](crate::Error::Unusable) when it is too small, there are too many, or it holds something that
    /// `consent` does not allow to overwrite; [`Error::Drive`](crate::Error::Drive) when it fails.
    fn add<'a>(&'a self, drive: Arc<dyn Drive>, consent: &'a Consent) -> BoxFuture<'a, Result<usize>>;

    /// Evacuates a drive: its data moves to the others, and then it is removed from the store. It is
    /// [`DriveState::Evacuating`] until then.
    ///
    /// # Errors
    /// [`Error::Unusable`](crate::Error::Unusable) when there is no such member, the others lack space, or fewer than
    /// `min_tolerates` drives could fail without data loss afterwards.
    fn evacuate(&self, slot: usize, min_tolerates: usize) -> BoxFuture<'_, Result>;

    /// Cancels an evacuation: the drive stays in the store with the data it still holds.
    ///
    /// # Errors
    /// [`Error::Unusable`](crate::Error::Unusable) when it is not being evacuated.
    fn cancel_evacuation(&self, slot: usize) -> BoxFuture<'_, Result>;

    /// The failures that must still be tolerated after an evacuation if it is not to reduce redundancy:
    /// [`PoolStatus::failures_to_tolerate`], or less if the drives that stay can't provide that now.
    fn min_tolerates_after_evacuation(&self) -> usize;
}

/// The encryption key of a store. The data key never changes; it is wrapped with an external key, the
/// key-encryption key.
pub trait Keys: Send + Sync {
    /// The wrapped data key; `None` if the store is not encrypted.
    fn wrapped(&self) -> Option<Arc<dyn WrappedKey>>;

    /// Wraps the data key with another key-encryption key, `key`, which comes from `source`, while I/O continues. `nonce` is
    /// random. Returns the slots that could not be reached: they keep the old one until they are opened again. Only
    /// one change may run at a time.
    ///
    /// # Errors
    /// [`Error::Unusable`](crate::Error::Unusable) when the store is not encrypted, or the error that stopped the store:
    /// which key opens it is unknown then.
    fn rewrap<'a>(
        &'a self,
        source: KeySource,
        key: &'a [u8; KEY_BYTES],
        nonce: [u8; 12],
    ) -> BoxFuture<'a, Result<Vec<usize>>>;
}

/// A wrapped data key.
pub trait WrappedKey: Send + Sync {
    /// Where its key-encryption key comes from.
    fn source(&self) -> &KeySource;

    /// Grows with every change of the key-encryption key.
    fn generation(&self) -> u64;

    /// True if this key-encryption key unwraps it.
    fn opens(&self, key: &[u8; KEY_BYTES]) -> bool;
}

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Where the key-encryption key comes from. The key itself is nowhere in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// Crypto-erased: the wrapped key has been destroyed, and the store can't be opened again.
    Erased,
    /// A file of 32 bytes.
    File,
    /// A passphrase, through Argon2id.
    Passphrase {
        /// Its salt.
        salt: [u8; 16],
        /// Memory in KiB.
        memory: u32,
        /// Passes over the memory.
        passes: u32,
        /// Lanes.
        lanes: u32,
    },
    /// A KMIP server.
    Kmip {
        /// The key's Unique Identifier there, at most [`KeySource::MAX_ID_BYTES`] bytes.
        id: String,
    },
}

impl KeySource {
    /// Longest Unique Identifier.
    pub const MAX_ID_BYTES: usize = 1024;
}

/// Content that may be overwritten on a drive that is not blank. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// Anything except drives with the label of an array.
    pub foreign: bool,
    /// Drives with the label of one of these arrays.
    pub arrays: Vec<u128>,
}

/// What a drive holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveContents {
    /// Zeros at both ends, or the remains of a format that did not complete.
    Blank,
    /// The label of an array, which may be damaged or of another release.
    Array {
        /// The array.
        array: u128,
        /// The slot and the number of slots, if the label can be read.
        slot: Option<(usize, usize)>,
    },
    /// Data of something else: the offset of the first byte that is not zero.
    Foreign {
        /// The offset.
        at: u64,
    },
}

/// State of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriveState {
    /// No drive belongs here.
    #[default]
    Empty,
    /// A member.
    Online,
    /// A member whose data are moved to the others: nothing new is placed on it.
    Evacuating,
    /// A member that failed or is missing; its data is being rebuilt on others.
    Failed,
}

/// A slot of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveStatus {
    /// The slot, from 0.
    pub slot: usize,
    /// The path of the drive; `None` if it is missing.
    pub name: Option<String>,
    /// The drive's identity.
    pub drive: u128,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes in use by segments.
    pub used_bytes: u64,
    /// Its state.
    pub state: DriveState,
    /// True if it carries a copy of the journal.
    pub journal: bool,
    /// Bytes read since the store was opened.
    pub read_bytes: u64,
    /// Bytes written since the store was opened.
    pub written_bytes: u64,
    /// Reads that failed since the store was opened.
    pub read_errors: u64,
    /// Reads that were served from other drives because this one took too long.
    pub slow_reads: u64,
    /// Pages whose contents differed from what was written: latent sector errors, misdirected and lost writes.
    pub bad_pages: u64,
    /// True while it persistently takes much longer than its peers; they are used in its place where possible.
    pub slow: bool,
    /// True while it makes hosts wait: it takes several times as long as its peers, or longer than any drive should.
    pub lags: bool,
    /// Failures that could still be tolerated after this drive is evacuated; `None` if that is no fewer than now.
    pub reduces_to: Option<usize>,
}

/// State of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// The slots that have, or had, a drive.
    pub drives: Vec<DriveStatus>,
    /// Number of drives that may still fail, in any combination, without data loss.
    pub tolerates: usize,
    /// Drive failures that the array is specified to tolerate: the most that it ever could.
    pub failures_to_tolerate: usize,
    /// Segments in use.
    pub segments: u32,
    /// Segments that there is room for on the present drives, those in use included.
    pub total_segments: u32,
    /// Bytes of parity on the present drives once every segment is in use; `None` if the store has no drives.
    pub parity_bytes: Option<u64>,
    /// Segments with reduced redundancy: a column is missing, or on a drive that is being evacuated.
    pub degraded_segments: u32,
    /// Segments rebuilt elsewhere since the store was opened.
    pub rebuilt_segments: u64,
    /// Pages that were wrong and have been written again since the store was opened.
    pub repaired_pages: u64,
    /// Pages that could not be reconstructed since the store was opened.
    pub lost_pages: u64,
    /// Paths of drives that were given when the store was opened and have a label of this array but are not members: they were
    /// replaced, or used without the others. Nothing is read from them.
    pub former_drives: Vec<String>,
    /// Drives that were members since the store was opened and still hold a wrapped key of the array because they could not
    /// be wiped.
    pub unwiped_drives: Vec<String>,
    /// File systems that thin-provisioned drives allocate from.
    pub file_systems: Vec<FileSystem>,
    /// True while writes wait because one of those file systems is full.
    pub starved: bool,
    /// What the store consists of in another cluster, such as Ceph; `None` if it has drives.
    pub objects: Option<ObjectStore>,
}

/// A store of objects in another cluster, such as Ceph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectStore {
    /// Its pools, each once.
    pub pools: Vec<ObjectPool>,
    /// The namespace of the array in them.
    pub namespace: String,
    /// The epoch of the owner: objects refuse an older one.
    pub epoch: u64,
    /// Journal objects that are written in parallel.
    pub lanes: usize,
    /// The address of the owner in that cluster, by which it can be fenced.
    pub client: String,
}

/// A pool of such a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectPool {
    /// Its name.
    pub name: String,
    /// True if the journal and the superblocks are there.
    pub journal: bool,
    /// True if segments are there.
    pub segments: bool,
    /// Bytes that are stored there by all, without replicas; `None` if the cluster has not said.
    pub stored: Option<u64>,
    /// Bytes that can still be written there.
    pub available: Option<u64>,
}

/// A file system that sparse drives allocate from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Slots of the drives.
    pub slots: Vec<usize>,
    /// Free bytes.
    pub free: u64,
    /// Its size in bytes.
    pub total: u64,
    /// Bytes that the drives on it may still allocate.
    pub growth: u64,
}

/// A segment that was scrubbed.
#[derive(Clone, Debug, Default)]
pub struct ScrubbedSegment {
    /// The findings.
    pub report: ScrubReport,
    /// Payload of its stripes from the first one on, as far as they were written: empty where it can't be read. `None` if the store
    /// does not scrub.
    pub stripes: Option<Vec<Bytes>>,
}

/// Findings of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Segments.
    pub segments: u64,
    /// Bytes read, parity included.
    pub bytes: u64,
    /// Pages whose contents differed from what was written.
    pub errors: u64,
    /// Of these, repaired.
    pub repaired: u64,
    /// Pages that could not be reconstructed.
    pub lost: u64,
}

impl std::ops::AddAssign for ScrubReport {
    fn add_assign(&mut self, more: Self) {
        self.segments += more.segments;
        self.bytes += more.bytes;
        self.errors += more.errors;
        self.repaired += more.repaired;
        self.lost += more.lost;
    }
}
