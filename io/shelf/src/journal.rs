//! The journal on media, and where its records lie.
//!
//! Every copy is a ring of pages. Records lie in it one behind the other, at addresses that only grow: address `a` is
//! byte `a mod capacity` of the ring, and a record that meets the end of the ring goes on at its front. A record is a
//! **batch** (header, head, zeros up to a page, body) or a **seal** (one page), with which every owner begins.
//!
//! # Which records belong to the journal
//!
//! Recovery walks from the address in the superblock and needs to know for every address whether what lies there was
//! written for this place, now, by the rightful owner, whole. The rules, with `epoch` starting as the superblock says:
//!
//! 1. A batch belongs when its checksums hold, its address and number are the ones expected, and its epoch is equal to
//!    `epoch`.
//! 2. A seal belongs when its checksum holds, its address and number are the ones expected, and its epoch is
//!    *higher* than `epoch`, which it replaces. A seal has no number of its own: the batch behind it has the same.
//! 3. Of the copies, a seal of the highest epoch comes first, then any batch that belongs.
//! 4. Where no copy has a record that belongs, the journal ends. There the new owner writes its seal, to all copies,
//!    durably, before it answers recovery. When the last record is a seal already, the new one takes its place, so that
//!    openings without appends use up nothing; an append always leaves the page that a seal may need.
//! 5. Records that only some copies have are written to the others before recovery is answered.
//!
//! Why that is enough:
//!
//! - *Earlier laps of the ring* have other addresses (rule 1 and 2).
//! - *Torn batches* fail a checksum. An owner writes each address once, so equal epoch and address mean equal bytes.
//! - *A gap*: batches 11, 12 under way, 12 durable, 11 not. The journal ends at 10. The next owner's seal takes the
//!   address of 11; its own batches may end exactly where the old 12 begins, with 12 the number expected: the epoch
//!   of the old 12 is lower (rule 1).
//! - *A batch found later*: 11 was on one copy only, which could not be read when the journal was recovered, and
//!   hosts have seen the state without it. The seal of that recovery lies at its address on the other copies, and wins
//!   (rule 3).
//! - *A batch lost later*: 11 was on one copy only, was recovered and shown to hosts. Rule 5 has put it on every copy
//!   before that.
//! - *A torn seal* was not answered: nothing follows it. If it replaced an older one, there was nothing behind
//!   that either.
//!
//! An answered batch that no copy can show any more would look like the end. Each batch therefore carries the number
//! of the newest answered one, and so does the superblock: recovery looks one batch ahead of the end, and answers
//! [`Error::Corrupt`](crate::Error::Corrupt) instead of losing what was promised.

use crate::geometry::HEADER_BYTES;
use crate::media::{Reader, Writer, crc32c, pages};
use crate::seal::{Cipher, Kind, TAG, Vault};
use crate::{ALIGN, AlignedBuf, JournalPos};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

const BATCH: [u8; 8] = *b"ASHBATCH";
const SEAL: [u8; 8] = *b"ASH_SEAL";

/// Where the tag begins; it covers the fields in front of it.
const TAG_AT: usize = 76;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// One page, as an address difference.
pub const PAGE: u64 = ALIGN as u64;

/// Bytes that a batch takes in the journal: its header and head in whole pages, and its body.
pub fn cost(head: usize, body: usize) -> u64 {
    pages((HEADER_BYTES + head) as u64) + body as u64
}

/// What a record says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// True for a seal.
    pub seal: bool,
    /// The array.
    pub array: u128,
    /// The owner that wrote it.
    pub epoch: u64,
    /// The number of the batch; for a seal, of the one behind it.
    pub pos: JournalPos,
    /// Its address.
    pub at: u64,
    /// The newest batch answered when it was written.
    pub answered: JournalPos,
    /// Bytes of the head.
    pub head: u32,
    /// Bytes of the body.
    pub body: u32,
    /// CRC32C of head and body; zero when they are sealed.
    pub contents: u32,
    /// The salt of the owner that wrote it.
    pub salt: u64,
    /// The tag of everything behind the header, when it is sealed.
    pub tag: [u8; TAG],
}

