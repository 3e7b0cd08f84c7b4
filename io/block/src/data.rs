//! Payload data: a rope of reference-counted pieces, so that it passes through the layers without copies.

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

/// A payload made of one or more pieces in order. Cloning and slicing share the bytes.
#[derive(Clone, Default)]
pub struct Data {
    parts: SmallVec<[Bytes; 2]>,
    len: usize,
}

impl Data {
    /// An empty payload.
    pub fn new() -> Self {
        Self::default()
    }

    /// Length in bytes of all pieces together.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a piece at the end. Empty pieces are dropped.
    pub fn push(&mut self, part: Bytes) {
        if !part.is_empty() {
            self.len += part.len();
            self.parts.push(part);
        }
    }

    /// Adds another payload at the end.
    pub fn append(&mut self, other: Data) {
        self.len += other.len;
        self.parts.extend(other.parts);
    }

    /// The pieces in order; none is empty.
    pub fn parts(&self) -> impl Iterator<Item = &Bytes> {
        self.parts.iter()
    }

    /// The bytes `from..to`, shared with this payload.
    ///
    /// # Panics
    /// If `from > to` or `to > len()`: callers have checked lengths against the operation.
    pub fn slice(&self, from: usize, to: usize) -> Data {
        assert!(from <= to && to <= self.len, "slice {from}..{to} of {} bytes", self.len);
        let mut out = Data::new();
        let mut start = 0;
        for part in &self.parts {
            let end = start + part.len();
            if end > from && start < to {
                out.push(part.slice(from.saturating_sub(start)..part.len().min(to - start)));
            }
            start = end;
        }
        out
    }

    /// Keeps the first `len` bytes; does nothing if there are fewer.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            *self = self.slice(0, len);
        }
    }

    /// The whole payload in one piece; copies only if there is more than one.
    pub fn to_bytes(&self) -> Bytes {
        match self.parts.as_slice() {
            [] => Bytes::new(),
            [one] => one.clone(),
            many => {
                let mut out = BytesMut::with_capacity(self.len);
                many.iter().for_each(|part| out.extend_from_slice(part));
                out.freeze()
            }
        }
    }

    /// Copies the payload into `out`, which must be exactly as long.
    pub fn copy_to(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.len, "copy_to needs a buffer of the payload's length");
        let mut rest = out;
        for part in &self.parts {
            let (head, tail) = rest.split_at_mut(part.len());
            head.copy_from_slice(part);
            rest = tail;
        }
    }

    /// True if every byte is zero.
    pub fn is_zero(&self) -> bool {
        self.parts.iter().all(|part| is_zero(part))
    }

    /// Offset in bytes of the first difference to `other`; `None` if both are equal.
    /// A payload that is a prefix of the other differs at its end.
    pub fn first_difference(&self, other: &Data) -> Option<usize> {
        let (mut ours, mut theirs) = (self.parts(), other.parts());
        let (mut a, mut b): (&[u8], &[u8]) = (&[], &[]);
        let mut offset = 0;
        loop {
            if a.is_empty() {
                a = ours.next().map_or(&[], |part| part);
            }
            if b.is_empty() {
                b = theirs.next().map_or(&[], |part| part);
            }
            let common = a.len().min(b.len());
            if common == 0 {
                return (self.len != other.len).then_some(offset);
            }
            // Whole pieces are compared first, as equal ones are what is expected.
            if a[..common] != b[..common] {
                let unequal = a.iter().zip(b).position(|(x, y)| x != y);
                return unequal.map(|index| offset + index);
            }
            (a, b) = (&a[common..], &b[common..]);
            offset += common;
        }
    }
}

/// True if every byte is zero. Scans in wide words with an early exit.
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(128).all(|chunk| chunk.iter().fold(0, |acc, byte| acc | byte) == 0)
}

impl From<Bytes> for Data {
    fn from(part: Bytes) -> Self {
        let mut data = Data::new();
        data.push(part);
        data
    }
}

impl From<Vec<u8>> for Data {
    fn from(part: Vec<u8>) -> Self {
        Bytes::from(part).into()
    }
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Data({} bytes in {} parts)", self.len, self.parts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rope(parts: &[&'static [u8]]) -> Data {
        let mut data = Data::new();
        parts.iter().for_each(|part| data.push(Bytes::from_static(part)));
        data
    }

    #[test]
    fn slices_cross_pieces() {
        let data = rope(&[b"abc", b"", b"defg", b"h"]);
        assert_eq!(data.len(), 8);
        assert_eq!(&data.slice(2, 8).to_bytes()[..], b"cdefgh");
        assert_eq!(&data.slice(3, 3).to_bytes()[..], b"");
        assert_eq!(data.slice(3, 7).parts().count(), 1);
    }

    #[test]
    fn first_difference_crosses_piece_boundaries() {
        assert_eq!(rope(&[b"abc", b"def"]).first_difference(&rope(&[b"abcd", b"xf"])), Some(4));
        assert_eq!(rope(&[b"ab"]).first_difference(&rope(&[b"a", b"b"])), None);
        assert_eq!(rope(&[b"ab"]).first_difference(&rope(&[b"abc"])), Some(2));
        assert_eq!(rope(&[b"abc", b"d"]).first_difference(&rope(&[b"ab"])), Some(2));
        assert_eq!(rope(&[]).first_difference(&rope(&[b"a"])), Some(0));
        assert_eq!(rope(&[]).first_difference(&rope(&[])), None);
    }

    #[test]
    fn zero_scan_finds_the_last_byte() {
        let mut bytes = vec![0; 4097];
        assert!(Data::from(bytes.clone()).is_zero());
        bytes[4096] = 1;
        assert!(!Data::from(bytes).is_zero());
    }
}
