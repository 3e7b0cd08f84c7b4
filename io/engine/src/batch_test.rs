use super::*;
use crate::entry::SlotId;
use crate::record::Mutation;
use shelf::JournalPos;

/// Pages of a change and what LZ4 made of them: by `kind` of each, noise, text, or text that was not tried.
fn pages(kinds: &[u8]) -> (Bytes, Vec<Lz4>) {
    let mut state = 5u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let block = |(n, kind): (usize, &u8)| -> Vec<u8> {
        let word = format!("block {n} {}; ", "x".repeat(7 * n % 40));
        let len = if *kind == 0 { 0 } else { 1 + n * 997 % 3000 };
        word.into_bytes()
            .into_iter()
            .cycle()
            .take(len)
            .chain(std::iter::repeat_with(&mut next))
            .take(BLOCK)
            .collect()
    };
    let bytes: Vec<u8> = kinds.iter().enumerate().flat_map(block).collect();
    let lz4 = kinds.iter().zip(bytes.chunks(BLOCK));
    let lz4 = lz4.map(|(kind, block)| if *kind == 2 { Lz4::Untried } else { Lz4::of(block) }).collect();
    (bytes.into(), lz4)
}

fn records() -> Record {
    let first = SlotId { batch: 7, page: 0 };
    [Mutation::Slots { volume: 3, block: 1 << 30, count: 1, first }].into_iter().collect()
}

/// What a store with headers of 128 bytes takes for a batch.
fn cost(head: usize, body: usize) -> u64 {
    ((128 + head).next_multiple_of(BLOCK) + body) as u64
}

fn batch(pages: &Bytes, lz4: &[Lz4], pieces: usize) -> (Batch, u64) {
    let mut open = Gathering::new(7);
    open.push(pages, lz4, 0..pages.len() / BLOCK);
    record::encode(&records(), 7, &mut open.head);
    let (bytes, _) = open.place(cost);
    let bound = open.len_with(Size::default(), 0);
    let (head, body) = open.finish(pieces, &BufferPool::new(1));
    assert!(body.len() <= pieces);
    assert!(body.iter().all(|piece| piece.as_ptr().addr().is_multiple_of(BLOCK)
        || piece.as_ptr() == pages.as_ptr()
        || piece.len().is_multiple_of(BLOCK)));
    let batch = Batch { pos: JournalPos(7), head, body: body.concat().into() };
    assert_eq!(cost(batch.head.len(), batch.body.len()), bytes);
    assert!(batch.head.len() + batch.body.len() <= bound);
    (batch, bytes)
}

/// A block that LZ4 halves.
fn half() -> (Bytes, Vec<Lz4>) {
    let (noise, _) = pages(&[0]);
    let page = Bytes::from([&noise[..BLOCK / 2], &[7; BLOCK / 2]].concat());
    let lz4 = vec![Lz4::of(&page)];
    assert!((2048..2200).contains(&lz4[0].len()));
    (page, lz4)
}

#[test]
fn a_lone_block_that_compresses_takes_one_page_with_its_record() {
    let (page, lz4) = half();
    let (one, bytes) = batch(&page, &lz4, 9);
    assert_eq!((bytes, one.body.len()), (4096, 0));
    assert_eq!(batch(&page, &[], 9).1, 8192, "raw as before");
    let eight: Vec<Lz4> = std::iter::repeat_n(lz4[0].clone(), 8).collect();
    assert_eq!(batch(&page.repeat(8).into(), &eight, 9).1, 6 * 4096, "half of eight and the head");
}

#[test]
fn blocks_and_records_come_back_raw_or_from_cells() {
    for seed in 0..200u64 {
        let mut mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let kinds: Vec<u8> = (0..seed % 20)
            .map(|_| {
                mixed = mixed.rotate_left(7).wrapping_mul(5);
                (mixed >> 32) as u8 % 3
            })
            .collect();
        let (pages, lz4) = pages(&kinds);
        let (batch, _) = batch(&pages, &lz4, 1 + seed as usize % 5);
        assert_eq!(open(&batch.head, 7, batch.body.len()).unwrap(), [records()]);
        let blocks = Blocks::of(&batch);
        assert_eq!(blocks.len(), kinds.len());
        for (n, (page, lz4)) in pages.chunks(BLOCK).zip(&lz4).enumerate() {
            let found = blocks.get(n).unwrap();
            assert_eq!((found.page, found.lz4.len()), (Bytes::copy_from_slice(page), lz4.len()), "block {n}");
        }
        assert!(blocks.get(kinds.len()).is_none());
        let is_plain = lz4.iter().all(|lz4| lz4.len() == 0);
        assert_eq!(batch.head.starts_with(b"ALJ1"), is_plain, "an earlier build reads it");
    }
}

#[test]
fn a_changed_byte_another_batch_or_another_length_is_malformed() {
    let (pages, lz4) = pages(&[1, 0, 1]);
    for lz4 in [&lz4[..], &[]] {
        let (batch, _) = batch(&pages, lz4, 9);
        let (mut head, body) = (batch.head.to_vec(), batch.body.len());
        assert!(open(&head, 7, body).is_ok());
        assert!(open(&head, 8, body).is_err() && open(&head, 7, body + BLOCK).is_err());
        for at in 0..head.len() {
            head[at] ^= 0x40;
            assert!(open(&head, 7, body).is_err());
            head[at] ^= 0x40;
        }
    }
}

#[test]
fn a_list_that_does_not_fit_is_malformed_and_a_wrong_cell_is_no_block() {
    let (page, lz4) = half();
    let (one, _) = batch(&page, &lz4, 9);
    let Layout { records, listed, .. } = layout(&one.head, 7, 0).unwrap();
    for wrong in [0x0fff, 0x2000 | 2047, 0x1fff, 0x1000, lz4[0].listed() - 1] {
        let head = sealed_again(&one.head, 7, records, &u16::to_le_bytes(wrong));
        assert!(open(&head, 7, 0).is_err(), "{wrong:#x}");
        assert_eq!(Blocks::of(&Batch { head: head.into(), ..one.clone() }).len(), 0);
    }
    let right = sealed_again(&one.head, 7, records, listed);
    assert_eq!(right, one.head);
    // The batch is right, the cell is not: its checksum, and data that LZ4 does not decode.
    let Lz4::Cell(cell) = &lz4[0] else { panic!("it compresses") };
    let undecodable = [&checksum(&cell[5..]).to_le_bytes(), &cell[5..], &[]].concat();
    for wrong in [[&[cell[0] ^ 1], &cell[1..]].concat(), undecodable] {
        let lz4 = [Lz4::Cell(wrong.into())];
        let (one, _) = batch(&page, &lz4, 9);
        assert!(open(&one.head, 7, 0).is_ok());
        let blocks = Blocks::of(&one);
        assert_eq!((blocks.len(), blocks.get(0).is_some()), (1, false));
    }
}
