//! Records of controllers on a drive: the list of witnesses, signs of life with marks, and ballots.
//!
//! Each controller has two copies of its records. The older copy is overwritten, so a torn write leaves the newer one
//! intact.

use super::{CONTROLLERS, MAX_MAP_BYTES};
use crate::codec::{Reader, Versions, Writer, crc32c};
use crate::{ALIGN, AlignedBuf, Error, Result};
use bytes::Bytes;
use shelf::arbiter::Beat;
use std::sync::Arc;

/// Versions of these records.
const RECORDS: Versions = Versions { oldest: 1, current: 1 };

/// Bytes of the list of witnesses, of a sign and of a ballot.
pub const LIST_BYTES: usize = ALIGN;
pub const SIGN_BYTES: usize = ALIGN;
pub const BALLOT_BYTES: usize = 2 * ALIGN;

/// Maximum number of witnesses; an odd number.
pub const MAX_WITNESSES: usize = 15;

const CHECKSUM_BYTES: usize = 4;
/// Bytes of a ballot before its two maps.
const BALLOT_FRONT_BYTES: usize = 192;

const _: () = assert!(BALLOT_FRONT_BYTES + 2 * MAX_MAP_BYTES + CHECKSUM_BYTES <= BALLOT_BYTES);

/// A kind of record, of which each controller has two copies on a drive.
pub trait Record: Clone {
    const MAGIC: [u8; 8];
    const BYTES: usize;

    fn put(&self, out: &mut [u8]);
    fn take(from: &[u8]) -> Option<Self>;
}

/// The sign of life of a controller on a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sign {
    /// The key that its process is registered with.
    pub key: u64,
    pub beat: Beat,
    /// Its marks against each controller.
    pub marks: [u64; CONTROLLERS],
}

/// A map, and its proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub version: u64,
    /// Key of the proposing process, and number of its proposal: two proposals may have equal bytes.
    pub proposal: (u64, u64),
    pub map: Bytes,
}

/// Promise and acceptance of a controller, for the map that follows the decided one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ballot {
    /// The current map.
    pub decided: Option<Value>,
    /// The highest ballot that the controller has begun.
    pub begun: u64,
    /// The ballot in which the controller accepted `value`; zero for none.
    pub accepted: u64,
    pub value: Option<Value>,
}

impl Ballot {
    /// Version of the current map; zero if there is none.
    pub fn version(&self) -> u64 {
        self.decided.as_ref().map_or(0, |value| value.version)
    }
}

/// The newest copy of a record of a controller on a drive.
#[derive(Clone, Debug)]
pub struct Found<R> {
    pub record: R,
    sequence: u64,
    copy: usize,
}

impl Record for Sign {
    const MAGIC: [u8; 8] = *b"ASH_SIGN";
    const BYTES: usize = SIGN_BYTES;

    fn put(&self, out: &mut [u8]) {
        let mut out = Writer::new(out);
        out.put(&self.key.to_le_bytes());
        out.put(&self.beat.joined.to_le_bytes()).put(&self.beat.count.to_le_bytes());
        self.marks.iter().for_each(|mark| _ = out.put(&mark.to_le_bytes()));
    }

    fn take(from: &[u8]) -> Option<Self> {
        let mut from = Reader(from);
        let key = from.u64()?;
        let beat = Beat { joined: from.u64()?, count: from.u64()? };
        let mut marks = [0; CONTROLLERS];
        for mark in &mut marks {
            *mark = from.u64()?;
        }
        Some(Self { key, beat, marks })
    }
}

impl Record for Ballot {
    const MAGIC: [u8; 8] = *b"ASHVOTES";
    const BYTES: usize = BALLOT_BYTES;

    fn put(&self, out: &mut [u8]) {
        let (front, maps) = out.split_at_mut(BALLOT_FRONT_BYTES - HEADER_BYTES);
        let mut front = Writer::new(front);
        front.put(&self.begun.to_le_bytes()).put(&self.accepted.to_le_bytes());
        let mut maps = Writer::new(maps);
        for value in [&self.decided, &self.value] {
            let (version, proposal, map) = match value {
                Some(value) => (value.version, value.proposal, &value.map[..]),
                None => (0, (0, 0), &[][..]),
            };
            front.put(&version.to_le_bytes());
            front.put(&proposal.0.to_le_bytes()).put(&proposal.1.to_le_bytes());
            front.put(&(map.len() as u64).to_le_bytes());
            maps.put(map);
        }
    }

    fn take(from: &[u8]) -> Option<Self> {
        let (front, mut maps) = from.split_at_checked(BALLOT_FRONT_BYTES - HEADER_BYTES)?;
        let mut front = Reader(front);
        let (begun, accepted) = (front.u64()?, front.u64()?);
        let mut value = || {
            let version = front.u64()?;
            let proposal = (front.u64()?, front.u64()?);
            let len = usize::try_from(front.u64()?).ok().filter(|len| *len <= MAX_MAP_BYTES)?;
            let (map, rest) = maps.split_at_checked(len)?;
            maps = rest;
            Some((version > 0).then(|| Value { version, proposal, map: Bytes::copy_from_slice(map) }))
        };
        let (decided, value) = (value()?, value()?);
        (value.is_some() == (accepted > 0)).then_some(Self { decided, begun, accepted, value })
    }
}

