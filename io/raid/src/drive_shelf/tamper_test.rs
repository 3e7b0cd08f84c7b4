//! Labels, superblocks, maps and journal headers whose checksums hold and which say what can't be, the same on all
//! drives: opening, reading and writing end with what was written or with an error.

use super::tests::{call, drives, mem, now, open, page, put};
use super::{DriveShelf, Opening};
use crate::codec::crc32c;
use crate::{ALIGN, AlignedBuf, JournalPos, MemDrive, SegmentId, Shelf};
use bytes::Bytes;
use std::sync::Arc;

/// Numbers that depend on the seed alone.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Three drives with a segment, a superblock and a journal after it.
fn array() -> Vec<Arc<MemDrive>> {
    let mem = mem(3);
    let shelf = super::tests::format(&mem);
    let stripe = shelf.layout().stripe_bytes as usize;
    let mut body = AlignedBuf::zeroed(stripe);
    body.fill(9);
    call(|done| shelf.write(SegmentId(3), 0, Arc::new(body), done)).expect("written");
    call(|done| shelf.sync(done)).expect("synced");
    for head in [&b"one"[..], b"two", b"three"] {
        call(|done| shelf.append(Bytes::from_static(head), vec![page(1)], done)).expect("appended");
    }
    put(&shelf, 2, b"payload").expect("put");
    call(|done| shelf.append(Bytes::from_static(b"four"), (0..8).map(|_| page(4)).collect(), done))
        .expect("appended");
    drop(shelf);
    mem
}

/// A page that is to be changed: where it lies, its fields, and where its checksum is.
fn choose(shelf: &DriveShelf, bytes: u64, dice: &mut Dice) -> (Vec<u64>, Vec<(usize, usize)>, usize) {
    let plan = &shelf.plan;
    match dice.below(4) {
        0 => {
            let fields =
                [(48, 8), (56, 8), (64, 8), (72, 8), (80, 2), (82, 1), (84, 4), (88, 4), (92, 4), (96, 4)];
            let more = [(100, 4), (104, 8), (512, 8), (528, 8), (536, 1), (537, 7), (560, 8), (568, 1)];
            (vec![0, bytes - ALIGN as u64], [&fields[..], &more].concat(), ALIGN - 4)
        }
        1 => {
            let fields = (24..72).step_by(8).map(|at| (at, 8)).chain([(72, 4), (76, 4), (80, 8)]).collect();
            (vec![plan.superblock_at(0), plan.superblock_at(1)], fields, 124)
        }
        2 => {
            let entry = |at: usize| {
                let columns = (0..3).flat_map(move |n| [(at + 16 + n * 5, 1), (at + 17 + n * 5, 4)]);
                [(at, 8), (at + 8, 4), (at + 12, 1), (at + 13, 1), (at + 136, 8)].into_iter().chain(columns)
            };
            let front = [(24, 4), (32, 8), (40, 8)].into_iter();
            let at = plan.map_at();
            (vec![at, at + ALIGN as u64], front.chain(entry(64 + 3 * 152)).collect(), 60)
        }
        _ => {
            let fields =
                (24..56).step_by(8).map(|at| (at, 8)).chain([(56, 4), (60, 4), (64, 4), (68, 8)]).collect();
            (vec![plan.journal_at() + dice.below(12) * ALIGN as u64], fields, 124)
        }
    }
}

fn changed(before: u64, dice: &mut Dice) -> u64 {
    match dice.below(8) {
        0 | 1 => before.wrapping_add(1),
        2 | 3 => before.wrapping_sub(1),
        4 => 0,
        5 => u64::MAX >> dice.below(64),
        6 => before ^ 1 << dice.below(64),
        _ => dice.below(100),
    }
}

fn tamper(mem: &[Arc<MemDrive>], shelf: &DriveShelf, dice: &mut Dice) {
    let (places, fields, sum) = choose(shelf, mem[0].with(|bytes| bytes.len() as u64), dice);
    let (at, len) = fields[dice.below(fields.len() as u64) as usize];
    let seed = dice.0;
    for drive in mem {
        for place in &places {
            let mut dice = Dice(seed);
            drive.with(|bytes| {
                let page = &mut bytes[*place as usize..*place as usize + ALIGN];
                let mut field = [0; 8];
                field[..len].copy_from_slice(&page[at..at + len]);
                let number = changed(u64::from_le_bytes(field), &mut dice);
                page[at..at + len].copy_from_slice(&number.to_le_bytes()[..len]);
                let checksum = match sum {
                    60 => crc32c([&page[..60], &page[64..]]),
                    sum => crc32c([&page[..sum]]),
                };
                page[sum..sum + 4].copy_from_slice(&checksum.to_le_bytes());
            });
        }
    }
}

