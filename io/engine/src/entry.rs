//! Map entries: what a map says about one 4 KiB block, in eight bytes; and map pages, which hold 512 of them.

use crate::codec::{Malformed, Put, Take};

/// Bytes of a block: the unit of mapping, fingerprinting and reference counting.
pub const BLOCK: usize = 4096;

/// Entries of a map page.
pub const FAN: usize = 512;

/// Level of the root of the largest volume's map: 64 PiB.
pub const MAX_LEVEL: u8 = 4;

/// 4 KiB blocks that a map page of this level maps; a leaf has level 0.
pub fn blocks_under(level: u8) -> u64 {
    (FAN as u64).saturating_pow(u32::from(level) + 1)
}

/// A page of a journal batch: the batch's number and the page's index in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId {
    /// Number of the journal batch.
    pub batch: u64,
    /// Page of its body.
    pub page: u16,
}

impl SlotId {
    const PAGE_BITS: u32 = 16;

    fn from_bits(bits: u64) -> Self {
        Self { batch: bits >> Self::PAGE_BITS, page: bits as u16 }
    }

    fn bits(self) -> u64 {
        self.batch << Self::PAGE_BITS | u64::from(self.page)
    }

    /// The slot `n` pages after this one in the same batch.
    pub fn offset(self, n: usize) -> Self {
        Self { batch: self.batch, page: self.page + n as u16 }
    }
}

/// A block of a frame. Frames have up to [`BlockId::PER_FRAME`] blocks; frame numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId {
    /// Number of the frame.
    pub frame: u64,
    /// Block in the frame.
    pub index: u8,
}

impl BlockId {
    /// Blocks of the largest frame (32 KiB).
    pub const PER_FRAME: usize = 8;
    const INDEX_BITS: u32 = 3;

    /// Stands for a lost block: it is in no frame, has no references, and can't be read.
    pub const LOST: Self = Self { frame: (1 << 58) - 1, index: 7 };

    /// The block with these [`BlockId::bits`].
    pub fn from_bits(bits: u64) -> Self {
        Self { frame: bits >> Self::INDEX_BITS, index: (bits & 7) as u8 }
    }

    /// Frame and index in one number.
    pub fn bits(self) -> u64 {
        self.frame << Self::INDEX_BITS | u64::from(self.index)
    }
}

/// What an [`Entry`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never written, or unmapped: reads as zeros.
    Unmapped,
    /// Written with zeros: reads as zeros, and is mapped.
    Zero,
    /// In a journal batch, and in memory until it is flushed.
    Slot(SlotId),
    /// In a frame of the log. In an inner page: the map page with this number.
    Block(BlockId),
}

/// One entry of a map page: two bits of [`Kind`], 62 of value.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry(u64);

impl Entry {
    /// Never written.
    pub const UNMAPPED: Entry = Entry(0);
    /// Zeros.
    pub const ZERO: Entry = Entry(1 << Self::VALUE_BITS);
    const VALUE_BITS: u32 = 62;
    const VALUE: u64 = (1 << Self::VALUE_BITS) - 1;

    fn new(tag: u64, value: u64) -> Self {
        assert!(value <= Self::VALUE, "an entry holds 62 bits");
        Self(tag << Self::VALUE_BITS | value)
    }

    /// An entry for a slot.
    pub fn slot(slot: SlotId) -> Self {
        Self::new(2, slot.bits())
    }

    /// An entry for a block of a frame.
    pub fn block(block: BlockId) -> Self {
        Self::new(3, block.bits())
    }

    /// A block that is lost: reading it is an error, until it is written or unmapped.
    pub fn lost() -> Self {
        Self::block(BlockId::LOST)
    }

    /// An entry of an inner page for a map page.
    pub fn page(number: u64) -> Self {
        Self::new(3, number)
    }

    /// What it says.
    pub fn kind(self) -> Kind {
        match self.tag() {
            0 => Kind::Unmapped,
            1 => Kind::Zero,
            2 => Kind::Slot(SlotId::from_bits(self.value())),
            _ => Kind::Block(BlockId::from_bits(self.value())),
        }
    }

    /// The map page that an entry of an inner page names.
    pub fn as_page(self) -> Option<u64> {
        (self.tag() == 3).then_some(self.value())
    }

    /// Whether it is well-formed: only slots and blocks have a value.
    pub fn is_valid(self) -> bool {
        self.tag() >= 2 || self.value() == 0
    }

