//! Objects of the log: a header, then data blocks or metadata. The header identifies the object and has its checksum,
//! so that a segment can be read without any map, and a read of other bytes is detected.

use crate::cell::{self, Blocks, Cells, Lz4, indexes, max_compressed_len};
use crate::codec::{Malformed, Take};
use crate::entry::{BLOCK, BlockId};
use crate::policy::Compression;
use crate::record::checksum;
use bytes::Bytes;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
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

/// Bytes beside the data of a block: its fingerprint, and what describes and verifies its cell.
const BESIDE_BLOCK: usize = size_of::<Fingerprint>() + cell::LISTED + cell::CHECKSUM;

/// The most that one block takes of the log: a frame of its own that does not compress, and its part of the frame
/// table.
pub const BLOCK_MAX_LOG_BYTES: u64 = (BLOCK + HEADER + BESIDE_BLOCK + 18) as u64;

/// Upper bound of the bytes of a frame. A segment is full when the next frame does not fit.
pub const FRAME_MAX_BYTES: u64 = (HEADER + 16) as u64 + (BlockId::PER_FRAME * (BLOCK + BESIDE_BLOCK)) as u64;

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
    /// Reads a header. It does not verify the checksum, which covers more than the header.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "object header");
        take.expect(MAGIC)?;
        let checksum = take.u32()?;
        let kind = ObjectKind::from_byte(take.u8()?).ok_or(take.malformed())?;
        let (packing, stored, flags) = (take.u8()?, take.u8()?, take.u8()?);
        let skipped = flags & SKIPPED != 0;
        Ok(Self { kind, packing, stored, skipped, payload: take.u32()?, number: take.u64()?, checksum })
    }

    /// The compression method with which to rewrite the frame without some of its blocks.
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

    /// Length in bytes of what is before the blocks: the header, the fingerprints and the list of cells.
    fn front(&self) -> usize {
        front(self.stored, self.has_cells())
    }

    fn has_cells(&self) -> bool {
        self.kind == ObjectKind::Frame && self.packing == CELLS
    }

    /// What the checksum covers. The cells have their own.
    fn covered<'a>(&self, object: &'a [u8]) -> &'a [u8] {
        let end = if self.has_cells() { self.front().min(object.len()) } else { object.len() };
        &object[8..end]
    }

    /// The cells of a frame that `object` begins with; [`Cells::NONE`] if it has its blocks in one piece.
    ///
    /// # Errors
    /// The list is cut off, or has cells that do not exist.
    pub fn cells(&self, object: &[u8]) -> Result<Cells, Malformed> {
        if !self.has_cells() {
            return Ok(Cells::NONE);
        }
        let from = self.front() - self.stored.count_ones() as usize * cell::LISTED;
        let listed = object.get(from..self.front()).unwrap_or_default();
        let mut listed = listed.chunks_exact(cell::LISTED).map(|two| u16::from_le_bytes([two[0], two[1]]));
        Cells::read(self.stored, || listed.next().ok_or(Malformed("frame: the list of its cells is cut off")))
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
    let sum = Header::decode(object).map(|header| checksum(header.covered(object)));
    object[4..8].copy_from_slice(&sum.expect("the header was written").to_le_bytes());
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
    let (header, cells) = verify_front(object)?;
    cells.verify(header.number, &object[object.len() - cells.len()..])?;
    Ok(header)
}

