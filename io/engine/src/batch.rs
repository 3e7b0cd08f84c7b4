//! Journal batches: a head with records, and the blocks that these name, raw or as cells. A block that compresses takes
//! less of every copy of the journal as its cell, and a flush finds the work done.
//!
//! Raw blocks are pages at the front of the body, so that they go to the device without a copy. The cells follow them
//! byte by byte, in the body or, where that takes fewer pages, at the end of the head.

use crate::cell::{self, Contents, Lz4};
use crate::codec::{Malformed, Put, Take};
use crate::entry::BLOCK;
use crate::record::{self, Record, checksum};
use bytes::Bytes;
use shelf::{Batch, BufferPool};
use smallvec::SmallVec;
use std::ops::{Add, Range};

/// Bytes of the fixed front of a batch's head.
pub const FRONT: usize = 24;

/// All blocks are raw.
const RAW: u32 = u32::from_le_bytes(*b"ALJ1");
/// A list says which blocks are raw, from format [`crate::CELL_VERSION`] on.
const CELLS: u32 = u32::from_le_bytes(*b"ALJ2");

/// Bytes of cells that may be in the head without raw blocks in the body. A store spreads longer bodies over more drives
/// than have a copy of the head.
const HEAD_CELLS_MAX_BYTES: usize = 4 * BLOCK;

/// What LZ4 made of a page of a change.
pub fn made(lz4: &[Lz4], page: usize) -> &Lz4 {
    lz4.get(page).unwrap_or(&Lz4::Untried)
}

/// What blocks take of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    /// Number of them.
    pub blocks: usize,
    raw: usize,
    /// Bytes of cells.
    cells: usize,
}

impl Size {
    /// The size of a block.
    pub fn of(lz4: &Lz4) -> Self {
        Self { blocks: 1, raw: usize::from(lz4.len() == 0), cells: lz4.len() }
    }
}

impl Add for Size {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self { blocks: self.blocks + more.blocks, raw: self.raw + more.raw, cells: self.cells + more.cells }
    }
}

/// A batch that records and blocks are added to.
pub struct Gathering {
    /// Its number.
    pub number: u64,
    /// The front, which is filled in at the end, and the records.
    pub head: Vec<u8>,
    size: Size,
    raw: Vec<Bytes>,
    cells: Vec<Bytes>,
    listed: Vec<u8>,
    cells_in_head: bool,
}

impl Gathering {
    /// An empty batch.
    pub fn new(number: u64) -> Self {
        Self {
            number,
            head: vec![0; FRONT],
            size: Size::default(),
            raw: Vec::new(),
            cells: Vec::new(),
            listed: Vec::new(),
            cells_in_head: false,
        }
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.head.len() == FRONT && self.size.blocks == 0
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.size.blocks
    }

    /// Bytes of head and body with these blocks and a record more, at most.
    pub fn len_with(&self, more: Size, record: usize) -> usize {
        let size = self.size + more;
        let head = self.head.len() + record + size.blocks * cell::LISTED + 512;
        head.next_multiple_of(BLOCK) + size.raw * BLOCK + size.cells.next_multiple_of(BLOCK)
    }

    /// Adds pages of a change.
    pub fn push(&mut self, pages: &Bytes, lz4: &[Lz4], range: Range<usize>) {
        let mut raw: SmallVec<[usize; 32]> = SmallVec::new();
        for page in range {
            let lz4 = made(lz4, page);
            self.size = self.size + Size::of(lz4);
            self.listed.extend_from_slice(&lz4.listed().to_le_bytes());
            match lz4 {
                Lz4::Cell(cell) => self.cells.push(cell.clone()),
                _ => raw.push(page),
            }
        }
        for run in raw.chunk_by(|page, next| page + 1 == *next) {
            self.raw.push(pages.slice(run[0] * BLOCK..(run[0] + run.len()) * BLOCK));
        }
    }

