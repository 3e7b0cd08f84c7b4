//! Media that released versions wrote: arrays of today and of before still open, with everything in them.
//!
//! A fixture holds the non-zero bytes of all drives of an array. `cargo test -p raid --test raid media -- --ignored` writes
//! those of the current format; once a format is released its fixture is never written again.

use bytes::Bytes;
use raid::encryption::{DataKey, Envelope};
use raid::{DriveShelf, FormatOptions, MemDrive, Opening, Sizes};
use shelf::pool::{KEY_BYTES, KeySource};
use shelf::{AlignedBuf, Done, Drive, JournalPos, Result, SegmentId, Shelf, Superblock, wait};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const DRIVES: usize = 5;
const DRIVE_BYTES: u64 = 8 << 20;
/// Zeros that end a run of bytes in a fixture.
const MIN_GAP: usize = 16;

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a drive in memory completes at once"),
    }
}

fn call<T: Send + 'static>(start: impl FnOnce(Done<T>)) -> Result<T> {
    let (done, outcome) = wait();
    start(done);
    now(outcome)
}

fn drives(mem: &[Arc<MemDrive>]) -> Vec<Arc<dyn Drive>> {
    mem.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect()
}

fn blank() -> Vec<Arc<MemDrive>> {
    (0..DRIVES).map(|index| MemDrive::new(format!("mem{index}"), DRIVE_BYTES)).collect()
}

/// Runs of bytes, each with its drive (4 bytes), offset (8) and length (4).
fn save(mem: &[Arc<MemDrive>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, drive) in (0u32..).zip(mem) {
        drive.with(|bytes| {
            let mut at = 0;
            while let Some(start) = bytes[at..].iter().position(|byte| *byte != 0) {
                let start = at + start;
                let rest = &bytes[start..];
                let gap = rest.windows(MIN_GAP).position(|window| window.iter().all(|byte| *byte == 0));
                let len = gap.unwrap_or(rest.len());
                out.extend_from_slice(&index.to_le_bytes());
                out.extend_from_slice(&(start as u64).to_le_bytes());
                out.extend_from_slice(&(len as u32).to_le_bytes());
                out.extend_from_slice(&rest[..len]);
                at = start + len;
            }
        });
    }
    out
}

fn load(mut fixture: &[u8]) -> Vec<Arc<MemDrive>> {
    let mem = blank();
    while let Some((head, rest)) = fixture.split_first_chunk::<16>() {
        let index = u32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
        let at = u64::from_le_bytes(head[4..12].try_into().unwrap()) as usize;
        let len = u32::from_le_bytes(head[12..].try_into().unwrap()) as usize;
        mem[index].with(|bytes| bytes[at..at + len].copy_from_slice(&rest[..len]));
        fixture = &rest[len..];
    }
    mem
}

fn opening(encrypted: bool, salt: u64) -> Opening {
    let sealing = || {
        let key = DataKey::new([7; KEY_BYTES]);
        let envelope = Envelope::wrap(7, &key, KeySource::File, &[8; KEY_BYTES], [9; 12]);
        (key, envelope)
    };
    Opening { salt, key: encrypted.then(sealing) }
}

/// Pages of body of each batch: none, few in every copy, many striped.
const BATCHES: [usize; 4] = [0, 1, 6, 2];
/// Segment and stripe of what is in the log.
const STRIPES: [(u32, u32); 3] = [(0, 0), (0, 1), (2, 0)];

fn body(number: usize) -> Vec<Bytes> {
    let mut pages = AlignedBuf::zeroed(BATCHES[number - 1] * 4096);
    pages.iter_mut().step_by(1024).for_each(|byte| *byte = number as u8);
    let (len, pages) = (pages.len(), Arc::new(pages));
    (0..len / 4096).map(|page| pages.share(page * 4096..(page + 1) * 4096)).collect()
}

fn stripe(at: (u32, u32), len: u32) -> AlignedBuf {
    let mut bytes = AlignedBuf::zeroed(len as usize);
    bytes.iter_mut().step_by(2048).for_each(|byte| *byte = (1 + at.0 * 16 + at.1) as u8);
    bytes
}

