use super::*;
use crate::codec::crc32c;
use crate::journal::Header;
use crate::label::LabelPage;
use crate::{ALIGN, Consent, MemDrive};
use rig::drive::{Intercepted, Request};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const MIB: u64 = 1 << 20;

/// Runs a future that never has to wait: drives in memory answer at once.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a drive in memory does not let anybody wait"),
    }
}

pub(super) fn call<T: Send + 'static>(start: impl FnOnce(Done<T>)) -> Result<T> {
    let (done, outcome) = wait();
    start(done);
    now(outcome)
}

pub(super) fn mem(count: usize) -> Vec<Arc<MemDrive>> {
    (0..count).map(|index| MemDrive::new(format!("mem{index}"), 16 * MIB)).collect()
}

pub(super) fn drives(mem: &[Arc<MemDrive>]) -> Vec<Arc<dyn Drive>> {
    mem.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect()
}

pub(super) fn format(mem: &[Arc<MemDrive>]) -> Arc<DriveShelf> {
    now(DriveShelf::format(drives(mem), FormatOptions { array: 7, ..FormatOptions::default() })).unwrap()
}

pub(super) fn open(mem: &[Arc<MemDrive>]) -> Result<Arc<DriveShelf>> {
    now(DriveShelf::open(drives(mem), Opening::default()))
}

pub(super) fn why<T>(outcome: Result<T>) -> String {
    outcome.err().expect("it fails").to_string()
}

/// A page of body filled with `byte`.
pub(super) fn page(byte: u8) -> Bytes {
    let mut page = AlignedBuf::zeroed(ALIGN);
    page.fill(byte);
    Arc::new(page).share(0..ALIGN)
}

fn append(shelf: &DriveShelf, head: &'static str, body: &[u8]) -> Result<JournalPos> {
    let body = body.iter().map(|byte| page(*byte)).collect();
    call(|done| shelf.append(Bytes::from_static(head.as_bytes()), body, done))
}

pub(super) fn recover(shelf: &DriveShelf) -> Result<Vec<(u64, String, Vec<u8>)>> {
    let from = shelf.superblock().map_or(JournalPos(1), |superblock| superblock.journal_from);
    let batches = call(|done| shelf.recover(from, done))?;
    let show = |batch: Batch| {
        let bytes = batch.body.chunks(ALIGN).map(|page| page[0]).collect();
        (batch.pos.0, String::from_utf8(batch.head.to_vec()).unwrap(), bytes)
    };
    Ok(batches.into_iter().map(show).collect())
}

pub(super) fn heads(shelf: &DriveShelf) -> Result<String> {
    Ok(recover(shelf)?.into_iter().map(|(_, head, _)| head).collect::<Vec<_>>().join(" "))
}

pub(super) fn put(shelf: &DriveShelf, from: u64, payload: &'static [u8]) -> Result {
    let superblock = Superblock { journal_from: JournalPos(from), payload: Bytes::from_static(payload) };
    call(|done| shelf.write_superblock(superblock, done))
}

/// Where the journal record at `address` lies on a drive.
pub(super) fn on_drive(shelf: &DriveShelf, address: u64) -> usize {
    (shelf.plan.journal_at() + address % shelf.plan.journal_bytes) as usize
}

#[test]
fn batches_come_back_in_order_with_their_bytes() {
    let mem = mem(2);
    let shelf = format(&mem);
    assert_eq!(append(&shelf, "a", &[1, 2]), Ok(JournalPos(1)));
    assert_eq!(append(&shelf, "b", &[]), Ok(JournalPos(2)));
    drop(shelf);
    let shelf = open(&mem).unwrap();
    let expected = vec![(1, "a".to_owned(), vec![1, 2]), (2, "b".to_owned(), vec![])];
    assert_eq!(recover(&shelf).unwrap(), expected);
    assert_eq!(append(&shelf, "c", &[3]), Ok(JournalPos(3)));
    assert_eq!(heads(&open(&mem).unwrap()).unwrap(), "a b c");
}

