//! The parameter lists of EXTENDED COPY (LID1) and (LID4) (SPC-5 6.6, 6.7): header, CSCD descriptors, segment descriptors.

use super::{MAX_CSCDS, MAX_DESCRIPTOR_BYTES, MAX_SEGMENTS};
use crate::encoding::cdb::List;
use crate::encoding::sense::{Code, Fault};

/// CSCD descriptor: identification by a designator.
const IDENTIFICATION: u8 = 0xE4;

/// Segment descriptor: block device to block device.
const BLOCKS: u8 = 0x02;

/// Segment descriptor: block device with offset to block device with offset; the length is in bytes.
const BYTES: u8 = 0x0A;

/// The supported descriptors, as the operating parameters list them.
pub(super) const DESCRIPTORS: [u8; 3] = [BLOCKS, BYTES, IDENTIFICATION];

/// The CSCD identifier of the unit that got the command.
pub(super) const RECEIVER: u16 = 0xFFFF;

const CSCD_BYTES: usize = 32;

/// The format of a list, by the service action of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Lid1,
    Lid4,
}

/// The fields of a header.
struct Header {
    /// Its length.
    bytes: usize,
    list_id: u32,
    /// LIST ID USAGE.
    usage: u8,
    /// Offsets of that field and of the list identifier.
    at: (usize, usize),
    cscd_bytes: usize,
    segment_bytes: usize,
    /// Bytes of inline data, and where the field is.
    inline: (u32, usize),
    immediate: bool,
}

impl Header {
    fn parse(format: Format, list: List<'_>) -> Result<Header, Fault> {
        let usage = list.u8(1) >> 3 & 3;
        Ok(match format {
            Format::Lid1 => Header {
                bytes: 16,
                list_id: list.u8(0).into(),
                usage,
                at: (1, 0),
                cscd_bytes: list.u16(2).into(),
                segment_bytes: list.u32(8) as usize,
                inline: (list.u32(12), 12),
                immediate: false,
            },
            Format::Lid4 => {
                // The only list format, and the length and type of the header's CSCD descriptor.
                let fixed = [(0, list.u8(0) == 0x01), (2, list.u16(2) == 0x20), (16, list.u8(16) == 0xFF)];
                if let Some((at, _)) = fixed.into_iter().find(|(_, right)| !right && list.len() >= 48) {
                    return Err(Fault::list_byte(at));
                }
                Header {
                    bytes: 48,
                    list_id: list.u32(20),
                    usage,
                    at: (1, 20),
                    cscd_bytes: list.u16(42).into(),
                    segment_bytes: list.u16(44).into(),
                    inline: (list.u16(46).into(), 46),
                    immediate: list.u8(15) & 0x01 != 0,
                }
            }
        })
    }
}

/// A list of valid form.
pub(super) struct Description {
    /// The identifier under which the result is stored; `None` if it is not wanted.
    pub(super) list_id: Option<u32>,
    /// The command may end before the copy does.
    pub(super) immediate: bool,
    pub(super) cscds: Vec<Cscd>,
    pub(super) segments: Vec<Segment>,
}

/// A copy source or copy destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cscd {
    /// Its NAA name; the only designator of ours that fits in a descriptor.
    pub(super) naa: Option<[u8; 16]>,
}

/// How long a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Blocks(u16),
    Bytes(u32),
}

/// A segment, with its disks as CSCD identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) source: u16,
    pub(super) target: u16,
    pub(super) source_lba: u64,
    pub(super) target_lba: u64,
    length: Length,
}

impl Segment {
    pub(super) fn bytes(&self, block: u64) -> u64 {
        match self.length {
            Length::Blocks(blocks) => u64::from(blocks) * block,
            Length::Bytes(bytes) => bytes.into(),
        }
    }

    /// The length in blocks; `None` if it is not a whole number of them.
    pub(super) fn blocks(&self, block: u64) -> Option<u64> {
        self.bytes(block).is_multiple_of(block).then(|| self.bytes(block) / block)
    }
}

