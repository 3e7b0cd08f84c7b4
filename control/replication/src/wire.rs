//! Messages between source and target, in frames of [`peer::frame`]. All numbers are little-endian; additional fields
//! belong to a newer version, and are ignored.
//!
//! | message | from | then |
//! |---|---|---|
//! | `Hello` | both | versions and arrays are checked |
//! | `Open` | source | `State`, or `Refused` |
//! | `Snapshots` | source | `Begin` follows: names of the snapshots that the point was taken from; since version 2 |
//! | `Mirror` | source | `Begin` follows: changes will follow the point; since version 3 |
//! | `Begin` | source | `Ready`: staging volumes have the content of the base, or what an interrupted transfer left |
//! | `Offer` | source | `Want`: which of its blocks the target does not have |
//! | `Blocks` | source | `Applied`, also after a `Want` of nothing: the offer is durable and will not be asked for again |
//! | `End` | source | `Published`, or `Refused` |
//! | `Change` | source, after `Mirror` and `Published` | `Durable`: this change and those before it are |

use crate::disk::{self, BLOCK_BYTES};
use crate::fingerprint::{Digest, Fingerprint, Key};
use crate::limits::{
    MAX_CHANGE_BLOCKS, MAX_CHANGE_PARTS, MAX_EXTENTS, MAX_OFFER_BLOCKS, MAX_POINTS, MAX_VOLUMES,
};
use crate::{Error, Reason, Result};
use block::{DiskId, Geometry};
use bytes::{BufMut, Bytes, BytesMut};
use engine::Part;
use peer::fields::{Fields, put_bytes};
use peer::versions::Protocol;

/// Protocol versions that this release supports. Both ends use the newest common one.
pub const VERSIONS: std::ops::RangeInclusive<u16> = 1..=MIRROR_VERSION;

/// The protocol with these versions.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: "the replication protocol",
    other: "the other array",
    own: "this one",
    versions: [*VERSIONS.start(), *VERSIONS.end()],
};

/// First version with names of snapshots in points.
pub const NAMES_VERSION: u16 = 2;

/// First version with changes after a point.
pub const MIRROR_VERSION: u16 = 3;

/// Maximum payload of a frame: the blocks of the longest offer, or its runs and fingerprints.
pub const MAX_PAYLOAD_BYTES: usize = MAX_OFFER_BLOCKS * BLOCK_BYTES + (64 << 10);

/// Maximum payload before both ends have sent hello.
pub const MAX_HELLO_BYTES: usize = 256;

const MAX_TEXT_BYTES: usize = 1024;
/// Maximum length of a snapshot's name.
const MAX_NAME_BYTES: usize = 256;
const RAW: u8 = 0;
const ZSTD: u8 = 1;
/// Higher levels cost more time than they save on networks of a data centre.
const ZSTD_LEVEL: i32 = 1;

/// Content of a run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: never written, or unmapped.
    Hole,
    /// Zeros that were written.
    Zero,
    /// Data: each block has a fingerprint.
    Data,
}

/// A run of blocks of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first block.
    pub first: u64,
    /// Number of blocks.
    pub count: u64,
    /// Content of the blocks.
    pub kind: Kind,
}

impl Extent {
    /// The block after the run.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }
}

/// A part of the changes of one volume: offered, wanted, sent and applied as a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Number in the transfer of the point.
    pub number: u64,
    /// Index of the volume in the group.
    pub volume: u32,
    /// Runs in order.
    pub extents: Vec<Extent>,
    /// Fingerprint of each block with data, in order.
    pub fingerprints: Vec<Fingerprint>,
    /// Digest of the point after this offer.
    pub digest: Digest,
}

/// A volume of a point, from the view of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceVolume {
    /// Identity on the source.
    pub id: DiskId,
    /// Size of the volume.
    pub geometry: Geometry,
}

/// Digest of a point before its first offer: over the digest of its base, and its volumes.
pub fn first_digest(key: &Key, base: Digest, point: u64, volumes: &[SourceVolume]) -> Digest {
    let mut bytes = BytesMut::new();
    bytes.put_u64_le(point);
    volumes.iter().for_each(|volume| put_volume(&mut bytes, volume));
    key.chain(base, &bytes)
}

