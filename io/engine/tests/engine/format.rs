//! Old media open: a shelf written by each version of the format that is read is kept. Others are refused.
//!
//! `WRITE_FIXTURE=1 cargo test -p engine --test format` writes the one of the current version.

use crate::support::{MemShelf, World, data, options};
use block::{CopySegment, DiskId, Extent, Op};
use bytes::Bytes;
use shelf::Layout;

const LAYOUT: Layout = Layout {
    segment_bytes: 64 << 10,
    stripe_bytes: 4 << 10,
    segments: 48,
    journal_bytes: 256 << 10,
    batch_bytes: 32 << 10,
    superblock_bytes: 4096,
};

/// A shelf of an older format, which no array uses.
const V5: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/media/v5.bin");

const V6: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/media/v6.bin");

/// Text that compresses well, and differs for each `n`.
fn text(n: usize, len: usize) -> Vec<u8> {
    let line = format!("line {n} of the fixture; ");
    line.into_bytes().into_iter().cycle().take(len).collect()
}

fn write() -> Vec<u8> {
    let mut world = World::open(MemShelf::new(LAYOUT));
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
    world.shelf.export()
}

#[test]
fn media_of_version_6_open() {
    if std::env::var_os("WRITE_FIXTURE").is_some() {
        std::fs::write(V6, write()).expect("written");
    }
    let bytes = std::fs::read(V6).expect("the fixture is in the tree");
    let mut world = World::open(MemShelf::import(LAYOUT, &bytes));
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
    assert_eq!(block::Disk::state(&*world.volume(1)), "reservations");
    assert_eq!(world.engine.records("a/"), [("a/b".to_owned(), Bytes::from_static(b"value"))]);
    assert_eq!(block::Disk::space(&*world.volume(2)).mapped, 602 * 4096);
    world.write(1, 0, &text(7, 512));
    world.settle();
    world.check();
}

#[test]
fn media_of_another_version_are_refused_by_name() {
    let newer = {
        let mut bytes = std::fs::read(V6).expect("the fixture is in the tree");
        let at = bytes.windows(4).position(|four| four == b"ALE1").expect("a superblock");
        bytes[at + 8..at + 12].copy_from_slice(&8u32.to_le_bytes());
        bytes
    };
    let older = std::fs::read(V5).expect("the fixture is in the tree");
    for (bytes, format, advice) in [(newer, "format 8", "newer"), (older, "format 5", "older")] {
        let shelf = MemShelf::import(LAYOUT, &bytes);
        let why = World::try_open(shelf, options()).err().expect("refused").to_string();
        assert!(why.contains(format) && why.contains("format 6") && why.contains(advice), "{why}");
    }
}
