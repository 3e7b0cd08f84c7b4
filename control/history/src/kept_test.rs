use super::*;

fn key(number: u32) -> KeptKey {
    let mut key = [0; 32];
    key[..4].copy_from_slice(&number.to_le_bytes());
    key
}

#[test]
fn what_is_kept_is_there_after_a_restart_until_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let store = Store::open(&path);
    store.keep(Kept::Session, &key(1), 100, "old", 10).unwrap();
    store.keep(Kept::Session, &key(1), 200, "new", 10).unwrap();
    store.keep(Kept::Session, &key(2), 200, "gone", 10).unwrap();
    store.keep(Kept::Answer, &key(1), 50, "another kind", 10).unwrap();
    store.drop_kept(Kept::Session, &key(2)).unwrap();
    drop(store);
    let store = Store::open(&path);
    assert_eq!(store.all_kept(Kept::Session, 20).unwrap(), [(key(1), "new".to_owned())]);
    assert_eq!(store.kept(Kept::Answer, &key(1), 49).unwrap().as_deref(), Some("another kind"));
    assert_eq!(store.kept(Kept::Answer, &key(1), 50).unwrap(), None);
    assert_eq!(store.kept(Kept::Session, &key(2), 20).unwrap(), None);
}

#[test]
fn those_that_end_first_make_place() {
    let store = Store::in_memory();
    for number in 0..=MOST {
        store.keep(Kept::Answer, &key(number), 1000 + u64::from(number), "", 10).unwrap();
    }
    assert_eq!(store.all_kept(Kept::Answer, 10).unwrap().len(), MOST as usize);
    assert_eq!(store.kept(Kept::Answer, &key(0), 10).unwrap(), None);
    store.keep(Kept::Answer, &key(0), 5000, "", 1500).unwrap();
    assert_eq!(store.all_kept(Kept::Answer, 0).unwrap().len(), MOST as usize - 499, "what is over is gone");
}