fn put_volume(out: &mut BytesMut, volume: &SourceVolume) {
    out.put_u128_le(volume.id.0);
    out.put_u32_le(volume.geometry.block_bytes);
    out.put_u64_le(volume.geometry.blocks);
}

/// An unfinished transfer of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The point.
    pub point: u64,
    /// The base that it began with; zero for none.
    pub base: u64,
    /// Number of the next offer.
    pub next: u64,
    /// Start of the next offer: index of the volume.
    pub volume: u32,
    /// Start of the next offer: block.
    pub block: u64,
    /// The digest so far.
    pub digest: Digest,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Kind 1.
    Hello {
        /// Oldest version that the sender supports.
        least: u16,
        /// Newest version that the sender supports.
        most: u16,
        /// The array.
        array: u128,
    },
    /// Kind 2.
    Open {
        /// Number of the group's replication on both arrays.
        replication: u128,
    },
    /// Kind 3.
    State {
        /// Published points with their digests, newest first.
        points: Vec<(u64, Digest)>,
        /// The transfer that was begun and not published.
        position: Option<Position>,
    },
    /// Kind 4.
    Begin {
        /// The point.
        point: u64,
        /// Time of the point, for display.
        taken: u64,
        /// The base of the changes that follow; zero for none: then everything follows.
        base: u64,
        /// Whether to resume the last transfer.
        resume: bool,
        /// All volumes of the group.
        volumes: Vec<SourceVolume>,
    },
    /// Kind 5.
    Ready,
    /// Kind 6.
    Offer(Offer),
    /// Kind 7.
    Want {
        /// The offer.
        number: u64,
        /// One bit for each of its fingerprints, the lowest of the first byte first.
        wanted: Bytes,
    },
    /// Kind 8.
    Blocks {
        /// The offer.
        number: u64,
        /// Packing method.
        method: u8,
        /// The wanted blocks, concatenated.
        packed: Bytes,
    },
    /// Kind 9.
    Applied {
        /// The offer.
        number: u64,
    },
    /// Kind 10.
    End {
        /// The digest of the point.
        digest: Digest,
    },
    /// Kind 11.
    Published,
    /// Kind 13.
    Snapshots {
        /// Names in the order of the volumes.
        names: Vec<String>,
    },
    /// Kind 14.
    Mirror,
    /// Kind 15.
    Change {
        /// Number in the session.
        number: u64,
        /// Indices of volumes, and their changes at one moment.
        parts: Vec<(u32, Part)>,
    },
    /// Kind 16.
    Durable {
        /// The last durable change.
        number: u64,
    },
    /// Kind 12.
    Refused {
        /// Reason, for programs.
        reason: Reason,
        /// Reason, for operators.
        text: String,
    },
}

/// Packs blocks.
pub fn pack(blocks: &[Bytes]) -> (u8, Bytes) {
    let raw = blocks.concat();
    match zstd::bulk::compress(&raw, ZSTD_LEVEL) {
        Ok(packed) if packed.len() < raw.len() => (ZSTD, packed.into()),
        _ => (RAW, raw.into()),
    }
}

/// Unpacks `len` bytes, which is at most the longest offer.
pub fn unpack(method: u8, packed: &Bytes, len: usize) -> Result<Bytes> {
    let found = match method {
        RAW => packed.clone(),
        ZSTD => zstd::bulk::decompress(packed, len)
            .map_err(|_| Error::Malformed("blocks that can't be decompressed"))?
            .into(),
        _ => return Err(Error::Malformed("blocks that are packed by an unknown method")),
    };
    if found.len() != len {
        return Err(Error::Malformed("another number of blocks than was wanted"));
    }
    Ok(found)
}

impl Offer {
    /// First block of the next offer of the volume.
    pub fn end(&self) -> u64 {
        self.extents.last().map_or(0, Extent::end)
    }

    /// The runs with data: first block, number of blocks.
    pub fn data(&self) -> impl Iterator<Item = (u64, u64)> + Clone {
        let data = self.extents.iter().filter(|extent| extent.kind == Kind::Data);
        data.map(|extent| (extent.first, extent.count))
    }

