//! The journal on media: its records, their addresses, and the rules of recovery.
//!
//! Every copy is a ring of pages. Records follow each other at addresses that only grow: address `a` is byte `a mod
//! capacity` of the ring, and a record that reaches the end of the ring continues at its front. A record is a
//! **batch** (header, head, zeros up to a page, body) or a **takeover record** (one page), the first record of every
//! owner. Of a large batch the copies have only the **front**, without the body, which is striped over more drives:
//! see [`striping`](crate::striping).
//!
//! # Which records belong to the journal
//!
//! Recovery walks from the address in the superblock and must decide for every address whether the record there was
//! written for this address, in this lap of the ring, by the current owner, completely. The rules, with `epoch` starting as the
//! superblock says:
//!
//! 1. A batch belongs if its checksums hold, its address and number are the expected ones, and its epoch is equal to
//!    `epoch`.
//! 2. A takeover record belongs if its checksum holds, its address and number are the expected ones, and its epoch is
//!    *higher* than `epoch`, which it replaces. It has no number of its own: the batch after it has the same.
//! 3. Of the copies, a takeover record of the highest epoch comes first, then any batch that belongs.
//! 4. The journal ends where no copy has a record that belongs. There the new owner writes its takeover record, to all
//!    copies, durably, before recovery completes. If the last record is a takeover record already, the new one replaces
//!    it, so that openings without appends take no space; an append always leaves the page that a takeover record may
//!    need.
//! 5. Records that only some copies have are written to the others before recovery completes.
//! 6. A striped batch belongs if its front does and enough of its columns have their checksums to reconstruct the
//!    body. Missing columns are written again like copies. If too few are valid, the batch was never acknowledged if a
//!    drive that was never missing has an invalid column: every drive that the labels do not call failed had its column
//!    before the acknowledgement. Otherwise it may have been acknowledged, and recovery fails.
//!
//! Why that is enough:
//!
//! - *Earlier laps of the ring* have other addresses (rules 1 and 2).
//! - *Torn batches* fail a checksum. An owner writes each address once, so equal epoch and address mean equal bytes.
//! - *A gap*: batches 11 and 12 in flight, 12 durable, 11 not. The journal ends at 10. The next owner's takeover
//!   record gets the address of 11; its own batches may end exactly where the old 12 begins, with 12 the expected
//!   number: the epoch of the old 12 is lower (rule 1).
//! - *A batch found later*: 11 was on one copy only, which could not be read when the journal was recovered, and hosts
//!   have seen the state without it. The takeover record of that recovery is at its address on the other copies, and
//!   wins (rule 3).
//! - *A batch lost later*: 11 was on one copy only, was recovered and shown to hosts. Rule 5 has put it on every copy
//!   before that.
//! - *A torn takeover record* was not completed: nothing follows it. If it replaced an older one, nothing followed
//!   that either.
//!
//! An acknowledged batch that all copies have lost would look like the end. Each batch therefore carries the number of
//! the newest acknowledged one, and so does the superblock: recovery looks one batch beyond the end, and returns
//! [`Error::Corrupt`](crate::Error::Corrupt) instead of losing acknowledged data.

use crate::codec::{RECORDS, Reader, Writer, crc32c, pages};
use crate::encryption::{Cipher, Keyring, Kind, TAG_BYTES};
use crate::geometry::HEADER_BYTES;
use crate::striping::{Checksums, StripeSet};
use crate::{ALIGN, AlignedBuf, JournalPos};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const BATCH: [u8; 8] = *b"ASHBATCH";
const TAKEOVER: [u8; 8] = *b"ASH_SEAL";
/// A batch whose body is striped.
const STRIPED: [u8; 8] = *b"ASHLANES";

/// Offset of the tag; it covers the fields before it.
const TAG_AT: usize = 76;
const VERSION_AT: usize = 92;

