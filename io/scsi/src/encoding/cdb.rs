//! A command descriptor block (CDB), read with checked access: bytes beyond its end are zero.

use block::Extent;
use bytes::Bytes;

/// A CDB as received.
#[derive(Clone, Debug)]
pub(crate) struct Cdb(Bytes);

/// Where a CDB carries its logical block address and its number of logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// READ(6), WRITE(6): 21-bit address, one byte of length where zero means 256.
    Six,
    /// 32-bit address at 2, 16-bit length at 7.
    Ten,
    /// 32-bit address at 2, 32-bit length at 6.
    Twelve,
    /// 64-bit address at 2, 32-bit length at 10.
    Sixteen,
    /// COMPARE AND WRITE: 64-bit address at 2, one byte of length at 13.
    Compare,
    /// WRITE ATOMIC(16): 64-bit address at 2, 16-bit length at 12.
    Atomic,
}

impl Cdb {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn u8(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    pub(crate) fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.array(at))
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.array(at))
    }

    /// True when any of the bits `mask` of byte `at` is set.
    pub(crate) fn bit(&self, at: usize, mask: u8) -> bool {
        self.u8(at) & mask != 0
    }

    /// An unsigned field of `bytes` bytes at `at`.
    pub(crate) fn field(&self, at: usize, bytes: usize) -> u64 {
        (at..at + bytes).fold(0, |value, index| value << 8 | u64::from(self.u8(index)))
    }

    /// The run of logical blocks that the command is about.
    pub(crate) fn extent(&self, span: Span) -> Extent {
        match span {
            Span::Six => {
                let blocks = u64::from(self.u8(4));
                Extent::new(self.field(1, 3) & 0x1F_FFFF, if blocks == 0 { 256 } else { blocks })
            }
            Span::Ten => Extent::new(self.u32(2).into(), self.u16(7).into()),
            Span::Twelve => Extent::new(self.u32(2).into(), self.u32(6).into()),
            Span::Sixteen => Extent::new(self.u64(2), self.u32(10).into()),
            Span::Compare => Extent::new(self.u64(2), self.u8(13).into()),
            Span::Atomic => Extent::new(self.u64(2), self.u16(12).into()),
        }
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        match self.0.get(at..at + N).and_then(|bytes| bytes.try_into().ok()) {
            Some(bytes) => bytes,
            None => std::array::from_fn(|index| self.u8(at + index)),
        }
    }
}

/// A parameter list from outside, read with checked access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'a>(pub(crate) &'a [u8]);

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn u8(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    pub(crate) fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(std::array::from_fn(|index| self.u8(at.saturating_add(index))))
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(std::array::from_fn(|index| self.u8(at.saturating_add(index))))
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        u64::from_be_bytes(std::array::from_fn(|index| self.u8(at.saturating_add(index))))
    }

    /// The bytes `at..at + len`, when they are all there.
    pub(crate) fn sub(&self, at: usize, len: usize) -> Option<List<'a>> {
        self.0.get(at..at.checked_add(len)?).map(List)
    }
}