/// Verifies an object but for its cells, and returns its header and the cells.
fn verify_front(object: &[u8]) -> Result<(Header, Cells), Malformed> {
    let header = Header::decode(object)?;
    if object.len() != header.len() || checksum(header.covered(object)) != header.checksum {
        return Err(Malformed("object: the checksum differs"));
    }
    let cells = header.cells(object)?;
    if !cells.is_none() && len_of_cells(&cells) != object.len() {
        return Err(Malformed("frame: its length differs"));
    }
    Ok((header, cells))
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
/// Each block is a cell, from format [`crate::CELL_VERSION`] on.
const CELLS: u8 = 3;

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
        Method::Lz4 => return cell::compress_lz4(blocks, out).map(|len| (LZ4, len)),
        Method::Zstd => (ZSTD, ZSTD_IN.with_borrow_mut(|zstd| zstd.compress_to_buffer(blocks, out))),
        Method::Deep => (ZSTD, DEEP_IN.with_borrow_mut(|zstd| zstd.compress_to_buffer(blocks, out))),
    };
    done.ok().filter(|len| *len > 0).map(|len| (packing, len))
}

/// Bytes that a block takes compressed, if that saves enough.
pub fn compressed_len(blocks: &[u8], how: Compression) -> usize {
    compress(blocks, &mut vec![0; max_compressed_len(blocks.len())], Method::of(how))
        .map_or(blocks.len(), |(_, len)| len)
}

/// A block to be packed.
pub struct Block<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// What LZ4 made of it before.
    pub lz4: &'a Lz4,
}

impl<'a> From<&'a [u8]> for Block<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, lz4: &Lz4::Untried }
    }
}

/// Encodes frames; its buffers are reused.
pub struct Packer {
    /// Frames may have cells. What zstd compresses is in one piece nevertheless: it gains much from the blocks beside one.
    pub has_cells: bool,
    blocks: Vec<u8>,
    out: Box<[u8]>,
}

impl Packer {
    /// A packer for a format that has cells or not.
    pub fn new(has_cells: bool) -> Self {
        let blocks = BlockId::PER_FRAME * BLOCK;
        let out = vec![0; max_compressed_len(blocks)].into();
        Self { has_cells, blocks: Vec::with_capacity(BlockId::PER_FRAME * (BLOCK + cell::CHECKSUM)), out }
    }

    /// A frame as the log holds it: the blocks that `stored` names, in order, with their fingerprints, compressed if
    /// that saves enough. `skipped` as in [`Header::skipped`].
    pub fn pack<'a>(
        &mut self,
        number: u64,
        stored: Blocks,
        blocks: impl ExactSizeIterator<Item = impl Into<Block<'a>>> + Clone,
        fingerprints: &[Fingerprint],
        how: Method,
        skipped: bool,
    ) -> Bytes {
        let count = stored.count_ones() as usize;
        assert!(count == fingerprints.len() && count == blocks.len() && count > 0);
        let flags = if skipped { SKIPPED } else { 0 };
        if !self.has_cells || matches!(how, Method::Zstd | Method::Deep) {
            self.blocks.clear();
            blocks.clone().for_each(|block| self.blocks.extend_from_slice(block.into().bytes));
            assert!(self.blocks.len() == count * BLOCK);
            let max = max_compressed_len(self.blocks.len());
            let packed = compress(&self.blocks, &mut self.out[..max], how);
            let (packing, payload) =
                packed.map_or((RAW, &self.blocks[..]), |(how, len)| (how, &self.out[..len]));
            if !self.has_cells || packing != RAW {
                return sealed(number, [packing, stored, flags], fingerprints, Cells::NONE, payload);
            }
        }
        let mut cells = Cells::NONE;
        self.blocks.clear();
        for (index, block) in indexes(stored).zip(blocks) {
            let name = BlockId { frame: number, index };
            let Block { bytes, lz4 } = block.into();
            cells.push(name, bytes, lz4, how == Method::Lz4, &mut self.blocks);
        }
        sealed(number, [CELLS, stored, flags], fingerprints, cells, &self.blocks)
    }
}

