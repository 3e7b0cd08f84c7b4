//! Internal limits: how recovery, commits and rebuild are divided into steps.
//!
//! The product uses the defaults. The simulator draws others from each seed, so that what takes many steps on a large
//! array does so on a small one, too.

/// Limits of a shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Changed pages of the segment map that are written durably one by one; more are written together and followed by
    /// one sync.
    pub durable_map_pages_max: usize,
    /// Pages of the segment map that are read at once.
    pub map_read_pages: u64,
    /// Pages that recovery reads ahead from each copy of the journal.
    pub recovery_read_ahead_pages: u64,
    /// Smallest body of a journal batch that is striped.
    pub striped_batch_min_pages: usize,
    /// Pages of a new journal copy in flight at once.
    pub journal_copy_pages: u64,
    /// Rebuild rate while hosts do I/O.
    pub busy_bytes_per_second: u64,
    /// Rebuild rate while hosts do no I/O.
    pub idle_bytes_per_second: u64,
    /// Freed segments whose space is given back to the drives at once: the placing of others waits for them.
    pub discarded_segments_max: u32,
    /// Buffers that are kept for reuse, of stripes and of parities of batches.
    pub kept_buffers_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            durable_map_pages_max: 4,
            map_read_pages: 256,
            recovery_read_ahead_pages: 1024,
            striped_batch_min_pages: 4,
            journal_copy_pages: 256,
            busy_bytes_per_second: 100 << 20,
            idle_bytes_per_second: 2 << 30,
            discarded_segments_max: 16,
            kept_buffers_max: 8,
        }
    }
}