#[test]
fn nothing_is_appended_before_recovery() {
    let mem = mem(1);
    format(&mem);
    assert!(why(append(&open(&mem).unwrap(), "a", &[])).contains("recovered first"));
}

#[test]
fn a_full_journal_takes_batches_again_after_a_trim_and_goes_round_its_ring() {
    let mem = mem(1);
    let shelf = format(&mem);
    let mut last = JournalPos(0);
    for round in 0..5 {
        loop {
            match append(&shelf, "x", &[round, 1, 2]) {
                Ok(pos) => last = pos,
                Err(Error::JournalFull) => break,
                Err(other) => panic!("{other}"),
            }
        }
        put(&shelf, last.0, b"root").unwrap();
    }
    append(&shelf, "last", &[9]).unwrap();
    let shelf = open(&mem).unwrap();
    assert_eq!(
        recover(&shelf).unwrap().iter().map(|batch| batch.0).collect::<Vec<_>>(),
        [last.0, last.0 + 1]
    );
}

#[test]
fn openings_of_a_full_journal_use_up_nothing() {
    let mem = mem(1);
    let shelf = format(&mem);
    let mut count = 0;
    while append(&shelf, "x", &[1, 2, 3]).is_ok() {
        count += 1;
    }
    for _ in 0..5 {
        assert_eq!(recover(&open(&mem).unwrap()).unwrap().len(), count);
    }
}

#[test]
fn a_batch_torn_on_one_copy_is_taken_from_another_and_healed() {
    let mem = mem(3);
    let shelf = format(&mem);
    append(&shelf, "a", &[1]).unwrap();
    append(&shelf, "b", &[2]).unwrap();
    for (drive, byte) in mem.iter().zip([0, ALIGN, 2 * ALIGN]) {
        let at = on_drive(&shelf, byte as u64);
        drive.with(|memory| memory[at] ^= 1);
    }
    assert_eq!(heads(&open(&mem).unwrap()).unwrap(), "a b");
    for lost in [0, 1] {
        let at = on_drive(&shelf, 0);
        mem[lost].with(|memory| memory[at..at + 4 * ALIGN].fill(0));
    }
    assert_eq!(heads(&open(&mem).unwrap()).unwrap(), "a b", "the third copy alone is whole again");
}

#[test]
fn an_acknowledged_batch_that_no_copy_has_is_an_error_not_the_end() {
    let mem = mem(1);
    let shelf = format(&mem);
    for head in ["a", "b", "c"] {
        append(&shelf, head, &[1]).unwrap();
    }
    let at = on_drive(&shelf, 2 * PAGE);
    mem[0].with(|memory| memory[at] ^= 1);
    let outcome = recover(&open(&mem).unwrap());
    assert!(matches!(&outcome, Err(Error::Corrupt { .. })), "{outcome:?}");
    assert!(why(outcome).contains("batch 2"));
}

const PAGE: u64 = ALIGN as u64;

/// A third batch that belongs into the page 4 of the ring and knows the first as acknowledged, as its page.
fn third(head: &[u8; 4]) -> Bytes {
    let header = Header {
        takeover: false,
        array: 7,
        epoch: 1,
        pos: JournalPos(3),
        at: 4 * PAGE,
        acknowledged: JournalPos(1),
        head: 4,
        body: 0,
        contents: crc32c([&head[..]]),
        salt: 0,
        tag: [0; 16],
        stripe_set: None,
        checksums: Default::default(),
    };
    header.encode(head)
}