/// A frame of blocks that are encoded; `how` is packing, stored blocks and flags.
fn sealed(number: u64, how: [u8; 3], fingerprints: &[Fingerprint], cells: Cells, blocks: &[u8]) -> Bytes {
    let beside = fingerprints.len() * BESIDE_BLOCK;
    let mut object = Vec::with_capacity(HEADER + beside + blocks.len());
    object.extend_from_slice(&[0; HEADER]);
    object.extend_from_slice(fingerprints.as_flattened());
    cells.listed().for_each(|cell| object.extend_from_slice(&cell.to_le_bytes()));
    object.extend_from_slice(blocks);
    seal(&mut object, ObjectKind::Frame, how, number);
    object.into()
}

/// The cells of a frame that was made or verified here.
pub fn cells_of(object: &[u8]) -> Cells {
    let cells = Header::decode(object).and_then(|header| header.cells(object));
    cells.expect("a frame that is right")
}

/// A verified frame of cells with only some of its blocks, whose cells stay as they are. `None` if it has its blocks in one
/// piece.
pub fn keep_cells(object: &[u8], header: &Header, blocks: Blocks) -> Option<Bytes> {
    let cells = header.cells(object).ok().filter(|cells| !cells.is_none())?;
    let known = indexes(header.stored).zip(fingerprints(object, header).ok()?);
    let kept: SmallVec<[Fingerprint; BlockId::PER_FRAME]> =
        known.filter(|(index, _)| blocks >> index & 1 == 1).map(|(_, fingerprint)| fingerprint).collect();
    let mut bytes = Vec::with_capacity(object.len());
    cells.copy(blocks, object.get(header.front()..)?, &mut bytes);
    let flags = if header.skipped { SKIPPED } else { 0 };
    Some(sealed(header.number, [CELLS, blocks, flags], &kept, cells.only(blocks), &bytes))
}

/// Whether compression saved enough in a frame of this many blocks, a sixteenth.
pub fn is_compressed(object: &[u8], blocks: usize) -> bool {
    object.len() <= HEADER + blocks * BESIDE_BLOCK + max_compressed_len(blocks * BLOCK)
}

/// Whether blocks in memory are decoded from a frame's bytes, and not a part of them.
pub fn is_decoded(object: &[u8]) -> bool {
    object[9] != RAW
}

/// Blocks of a frame in memory.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// Stored blocks.
    pub stored: Blocks,
    /// Those of them that are here, one after the other in `bytes`.
    held: Blocks,
    bytes: Bytes,
}

/// The number of blocks of a set before block `index`.
fn rank(blocks: Blocks, index: u8) -> usize {
    (blocks & ((1u16 << index) - 1) as u8).count_ones() as usize
}

impl Decoded {
    /// The bytes of `count` blocks from `index` on; `None` if one of them is not here.
    pub fn blocks(&self, index: u8, count: usize) -> Option<Bytes> {
        let mask = ((1u16 << count) - 1) << index;
        if count == 0 || mask & !u16::from(self.held) != 0 {
            return None;
        }
        let rank = rank(self.held, index);
        Some(self.bytes.slice(rank * BLOCK..(rank + count) * BLOCK))
    }

    /// Whether a block is here.
    pub fn has(&self, index: u8) -> bool {
        self.held >> index & 1 == 1
    }

    /// Whether these blocks are here, as far as they are stored.
    pub fn has_all(&self, blocks: Blocks) -> bool {
        blocks & self.stored & !self.held == 0
    }

    /// Whether all stored blocks are here.
    pub fn is_whole(&self) -> bool {
        self.has_all(cell::ALL)
    }

    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The blocks of both, which are of one frame. `newer` says what is stored. A block of a frame never changes.
    pub fn with(&self, newer: &Self) -> Self {
        // Cleaning may have left out dead blocks.
        let held = (self.held | newer.held) & newer.stored;
        if held == newer.held {
            return newer.clone();
        }
        if held == self.held {
            return Self { stored: newer.stored, ..self.clone() };
        }
        let mut bytes = Vec::with_capacity(held.count_ones() as usize * BLOCK);
        for index in indexes(held) {
            let from = if newer.has(index) { newer } else { self };
            let at = rank(from.held, index) * BLOCK;
            bytes.extend_from_slice(&from.bytes[at..at + BLOCK]);
        }
        Self { stored: newer.stored, held, bytes: bytes.into() }
    }
}