/// Offset of the stripe set of a striped batch, and the length of its header.
const STRIPE_SET_AT: usize = 128;
const STRIPED_BYTES: usize = 2 * HEADER_BYTES;

/// One page, as an address difference.
pub const PAGE: u64 = ALIGN as u64;

/// Bytes that a batch takes in the journal: its header and head in whole pages, and its body.
pub fn cost(head: usize, body: usize) -> u64 {
    pages((HEADER_BYTES + head) as u64) + body as u64
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// True for a takeover record.
    pub takeover: bool,
    /// The array.
    pub array: u128,
    /// The owner that wrote it.
    pub epoch: u64,
    /// The number of the batch; for a takeover record, of the batch after it.
    pub pos: JournalPos,
    /// Its address.
    pub at: u64,
    /// The newest batch that was acknowledged when this was written.
    pub acknowledged: JournalPos,
    /// Bytes of the head.
    pub head: u32,
    /// Bytes of the body.
    pub body: u32,
    /// CRC32C of head and body; zero if they are encrypted, or the body is striped.
    pub contents: u32,
    /// The salt of the owner that wrote it.
    pub salt: u64,
    /// The authentication tag of everything after the header, if it is encrypted.
    pub tag: [u8; TAG_BYTES],
    /// The drives that the body is striped over; `None` if every copy has the body.
    pub stripe_set: Option<StripeSet>,
    /// Checksums of a striped batch; zeros otherwise.
    pub checksums: Checksums,
}

impl Header {
    /// Length of the header itself.
    fn bytes(&self) -> usize {
        if self.stripe_set.is_some() { STRIPED_BYTES } else { HEADER_BYTES }
    }

    /// Bytes before the body: header, head, zeros.
    pub fn front(&self) -> u64 {
        pages((self.bytes() + self.head as usize) as u64)
    }

    /// Bytes of front and body.
    pub fn whole(&self) -> usize {
        self.front() as usize + self.body as usize
    }

    /// Bytes that the record takes of every ring.
    pub fn cost(&self) -> u64 {
        let body = self.body as usize;
        self.front() + self.stripe_set.map_or(body, |stripe_set| stripe_set.height(body)) as u64
    }

    /// The parts that drives hold, with copies on these drives: slot, address and number of bytes.
    pub fn targets(&self, copies: u64) -> impl Iterator<Item = (usize, u64, u64)> {
        let order = self.stripe_set.map_or_else(Default::default, |stripe_set| stripe_set.order(self.pos));
        let header = *self;
        (0..u64::BITS as usize).filter_map(move |slot| {
            let column = order.iter().position(|drive| *drive == slot);
            let body = match (header.stripe_set, column) {
                (None, _) => u64::from(header.body),
                (Some(stripe_set), Some(column)) => stripe_set.len(column, header.body as usize) as u64,
                (Some(_), None) => 0,
            };
            match (copies >> slot & 1 == 1, column) {
                (true, _) => Some((slot, header.at, header.front() + body)),
                (false, Some(_)) => Some((slot, header.at + header.front(), body)),
                (false, None) => None,
            }
        })
    }

    /// Encodes the record up to its body.
    pub fn encode(&self, head: &[u8]) -> Bytes {
        let bytes = self.bytes();
        let mut page = AlignedBuf::zeroed(pages((bytes + head.len()) as u64) as usize);
        let mut out = Writer::new(&mut page);
        let magic = match (self.takeover, self.stripe_set) {
            (true, _) => &TAKEOVER,
            (false, None) => &BATCH,
            (false, Some(_)) => &STRIPED,
        };
        out.put(magic).put(&self.array.to_le_bytes());
        out.put(&self.epoch.to_le_bytes()).put(&self.pos.0.to_le_bytes()).put(&self.at.to_le_bytes());
        out.put(&self.acknowledged.0.to_le_bytes());
        out.put(&self.head.to_le_bytes()).put(&self.body.to_le_bytes()).put(&self.contents.to_le_bytes());
        out.put(&self.salt.to_le_bytes()).put(&self.tag);
        if let Some(stripe_set) = self.stripe_set {
            let mut out = Writer::new(&mut page[STRIPE_SET_AT..]);
            out.put(&stripe_set.drives().to_le_bytes()).put(&self.checksums.front.to_le_bytes()).put(&[0; 4]);
            self.checksums.columns.iter().for_each(|check| _ = out.put(&check.to_le_bytes()));
        }
        let checksum = crc32c([&page[..bytes - 4]]);
        page[bytes - 4..bytes].copy_from_slice(&checksum.to_le_bytes());
        page[bytes..bytes + head.len()].copy_from_slice(head);
        let len = page.len();
        Arc::new(page).share(0..len)
    }

