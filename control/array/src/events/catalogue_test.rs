use super::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn ids(kinds: &[Kind]) -> BTreeSet<&'static str> {
    kinds.iter().map(|kind| kind.id).collect()
}

#[test]
fn identifiers_are_whole_in_syslog_and_named_once() {
    for kinds in [ALERTS, EVENTS, OTHERS] {
        assert_eq!(ids(kinds).len(), kinds.len(), "one is listed twice");
        for kind in kinds {
            assert!(kind.id.len() <= notify::MAX_ID_BYTES, "{} would be cut", kind.id);
            assert!(
                kind.id.bytes().all(|byte| byte.is_ascii_lowercase() || b".-".contains(&byte)),
                "{}",
                kind.id
            );
        }
    }
}

/// The sources of a folder without tests.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            sources(&path, into);
        } else if name.ends_with(".rs") && !name.ends_with("_test.rs") && !name.starts_with("catalogue") {
            into.push(path);
        }
    }
}

/// Literals that begin as a kind does; those with a dot that are something else are names of files and hosts.
fn literals() -> BTreeSet<String> {
    let control = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    ["array/src", "machine/src", "fabric/src", "ashlard/src", "api/src"]
        .iter()
        .for_each(|folder| sources(&control.join(folder), &mut files));
    let texts = files.iter().map(|path| std::fs::read_to_string(path).expect("a source"));
    texts.flat_map(|text| text.split('"').map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn each_kind_is_in_the_sources() {
    let literals = literals();
    // Kinds that are put together of the noun of an object, or of a file, and a word.
    let made = |id: &str| {
        let (noun, word) = id.split_once('.').expect("two words");
        literals.contains(&format!("{{noun}}.{word}"))
            || literals.contains(&format!("{noun}.{{what}}"))
            || literals.contains(&format!("{noun}.{{name}}"))
    };
    for kind in ALERTS.iter().chain(EVENTS) {
        assert!(literals.contains(kind.id) || made(kind.id), "nothing logs {}", kind.id);
    }
}

#[test]
fn each_kind_in_the_sources_is_in_the_catalogue() {
    let known: BTreeSet<_> = [ALERTS, EVENTS, OTHERS].into_iter().flat_map(ids).collect();
    let nouns: BTreeSet<_> = known.iter().filter_map(|id| id.split_once('.')).map(|(noun, _)| noun).collect();
    let is_kind = |text: &&String| {
        let parts = text.split_once('.');
        let plain = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        };
        parts.is_some_and(|(noun, word)| nouns.contains(noun) && plain(word))
    };
    // Files of the data folder and of a controller.
    let files = ["api.json", "history.db", "key.next", "drives.json", "drives.key", "secrets.key"];
    let literals = literals();
    let unknown: Vec<_> =
        literals.iter().filter(is_kind).filter(|text| !known.contains(text.as_str())).collect();
    let unknown: Vec<_> = unknown.into_iter().filter(|text| !files.contains(&text.as_str())).collect();
    assert_eq!(unknown, Vec::<&String>::new());
    assert!(literals.iter().filter(is_kind).count() > 80, "the sources were not found");
}

#[test]
fn the_catalogue_for_people_has_every_kind() {
    let text = markdown();
    for kind in ALERTS.iter().chain(EVENTS).chain(OTHERS) {
        assert!(text.contains(&format!("| `{}` |", kind.id)), "{}", kind.id);
    }
}
