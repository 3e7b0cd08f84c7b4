//! Builder of the standard's data structures: fields at fixed offsets, little-endian, zero by default.

/// A data structure of a fixed length.
pub(crate) struct Structure(Vec<u8>);

impl Structure {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    pub(crate) fn u8(self, at: usize, value: u8) -> Self {
        self.bytes(at, &[value])
    }

    pub(crate) fn u16(self, at: usize, value: u16) -> Self {
        self.bytes(at, &value.to_le_bytes())
    }

    pub(crate) fn u32(self, at: usize, value: u32) -> Self {
        self.bytes(at, &value.to_le_bytes())
    }

    pub(crate) fn u64(self, at: usize, value: u64) -> Self {
        self.bytes(at, &value.to_le_bytes())
    }

    pub(crate) fn u128(self, at: usize, value: u128) -> Self {
        self.bytes(at, &value.to_le_bytes())
    }

    /// Raw bytes.
    pub(crate) fn bytes(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// ASCII text, cut to `length` and padded with spaces (Base 1.5.2).
    pub(crate) fn text(self, at: usize, length: usize, text: &str) -> Self {
        let printable = |byte: u8| if byte.is_ascii_graphic() { byte } else { b' ' };
        let mut padded: Vec<u8> = text.bytes().map(printable).take(length).collect();
        padded.resize(length, b' ');
        self.bytes(at, &padded)
    }

    /// Text that ends with a zero, in a field of `length` bytes.
    pub(crate) fn terminated(self, at: usize, length: usize, text: &str) -> Self {
        let text = &text.as_bytes()[..text.len().min(length - 1)];
        self.bytes(at, text)
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.0
    }
}

/// A list of 32-bit numbers in a structure of `bytes` bytes; numbers that do not fit are omitted.
pub(crate) fn list_of_u32(numbers: impl Iterator<Item = u32>, bytes: usize) -> Vec<u8> {
    let mut out: Vec<u8> = numbers.take(bytes / 4).flat_map(u32::to_le_bytes).collect();
    out.resize(bytes, 0);
    out
}
