//! Superblocks on media: the engine's root and where its journal begins.
//!
//! Every drive has two slots. A superblock is written to slot 0 of all drives, and when that is durable to slot 1 of
//! all drives: even after a torn write one slot of each drive holds the newest or the one before. An opening after that
//! begins with the other slot of each drive.

use crate::codec::{RECORDS, Reader, Writer, crc32c, pages};
use crate::encryption::{Keyring, Kind, TAG_BYTES};
use crate::geometry::HEADER_BYTES;
use crate::label::MAX_EPOCH;
use crate::{ALIGN, AlignedBuf, JournalPos, Superblock};
use bytes::Bytes;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"ASHSUPER";

/// An owner uses each sequence number once: see [`encryption`](crate::encryption).
fn nonce(epoch: u64, sequence: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&sequence.to_le_bytes());
    nonce[8..].copy_from_slice(&(epoch as u32).to_le_bytes());
    nonce
}

/// Numbers of superblocks and batches, and addresses of the journal, are smaller.
const MAX_NUMBER: u64 = 1 << 62;

/// Offset of the tag; it covers the fields before it.
const TAG_AT: usize = 88;
const VERSION_AT: usize = 104;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// A superblock as it is stored, with the fields of the shelf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSuperblock {
    /// The array.
    pub array: u128,
    /// The owner that wrote it.
    pub epoch: u64,
    /// The salt of that owner.
    pub salt: u64,
    /// One more with every superblock.
    pub sequence: u64,
    /// The journal address of `superblock.journal_from`.
    pub journal_at: u64,
    /// The owner whose batch is, or would be, at that address.
    pub journal_epoch: u64,
    /// The newest acknowledged batch.
    pub acknowledged: JournalPos,
    /// The engine's superblock.
    pub superblock: Superblock,
}

impl StoredSuperblock {
    /// Encodes a slot, in whole pages.
    pub fn encode(&self, keyring: &Keyring) -> Bytes {
        let payload = &self.superblock.payload;
        let len = HEADER_BYTES + payload.len();
        let mut slot = AlignedBuf::zeroed(pages(len as u64) as usize);
        let mut out = Writer::new(&mut slot);
        out.put(&MAGIC).put(&self.array.to_le_bytes());
        out.put(&self.epoch.to_le_bytes()).put(&self.sequence.to_le_bytes());
        out.put(&self.superblock.journal_from.0.to_le_bytes());
        out.put(&self.journal_at.to_le_bytes()).put(&self.journal_epoch.to_le_bytes());
        out.put(&self.acknowledged.0.to_le_bytes());
        let cipher = keyring.cipher(Kind::Superblock, self.salt);
        let sum = if cipher.is_some() { 0 } else { crc32c([&payload[..]]) };
        out.put(&(payload.len() as u32).to_le_bytes()).put(&sum.to_le_bytes()).put(&self.salt.to_le_bytes());
        slot[HEADER_BYTES..len].copy_from_slice(payload);
        if let Some(cipher) = cipher {
            let (header, payload) = slot.split_at_mut(HEADER_BYTES);
            let (fields, rest) = header.split_at_mut(TAG_AT);
            let nonce = nonce(self.epoch, self.sequence);
            rest[..TAG_BYTES].copy_from_slice(&cipher.seal(
                &nonce,
                fields,
                &mut payload[..len - HEADER_BYTES],
            ));
        }
        let checksum = crc32c([&slot[..CHECKSUM_AT]]);
        slot[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        let all = slot.len();
        Arc::new(slot).share(0..all)
    }

    /// Decodes a slot of this array; `None` if it is not valid.
    pub fn decode(slot: &Bytes, keyring: &Keyring) -> Option<Self> {
        let array = keyring.array();
        let covered = slot.get(..CHECKSUM_AT)?;
        let checksum = Reader(slot.get(CHECKSUM_AT..HEADER_BYTES)?).u32()?;
        let mut from = Reader(covered);
        if from.take() != Some(MAGIC)
            || checksum != crc32c([covered])
            || from.u128() != Some(array)
            || Self::unknown_version(slot, array).is_some()
        {
            return None;
        }
        let (epoch, sequence) = (from.u64()?, from.u64()?);
        let journal_from = JournalPos(from.u64()?);
        let (journal_at, journal_epoch) = (from.u64()?, from.u64()?);
        let acknowledged = JournalPos(from.u64()?);
        let fits = epoch < MAX_EPOCH
            && [sequence, journal_from.0, journal_at, acknowledged.0]
                .iter()
                .all(|number| *number < MAX_NUMBER)
            && journal_from.0 > 0
            && journal_at.is_multiple_of(ALIGN as u64);
        if !fits {
            return None;
        }
        let (len, sum) = (from.u32()? as usize, from.u32()?);
        let end = HEADER_BYTES.checked_add(len).filter(|end| *end <= slot.len())?;
        let salt = from.u64()?;
        let tag = from.take::<TAG_BYTES>()?;
        let mut payload = slot.slice(HEADER_BYTES..end);
        match keyring.cipher(Kind::Superblock, salt) {
            Some(cipher) => {
                let mut clear = vec![0; len];
                if !cipher.open(&nonce(epoch, sequence), covered.get(..TAG_AT)?, &payload, &tag, &mut clear) {
                    return None;
                }
                payload = clear.into();
            }
            None if crc32c([&payload[..]]) != sum => return None,
            None => {}
        }
        let superblock = Superblock { journal_from, payload };
        Some(Self { array, epoch, salt, sequence, journal_at, journal_epoch, acknowledged, superblock })
    }

    /// The owner that wrote the slot that begins with this page; `None` if it is not of this array.
    pub fn epoch_of(page: &[u8], array: u128) -> Option<u64> {
        let covered = page.get(..CHECKSUM_AT)?;
        let checksum = Reader(page.get(CHECKSUM_AT..HEADER_BYTES)?).u32()?;
        let mut from = Reader(covered);
        let whole = from.take() == Some(MAGIC) && checksum == crc32c([covered]);
        (whole && from.u128() == Some(array)).then(|| from.u64())?
    }

    /// The version of the slot that begins with this page, if this release can't read it.
    pub fn unknown_version(page: &[u8], array: u128) -> Option<u32> {
        Self::epoch_of(page, array)?;
        Reader(page.get(VERSION_AT..)?).u32().filter(|version| !RECORDS.reads(*version))
    }

    /// Orders superblocks: the newer one is greater.
    pub fn age(&self) -> (u64, u64) {
        (self.epoch, self.sequence)
    }
}