    /// The blocks with data, in order.
    pub fn blocks(&self) -> impl Iterator<Item = u64> + Clone {
        self.data().flat_map(|(first, count)| first..first + count)
    }

    /// Checks the offer against its volume and the expected start.
    ///
    /// # Errors
    /// [`Error::Malformed`] if its runs are out of order or outside of the volume, or if the number of fingerprints
    /// differs.
    pub fn check(&self, geometry: Geometry, from: u64) -> Result<()> {
        let mut at = from;
        let mut data: u64 = 0;
        for extent in &self.extents {
            let end = extent.first.checked_add(extent.count);
            let end = end.filter(|end| extent.count > 0 && *end <= disk::blocks(geometry));
            let Some(end) = end.filter(|_| extent.first >= at) else {
                return Err(Error::Malformed(
                    "an offer of blocks that are not in order or not of the volume",
                ));
            };
            at = end;
            if extent.kind == Kind::Data {
                data = data.saturating_add(extent.count);
            }
        }
        if self.extents.is_empty() || data != self.fingerprints.len() as u64 {
            return Err(Error::Malformed("an offer with another number of fingerprints than blocks"));
        }
        Ok(())
    }

    /// Input for the digest of the point: the same for equal content.
    pub fn chained(&self) -> BytesMut {
        let mut out = BytesMut::with_capacity(16 + 17 * self.extents.len() + 16 * self.fingerprints.len());
        out.put_u32_le(self.volume);
        put_list(&mut out, &self.extents, |out, extent| {
            out.put_u64_le(extent.first);
            out.put_u64_le(extent.count);
            out.put_u8(match extent.kind {
                Kind::Hole => 0,
                Kind::Zero => 1,
                Kind::Data => 2,
            });
        });
        put_list(&mut out, &self.fingerprints, |out, fingerprint| out.put_slice(fingerprint));
        out
    }

    fn decode(from: &mut Fields) -> Result<Self> {
        let (number, digest) = (from.u64()?, digest(from)?);
        let volume = from.u32()?;
        let extents = list(from, MAX_EXTENTS, |from| {
            let (first, count) = (from.u64()?, from.u64()?);
            let kind = match from.u8()? {
                0 => Kind::Hole,
                1 => Kind::Zero,
                2 => Kind::Data,
                _ => return Err(Error::Malformed("a run of an unknown kind")),
            };
            Ok(Extent { first, count, kind })
        })?;
        let fingerprints = list(from, MAX_OFFER_BLOCKS, |from| Ok(from.array()?))?;
        Ok(Self { number, volume, extents, fingerprints, digest })
    }
}

fn digest(from: &mut Fields) -> Result<Digest> {
    Ok(Digest(from.array()?))
}

fn put_list<T>(out: &mut BytesMut, list: &[T], put: impl Fn(&mut BytesMut, &T)) {
    out.put_u32_le(list.len() as u32);
    list.iter().for_each(|item| put(out, item));
}

fn list<T>(from: &mut Fields, max: usize, item: impl Fn(&mut Fields) -> Result<T>) -> Result<Vec<T>> {
    let count = from.u32()? as usize;
    if count > max {
        return Err(Error::Malformed("a list that is longer than allowed"));
    }
    (0..count).map(|_| item(from)).collect()
}

fn put_position(out: &mut BytesMut, position: &Position) {
    for number in [position.point, position.base, position.next] {
        out.put_u64_le(number);
    }
    out.put_u32_le(position.volume);
    out.put_u64_le(position.block);
    out.put_slice(&position.digest.0);
}

fn position(from: &mut Fields) -> Result<Position> {
    Ok(Position {
        point: from.u64()?,
        base: from.u64()?,
        next: from.u64()?,
        volume: from.u32()?,
        block: from.u64()?,
        digest: digest(from)?,
    })
}

/// The start of a text, up to the maximum length.
fn bounded(text: impl Iterator<Item = char>) -> String {
    let mut out = String::new();
    for char in text {
        if out.len() + char.len_utf8() > MAX_TEXT_BYTES {
            break;
        }
        out.push(char);
    }
    out
}

