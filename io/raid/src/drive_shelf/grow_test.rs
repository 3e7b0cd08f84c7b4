use super::*;
use crate::DriveContents;
use crate::drive_shelf::tests::{call, now, put};
use crate::{AlignedBuf, FormatOptions, MemDrive, Opening, SegmentId, Shelf};

fn mem(name: &str) -> Arc<MemDrive> {
    MemDrive::new(name, 16 << 20)
}

fn open(mem: &[Arc<MemDrive>]) -> Result<Arc<DriveShelf>> {
    let drives = mem.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect();
    now(DriveShelf::open(drives, Opening::default()))
}

fn make(mem: &[Arc<MemDrive>], segments: u32) -> Arc<DriveShelf> {
    let drives = mem.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect();
    let shelf =
        now(DriveShelf::format(drives, FormatOptions { array: 7, ..FormatOptions::default() })).unwrap();
    put(&shelf, 1, b"root").unwrap();
    (0..segments).for_each(|segment| write(&shelf, segment));
    call(|done| shelf.sync(done)).unwrap();
    shelf
}

fn content(shelf: &DriveShelf, segment: u32) -> AlignedBuf {
    let mut stripes = AlignedBuf::zeroed(shelf.layout().segment_bytes as usize);
    stripes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7 + segment as usize) as u8);
    stripes
}

fn write(shelf: &DriveShelf, segment: u32) {
    let stripes = Arc::new(content(shelf, segment));
    call(|done| shelf.write(SegmentId(segment), 0, stripes, done)).unwrap();
}

fn check(shelf: &DriveShelf, segments: u32) {
    for segment in 0..segments {
        let expected = content(shelf, segment);
        let read = call(|done| shelf.read(SegmentId(segment), 0, expected.len() as u32, done)).unwrap();
        assert!(read[..] == expected[..], "segment {segment}");
    }
}

/// What takes a drive of these tests back into its array.
fn own() -> Consent {
    Consent { arrays: vec![7], ..Consent::default() }
}

fn wipe(drive: &MemDrive) {
    drive.with(|bytes| bytes.fill(0));
}

#[test]
fn a_new_drive_gives_space_at_once_and_is_a_member_like_every_other() {
    let mut drives: Vec<_> = (0..4).map(|index| mem(&format!("mem{index}"))).collect();
    let shelf = make(&drives, 6);
    let before = shelf.layout();
    drives.push(mem("mem4"));
    assert_eq!(now(shelf.add_drive(drives[4].clone(), &Consent::default())), Ok(4));
    let after = shelf.layout();
    assert!(after.segments > before.segments && after.segment_bytes == before.segment_bytes);
    (6..after.segments.min(40)).for_each(|segment| write(&shelf, segment));
    call(|done| shelf.sync(done)).unwrap();
    let status = shelf.status();
    assert!(status.drives[4].used_bytes > 0 && status.tolerates == 2, "{status:?}");
    drop(shelf);
    wipe(&drives[0]);
    wipe(&drives[4]);
    let shelf = open(&drives).unwrap();
    assert_eq!(shelf.layout().segments, after.segments);
    check(&shelf, after.segments.min(40));
}

#[test]
fn a_drive_that_failed_is_replaced_by_a_new_one() {
    let mut drives: Vec<_> = (0..4).map(|index| mem(&format!("mem{index}"))).collect();
    drop(make(&drives, 20));
    wipe(&drives[1]);
    let shelf = open(&drives).unwrap();
    call(|done| shelf.recover(crate::JournalPos(1), done)).unwrap();
    assert_eq!((shelf.status().tolerates, shelf.status().degraded_segments), (1, 20));
    let blank = mem("new");
    let foreign = mem("foreign");
    drop(make(std::slice::from_ref(&foreign), 0));
    assert!(
        now(shelf.add_drive(foreign, &Consent::default()))
            .unwrap_err()
            .to_string()
            .contains("belongs to array")
    );
    now(shelf.add_drive(blank.clone(), &Consent::default())).unwrap();
    now(shelf.settle());
    let status = shelf.status();
    assert_eq!((status.tolerates, status.degraded_segments, status.drives.len()), (2, 0, 4), "{status:?}");
    check(&shelf, 20);
    drop(shelf);
    drives[1] = blank;
    wipe(&drives[2]);
    wipe(&drives[3]);
    check(&open(&drives).unwrap(), 20);
}

