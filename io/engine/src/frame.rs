//! Objects of the log: a header, then data blocks or metadata. The header identifies the object and has its checksum,
//! so that a segment can be read without any map, and a read of other bytes is detected.

use crate::codec::{Malformed, Take};
use crate::entry::{BLOCK, BlockId};
use crate::lz4_front;
use crate::policy::Compression;
use crate::record::checksum;
use bytes::Bytes;
use std::cell::RefCell;
use std::fmt;
use zstd::bulk::{Compressor, Decompressor};

/// Kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ObjectKind {
    /// A frame of up to eight blocks; the number is the frame's.
    Frame = 1,
    /// A map page.
    Map = 2,
    /// A page of the frame table.
    Table = 3,
    /// A chunk of the page index of the maps.
    MapIndex = 4,
    /// A chunk of the page index of the frame table.
    TableIndex = 5,
    /// A part of the catalog; the number is the part's.
    Catalog = 6,
    /// A part of a checkpoint's root.
    Root = 7,
    /// Entries of the deduplication index, from format [`crate::INDEX_VERSION`] on.
    Index = 8,
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Frame => "frame",
            Self::Map => "map",
            Self::Table => "frame table",
            Self::MapIndex => "index of map pages",
            Self::TableIndex => "index of the frame table",
            Self::Catalog => "catalog",
            Self::Root => "checkpoint root",
            Self::Index => "deduplication index",
        })
    }
}

impl ObjectKind {
    fn from_byte(byte: u8) -> Option<Self> {
        use ObjectKind::{Catalog, Frame, Index, Map, MapIndex, Root, Table, TableIndex};
        [Frame, Map, Table, MapIndex, TableIndex, Catalog, Root, Index]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// Bytes of an object's header.
pub const HEADER: usize = 24;
const MAGIC: u32 = u32::from_le_bytes(*b"ALO1");

/// The most that one block takes of the log: a frame of its own that does not compress, and its part of the frame
/// table.
pub const BLOCK_MAX_LOG_BYTES: u64 = (BLOCK + HEADER + 16 + 16) as u64;

/// Upper bound of the bytes of a frame. A segment is full when the next frame does not fit.
pub const FRAME_MAX_BYTES: u64 = (HEADER + 16) as u64 + (BlockId::PER_FRAME * (BLOCK + 16)) as u64;

/// The header of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its kind.
    pub kind: ObjectKind,
    /// How a frame's blocks are stored.
    pub packing: u8,
    /// Which of a frame's blocks are stored, one bit each.
    pub stored: u8,
    /// Some fingerprints were skipped to save time, and may be computed later.
    pub skipped: bool,
    /// Bytes after the header.
    pub payload: u32,
    /// Its number among objects of its kind.
    pub number: u64,
    checksum: u32,
}

impl Header {
    /// Reads a header. It does not verify the checksum, which covers the whole object.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "object header");
        take.expect(MAGIC)?;
        let checksum = take.u32()?;
        let kind = ObjectKind::from_byte(take.u8()?).ok_or(take.malformed())?;
        let (packing, stored, flags) = (take.u8()?, take.u8()?, take.u8()?);
        let skipped = flags & SKIPPED != 0;
        Ok(Self { kind, packing, stored, skipped, payload: take.u32()?, number: take.u64()?, checksum })
    }

    /// The compression method with which to rewrite the frame unchanged.
    pub fn method(&self) -> Method {
        match self.packing {
            RAW => Method::Raw,
            ZSTD => Method::Zstd,
            _ => Method::Lz4,
        }
    }

    /// Length in bytes of the whole object.
    pub fn len(&self) -> usize {
        HEADER + self.payload as usize
    }
}

/// The bits of the first `count` blocks of a frame.
pub fn stored_mask(count: usize) -> u8 {
    ((1u16 << count) - 1) as u8
}

