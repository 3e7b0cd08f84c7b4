//! The parameter lists of POPULATE TOKEN and WRITE USING TOKEN (SBC-4 5.9, 5.51).

use super::{DEFAULT_INACTIVITY_SECONDS, MAX_INACTIVITY_SECONDS, MAX_RANGES, MAX_TOKEN_BYTES};
use crate::commands::read_write::check_range;
use crate::encoding::cdb::List;
use crate::encoding::sense::{Code, Fault};
use crate::encoding::token::{RodType, TOKEN_BYTES};
use crate::unit::Unit;
use block::Extent;

const RANGE_BYTES: usize = 16;

/// Where the list of POPULATE TOKEN has its ranges, after the field of their length.
const POPULATE_RANGES: usize = 16;

/// Where the list of WRITE USING TOKEN has the token and its ranges.
const WRITE_TOKEN: usize = 16;
const WRITE_RANGES: usize = 536;

/// The bits of byte 2.
const IMMED: u8 = 0x01;
const ROD_TYPE_VALID: u8 = 0x02;
const DELETE_TOKEN: u8 = 0x02;

/// What POPULATE TOKEN asks for.
pub(super) struct Populate {
    pub(super) immediate: bool,
    pub(super) inactivity_seconds: u32,
    pub(super) ranges: Vec<Extent>,
}

/// What WRITE USING TOKEN asks for.
pub(super) struct WriteUsing<'a> {
    pub(super) immediate: bool,
    pub(super) deletes: bool,
    /// Blocks from the start of the data that the token represents.
    pub(super) offset: u64,
    pub(super) token: &'a [u8],
    pub(super) ranges: Vec<Extent>,
}

impl Populate {
    pub(super) fn parse(bytes: &[u8], unit: &Unit) -> Result<Populate, Fault> {
        let list = List(bytes);
        if list.len() < POPULATE_RANGES {
            return Err(Code::PARAMETER_LIST_LENGTH.into());
        }
        check_flags(list, IMMED | ROD_TYPE_VALID)?;
        let (asked, kind) = (list.u32(4), list.u32(8));
        if asked > MAX_INACTIVITY_SECONDS {
            return Err(Fault::list_byte(4));
        }
        let supported = [RodType::PointInTime as u32, RodType::AnyPointInTime as u32].contains(&kind);
        if list.u8(2) & ROD_TYPE_VALID != 0 && !supported {
            return Err(Fault::list_byte(8));
        }
        Ok(Populate {
            immediate: list.u8(2) & IMMED != 0,
            inactivity_seconds: if asked == 0 { DEFAULT_INACTIVITY_SECONDS } else { asked },
            ranges: ranges(list, POPULATE_RANGES, unit)?,
        })
    }
}

impl WriteUsing<'_> {
    pub(super) fn parse<'a>(bytes: &'a [u8], unit: &Unit) -> Result<WriteUsing<'a>, Fault> {
        let list = List(bytes);
        let token = list.sub(WRITE_TOKEN, TOKEN_BYTES).filter(|_| list.len() >= WRITE_RANGES);
        let token = token.ok_or(Fault::from(Code::PARAMETER_LIST_LENGTH))?;
        check_flags(list, IMMED | DELETE_TOKEN)?;
        Ok(WriteUsing {
            immediate: list.u8(2) & IMMED != 0,
            deletes: list.u8(2) & DELETE_TOKEN != 0,
            offset: list.u64(8),
            token: token.0,
            ranges: ranges(list, WRITE_RANGES, unit)?,
        })
    }
}

/// Refuses flags in byte 2 that the command does not have.
fn check_flags(list: List<'_>, used: u8) -> Result<(), Fault> {
    if list.u8(2) & !used == 0 { Ok(()) } else { Err(Fault::list_byte(2)) }
}

/// The block device range descriptors from `start` on; their length is in the two bytes before, and that of the whole list
/// in its first two.
fn ranges(list: List<'_>, start: usize, unit: &Unit) -> Result<Vec<Extent>, Fault> {
    let length = usize::from(list.u16(start - 2));
    if usize::from(list.u16(0)) + 2 < start + length {
        return Err(Fault::list_byte(0));
    }
    if length < RANGE_BYTES || !length.is_multiple_of(RANGE_BYTES) {
        return Err(Fault::list_byte(start - 2));
    }
    if length / RANGE_BYTES > MAX_RANGES {
        return Err(Fault::in_list(Code::TOO_MANY_SEGMENTS, start - 2));
    }
    let descriptors = list.sub(start, length).ok_or(Fault::from(Code::PARAMETER_LIST_LENGTH))?;
    let at = |at: usize| Extent::new(descriptors.u64(at), descriptors.u32(at + 8).into());
    let ranges: Vec<Extent> = (0..length).step_by(RANGE_BYTES).map(at).collect();
    ranges.iter().try_for_each(|range| check_range(unit, *range, u64::MAX))?;
    let blocks: u64 = ranges.iter().map(|range| range.blocks).sum();
    if blocks > MAX_TOKEN_BYTES / u64::from(unit.block_bytes) || overlap(&ranges) {
        return Err(Fault::list_byte(start));
    }
    Ok(ranges)
}

/// Whether a block is in more than one of the ranges.
fn overlap(ranges: &[Extent]) -> bool {
    let mut sorted: Vec<&Extent> = ranges.iter().filter(|range| range.blocks > 0).collect();
    sorted.sort_unstable_by_key(|range| range.lba);
    sorted.windows(2).any(|pair| matches!(pair, [one, next] if one.overlaps(next)))
}

/// Blocks that the list of WRITE USING TOKEN names; errors in it are found later.
pub(super) fn written_blocks(bytes: &[u8]) -> u64 {
    let list = List(bytes);
    let length = usize::from(list.u16(WRITE_RANGES - 2)).min(list.len().saturating_sub(WRITE_RANGES));
    let blocks = |at: usize| u64::from(list.u32(WRITE_RANGES + at + 8));
    (0..length / RANGE_BYTES).map(|index| blocks(index * RANGE_BYTES)).sum()
}
