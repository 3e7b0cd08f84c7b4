//! An array that a release of an older format has made is served as it is, and raised when an operator says so.

use crate::initiator::Session;
use crate::process::{Daemon, fails, json, start};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const BLOCK: usize = 512;
/// The volume `db1`, and what of it the older release has written.
const VOLUME_BYTES: usize = 8 << 20;
const OLD_BYTES: usize = 1 << 20;
/// Parts of a drive that are written if they are not zero.
const CHUNK_BYTES: usize = 64 << 10;

/// The folder of an array that was killed: see the README of the media.
fn killed_array_of_format_6(folder: &Path) -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media/array-format-6.tar.zst");
    let mut archive = tar::Archive::new(zstd::Decoder::new(File::open(packed).unwrap()).unwrap());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = folder.join(entry.path().unwrap());
        if path.extension().is_some_and(|extension| extension == "drive") {
            unpack_sparse(&mut entry, &path);
        } else {
            assert!(entry.unpack_in(folder).unwrap(), "{}", path.display());
        }
    }
    folder.join("array")
}

/// Unpacks a drive without its zeros: the first sync of the daemon would wait until 256 MiB are on a busy disk.
fn unpack_sparse(entry: &mut tar::Entry<'_, impl Read>, path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(entry.size()).unwrap();
    let mut bytes = Vec::new();
    for at in (0..entry.size()).step_by(CHUNK_BYTES) {
        bytes.clear();
        entry.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut bytes).unwrap();
        if bytes.iter().any(|byte| *byte != 0) {
            file.write_all_at(&bytes, at).unwrap();
        }
    }
}

fn old_content() -> Vec<u8> {
    let lines = (0..).flat_map(|line: u32| format!("line {line:08} of the old array\n").into_bytes());
    lines.take(OLD_BYTES).chain(std::iter::repeat(0)).take(VOLUME_BYTES).collect()
}

fn open(daemon: &Daemon) -> Session {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Session::open(&text(&daemon.ready["portals"][0]), IQN, &text(&daemon.ready["target_iqn"]))
}

/// Active and newest format of the engine's data.
fn formats(data: &Path) -> (Value, Value) {
    let all = json(data, "array upgrade")["formats"].clone();
    let engine = all.as_array().unwrap().iter().find(|it| it["part"] == "engine").cloned().unwrap();
    (engine["active"].clone(), engine["newest"].clone())
}

#[test]
fn an_array_of_an_older_format_is_served_as_it_is_and_raised_when_an_operator_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let data = &killed_array_of_format_6(folder.path());
    let mut content = old_content();
    let mut daemon = start(data, &[]).unwrap();
    for (round, format) in [(0_u8, 6), (1, 6), (2, 8)] {
        assert_eq!(formats(data).0, format, "round {round}");
        let mut session = open(&daemon);
        assert!(session.read(0, BLOCK, VOLUME_BYTES) == content, "round {round}");
        assert_eq!(json(data, "snapshot list")[0]["name"], "old");
        // Over what is old, and beside it.
        for at in [4096 * (3 + usize::from(round)), OLD_BYTES + 8192 * usize::from(round)] {
            let bytes = [round + 1; 4096];
            session.write((at / BLOCK) as u64, BLOCK, &bytes);
            content[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        if round == 1 {
            let error = fails(data, "array upgrade --commit", 1);
            assert!(error.contains("--yes"), "there is no terminal to ask at: {error}");
            json(data, "array upgrade --commit --yes");
        }
        daemon.kill();
        daemon = start(data, &[]).unwrap();
    }
    let (active, newest) = formats(data);
    assert_eq!(active, newest, "a release of a newer format needs a fixture of this one");
    assert!(open(&daemon).read(0, BLOCK, VOLUME_BYTES) == content);
    assert!(daemon.stop().success());
}