/// Fills in the header of an object whose first [`HEADER`] bytes are free. `how` is packing, stored blocks and flags.
fn seal(object: &mut [u8], kind: ObjectKind, how: [u8; 3], number: u64) {
    let payload = (object.len() - HEADER) as u32;
    object[..4].copy_from_slice(&MAGIC.to_le_bytes());
    object[8] = kind as u8;
    object[9..12].copy_from_slice(&how);
    object[12..16].copy_from_slice(&payload.to_le_bytes());
    object[16..HEADER].copy_from_slice(&number.to_le_bytes());
    let sum = checksum(&object[8..]);
    object[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// Makes an object of any bytes, with length and checksum right: for tests of decoders.
pub fn resealed(bytes: &[u8]) -> Bytes {
    let mut object = bytes.to_vec();
    object.resize(object.len().max(HEADER), 0);
    let how = [object[9] % 4, object[10], object[11]];
    seal(&mut object, ObjectKind::Frame, how, 1);
    object.into()
}

/// A frame with another header whose checksum is right: for tests of inconsistent media.
pub fn sealed_again(object: &[u8], how: [u8; 3], number: u64) -> Bytes {
    let mut object = object.to_vec();
    seal(&mut object, ObjectKind::Frame, how, number);
    object.into()
}

/// Verifies an object and returns its header.
pub fn verify(object: &[u8]) -> Result<Header, Malformed> {
    let header = Header::decode(object)?;
    if object.len() != header.len() || checksum(&object[8..]) != header.checksum {
        return Err(Malformed("object: the checksum differs"));
    }
    Ok(header)
}

/// An object of metadata; `fill` writes its payload.
pub fn metadata(kind: ObjectKind, number: u64, fill: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    // Most are as long as a page of a map at most.
    let mut object = Vec::with_capacity(HEADER + BLOCK);
    object.resize(HEADER, 0);
    fill(&mut object);
    seal(&mut object, kind, [0; 3], number);
    object.into()
}

/// The payload of a metadata object that must be of this kind and number.
pub fn payload(object: &Bytes, kind: ObjectKind, number: u64) -> Result<Bytes, Malformed> {
    let header = verify(object)?;
    if (header.kind, header.number) != (kind, number) {
        return Err(Malformed("object: its kind or number differs"));
    }
    Ok(object.slice(HEADER..))
}

/// The fingerprint of a block.
pub type Fingerprint = [u8; 16];

/// Placeholder of a fingerprint that was not computed: the volume is not deduplicated, or it was skipped to save time
/// (see [`Header::skipped`]).
pub const UNKNOWN: Fingerprint = [0; 16];

/// How the blocks of a frame are stored.
const RAW: u8 = 0;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;

/// A flag of the header: see [`Header::skipped`].
const SKIPPED: u8 = 1;

/// How a frame is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Uncompressed.
    Raw,
    /// LZ4.
    Lz4,
    /// zstd as data is flushed: higher levels take much longer for a few percent.
    Zstd,
    /// Deep compression: zstd with the time that an idle array has.
    Deep,
}

impl Method {
    /// The method that a policy uses as data is flushed.
    pub fn of(compression: Compression) -> Self {
        match compression {
            Compression::Off => Self::Raw,
            Compression::Fast | Compression::Adaptive => Self::Lz4,
            Compression::High => Self::Zstd,
        }
    }
}

const ZSTD_LEVEL: i32 = 1;
const DEEP_LEVEL: i32 = 6;

fn compressor(level: i32) -> RefCell<Compressor<'static>> {
    RefCell::new(Compressor::new(level).expect("a level that zstd has"))
}

thread_local! {
    /// Working memory of zstd, one for each thread: allocating it for a frame costs as much as compressing part of
    /// one.
    static ZSTD_IN: RefCell<Compressor<'static>> = compressor(ZSTD_LEVEL);
    static DEEP_IN: RefCell<Compressor<'static>> = compressor(DEEP_LEVEL);
    static ZSTD_OUT: RefCell<Decompressor<'static>> = RefCell::default();
}

/// Compresses into a buffer that is smaller than the worst case, so that compression of incompressible data ends early. Returns
/// the packing and the bytes used.
fn compress(blocks: &[u8], out: &mut [u8], how: Method) -> Option<(u8, usize)> {
    let (packing, done) = match how {
        Method::Raw => return None,
        Method::Lz4 => {
            let mode = Some(lz4::block::CompressionMode::FAST(1));
            (LZ4, lz4::block::compress_to_buffer(blocks, mode, false, out))
        }
        Method::Zstd => (ZSTD, ZSTD_IN.with_borrow_mut(|zstd| zstd.compress_to_buffer(blocks, out))),
        Method::Deep => (ZSTD, DEEP_IN.with_borrow_mut(|zstd| zstd.compress_to_buffer(blocks, out))),
    };
    done.ok().filter(|len| *len > 0).map(|len| (packing, len))
}

/// Bytes that compressed blocks may take at most: compression has to save at least a sixteenth.
fn max_compressed_len(blocks: usize) -> usize {
    blocks - blocks / 16
}

