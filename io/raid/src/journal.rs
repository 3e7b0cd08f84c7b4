//! The journal on media, and where its records lie.
//!
//! Every copy is a ring of pages. Records lie in it one behind the other, at addresses that only grow: address `a` is
//! byte `a mod capacity` of the ring, and a record that meets the end of the ring goes on at its front. A record is a
//! **batch** (header, head, zeros up to a page, body) or a **seal** (one page), with which every owner begins. Of a
//! large batch the copies have only the **front**, without the body, which lies striped over more drives: see
//! [`lanes`](crate::striping).
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
//! 6. A striped batch belongs when its front does and so many of its columns have their checksums that the body can be
//!    computed. Columns that are missing are written again like copies. Where too few are right, it has never been
//!    answered if a drive that was there all the time has a wrong one: every drive that is not out by the labels has had
//!    its column before an answer. Otherwise it may have been, and recovery fails.
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

use crate::codec::{Reader, Writer, crc32c, pages};
use crate::encryption::{Cipher, Kind, TAG, Vault};
use crate::geometry::HEADER_BYTES;
use crate::striping::{Checks, Lanes};
use crate::{ALIGN, AlignedBuf, JournalPos};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const BATCH: [u8; 8] = *b"ASHBATCH";
const SEAL: [u8; 8] = *b"ASH_SEAL";
/// A batch whose body is striped.
const STRIPED: [u8; 8] = *b"ASHLANES";

/// Where the tag begins; it covers the fields in front of it.
const TAG_AT: usize = 76;

/// Where the lanes of a striped batch are named, and the bytes of its header.
const LANES_AT: usize = 128;
const STRIPED_BYTES: usize = 2 * HEADER_BYTES;

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
    /// CRC32C of head and body; zero when they are sealed, or the body is striped.
    pub contents: u32,
    /// The salt of the owner that wrote it.
    pub salt: u64,
    /// The tag of everything behind the header, when it is sealed.
    pub tag: [u8; TAG],
    /// The drives that the body is striped over, when it is.
    pub lanes: Option<Lanes>,
    /// Checksums of a striped batch; zeros of another.
    pub checks: Checks,
}

impl Header {
    /// Bytes of the header itself.
    fn bytes(&self) -> usize {
        if self.lanes.is_some() { STRIPED_BYTES } else { HEADER_BYTES }
    }

    /// Bytes in front of the body: header, head, zeros.
    pub fn front(&self) -> u64 {
        pages((self.bytes() + self.head as usize) as u64)
    }

    /// Bytes of front and body, one behind the other.
    pub fn whole(&self) -> usize {
        self.front() as usize + self.body as usize
    }

    /// Bytes of every ring that the record takes.
    pub fn cost(&self) -> u64 {
        let body = self.body as usize;
        self.front() + self.lanes.map_or(body, |lanes| lanes.height(body)) as u64
    }

    /// What lies where, with copies on these drives: slot, address and number of bytes.
    pub fn targets(&self, copies: u64) -> impl Iterator<Item = (usize, u64, u64)> {
        let order = self.lanes.map_or_else(Default::default, |lanes| lanes.order(self.pos));
        let header = *self;
        (0..u64::BITS as usize).filter_map(move |slot| {
            let column = order.iter().position(|drive| *drive == slot);
            let body = match (header.lanes, column) {
                (None, _) => u64::from(header.body),
                (Some(lanes), Some(column)) => lanes.len(column, header.body as usize) as u64,
                (Some(_), None) => 0,
            };
            match (copies >> slot & 1 == 1, column) {
                (true, _) => Some((slot, header.at, header.front() + body)),
                (false, Some(_)) => Some((slot, header.at + header.front(), body)),
                (false, None) => None,
            }
        })
    }