/// A name for display.
fn name(from: &mut Fields) -> Result<String> {
    let text = from.bytes(MAX_NAME_BYTES)?;
    let text = std::str::from_utf8(&text).map_err(|_| Error::Malformed("a name that is no text"))?;
    match text.chars().all(text::is_visible) {
        false => Err(Error::Malformed("a name with characters that can't be shown")),
        true => Ok(text.to_owned()),
    }
}

/// The data of a part, which follows all parts.
fn data_of(part: &Part) -> Option<&Bytes> {
    match part {
        Part::Data { data, .. } | Part::Same { data, .. } => Some(data),
        _ => None,
    }
}

fn put_part(out: &mut BytesMut, (volume, part): &(u32, Part)) {
    let (kind, first, count) = match part {
        Part::Data { block, data } => (0, *block, (data.len() / BLOCK_BYTES) as u64),
        Part::Same { block, count, .. } => (1, *block, *count),
        Part::Hole { block, count, mapped: false } => (2, *block, *count),
        Part::Hole { block, count, mapped: true } => (3, *block, *count),
        Part::Resized { blocks } => (4, *blocks, 0),
        Part::Copied { .. } | Part::Replaced | Part::Cloned { .. } => {
            unreachable!("a part without content is not sent")
        }
    };
    out.put_u32_le(*volume);
    out.put_u8(kind);
    out.put_u64_le(first);
    out.put_u64_le(count);
}

fn parts(from: &mut Fields) -> Result<Vec<(u32, Part)>> {
    let heads = list(from, MAX_CHANGE_PARTS, |from| Ok((from.u32()?, from.u8()?, from.u64()?, from.u64()?)))?;
    let mut blocks = 0;
    let mut parts = Vec::with_capacity(heads.len());
    for (volume, kind, block, count) in heads {
        let mut data = |count: u64| {
            blocks += count.min(MAX_CHANGE_BLOCKS + 1);
            match blocks <= MAX_CHANGE_BLOCKS {
                true => Ok(from.take(count as usize * BLOCK_BYTES)?),
                false => Err(Error::Malformed("a change of more blocks than allowed")),
            }
        };
        let part = match kind {
            0 => Part::Data { block, data: data(count)? },
            1 => Part::Same { block, count, data: data(1)? },
            2 | 3 => Part::Hole { block, count, mapped: kind == 3 },
            4 => Part::Resized { blocks: block },
            _ => return Err(Error::Malformed("a change of an unknown kind")),
        };
        parts.push((volume, part));
    }
    Ok(parts)
}

fn reason(byte: u8) -> Reason {
    match byte {
        1 => Reason::Unknown,
        2 => Reason::Busy,
        3 => Reason::NoSpace,
        _ => Reason::Other,
    }
}