/// Bytes that blocks take compressed, if that saves enough.
pub fn compressed_len(blocks: &[u8], how: Compression) -> usize {
    compress(blocks, &mut vec![0; max_compressed_len(blocks.len())], Method::of(how))
        .map_or(blocks.len(), |(_, len)| len)
}

/// Encodes frames; its buffers are reused.
pub struct Packer {
    blocks: Vec<u8>,
    out: Box<[u8]>,
}

impl Default for Packer {
    fn default() -> Self {
        let blocks = BlockId::PER_FRAME * BLOCK;
        Self { blocks: Vec::with_capacity(blocks), out: vec![0; max_compressed_len(blocks)].into() }
    }
}

impl Packer {
    /// A frame as the log holds it: the blocks that `stored` names, in order, with their fingerprints, compressed if
    /// that saves enough. `skipped` as in [`Header::skipped`].
    pub fn pack<'a>(
        &mut self,
        number: u64,
        stored: u8,
        blocks: impl ExactSizeIterator<Item = &'a [u8]>,
        fingerprints: &[Fingerprint],
        how: Method,
        skipped: bool,
    ) -> Bytes {
        let count = stored.count_ones() as usize;
        assert!(count == fingerprints.len() && count == blocks.len() && count > 0);
        self.blocks.clear();
        blocks.for_each(|block| self.blocks.extend_from_slice(block));
        assert!(self.blocks.len() == count * BLOCK);
        let max = max_compressed_len(self.blocks.len());
        let (packing, payload) = match compress(&self.blocks, &mut self.out[..max], how) {
            Some((packing, len)) => (packing, &self.out[..len]),
            None => (RAW, &self.blocks[..]),
        };
        let mut object = Vec::with_capacity(HEADER + size_of_val(fingerprints) + payload.len());
        object.extend_from_slice(&[0; HEADER]);
        object.extend_from_slice(fingerprints.as_flattened());
        object.extend_from_slice(payload);
        let flags = if skipped { SKIPPED } else { 0 };
        seal(&mut object, ObjectKind::Frame, [packing, stored, flags], number);
        object.into()
    }
}

/// Whether a frame is stored compressed.
pub fn is_compressed(object: &[u8]) -> bool {
    object[9] != RAW
}

/// A frame's blocks in memory: all that are stored, or the first of them.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// Stored blocks, one bit each.
    pub stored: u8,
    blocks: Bytes,
}

/// The number of stored blocks before block `index`.
fn rank(stored: u8, index: u8) -> usize {
    (stored & ((1u16 << index) - 1) as u8).count_ones() as usize
}

impl Decoded {
    /// The bytes of `count` blocks from `index` on; `None` if they are not all stored next to each other, or not decoded.
    pub fn blocks(&self, index: u8, count: usize) -> Option<Bytes> {
        let mask = ((1u16 << count) - 1) << index;
        if count == 0 || mask & !u16::from(self.stored) != 0 {
            return None;
        }
        let rank = rank(self.stored, index);
        let range = rank * BLOCK..(rank + count) * BLOCK;
        (range.end <= self.blocks.len()).then(|| self.blocks.slice(range))
    }

    /// Whether a block is stored and decoded.
    pub fn has(&self, index: u8) -> bool {
        self.stored >> index & 1 == 1 && rank(self.stored, index) * BLOCK < self.blocks.len()
    }

    /// Whether all stored blocks are decoded.
    pub fn is_whole(&self) -> bool {
        self.blocks.len() == self.stored.count_ones() as usize * BLOCK
    }

    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        self.blocks.len()
    }
}

/// The last block that a frame can have: to decode all.
pub const LAST_BLOCK: u8 = BlockId::PER_FRAME as u8 - 1;

/// Decodes the stored blocks of a frame, after verifying everything.
pub fn unpack(object: &Bytes, number: u64) -> Result<Decoded, Malformed> {
    unpack_front(object, number, LAST_BLOCK)
}

