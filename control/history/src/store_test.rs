#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use crate::{Attempt, Condition, ExpiringKind, NewEvent, Recorder, Sample, Severity};
use std::io::Write;
use std::process::Command;

/// A file system of a few megabytes.
struct SmallFileSystem(tempfile::TempDir);

impl SmallFileSystem {
    /// `None`, with a reason on stderr, where mounting is not permitted.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m,mode=700", "ashlar-test"])
            .arg(folder.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(folder)),
            other => {
                eprintln!("skipped: no file system can be mounted here: {other:?}");
                None
            }
        }
    }

    /// Uses all free space.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.0.path().join("filler")).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
    }

    fn empty(&self) {
        std::fs::remove_file(self.0.path().join("filler")).unwrap();
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn event(time: u64) -> NewEvent {
    let (kind, message) = ("volume.created".into(), "x".repeat(2000));
    NewEvent { time, severity: Severity::Info, kind, message, noun: None, name: None }
}

fn attempt(action: &str) -> Attempt {
    let (user, origin, detail) = ("ada".into(), "local".into(), String::new());
    Attempt { time: 7, user, origin, action: action.into(), detail }
}

fn condition() -> Condition {
    let (kind, message) = ("space".into(), "70 %".into());
    Condition { kind, severity: Severity::Warning, message, noun: None, name: None }
}

fn times(store: &Store) -> Vec<u64> {
    let page = Page { before: None, limit: 10_000 };
    store.events(&page, Severity::Info).unwrap().into_iter().map(|it| it.event.time).collect()
}

#[test]
fn a_file_that_is_not_a_history_is_set_aside_and_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let newer = Connection::open(folder.path().join("newer")).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    let newer = std::fs::read(folder.path().join("newer")).unwrap();
    let other = Connection::open(folder.path().join("other")).unwrap();
    other.execute_batch("CREATE TABLE event (mine)").unwrap();
    drop(other);
    let other = std::fs::read(folder.path().join("other")).unwrap();
    let texts = [b"this is no database, and it is long enough".repeat(100), b"short".to_vec(), newer, other];
    for (number, text) in (1..).zip(&texts) {
        std::fs::write(&path, text).unwrap();
        let store = Store::open(&path);
        assert_eq!((store.outage(), store.take_notices().len()), (None, 1), "{number}");
        assert!(store.take_notices().is_empty() && times(&store).is_empty());
        store.add_event(&event(number)).unwrap();
        drop(store);
        assert_eq!(times(&Store::open(&path)), [number]);
        std::fs::remove_file(&path).unwrap();
    }
    for (number, text) in (1..).zip(&texts) {
        let aside = folder.path().join(format!("history.db.broken-{number}"));
        assert!(std::fs::read(aside).unwrap() == *text, "{number} is unchanged");
    }
}

#[test]
fn without_a_usable_file_the_history_is_in_memory_and_is_copied_to_the_file_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    std::fs::create_dir(&path).unwrap();
    let store = Store::open(&path);
    assert!(store.outage().is_some() && path.is_dir());
    store.add_event(&event(1)).unwrap();
    store.end_audit(store.begin_audit(&attempt("CreateVolume")).unwrap(), None, "[]").unwrap();
    store.raise(2, "space", &condition()).unwrap().unwrap();
    store.retry_file(100);
    assert!(store.outage().is_some(), "the path is still a folder");
    std::fs::remove_dir(&path).unwrap();
    store.retry_file(105);
    assert!(store.outage().is_some(), "retries are spaced in time");
    store.retry_file(110);
    assert_eq!(store.outage(), None);
    drop(store);
    let store = Store::open(&path);
    assert_eq!(times(&store), [1]);
    assert_eq!(store.alerts(false).unwrap().len(), 1);
    assert_eq!(store.audits(&Page { before: None, limit: 9 }).unwrap()[0].outcome, "done");
}

#[test]
fn a_full_file_system_causes_no_error_and_no_loss() {
    let Some(small) = SmallFileSystem::mount() else { return };
    let path = small.0.path().join("history.db");
    let store = Store::open(&path);
    store.add_event(&event(0)).unwrap();
    let begun = store.begin_audit(&attempt("CreateVolume")).unwrap();
    store.put_expiring(ExpiringKind::Session, &[1; 32], 1000, "stays", 10).unwrap();
    store.put_expiring(ExpiringKind::Session, &[2; 32], 1000, "ends", 10).unwrap();
    let mut recorder = Recorder::open(&store, 0).unwrap();
    small.fill();
    let mut last = 0;
    while store.outage().is_none() {
        last += 1;
        store.add_event(&event(last)).unwrap();
        assert!(last < 10_000, "the file system is full");
    }
    for time in 0..40 {
        let sample = [("array".to_owned(), Sample { millis: 1000, ..Sample::default() })];
        recorder.add(&store, time, sample).unwrap();
    }
    store.end_audit(begun, None, "[1]").unwrap();
    let later = store.begin_audit(&attempt("DeleteVolume")).unwrap();
    store.end_audit(later, Some("taken"), "[]").unwrap();
    store.raise(5, "space", &condition()).unwrap().unwrap();
    store.remove_expiring(ExpiringKind::Session, &[2; 32]).unwrap();
    assert_eq!(times(&store), (0..=last).rev().collect::<Vec<_>>(), "the newest events can be read");
    store.retry_file(100);
    assert!(store.outage().is_some(), "it is still full");
    small.empty();
    store.retry_file(110);
    assert_eq!(store.outage(), None);
    store.add_event(&event(last + 1)).unwrap();
    drop(store);

    let store = Store::open(&path);
    assert_eq!(store.outage(), None);
    assert_eq!(times(&store), (0..=last + 1).rev().collect::<Vec<_>>(), "each once, in order");
    let trail = store.audits(&Page { before: None, limit: 9 }).unwrap();
    let trail: Vec<_> = trail.iter().map(|it| (it.attempt.action.as_str(), it.outcome.as_str())).collect();
    assert_eq!(trail, [("DeleteVolume", "refused"), ("CreateVolume", "done")]);
    assert_eq!(store.alerts(false).unwrap().len(), 1);
    assert_eq!(store.all_expiring(ExpiringKind::Session, 10).unwrap(), [([1; 32], "stays".to_owned())]);
}

#[test]
fn a_history_opens_on_a_full_file_system() {
    let Some(small) = SmallFileSystem::mount() else { return };
    let path = small.0.path().join("history.db");
    small.fill();
    let store = Store::open(&path);
    assert!(store.outage().is_some());
    store.add_event(&event(1)).unwrap();
    small.empty();
    store.retry_file(100);
    assert_eq!(store.outage(), None);
    drop(store);
    small.fill();
    let store = Store::open(&path);
    assert_eq!(times(&store), [1], "stored entries can be read");
    let before = store.alerts(false).unwrap().len();
    store.raise(3, "space", &condition()).unwrap().unwrap();
    assert_eq!(store.alerts(false).unwrap().len(), before + 1);
}
