//! Starts as one of two controllers that share drives, which are refused before anything is written.

use crate::process::{ashlard, start};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Files in a folder as drives, which have no reservations.
fn files(folder: &Path, count: usize) -> Vec<PathBuf> {
    let file = |number: usize| {
        let path = folder.join(format!("drive{number}"));
        File::create(&path).unwrap().set_len(64 << 20).unwrap();
        path
    };
    (0..count).map(file).collect()
}

fn options(drives: &[PathBuf]) -> String {
    drives.iter().map(|path| format!("--drive {} ", path.display())).collect()
}

/// What a start as a controller says. Whatever it is, the drives are as they were.
fn refusal(folder: &Path, drives: &[PathBuf], more: &str) -> String {
    let contents = || drives.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>();
    let (before, words) = (contents(), format!("{}{more}", options(drives)));
    let words: Vec<_> = words.split_whitespace().collect();
    let error = start(&folder.join("controller"), &words).err().unwrap();
    assert!(before == contents(), "drives have changed: {error}");
    error
}

#[test]
fn drives_that_two_controllers_cannot_rely_on_are_refused_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let drives = files(folder.path(), 3);
    let error = refusal(folder.path(), &drives, "--controller 1");
    assert!(error.contains("no array yet") && error.contains("ashlard format"), "{error}");
    ashlard(&format!("format --data {} {}", folder.path().join("array").display(), options(&drives)));
    let error = refusal(folder.path(), &drives, "--controller 1");
    assert!(error.contains("drive0 has no persistent reservations"), "{error}");
    let error = refusal(folder.path(), &drives, "--controller 3");
    assert!(error.contains("the numbers 1 and 2"), "{error}");
    let error = refusal(folder.path(), &drives[1..], "--controller 1");
    assert!(error.contains("missing"), "{error}");
    // It is the array of one server still.
    start(&folder.path().join("array"), &options(&drives).split_whitespace().collect::<Vec<_>>())
        .unwrap()
        .stop();
}

#[test]
fn an_array_of_two_drives_is_not_shared() {
    let folder = tempfile::tempdir().unwrap();
    let drives = files(folder.path(), 2);
    ashlard(&format!("format --data {} {}", folder.path().join("array").display(), options(&drives)));
    let error = refusal(folder.path(), &drives, "--controller 1");
    assert!(error.contains("3 or more"), "{error}");
}

#[test]
fn fibre_channel_is_not_for_one_of_several_controllers() {
    let folder = tempfile::tempdir().unwrap();
    let drives = files(folder.path(), 3);
    let error = refusal(folder.path(), &drives, "--controller 1 --fc 21:00:00:24:ff:00:00:01@loopback");
    assert!(error.contains("--fc") && error.contains("--controller"), "{error}");
}