#[test]
fn a_batch_behind_a_gap_never_comes_back() {
    let mem = mem(1);
    let shelf = format(&mem);
    append(&shelf, "a", &[1]).unwrap();
    // Both under way at the crash, so neither knows the other as acknowledged: 2 is lost, 3 is durable.
    let saved = mem[0].with(|memory| memory.to_vec());
    append(&shelf, "old2", &[2]).unwrap();
    let at = on_drive(&shelf, 4 * PAGE);
    mem[0].with(|memory| {
        memory.copy_from_slice(&saved);
        memory[at..at + ALIGN].copy_from_slice(&third(b"old3"));
    });
    let shelf = open(&mem).unwrap();
    assert_eq!(heads(&shelf).unwrap(), "a");
    // The seal took page 2; a batch of one page ends exactly where the old third one begins.
    append(&shelf, "new2", &[]).unwrap();
    let shelf = open(&mem).unwrap();
    assert_eq!(heads(&shelf).unwrap(), "a new2");
    append(&shelf, "new3", &[]).unwrap();
    assert_eq!(heads(&open(&mem).unwrap()).unwrap(), "a new2 new3");
}

/// Under way at the crash, and written where it does not belong: no later lap of the ring.
#[test]
fn a_batch_in_the_wrong_place_behind_the_end_proves_nothing() {
    let mem = mem(1);
    let shelf = format(&mem);
    append(&shelf, "a", &[1]).unwrap();
    let at = on_drive(&shelf, 3 * PAGE);
    mem[0].with(|memory| memory[at..at + ALIGN].copy_from_slice(&third(b"lost")));
    assert_eq!(heads(&open(&mem).unwrap()).unwrap(), "a");
}

#[test]
fn a_batch_that_recovery_did_not_see_stays_unseen() {
    let mem = mem(3);
    let shelf = format(&mem);
    append(&shelf, "a", &[1]).unwrap();
    let before: Vec<_> = mem.iter().map(|drive| drive.with(|memory| memory.to_vec())).collect();
    append(&shelf, "b", &[2]).unwrap();
    let at = on_drive(&shelf, 2 * PAGE);
    let hidden = mem[2].with(|memory| memory[at..at + ALIGN].to_vec());
    for (drive, before) in mem.iter().zip(&before) {
        drive.with(|memory| memory.copy_from_slice(before));
    }
    assert_eq!(heads(&open(&mem).unwrap()).unwrap(), "a");
    mem[2].with(|memory| memory[at..at + ALIGN].copy_from_slice(&hidden));
    assert_eq!(heads(&open(&mem).unwrap()).unwrap(), "a");
}

#[test]
fn the_newest_superblock_wins_and_a_torn_one_leaves_the_one_before() {
    let mem = mem(2);
    let shelf = format(&mem);
    assert_eq!(shelf.superblock(), None);
    put(&shelf, 1, b"first").unwrap();
    let before: Vec<_> = mem.iter().map(|drive| drive.with(|memory| memory.to_vec())).collect();
    put(&shelf, 1, b"second").unwrap();
    let second = open(&mem).unwrap().superblock().unwrap();
    assert_eq!(&second.payload[..], b"second");
    // Only slot 0 of drive 1 was reached.
    let at = shelf.plan.superblock_at(0) as usize;
    let reached = mem[1].with(|memory| memory[at..at + ALIGN].to_vec());
    mem.iter().zip(&before).for_each(|(drive, before)| drive.with(|memory| memory.copy_from_slice(before)));
    assert_eq!(&open(&mem).unwrap().superblock().unwrap().payload[..], b"first");
    mem[1].with(|memory| memory[at..at + ALIGN].copy_from_slice(&reached));
    assert_eq!(&open(&mem).unwrap().superblock().unwrap().payload[..], b"second");
    mem[1].with(|memory| memory[at] ^= 1);
    assert_eq!(
        &open(&mem).unwrap().superblock().unwrap().payload[..],
        b"second",
        "opening put it everywhere"
    );
}

