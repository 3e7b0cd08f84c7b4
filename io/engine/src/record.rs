//! Journal records: lists of mutations that take effect together.

use crate::codec::{Malformed, Put, Take};
use crate::entry::SlotId;
use crate::policy::Policy;
use block::{DiskId, Geometry, MAX_WINDOW, Note, Sequence};
use bytes::Bytes;
use smallvec::SmallVec;

/// One step of a change. Volumes go by number, blocks are of 4 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Blocks get the bytes of as many consecutive slots.
    Slots { volume: u32, block: u64, count: u32, first: SlotId },
    /// All blocks get the bytes of one slot.
    Same { volume: u32, block: u64, count: u64, slot: SlotId },
    /// Blocks become zeros, mapped or not.
    Hole { volume: u32, block: u64, count: u64, mapped: bool },
    /// Blocks are copied as if the source was read whole first.
    Copy { source: u32, from: u64, target: u32, to: u64, count: u64 },
    /// A volume begins, at this time.
    Create { volume: u32, id: DiskId, geometry: Geometry, created: u64 },
    /// A volume begins with the content and geometry of another. A snapshot takes no changes.
    Clone { volume: u32, id: DiskId, source: u32, created: u64, snapshot: bool, kept_until: u64 },
    /// A volume gets the content and geometry of another.
    Restore { volume: u32, source: u32 },
    /// Whether a volume takes changes.
    Access { volume: u32, read_only: bool },
    /// Retention lock: a volume that takes no changes is kept until this time.
    Keep { volume: u32, until: u64 },
    /// A volume has another size in logical blocks.
    Resize { volume: u32, blocks: u64 },
    /// A volume ends.
    Delete { volume: u32 },
    /// The state that the layer above keeps with a volume.
    SaveState { volume: u32, state: Bytes },
    /// A small record of the array, or its end.
    PutRecord { key: String, value: Option<Bytes> },
    /// How the data of a volume are reduced from now on.
    SetPolicy { volume: u32, policy: Policy },
    /// A command of a front end has taken effect with the other mutations of its record.
    Note(Note),
    /// A front end is gone, and what was noted of its commands.
    Forget { front: u64 },
}

impl Mutation {
    /// True if pages of a map change.
    pub fn changes_a_map(&self) -> bool {
        match self {
            Mutation::Slots { .. }
            | Mutation::Same { .. }
            | Mutation::Hole { .. }
            | Mutation::Copy { .. }
            | Mutation::Resize { .. } => true,
            Mutation::Create { .. }
            | Mutation::Clone { .. }
            | Mutation::Restore { .. }
            | Mutation::Access { .. }
            | Mutation::Keep { .. }
            | Mutation::Delete { .. }
            | Mutation::SaveState { .. }
            | Mutation::PutRecord { .. }
            | Mutation::SetPolicy { .. }
            | Mutation::Note(_)
            | Mutation::Forget { .. } => false,
        }
    }

    /// The blocks of a volume that it changes: volume, first block, and number of blocks.
    pub fn target(&self) -> Option<(u32, u64, u64)> {
        match *self {
            Mutation::Slots { volume, block, count, .. } => Some((volume, block, u64::from(count))),
            Mutation::Same { volume, block, count, .. } | Mutation::Hole { volume, block, count, .. } => {
                Some((volume, block, count))
            }
            Mutation::Copy { target, to, count, .. } => Some((target, to, count)),
            Mutation::Restore { volume, .. } => Some((volume, 0, u64::MAX)),
            _ => None,
        }
    }

