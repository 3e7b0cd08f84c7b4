use crate::drive_shelf::tests::{call, now};
use crate::{AlignedBuf, Drive, DriveShelf, FormatOptions, MemDrive, SegmentId, Shelf};
use std::sync::Arc;

/// A pseudo-random number from the one before.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn bits_that_rot_on_two_drives_are_all_found_and_repaired() {
    let mem: Vec<_> = (0..6).map(|index| MemDrive::new(format!("mem{index}"), 16 << 20)).collect();
    let drives = mem.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect();
    let options = FormatOptions { array: 7, ..FormatOptions::default() };
    let shelf = now(DriveShelf::format(drives, options)).unwrap();
    let (layout, mut state) = (shelf.layout(), 1);
    let segments = layout.segments / 3;
    for segment in 0..segments {
        let mut bytes = AlignedBuf::zeroed(layout.segment_bytes as usize);
        bytes.chunks_mut(8).for_each(|word| word.fill(next(&mut state) as u8));
        call(|done| shelf.write(SegmentId(segment), 0, Arc::new(bytes), done)).unwrap();
    }
    call(|done| shelf.sync(done)).unwrap();
    let granules = shelf.plan.granules_at() as usize;
    let before: Vec<_> = mem.iter().map(|drive| drive.with(|bytes| bytes[granules..].to_vec())).collect();
    let mut flipped = 0;
    for drive in &mem[1..3] {
        drive.with(|bytes| {
            let written =
                bytes[granules..].chunks_exact_mut(4096).filter(|page| page.iter().any(|byte| *byte != 0));
            // The last page is the second label.
            for page in written.filter(|page| !page.starts_with(b"ASHLABEL")) {
                if next(&mut state).is_multiple_of(100) {
                    page[next(&mut state) as usize % 4096] ^= 1 << (next(&mut state) % 8);
                    flipped += 1;
                }
            }
        });
    }
    assert!(flipped > 10, "{flipped}");
    // One of them takes much longer than the others, which is no reason to leave it as it is.
    shelf.member(1).unwrap().set_slow(true, true);
    let report = now(shelf.scrub());
    assert_eq!((report.errors, report.repaired, report.lost), (flipped, flipped, 0), "{report:?}");
    assert_eq!(u64::from(segments), report.segments);
    let bad: u64 = shelf.status().drives.iter().map(|drive| drive.bad_pages).sum();
    assert_eq!(bad, flipped);
    for (drive, before) in mem.iter().zip(before) {
        assert!(drive.with(|bytes| bytes[granules..] == before[..]), "{} is as it was", drive.name());
    }
    assert_eq!(now(shelf.scrub()).errors, 0);
}