/// Decodes blocks of a frame, after verifying what it reads of it. Of a frame that has its blocks in one piece all are
/// decoded.
pub fn unpack(object: &Bytes, number: u64, wanted: Blocks) -> Result<Decoded, Malformed> {
    let (header, cells) = verify_front(object)?;
    if (header.kind, header.number) != (ObjectKind::Frame, number) || object.len() < header.front() {
        return Err(Malformed("frame: its kind or number differs"));
    }
    let (packed, whole) = (object.slice(header.front()..), header.stored.count_ones() as usize * BLOCK);
    let bytes = match header.packing {
        RAW => Some(packed),
        LZ4 => {
            let mut out = Vec::new();
            cell::append_lz4(&packed, whole, &mut out).map(|()| out.into())
        }
        ZSTD => {
            let decoded = ZSTD_OUT.with_borrow_mut(|zstd| zstd.decompress(&packed, whole));
            decoded.ok().map(Bytes::from)
        }
        CELLS => {
            let range = cells.range(wanted).unwrap_or_default();
            return unpack_cells(&packed.slice(range), number, &cells, wanted);
        }
        _ => return Err(Malformed("frame: unknown packing")),
    };
    let bytes = bytes.ok_or(Malformed("frame: it does not decompress"))?;
    if bytes.len() != whole {
        return Err(Malformed("frame: its length differs"));
    }
    Ok(Decoded { stored: header.stored, held: header.stored, bytes })
}

/// Decodes blocks of frame `number` from the bytes of their cells and of those between them, see [`Cells::range`], after
/// verifying them.
pub fn unpack_cells(bytes: &[u8], number: u64, cells: &Cells, wanted: Blocks) -> Result<Decoded, Malformed> {
    let bytes = cells.decode(number, wanted, bytes)?.into();
    Ok(Decoded { stored: cells.blocks(), held: wanted & cells.blocks(), bytes })
}

/// Bytes of a frame's object before its blocks.
fn front(stored: Blocks, has_cells: bool) -> usize {
    let listed = if has_cells { cell::LISTED } else { 0 };
    HEADER + stored.count_ones() as usize * (size_of::<Fingerprint>() + listed)
}

/// Bytes of the object of a frame with these cells.
pub fn len_of_cells(cells: &Cells) -> usize {
    front(cells.blocks(), true) + cells.len()
}