    /// A short description.
    pub fn summary(&self) -> String {
        match self {
            Mutation::Slots { volume, block, count, first } => {
                format!(
                    "{count} blocks of volume {volume} from block {block} on get {first} and the next ones"
                )
            }
            Mutation::Same { volume, block, count, slot } => {
                format!("{count} blocks of volume {volume} from block {block} on get {slot}")
            }
            Mutation::Hole { volume, block, count, mapped } => {
                let state = if *mapped { "zeros" } else { "unmapped" };
                format!("{count} blocks of volume {volume} from block {block} on become {state}")
            }
            Mutation::Copy { source, from, target, to, count } => {
                format!(
                    "{count} blocks of volume {source} from block {from} on are copied to volume {target}, block {to}"
                )
            }
            Mutation::Create { volume, id, .. } => format!("volume {volume} ({:032x}) begins", id.0),
            Mutation::Clone { volume, id, source, .. } => {
                format!("volume {volume} ({:032x}) begins with the content of volume {source}", id.0)
            }
            Mutation::Restore { volume, source } => {
                format!("volume {volume} gets the content of volume {source}")
            }
            Mutation::Access { volume, read_only: true } => format!("volume {volume} becomes read-only"),
            Mutation::Access { volume, read_only: false } => format!("volume {volume} becomes writable"),
            Mutation::Keep { volume, until } => format!("volume {volume} is locked until {until}"),
            Mutation::Resize { volume, blocks } => format!("volume {volume} gets {blocks} blocks"),
            Mutation::Delete { volume } => format!("volume {volume} ends"),
            Mutation::SaveState { volume, state } => {
                format!("{} bytes of state of volume {volume}", state.len())
            }
            Mutation::PutRecord { key, .. } => format!("record {key:?}"),
            Mutation::SetPolicy { volume, .. } => format!("volume {volume} gets another policy"),
            Mutation::Note(_) => "a command of a front end is noted".to_owned(),
            Mutation::Forget { front } => format!("front end {front:016x} is gone"),
        }
    }

    /// The slots that it names.
    pub fn slots(&self) -> impl Iterator<Item = SlotId> {
        let (first, count) = match self {
            Mutation::Slots { count, first, .. } => (*first, *count as usize),
            Mutation::Same { slot, .. } => (*slot, 1),
            _ => (SlotId { batch: 0, page: 0 }, 0),
        };
        (0..count).map(move |n| first.offset(n))
    }
}

/// Mutations that take effect together.
pub type Record = SmallVec<[Mutation; 1]>;

/// The mutations in steps, each of which is applied as one. Slots for blocks that follow each other are one step: a
/// write may be split between journal batches within a map page that it replaces whole, and that page is not read.
pub fn steps(mutations: &[Mutation]) -> impl Iterator<Item = &[Mutation]> {
    mutations.chunk_by(|before, after| match (before, after) {
        (
            Mutation::Slots { volume, block, count, .. },
            Mutation::Slots { volume: next_volume, block: next, .. },
        ) => volume == next_volume && block.checked_add(u64::from(*count)) == Some(*next),
        _ => false,
    })
}

/// An upper bound of the bytes that [`encode`] needs.
pub fn bound(record: &[Mutation]) -> usize {
    let each = |mutation: &Mutation| match mutation {
        Mutation::SaveState { state, .. } => 32 + state.len(),
        Mutation::PutRecord { key, value } => 32 + key.len() + value.as_ref().map_or(0, Bytes::len),
        _ => 56,
    };
    10 + record.iter().map(each).sum::<usize>()
}

/// Writes a record into the head of batch `batch`; a slot is written as its distance to that batch.
pub fn encode(record: &[Mutation], batch: u64, out: &mut Vec<u8>) {
    out.var(record.len() as u64);
    record.iter().for_each(|mutation| encode_mutation(mutation, batch, out));
}

