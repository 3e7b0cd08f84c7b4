#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;

#[test]
fn a_key_is_made_when_nothing_is_sealed_and_never_in_the_place_of_anything() {
    let folder = tempfile::tempdir().unwrap();
    let (data, path) = (folder.path(), folder.path().join(SECRETS));
    let said = secrets_key(data, true).unwrap_err();
    assert!(said.contains("missing") && !path.exists(), "{said}");
    let key = secrets_key(data, false).unwrap();
    assert_eq!(secrets_key(data, true), Ok(key));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    for length in [0, 31, 33, 2 << 20] {
        fs::write(&path, vec![7; length]).unwrap();
        for sealed in [false, true] {
            assert!(secrets_key(data, sealed).unwrap_err().contains("damaged"), "{length}");
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), length as u64);
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(secrets_key(data, false).unwrap_err().contains("can't be read"));
    assert!(path.is_dir());
}

#[test]
fn a_folder_that_others_can_write_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let mode = |bits| fs::set_permissions(data, Permissions::from_mode(bits)).unwrap();
    drop(lock(data).unwrap());
    assert_eq!(fs::metadata(data).unwrap().mode() & 0o7777, 0o700);
    for bits in [0o777, 0o770, 0o720, 0o702] {
        mode(bits);
        let said = format!("{:#}", lock(data).unwrap_err());
        assert!(said.contains("others can write") && said.contains("chmod 700"), "{said}");
        assert_eq!(fs::metadata(data).unwrap().mode() & 0o7777, bits, "nothing is changed");
    }
    mode(0o755);
    drop(lock(data).unwrap());
    // As a new file system is mounted.
    mode(0o1777);
    drop(lock(data).unwrap());
    assert_eq!(fs::metadata(data).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn a_folder_is_locked_by_one_even_if_its_lock_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lock")).unwrap();
    let held = lock(folder.path()).unwrap();
    let said = format!("{:#}", lock(folder.path()).unwrap_err());
    assert!(said.contains("another ashlard"), "{said}");
    drop(held);
    assert!(lock(folder.path()).is_ok());
}

#[test]
fn nobody_looks_into_the_memory_of_the_process() {
    keep_private();
    assert_eq!(rustix::process::dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
}
