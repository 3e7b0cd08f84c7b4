//! Large batches: striped over all drives, and there as long as two of them are lost at most.

use crate::drive_shelf::tests::{
    call, drives, format, heads, mem, now, on_drive, open, page, put, recover, why,
};
use crate::encryption::{DataKey, Envelope};
use crate::striping::StripeSet;
use crate::{
    ALIGN, Drive, DriveShelf, Error, FormatOptions, JournalPos, MemDrive, Opening, Result, Shelf, Superblock,
};
use bytes::Bytes;
use shelf::pool::{KEY_BYTES, KeySource};
use std::sync::Arc;

fn append(shelf: &DriveShelf, head: &str, pages: u8) -> Result<JournalPos> {
    let body = (1..=pages).map(page).collect();
    let head = Bytes::from(head.to_owned());
    call(|done| shelf.append(head, body, done))
}

/// The batch that recovery returns for these pages.
fn whole(pos: u64, head: &str, pages: u8) -> (u64, String, Vec<u8>) {
    (pos, head.to_owned(), (1..=pages).collect())
}

/// Some of the drives.
fn without(mem: &[Arc<MemDrive>], lost: &[usize]) -> Vec<Arc<MemDrive>> {
    let left = mem.iter().enumerate().filter(|(index, _)| !lost.contains(index));
    left.map(|(_, drive)| copy(drive)).collect()
}

fn copy(drive: &MemDrive) -> Arc<MemDrive> {
    let bytes = drive.with(|memory| memory.to_vec());
    let copy = MemDrive::new(drive.name(), bytes.len() as u64);
    copy.with(|memory| memory.copy_from_slice(&bytes));
    copy
}

fn gone() -> Error {
    Error::Drive { what: "gone".into() }
}

fn written(shelf: &DriveShelf) -> u64 {
    shelf.status().drives.iter().map(|drive| drive.written_bytes).sum()
}

#[test]
fn a_large_batch_costs_its_parity_instead_of_copies() {
    let shelf = format(&mem(8));
    let before = written(&shelf);
    append(&shelf, "large", 32).unwrap();
    // Three fronts; six columns of eight pages.
    assert_eq!((written(&shelf) - before) / ALIGN as u64, 3 + 48);
    let before = written(&shelf);
    append(&shelf, "small", 1).unwrap();
    assert_eq!((written(&shelf) - before) / ALIGN as u64, 3 * 2);
}

#[test]
fn a_large_batch_takes_as_much_of_the_journal_as_its_longest_column() {
    let mem = mem(8);
    let shelf = format(&mem);
    append(&shelf, "large", 32).unwrap();
    append(&shelf, "small", 1).unwrap();
    let pages =
        |shelf: &DriveShelf| [0, 1, 2, 3, 9].map(|pos| shelf.journal_taken(JournalPos(pos)) / ALIGN as u64);
    assert_eq!(pages(&shelf), [0, 0, 9, 11, 11]);
    let shelf = open(&mem).unwrap();
    assert_eq!(pages(&shelf), [0; 5], "status was not requested yet");
    recover(&shelf).unwrap();
    assert_eq!(pages(&shelf), [0, 0, 9, 12, 12], "and its seal");
    let superblock = Superblock { journal_from: JournalPos(2), payload: Bytes::new() };
    call(|done| shelf.write_superblock(superblock, done)).unwrap();
    assert_eq!(pages(&shelf), [0, 0, 0, 3, 3]);
}

#[test]
fn large_batches_bear_the_loss_of_any_two_drives() {
    for count in [4, 6] {
        let mem = mem(count);
        let shelf = format(&mem);
        for (head, pages) in [("a", 32), ("b", 1), ("c", 17), ("d", 9)] {
            append(&shelf, head, pages).unwrap();
        }
        let expected = vec![whole(1, "a", 32), whole(2, "b", 1), whole(3, "c", 17), whole(4, "d", 9)];
        for first in 0..count {
            for second in first..count {
                let shelf = open(&without(&mem, &[first, second])).unwrap();
                assert_eq!(recover(&shelf).unwrap(), expected, "{count} drives without {first} and {second}");
            }
        }
    }
}