#[test]
fn a_second_power_loss_leaves_the_slot_that_the_first_left_whole() {
    for torn in 0..2 {
        let mem = mem(3);
        let shelf = format(&mem);
        put(&shelf, 1, b"first").unwrap();
        let at = shelf.plan.superblock_at(torn) as usize;
        mem.iter().for_each(|drive| drive.with(|memory| memory[at] ^= 1));
        let superblocks = shelf.plan.superblock_at(0)..shelf.plan.superblock_at(2);
        let tearing = |drive: &Arc<MemDrive>| {
            let superblocks = superblocks.clone();
            let tear = move |drive: &Arc<MemDrive>, request| match request {
                Request::Write { offset, done, .. } if superblocks.contains(&offset) => {
                    drive.with(|memory| memory[offset as usize] ^= 1);
                    done(Err(Error::Drive { what: "the power is gone".into() }));
                }
                request => request.submit(&**drive),
            };
            Arc::new(Intercepted::new(drive.clone(), tear)) as Arc<dyn Drive>
        };
        let opened = now(DriveShelf::open(mem.iter().map(tearing).collect(), Opening::default()));
        assert!(opened.is_err());
        let found = open(&mem).unwrap().superblock();
        assert_eq!(found.expect("a superblock").payload, b"first"[..], "slot {torn} was torn first");
    }
}

#[test]
fn segments_read_back_at_any_alignment() {
    let mem = mem(3);
    let shelf = format(&mem);
    let layout = shelf.layout();
    let mut stripes = AlignedBuf::zeroed(layout.segment_bytes as usize);
    stripes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7 % 251) as u8);
    let stripes = Arc::new(stripes);
    for segment in [0, layout.segments - 1] {
        call(|done| shelf.write(SegmentId(segment), 0, stripes.clone(), done)).unwrap();
        call(|done| shelf.sync(done)).unwrap();
        for (offset, len) in [(0, 1), (4079, 2), (4095, 60_000), (1, layout.segment_bytes - 1), (5, 0)] {
            let read = call(|done| shelf.read(SegmentId(segment), offset, len, done)).unwrap();
            assert!(read[..] == stripes[offset as usize..][..len as usize], "{len} bytes at {offset}");
        }
    }
    let beyond = call(|done| shelf.read(SegmentId(0), layout.segment_bytes - 1, 2, done));
    assert!(matches!(beyond, Err(Error::Corrupt { .. })));
    shelf.discard(SegmentId(0));
    call(|done| shelf.write(SegmentId(0), 0, stripes, done)).unwrap();
}

#[test]
fn an_older_owner_is_fenced_when_it_writes_a_superblock() {
    let mem = mem(2);
    let old = format(&mem);
    append(&old, "a", &[]).unwrap();
    let new = open(&mem).unwrap();
    assert_eq!(heads(&new).unwrap(), "a");
    assert_eq!(put(&old, 1, b"late"), Err(Error::Fenced { epoch: 2 }));
    assert_eq!(append(&old, "late", &[]), Err(Error::Fenced { epoch: 2 }));
    put(&new, 1, b"mine").unwrap();
    assert_eq!(&open(&mem).unwrap().superblock().unwrap().payload[..], b"mine");
}

#[test]
fn drives_may_come_in_any_order() {
    let mut mem = mem(4);
    let shelf = format(&mem);
    put(&shelf, 1, b"root").unwrap();
    mem.rotate_left(3);
    let shelf = open(&mem).unwrap();
    assert_eq!(shelf.drives(), ["mem0", "mem1", "mem2", "mem3"]);
    assert_eq!(shelf.journal_copies(), [0, 1, 2]);
}

#[test]
fn drives_that_do_not_make_up_an_array_are_refused_with_the_reason() {
    let array = mem(3);
    format(&array);
    let blank = MemDrive::new("blank", 16 * MIB);
    let foreign = mem(1);
    now(DriveShelf::format(drives(&foreign), FormatOptions { array: 8, ..FormatOptions::default() }))
        .unwrap();
    assert!(why(open(&[&array[..], &foreign].concat())).contains("give only the drives of one array"));
    assert!(why(open(std::slice::from_ref(&blank))).contains("blank is blank"));
    let copy = MemDrive::new("copy", 16 * MIB);
    let bytes = array[1].with(|memory| memory.to_vec());
    copy.with(|memory| memory.copy_from_slice(&bytes));
    assert!(why(open(&[&array[..], std::slice::from_ref(&copy)].concat())).contains("both claim slot 1"));
    let short = MemDrive::new("short", 12 * MIB);
    array[0].with(|memory| short.with(|cut| cut.copy_from_slice(&memory[..12 * MIB as usize])));
    assert!(why(open(&[short])).contains("truncated"));
    assert!(
        why(now(DriveShelf::format(drives(&array), FormatOptions::default()))).contains("belongs to array")
    );
    assert!(!now(DriveShelf::is_formatted(&drives(&[blank]))).unwrap());
    assert!(now(DriveShelf::is_formatted(&drives(&array[..1]))).unwrap());
    let wide = mem(5);
    let shelf = format(&wide);
    let stripe = Arc::new(AlignedBuf::zeroed(shelf.layout().stripe_bytes as usize));
    call(|done| shelf.write(SegmentId(0), 0, stripe, done)).unwrap();
    call(|done| shelf.sync(done)).unwrap();
    assert!(why(open(&wide[..2])).contains("slots [2, 3, 4] are missing"));
}

