//! Options of the engine: memory bounds and tunables.

use crate::root::FORMATS;
use crate::tunables::Tunables;
use shelf::Workers;
use std::ops::RangeInclusive;

/// Options of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Entropy for the fingerprint key of a shelf that is formatted; not used for one that has an engine already.
    pub seed: [u8; 32],
    /// Bytes of written data in memory that wait to be flushed, at most.
    pub slot_bytes: usize,
    /// Bytes of decoded frames kept for reads.
    pub cache_bytes: usize,
    /// Bytes of the deduplication index.
    pub index_bytes: usize,
    /// Bytes of map and frame table pages kept in memory.
    pub page_bytes: usize,
    /// Map pages at most. Each takes 40 bytes of memory, and maps 2 MiB of volumes or shares in that. A write that
    /// needs more is refused as if the drives were full.
    pub map_pages: u64,
    /// Whether stored data is recompressed while the array is idle.
    pub recompress: bool,
    /// Formats that are opened, of [`crate::FORMATS`]; a new store gets the newest. With fewer of them the engine does what an
    /// earlier release does.
    pub formats: RangeInclusive<u32>,
    /// How work is divided.
    pub tunables: Tunables,
    /// Where the background and the store compute.
    pub workers: Workers,
}

impl Options {
    /// The default bounds.
    pub fn new(seed: [u8; 32]) -> Self {
        Self {
            seed,
            slot_bytes: 256 << 20,
            cache_bytes: 256 << 20,
            index_bytes: 128 << 20,
            page_bytes: 512 << 20,
            map_pages: 16 << 20,
            recompress: true,
            formats: FORMATS,
            tunables: Tunables::default(),
            workers: Workers::default(),
        }
    }
}