/// Everything that an engine would do.
fn use_it(mem: &[Arc<MemDrive>]) {
    for _ in 0..2 {
        let Ok(shelf) = now(DriveShelf::open(drives(mem), Opening::default())) else { return };
        let superblock = shelf.superblock();
        let from = superblock.as_ref().map_or(JournalPos(1), |superblock| superblock.journal_from);
        let Ok(batches) = call(|done| shelf.recover(from, done)) else { return };
        let stripe = shelf.layout().stripe_bytes;
        if let Ok(bytes) = call(|done| shelf.read(SegmentId(3), 0, stripe, done)) {
            assert!(bytes.iter().all(|byte| *byte == 9), "other bytes than were written");
        }
        let next = batches.last().map_or(from.0, |batch| batch.pos.0 + 1);
        let _ = call(|done| shelf.append(Bytes::from_static(b"more"), vec![page(5)], done));
        let free = SegmentId(shelf.layout().segments.saturating_sub(1));
        if free.0 > 3 {
            shelf.discard(free);
            let _ = call(|done| shelf.write(free, 0, Arc::new(AlignedBuf::zeroed(stripe as usize)), done));
        }
        let _ = call(|done| shelf.sync(done));
        if next > 0 {
            let _ = put(&shelf, next, b"again");
        }
    }
}

#[test]
fn whatever_the_pages_of_a_shelf_say_nothing_panics() {
    let mem = array();
    let images: Vec<Vec<u8>> = mem.iter().map(|drive| drive.with(|bytes| bytes.to_vec())).collect();
    let shelf = open(&mem).expect("opened");
    let restore = || {
        for (drive, image) in mem.iter().zip(&images) {
            drive.with(|bytes| bytes.copy_from_slice(image));
        }
    };
    let number =
        |name: &str, or: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or);
    for seed in number("FROM", 0)..number("TO", 150) {
        restore();
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (0..=dice.below(2)).for_each(|_| tamper(&mem, &shelf, &mut dice));
        use_it(&mem);
    }
    restore();
    use_it(&mem);
}

#[test]
fn an_array_with_data_and_without_a_superblock_is_not_taken_for_a_new_one() {
    let mem = array();
    let plan = open(&mem).expect("opened").plan;
    for drive in &mem {
        drive.with(|bytes| {
            let at = plan.superblock_at(0) as usize;
            bytes[at..at + 2 * plan.superblock_bytes as usize].fill(0);
        });
    }
    let why = super::tests::why(open(&mem));
    assert!(why.contains("no readable superblock"), "{why}");
}

/// Writes a number into a page of every drive and makes the checksum right that covers it.
fn set(
    mem: &[Arc<MemDrive>],
    page: u64,
    (at, value): (usize, u32),
    sums: &[(usize, std::ops::Range<usize>)],
) {
    for drive in mem {
        drive.with(|bytes| {
            let page = &mut bytes[page as usize..page as usize + ALIGN];
            page[at..at + 4].copy_from_slice(&value.to_le_bytes());
            for (sum_at, rest) in sums {
                let sum = crc32c([&page[..*sum_at], &page[rest.clone()]]);
                page[*sum_at..sum_at + 4].copy_from_slice(&sum.to_le_bytes());
            }
        });
    }
}

#[test]
fn records_of_a_later_release_are_refused_with_what_to_do_and_nothing_is_written() {
    let label = [(4092, 0..0)];
    let header = [(124, 0..0)];
    let map = [(60, 64..4096)];
    let plan = open(&array()).unwrap().plan;
    let cases = [
        ("version 6", [0, (16 << 20) - 4096], (8, 6), &label),
        ("bits 0x0002", [0, (16 << 20) - 4096], (12, 2), &label),
        ("the superblock", [plan.superblock_at(0), plan.superblock_at(1)], (104, 1), &header),
        ("the segment map", [plan.map_at(), plan.map_at() + 4096], (28, 7), &map),
    ];
    for (why, pages, field, sums) in cases {
        let mem = array();
        for page in pages {
            let written = mem[0].with(|bytes| bytes[page as usize..page as usize + 8] != [0; 8]);
            if written {
                set(&mem, page, field, sums);
            }
        }
        let contents = || mem.iter().map(|drive| drive.with(|bytes| bytes.to_vec())).collect::<Vec<_>>();
        let before = contents();
        let refused = super::tests::why(open(&mem));
        assert!(refused.contains(why) && refused.contains("use th"), "{why}: {refused}");
        assert!(before == contents(), "{why}: something was written");
    }
}

#[test]
fn journal_records_of_an_unknown_kind_do_not_end_the_journal() {
    let mem = mem(4);
    let shelf = super::tests::format(&mem);
    let at = shelf.plan.journal_at();
    call(|done| shelf.append(Bytes::from_static(b"one"), Vec::new(), done)).unwrap();
    drop(shelf);
    set(&mem, at, (4, u32::from_le_bytes(*b"XYZW")), &[(124, 0..0)]);
    let shelf = open(&mem).unwrap();
    let refused = super::tests::why(call(|done| shelf.recover(JournalPos(1), done)));
    assert!(refused.contains("the journal was written by another release"), "{refused}");
}

#[test]
fn optional_features_of_a_later_release_are_kept_and_ignored() {
    let mem = mem(3);
    drop(super::tests::format(&mem));
    // In the upper half of the word at 12.
    for page in [0, (16 << 20) - 4096] {
        set(&mem, page, (12, 5 << 16), &[(4092, 0..0)]);
    }
    for _ in 0..2 {
        drop(open(&mem).unwrap());
        assert!(mem.iter().all(|drive| drive.with(|bytes| bytes[12..16] == [0, 0, 5, 0])));
    }
}