/// Where the cells of these blocks lie in the object of their frame: see [`Cells::range`].
pub fn range_of_cells(cells: &Cells, wanted: Blocks) -> Option<Range<usize>> {
    let front = front(cells.blocks(), true);
    cells.range(wanted).map(|range| front + range.start..front + range.end)
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

    fn pack(stored: u8, blocks: &[u8], fingerprints: &[Fingerprint], how: Method, has_cells: bool) -> Bytes {
        Packer::new(has_cells).pack(99, stored, blocks.chunks(BLOCK), fingerprints, how, true)
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
            for has_cells in [false, true] {
                let object = pack(0b1101, &blocks, &[[1; 16], [2; 16], [3; 16]], how, has_cells);
                assert_eq!(object.len() < blocks.len(), smaller);
                assert_eq!(is_compressed(&object, 3), smaller);
                let in_cells = has_cells && !(smaller && how != Lz4);
                assert_eq!(cells_of(&object).is_none(), !in_cells);
                let frame = unpack(&object, 99, cell::ALL).unwrap();
                assert!(frame.is_whole());
                assert_eq!(frame.blocks(0, 1).unwrap(), blocks[..BLOCK]);
                assert_eq!(frame.blocks(2, 2).unwrap(), blocks[BLOCK..]);
                assert!(frame.blocks(1, 1).is_none() && frame.blocks(0, 3).is_none());
                let header = verify(&object).unwrap();
                assert!(header.skipped);
                assert_eq!(fingerprints(&object, &header).unwrap(), [[1; 16], [2; 16], [3; 16]]);
                assert!(unpack(&object, 98, cell::ALL).is_err());
                let wanted = unpack(&object, 99, 0b110).unwrap();
                assert_eq!(wanted.is_whole(), !in_cells);
                assert!(wanted.has(2) && wanted.has_all(0b110) && !wanted.has(1));
                assert_eq!(wanted.blocks(2, 1).unwrap(), blocks[BLOCK..2 * BLOCK]);
            }
        }
    }

    #[test]
    fn cells_are_decoded_from_a_part_of_the_object() {
        let blocks = [vec![1; BLOCK], noise(BLOCK), vec![3; BLOCK]].concat();
        let object = pack(0b1_0110, &blocks, &[[1; 16]; 3], Method::Lz4, true);
        let cells = cells_of(&object);
        let range = range_of_cells(&cells, 0b1_0000).unwrap();
        assert_eq!((range.end, len_of_cells(&cells)), (object.len(), object.len()));
        let part = &object[range];
        assert!(part.len() < 100);
        let frame = unpack_cells(part, 99, &cells, 0b1_0000).unwrap();
        assert_eq!((frame.blocks(4, 1).unwrap(), frame.bytes()), (vec![3; BLOCK].into(), BLOCK));
        assert!(!frame.is_whole() && frame.has_all(0b1_1001));
    }

    #[test]
    fn blocks_that_were_decoded_apart_are_put_together() {
        let blocks = [vec![1; BLOCK], vec![2; BLOCK], vec![3; BLOCK]].concat();
        let object = pack(0b111, &blocks, &[[1; 16]; 3], Method::Lz4, true);
        let some = |wanted| unpack(&object, 99, wanted).unwrap();
        let both = some(0b100).with(&some(0b001));
        assert!(both.has(0) && !both.has(1) && both.has(2) && both.blocks(0, 3).is_none());
        assert_eq!(both.blocks(2, 1).unwrap(), vec![3; BLOCK]);
        assert_eq!(both.with(&some(0b010)).blocks(0, 3).unwrap(), blocks);
        assert_eq!(both.with(&some(0b001)).bytes(), 2 * BLOCK);
        assert_eq!(some(0b001).with(&some(0b011)).bytes(), 2 * BLOCK);
    }

    #[test]
    fn a_frame_loses_blocks_and_keeps_the_cells_of_the_others() {
        let blocks = [vec![1; BLOCK], noise(BLOCK), vec![3; BLOCK]].concat();
        let object = pack(0b111, &blocks, &[[1; 16], [2; 16], [3; 16]], Method::Lz4, true);
        let kept = keep_cells(&object, &verify(&object).unwrap(), 0b110).unwrap();
        let header = verify(&kept).unwrap();
        assert_eq!((header.stored, header.number, header.skipped), (0b110, 99, true));
        assert_eq!(fingerprints(&kept, &header).unwrap(), [[2; 16], [3; 16]]);
        assert_eq!(unpack(&kept, 99, cell::ALL).unwrap().blocks(1, 2).unwrap(), blocks[BLOCK..]);
        let whole = pack(0b111, &blocks, &[[1; 16]; 3], Method::Lz4, false);
        assert!(keep_cells(&whole, &verify(&whole).unwrap(), 0b110).is_none());
    }

    #[test]
    fn every_changed_byte_is_detected() {
        for has_cells in [false, true] {
            let mut object = pack(1, &[7; BLOCK], &[[1; 16]], Method::Lz4, has_cells).to_vec();
            for at in 0..object.len() {
                object[at] ^= 1;
                let changed = Bytes::from(object.clone());
                assert!(verify(&changed).is_err() && unpack(&changed, 99, cell::ALL).is_err(), "byte {at}");
                object[at] ^= 1;
            }
        }
    }
}
