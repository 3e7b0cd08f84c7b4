//! Keys, growth, and what is said of a namespace before it is used.

use super::{Ground, format, model, now, opening, small};
use rados::memory::Cluster;
use rados::objects::{Name, Operation, Pool, Step};
use rados::{Contents, FormatOptions, OpenOptions, Store, contents};
use shelf::pool::{KEY_BYTES, KeySource, Pool as _};
use shelf::{Error, JournalPos, Shelf, wait};
use std::time::Duration;

/// The key of an array is replaced, and nothing opens without it.
pub fn keys(fresh: fn() -> Ground) {
    let ground = fresh();
    let store = format(ground(), true);
    let refused = now(Store::open(ground(), opening(2, false))).err().unwrap();
    assert!(refused.to_string().contains("no key was given"), "{refused}");
    let keys = store.keys().unwrap();
    now(keys.rewrap(KeySource::File, &[1; KEY_BYTES], [2; 12])).unwrap();
    assert!(keys.wrapped().unwrap().opens(&[1; KEY_BYTES]));
    let envelope = now(rados::read_envelope(&*ground(), 5)).unwrap().unwrap();
    let key = envelope.open(&[1; KEY_BYTES]).unwrap();
    assert!(envelope.open(&[8; KEY_BYTES]).is_none(), "the old one is of no use");
    let reopened = OpenOptions { key: Some((key, envelope.clone())), ..opening(3, false) };
    now(Store::open(ground(), reopened)).unwrap();
    let late = now(rados::replace_envelope(&*ground(), &envelope)).err().unwrap();
    assert!(late.to_string().contains("at the same time"), "{late}");
    now(rados::replace_envelope(&*ground(), &envelope.erased())).unwrap();
    let refused = now(Store::open(ground(), opening(4, true))).err().unwrap();
    assert!(refused.to_string().contains("crypto-erase"), "{refused}");
    let plain = fresh();
    drop(format(plain(), false));
    let refused = now(Store::open(plain(), opening(2, true))).err().unwrap();
    assert!(refused.to_string().contains("not encrypted"), "{refused}");
}

/// A namespace is reported as blank, as an array's, or as something else's; a format that was interrupted counts as blank.
pub fn namespaces(fresh: fn() -> Ground) {
    let ground = fresh();
    let object = |name: &str| Name { pool: Pool::Meta, name: name.into() };
    let operate = |name: &str, steps: Vec<Step>| {
        now(ground().operate(&object(name), Operation { steps, force: false })).unwrap();
    };
    assert_eq!(now(contents(&*ground())), Ok(Contents::Blank));
    operate("photo", vec![Step::CreateExclusive]);
    assert_eq!(now(contents(&*ground())), Ok(Contents::Foreign { object: "photo".into() }));
    let refused = now(Store::format(ground(), small(), opening(1, true))).err().unwrap();
    assert!(refused.to_string().contains("photo"), "{refused}");
    operate("photo", vec![Step::Remove]);
    drop(format(ground(), true));
    assert_eq!(now(contents(&*ground())), Ok(Contents::Array { array: 5, sealed: true }));
    operate("super.0000.1", vec![Step::Remove]);
    assert_eq!(
        now(contents(&*ground())),
        Ok(Contents::Blank),
        "the second superblock is what a format ends with"
    );
    let store = format(ground(), true);
    let (done, appended) = wait();
    store.append(vec![1].into(), Vec::new(), done);
    now(appended).unwrap();
    operate("super.0000.1", vec![Step::Remove]);
    let found = now(contents(&*ground()));
    assert!(matches!(found, Err(Error::Corrupt { .. })), "{found:?}");
}

/// Opening an array through an overlay, as a check does, changes nothing of it.
pub fn overlay(fresh: fn() -> Ground) {
    let ground = fresh();
    let store = format(ground(), true);
    let append = |store: &Store, byte: u8| {
        let (done, appended) = wait();
        store.append(vec![byte; 3000].into(), Vec::new(), done);
        now(appended)
    };
    (1..10).for_each(|byte| assert!(append(&store, byte).is_ok()));
    let overlay = rados::Overlay::new(ground());
    let looked_at = now(Store::open(overlay.clone(), opening(2, true))).unwrap();
    let (done, recovered) = wait();
    looked_at.recover(JournalPos(1), done);
    assert_eq!(now(recovered).unwrap().len(), 9);
    append(&looked_at, 10).unwrap();
    drop(looked_at);
    let looked_at = now(Store::open(overlay, opening(3, true))).unwrap();
    let (done, recovered) = wait();
    looked_at.recover(JournalPos(1), done);
    assert_eq!(now(recovered).unwrap().len(), 10, "what was written is there for who has the overlay");
    append(&store, 10).expect("the owner has not noticed anything");
}

#[test]
fn a_check_leaves_everything_as_it_is() {
    overlay(model);
}

#[test]
fn keys_are_replaced_as_a_whole() {
    keys(model);
}

#[test]
fn a_namespace_is_examined_before_it_is_used() {
    namespaces(model);
}

#[test]
fn the_array_grows_with_the_pool_up_to_its_bound() {
    let cluster = Cluster::default();
    cluster.set_capacity(10 << 20);
    let options = OpenOptions { max_bytes: 400 << 16, ..opening(1, false) };
    let store = now(Store::format(cluster.client(), small(), options.clone())).unwrap();
    store.tick(Duration::from_secs(2));
    let before = store.layout().segments;
    // Segments of 64 KiB.
    assert!((100..160).contains(&before), "{before}");
    cluster.set_capacity(100 << 20);
    store.tick(Duration::from_millis(2100));
    assert_eq!(store.layout().segments, before, "it is asked once a second");
    store.tick(Duration::from_secs(4));
    assert_eq!(store.layout().segments, 400);
    drop(store);
    let store = now(Store::open(cluster.client(), OpenOptions { salt: 2, ..options })).unwrap();
    assert_eq!(store.layout().segments, 400, "a superblock has it");
    let (done, recovered) = wait();
    store.recover(JournalPos(1), done);
    assert!(now(recovered).unwrap().is_empty());
}

#[test]
fn a_stripe_that_the_pool_can_not_take_is_refused() {
    let options = FormatOptions { stripe_pages: 3, ..small() };
    let refused = now(Store::format(model()(), options, opening(1, false))).err().unwrap();
    assert!(refused.to_string().contains("multiples of 8192"), "{refused}");
}

#[test]
fn the_status_names_the_pools_and_how_full_each_is() {
    let cluster = Cluster::default();
    cluster.set_capacity(10 << 20);
    let store = now(Store::format(cluster.client(), small(), opening(1, false))).unwrap();
    let objects = store.status().objects.unwrap();
    let names: Vec<_> = objects.pools.iter().map(|pool| (&*pool.name, pool.journal, pool.segments)).collect();
    assert_eq!(names, [("meta", true, false), ("data", false, true)]);
    assert_eq!((objects.epoch, objects.pools[0].stored), (1, None), "it was not asked yet");
    assert!(objects.pools[1].available.is_some(), "whose room the array has");
    store.tick(Duration::from_secs(2));
    let pools = store.status().objects.unwrap().pools;
    let full: Vec<_> = pools.iter().map(|pool| pool.stored.zip(pool.available)).collect();
    assert!(full.iter().all(|pool| pool.is_some_and(|(_, available)| available <= 10 << 20)), "{full:?}");
}
