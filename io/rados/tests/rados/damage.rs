//! Objects that are lost, damaged or of somebody else, and pools that are full.

use super::{call, format, now, opening, small};
use bytes::Bytes;
use rados::Store;
use rados::memory::Cluster;
use rados::objects::Name;
use shelf::{AlignedBuf, Error, JournalPos, SegmentId, Shelf, Superblock};
use std::sync::Arc;

fn append(store: &Store, number: u8) -> shelf::Result<JournalPos> {
    call(|done| store.append(Bytes::from(vec![number; 5000]), Vec::new(), done))
}

fn objects(cluster: &Cluster, prefix: &str) -> Vec<Name> {
    cluster.names().into_iter().filter(|name| name.name.starts_with(prefix)).collect()
}

fn recover(cluster: &Cluster) -> shelf::Result<usize> {
    let store = now(Store::open(cluster.client(), opening(99, false)))?;
    call(|done| store.recover(JournalPos(1), done)).map(|batches| batches.len())
}

#[test]
fn a_lost_or_damaged_object_of_the_journal_is_named_and_nothing_is_taken_for_its_end() {
    let whole = || {
        let cluster = Cluster::default();
        let store = format(&cluster, false);
        (1..=20).for_each(|number| assert_eq!(append(&store, number).unwrap(), JournalPos(number.into())));
        cluster
    };
    let names = objects(&whole(), "jnl.");
    assert!(names.len() > 4, "lanes of several objects: {names:?}");
    for name in &names {
        for damage in 0..3 {
            let cluster = whole();
            match damage {
                0 => cluster.lose(name),
                1 => cluster.tamper(name, |bytes| bytes[300] ^= 1),
                _ => cluster.tamper(name, |bytes| bytes.truncate(bytes.len() - 4096)),
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

#[test]
fn one_superblock_that_is_damaged_costs_nothing_and_two_are_named() {
    let cluster = Cluster::default();
    let store = format(&cluster, false);
    for round in 1..=3 {
        let root = Superblock { journal_from: JournalPos(1), payload: Bytes::from(vec![round; 9]) };
        call(|done| store.write_superblock(root, done)).unwrap();
    }
    let both = objects(&cluster, "super.");
    // The newest was written last, to the place of even numbers.
    cluster.tamper(&both[1], |bytes| bytes[40] ^= 1);
    let opened = now(Store::open(cluster.client(), opening(2, false))).unwrap();
    assert_eq!(opened.superblock().unwrap().payload, vec![3; 9]);
    cluster.tamper(&both[0], |bytes| bytes[40] ^= 1);
    let refused = now(Store::open(cluster.client(), opening(3, false))).err().unwrap();
    assert!(refused.to_string().contains("neither superblock"), "{refused}");
}

#[test]
fn a_namespace_with_an_array_is_not_formatted_and_one_without_is_not_opened() {
    let cluster = Cluster::default();
    let refused = now(Store::open(cluster.client(), opening(1, false))).err().unwrap();
    assert!(refused.to_string().contains("there is no array"), "{refused}");
    drop(format(&cluster, false));
    let refused = now(Store::format(cluster.client(), small(), opening(2, false))).err().unwrap();
    assert!(refused.to_string().contains("already"), "{refused}");
    let foreign = rados::OpenOptions { array: 6, ..opening(3, false) };
    let refused = now(Store::open(cluster.client(), foreign)).err().unwrap();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    assert_eq!(recover(&cluster), Ok(0), "it is as before");
}

fn stripe(store: &Store, byte: u8) -> Arc<AlignedBuf> {
    let mut stripe = AlignedBuf::zeroed(store.layout().stripe_bytes as usize);
    stripe.fill(byte);
    Arc::new(stripe)
}

#[test]
fn a_full_pool_refuses_room_and_takes_what_was_promised() {
    let cluster = Cluster::default();
    let store = format(&cluster, false);
    cluster.set_capacity(cluster.stored() + 3 * 8192);
    for index in 0..8 {
        let (each, bytes) = (store.layout().stripe_bytes, stripe(&store, index as u8));
        call(|done| store.write(SegmentId(0), index * each, bytes, done)).unwrap();
    }
    assert_eq!(store.room().any, 0);
    append(&store, 1).unwrap();
    store.discard(SegmentId(0));
    cluster.set_capacity(1 << 30);
    now(store.measure());
    assert!(store.room().any > 1000);
}

#[test]
fn a_damaged_page_is_corrupt_and_the_others_are_read() {
    let cluster = Cluster::default();
    let store = format(&cluster, false);
    let each = store.layout().stripe_bytes;
    for index in 0..8 {
        let bytes = stripe(&store, index as u8);
        call(|done| store.write(SegmentId(3), index * each, bytes, done)).unwrap();
    }
    let part = &objects(&cluster, "seg.")[1];
    cluster.tamper(part, |bytes| bytes[8192 + 7] ^= 1);
    for index in 0..8 {
        let read = call(|done| store.read(SegmentId(3), index * each + 5, 4000, done));
        match index {
            5 => assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}"),
            index => assert!(read.unwrap().iter().all(|byte| *byte == index as u8)),
        }
    }
}