    /// Decodes the header at the front of `page`; `None` if there is no valid one.
    pub fn decode(page: &[u8]) -> Option<Self> {
        let magic = Reader(page).take::<8>()?;
        let bytes = match magic {
            BATCH | TAKEOVER => HEADER_BYTES,
            STRIPED => STRIPED_BYTES,
            _ => return None,
        };
        let covered = page.get(..bytes - 4)?;
        let version = Reader(page.get(VERSION_AT..)?).u32()?;
        if Reader(page.get(bytes - 4..)?).u32()? != crc32c([covered]) || !RECORDS.reads(version) {
            return None;
        }
        let mut from = Reader(covered.get(8..)?);
        let mut header = Self {
            takeover: magic == TAKEOVER,
            array: from.u128()?,
            epoch: from.u64()?,
            pos: JournalPos(from.u64()?),
            at: from.u64()?,
            acknowledged: JournalPos(from.u64()?),
            head: from.u32()?,
            body: from.u32()?,
            contents: from.u32()?,
            salt: from.u64()?,
            tag: from.take()?,
            stripe_set: None,
            checksums: Checksums::default(),
        };
        if magic == STRIPED {
            let mut from = Reader(covered.get(STRIPE_SET_AT..)?);
            header.stripe_set = Some(StripeSet::from_media(from.u64()?, header.body as usize)?);
            header.checksums.front = from.u32()?;
            from.take::<4>()?;
            for check in &mut header.checksums.columns {
                *check = from.u32()?;
            }
        }
        let empty = header.head == 0 && header.body == 0;
        let fits = (header.body as usize).is_multiple_of(ALIGN) && (empty || !header.takeover);
        fits.then_some(header)
    }

    /// The array, address and version of a valid record that this release can't read. Records of every release and of every
    /// kind begin with `ASH`, and have array, owner, number, address, version and a checksum of the header at the
    /// offsets of today's.
    pub fn unknown(page: &[u8]) -> Option<(u128, u64, u32)> {
        let is_valid = |bytes: usize| {
            let checksum = page.get(bytes - 4..).and_then(|rest| Reader(rest).u32());
            checksum.is_some() && checksum == page.get(..bytes - 4).map(|covered| crc32c([covered]))
        };
        let known = [BATCH, TAKEOVER, STRIPED].contains(&Reader(page).take()?);
        let version = Reader(page.get(VERSION_AT..)?).u32()?;
        if !page.starts_with(b"ASH") || known && RECORDS.reads(version) {
            return None;
        }
        if !is_valid(HEADER_BYTES) && !is_valid(STRIPED_BYTES) {
            return None;
        }
        let mut from = Reader(page.get(8..)?);
        let (array, _, _, at) = (from.u128()?, from.u64()?, from.u64()?, from.u64()?);
        Some((array, at, version))
    }

    /// Encrypts a record in place: everything after the header. The nonce is address and owner, and an owner writes
    /// each address once: see [`encryption`](crate::encryption).
    pub fn seal_record(&mut self, record: &mut [u8], cipher: &Cipher) {
        let (header, rest) = record.split_at_mut(self.bytes());
        self.tag = cipher.seal(&self.nonce(), &header[..TAG_AT], rest);
        self.write_header(record);
    }

