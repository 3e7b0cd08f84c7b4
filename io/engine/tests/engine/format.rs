//! Old media open: a shelf written by each version of the format that is read is kept. Others are refused.
//!
//! `WRITE_FIXTURE=1 cargo test -p engine --test engine format` writes those of the versions that are written.

use crate::support::{MemShelf, World, data, options};
use block::{CopySegment, Disk, DiskId, Extent, Known, Ledger, Note, Op, Sequence};
use bytes::Bytes;
use engine::Options;
use shelf::Layout;

pub const LAYOUT: Layout = Layout {
    segment_bytes: 64 << 10,
    stripe_bytes: 4 << 10,
    segments: 48,
    journal_bytes: 256 << 10,
    batch_bytes: 32 << 10,
    superblock_bytes: 4096,
};

/// A shelf of an older format, which no array uses.
const V5: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/media/v5.bin");

/// A shelf of format 6.
pub const V6: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/media/v6.bin");

/// A shelf of format 7, in which a command of a front end is noted.
const V7: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/media/v7.bin");

/// A shelf of format 8, in which checkpoints write the deduplication index, by a program that wrote no cells to the journal.
const V8: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/media/v8.bin");

/// A shelf of format 8 with cells in its journal.
const V8_CELLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/media/v8-cells.bin");

/// The command that is noted there.
const NOTED: Sequence = Sequence { front: 5, number: 9, lowest: 9 };

/// Text that compresses well, and differs for each `n`.
fn text(n: usize, len: usize) -> Vec<u8> {
    let line = format!("line {n} of the fixture; ");
    line.into_bytes().into_iter().cycle().take(len).collect()
}

fn write(format: u32) -> Vec<u8> {
    let written = Options { formats: format..=format, ..options() };
    let mut world = World::open_with(MemShelf::new(LAYOUT), written);
    world.create(1, 512, 1 << 30);
    world.create(2, 4096, 1 << 40);
    for n in 0..10 {
        world.write(1, n as u64 * 5000, &text(n, 10_240));
    }
    world.write(2, 1 << 27, &text(3, 8192));
    world.settle();
    let copy = |to| CopySegment {
        source: DiskId(1),
        source_lba: 0,
        target: DiskId(1),
        target_lba: to,
        blocks: 4096,
    };
    world.execute(1, Op::Copy(vec![copy(1 << 20)])).expect("copied");
    world.execute(1, Op::SaveState(Bytes::from_static(b"reservations"))).expect("saved");
    let engine = world.engine.clone();
    world.run(engine.clone_volume(DiskId(1), DiskId(3), 0)).expect("cloned");
    let sources = [(DiskId(1), DiskId(4)), (DiskId(2), DiskId(5))];
    world.run(engine.snapshot(&sources, &[], 1000, 2000)).expect("snapshots taken");
    world.write(1, 5000, &text(50, 4096));
    world.run(engine.restore_volume(DiskId(2), DiskId(5))).expect("restored");
    world.run(engine.put_record("a/b", Some(Bytes::from_static(b"value")))).expect("put");
    // Enough to have a checkpoint in the middle and a journal after it.
    for n in 0..30 {
        world.write(1, 40_960 + n as u64 * 8, &text(100 + n, 4096));
    }
    world.execute(3, Op::Unmap(vec![Extent::new(5000, 3)])).expect("unmapped");
    world.execute(2, Op::Fill { extent: Extent::new(0, 600), block: data(&[0; 4096]) }).expect("filled");
    if format >= engine::NOTING_VERSION {
        let op = Op::Write { lba: 1 << 16, data: data(&text(9, 4096)) };
        let noted = world.volume(1).execute_noted(op, Note { sequence: NOTED, whole: true });
        world.run(noted).expect("written");
    }
    world.shelf.export()
}

/// The shelf of a fixture, which may be written before.
fn fixture(path: &str, format: u32) -> World {
    if path != V8 && std::env::var_os("WRITE_FIXTURE").is_some() {
        std::fs::write(path, write(format)).expect("written");
    }
    let bytes = std::fs::read(path).expect("the fixture is in the tree");
    let world = World::open(MemShelf::import(LAYOUT, &bytes));
    assert_eq!(world.engine.format(), format);
    world
}

#[test]
fn media_of_version_6_open() {
    verify(fixture(V6, 6));
}

#[test]
fn media_of_version_7_open() {
    verify_noted(fixture(V7, 7));
}

#[test]
fn media_of_version_8_open() {
    for (path, has_cells) in [(V8, false), (V8_CELLS, true)] {
        let world = fixture(path, 8);
        let heads = world.shelf.export();
        assert_eq!(heads.windows(4).any(|four| four == b"ALJ2"), has_cells);
        verify_indexed(world);
    }
}

/// [`verify_noted`], and the deduplication index.
fn verify_indexed(mut world: World) {
    let unique = world.engine.space().unique;
    world.write(1, 1 << 18, &text(3, 10_240));
    world.write(1, 1 << 18, &text(3, 8192));
    world.settle();
    assert!(world.engine.space().unique <= unique + 4096, "the index knows what was written");
    verify_noted(world);
}

/// [`verify`], and the noted command.
fn verify_noted(mut world: World) {
    assert_eq!(world.engine.look_up(NOTED), Known::Done);
    assert_eq!(world.read(1, 1 << 16, 8), text(9, 4096));
    verify(world);
}

/// What [`write`] wrote is there, and can be changed.
fn verify(mut world: World) {
    world.check();
    assert_eq!(world.read(1, 5000, 8), text(50, 4096));
    assert_eq!(world.read(4, 5000, 20), text(1, 10_240));
    let info = world.engine.disk(DiskId(4)).expect("the snapshot is there");
    assert_eq!((info.parent, info.created, info.kept_until), (Some(DiskId(1)), 1000, 2000));
    assert!(info.snapshot && info.read_only);
    for n in 2..8 {
        assert_eq!(world.read(1, n as u64 * 5000, 20), text(n, 10_240), "text {n}");
    }
    assert_eq!(world.read(1, 1 << 20, 20), text(0, 10_240));
    assert_eq!(world.read(1, 40_960 + 29 * 8, 8), text(129, 4096));
    assert_eq!(world.read(2, 1 << 27, 2), text(3, 8192));
    assert_eq!(world.read(3, 5000, 4), [vec![0; 3 * 512], text(1, 2048)[1536..].to_vec()].concat());
    assert_eq!(Disk::state(&*world.volume(1)), "reservations");
    assert_eq!(world.engine.records("a/"), [("a/b".to_owned(), Bytes::from_static(b"value"))]);
    assert_eq!(Disk::space(&*world.volume(2)).mapped, 602 * 4096);
    world.write(1, 0, &text(7, 512));
    world.settle();
    world.check();
}

#[test]
fn media_of_another_version_are_refused_by_name() {
    let newer = {
        let mut bytes = std::fs::read(V6).expect("the fixture is in the tree");
        let at = bytes.windows(4).position(|four| four == b"ALE1").expect("a superblock");
        bytes[at + 8..at + 12].copy_from_slice(&9u32.to_le_bytes());
        bytes
    };
    let older = std::fs::read(V5).expect("the fixture is in the tree");
    for (bytes, format, advice) in [(newer, "format 9", "newer"), (older, "format 5", "older")] {
        let shelf = MemShelf::import(LAYOUT, &bytes);
        let why = World::try_open(shelf, options()).err().expect("refused").to_string();
        assert!(why.contains(format) && why.contains("format 6") && why.contains(advice), "{why}");
    }
}
