//! Command ring of a device: decodes entries of the kernel and writes responses (the layout of
//! linux/target_core_user.h, mailbox version 2).
//!
//! The area contains the mailbox, the ring and the data area. The kernel appends entries at the head. The user responds
//! by writing a response into *any* entry that it has taken and moving the tail over it, so commands complete in any
//! order. Entries are copied before they are parsed, and every value is checked before use: a bad entry is an error,
//! never an access outside of the area.

use crate::area::{Area, Outside};
use bytes::Bytes;
use std::collections::VecDeque;

/// The version of the mailbox.
const VERSION: u16 = 2;
/// Offsets in the mailbox.
const VERSION_AT: u64 = 0;
const RING_OFFSET_AT: u64 = 4;
const RING_BYTES_AT: u64 = 8;
const HEAD_AT: u64 = 12;
const TAIL_AT: u64 = 64;
/// The mailbox, without its padding.
const MAILBOX_BYTES: u32 = 68;

/// Mailbox flags: commands may complete in any order, and the length of Data-In may be reported.
const FLAG_OUT_OF_ORDER: u16 = 0x01;
const FLAG_READ_LENGTH: u16 = 0x02;

/// Alignment of lengths and offsets.
const ALIGNMENT: u32 = 8;
const OPERATION_MASK: u32 = 0x07;
const OPERATION_PAD: u32 = 0;
const OPERATION_COMMAND: u32 = 1;
const OPERATION_MANAGEMENT: u32 = 2;

/// Offsets in an entry.
const ID_AT: u64 = 4;
const USER_FLAGS_AT: u64 = 7;
const STATUS_AT: u64 = 8;
const SENSE_AT: u64 = 16;
/// Flags of a response.
const UNKNOWN_OPERATION: u8 = 0x01;
const READ_LENGTH_VALID: u8 = 0x02;

/// Header of an entry.
const HEADER_BYTES: u32 = 8;
/// Sense data in a response.
const SENSE_BYTES: usize = 96;
/// Smallest entry of a command: each has room for a response.
const MIN_COMMAND_BYTES: usize = 112;
/// Offset of the data vectors of a command, and length of each vector.
const VECTORS_AT: usize = 48;
const VECTOR_BYTES: usize = 16;
/// Offset of the identifiers in a task management entry.
const IDENTIFIERS_AT: usize = 32;
/// Longest CDB (SPC-5 4.2.3).
const MAX_CDB_BYTES: usize = 260;

/// An invalid mailbox or entry from the kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The mailbox has another version, or lacks a required feature.
    #[error(
        "the mailbox has version {version} and flags {flags:#x}, not version 2 with completion in any order"
    )]
    Mailbox {
        /// Version of the mailbox.
        version: u16,
        /// Flags of the mailbox.
        flags: u16,
    },
    /// The ring that the mailbox describes does not fit into the area.
    #[error("a ring of {bytes:#x} bytes at {offset:#x} does not fit into {length:#x} bytes")]
    Ring {
        /// Offset of the ring.
        offset: u32,
        /// Length of the ring.
        bytes: u32,
        /// Length of the area.
        length: usize,
    },
    /// Head or tail is outside of the ring.
    #[error("the position {0:#x} is not one of an entry")]
    Position(u32),
    /// An invalid entry.
    #[error("the entry at {at:#x} of {bytes} bytes: {what}")]
    Entry {
        /// Offset in the ring.
        at: u32,
        /// Length of the entry.
        bytes: u32,
        /// Fault of the entry.
        what: &'static str,
    },
    /// An access outside of the area.
    #[error(transparent)]
    Outside(#[from] Outside),
}

/// A piece of the data area: offset from the start of the area, and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// Offset.
    pub at: u64,
    /// Length in bytes.
    pub bytes: usize,
}

/// The data of a command in the data area: Data-Out, or room for Data-In.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vectors(Vec<Vector>);

impl Vectors {
    /// Total length in bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|vector| vector.bytes).sum()
    }
}