impl Description {
    pub(super) fn parse(format: Format, bytes: &[u8]) -> Result<Description, Fault> {
        let list = List(bytes);
        let header = Header::parse(format, list)?;
        let (start, cscd_bytes, segment_bytes) = (header.bytes, header.cscd_bytes, header.segment_bytes);
        if list.len() < start || cscd_bytes + segment_bytes > MAX_DESCRIPTOR_BYTES {
            return Err(Code::PARAMETER_LIST_LENGTH.into());
        }
        let (cscds, segments) = list
            .sub(start, cscd_bytes)
            .zip(list.sub(start + cscd_bytes, segment_bytes))
            .filter(|_| cscd_bytes.is_multiple_of(CSCD_BYTES))
            .ok_or(Fault::from(Code::PARAMETER_LIST_LENGTH))?;
        if cscd_bytes / CSCD_BYTES > MAX_CSCDS {
            return Err(Fault::in_list(Code::TOO_MANY_CSCDS, 2));
        }
        if header.inline.0 != 0 {
            return Err(Fault::in_list(Code::INLINE_DATA_LENGTH, header.inline.1));
        }
        let list_id = match header.usage {
            0b00 | 0b10 => Some(header.list_id),
            // Without an identifier there are no results to ask for.
            0b11 if header.list_id == 0 => None,
            0b11 => return Err(Fault::list_byte(header.at.1)),
            _ => return Err(Fault::list_byte(header.at.0)),
        };
        Ok(Description {
            list_id,
            immediate: header.immediate,
            cscds: parse_cscds(cscds, start)?,
            segments: parse_segments(segments, start + cscd_bytes)?,
        })
    }
}

fn parse_cscds(list: List<'_>, start: usize) -> Result<Vec<Cscd>, Fault> {
    let mut cscds = Vec::new();
    for at in (0..list.len()).step_by(CSCD_BYTES) {
        if list.u8(at) != IDENTIFICATION {
            return Err(Fault::in_list(Code::UNSUPPORTED_CSCD_TYPE, start + at));
        }
        // Association logical unit, type NAA; LU ID TYPE and NUL are obsolete and ignored (SPC-4).
        let named = list.u8(at + 5) & 0x3F == 0x03 && list.u8(at + 7) == 16;
        let naa = list.sub(at + 8, 16).and_then(|name| name.0.try_into().ok());
        cscds.push(Cscd { naa: naa.filter(|_| named) });
    }
    Ok(cscds)
}

fn parse_segments(list: List<'_>, start: usize) -> Result<Vec<Segment>, Fault> {
    let mut segments = Vec::new();
    let mut at = 0;
    while at < list.len() {
        let kind = list.u8(at);
        let expected = match kind {
            BLOCKS => 28,
            BYTES => 32,
            _ => return Err(Fault::in_list(Code::UNSUPPORTED_SEGMENT_TYPE, start + at)),
        };
        let length = 4 + usize::from(list.u16(at + 2));
        if length != expected {
            return Err(Fault::list_byte(start + at + 2));
        }
        let segment = list.sub(at, length).ok_or(Fault::from(Code::PARAMETER_LIST_LENGTH))?;
        if segments.len() == MAX_SEGMENTS {
            return Err(Fault::in_list(Code::TOO_MANY_SEGMENTS, 8));
        }
        segments.push(parse_segment(segment, start + at)?);
        at += length;
    }
    Ok(segments)
}

fn parse_segment(segment: List<'_>, start: usize) -> Result<Segment, Fault> {
    let length = match segment.u8(0) {
        BLOCKS => Length::Blocks(segment.u16(10)),
        // Offsets within a block are not supported: blocks are shared, not moved.
        _ if segment.u32(28) != 0 => return Err(Fault::list_byte(start + 28)),
        _ => Length::Bytes(segment.u32(8)),
    };
    Ok(Segment {
        source: segment.u16(4),
        target: segment.u16(6),
        source_lba: segment.u64(12),
        target_lba: segment.u64(20),
        length,
    })
}
