use super::*;
use crate::codec::Take;

/// Noise, which does not compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..BLOCK).map(|_| next()).collect()
}

/// Cells of frame 77 for these blocks: noise for odd ones, text for even ones.
fn made(blocks: Blocks) -> (Cells, Vec<u8>) {
    let (mut cells, mut bytes) = (Cells::NONE, Vec::new());
    for index in indexes(blocks) {
        let block = block(index);
        let lz4 = if index > 3 { Lz4::of(&block) } else { Lz4::Untried };
        cells.push(BlockId { frame: 77, index }, &block, &lz4, true, &mut bytes);
    }
    (cells, bytes)
}

fn block(index: u8) -> Vec<u8> {
    match index % 2 {
        1 => noise(index.into()),
        _ => format!("text of block {index}; ").into_bytes().into_iter().cycle().take(BLOCK).collect(),
    }
}

#[test]
fn any_blocks_are_decoded_from_the_bytes_of_their_range_alone() {
    for stored in 1..=ALL {
        let (cells, bytes) = made(stored);
        assert_eq!((cells.blocks(), cells.len()), (stored, bytes.len()));
        for wanted in [1 << (stored % 8), stored, ALL, 0b0101_0101, 0b1100] {
            let Some(range) = cells.range(wanted) else {
                assert_eq!(wanted & stored, 0);
                continue;
            };
            let decoded = cells.decode(77, wanted, &bytes[range]).unwrap();
            let expected: Vec<u8> = indexes(wanted & stored).flat_map(block).collect();
            assert_eq!(decoded, expected, "{wanted:#b} of {stored:#b}");
        }
    }
}

#[test]
fn a_block_that_compresses_takes_less_and_another_one_is_kept_as_it_is() {
    let (cells, _) = made(0b11);
    assert!(cells.range(0b01).unwrap().len() < 200);
    assert_eq!(cells.range(0b10).unwrap().len(), CHECKSUM + BLOCK);
}

#[test]
fn every_changed_byte_and_every_other_name_is_detected() {
    let (cells, mut bytes) = made(0b101);
    for at in 0..bytes.len() {
        bytes[at] ^= 1;
        assert!(cells.decode(77, ALL, &bytes).is_err() && cells.verify(77, &bytes).is_err(), "byte {at}");
        bytes[at] ^= 1;
    }
    assert!(cells.decode(76, ALL, &bytes).is_err() && cells.decode(78, 1, &bytes).is_err());
    assert!(cells.decode(77, ALL, &bytes[..bytes.len() - 1]).is_err(), "cut off");
    // The cell of one block in the place of another one.
    let (first, last) = (cells.range(0b1).unwrap(), cells.range(0b100).unwrap());
    let mut moved = Cells::NONE;
    moved.0[1] = cells.0[0];
    assert!(moved.decode(77, 0b10, &bytes[first.clone()]).is_err());
    assert!(cells.decode(77, 0b1, &bytes[first]).is_ok() && cells.decode(77, 0b100, &bytes[last]).is_ok());
}

#[test]
fn cells_that_are_kept_are_copied_as_they_are() {
    let (cells, bytes) = made(0b1101_1011);
    let (kept, mut copied) = (cells.only(0b1001_0010), Vec::new());
    cells.copy(0b1001_0010, &bytes, &mut copied);
    assert_eq!((kept.blocks(), kept.len()), (0b1001_0010, copied.len()));
    let expected: Vec<u8> = indexes(0b1001_0010).flat_map(block).collect();
    assert_eq!(kept.decode(77, ALL, &copied).unwrap(), expected);
}

#[test]
fn lz4_data_of_another_length_or_malformed_is_refused() {
    let packed = lz4::block::compress(&[7; BLOCK], None, false).unwrap();
    let decoded = |packed: &[u8], len| append_lz4(packed, len, &mut vec![1]);
    assert!(decoded(&packed, BLOCK).is_some());
    assert!(decoded(&packed, BLOCK - 1).is_none() && decoded(&packed, BLOCK + 1).is_none());
    assert!(decoded(&packed[..packed.len() / 2], BLOCK).is_none());
    // A match before the first byte of the output.
    assert!(decoded(&[0x14, b'a', 9, 0, 0x10, b'b'], 6).is_none());
}

#[test]
fn a_list_of_cells_that_do_not_exist_is_refused() {
    let read = |listed: &[u16]| {
        let mut listed = listed.iter().copied();
        Cells::read(0b11, || listed.next().ok_or(Take::new(&[], "list").malformed()))
    };
    assert!(read(&[0x0fff, 0x1123]).is_ok());
    // Raw cells are whole blocks; compressed ones save a sixteenth; there are no other encodings.
    for wrong in [0, 0x0ffe, 0x1fff, 0x1f00, 0x2123, 0xffff] {
        assert!(read(&[0x0fff, wrong]).is_err(), "{wrong:#x}");
    }
    assert!(read(&[0x0fff]).is_err());
}