/// An entry of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A command.
    Command {
        /// Identifier, which the response repeats.
        id: u16,
        /// The CDB, padded to a multiple of 8 bytes.
        cdb: Bytes,
        /// Data-Out, or room for Data-In.
        data: Vectors,
    },
    /// A task management function. The kernel performs it, and waits for the aborted commands.
    Management {
        /// The function, as numbered by the ring.
        function: u8,
        /// Identifiers of the aborted commands.
        aborted: Vec<u16>,
    },
}

/// The response to a command.
#[derive(Clone, Copy, Debug)]
pub struct RingResponse<'a> {
    /// SCSI status.
    pub status: u8,
    /// Sense data, truncated to 96 bytes.
    pub sense: &'a [u8],
    /// Bytes of Data-In. Zero: the initiator gets as many as it asked for.
    pub data_in: u32,
}

/// A taken entry that the tail has not passed.
#[derive(Clone, Copy, Debug)]
struct Slot {
    bytes: u32,
    /// Whether the entry is a command, which takes a response.
    takes_response: bool,
}

/// A ring.
pub struct Ring {
    area: Area,
    offset: u32,
    bytes: u32,
    reports_length: bool,
    /// Position of the next entry to take.
    next: u32,
    /// Position of the first of `slots`.
    tail: u32,
    slots: VecDeque<Slot>,
    /// Whether the tail has moved since [`Ring::take_moved`].
    moved: bool,
    /// Copy of the current entry.
    scratch: Vec<u8>,
}