#[test]
fn sealed_ones_too() {
    let key = DataKey::new([7; KEY_BYTES]);
    let envelope = Envelope::wrap(7, &key, KeySource::File, &[8; KEY_BYTES], [9; 12]);
    let opening = Opening { salt: 3, key: Some((key, envelope)) };
    let mem = mem(5);
    let options = FormatOptions { array: 7, opening: opening.clone(), ..FormatOptions::default() };
    let shelf = now(DriveShelf::format(drives(&mem), options)).unwrap();
    append(&shelf, "secret", 20).unwrap();
    for drive in &mem {
        let at = on_drive(&shelf, 0);
        drive.with(|memory| assert!(!memory[at..at + 20 * ALIGN].windows(64).any(|bytes| bytes == [5; 64])));
    }
    let left = drives(&without(&mem, &[0, 4]));
    let shelf = now(DriveShelf::open(left, Opening { salt: 4, ..opening })).unwrap();
    assert_eq!(recover(&shelf).unwrap(), [whole(1, "secret", 20)]);
}

#[test]
fn columns_that_are_wrong_are_given_back_and_written_again() {
    let mem = mem(5);
    let shelf = format(&mem);
    append(&shelf, "a", 12).unwrap();
    // Another page of two columns each, and none of the front.
    let spoil = |drives: &[usize]| {
        for drive in drives {
            let at = on_drive(&shelf, ALIGN as u64);
            mem[*drive].with(|memory| memory[at..at + 4 * ALIGN].fill(0xee));
        }
    };
    spoil(&[0, 3]);
    assert_eq!(recover(&open(&mem).unwrap()).unwrap(), [whole(1, "a", 12)]);
    spoil(&[1, 4]);
    assert_eq!(recover(&open(&mem).unwrap()).unwrap(), [whole(1, "a", 12)], "0 and 3 are right again");
}

#[test]
fn a_large_batch_that_was_never_whole_is_the_end() {
    let mem = mem(4);
    let shelf = format(&mem);
    append(&shelf, "a", 1).unwrap();
    let before: Vec<Vec<u8>> = mem.iter().map(|drive| drive.with(|memory| memory.to_vec())).collect();
    append(&shelf, "torn", 8).unwrap();
    // Of its four columns one reached its drive, and all of its fronts.
    let column = on_drive(&shelf, 3 * ALIGN as u64);
    for (drive, before) in mem.iter().zip(&before).skip(1) {
        drive.with(|memory| {
            memory[column..column + 4 * ALIGN].copy_from_slice(&before[column..column + 4 * ALIGN])
        });
    }
    assert_eq!(heads(&open(&without(&mem, &[3])).unwrap()).unwrap(), "a");
    let shelf = open(&mem).unwrap();
    assert_eq!(heads(&shelf).unwrap(), "a");
    append(&shelf, "b", 8).unwrap();
    assert_eq!(recover(&open(&mem).unwrap()).unwrap()[1..], [whole(2, "b", 8)]);
}

/// More drives than are tolerated fail one after the other within a batch, as those of one adapter, and all return.
#[test]
fn a_large_batch_that_was_never_whole_is_the_end_if_its_drives_were_missing_and_return() {
    let mem = mem(6);
    let shelf = format(&mem);
    append(&shelf, "a", 1).unwrap();
    let before: Vec<Vec<u8>> = mem.iter().map(|drive| drive.with(|memory| memory.to_vec())).collect();
    append(&shelf, "torn", 16).unwrap();
    let column = on_drive(&shelf, 3 * ALIGN as u64);
    for slot in [3, 4, 5] {
        let old = &before[slot][column..column + 8 * ALIGN];
        mem[slot].with(|memory| memory[column..column + 8 * ALIGN].copy_from_slice(old));
        shelf.fail_drive(slot, &gone());
        now(shelf.settle());
    }
    let shelf = open(&mem).unwrap();
    assert_eq!(shelf.journal.lock().returned, 0b11_1000);
    assert_eq!(heads(&shelf).unwrap(), "a");
}

#[test]
fn a_large_batch_that_may_have_been_answered_is_not_the_end() {
    let mem = mem(6);
    let shelf = format(&mem);
    let pos = append(&shelf, "a", 8).unwrap();
    let stripe_set = StripeSet::choose(0b11_1111, 3, 8 * ALIGN, pos).expect("striped");
    // The drives at its place fail reads forever; a copy of the journal is among those that are left.
    let lost: Vec<usize> = stripe_set.order(pos).into_iter().filter(|slot| *slot != 0).take(3).collect();
    let shelf = open(&without(&mem, &lost)).map(|shelf| recover(&shelf));
    let why = match shelf {
        Ok(outcome) => why(outcome),
        Err(cause) => cause.to_string(),
    };
    assert!(why.contains("too few of the drives that have journal batch 1"), "{why}");
}