    /// The record's pages up to its body.
    pub fn encode(&self, head: &[u8]) -> Bytes {
        let bytes = self.bytes();
        let mut page = AlignedBuf::zeroed(pages((bytes + head.len()) as u64) as usize);
        let mut out = Writer::new(&mut page);
        let magic = match (self.seal, self.lanes) {
            (true, _) => &SEAL,
            (false, None) => &BATCH,
            (false, Some(_)) => &STRIPED,
        };
        out.put(magic).put(&self.array.to_le_bytes());
        out.put(&self.epoch.to_le_bytes()).put(&self.pos.0.to_le_bytes()).put(&self.at.to_le_bytes());
        out.put(&self.answered.0.to_le_bytes());
        out.put(&self.head.to_le_bytes()).put(&self.body.to_le_bytes()).put(&self.contents.to_le_bytes());
        out.put(&self.salt.to_le_bytes()).put(&self.tag);
        if let Some(lanes) = self.lanes {
            let mut out = Writer::new(&mut page[LANES_AT..]);
            out.put(&lanes.drives().to_le_bytes()).put(&self.checks.front.to_le_bytes()).put(&[0; 4]);
            self.checks.columns.iter().for_each(|check| _ = out.put(&check.to_le_bytes()));
        }
        let checksum = crc32c([&page[..bytes - 4]]);
        page[bytes - 4..bytes].copy_from_slice(&checksum.to_le_bytes());
        page[bytes..bytes + head.len()].copy_from_slice(head);
        let len = page.len();
        Arc::new(page).share(0..len)
    }

    /// The header of a record at the front of `page`; none when there is no whole one.
    pub fn decode(page: &[u8]) -> Option<Self> {
        let magic = Reader(page).take::<8>()?;
        let bytes = match magic {
            BATCH | SEAL => HEADER_BYTES,
            STRIPED => STRIPED_BYTES,
            _ => return None,
        };
        let covered = page.get(..bytes - 4)?;
        if Reader(page.get(bytes - 4..)?).u32()? != crc32c([covered]) {
            return None;
        }
        let mut from = Reader(covered.get(8..)?);
        let mut header = Self {
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
            lanes: None,
            checks: Checks::default(),
        };
        if magic == STRIPED {
            let mut from = Reader(covered.get(LANES_AT..)?);
            header.lanes = Some(Lanes::of_media(from.u64()?, header.body as usize)?);
            header.checks.front = from.u32()?;
            from.take::<4>()?;
            for check in &mut header.checks.columns {
                *check = from.u32()?;
            }
        }
        let empty = header.head == 0 && header.body == 0;
        let fits = (header.body as usize).is_multiple_of(ALIGN) && (empty || !header.seal);
        fits.then_some(header)
    }

    /// Seals a record in place: everything behind the header, and the tag in it. The nonce is address and owner, and
    /// an owner writes each address once: see [`seal`](crate::encryption).
    pub fn seal_record(&mut self, record: &mut [u8], cipher: &Cipher) {
        let (header, rest) = record.split_at_mut(self.bytes());
        self.tag = cipher.seal(&self.nonce(), &header[..TAG_AT], rest);
        self.put(record);
    }

    /// Writes the header anew, in front of what it is about.
    fn put(&self, record: &mut [u8]) {
        record[..self.bytes()].copy_from_slice(&self.encode(&[])[..self.bytes()]);
    }

    /// A front with the header as it is now.
    pub fn with_checks(&self, front: &[u8]) -> Bytes {
        let mut page = AlignedBuf::with_capacity(front.len());
        page.push(front);
        self.put(&mut page);
        let len = page.len();
        Arc::new(page).share(0..len)
    }

    /// CRC32C of a front behind the header.
    pub fn front_check(&self, front: &[u8]) -> Option<u32> {
        front.get(self.bytes()..self.front() as usize).map(|rest| crc32c([rest]))
    }

    fn nonce(&self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&self.at.to_le_bytes());
        nonce[8..].copy_from_slice(&(self.epoch as u32).to_le_bytes());
        nonce
    }

    /// Head and body out of front and body, opened when there is a key and it is not a seal; none when they are not the
    /// ones that were written. Of a striped batch the columns have been held against their checksums before.
    pub fn open(&self, record: &Bytes, vault: &Vault) -> Option<(Bytes, Bytes)> {
        let cipher = vault.cipher(Kind::Journal, self.salt).filter(|_| !self.seal);
        let (whole, is_sealed) = (record.get(..self.whole())?, cipher.is_some());
        let record = match cipher {
            None => record.clone(),
            Some(cipher) => {
                let mut clear = AlignedBuf::zeroed(whole.len());
                let (aside, sealed) = (&whole[..TAG_AT], &whole[self.bytes()..]);
                if !cipher.open(&self.nonce(), aside, sealed, &self.tag, &mut clear[self.bytes()..]) {
                    return None;
                }
                Arc::new(clear).share(0..whole.len())
            }
        };
        let head = record.slice(self.bytes()..self.bytes() + self.head as usize);
        let body = record.slice(self.front() as usize..self.whole());
        let right = match self.lanes {
            Some(_) => self.front_check(whole) == Some(self.checks.front),
            None => is_sealed || crc32c([&head[..], &body[..]]) == self.contents,
        };
        right.then_some((head, body))
    }
}

