//! Objects that are lost, damaged or of another array, and pools that are full. What needs nothing of the model runs on a
//! real cluster as well.

use super::{Ground, call, format, model, now, opening, small};
use bytes::Bytes;
use rados::Store;
use rados::memory::Cluster;
use rados::objects::{Name, Operation, Pool, Step};
use shelf::{AlignedBuf, Error, JournalPos, SegmentId, Shelf, Superblock};
use std::sync::Arc;

fn append(store: &Store, number: u8) -> shelf::Result<JournalPos> {
    call(|done| store.append(Bytes::from(vec![number; 5000]), Vec::new(), done))
}

fn objects(ground: &Ground, prefix: &str) -> Vec<Name> {
    let mut found = Vec::new();
    for pool in [Pool::Meta, Pool::Data] {
        let names = now(ground().list(pool)).unwrap();
        let names = names.into_iter().filter(|name| name.starts_with(prefix));
        found.extend(names.map(|name| Name { pool, name }));
    }
    // The pools may be one.
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found.dedup_by(|one, other| one.name == other.name);
    found
}

/// Does something to an object that the store would never do.
fn interfere(ground: &Ground, name: &Name, step: Step) {
    now(ground().operate(name, Operation { steps: vec![step], force: true })).unwrap();
}

fn lose(ground: &Ground, name: &Name) {
    interfere(ground, name, Step::Remove);
}

fn tamper(ground: &Ground, name: &Name, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = now(ground().read(name, 0, 1 << 20)).unwrap().to_vec();
    change(&mut bytes);
    interfere(ground, name, Step::WriteFull(bytes.into()));
}

fn recover(ground: &Ground) -> shelf::Result<usize> {
    let store = now(Store::open(ground(), opening(99, false)))?;
    call(|done| store.recover(JournalPos(1), done)).map(|batches| batches.len())
}

/// A damaged or lost object of the journal is named, and nothing is taken for its end.
pub fn journal(fresh: fn() -> Ground) {
    let whole = || {
        let cluster = fresh();
        let store = format(cluster(), false);
        (1..=20).for_each(|number| assert_eq!(append(&store, number).unwrap(), JournalPos(number.into())));
        cluster
    };
    let names = objects(&whole(), "jnl.");
    assert!(names.len() > 4, "lanes of several objects: {names:?}");
    for name in &names {
        for damage in 0..3 {
            let cluster = whole();
            match damage {
                0 => lose(&cluster, name),
                1 => tamper(&cluster, name, |bytes| bytes[300] ^= 1),
                _ => tamper(&cluster, name, |bytes| bytes.truncate(bytes.len() - 4096)),
            }
            let outcome = recover(&cluster);
            // Only its own acknowledgement shows that there was a last batch.
            let last = outcome == Ok(19) && damage != 1;
            assert!(
                last || matches!(outcome, Err(Error::Corrupt { .. })),
                "{} {damage}: {outcome:?}",
                name.name
            );
        }
    }
    assert_eq!(recover(&whole()), Ok(20));
}

/// One superblock that is damaged costs nothing, and two are named.
pub fn superblocks(fresh: fn() -> Ground) {
    let cluster = fresh();
    let store = format(cluster(), false);
    for round in 1..=3 {
        let root = Superblock { journal_from: JournalPos(1), payload: Bytes::from(vec![round; 9]) };
        call(|done| store.write_superblock(root, done)).unwrap();
    }
    let both = objects(&cluster, "super.");
    // The newest was written last, to the place of even numbers.
    tamper(&cluster, &both[1], |bytes| bytes[40] ^= 1);
    let opened = now(Store::open(cluster(), opening(2, false))).unwrap();
    assert_eq!(opened.superblock().unwrap().payload, vec![3; 9]);
    tamper(&cluster, &both[0], |bytes| bytes[40] ^= 1);
    let refused = now(Store::open(cluster(), opening(3, false))).err().unwrap();
    assert!(refused.to_string().contains("neither superblock"), "{refused}");
}

/// A namespace with an array is not formatted, and one without is not opened.
pub fn foreign(fresh: fn() -> Ground) {
    let cluster = fresh();
    let refused = now(Store::open(cluster(), opening(1, false))).err().unwrap();
    assert!(refused.to_string().contains("there is no array"), "{refused}");
    drop(format(cluster(), false));
    let refused = now(Store::format(cluster(), small(), opening(2, false))).err().unwrap();
    assert!(refused.to_string().contains("already"), "{refused}");
    let foreign = rados::OpenOptions { array: 6, ..opening(3, false) };
    let refused = now(Store::open(cluster(), foreign)).err().unwrap();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    assert_eq!(recover(&cluster), Ok(0), "it is unchanged");
}

fn stripe(store: &Store, byte: u8) -> Arc<AlignedBuf> {
    let mut stripe = AlignedBuf::zeroed(store.layout().stripe_bytes as usize);
    stripe.fill(byte);
    Arc::new(stripe)
}

#[test]
fn a_full_pool_refuses_room_and_takes_what_was_promised() {
    let cluster = Cluster::default();
    let store = format(cluster.client(), false);
    cluster.set_capacity(cluster.stored() + 3 * 8192);
    for index in 0..8 {
        let (each, bytes) = (store.layout().stripe_bytes, stripe(&store, index as u8));
        call(|done| store.write(SegmentId(0), index * each, bytes, done)).unwrap();
    }
    assert_eq!((store.room().protected, store.room().any), (0, 1), "the reserve is left to cleaning");
    append(&store, 1).unwrap();
    store.discard(SegmentId(0));
    cluster.set_capacity(1 << 30);
    now(store.measure());
    assert!(store.room().any > 1000);
}

/// A damaged page is corrupt, and the others are read.
pub fn page(fresh: fn() -> Ground) {
    let cluster = fresh();
    let store = format(cluster(), false);
    let each = store.layout().stripe_bytes;
    for index in 0..8 {
        let bytes = stripe(&store, index as u8);
        call(|done| store.write(SegmentId(3), index * each, bytes, done)).unwrap();
    }
    let part = &objects(&cluster, "seg.")[1];
    tamper(&cluster, part, |bytes| bytes[8192 + 7] ^= 1);
    for index in 0..8 {
        let read = call(|done| store.read(SegmentId(3), index * each + 5, 4000, done));
        match index {
            5 => assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}"),
            index => assert!(read.unwrap().iter().all(|byte| *byte == index as u8)),
        }
    }
}

#[test]
fn damage_is_named_and_costs_no_more_than_what_it_hit() {
    for test in [journal, superblocks, foreign, page] {
        test(model);
    }
}