impl Ring {
    /// The ring of an area. The entries between tail and head count as not taken.
    ///
    /// # Errors
    /// [`RingError`] if the mailbox is unsupported.
    pub fn open(area: Area) -> Result<Ring, RingError> {
        let mut head = [0; 4];
        area.read(VERSION_AT, &mut head)?;
        let [version, flags] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_le_bytes);
        if version != VERSION || flags & FLAG_OUT_OF_ORDER == 0 {
            return Err(RingError::Mailbox { version, flags });
        }
        let (offset, bytes) = (area.load(RING_OFFSET_AT)?, area.load(RING_BYTES_AT)?);
        let fits = area.check(offset.into(), bytes.into()).is_ok();
        let aligned = offset.is_multiple_of(ALIGNMENT) && bytes.is_multiple_of(ALIGNMENT);
        if !fits || !aligned || offset < MAILBOX_BYTES || bytes < MIN_COMMAND_BYTES as u32 {
            return Err(RingError::Ring { offset, bytes, length: area.length() });
        }
        let reports_length = flags & FLAG_READ_LENGTH != 0;
        let (slots, scratch) = Default::default();
        let mut ring =
            Ring { area, offset, bytes, reports_length, next: 0, tail: 0, slots, moved: false, scratch };
        ring.tail = ring.position(TAIL_AT)?;
        ring.next = ring.tail;
        Ok(ring)
    }

    /// Head or tail: the position of an entry.
    fn position(&self, at: u64) -> Result<u32, RingError> {
        let position = self.area.load(at)?;
        match position < self.bytes && position.is_multiple_of(ALIGNMENT) {
            true => Ok(position),
            false => Err(RingError::Position(position)),
        }
    }

    /// The next entry that is not a filler, if any.
    ///
    /// # Errors
    /// [`RingError`] if the entry is invalid; the ring is then unusable.
    pub fn take(&mut self) -> Result<Option<Entry>, RingError> {
        loop {
            let head = self.position(HEAD_AT)?;
            if self.next == head {
                return Ok(None);
            }
            let available = if head > self.next { head } else { self.bytes } - self.next;
            let at = u64::from(self.offset + self.next);
            let mut header = [0; HEADER_BYTES as usize];
            self.area.read(at, &mut header)?;
            let word = number::<4>(&header, 0).map_or(0, u32::from_le_bytes);
            let (bytes, operation) = (word & !OPERATION_MASK, word & OPERATION_MASK);
            let bad = |what| RingError::Entry { at: self.next, bytes, what };
            if bytes < HEADER_BYTES || bytes > available {
                return Err(bad("it does not end before the head"));
            }
            self.scratch.resize(bytes as usize, 0);
            self.area.read(at, &mut self.scratch)?;
            let entry = match operation {
                OPERATION_PAD => None,
                OPERATION_COMMAND => Some(self.command().map_err(bad)?),
                OPERATION_MANAGEMENT => Some(management(&self.scratch).map_err(bad)?),
                _ => {
                    self.area.write(at + USER_FLAGS_AT, &[UNKNOWN_OPERATION])?;
                    None
                }
            };
            self.slots
                .push_back(Slot { bytes, takes_response: matches!(entry, Some(Entry::Command { .. })) });
            self.next = (self.next + bytes) % self.bytes;
            if self.pass_over() {
                self.publish()?;
            }
            if entry.is_some() {
                return Ok(entry);
            }
        }
    }

    /// The command in the scratch buffer.
    fn command(&self) -> Result<Entry, &'static str> {
        let entry = &self.scratch[..];
        if entry.len() < MIN_COMMAND_BYTES {
            return Err("a command without room for its response");
        }
        let id = number::<2>(entry, 4).map(u16::from_le_bytes).unwrap_or_default();
        let count = |at| number::<4>(entry, at).map(u32::from_le_bytes).unwrap_or_default() as usize;
        let (vectors, both_ways) = (count(8), count(12));
        let end = vectors.checked_add(both_ways).and_then(|all| all.checked_mul(VECTOR_BYTES));
        let end = end.and_then(|bytes| bytes.checked_add(VECTORS_AT)).filter(|end| *end <= entry.len());
        let end = end.ok_or("more data vectors than it has room for")?;
        let mut data = Vec::with_capacity(vectors);
        // Vectors of bidirectional commands would follow; there are no such commands here.
        for at in (VECTORS_AT..end).step_by(VECTOR_BYTES).take(vectors) {
            data.push(self.vector(entry, at)?);
        }
        let total = data.iter().try_fold(0_usize, |sum, vector: &Vector| sum.checked_add(vector.bytes));
        if total.is_none_or(|total| total > self.area.length()) {
            return Err("more data than the area has");
        }
        let place = u64::from(self.offset + self.next);
        let cdb = number::<8>(entry, 24).map(u64::from_le_bytes).unwrap_or_default();
        let cdb = cdb.checked_sub(place).and_then(|at| usize::try_from(at).ok());
        let cdb = cdb.filter(|at| *at >= end && *at < entry.len()).ok_or("the CDB is not in it")?;
        let cdb = &entry[cdb..entry.len().min(cdb + MAX_CDB_BYTES)];
        Ok(Entry::Command { id, cdb: Bytes::copy_from_slice(cdb), data: Vectors(data) })
    }

    /// A data vector, checked to be within the data area.
    fn vector(&self, entry: &[u8], at: usize) -> Result<Vector, &'static str> {
        let field = |at| number::<8>(entry, at).map(u64::from_le_bytes).unwrap_or_default();
        let (at, bytes) = (field(at), field(at + 8));
        let in_data = at >= u64::from(self.offset) + u64::from(self.bytes);
        if !in_data || self.area.check(at, bytes).is_err() {
            return Err("a data vector outside of the data area");
        }
        Ok(Vector { at, bytes: usize::try_from(bytes).map_err(|_| "a data vector without end")? })
    }

    /// Copies data of a command, at most `limit` bytes.
    ///
    /// # Errors
    /// [`Outside`], which can't happen for vectors of this ring.
    pub fn gather(&self, data: &Vectors, limit: usize) -> Result<Bytes, Outside> {
        let mut out = vec![0; data.bytes().min(limit)];
        let mut rest = &mut out[..];
        for vector in &data.0 {
            let (part, after) = rest.split_at_mut(rest.len().min(vector.bytes));
            self.area.read(vector.at, part)?;
            rest = after;
        }
        Ok(out.into())
    }

    /// Copies Data-In into the room of a command and zeroes the rest; returns the length of the room.
    ///
    /// # Errors
    /// [`Outside`], which can't happen for vectors of this ring.
    pub fn scatter(&self, data: &Vectors, parts: impl Iterator<Item = Bytes>) -> Result<usize, Outside> {
        let mut room = data.0.iter().copied();
        let mut place = Vector { at: 0, bytes: 0 };
        let mut written = 0;
        for mut part in parts {
            while !part.is_empty() {
                if place.bytes == 0 {
                    let Some(next) = room.next() else { return Ok(written) };
                    place = next;
                    continue;
                }
                let piece = part.split_to(part.len().min(place.bytes));
                self.area.write(place.at, &piece)?;
                written += piece.len();
                place = Vector { at: place.at + piece.len() as u64, bytes: place.bytes - piece.len() };
            }
        }
        // Zero the remainder: it contains data of earlier commands.
        for vector in std::iter::once(place).chain(room) {
            self.area.zero(vector.at, vector.bytes)?;
        }
        Ok(written)
    }

    /// Responds to a command that was taken from this ring.
    ///
    /// # Errors
    /// [`Outside`], which can't happen for entries of this ring.
    ///
    /// # Panics
    /// If all commands have their response.
    pub fn respond(&mut self, id: u16, response: &RingResponse<'_>) -> Result<(), Outside> {
        self.pass_over();
        let slot = self.slots.pop_front().expect("a command that was taken has a slot");
        let at = u64::from(self.offset + self.tail);
        let has_length = self.reports_length && response.data_in > 0;
        let mut out = [0; MIN_COMMAND_BYTES - STATUS_AT as usize];
        out[0] = response.status;
        out[4..8].copy_from_slice(&response.data_in.to_le_bytes());
        let sense = &response.sense[..response.sense.len().min(SENSE_BYTES)];
        let sense_at = (SENSE_AT - STATUS_AT) as usize;
        out[sense_at..sense_at + sense.len()].copy_from_slice(sense);
        self.area.write(at + STATUS_AT, &out)?;
        self.area.write(at + ID_AT, &id.to_le_bytes())?;
        self.area.write(at + USER_FLAGS_AT, &[if has_length { READ_LENGTH_VALID } else { 0 }])?;
        self.tail = (self.tail + slot.bytes) % self.bytes;
        self.pass_over();
        self.publish()
    }

    /// Moves the tail over entries that take no response; returns whether it moved.
    fn pass_over(&mut self) -> bool {
        let before = self.slots.len();
        while let Some(Slot { bytes, takes_response: false }) = self.slots.front().copied() {
            self.slots.pop_front();
            self.tail = (self.tail + bytes) % self.bytes;
        }
        self.slots.len() < before
    }

    fn publish(&mut self) -> Result<(), Outside> {
        self.moved = true;
        self.area.store(TAIL_AT, self.tail)
    }

    /// Whether the tail has moved since the last call, so the kernel must be signalled.
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }
}

/// A task management entry.
fn management(entry: &[u8]) -> Result<Entry, &'static str> {
    let function = *entry.get(8).ok_or("a function without a number")?;
    let count = number::<4>(entry, 12).map(u32::from_le_bytes).ok_or("a function without a count")?;
    let end = (count as usize).checked_mul(2).and_then(|bytes| bytes.checked_add(IDENTIFIERS_AT));
    let identifiers = end.and_then(|end| entry.get(IDENTIFIERS_AT..end));
    let identifiers = identifiers.ok_or("more identifiers than it has room for")?;
    let aborted = identifiers.chunks_exact(2).filter_map(|id| number::<2>(id, 0)).map(u16::from_le_bytes);
    Ok(Entry::Management { function, aborted: aborted.collect() })
}

/// The bytes of a number.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
#[path = "ring_test.rs"]
mod tests;
