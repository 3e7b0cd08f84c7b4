//! Change builder: assembles a change of whole blocks. Zero blocks become holes, and adjacent blocks one mutation.

use crate::change::{Change, Cover, Expected, MAX_CHANGE_PAGES};
use crate::entry::{BLOCK, SlotId};
use crate::record::{Mutation, Record};
use crate::span::Span;
use block::{Data, is_zero};
use bytes::BytesMut;
use smallvec::SmallVec;
use std::cell::RefCell;

/// A change under construction.
pub struct ChangeBuilder {
    mutations: Record,
    pages: BytesMut,
    /// Blocks that must not have changed when the change is made.
    pub expected: Expected,
    /// Ranges that volumes must have.
    pub covers: SmallVec<[Cover; 1]>,
}

/// Memory that the pages of small changes are cut from, one after the other. Pages that go to the journal together
/// then lie together, and no write has to clear or align memory of its own.
const ARENA_BYTES: usize = 256 << 10;

thread_local! {
    static ARENA: RefCell<BytesMut> = RefCell::default();
}

/// Memory for a number of pages, aligned to 4096 bytes.
fn room(pages: usize) -> BytesMut {
    let bytes = pages * BLOCK;
    let fresh = |bytes: usize| {
        let mut memory = BytesMut::with_capacity(bytes + BLOCK);
        let border = memory.as_ptr().align_offset(BLOCK);
        memory.split_off(border)
    };
    if bytes > ARENA_BYTES / 4 {
        return fresh(bytes);
    }
    ARENA.with_borrow_mut(|rest| {
        if rest.capacity() < bytes {
            *rest = fresh(ARENA_BYTES);
        }
        let left = rest.split_off(bytes);
        std::mem::replace(rest, left)
    })
}

impl ChangeBuilder {
    /// An empty change with room for `pages` pages.
    pub fn new(pages: usize) -> Self {
        Self {
            mutations: Record::new(),
            pages: if pages == 0 { BytesMut::new() } else { room(pages.min(MAX_CHANGE_PAGES + 1)) },
            expected: Expected::new(),
            covers: SmallVec::new(),
        }
    }

    /// An empty change that writes a span of a volume, with room for `pages` pages.
    pub fn of(volume: u32, span: Span, pages: usize) -> Self {
        let mut builder = Self::new(pages);
        builder.writes(volume, span);
        builder
    }

    /// Notes that a span of a volume is written.
    pub fn writes(&mut self, volume: u32, span: Span) {
        self.covers.push(Cover { volume, span, written: true });
    }

    /// Writes one whole block.
    pub fn block(&mut self, volume: u32, block: u64, bytes: &[u8]) {
        if is_zero(bytes) {
            return self.hole(volume, block, 1, true);
        }
        let page = self.page(bytes);
        if let Some(Mutation::Slots { volume: last, block: from, count, first }) = self.mutations.last_mut()
            && *last == volume
            && *from + u64::from(*count) == block
            && u32::from(first.page) + *count == u32::from(page)
        {
            *count += 1;
            return;
        }
        self.mutations.push(Mutation::Slots { volume, block, count: 1, first: SlotId { batch: 0, page } });
    }

    fn page(&mut self, bytes: &[u8]) -> u16 {
        let at = self.pages.len();
        assert!(at + bytes.len() <= self.pages.capacity(), "the change was made with room for its pages");
        self.pages.extend_from_slice(bytes);
        (at / BLOCK) as u16
    }

    /// Writes blocks of zeros, or unmaps.
    pub fn hole(&mut self, volume: u32, block: u64, count: u64, mapped: bool) {
        if let Some(Mutation::Hole { volume: last, block: from, count: before, mapped: same }) =
            self.mutations.last_mut()
            && *last == volume
            && *from + *before == block
            && *same == mapped
        {
            *before += count;
        } else if count > 0 {
            self.mutations.push(Mutation::Hole { volume, block, count, mapped });
        }
    }