    /// Decides where the cells go by what head and body cost in the journal. Returns that cost, and the cost if all blocks
    /// were raw.
    pub fn place(&mut self, cost: impl Fn(usize, usize) -> u64) -> (u64, u64) {
        let Size { raw, cells, .. } = self.size;
        let head = self.lens().0;
        let is_free = cost(head + cells, raw * BLOCK) == cost(head, raw * BLOCK);
        self.cells_in_head = is_free || raw == 0 && cells < HEAD_CELLS_MAX_BYTES;
        let (head, body) = self.lens();
        (cost(head, body), cost(head, self.size.blocks * BLOCK))
    }

    /// Bytes of head and body.
    fn lens(&self) -> (usize, usize) {
        let Size { blocks, raw, cells } = self.size;
        let listed = if cells > 0 { blocks * cell::LISTED } else { 0 };
        let (in_head, in_body) = if self.cells_in_head { (cells, 0) } else { (0, cells) };
        (self.head.len() + listed + in_head, raw * BLOCK + in_body.next_multiple_of(BLOCK))
    }

    /// The head, and the body in `pieces` pieces at most.
    pub fn finish(mut self, pieces: usize, buffers: &BufferPool) -> (Bytes, Vec<Bytes>) {
        let (head, body) = self.lens();
        let mut loose = Vec::new();
        if self.raw.len() >= pieces {
            loose.append(&mut self.raw);
        }
        if self.size.cells > 0 {
            self.head.reserve_exact(head - self.head.len());
            self.head.extend_from_slice(&self.listed);
            match self.cells_in_head {
                true => self.cells.iter().for_each(|cell| self.head.extend_from_slice(cell)),
                false => loose.append(&mut self.cells),
            }
        }
        if !loose.is_empty() {
            let placed: usize = self.raw.iter().map(Bytes::len).sum();
            let mut piece = buffers.take(body - placed);
            let mut at = 0;
            for bytes in loose {
                piece[at..at + bytes.len()].copy_from_slice(&bytes);
                at += bytes.len();
            }
            piece[at..].fill(0);
            self.raw.push(buffers.share(piece));
        }
        let in_head = if self.cells_in_head { self.size.cells } else { 0 };
        let magic = if self.size.cells > 0 { CELLS } else { RAW };
        seal(&mut self.head, magic, self.number, [self.size.blocks, in_head]);
        (self.head.into(), self.raw)
    }
}