/// A batch that the journal still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address.
    pub at: u64,
    /// The owner that wrote it.
    pub epoch: u64,
    /// How its body is striped, when it is.
    pub striped: Option<Striped>,
}

/// A body that no copy of the journal has whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striped {
    /// The drives that have its columns.
    pub lanes: Lanes,
    /// Bytes in front of it.
    front: u32,
    /// Bytes of its longest column.
    height: u32,
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
    /// How many of `live` are striped over which drives.
    lanes: BTreeMap<Lanes, u32>,
}

impl Ring {
    /// A ring whose oldest batch has number `tail` and lies, or will lie, at `tail_at`.
    pub fn new(capacity: u64, tail: JournalPos, tail_at: u64) -> Self {
        Self { capacity, tail, tail_at, live: VecDeque::new(), next_at: tail_at, lanes: BTreeMap::new() }
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

    /// Whether there is room for so many bytes and the next owner's seal.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.next_at + bytes + PAGE <= self.limit()
    }

    /// Bytes under the batches before `pos`.
    pub fn taken(&self, pos: JournalPos) -> u64 {
        let before = pos.0.saturating_sub(self.tail.0) as usize;
        let next = self.live.get(before).map_or(self.next_at, |place| place.at);
        next - self.tail_at
    }

    /// Takes the next batch, as it is written or was found.
    ///
    /// # Panics
    /// When it is not the next one.
    pub fn push(&mut self, header: &Header) {
        assert_eq!((header.pos, header.at), (self.next(), self.next_at), "the next place of the journal");
        let height = (header.cost() - header.front()) as u32;
        let striped = header.lanes.map(|lanes| Striped { lanes, front: header.front() as u32, height });
        self.live.push_back(Place { at: header.at, epoch: header.epoch, striped });
        self.next_at += header.cost();
        if let Some(lanes) = header.lanes {
            *self.lanes.entry(lanes).or_default() += 1;
        }
    }

    /// The drives that batches are striped over.
    pub fn lanes(&self) -> impl Iterator<Item = Lanes> {
        self.lanes.keys().copied()
    }

    /// What copies of the journal have: address and number of bytes of every piece.
    pub fn copied(&self) -> Vec<(u64, u64)> {
        let mut pieces = Vec::new();
        let mut from = self.tail_at;
        for place in &self.live {
            if let Some(Striped { front, height, .. }) = place.striped {
                let body = place.at + u64::from(front);
                pieces.push((from, body - from));
                from = body + u64::from(height);
            }
        }
        pieces.push((from, self.next_at - from));
        pieces
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
        let next = Place { at: self.next_at, epoch, striped: None };
        self.live.get((pos.0 - self.tail.0) as usize).copied().unwrap_or(next)
    }

    /// Forgets the batches before `pos`, whose place is known: see [`Ring::place`].
    pub fn trim(&mut self, pos: JournalPos, place: Place) {
        let trimmed = (pos.0.saturating_sub(self.tail.0) as usize).min(self.live.len());
        for striped in self.live.drain(..trimmed).filter_map(|place| place.striped) {
            if let Some(count) = self.lanes.get_mut(&striped.lanes) {
                *count -= 1;
            }
        }
        self.lanes.retain(|_, count| *count > 0);
        (self.tail, self.tail_at) = (pos, place.at);
    }

    /// The parts of the ring under `len` bytes at address `at`: byte in the ring and number of bytes.
    pub fn parts(capacity: u64, at: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let start = at % capacity;
        let first = len.min(capacity - start);
        [(start, first), (0, len - first)].into_iter().filter(|(_, len)| *len > 0)
    }
}
