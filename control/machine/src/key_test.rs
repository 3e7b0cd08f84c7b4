use super::*;

const ARRAY: u128 = 7;

fn config(folder: &Path, words: &str) -> Config {
    let path = folder.join(words.split(' ').next().unwrap());
    fs::write(&path, format!("{words}\n")).unwrap();
    Config { passphrase_file: Some(path), ..Config::default() }
}

#[test]
fn a_key_file_is_made_once_and_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (_, envelope) = make(&Config::default(), folder.path(), ARRAY).unwrap();
    let path = folder.path().join(FILE);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let key = KeyFile(path.clone()).key(&envelope.source).unwrap().unwrap();
    assert!(envelope.open(&key).is_some());
    KeyFile(path.clone()).prepare().unwrap();
    assert_eq!(fs::read(&path).unwrap(), key);
    fs::write(&path, b"short").unwrap();
    assert!(format!("{:#}", KeyFile(path).key(&KeySource::File).unwrap_err()).contains("not 32"));
}

#[test]
fn a_passphrase_opens_what_it_locked_and_another_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let right = config(folder.path(), "correct horse battery");
    let (_, envelope) = make(&right, folder.path(), ARRAY).unwrap();
    let key = |config: &Config| config.named().unwrap().unwrap().key(&envelope.source).unwrap().unwrap();
    assert!(envelope.open(&key(&right)).is_some());
    assert!(envelope.open(&key(&config(folder.path(), "wrong horse battery"))).is_none());
    assert!(make(&config(folder.path(), "short"), folder.path(), ARRAY).is_err());
}

#[test]
fn what_media_ask_of_a_passphrase_is_bounded() {
    let provider = Passphrase("correct horse battery".into());
    for (memory, passes, lanes) in [(u32::MAX, 1, 1), (64, u32::MAX, 1), (64, 1, u32::MAX), (0, 0, 0)] {
        assert!(provider.key(&KeySource::Passphrase { salt: [1; 16], memory, passes, lanes }).is_err());
    }
    assert!(provider.key(&KeySource::File).unwrap().is_none());
}

fn locked(folder: &Path) -> (DataKey, Envelope) {
    make(&Config::default(), folder, ARRAY).unwrap()
}

#[test]
fn a_new_key_file_lies_beside_the_old_one_until_the_drives_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let (config, data) = (Config::default(), folder.path());
    let (key, envelope) = locked(data);
    let path = data.join(FILE);
    let old = fs::read(&path).unwrap();
    let (source, with) = next_key(&config, data, &envelope, &array::NewKey::File).unwrap();
    assert_eq!((fs::read(&path).unwrap(), fs::read(next(&path)).unwrap()), (old.clone(), with.to_vec()));
    // Cut short before any drive has it: the old one stays, and another change makes another key.
    settle(&config, data, &envelope).unwrap();
    assert_eq!(fs::read(&path).unwrap(), old);
    let (_, again) = next_key(&config, data, &envelope, &array::NewKey::File).unwrap();
    assert_ne!(with, again);
    // Cut short after the drives have it: the next start, or the next change, puts it in its place first.
    let changed = envelope.rewrap(&key, source, &again, [3; 12]);
    assert_eq!(files(&config, data).len(), 2);
    let (_, third) = next_key(&config, data, &changed, &array::NewKey::File).unwrap();
    assert_eq!((fs::read(&path).unwrap(), fs::read(next(&path)).unwrap()), (again.to_vec(), third.to_vec()));
    // Without the key that they have there is no change.
    fs::write(&path, [0; KEY_BYTES]).unwrap();
    let refused = next_key(&config, data, &changed, &array::NewKey::File).unwrap_err().to_string();
    assert!(refused.contains("put it there first"), "{refused}");
}

#[test]
fn a_lock_is_changed_for_one_of_its_kind() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let words = |words: &str| array::NewKey::Passphrase(array::Secret::new(words));
    let why = |config: &Config, envelope: &Envelope, new| {
        next_key(config, data, envelope, &new).unwrap_err().to_string()
    };
    let (_, by_file) = locked(data);
    assert!(why(&Config::default(), &by_file, words("correct horse battery")).contains("a key file"));
    let config = config(data, "correct horse battery");
    let (_, by_words) = make(&config, data, ARRAY).unwrap();
    assert!(why(&config, &by_words, array::NewKey::File).contains("another passphrase"));
    assert!(why(&config, &by_words, words("correct horse battery")).contains("already"));
    assert!(why(&config, &by_words, words("short")).contains("12 characters"));
    let (source, with) = next_key(&config, data, &by_words, &words("wrong horse battery")).unwrap();
    assert_eq!(Passphrase("wrong horse battery".into()).key(&source).unwrap(), Some(with));
}