/// Magic, array, version, controller, sequence.
const HEADER_BYTES: usize = 8 + 16 + 4 + 4 + 8;

fn sealed(mut page: AlignedBuf) -> Bytes {
    let (len, at) = (page.len(), page.len() - CHECKSUM_BYTES);
    let checksum = crc32c([&page[..at]]);
    page[at..].copy_from_slice(&checksum.to_le_bytes());
    Arc::new(page).share(0..len)
}

/// The fields after magic and array, if both match and the checksum is correct.
fn opened(page: &[u8], magic: [u8; 8], array: u128) -> Option<&[u8]> {
    let (covered, checksum) = page.split_at_checked(page.len().checked_sub(CHECKSUM_BYTES)?)?;
    let mut from = Reader(covered);
    let sound = from.take() == Some(magic)
        && from.u128() == Some(array)
        && Reader(checksum).u32() == Some(crc32c([covered]));
    sound.then_some(from.0)
}

/// The newest of these two copies of a controller's record; `None` if there is none yet.
///
/// # Errors
/// [`Error::Unusable`] if the record is of another release.
pub fn newest<R: Record>(copies: &[u8], array: u128, controller: usize) -> Result<Option<Found<R>>> {
    let mut found: Option<Found<R>> = None;
    for (copy, page) in copies.chunks_exact(R::BYTES).enumerate() {
        let Some(fields) = opened(page, R::MAGIC, array) else { continue };
        let mut from = Reader(fields);
        let (Some(version), Some(owner), Some(sequence)) = (from.u32(), from.u32(), from.u64()) else {
            continue;
        };
        if !RECORDS.reads(version) {
            return Err(RECORDS.refusal("what controllers share on the drives", version));
        }
        let Some(record) = R::take(from.0).filter(|_| owner as usize == controller) else { continue };
        if found.as_ref().is_none_or(|found| found.sequence < sequence) {
            found = Some(Found { record, sequence, copy });
        }
    }
    Ok(found)
}

/// The valid records in these two copies, in any order.
pub fn copies<R: Record>(copies: &[u8], array: u128) -> Vec<R> {
    let record = |page: &[u8]| R::take(opened(page, R::MAGIC, array)?.get(HEADER_BYTES - 24..)?);
    copies.chunks_exact(R::BYTES).filter_map(record).collect()
}

/// The record that follows `before`, and the index of the copy to overwrite.
pub fn next<R: Record>(
    record: &R,
    array: u128,
    controller: usize,
    before: Option<&Found<R>>,
) -> (usize, Bytes) {
    let (copy, sequence) = before.map_or((0, 1), |found| (1 - found.copy, found.sequence + 1));
    let mut page = AlignedBuf::zeroed(R::BYTES);
    Writer::new(&mut page)
        .put(&R::MAGIC)
        .put(&array.to_le_bytes())
        .put(&RECORDS.current.to_le_bytes())
        .put(&(controller as u32).to_le_bytes())
        .put(&sequence.to_le_bytes());
    let end = R::BYTES - CHECKSUM_BYTES;
    record.put(&mut page[HEADER_BYTES..end]);
    (copy, sealed(page))
}

const LIST_MAGIC: [u8; 8] = *b"ASHSHARE";

/// The list of witnesses: the identities of drives.
pub fn encode_list(array: u128, drives: &[u128]) -> Bytes {
    assert!(
        drives.len() <= MAX_WITNESSES && drives.len() % 2 == 1,
        "an odd number of witnesses, not too many"
    );
    let mut page = AlignedBuf::zeroed(LIST_BYTES);
    let mut out = Writer::new(&mut page);
    out.put(&LIST_MAGIC).put(&array.to_le_bytes());
    out.put(&RECORDS.current.to_le_bytes()).put(&(drives.len() as u32).to_le_bytes());
    drives.iter().for_each(|drive| _ = out.put(&drive.to_le_bytes()));
    sealed(page)
}

/// Decodes a list of witnesses; `None` if the page has none of this array.
///
/// # Errors
/// [`Error::Unusable`] if the list is of another release, [`Error::Corrupt`] if it is inconsistent.
pub fn decode_list(page: &[u8], array: u128) -> Result<Option<Vec<u128>>> {
    let Some(fields) = opened(page, LIST_MAGIC, array) else { return Ok(None) };
    let mut from = Reader(fields);
    let version = from.u32().unwrap_or(0);
    if !RECORDS.reads(version) {
        return Err(RECORDS.refusal("the list of witnesses on the drives", version));
    }
    let count = from.u32().map_or(0, |count| count as usize);
    let drives: Option<Vec<u128>> = (0..count.min(MAX_WITNESSES + 1)).map(|_| from.u128()).collect();
    match drives {
        Some(drives) if drives.len() % 2 == 1 && drives.len() <= MAX_WITNESSES => Ok(Some(drives)),
        _ => Err(Error::Corrupt { what: "the list of witnesses contradicts itself".into() }),
    }
}

#[cfg(test)]
#[path = "record_test.rs"]
mod tests;