fn encode_mutation(mutation: &Mutation, batch: u64, out: &mut Vec<u8>) {
    let mut fields = |kind: u8, numbers: &[u64]| {
        out.u8(kind);
        numbers.iter().for_each(|number| out.var(*number));
    };
    let n = u64::from;
    let back = |slot: &SlotId| batch - slot.batch;
    match mutation {
        Mutation::Slots { volume, block, count, first } => {
            fields(1, &[n(*volume), *block, n(*count), back(first), u64::from(first.page)]);
        }
        Mutation::Same { volume, block, count, slot } => {
            fields(2, &[n(*volume), *block, *count, back(slot), u64::from(slot.page)]);
        }
        Mutation::Hole { volume, block, count, mapped } => {
            fields(3, &[n(*volume), *block, *count, u64::from(*mapped)]);
        }
        Mutation::Copy { source, from, target, to, count } => {
            fields(4, &[n(*source), *from, n(*target), *to, *count]);
        }
        Mutation::Create { volume, id, geometry, created } => {
            fields(5, &[n(*volume), n(geometry.block_bytes), geometry.blocks, *created]);
            out.u128(id.0);
        }
        Mutation::Clone { volume, id, source, created, snapshot, kept_until } => {
            fields(6, &[n(*volume), n(*source), *created, u64::from(*snapshot), *kept_until]);
            out.u128(id.0);
        }
        Mutation::Restore { volume, source } => fields(12, &[n(*volume), n(*source)]),
        Mutation::Access { volume, read_only } => fields(13, &[n(*volume), u64::from(*read_only)]),
        Mutation::Keep { volume, until } => fields(14, &[n(*volume), *until]),
        Mutation::Resize { volume, blocks } => fields(7, &[n(*volume), *blocks]),
        Mutation::Delete { volume } => fields(8, &[n(*volume)]),
        Mutation::SaveState { volume, state } => {
            fields(9, &[n(*volume)]);
            out.blob(state);
        }
        Mutation::PutRecord { key, value } => {
            fields(10, &[u64::from(value.is_some())]);
            out.blob(key.as_bytes());
            out.blob(value.as_deref().unwrap_or_default());
        }
        Mutation::SetPolicy { volume, policy } => fields(11, &[n(*volume), n(policy.to_byte().into())]),
        Mutation::Note(Note { sequence: Sequence { front, number, lowest }, whole }) => {
            fields(15, &[*front, *lowest, (number - lowest) << 1 | u64::from(*whole)]);
        }
        Mutation::Forget { front } => fields(16, &[*front]),
    }
}

fn take_slot(take: &mut Take<'_>, batch: u64) -> Result<SlotId, Malformed> {
    let (back, page) = (take.var()?, take.var()?);
    let batch = batch.checked_sub(back).ok_or(take.malformed())?;
    Ok(SlotId { batch, page: u16::try_from(page).map_err(|_| take.malformed())? })
}

/// Reads what [`encode`] wrote into the head of `batch`.
pub fn decode(take: &mut Take<'_>, batch: u64) -> Result<Record, Malformed> {
    let count = take.count()?;
    (0..count).map(|_| decode_mutation(take, batch)).collect()
}

fn decode_mutation(take: &mut Take<'_>, batch: u64) -> Result<Mutation, Malformed> {
    let kind = take.u8()?;
    if kind == 15 {
        let (front, lowest, bits) = (take.var()?, take.var()?, take.var()?);
        let number = lowest.checked_add(bits >> 1).ok_or(take.malformed())?;
        take.check(bits >> 1 < MAX_WINDOW)?;
        return Ok(Mutation::Note(Note {
            sequence: Sequence { front, number, lowest },
            whole: bits & 1 != 0,
        }));
    }
    if kind == 16 {
        return Ok(Mutation::Forget { front: take.var()? });
    }
    if kind == 10 {
        let some = take.var()? == 1;
        let key = String::from_utf8(take.blob()?.to_vec()).map_err(|_| take.malformed())?;
        let value = Bytes::copy_from_slice(take.blob()?);
        return Ok(Mutation::PutRecord { key, value: some.then_some(value) });
    }
    let volume = take.var32()?;
    Ok(match kind {
        1 => {
            let (block, count, first) = (take.var()?, take.var32()?, take_slot(take, batch)?);
            take.check(u64::from(first.page) + u64::from(count) <= 1 << 16)?;
            Mutation::Slots { volume, block, count, first }
        }
        2 => Mutation::Same { volume, block: take.var()?, count: take.var()?, slot: take_slot(take, batch)? },
        3 => Mutation::Hole { volume, block: take.var()?, count: take.var()?, mapped: take.var()? != 0 },
        4 => {
            let (from, target, to, count) = (take.var()?, take.var32()?, take.var()?, take.var()?);
            Mutation::Copy { source: volume, from, target, to, count }
        }
        5 => {
            let geometry = Geometry { block_bytes: take.var32()?, blocks: take.var()? };
            Mutation::Create { volume, geometry, created: take.var()?, id: DiskId(take.u128()?) }
        }
        6 => {
            let (source, created, snapshot) = (take.var32()?, take.var()?, take.var()? != 0);
            let kept_until = take.var()?;
            Mutation::Clone { volume, source, created, snapshot, kept_until, id: DiskId(take.u128()?) }
        }
        7 => Mutation::Resize { volume, blocks: take.var()? },
        8 => Mutation::Delete { volume },
        9 => Mutation::SaveState { volume, state: Bytes::copy_from_slice(take.blob()?) },
        11 => {
            let policy = u8::try_from(take.var()?).ok().and_then(Policy::from_byte);
            Mutation::SetPolicy { volume, policy: policy.ok_or(take.malformed())? }
        }
        12 => Mutation::Restore { volume, source: take.var32()? },
        13 => Mutation::Access { volume, read_only: take.var()? != 0 },
        14 => Mutation::Keep { volume, until: take.var()? },
        _ => return Err(take.malformed()),
    })
}