impl Message {
    /// Number of the message's kind.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Hello { .. } => 1,
            Self::Open { .. } => 2,
            Self::State { .. } => 3,
            Self::Begin { .. } => 4,
            Self::Ready => 5,
            Self::Offer(_) => 6,
            Self::Want { .. } => 7,
            Self::Blocks { .. } => 8,
            Self::Applied { .. } => 9,
            Self::End { .. } => 10,
            Self::Published => 11,
            Self::Refused { .. } => 12,
            Self::Snapshots { .. } => 13,
            Self::Mirror => 14,
            Self::Change { .. } => 15,
            Self::Durable { .. } => 16,
        }
    }

    /// The payload, in pieces: blocks are not copied.
    pub fn encode(&self) -> Vec<Bytes> {
        let mut out = BytesMut::new();
        let mut data = Vec::new();
        match self {
            Self::Hello { least, most, array } => {
                out.put_u16_le(*least);
                out.put_u16_le(*most);
                out.put_u128_le(*array);
            }
            Self::Open { replication } => out.put_u128_le(*replication),
            Self::State { points, position } => {
                put_list(&mut out, points, |out, (number, digest)| {
                    out.put_u64_le(*number);
                    out.put_slice(&digest.0);
                });
                put_list(&mut out, position.as_slice(), put_position);
            }
            Self::Begin { point, taken, base, resume, volumes } => {
                for number in [point, taken, base] {
                    out.put_u64_le(*number);
                }
                out.put_u8((*resume).into());
                put_list(&mut out, volumes, put_volume);
            }
            Self::Ready | Self::Published | Self::Mirror => {}
            Self::Offer(offer) => {
                out.put_u64_le(offer.number);
                out.put_slice(&offer.digest.0);
                data.push(offer.chained().freeze());
            }
            Self::Want { number, wanted } => {
                out.put_u64_le(*number);
                put_bytes(&mut out, wanted);
            }
            Self::Blocks { number, method, packed } => {
                out.put_u64_le(*number);
                out.put_u8(*method);
                out.put_u32_le(packed.len() as u32);
                data.push(packed.clone());
            }
            Self::Applied { number } | Self::Durable { number } => out.put_u64_le(*number),
            Self::Change { number, parts } => {
                out.put_u64_le(*number);
                put_list(&mut out, parts, put_part);
                data.extend(parts.iter().filter_map(|(_, part)| data_of(part)).cloned());
            }
            Self::Snapshots { names } => {
                put_list(&mut out, names, |out, name| put_bytes(out, name.as_bytes()));
            }
            Self::End { digest } => out.put_slice(&digest.0),
            Self::Refused { reason, text } => {
                out.put_u8(match reason {
                    Reason::Unknown => 1,
                    Reason::Busy => 2,
                    Reason::NoSpace => 3,
                    Reason::Other => 4,
                });
                put_bytes(&mut out, bounded(text.chars()).as_bytes());
            }
        }
        std::iter::once(out.freeze()).chain(data).collect()
    }

    /// Decodes the payload of a frame.
    ///
    /// # Errors
    /// [`Error::Malformed`] for an unknown kind, and for fields that are missing, too long or of an unknown value.
    pub fn decode(kind: u16, payload: Bytes) -> Result<Self> {
        let max = payload.len();
        let mut from = Fields::new(payload);
        Ok(match kind {
            1 => Self::Hello { least: from.u16()?, most: from.u16()?, array: from.u128()? },
            2 => Self::Open { replication: from.u128()? },
            3 => {
                let points = list(&mut from, MAX_POINTS, |from| Ok((from.u64()?, digest(from)?)))?;
                Self::State { points, position: list(&mut from, 1, position)?.pop() }
            }
            4 => {
                let (point, taken, base) = (from.u64()?, from.u64()?, from.u64()?);
                let resume = from.u8()? != 0;
                let volumes = list(&mut from, MAX_VOLUMES, |from| {
                    let id = DiskId(from.u128()?);
                    let geometry = Geometry { block_bytes: from.u32()?, blocks: from.u64()? };
                    let valid = disk::is_valid(geometry);
                    if !valid {
                        return Err(Error::Malformed("a volume of a size that no volume has"));
                    }
                    Ok(SourceVolume { id, geometry })
                })?;
                Self::Begin { point, taken, base, resume, volumes }
            }
            5 => Self::Ready,
            6 => Self::Offer(Offer::decode(&mut from)?),
            7 => Self::Want { number: from.u64()?, wanted: from.bytes(MAX_OFFER_BLOCKS / 8)? },
            8 => Self::Blocks { number: from.u64()?, method: from.u8()?, packed: from.bytes(max)? },
            9 => Self::Applied { number: from.u64()? },
            10 => Self::End { digest: digest(&mut from)? },
            11 => Self::Published,
            12 => {
                let (reason, text) = (reason(from.u8()?), from.bytes(MAX_TEXT_BYTES)?);
                // Displayed text must not control an operator's terminal.
                let text = String::from_utf8_lossy(&text);
                Self::Refused {
                    reason,
                    text: bounded(text.chars().filter(|letter| text::is_visible(*letter))),
                }
            }
            13 => Self::Snapshots { names: list(&mut from, MAX_VOLUMES, name)? },
            14 => Self::Mirror,
            15 => Self::Change { number: from.u64()?, parts: parts(&mut from)? },
            16 => Self::Durable { number: from.u64()? },
            _ => return Err(Error::Malformed("a message of an unknown kind")),
        })
    }
}

#[cfg(test)]
#[path = "wire_test.rs"]
mod tests;
