//! Bounds of memory and of messages under way.

/// How much the source offers at a time. Both ends hold the blocks of the offers under way, at most
/// `offers × offer_blocks × 4 KiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Blocks with data in one offer, at most [`MAX_OFFER_BLOCKS`].
    pub offer_blocks: usize,
    /// Offers under way, at most [`MAX_OFFERS`].
    pub offers: usize,
    /// Entries of the target's index from fingerprints to blocks, of 24 bytes each.
    pub index_entries: usize,
    /// Fingerprints of stored blocks that an end remembers, of 24 bytes each.
    pub known_blocks: usize,
}

/// Blocks with data in one offer that a target takes.
pub const MAX_OFFER_BLOCKS: usize = 1024;

/// Offers under way that a target takes.
pub const MAX_OFFERS: usize = 16;

/// Bytes of what a target sends for one offer: which blocks it wants, and that it applied it.
const ANSWER_BYTES: usize = 2 * (peer::frame::HEADER_BYTES + 12) + MAX_OFFER_BLOCKS / 8;

/// A source sends without receiving while it may offer more, so that all of this has to fit into the buffers of a stream.
const _: () = assert!(MAX_OFFERS * ANSWER_BYTES <= 4096);

/// Changes of a synchronous group under way.
pub const MAX_CHANGES: usize = 64;

/// Blocks of data in one message of a change: the journal of a small array takes no longer ones.
pub const MAX_CHANGE_BLOCKS: u64 = 128;

/// Parts of one message of a change.
pub const MAX_CHANGE_PARTS: usize = 1024;

/// A source sends changes without receiving while it has room for more under way, so that all answers have to fit as well.
const _: () = assert!(MAX_CHANGES * (peer::frame::HEADER_BYTES + 8) <= 4096);

/// Time after which a source that has nothing to send in a session sends an empty change, in nanoseconds. So a connection that is
/// lost is noticed without writes, and the round trip is measured.
pub const HEARTBEAT_NS: u64 = 1_000_000_000;

/// Time without an answer, or without a change on the target, after which the other array counts as lost in a session, in
/// nanoseconds. Writes of hosts wait as long: it has to leave most of the 30 s that hosts usually give a command.
pub const MAX_SILENCE_NS: u64 = 5_000_000_000;

/// Time for the point of a session, in nanoseconds, if writes would be acknowledged without the other array
/// otherwise: they wait for it.
pub const MAX_JOIN_NS: u64 = 10_000_000_000;

/// A heartbeat and its answer fit into the silence several times.
const _: () = assert!(4 * HEARTBEAT_NS <= MAX_SILENCE_NS && MAX_SILENCE_NS < MAX_JOIN_NS);

/// Runs in one offer.
pub const MAX_EXTENTS: usize = 4096;

/// Volumes of a group.
pub const MAX_VOLUMES: usize = 1024;

/// Points that a target lists: the newest ones.
pub const MAX_POINTS: usize = 1024;

impl Default for Limits {
    /// 16 MiB under way, an index for 16 GiB of distinct blocks in 96 MiB, and fingerprints of 4 GiB in 24 MiB.
    fn default() -> Self {
        Self { offer_blocks: 512, offers: 8, index_entries: 4 << 20, known_blocks: 1 << 20 }
    }
}

impl Limits {
    /// These limits, within what the protocol allows.
    pub(crate) fn bounded(self) -> Self {
        Self {
            offer_blocks: self.offer_blocks.clamp(1, MAX_OFFER_BLOCKS),
            offers: self.offers.clamp(1, MAX_OFFERS),
            ..self
        }
    }
}