impl Header {
    /// Bytes that the record takes.
    pub fn cost(&self) -> u64 {
        cost(self.head as usize, self.body as usize)
    }

    /// The record's pages up to its body.
    pub fn encode(&self, head: &[u8]) -> Bytes {
        let mut page = AlignedBuf::zeroed(pages((HEADER_BYTES + head.len()) as u64) as usize);
        let mut out = Writer::new(&mut page);
        out.put(if self.seal { &SEAL } else { &BATCH }).put(&self.array.to_le_bytes());
        out.put(&self.epoch.to_le_bytes()).put(&self.pos.0.to_le_bytes()).put(&self.at.to_le_bytes());
        out.put(&self.answered.0.to_le_bytes());
        out.put(&self.head.to_le_bytes()).put(&self.body.to_le_bytes()).put(&self.contents.to_le_bytes());
        out.put(&self.salt.to_le_bytes()).put(&self.tag);
        let checksum = crc32c([&page[..CHECKSUM_AT]]);
        page[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        page[HEADER_BYTES..HEADER_BYTES + head.len()].copy_from_slice(head);
        let len = page.len();
        Arc::new(page).share(0..len)
    }

    /// The header of a record at the front of `page`; none when there is no whole one.
    pub fn decode(page: &[u8]) -> Option<Self> {
        let covered = page.get(..CHECKSUM_AT)?;
        let mut from = Reader(covered);
        let magic = from.take::<8>()?;
        let checksum = Reader(page.get(CHECKSUM_AT..HEADER_BYTES)?).u32()?;
        if (magic != BATCH && magic != SEAL) || checksum != crc32c([covered]) {
            return None;
        }
        let header = Self {
            seal: magic == SEAL,
            array: from.u128()?,
            epoch: from.u64()?,
            pos: JournalPos(from.u64()?),
            at: from.u64()?,
            answered: JournalPos(from.u64()?),
            head: from.u32()?,
            body: from.u32()?,
            contents: from.u32()?,
            salt: from.u64()?,
            tag: from.take()?,
        };
        let empty = header.head == 0 && header.body == 0;
        let fits = (header.body as usize).is_multiple_of(ALIGN) && (empty || !header.seal);
        fits.then_some(header)
    }

    /// Seals a record in place: everything behind the header, and the tag in it. The nonce is address and owner, and
    /// an owner writes each address once: see [`seal`](crate::seal).
    pub fn seal_record(&mut self, record: &mut [u8], cipher: &Cipher) {
        let (header, rest) = record.split_at_mut(HEADER_BYTES);
        self.tag = cipher.seal(&self.nonce(), &header[..TAG_AT], rest);
        header.copy_from_slice(&self.encode(&[])[..HEADER_BYTES]);
    }

    fn nonce(&self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&self.at.to_le_bytes());
        nonce[8..].copy_from_slice(&(self.epoch as u32).to_le_bytes());
        nonce
    }

    /// Head and body out of the whole record, opened when there is a key and it is not a seal; none when they are
    /// not the ones that were written.
    pub fn open(&self, record: &Bytes, vault: &Vault) -> Option<(Bytes, Bytes)> {
        let cipher = vault.cipher(Kind::Journal, self.salt).filter(|_| !self.seal);
        let Some(cipher) = cipher else { return self.contents(record) };
        let sealed = record.get(HEADER_BYTES..self.cost() as usize)?;
        let mut clear = AlignedBuf::zeroed(self.cost() as usize);
        if !cipher.open(&self.nonce(), record.get(..TAG_AT)?, sealed, &self.tag, &mut clear[HEADER_BYTES..]) {
            return None;
        }
        let clear = Arc::new(clear);
        let (head_end, body_at) =
            (HEADER_BYTES + self.head as usize, (self.cost() - u64::from(self.body)) as usize);
        Some((clear.share(HEADER_BYTES..head_end), clear.share(body_at..clear.len())))
    }