/// CRC-32C.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(front: u64, distance: u64, whole: bool) -> Mutation {
        let lowest = u64::MAX - MAX_WINDOW;
        Mutation::Note(Note { sequence: Sequence { front, number: lowest + distance, lowest }, whole })
    }

    fn every_mutation() -> Record {
        let (volume, id, first) = (7, DiskId(u128::MAX - 5), SlotId { batch: 90, page: 3 });
        let geometry = Geometry { block_bytes: 512, blocks: 1 << 45 };
        [
            Mutation::Slots { volume, block: 1 << 40, count: 300, first },
            Mutation::Same { volume, block: 2, count: 1 << 33, slot: first },
            Mutation::Hole { volume, block: 0, count: u64::MAX, mapped: true },
            Mutation::Copy { source: 1, from: 2, target: 3, to: 4, count: 5 },
            Mutation::Create { volume: u32::MAX, id, geometry, created: u64::MAX },
            Mutation::Clone {
                volume: u32::MAX,
                id,
                source: u32::MAX,
                created: u64::MAX,
                snapshot: true,
                kept_until: u64::MAX,
            },
            Mutation::Restore { volume, source: 8 },
            Mutation::Access { volume, read_only: true },
            Mutation::Keep { volume, until: 1 << 40 },
            Mutation::Resize { volume, blocks: 9 },
            Mutation::Delete { volume },
            Mutation::SaveState { volume, state: Bytes::from(vec![5; 300]) },
            Mutation::PutRecord { key: "hosts/a".into(), value: Some(Bytes::from_static(b"{}")) },
            Mutation::PutRecord { key: "hosts/b".into(), value: None },
            Mutation::SetPolicy { volume, policy: Policy { dedup: false, ..Policy::default() } },
            note(u64::MAX, MAX_WINDOW - 1, true),
            note(1, 0, false),
            Mutation::Forget { front: u64::MAX },
        ]
        .into_iter()
        .collect()
    }

    #[test]
    fn records_come_back() {
        let record = every_mutation();
        let mut out = Vec::new();
        encode(&record, 91, &mut out);
        assert!(out.len() <= bound(&record));
        let mut take = Take::new(&out, "record");
        assert_eq!(decode(&mut take, 91).unwrap(), record);
        assert!(take.is_empty());
    }

    #[test]
    fn a_copy_command_costs_few_bytes() {
        let copy = Mutation::Copy { source: 1000, from: 1 << 31, target: 1001, to: 1 << 30, count: 4096 };
        let mut out = Vec::new();
        encode(&[copy], 1, &mut out);
        assert!(out.len() <= 24, "{} bytes", out.len());
    }
}