#[test]
fn a_drive_is_evacuated_and_can_be_removed() {
    let drives: Vec<_> = (0..5).map(|index| mem(&format!("mem{index}"))).collect();
    let shelf = make(&drives, 10);
    now(shelf.evacuate(0, 2)).unwrap();
    now(shelf.settle());
    let status = shelf.status();
    assert!(status.drives.iter().all(|drive| drive.slot != 0), "{status:?}");
    assert_eq!((status.tolerates, status.degraded_segments), (2, 0));
    assert!(now(shelf.evacuate(0, 2)).is_err());
    check(&shelf, 10);
    drop(shelf);
    assert_eq!(now(DriveShelf::contents(&*drives[0])), Ok(DriveContents::Blank));
    wipe(&drives[3]);
    let shelf = open(&drives).unwrap();
    assert!(shelf.status().former_drives.is_empty());
    check(&shelf, 10);
}

#[test]
fn an_evacuation_that_costs_protection_needs_consent_even_while_others_are_under_way() {
    let drives: Vec<_> = (0..5).map(|index| mem(&format!("mem{index}"))).collect();
    let shelf = make(&drives, 4);
    let reduced = |shelf: &DriveShelf| {
        shelf.status().drives.iter().filter_map(|it| Some((it.slot, it.reduces_to?))).collect::<Vec<_>>()
    };
    assert_eq!((shelf.failures_to_tolerate(), reduced(&shelf)), (2, vec![]));
    // Nothing has been placed elsewhere yet: those that leave are counted as gone.
    now(shelf.evacuate(0, shelf.min_tolerates_after_evacuation())).unwrap();
    now(shelf.evacuate(1, shelf.min_tolerates_after_evacuation())).unwrap();
    assert_eq!(reduced(&shelf), [(2, 1), (3, 1), (4, 1)]);
    let refused = now(shelf.evacuate(2, shelf.min_tolerates_after_evacuation())).unwrap_err().to_string();
    assert!(refused.contains("1 drives could fail"), "{refused}");
    now(shelf.settle());
    assert_eq!((shelf.status().drives.len(), shelf.status().tolerates), (3, 2));
    assert!(
        now(shelf.evacuate(2, shelf.min_tolerates_after_evacuation())).is_err(),
        "nor when they have gone"
    );
    now(shelf.evacuate(2, 0)).unwrap();
    now(shelf.settle());
    let status = shelf.status();
    assert_eq!((status.drives.len(), status.tolerates, status.failures_to_tolerate), (2, 1, 2));
    // Each step is one more.
    assert_eq!(reduced(&shelf), [(3, 0), (4, 0)]);
    assert!(now(shelf.evacuate(3, shelf.min_tolerates_after_evacuation())).is_err());
    drop(shelf);
    let shelf = open(&drives).unwrap();
    call(|done| shelf.recover(crate::JournalPos(1), done)).unwrap();
    assert_eq!(
        (shelf.failures_to_tolerate(), reduced(&shelf)),
        (2, vec![(3, 0), (4, 0)]),
        "the labels have it"
    );
    now(shelf.evacuate(3, 0)).unwrap();
    now(shelf.settle());
    assert!(now(shelf.evacuate(4, 0)).unwrap_err().to_string().contains("no room"), "the last one stays");
    check(&shelf, 4);
}

#[test]
fn a_drive_that_failed_counts_when_another_is_to_leave() {
    let drives: Vec<_> = (0..4).map(|index| mem(&format!("mem{index}"))).collect();
    drop(make(&drives, 4));
    let shelf = open(&drives[1..]).unwrap();
    call(|done| shelf.recover(crate::JournalPos(1), done)).unwrap();
    assert!(
        now(shelf.evacuate(1, shelf.min_tolerates_after_evacuation())).is_err(),
        "three are there, and three are needed"
    );
    now(shelf.settle());
    assert!(now(shelf.evacuate(1, shelf.min_tolerates_after_evacuation())).is_err());
    now(shelf.add_drive(mem("new"), &Consent::default())).unwrap();
    now(shelf.evacuate(1, shelf.min_tolerates_after_evacuation())).unwrap();
}

#[test]
fn an_array_promises_what_it_reaches() {
    let drives: Vec<_> = (0..3).map(|index| mem(&format!("mem{index}"))).collect();
    let shelf = make(&drives[..1], 4);
    let mut failures_to_tolerate = vec![shelf.failures_to_tolerate()];
    for drive in &drives[1..] {
        now(shelf.add_drive(drive.clone(), &Consent::default())).unwrap();
        failures_to_tolerate.push(shelf.failures_to_tolerate());
        now(shelf.settle());
        failures_to_tolerate.push(shelf.failures_to_tolerate());
    }
    assert_eq!(failures_to_tolerate, [0, 0, 1, 1, 2]);
    drop(shelf);
    assert_eq!(open(&drives).unwrap().failures_to_tolerate(), 2);
}