    /// Head and body out of the whole record, none when they are not the ones that were written.
    pub fn contents(&self, record: &Bytes) -> Option<(Bytes, Bytes)> {
        let head_end = HEADER_BYTES.checked_add(self.head as usize)?;
        let body_at = pages(head_end as u64) as usize;
        let body_end = body_at.checked_add(self.body as usize)?;
        let (head, body) = (record.get(HEADER_BYTES..head_end)?, record.get(body_at..body_end)?);
        (crc32c([head, body]) == self.contents)
            .then(|| (record.slice(HEADER_BYTES..head_end), record.slice(body_at..body_end)))
    }
}

/// A batch that the journal still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address.
    pub at: u64,
    /// The owner that wrote it.
    pub epoch: u64,
}

/// The live part of the ring: numbers and addresses, no bytes.
#[derive(Debug)]
pub struct Ring {
    capacity: u64,
    /// Number and address of the oldest batch kept; the next one's when none is.
    tail: JournalPos,
    tail_at: u64,
    /// The batches from `tail` on.
    live: VecDeque<Place>,
    /// Where the next record goes.
    next_at: u64,
}

impl Ring {
    /// A ring whose oldest batch has number `tail` and lies, or will lie, at `tail_at`.
    pub fn new(capacity: u64, tail: JournalPos, tail_at: u64) -> Self {
        Self { capacity, tail, tail_at, live: VecDeque::new(), next_at: tail_at }
    }

    /// The number of the next batch.
    pub fn next(&self) -> JournalPos {
        JournalPos(self.tail.0 + self.live.len() as u64)
    }

    /// The address of the next record.
    pub fn next_at(&self) -> u64 {
        self.next_at
    }

    /// The oldest batch kept.
    pub fn tail(&self) -> JournalPos {
        self.tail
    }

    /// The address of the oldest batch kept.
    pub fn tail_at(&self) -> u64 {
        self.tail_at
    }

    /// One behind the last address that may be written before the ring is trimmed.
    pub fn limit(&self) -> u64 {
        self.tail_at + self.capacity
    }

    /// Gives the next batch a place, or none when the ring has no room for it and the next owner's seal.
    pub fn push(&mut self, epoch: u64, bytes: u64) -> Option<(JournalPos, u64)> {
        (self.next_at + bytes + PAGE <= self.limit()).then(|| self.found(epoch, bytes))
    }

    /// Takes a batch as it was found.
    pub fn found(&mut self, epoch: u64, bytes: u64) -> (JournalPos, u64) {
        let (pos, at) = (self.next(), self.next_at);
        self.live.push_back(Place { at, epoch });
        self.next_at += bytes;
        (pos, at)
    }

    /// Sets where the next record goes, for a seal.
    pub fn go_on_at(&mut self, at: u64) {
        assert!(at >= self.tail_at && at <= self.limit(), "{at} is outside of the ring");
        self.next_at = at;
    }

    /// Where batch `pos` lies, or will lie when it is the next one, written by `epoch`.
    ///
    /// # Panics
    /// When the journal does not hold it: what is trimmed never comes back.
    pub fn place(&self, pos: JournalPos, epoch: u64) -> Place {
        assert!(
            self.tail <= pos && pos <= self.next(),
            "{pos:?} is outside of {:?}..{:?}",
            self.tail,
            self.next()
        );
        let next = Place { at: self.next_at, epoch };
        self.live.get((pos.0 - self.tail.0) as usize).copied().unwrap_or(next)
    }

    /// Forgets the batches before `pos`, whose place is known: see [`Ring::place`].
    pub fn trim(&mut self, pos: JournalPos, place: Place) {
        self.live.drain(..(pos.0.saturating_sub(self.tail.0) as usize).min(self.live.len()));
        (self.tail, self.tail_at) = (pos, place.at);
    }

    /// The parts of the ring under `len` bytes at address `at`: byte in the ring and number of bytes.
    pub fn parts(capacity: u64, at: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let start = at % capacity;
        let first = len.min(capacity - start);
        [(start, first), (0, len - first)].into_iter().filter(|(_, len)| *len > 0)
    }
}