    /// Re-encodes the header.
    fn write_header(&self, record: &mut [u8]) {
        record[..self.bytes()].copy_from_slice(&self.encode(&[])[..self.bytes()]);
    }

    /// A front with the current header.
    pub fn with_checksums(&self, front: &[u8]) -> Bytes {
        let mut page = AlignedBuf::with_capacity(front.len());
        page.push(front);
        self.write_header(&mut page);
        let len = page.len();
        Arc::new(page).share(0..len)
    }

    /// CRC32C of a front after its header.
    pub fn front_checksum(&self, front: &[u8]) -> Option<u32> {
        front.get(self.bytes()..self.front() as usize).map(|rest| crc32c([rest]))
    }

    fn nonce(&self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&self.at.to_le_bytes());
        nonce[8..].copy_from_slice(&(self.epoch as u32).to_le_bytes());
        nonce
    }

    /// Head and body of a record, decrypted if there is a key and it is no takeover record; `None` if they are not
    /// what was written. The columns of a striped batch have been verified before.
    pub fn open(&self, record: &Bytes, keyring: &Keyring) -> Option<(Bytes, Bytes)> {
        let cipher = keyring.cipher(Kind::Journal, self.salt).filter(|_| !self.takeover);
        let (whole, is_sealed) = (record.get(..self.whole())?, cipher.is_some());
        let record = match cipher {
            None => record.clone(),
            Some(cipher) => {
                let mut clear = AlignedBuf::zeroed(whole.len());
                let (aad, sealed) = (&whole[..TAG_AT], &whole[self.bytes()..]);
                if !cipher.open(&self.nonce(), aad, sealed, &self.tag, &mut clear[self.bytes()..]) {
                    return None;
                }
                Arc::new(clear).share(0..whole.len())
            }
        };
        let head = record.slice(self.bytes()..self.bytes() + self.head as usize);
        let body = record.slice(self.front() as usize..self.whole());
        let is_valid = match self.stripe_set {
            Some(_) => self.front_checksum(whole) == Some(self.checksums.front),
            None => is_sealed || crc32c([&head[..], &body[..]]) == self.contents,
        };
        is_valid.then_some((head, body))
    }
}

/// A batch that the ring holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingEntry {
    /// Its address.
    pub at: u64,
    /// The owner that wrote it.
    pub epoch: u64,
    /// How its body is striped; `None` if it is not.
    pub striped: Option<Striped>,
}

/// A body that no copy of the journal has completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striped {
    /// The drives that have its columns.
    pub stripe_set: StripeSet,
    /// Bytes in front of it.
    front: u32,
    /// Bytes of its longest column.
    height: u32,
}

/// The live part of the ring: numbers and addresses, no bytes.
#[derive(Debug)]
pub struct JournalRing {
    capacity: u64,
    /// Number and address of the oldest batch; those of the next one if the ring is empty.
    tail: JournalPos,
    tail_at: u64,
    /// The batches from `tail` on.
    live: VecDeque<RingEntry>,
    /// Address of the next record.
    next_at: u64,
    /// Number of live batches by stripe set.
    stripe_sets: BTreeMap<StripeSet, u32>,
}

impl JournalRing {
    /// A ring whose oldest batch has number `tail` and lies, or will lie, at `tail_at`.
    pub fn new(capacity: u64, tail: JournalPos, tail_at: u64) -> Self {
        Self {
            capacity,
            tail,
            tail_at,
            live: VecDeque::new(),
            next_at: tail_at,
            stripe_sets: BTreeMap::new(),
        }
    }

    /// The number of the next batch.
    pub fn next(&self) -> JournalPos {
        JournalPos(self.tail.0 + self.live.len() as u64)
    }

    /// The address of the next record.
    pub fn next_at(&self) -> u64 {
        self.next_at
    }

