//! Limits of memory and of outstanding messages.

/// Limits of a source's offers. Both ends hold the blocks of outstanding offers, at most `offers × offer_blocks × 4
/// KiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Blocks with data in one offer, at most [`MAX_OFFER_BLOCKS`].
    pub offer_blocks: usize,
    /// Outstanding offers, at most [`MAX_OFFERS`].
    pub offers: usize,
    /// Entries of the target's index from fingerprints to blocks, of 24 bytes each.
    pub index_entries: usize,
    /// Cached fingerprints of stored blocks at each end, of 24 bytes each.
    pub known_blocks: usize,
}

/// Maximum number of blocks with data in one offer.
pub const MAX_OFFER_BLOCKS: usize = 1024;

/// Maximum number of outstanding offers.
pub const MAX_OFFERS: usize = 16;

/// Maximum number of offers of a transfer: more than the blocks of all volumes.
pub const MAX_TRANSFER_OFFERS: u64 = u64::MAX >> 1;

/// Bytes that a target sends for one offer: the wanted blocks, and the confirmation.
const ANSWER_BYTES: usize = 2 * (peer::frame::HEADER_BYTES + 12) + MAX_OFFER_BLOCKS / 8;

/// A source sends without receiving while it may offer more, so all answers must fit into the buffers of a stream.
const _: () = assert!(MAX_OFFERS * ANSWER_BYTES <= 4096);

/// Maximum number of outstanding changes of a synchronous group.
pub const MAX_CHANGES: usize = 64;

/// Blocks of data in one change message, limited by the journal of a small array.
pub const MAX_CHANGE_BLOCKS: u64 = 128;

/// Maximum number of parts in one change message.
pub const MAX_CHANGE_PARTS: usize = 1024;

/// A source sends changes without receiving while it may have more outstanding, so all answers must fit as well.
const _: () = assert!(MAX_CHANGES * (peer::frame::HEADER_BYTES + 8) <= 4096);

/// Idle time after which a source sends an empty change in a session, in nanoseconds. It detects a lost connection
/// without writes, and measures the round trip.
pub const HEARTBEAT_NS: u64 = 1_000_000_000;

/// Time without an answer, or without a change on the target, after which the other array counts as lost in a session,
/// in nanoseconds. Writes of hosts wait as long: most of the usual 30 s of a command must remain.
pub const MAX_SILENCE_NS: u64 = 5_000_000_000;

/// Time limit for the point of a session, in nanoseconds, if writes wait for it that could be acknowledged without the
/// other array.
pub const MAX_JOIN_NS: u64 = 10_000_000_000;

/// Several heartbeats with their answers fit into the silence.
const _: () = assert!(4 * HEARTBEAT_NS <= MAX_SILENCE_NS && MAX_SILENCE_NS < MAX_JOIN_NS);

/// Maximum number of runs in one offer.
pub const MAX_EXTENTS: usize = 4096;

/// Maximum number of volumes of a group.
pub const MAX_VOLUMES: usize = 1024;

/// Largest number of a point from another array: numbers of this array follow it.
pub const MAX_POINT_NUMBER: u64 = u64::MAX >> 1;

/// Maximum number of points in a target's list: the newest ones.
pub const MAX_POINTS: usize = 1024;

impl Default for Limits {
    /// 16 MiB outstanding, an index for 16 GiB of distinct blocks in 96 MiB, and fingerprints of 4 GiB in 24 MiB.
    fn default() -> Self {
        Self { offer_blocks: 512, offers: 8, index_entries: 4 << 20, known_blocks: 1 << 20 }
    }
}

impl Limits {
    /// These limits, bounded by the protocol's.
    pub(crate) fn bounded(self) -> Self {
        Self {
            offer_blocks: self.offer_blocks.clamp(1, MAX_OFFER_BLOCKS),
            offers: self.offers.clamp(1, MAX_OFFERS),
            ..self
        }
    }
}