    /// Whether a host has written or allocated the block.
    pub fn is_mapped(self) -> bool {
        self.tag() != 0
    }

    /// Whether the block reads as zeros without being stored.
    pub fn is_hole(self) -> bool {
        self.tag() < 2
    }

    /// True for a slot.
    pub fn is_slot(self) -> bool {
        self.tag() == 2
    }

    fn tag(self) -> u64 {
        self.0 >> Self::VALUE_BITS
    }

    fn value(self) -> u64 {
        self.0 & Self::VALUE
    }

    /// Writes it as a fixed-length field.
    pub fn put(self, out: &mut Vec<u8>) {
        out.u64(self.0);
    }

    /// Reads what [`Entry::put`] wrote.
    pub fn take(take: &mut Take<'_>) -> Result<Self, Malformed> {
        take.u64().map(Self)
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.kind().fmt(f)
    }
}

/// A page of the map: a leaf's entries are blocks, an inner page's are pages one level down, or `Unmapped` or
/// `Zero` for everything below.
pub type Node = [Entry; FAN];

/// Writes a map page as runs. A run is a count with its tag and whether values go up by one, then the first value
/// as the difference to the end of the last run: sequential data costs a few bytes a page, random data about five
/// bytes an entry.
pub fn encode_node(node: &Node, out: &mut Vec<u8>) {
    let mut at = 0;
    let mut last = 0;
    while at < FAN {
        let first = node[at];
        let same = node[at..].iter().take_while(|entry| **entry == first).count();
        let rising = (0..FAN - at)
            .take_while(|n| {
                node[at + n].tag() == first.tag() && node[at + n].value() == first.value() + *n as u64
            })
            .count();
        let rises = rising > same;
        let count = same.max(rising);
        out.var((count as u64) << 3 | u64::from(rises) << 2 | first.tag());
        if !first.is_hole() {
            out.signed(first.value().wrapping_sub(last) as i64);
            last = first.value() + if rises { count as u64 } else { 0 };
        }
        at += count;
    }
}

/// Reads what [`encode_node`] wrote.
pub fn decode_node(bytes: &[u8]) -> Result<Node, Malformed> {
    let mut take = Take::new(bytes, "map page");
    let mut node = [Entry::UNMAPPED; FAN];
    let mut at = 0;
    let mut last = 0u64;
    while at < FAN {
        let head = take.var()?;
        let (count, rises, tag) = ((head >> 3) as usize, head >> 2 & 1, head & 3);
        take.check((1..=FAN - at).contains(&count))?;
        let mut value = 0;
        if tag >= 2 {
            value = last.wrapping_add(take.signed()? as u64);
            take.check(value <= Entry::VALUE && value + FAN as u64 <= Entry::VALUE)?;
            last = value + rises * count as u64;
        }
        for entry in &mut node[at..at + count] {
            *entry = Entry::new(tag, value);
            value += if tag >= 2 { rises } else { 0 };
        }
        at += count;
    }
    take.check(take.is_empty())?;
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(node: &Node) -> usize {
        let mut bytes = Vec::new();
        encode_node(node, &mut bytes);
        assert!(decode_node(&bytes).unwrap() == *node);
        bytes.len()
    }

    #[test]
    fn map_pages_come_back_and_are_small() {
        let mut node = [Entry::UNMAPPED; FAN];
        assert!(round_trip(&node) <= 3);
        for (n, entry) in node.iter_mut().enumerate() {
            *entry = Entry::block(BlockId { frame: 1000 + n as u64 / 8, index: (n % 8) as u8 });
        }
        assert!(round_trip(&node) <= 8);
        for (n, entry) in node.iter_mut().enumerate() {
            let scattered = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36;
            *entry = match n % 5 {
                0 => Entry::ZERO,
                1 => Entry::slot(SlotId { batch: scattered, page: n as u16 }),
                _ => Entry::block(BlockId { frame: scattered, index: 0 }),
            };
        }
        round_trip(&node);
    }

    #[test]
    fn a_torn_map_page_is_malformed() {
        let mut bytes = Vec::new();
        encode_node(&[Entry::ZERO; FAN], &mut bytes);
        assert!(decode_node(&bytes[..bytes.len() - 1]).is_err());
        bytes.push(0);
        assert!(decode_node(&bytes).is_err());
    }
}
