//! `ashlard check` and `check --repair` on the drives of a stopped array.

use crate::initiator::Session;
use crate::process::{check, check_with, drives, json, start};
use engine::media::{Target, tamper};
use raid::device::{self, Ring};
use raid::{DriveShelf, Opening};
use std::path::{Path, PathBuf};

const IQN: &str = "iqn.2026-01.test:repair";
const BLOCK_BYTES: usize = 512;
const WRITE_BYTES: usize = 4096;
/// Changes of media that are tried until one of them is a defect: some change nothing that matters.
const TRIES: u64 = 40;

/// An array with a volume whose data spread over several map pages, stopped.
fn stopped_array(data: &Path) {
    let daemon = start(data, &[]).unwrap();
    json(data, "volume create db --size 8GiB");
    json(data, &format!("host create h --iqn {IQN}"));
    json(data, "volume connect db --host h --lun 0");
    let portal = daemon.ready["portals"][0].as_str().unwrap();
    let mut session = Session::open(portal, IQN, daemon.ready["target_iqn"].as_str().unwrap());
    for number in 0..64_u64 {
        let text = format!("block {number} ").into_bytes().into_iter().cycle();
        let lba = number * (64 << 20) / BLOCK_BYTES as u64;
        session.write(lba, BLOCK_BYTES, &text.take(WRITE_BYTES).collect::<Vec<_>>());
    }
    assert!(daemon.stop().success());
}

fn contents(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths = drives(data);
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn restore(contents: &[(PathBuf, Vec<u8>)]) {
    for (path, bytes) in contents {
        std::fs::write(path, bytes).unwrap();
    }
}

/// Changes something under a right checksum.
fn change(data: &Path, target: Target, seed: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let ring = Ring::start().unwrap();
        let drives = drives(data).iter().map(|path| device::open(&ring, path).unwrap()).collect();
        let opening = Opening { salt: seed, key: None };
        let shelf = DriveShelf::open(drives, opening).await.unwrap();
        let mut state = seed;
        let mut pick = |end: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) % end
        };
        tamper(shelf, target, &mut pick).await.unwrap();
    });
}

#[test]
fn a_repair_of_a_sound_array_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    stopped_array(data);
    let before = contents(data);
    let (sound, said) = check_with(data, &["--repair", "--yes"]);
    assert!(sound && said.contains("no defects: nothing was changed"), "{said}");
    assert!(contents(data) == before, "the drives were written");
    assert!(check(data).0);
}

#[test]
fn contradictions_are_shown_and_repaired_only_when_that_is_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    stopped_array(data);
    let sound = contents(data);
    for target in [Target::Map, Target::MapIndex, Target::Table] {
        let found = (0..TRIES).any(|seed| {
            restore(&sound);
            change(data, target, seed);
            !check(data).0
        });
        assert!(found, "{target:?}: no change was found by check");
        let tampered = contents(data);
        let (done, said) = check_with(data, &["--repair"]);
        assert!(!done && said.contains("--yes") && said.contains("nothing was changed"), "{said}");
        assert!(contents(data) == tampered, "{target:?}: written without a yes");

        let (done, said) = check_with(data, &["--repair", "--yes"]);
        assert!(done && said.contains("repaired: 0 defects are left"), "{target:?}: {said}");
        let (whole, said) = check(data);
        assert!(whole, "{target:?}: {said}");
        let daemon = start(data, &[]).unwrap();
        assert_eq!(json(data, "volume list")[0]["name"], "db");
        assert!(daemon.stop().success());
    }
}