fn seal(head: &mut [u8], magic: u32, batch: u64, [blocks, in_head]: [usize; 2]) {
    let mut front = Vec::with_capacity(FRONT);
    front.u32(magic);
    front.u32(0);
    front.u64(batch);
    front.u32(blocks as u32);
    front.u32(in_head as u32);
    head[..FRONT].copy_from_slice(&front);
    let sum = checksum(&head[8..]);
    head[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// A head of any bytes that has a list of blocks, with number and checksum right: for tests of decoders.
pub fn resealed(bytes: &[u8], batch: u64) -> Bytes {
    let mut head = bytes.to_vec();
    head.resize(head.len().max(FRONT), 0);
    let [blocks, in_head] = [head[16] % 16, head[20]].map(usize::from);
    seal(&mut head, CELLS, batch, [blocks, in_head]);
    head.into()
}

/// A head with another number, records and list of blocks, as long as before: for tests of inconsistent media.
pub fn sealed_again(head: &[u8], batch: u64, records: &[u8], listed: &[u8]) -> Vec<u8> {
    let mut take = Take::new(head, "journal batch");
    let [magic, _, _, _, blocks, in_head] = [(); 6].map(|()| take.u32().unwrap_or(0));
    let cells = &head[head.len().saturating_sub(in_head as usize)..];
    let mut again = [&[0; FRONT], records, listed, cells].concat();
    seal(&mut again, magic, batch, [blocks as usize, in_head as usize]);
    again
}

/// Where a block of a batch is.
#[derive(Clone, Debug)]
struct Place {
    is_cell: bool,
    in_head: bool,
    range: Range<usize>,
}

/// The head of a batch, and where the blocks are in head and body.
pub struct Layout<'a> {
    /// The records, encoded.
    pub records: &'a [u8],
    /// The list of blocks.
    pub listed: &'a [u8],
    places: Vec<Place>,
}

/// Reads a head.
pub fn layout(head: &[u8], batch: u64, body: usize) -> Result<Layout<'_>, Malformed> {
    let mut take = Take::new(head, "journal batch");
    take.check(head.len() >= FRONT)?;
    let magic = take.u32()?;
    let sum = take.u32()?;
    take.check(sum == checksum(&head[8..]))?;
    let number = take.u64()?;
    take.check(number == batch)?;
    let (blocks, in_head) = (take.u32()? as usize, take.u32()? as usize);
    if magic == RAW {
        take.check(body == blocks * BLOCK)?;
        let place = |n| Place { is_cell: false, in_head: false, range: n * BLOCK..(n + 1) * BLOCK };
        return Ok(Layout { records: &head[FRONT..], listed: &[], places: (0..blocks).map(place).collect() });
    }
    take.check(magic == CELLS)?;
    let from = head.len().checked_sub(blocks * cell::LISTED + in_head).filter(|from| *from >= FRONT);
    let from = from.ok_or(take.malformed())?;
    let (records, listed) = (&head[FRONT..from], &head[from..head.len() - in_head]);
    let lens = listed.chunks_exact(cell::LISTED).map(|two| u16::from_le_bytes([two[0], two[1]]));
    let lens: Vec<Option<usize>> = lens.map(cell::listed_len).collect::<Result<_, _>>()?;
    let raw = lens.iter().filter(|len| len.is_none()).count() * BLOCK;
    let cells: usize = lens.iter().flatten().sum();
    take.check(cells > 0 && (in_head == 0 || in_head == cells))?;
    take.check(body == if in_head > 0 { raw } else { raw + cells.next_multiple_of(BLOCK) })?;
    let (mut raw_at, mut cell_at) = (0, if in_head > 0 { head.len() - in_head } else { raw });
    let mut places = Vec::with_capacity(blocks);
    for len in lens {
        let at = if len.is_some() { &mut cell_at } else { &mut raw_at };
        let range = *at..*at + len.unwrap_or(BLOCK);
        *at = range.end;
        places.push(Place { is_cell: len.is_some(), in_head: len.is_some() && in_head > 0, range });
    }
    Ok(Layout { records, listed, places })
}

/// Reads the records of a batch from its head.
pub fn open(head: &[u8], batch: u64, body: usize) -> Result<Vec<Record>, Malformed> {
    let mut take = Take::new(layout(head, batch, body)?.records, "journal batch");
    let mut records = Vec::new();
    while !take.is_empty() {
        records.push(record::decode(&mut take, batch)?);
    }
    Ok(records)
}

/// The blocks of a batch that recovery found.
#[derive(Debug, Default)]
pub struct Blocks {
    head: Bytes,
    body: Bytes,
    places: Vec<Place>,
}

impl Blocks {
    /// The blocks of a batch; none if its head is not one.
    pub fn of(batch: &Batch) -> Self {
        let places = layout(&batch.head, batch.pos.0, batch.body.len());
        let places = places.map(|layout| layout.places).unwrap_or_default();
        Self { head: batch.head.clone(), body: batch.body.clone(), places }
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes of the head.
    pub fn head_len(&self) -> usize {
        self.head.len()
    }

    /// A block; `None` if there is none, or its cell is wrong.
    pub fn get(&self, page: usize) -> Option<Contents> {
        let Place { is_cell, in_head, range } = self.places.get(page)?.clone();
        let bytes = if in_head { self.head.slice(range) } else { self.body.slice(range) };
        if !is_cell {
            return Some(Contents { page: bytes, lz4: Lz4::Untried });
        }
        let page = cell::decode(&bytes).ok()?.into();
        Some(Contents { page, lz4: Lz4::Cell(bytes) })
    }
}

#[cfg(test)]
#[path = "batch_test.rs"]
mod tests;