/// Decodes the stored blocks of a frame up to block `last`, and those after it if they cost nothing. The whole object
/// is verified.
pub fn unpack_front(object: &Bytes, number: u64, last: u8) -> Result<Decoded, Malformed> {
    let header = verify(object)?;
    let whole = header.stored.count_ones() as usize * BLOCK;
    let front = HEADER + whole / BLOCK * size_of::<Fingerprint>();
    if (header.kind, header.number) != (ObjectKind::Frame, number) || object.len() < front {
        return Err(Malformed("frame: its kind or number differs"));
    }
    let packed = object.slice(front..);
    let (blocks, len) = match header.packing {
        RAW => (Some(packed), whole),
        LZ4 => {
            let len = match last {
                LAST_BLOCK => whole,
                last => rank(header.stored, last + 1) * BLOCK,
            };
            (lz4_front::decode(&packed, len, whole).map(Bytes::from), len)
        }
        ZSTD => {
            let decoded = ZSTD_OUT.with_borrow_mut(|zstd| zstd.decompress(&packed, whole));
            (decoded.ok().map(Bytes::from), whole)
        }
        _ => return Err(Malformed("frame: unknown packing")),
    };
    let blocks = blocks.ok_or(Malformed("frame: it does not decompress"))?;
    if blocks.len() != len {
        return Err(Malformed("frame: its length differs"));
    }
    Ok(Decoded { stored: header.stored, blocks })
}

/// The fingerprints of a frame's stored blocks, in order.
pub fn fingerprints(object: &[u8], header: &Header) -> Result<Vec<Fingerprint>, Malformed> {
    let mut take = Take::new(object.get(HEADER..).unwrap_or_default(), "frame fingerprints");
    (0..header.stored.count_ones())
        .map(|_| take.bytes(16)?.try_into().map_err(|_| take.malformed()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    fn pack(stored: u8, blocks: &[u8], fingerprints: &[Fingerprint], how: Method) -> Bytes {
        Packer::default().pack(99, stored, blocks.chunks(BLOCK), fingerprints, how, true)
    }

    #[test]
    fn frames_are_decoded_compressed_or_raw() {
        use Method::{Deep, Lz4, Raw, Zstd};
        let even = || vec![7; 3 * BLOCK];
        for (blocks, how, smaller) in [
            (noise(3 * BLOCK), Lz4, false),
            (noise(3 * BLOCK), Deep, false),
            (even(), Raw, false),
            (even(), Lz4, true),
            (even(), Zstd, true),
            (even(), Deep, true),
        ] {
            let object = pack(0b1101, &blocks, &[[1; 16], [2; 16], [3; 16]], how);
            assert_eq!(object.len() < blocks.len(), smaller);
            let frame = unpack(&object, 99).unwrap();
            assert_eq!(frame.blocks(0, 1).unwrap(), blocks[..BLOCK]);
            assert_eq!(frame.blocks(2, 2).unwrap(), blocks[BLOCK..]);
            assert!(frame.blocks(1, 1).is_none() && frame.blocks(0, 3).is_none());
            let header = verify(&object).unwrap();
            assert!(header.skipped);
            assert_eq!(fingerprints(&object, &header).unwrap(), [[1; 16], [2; 16], [3; 16]]);
            assert!(unpack(&object, 98).is_err());
        }
    }

    #[test]
    fn the_front_of_a_frame_has_the_blocks_up_to_the_wanted_one() {
        let blocks: Vec<u8> = (0..3).flat_map(|n| [vec![n; BLOCK / 2], noise(BLOCK / 2)].concat()).collect();
        for how in [Method::Raw, Method::Lz4, Method::Zstd] {
            let object = pack(0b1_0110, &blocks, &[[1; 16]; 3], how);
            for (last, count) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (6, 3), (7, 3)] {
                let front = unpack_front(&object, 99, last).unwrap();
                let has = |index| front.has(index);
                assert_eq!(front.is_whole(), how != Method::Lz4 || count == 3);
                assert!([0, 3, 5, 6, 7].into_iter().all(|index| !has(index)), "they are not stored");
                for (rank, index) in [1, 2, 4].into_iter().enumerate() {
                    let bytes = front.blocks(index, 1);
                    assert_eq!(has(index), bytes.is_some());
                    assert_eq!(has(index), front.is_whole() || rank < count, "{how:?} {last} {index}");
                    assert!(bytes.is_none_or(|bytes| bytes == blocks[rank * BLOCK..][..BLOCK]));
                }
                assert_eq!(front.blocks(1, 2).is_some(), has(2));
            }
            assert!(unpack_front(&object, 98, 1).is_err());
            let mut wrong = object.to_vec();
            *wrong.last_mut().unwrap() ^= 1;
            assert!(unpack_front(&wrong.into(), 99, 1).is_err(), "all of it is verified");
        }
    }

    #[test]
    fn every_changed_byte_is_detected() {
        let mut object = pack(1, &[7; BLOCK], &[[1; 16]], Method::Lz4).to_vec();
        for at in 0..object.len() {
            object[at] ^= 1;
            assert!(unpack(&Bytes::from(object.clone()), 99).is_err(), "byte {at}");
            object[at] ^= 1;
        }
    }
}
