//! Superblocks on media: the engine's root with the place where its journal begins.
//!
//! Every drive has two slots. A superblock is written to slot 0 of all drives, and when that is durable to slot 1 of
//! all drives: whatever is torn, one slot of each drive holds the newest or the one before, whole.

use crate::geometry::HEADER_BYTES;
use crate::media::{Reader, Writer, crc32c, pages};
use crate::{AlignedBuf, JournalPos, Superblock};
use bytes::Bytes;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"ASHSUPER";

const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// A superblock with what the shelf itself keeps at the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The array.
    pub array: u128,
    /// The owner that wrote it.
    pub epoch: u64,
    /// One more with every superblock.
    pub sequence: u64,
    /// The journal address of `superblock.journal_from`.
    pub journal_at: u64,
    /// The owner whose batch is, or would be, at that address.
    pub journal_epoch: u64,
    /// The newest batch that had been answered.
    pub answered: JournalPos,
    /// What the engine gave.
    pub superblock: Superblock,
}

impl Root {
    /// The bytes of a slot, whole pages.
    pub fn encode(&self) -> Bytes {
        let payload = &self.superblock.payload;
        let len = HEADER_BYTES + payload.len();
        let mut slot = AlignedBuf::zeroed(pages(len as u64) as usize);
        let mut out = Writer::new(&mut slot);
        out.put(&MAGIC).put(&self.array.to_le_bytes());
        out.put(&self.epoch.to_le_bytes()).put(&self.sequence.to_le_bytes());
        out.put(&self.superblock.journal_from.0.to_le_bytes());
        out.put(&self.journal_at.to_le_bytes()).put(&self.journal_epoch.to_le_bytes());
        out.put(&self.answered.0.to_le_bytes());
        out.put(&(payload.len() as u32).to_le_bytes()).put(&crc32c([&payload[..]]).to_le_bytes());
        let checksum = crc32c([&slot[..CHECKSUM_AT]]);
        slot[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        slot[HEADER_BYTES..len].copy_from_slice(payload);
        let all = slot.len();
        Arc::new(slot).share(0..all)
    }

    /// The root in a slot of this array, none when it is not whole.
    pub fn decode(slot: &Bytes, array: u128) -> Option<Self> {
        let covered = slot.get(..CHECKSUM_AT)?;
        let checksum = Reader(slot.get(CHECKSUM_AT..HEADER_BYTES)?).u32()?;
        let mut from = Reader(covered);
        if from.take() != Some(MAGIC) || checksum != crc32c([covered]) || from.u128() != Some(array) {
            return None;
        }
        let (epoch, sequence) = (from.u64()?, from.u64()?);
        let journal_from = JournalPos(from.u64()?);
        let (journal_at, journal_epoch) = (from.u64()?, from.u64()?);
        let answered = JournalPos(from.u64()?);
        let (len, sum) = (from.u32()? as usize, from.u32()?);
        let end = HEADER_BYTES.checked_add(len).filter(|end| *end <= slot.len())?;
        let payload = slot.slice(HEADER_BYTES..end);
        if crc32c([&payload[..]]) != sum {
            return None;
        }
        let superblock = Superblock { journal_from, payload };
        Some(Self { array, epoch, sequence, journal_at, journal_epoch, answered, superblock })
    }

    /// Which of two roots is newer.
    pub fn age(&self) -> (u64, u64) {
        (self.epoch, self.sequence)
    }
}