/// Formats four drives, uses them once together, then two by themselves, and the other two this many times.
fn apart(times: usize) -> Vec<Arc<MemDrive>> {
    let mem = mem(4);
    put(&format(&mem), 1, b"together").unwrap();
    let go_on = |half: &[Arc<MemDrive>], head| {
        let shelf = open(half).unwrap();
        recover(&shelf).unwrap();
        append(&shelf, head, &[1]).unwrap();
    };
    go_on(&mem[..2], "left");
    (0..times).for_each(|_| go_on(&mem[2..], "right"));
    mem
}

#[test]
fn halves_that_went_on_apart_are_not_opened_together() {
    for times in [1, 2, 3] {
        let mem = apart(times);
        let mut back = mem.clone();
        back.reverse();
        let reasons = [&mem, &back].map(|drives| why(open(drives)));
        for reason in &reasons {
            let both = ["used twice", "mem0", "mem1", "mem2", "mem3"];
            assert!(both.iter().all(|word| reason.contains(word)), "{reason}");
        }
        assert_eq!(heads(&open(&mem[..2]).unwrap()).unwrap(), "left", "one half alone is as it was");
        let reason = why(open(&mem[..3]));
        assert!(reason.contains("used twice"), "one of the others is enough: {reason}");
    }
}

#[test]
fn the_half_that_is_given_up_can_be_added_to_the_other() {
    let mem = apart(1);
    let shelf = open(&mem[2..]).unwrap();
    recover(&shelf).unwrap();
    for drive in drives(&mem[..2]) {
        let refused = now(shelf.add_drive(drive.clone(), &Consent { foreign: true, arrays: vec![8] }));
        assert!(refused.unwrap_err().to_string().contains(&format!("belongs to array {:032x}", 7)));
        now(shelf.add_drive(drive, &Consent { arrays: vec![7], ..Consent::default() })).unwrap();
    }
    now(shelf.settle());
    assert_eq!(shelf.status().tolerates, 2);
    drop(shelf);
    assert_eq!(heads(&open(&mem).unwrap()).unwrap(), "right");
}

/// An opening was broken off when one label was written, and the next did not see that drive: equal epochs, and nothing
/// was ever acknowledged by the first.
#[test]
fn a_drive_whose_opening_was_broken_off_comes_back() {
    let mem = mem(4);
    put(&format(&mem), 1, b"root").unwrap();
    let broken = mem[3].clone();
    let LabelPage::Label(label) = Label::decode(&broken.with(|bytes| bytes[..ALIGN].to_vec())) else {
        panic!("a label")
    };
    let shelf = open(&mem[..3]).unwrap();
    recover(&shelf).unwrap();
    append(&shelf, "without it", &[1]).unwrap();
    let label = Label { epoch: label.epoch + 1, generation: label.generation + 1, ..*label };
    let page = label.encode();
    broken.with(|bytes| bytes[..ALIGN].copy_from_slice(&page));
    drop(shelf);
    let shelf = open(&mem).unwrap();
    assert_eq!(heads(&shelf).unwrap(), "without it");
    assert_eq!(shelf.status().tolerates, 2);
}
