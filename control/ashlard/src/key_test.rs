use super::*;

const ARRAY: u128 = 7;

fn args(folder: &Path, words: &str) -> KeyArgs {
    let path = folder.join(words.split(' ').next().unwrap());
    fs::write(&path, format!("{words}\n")).unwrap();
    KeyArgs { passphrase_file: Some(path), ..KeyArgs::default() }
}

#[test]
fn a_key_file_is_made_once_and_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (_, envelope) = make(&KeyArgs::default(), folder.path(), ARRAY).unwrap();
    let path = folder.path().join(DEFAULT);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let key = KeyFile(path.clone()).key(&envelope.lock).unwrap().unwrap();
    assert!(envelope.open(&key).is_some());
    KeyFile(path.clone()).prepare().unwrap();
    assert_eq!(fs::read(&path).unwrap(), key);
    fs::write(&path, b"short").unwrap();
    assert!(format!("{:#}", KeyFile(path).key(&Lock::File).unwrap_err()).contains("not 32"));
}

#[test]
fn a_passphrase_opens_what_it_locked_and_another_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let right = args(folder.path(), "correct horse battery");
    let (_, envelope) = make(&right, folder.path(), ARRAY).unwrap();
    let key = |args: &KeyArgs| args.named().unwrap().unwrap().key(&envelope.lock).unwrap().unwrap();
    assert!(envelope.open(&key(&right)).is_some());
    assert!(envelope.open(&key(&args(folder.path(), "wrong horse battery"))).is_none());
    assert!(make(&args(folder.path(), "short"), folder.path(), ARRAY).is_err());
}

#[test]
fn what_media_ask_of_a_passphrase_is_bounded() {
    let source = Passphrase("correct horse battery".into());
    for (memory, passes, lanes) in [(u32::MAX, 1, 1), (64, u32::MAX, 1), (64, 1, u32::MAX), (0, 0, 0)] {
        assert!(source.key(&Lock::Passphrase { salt: [1; 16], memory, passes, lanes }).is_err());
    }
    assert!(source.key(&Lock::File).unwrap().is_none());
}