#[test]
fn a_drive_that_has_gone_is_a_loss_until_the_journal_is_trimmed() {
    let mem = mem(6);
    let shelf = format(&mem);
    let large = append(&shelf, "a", 32).unwrap();
    assert_eq!((shelf.status().tolerates, shelf.wants_trim()), (2, false));
    shelf.fail_drive(4, &gone());
    now(shelf.settle());
    assert_eq!((shelf.status().tolerates, shelf.wants_trim()), (1, true));
    assert!(shelf.status().drives.iter().any(|drive| drive.slot == 4), "it is a member for the batch's sake");
    let next = append(&shelf, "b", 32).unwrap();
    put(&shelf, large.0 + 1, b"root").unwrap();
    now(shelf.settle());
    assert_eq!((shelf.status().tolerates, shelf.wants_trim()), (2, false), "what came after is not on it");
    assert!(shelf.status().drives.iter().all(|drive| drive.slot != 4), "it is no member any more");
    for lost in [[0, 1], [2, 5], [0, 3]] {
        let left = [lost.as_slice(), &[4]].concat();
        assert_eq!(recover(&open(&without(&mem, &left)).unwrap()).unwrap(), [whole(next.0, "b", 32)]);
    }
}

#[test]
fn a_drive_that_is_evacuated_gets_no_more_of_large_batches() {
    let mem = mem(6);
    let shelf = format(&mem);
    append(&shelf, "a", 32).unwrap();
    now(shelf.evacuate(5, 2)).unwrap();
    now(shelf.settle());
    assert!(shelf.wants_trim(), "it can't go before");
    let next = append(&shelf, "b", 32).unwrap();
    put(&shelf, next.0, b"root").unwrap();
    now(shelf.settle());
    assert!(shelf.status().drives.iter().all(|drive| drive.slot != 5) && !shelf.wants_trim());
    assert_eq!(recover(&open(&without(&mem, &[5])).unwrap()).unwrap(), [whole(next.0, "b", 32)]);
}

#[test]
fn a_new_drive_gets_its_part_of_large_batches_once_the_labels_name_it() {
    let mut mem = mem(4);
    let shelf = format(&mem);
    append(&shelf, "a", 12).unwrap();
    let added = MemDrive::new("added", 16 << 20);
    now(shelf.add_drive(added.clone(), &crate::Consent::default())).unwrap();
    append(&shelf, "b", 12).unwrap();
    mem.push(added);
    for lost in 0..4 {
        let left = without(&mem, &[lost, (lost + 1) % 4]);
        assert_eq!(recover(&open(&left).unwrap()).unwrap(), [whole(1, "a", 12), whole(2, "b", 12)]);
    }
    let columns = |shelf: &DriveShelf| shelf.status().drives[4].written_bytes;
    let before = columns(&shelf);
    append(&shelf, "c", 12).unwrap();
    assert_eq!(columns(&shelf) - before, 4 * ALIGN as u64, "one of five columns of four pages");
}

#[test]
fn another_copy_of_the_journal_leaves_the_columns_of_its_drive_alone() {
    let mem = mem(6);
    let shelf = format(&mem);
    let batches: Vec<_> = (1..=40).map(|pos| whole(pos, &format!("batch {pos}"), pos as u8 % 20)).collect();
    for (_, head, pages) in &batches {
        append(&shelf, head, pages.len() as u8).unwrap();
    }
    assert_eq!(shelf.journal_copies(), [0, 1, 2]);
    shelf.fail_drive(1, &gone());
    now(shelf.settle());
    assert_eq!(shelf.journal_copies(), [0, 2, 3]);
    for lost in [[0, 1], [1, 2], [1, 3], [1, 5]] {
        assert_eq!(recover(&open(&without(&mem, &lost)).unwrap()).unwrap(), batches, "without {lost:?}");
    }
}

#[test]
fn a_shelf_of_the_format_before_opens_and_is_of_this_one_then() {
    let mem = mem(4);
    let shelf = format(&mem);
    append(&shelf, "a", 1).unwrap();
    drop(shelf);
    let version = |drive: &Arc<MemDrive>, at: usize| drive.with(|memory| memory[at + 8]);
    for drive in &mem {
        drive.with(|memory| {
            for at in [0, memory.len() - ALIGN] {
                memory[at + 8] = 4;
                let checksum = crate::checksum(&memory[at..at + ALIGN - 4]);
                memory[at + ALIGN - 4..at + ALIGN].copy_from_slice(&checksum.to_le_bytes());
            }
        });
    }
    let shelf = open(&mem).unwrap();
    assert_eq!(heads(&shelf).unwrap(), "a");
    append(&shelf, "b", 12).unwrap();
    assert!(mem.iter().all(|drive| version(drive, 0) == 5 && version(drive, (16 << 20) - ALIGN) == 5));
    assert_eq!(heads(&open(&without(&mem, &[0, 1])).unwrap()).unwrap(), "a b");
}