    /// The oldest batch.
    pub fn tail(&self) -> JournalPos {
        self.tail
    }

    /// The address of the oldest batch.
    pub fn tail_at(&self) -> u64 {
        self.tail_at
    }

    /// End of the addresses that may be written before the ring is trimmed.
    pub fn limit(&self) -> u64 {
        self.tail_at + self.capacity
    }

    /// True if there is room for `bytes` and the takeover record of the next owner.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.next_at + bytes + PAGE <= self.limit()
    }

    /// Bytes that the batches before `pos` take.
    pub fn taken(&self, pos: JournalPos) -> u64 {
        let before = pos.0.saturating_sub(self.tail.0) as usize;
        let next = self.live.get(before).map_or(self.next_at, |entry| entry.at);
        next - self.tail_at
    }

    /// Adds the next batch.
    ///
    /// # Panics
    /// When it is not the next one.
    pub fn push(&mut self, header: &Header) {
        assert_eq!(
            (header.pos, header.at),
            (self.next(), self.next_at),
            "the next batch at the next address"
        );
        let height = (header.cost() - header.front()) as u32;
        let striped =
            header.stripe_set.map(|stripe_set| Striped { stripe_set, front: header.front() as u32, height });
        self.live.push_back(RingEntry { at: header.at, epoch: header.epoch, striped });
        self.next_at += header.cost();
        if let Some(stripe_set) = header.stripe_set {
            *self.stripe_sets.entry(stripe_set).or_default() += 1;
        }
    }

    /// The drives that batches are striped over.
    pub fn stripe_sets(&self) -> impl Iterator<Item = StripeSet> {
        self.stripe_sets.keys().copied()
    }

    /// The ranges that journal copies have: address and number of bytes.
    pub fn copied_ranges(&self) -> Vec<(u64, u64)> {
        let mut pieces = Vec::new();
        let mut from = self.tail_at;
        for entry in &self.live {
            if let Some(Striped { front, height, .. }) = entry.striped {
                let body = entry.at + u64::from(front);
                pieces.push((from, body - from));
                from = body + u64::from(height);
            }
        }
        pieces.push((from, self.next_at - from));
        pieces
    }

    /// Sets the address of the next record, for a takeover record.
    pub fn set_next_at(&mut self, at: u64) {
        assert!(at >= self.tail_at && at <= self.limit(), "{at} is outside of the ring");
        self.next_at = at;
    }

    /// Where batch `pos` is, or will be if it is the next one, written by `epoch`.
    ///
    /// # Panics
    /// When the journal does not hold it: a trimmed batch can't be located.
    pub fn locate(&self, pos: JournalPos, epoch: u64) -> RingEntry {
        assert!(
            self.tail <= pos && pos <= self.next(),
            "{pos:?} is outside of {:?}..{:?}",
            self.tail,
            self.next()
        );
        let next = RingEntry { at: self.next_at, epoch, striped: None };
        self.live.get((pos.0 - self.tail.0) as usize).copied().unwrap_or(next)
    }

    /// Trims the batches before `pos`, which is at `entry`: see [`JournalRing::locate`].
    pub fn trim(&mut self, pos: JournalPos, entry: RingEntry) {
        let trimmed = (pos.0.saturating_sub(self.tail.0) as usize).min(self.live.len());
        for striped in self.live.drain(..trimmed).filter_map(|entry| entry.striped) {
            if let Some(count) = self.stripe_sets.get_mut(&striped.stripe_set) {
                *count -= 1;
            }
        }
        self.stripe_sets.retain(|_, count| *count > 0);
        (self.tail, self.tail_at) = (pos, entry.at);
    }

    /// Splits `len` bytes at address `at` into parts of the ring: byte in the ring and number of bytes.
    pub fn parts(capacity: u64, at: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let start = at % capacity;
        let first = len.min(capacity - start);
        [(start, first), (0, len - first)].into_iter().filter(|(_, len)| *len > 0)
    }
}