    /// Writes the same bytes to several blocks.
    pub fn same(&mut self, volume: u32, block: u64, count: u64, bytes: &[u8]) {
        if count == 0 || is_zero(bytes) {
            return self.hole(volume, block, count, true);
        }
        let page = self.page(bytes);
        self.mutations.push(Mutation::Same { volume, block, count, slot: SlotId { batch: 0, page } });
    }

    /// Adds any other mutation.
    pub fn mutation(&mut self, mutation: Mutation) {
        self.mutations.push(mutation);
    }

    /// Ends the construction.
    pub fn finish(self) -> Change {
        Change {
            mutations: self.mutations,
            pages: self.pages.freeze(),
            expected: self.expected,
            covers: self.covers,
            ..Change::default()
        }
    }
}

/// Calls `each` for every whole block of `data` from byte `from` up to `to`, in order. Only a block that lies across
/// two pieces is copied.
pub fn each_block(data: &Data, from: usize, to: usize, mut each: impl FnMut(&[u8])) {
    let mut straddling = [0; BLOCK];
    let mut gathered = 0;
    let mut start = 0;
    for part in data.parts() {
        let (low, high) = (from.max(start), to.min(start + part.len()));
        let mut rest = if low < high { &part[low - start..high - start] } else { &[][..] };
        start += part.len();
        if gathered > 0 {
            let more = rest.len().min(BLOCK - gathered);
            straddling[gathered..gathered + more].copy_from_slice(&rest[..more]);
            (gathered, rest) = (gathered + more, &rest[more..]);
            if gathered < BLOCK {
                continue;
            }
            each(&straddling);
        }
        let whole = rest.chunks_exact(BLOCK);
        gathered = whole.remainder().len();
        straddling[..gathered].copy_from_slice(whole.remainder());
        whole.for_each(&mut each);
    }
    assert!(gathered == 0, "whole blocks");
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn blocks_are_found_across_pieces() {
        let bytes: Vec<u8> = (0..5 * BLOCK).map(|n| (n / 7) as u8).collect();
        for cut in [1, 100, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5] {
            let mut data = Data::new();
            bytes.chunks(cut).for_each(|part| data.push(Bytes::copy_from_slice(part)));
            let mut seen = Vec::new();
            each_block(&data, 512, 512 + 4 * BLOCK, |block| seen.extend_from_slice(block));
            assert_eq!(seen, &bytes[512..512 + 4 * BLOCK]);
        }
    }

    #[test]
    fn pages_of_one_thread_lie_on_borders_and_apart() {
        let pages = |count: u64| {
            let mut builder = ChangeBuilder::new(count as usize);
            (0..count).for_each(|block| builder.block(1, block, &[count as u8; BLOCK]));
            builder.finish().pages
        };
        let all: Vec<_> =
            [1, 3, 70, 2, 16, 17, 1].into_iter().cycle().take(60).map(|n| (n, pages(n))).collect();
        for (count, bytes) in all {
            assert!(bytes.as_ptr().addr().is_multiple_of(BLOCK) && bytes.len() == count as usize * BLOCK);
            assert!(bytes.iter().all(|byte| u64::from(*byte) == count));
        }
    }

    #[test]
    fn neighbours_are_joined_and_zeros_take_no_page() {
        let mut builder = ChangeBuilder::new(9);
        let (data, zeros) = ([1; BLOCK], [0; BLOCK]);
        for (block, bytes) in [(5, &data), (6, &data), (7, &zeros), (8, &zeros), (9, &data)] {
            builder.block(1, block, bytes);
        }
        let change = builder.finish();
        let first = |page| SlotId { batch: 0, page };
        assert_eq!(
            change.mutations.as_slice(),
            [
                Mutation::Slots { volume: 1, block: 5, count: 2, first: first(0) },
                Mutation::Hole { volume: 1, block: 7, count: 2, mapped: true },
                Mutation::Slots { volume: 1, block: 9, count: 1, first: first(2) },
            ]
        );
        assert_eq!(change.pages.len(), 3 * BLOCK);
        assert!(change.pages.as_ptr().addr().is_multiple_of(BLOCK));
    }
}
