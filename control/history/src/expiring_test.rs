use super::*;

fn key(number: u32) -> ExpiringKey {
    let mut key = [0; 32];
    key[..4].copy_from_slice(&number.to_le_bytes());
    key
}

#[test]
fn an_entry_survives_a_restart_until_it_expires() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let store = Store::open(&path);
    store.put_expiring(ExpiringKind::Session, &key(1), 100, "old", 10).unwrap();
    store.put_expiring(ExpiringKind::Session, &key(1), 200, "new", 10).unwrap();
    store.put_expiring(ExpiringKind::Session, &key(2), 200, "gone", 10).unwrap();
    store.put_expiring(ExpiringKind::Reply, &key(1), 50, "another kind", 10).unwrap();
    store.remove_expiring(ExpiringKind::Session, &key(2)).unwrap();
    drop(store);
    let store = Store::open(&path);
    assert_eq!(store.all_expiring(ExpiringKind::Session, 20).unwrap(), [(key(1), "new".to_owned())]);
    assert_eq!(store.expiring(ExpiringKind::Reply, &key(1), 49).unwrap().as_deref(), Some("another kind"));
    assert_eq!(store.expiring(ExpiringKind::Reply, &key(1), 50).unwrap(), None);
    assert_eq!(store.expiring(ExpiringKind::Session, &key(2), 20).unwrap(), None);
}

#[test]
fn entries_that_expire_first_are_deleted_first() {
    let store = Store::in_memory();
    for number in 0..=MAX_ENTRIES {
        store.put_expiring(ExpiringKind::Reply, &key(number), 1000 + u64::from(number), "", 10).unwrap();
    }
    assert_eq!(store.all_expiring(ExpiringKind::Reply, 10).unwrap().len(), MAX_ENTRIES as usize);
    assert_eq!(store.expiring(ExpiringKind::Reply, &key(0), 10).unwrap(), None);
    store.put_expiring(ExpiringKind::Reply, &key(0), 5000, "", 1500).unwrap();
    assert_eq!(
        store.all_expiring(ExpiringKind::Reply, 0).unwrap().len(),
        MAX_ENTRIES as usize - 499,
        "expired entries are deleted"
    );
}