#[test]
fn an_evacuation_that_would_leave_less_parity_for_want_of_room_is_refused() {
    let drives: Vec<_> = (0..4).map(|index| mem(&format!("mem{index}"))).collect();
    let shelf = make(&drives, 0);
    let count = shelf.layout().segments * 11 / 20;
    (0..count).for_each(|segment| write(&shelf, segment));
    call(|done| shelf.sync(done)).unwrap();
    // The three others have room for it with one parity column, not with two.
    let refused = now(shelf.evacuate(0, shelf.min_tolerates_after_evacuation())).unwrap_err().to_string();
    assert!(refused.contains("no room"), "{refused}");
    let kept = count / 2;
    (kept..count).for_each(|segment| shelf.discard(SegmentId(segment)));
    now(shelf.evacuate(0, shelf.min_tolerates_after_evacuation())).unwrap();
    now(shelf.settle());
    let status = shelf.status();
    assert_eq!((status.drives.len(), status.tolerates, status.degraded_segments), (3, 2, 0), "{status:?}");
    check(&shelf, kept);
}

#[test]
fn a_drive_that_was_replaced_while_it_was_away_is_named() {
    let drives: Vec<_> = (0..5).map(|index| mem(&format!("mem{index}"))).collect();
    drop(make(&drives, 10));
    let shelf = open(&drives[1..]).unwrap();
    call(|done| shelf.recover(crate::JournalPos(1), done)).unwrap();
    now(shelf.settle());
    assert_eq!(shelf.status().drives.len(), 4, "its slot is free");
    drop(shelf);
    let shelf = open(&drives).unwrap();
    call(|done| shelf.recover(crate::JournalPos(1), done)).unwrap();
    assert_eq!(shelf.status().former_drives, ["mem0"]);
    check(&shelf, 10);
    now(shelf.add_drive(drives[0].clone(), &own())).unwrap();
    assert!(shelf.status().former_drives.is_empty(), "{:?}", shelf.status());
}

#[test]
fn a_drive_added_beside_one_that_is_out_brings_no_more_than_there_will_be_room_for() {
    let drives: Vec<_> = (0..7).map(|index| mem(&format!("mem{index}"))).collect();
    let shelf = make(&drives[..6], 10);
    let six = shelf.layout().segments;
    drop(shelf);
    let shelf = open(&drives[1..6]).unwrap();
    call(|done| shelf.recover(crate::JournalPos(1), done)).unwrap();
    now(shelf.add_drive(drives[6].clone(), &Consent::default())).unwrap();
    assert!(shelf.layout().segments <= six, "{} where six drives have {six}", shelf.layout().segments);
}

#[test]
fn a_drive_whose_contents_have_no_room_elsewhere_stays() {
    let drives: Vec<_> = (0..4).map(|index| mem(&format!("mem{index}"))).collect();
    let shelf = make(&drives, 0);
    let count = shelf.layout().segments;
    (0..count).for_each(|segment| write(&shelf, segment));
    call(|done| shelf.sync(done)).unwrap();
    assert!(now(shelf.evacuate(2, 2)).unwrap_err().to_string().contains("no room"));
    now(shelf.settle());
    check(&shelf, count);
}

#[test]
fn an_evacuation_that_is_taken_back_leaves_a_drive_like_every_other() {
    let drives: Vec<_> = (0..5).map(|index| mem(&format!("mem{index}"))).collect();
    let shelf = make(&drives, 10);
    assert!(now(shelf.cancel_evacuation(1)).unwrap_err().to_string().contains("not being evacuated"));
    let before = shelf.status();
    now(shelf.evacuate(1, 2)).unwrap();
    assert!(shelf.status().degraded_segments > 0);
    now(shelf.cancel_evacuation(1)).unwrap();
    now(shelf.settle());
    assert_eq!(shelf.status().degraded_segments, 0);
    assert_eq!(shelf.status().drives[1].used_bytes, before.drives[1].used_bytes);
    (10..40).for_each(|segment| write(&shelf, segment));
    call(|done| shelf.sync(done)).unwrap();
    assert!(shelf.status().drives[1].used_bytes > before.drives[1].used_bytes);
    drop(shelf);
    wipe(&drives[0]);
    check(&open(&drives).unwrap(), 40);
}

#[test]
fn a_scrub_tells_where_it_is_and_can_be_ended() {
    let drives: Vec<_> = (0..4).map(|index| mem(&format!("mem{index}"))).collect();
    let shelf = make(&drives, 6);
    let mut steps = Vec::new();
    let half = now(shelf.scrub_from(0, |segment, report| {
        steps.push((segment, report.segments));
        segment < 3
    }));
    assert_eq!(steps, [(0, 0), (1, 1), (2, 2), (3, 3)]);
    assert_eq!((half.segments, now(shelf.scrub_from(3, |_, _| true)).segments), (3, 3));
}

