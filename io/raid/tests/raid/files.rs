//! A shelf on real files, whose drives go away, while it runs and while it does not.

use bytes::Bytes;
use raid::device::{self, Ring};
use raid::{DriveShelf, FormatOptions, Opening};
use rig::block_on;
use shelf::{AlignedBuf, Drive, JournalPos, SegmentId, Shelf, Superblock, wait};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DRIVE: u64 = 32 << 20;
const SEGMENTS: u32 = 12;

fn paths(folder: &Path) -> Vec<PathBuf> {
    (0..8).map(|number| folder.join(format!("{number}.drive"))).collect()
}

fn drives(folder: &Path) -> Vec<Arc<dyn Drive>> {
    let ring = Ring::start().unwrap();
    let present = paths(folder).into_iter().filter(|path| path.exists());
    present.map(|path| device::open(&ring, &path).unwrap() as Arc<dyn Drive>).collect()
}

fn content(segment: u32, len: usize) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(len);
    for (at, word) in buffer.chunks_mut(8).enumerate() {
        let value = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ u64::from(segment));
        word.copy_from_slice(&value.to_le_bytes()[..word.len()]);
    }
    buffer
}

fn call<T: Send + 'static>(start: impl FnOnce(shelf::Done<T>)) -> shelf::Result<T> {
    let (done, outcome) = wait();
    start(done);
    block_on(outcome)
}

fn write(shelf: &DriveShelf, segment: u32) {
    let stripes = Arc::new(content(segment, shelf.layout().segment_bytes as usize));
    call(|done| shelf.write(SegmentId(segment), 0, stripes, done)).unwrap();
}

fn commit(shelf: &DriveShelf, payload: &'static [u8]) {
    call(|done| shelf.sync(done)).unwrap();
    let superblock = Superblock { journal_from: JournalPos(1), payload: Bytes::from_static(payload) };
    call(|done| shelf.write_superblock(superblock, done)).unwrap();
}

/// Every byte of every segment, and every batch.
fn check(shelf: &DriveShelf, segments: u32, batches: usize) {
    for segment in 0..segments {
        let expected = content(segment, shelf.layout().segment_bytes as usize);
        let read = call(|done| shelf.read(SegmentId(segment), 0, expected.len() as u32, done)).unwrap();
        assert!(read[..] == expected[..], "segment {segment}");
    }
    assert_eq!(shelf.status().lost_pages, 0);
    assert!(batches == 0 || shelf.superblock().is_some());
}

fn open(folder: &Path, batches: usize) -> Arc<DriveShelf> {
    let shelf = block_on(DriveShelf::open(drives(folder), Opening::default())).unwrap();
    let found = call(|done| shelf.recover(JournalPos(1), done)).unwrap();
    assert_eq!(found.len(), batches);
    shelf
}

fn append(shelf: &DriveShelf, number: u8) {
    let mut body = AlignedBuf::zeroed(8192);
    body.fill(number);
    let body = Arc::new(body).share(0..8192);
    call(|done| shelf.append(Bytes::from(vec![number; 100]), vec![body], done)).unwrap();
}

fn make(folder: &Path) -> Arc<DriveShelf> {
    paths(folder).iter().for_each(|path| device::create(path, DRIVE).unwrap());
    let options = FormatOptions { array: 77, ..FormatOptions::default() };
    let shelf = block_on(DriveShelf::format(drives(folder), options)).unwrap();
    for segment in 0..SEGMENTS {
        write(&shelf, segment);
        append(&shelf, segment as u8);
    }
    commit(&shelf, b"root");
    shelf
}

fn zero(path: &Path) {
    File::options().write(true).open(path).unwrap().write_all_at(&vec![0; DRIVE as usize], 0).unwrap();
}

#[test]
fn any_two_drives_of_a_stopped_array_may_be_removed_or_blank() {
    for (first, second) in [(0, 1), (2, 7), (5, 6)] {
        let folder = tempfile::tempdir().unwrap();
        drop(make(folder.path()));
        fs::remove_file(&paths(folder.path())[first]).unwrap();
        zero(&paths(folder.path())[second]);
        let shelf = open(folder.path(), SEGMENTS as usize);
        assert_eq!(shelf.drives().len(), 6);
        check(&shelf, SEGMENTS, SEGMENTS as usize);
        // Degraded as it is, it takes what comes, and heals what it has.
        write(&shelf, SEGMENTS);
        append(&shelf, 99);
        commit(&shelf, b"next");
        block_on(shelf.settle());
        let status = shelf.status();
        assert_eq!((status.degraded_segments, status.tolerates, status.lost_pages), (0, 2, 0), "{status:?}");
        drop(shelf);
        // Two more, once everything is whole again.
        let gone = (0..8).filter(|drive| ![first, second].contains(drive)).take(2);
        gone.for_each(|drive| zero(&paths(folder.path())[drive]));
        check(&open(folder.path(), SEGMENTS as usize + 1), SEGMENTS + 1, SEGMENTS as usize + 1);
    }
}

#[test]
fn a_running_array_does_not_notice_that_two_drives_are_zeroed_or_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = make(folder.path());
    zero(&paths(folder.path())[1]);
    File::options().write(true).open(&paths(folder.path())[4]).unwrap().set_len(0).unwrap();
    check(&shelf, SEGMENTS, 0);
    write(&shelf, SEGMENTS);
    append(&shelf, 99);
    commit(&shelf, b"next");
    check(&shelf, SEGMENTS + 1, 0);
    drop(shelf);
    check(&open(folder.path(), SEGMENTS as usize + 1), SEGMENTS + 1, SEGMENTS as usize + 1);
}

#[test]
fn a_scrub_repairs_rot_on_two_drives() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = make(folder.path());
    let mut flipped = 0;
    for drive in [2, 5] {
        let file = File::options().read(true).write(true).open(&paths(folder.path())[drive]).unwrap();
        // One page of thirty, after the journal.
        for page in ((3 << 20) / 4096..(8 << 20) / 4096).step_by(30) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, page * 4096 + 1000 + drive as u64).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], page * 4096 + 1000 + drive as u64).unwrap();
            flipped += 1;
        }
    }
    let report = block_on(shelf.scrub());
    assert!(report.errors > 0 && report.errors <= flipped, "{report:?}");
    assert_eq!((report.repaired, report.lost, report.segments), (report.errors, 0, u64::from(SEGMENTS)));
    let again = block_on(shelf.scrub());
    assert_eq!((again.errors, again.lost), (0, 0));
    check(&shelf, SEGMENTS, 0);
}