fn write(encrypted: bool) -> Vec<Arc<MemDrive>> {
    let mem = blank();
    let sizes =
        Sizes { chunk_bytes: Some(4 << 10), segment_bytes: Some(64 << 10), journal_bytes: Some(256 << 10) };
    let options =
        FormatOptions { array: 7, sizes, opening: opening(encrypted, 3), ..FormatOptions::default() };
    let shelf = now(DriveShelf::format(drives(&mem), options)).unwrap();
    for number in 1..=BATCHES.len() {
        let head = Bytes::from(format!("head {number}"));
        call(|done| shelf.append(head, body(number), done)).unwrap();
    }
    let len = shelf.layout().stripe_bytes;
    for at in STRIPES {
        let bytes = Arc::new(stripe(at, len));
        call(|done| Shelf::write(&*shelf, SegmentId(at.0), at.1 * len, bytes, done)).unwrap();
    }
    call(|done| shelf.sync(done)).unwrap();
    let superblock = Superblock { journal_from: JournalPos(2), payload: Bytes::from_static(b"root") };
    call(|done| shelf.write_superblock(superblock, done)).unwrap();
    mem
}

fn check(mem: &[Arc<MemDrive>], encrypted: bool) {
    let shelf = now(DriveShelf::open(drives(mem), opening(encrypted, 4))).unwrap();
    let superblock = shelf.superblock().unwrap();
    assert_eq!((superblock.journal_from, &superblock.payload[..]), (JournalPos(2), &b"root"[..]));
    let batches = call(|done| shelf.recover(JournalPos(2), done)).unwrap();
    assert_eq!(batches.iter().map(|batch| batch.pos.0).collect::<Vec<_>>(), [2, 3, 4]);
    for batch in batches {
        let number = batch.pos.0 as usize;
        assert_eq!(batch.head, format!("head {number}"));
        assert_eq!(batch.body, body(number).concat());
    }
    let len = shelf.layout().stripe_bytes;
    for at in STRIPES {
        let read = call(|done| shelf.read(SegmentId(at.0), at.1 * len, len, done)).unwrap();
        assert!(read == stripe(at, len)[..], "stripe {} of segment {}", at.1, at.0);
    }
    assert_eq!(shelf.status().tolerates, 2);
    let pos = call(|done| shelf.append(Bytes::from_static(b"next"), Vec::new(), done)).unwrap();
    assert_eq!(pos, JournalPos(5));
}

const FORMAT_5: [(&[u8], bool); 2] = [
    (include_bytes!("../media/format-5.bin"), false),
    (include_bytes!("../media/format-5-encrypted.bin"), true),
];

#[test]
fn arrays_of_format_5_open_with_all_that_is_in_them() {
    for (fixture, encrypted) in FORMAT_5 {
        check(&load(fixture), encrypted);
    }
}

#[test]
fn arrays_of_format_5_open_without_any_two_drives() {
    for (fixture, encrypted) in FORMAT_5 {
        for (one, other) in [(0, 1), (2, 4), (3, 0)] {
            let mem = load(fixture);
            let left = mem.iter().enumerate().filter(|(index, _)| ![one, other].contains(index));
            let left = left.map(|(_, drive)| drive.clone() as Arc<dyn Drive>).collect();
            let shelf = now(DriveShelf::open(left, opening(encrypted, 4))).unwrap();
            let batches = call(|done| shelf.recover(JournalPos(2), done)).unwrap();
            assert_eq!(batches.len(), 3, "without {one} and {other}");
            let len = shelf.layout().stripe_bytes;
            for at in STRIPES {
                let read = call(|done| shelf.read(SegmentId(at.0), at.1 * len, len, done)).unwrap();
                assert!(read == stripe(at, len)[..], "without {one} and {other}");
            }
        }
    }
}

#[test]
#[ignore = "writes the fixtures of the current format"]
fn write_fixtures() {
    for (name, encrypted) in [("format-5.bin", false), ("format-5-encrypted.bin", true)] {
        let path = format!("{}/tests/media/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, save(&write(encrypted))).unwrap();
    }
}
