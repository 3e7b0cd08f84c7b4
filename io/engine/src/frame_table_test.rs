use super::*;

fn frame(offset: u32, len: u32, refs: &[u64]) -> Frame {
    let stored = (1u16 << refs.len()) as u8;
    let stored = if refs.len() == 8 { 0xff } else { stored - 1 };
    Frame {
        location: Location { segment: 1, offset, len },
        stored,
        cells: Cells::NONE,
        deep: stored == 1,
        refs: refs.into(),
    }
}

#[test]
fn shares_add_up_to_the_length() {
    for stored in 1..=255u8 {
        let frame = Frame {
            location: Location { segment: 0, offset: 0, len: 12347 },
            stored,
            cells: Cells::NONE,
            deep: false,
            refs: [1; 8].into_iter().collect(),
        };
        let sum: u64 = (0..8).filter(|index| stored >> index & 1 == 1).map(|index| frame.share(index)).sum();
        assert_eq!(sum, 12347);
    }
}

#[test]
fn a_frame_lives_until_its_last_block_is_dropped() {
    let (mut table, mut usage) = (FrameTable { next: 64, ..FrameTable::default() }, Usage::new(2));
    table.insert(0, frame(0, 1001, &[1, 2]), &mut usage).unwrap();
    assert_eq!((usage.physical, usage.unique_blocks), (1001, 2));
    let block = |index| BlockId { frame: 0, index };
    table.refer(block(1), -1, &mut usage);
    table.refer(block(0), -1, &mut usage);
    assert_eq!((usage.physical, usage.unique_blocks), (501, 1));
    table.refer(block(1), -1, &mut usage);
    assert_eq!(usage, Usage::new(2));
    assert_eq!(table.get(0), Ok(None));
    assert_eq!(table.pages.len(), 0, "an empty page goes");
}

#[test]
fn references_to_a_page_in_the_log_are_noted_until_it_is_read() {
    let (mut table, mut usage) = (FrameTable { next: 640, ..FrameTable::default() }, Usage::new(2));
    table.insert(5, frame(0, 100, &[3]), &mut usage).unwrap();
    table.pages.freeze();
    let page = (*table.pages.thaw(0).unwrap()).clone();
    table.pages.evict(0);
    table.pages.evict(0);
    assert_eq!(table.get(5), Err(Absent(0)));
    let block = BlockId { frame: 5, index: 0 };
    for change in [-1, -1, 2, -1, -1] {
        table.refer(block, change, &mut usage);
    }
    assert_eq!(usage.unique_blocks, 1);
    table.load(0, page, &mut usage);
    assert_eq!(table.get(5).unwrap().unwrap().refs(0), 1);
    assert_eq!(table.deferred(), 0);
}

#[test]
fn table_pages_come_back() {
    let mut page = TablePage::default();
    *page.slot(3) = Some(frame(70, 4144, &[MAX_REFS]));
    *page.slot(63) = Some(frame(10, 32_000, &[1, 0, 3, 4, 5, 6, 7, 8]));
    *page.slot(5) = Some(in_cells(&[2, 1]));
    let mut bytes = Vec::new();
    page.encode(&mut bytes);
    let again = TablePage::decode(&bytes).unwrap();
    assert!(again.iter().eq(page.iter()));
    assert!(TablePage::decode(&bytes[..bytes.len() - 1]).is_err());
}

/// A frame of raw cells.
fn in_cells(refs: &[u64]) -> Frame {
    let stored = frame(0, 0, refs).stored;
    let cells = Cells::read(stored, || Ok(0x0fff)).unwrap();
    let len = frame::len_of_cells(&cells) as u32;
    Frame { cells, ..frame(10, len, refs) }
}

#[test]
fn cells_of_another_length_than_their_frame_are_refused() {
    let decoded = |frame: Frame| {
        let (mut page, mut bytes) = (TablePage::default(), Vec::new());
        *page.slot(0) = Some(frame);
        page.encode(&mut bytes);
        TablePage::decode(&bytes)
    };
    let mut one = in_cells(&[1, 1]);
    assert!(decoded(one.clone()).is_ok());
    one.location.len += 1;
    assert!(decoded(one).is_err());
}
