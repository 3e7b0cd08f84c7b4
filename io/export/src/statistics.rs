//! Command statistics: operations, bytes, failures and latency by volume, host and target port.
//!
//! A command costs two clock reads and three additions to counters that only its own connection writes.

mod histogram;

pub(crate) use histogram::Buckets;
pub use histogram::Histogram;

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of commands, as shown to administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// READ of every length.
    Read,
    /// WRITE of every length, and other commands that transfer all of their data: WRITE AND VERIFY, WRITE ATOMIC,
    /// ORWRITE.
    Write,
    /// COMPARE AND WRITE (ATS).
    CompareAndWrite,
    /// EXTENDED COPY (XCOPY), and Copy of NVMe.
    Copy,
    /// WRITE USING TOKEN (ODX).
    TokenCopy,
    /// WRITE SAME, with or without unmapping.
    WriteSame,
    /// UNMAP
    Unmap,
    /// All other commands.
    Other,
}

impl Operation {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Operation; 8] = [
        Operation::Read,
        Operation::Write,
        Operation::CompareAndWrite,
        Operation::Copy,
        Operation::TokenCopy,
        Operation::WriteSame,
        Operation::Unmap,
        Operation::Other,
    ];
}

/// Size classes of commands by their number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SizeClass(u8);

impl SizeClass {
    /// Every class but the last ends at a power of two, from 4 KiB to 4 MiB; in steps of four above 128 KiB.
    const LIMITS: [u64; 9] =
        [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 512 << 10, 2 << 20, u64::MAX];

    /// All classes, in ascending order.
    pub fn all() -> impl Iterator<Item = SizeClass> {
        (0..Self::LIMITS.len()).map(|index| SizeClass(index as u8))
    }

    /// The class of a number of bytes.
    pub fn of(bytes: u64) -> SizeClass {
        SizeClass(Self::LIMITS.partition_point(|limit| *limit < bytes) as u8)
    }

    /// Upper bound of this class, in bytes, inclusive; `None` for the last one, which has no upper bound.
    pub fn limit(self) -> Option<u64> {
        Self::LIMITS.get(usize::from(self.0)).copied().filter(|limit| *limit != u64::MAX)
    }
}

/// Counters of one kind and size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Bytes read, written, unmapped or copied by successful commands.
    pub bytes: u64,
    /// Commands that ended with a status other than GOOD or CONDITION MET, or were aborted.
    pub failures: u64,
    /// Latency of successful commands, from the arrival of all their data to their response.
    pub latency: Histogram,
}

impl OperationCounts {
    /// Number of successful commands.
    pub fn operations(&self) -> u64 {
        self.latency.count()
    }

    /// Adds other counters.
    pub fn add(&mut self, other: &OperationCounts) {
        self.bytes += other.bytes;
        self.failures += other.failures;
        self.latency.add(&other.latency);
    }
}

/// Counters of one path, or sums over several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// Counters by kind and size; empty combinations are left out.
    pub counts: BTreeMap<(Operation, SizeClass), OperationCounts>,
    /// Bytes copied by sharing stored data.
    pub copied_by_sharing: u64,
    /// Bytes copied by reading and writing.
    pub copied_by_moving: u64,
}

impl IoCounters {
    /// Adds other counters.
    pub fn add(&mut self, other: &IoCounters) {
        for (key, counts) in &other.counts {
            self.counts.entry(*key).or_default().add(counts);
        }
        self.copied_by_sharing += other.copied_by_sharing;
        self.copied_by_moving += other.copied_by_moving;
    }

    /// Counters of one kind, for all sizes.
    pub fn of(&self, operation: Operation) -> OperationCounts {
        let mut sum = OperationCounts::default();
        for (_, counts) in self.counts.iter().filter(|((kind, _), _)| *kind == operation) {
            sum.add(counts);
        }
        sum
    }
}

/// A path of commands: host and target port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathId {
    /// The host's name (see [`InitiatorPort::host_name`](crate::InitiatorPort::host_name)).
    pub initiator: String,
    /// The relative identifier of the target port.
    pub port: u16,
}

const CELLS: usize = Operation::ALL.len() * SizeClass::LIMITS.len();

/// The counters of one path. Memory is allocated with the first command of a kind and size.
#[derive(Default)]
pub struct Recorder {
    cells: OnceLock<Box<[OnceLock<Box<Cell>>; CELLS]>>,
    shared: AtomicU64,
    moved: AtomicU64,
}

#[derive(Default)]
struct Cell {
    bytes: AtomicU64,
    failures: AtomicU64,
    latency: Buckets,
}

impl Recorder {
    /// Counts a command; `nanoseconds` is its latency, `None` if it failed.
    pub fn record(&self, operation: Operation, bytes: u64, nanoseconds: Option<u64>) {
        let cells = self.cells.get_or_init(|| Box::new([const { OnceLock::new() }; CELLS]));
        let index = operation as usize * SizeClass::LIMITS.len() + usize::from(SizeClass::of(bytes).0);
        let cell = cells[index].get_or_init(Default::default);
        match nanoseconds {
            Some(nanoseconds) => {
                cell.bytes.fetch_add(bytes, Ordering::Relaxed);
                cell.latency.record(nanoseconds);
            }
            None => {
                cell.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts the bytes of a copy: by sharing stored data, and by reading and writing.
    pub fn copied(&self, shared: u64, moved: u64) {
        self.shared.fetch_add(shared, Ordering::Relaxed);
        self.moved.fetch_add(moved, Ordering::Relaxed);
    }

    /// Number of successful commands of a kind, and the sum of their latencies in nanoseconds.
    pub(crate) fn latencies(&self, operation: Operation) -> (u64, u64) {
        let cells = self.cells.get().into_iter().flat_map(|cells| cells.iter());
        let sizes = SizeClass::LIMITS.len();
        let of_kind = cells.skip(operation as usize * sizes).take(sizes).filter_map(OnceLock::get);
        of_kind.map(|cell| cell.latency.sums()).fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
    }

    /// A snapshot of the counters.
    pub fn counters(&self) -> IoCounters {
        let keys = Operation::ALL.into_iter().flat_map(|kind| SizeClass::all().map(move |size| (kind, size)));
        let cells = self.cells.get().into_iter().flat_map(|cells| cells.iter());
        let known = keys.zip(cells).filter_map(|(key, cell)| Some((key, cell.get()?.counts())));
        IoCounters {
            counts: known.collect(),
            copied_by_sharing: self.shared.load(Ordering::Relaxed),
            copied_by_moving: self.moved.load(Ordering::Relaxed),
        }
    }
}

impl Cell {
    fn counts(&self) -> OperationCounts {
        OperationCounts {
            bytes: self.bytes.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            latency: self.latency.histogram(),
        }
    }
}

#[cfg(test)]
#[path = "statistics_test.rs"]
mod tests;