#[test]
fn what_found_no_room_is_placed_elsewhere_when_there_is_some() {
    let drives: Vec<_> = (0..5).map(|index| mem(&format!("mem{index}"))).collect();
    let shelf = make(&drives, 0);
    let count = shelf.layout().segments - 2;
    (0..count).for_each(|segment| write(&shelf, segment));
    call(|done| shelf.sync(done)).unwrap();
    drop(shelf);
    wipe(&drives[1]);
    let shelf = open(&drives).unwrap();
    call(|done| shelf.recover(crate::JournalPos(1), done)).unwrap();
    now(shelf.settle());
    assert!(shelf.status().degraded_segments > 0, "four drives have no room for what five were full of");
    let kept = count / 4;
    (kept..count).for_each(|segment| shelf.discard(SegmentId(segment)));
    now(shelf.settle());
    let status = shelf.status();
    assert_eq!((status.degraded_segments, status.tolerates), (0, 2), "{status:?}");
    check(&shelf, kept);
}

#[test]
fn rebuilding_leaves_room_for_whoever_writes_the_segments() {
    let drives: Vec<_> = (0..8).map(|index| mem(&format!("mem{index}"))).collect();
    drop(make(&drives, 60));
    for drive in &drives[..4] {
        wipe(drive);
        let shelf = open(&drives).unwrap();
        call(|done| shelf.recover(crate::JournalPos(1), done)).unwrap();
        now(shelf.settle());
        assert!(shelf.room().any >= 8, "{:?} and {:?}", shelf.room(), shelf.status());
        now(shelf.add_drive(drive.clone(), &Consent::default())).unwrap();
        now(shelf.settle());
        assert!(shelf.room().any >= 8, "{:?} and {:?}", shelf.room(), shelf.status());
    }
    check(&open(&drives).unwrap(), 60);
}

/// The parts of the drives: what segments store, parity, and the rest, which is never negative.
fn parts(shelf: &DriveShelf) -> (u64, u64, u64) {
    let status = shelf.status();
    let raw: u64 = status.drives.iter().filter(|it| it.state != DriveState::Failed).map(|it| it.bytes).sum();
    let stored = u64::from(status.total_segments) * u64::from(shelf.layout().segment_bytes);
    let parity = status.parity_bytes.expect("there are drives");
    let rest = raw.checked_sub(stored + parity);
    (stored, parity, rest.unwrap_or_else(|| panic!("{stored} and {parity} of {raw} bytes: {status:?}")))
}

#[test]
fn total_segments_and_parity_follow_the_drives() {
    let drives: Vec<_> = (0..6).map(|index| MemDrive::new(format!("mem{index}"), 64 << 20)).collect();
    let shelf = make(&drives, 20);
    let (six, ..) = parts(&shelf);
    now(shelf.evacuate(5, 2)).unwrap();
    now(shelf.settle());
    let (stored, parity, rest) = parts(&shelf);
    assert!(stored < six * 4 / 5, "{stored} bytes on five drives, {six} on six");
    // Three columns of payload and two of parity: two fifths of the raw capacity without labels, journal and what is not whole.
    assert!(
        (stored * 62 / 100..stored * 72 / 100).contains(&parity),
        "{parity} bytes of parity for {stored}"
    );
    assert!(rest < 5 * (64 << 20) / 8, "{rest}");
    now(shelf.add_drive(MemDrive::new("new", 64 << 20), &Consent::default())).unwrap();
    now(shelf.settle());
    let (again, ..) = parts(&shelf);
    assert!((six * 9 / 10..=six).contains(&again), "{again} where six drives had {six}");
}

#[test]
fn parts_add_up_whatever_drives_come_and_go() {
    for seed in 1..=8u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut below = move |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % end
        };
        let mut size = |index: u64| MemDrive::new(format!("mem{index}"), (16 + below(5) * 12) << 20);
        let drives: Vec<_> = (0..4).map(&mut size).collect();
        let shelf = make(&drives, 8);
        parts(&shelf);
        for step in 0..12 {
            let online: Vec<_> = shelf.status().drives.iter().map(|it| it.slot).collect();
            let choice = size(100 + step);
            if choice.bytes() > 40 << 20 || online.len() < 4 {
                now(shelf.add_drive(choice, &Consent::default())).unwrap();
            } else {
                // Refused if there is no room for what it holds.
                let slot = online[(choice.bytes() >> 22) as usize % online.len()];
                let _ = now(shelf.evacuate(slot, 2));
                parts(&shelf);
            }
            now(shelf.settle());
            let (stored, parity, _) = parts(&shelf);
            assert!(stored > 0 && parity > 0, "seed {seed}, step {step}");
            check(&shelf, 8);
        }
    }
}
