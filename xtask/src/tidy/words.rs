//! Words that are not used (`words.txt` has them with replacements), and the head of every module.

use super::sources::sources;
use crate::shell::{capture, command, root};
use std::path::{Path, PathBuf};

/// A word that is not used.
struct Banned<'a> {
    word: &'a str,
    instead: &'a str,
    /// Files where it is allowed.
    allowed: Vec<&'a str>,
}

fn banned(list: &str) -> Vec<Banned<'_>> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut all: Vec<Banned<'_>> = Vec::new();
    for line in lines {
        if let Some((path, word)) = line.strip_prefix("allow ").and_then(|rest| rest.split_once(' ')) {
            let banned = all.iter_mut().find(|banned| banned.word == word);
            banned.unwrap_or_else(|| panic!("{word:?} is allowed before it is banned")).allowed.push(path);
        } else {
            let (word, instead) =
                line.split_once(" = ").unwrap_or_else(|| panic!("no line of words.txt: {line}"));
            all.push(Banned { word, instead, allowed: Vec::new() });
        }
    }
    all
}

/// Sources and docs in the repository, without generated files.
fn texts() -> Vec<(PathBuf, String)> {
    let listed =
        capture(&mut command("git", &["ls-files", "--", "*.rs", "*.go", "*.md", "*.ts", "*.tsx", "*.sh"]));
    let listed = listed.expect("git lists the files");
    let read = |name: &str| Some((PathBuf::from(name), std::fs::read_to_string(root().join(name)).ok()?));
    listed.lines().filter(|name| !name.ends_with(".gen.go")).filter_map(read).collect()
}

/// The number of the first line that has a word: as a whole word, or as the beginning of one if it ends with `_`.
fn line_with(text: &str, word: &str) -> Option<usize> {
    let is_word = |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || it == '_');
    let at = text.match_indices(word).map(|(at, _)| at).find(|at| {
        let (before, after) = (&text[..*at], &text[at + word.len()..]);
        let ends = word.ends_with('_') || !is_word(after.chars().next());
        ends && !is_word(before.chars().next_back())
    })?;
    Some(text[..at].matches('\n').count() + 1)
}

#[test]
fn banned_words_are_not_used() {
    let banned = banned(include_str!("words.txt"));
    for (path, text) in texts() {
        let lower = text.to_lowercase();
        for Banned { word, instead, allowed } in &banned {
            if is_the_list(&path) {
                continue;
            }
            // A word with capitals is a name in the code.
            let text = if word.contains(char::is_uppercase) { &text } else { &lower };
            let found = line_with(text, word);
            let (is_allowed, line) = (allowed.iter().any(|file| path == Path::new(file)), found.unwrap_or(0));
            assert!(found.is_none() || is_allowed, "{}:{line}: {word:?}: write {instead}", path.display());
            assert!(
                found.is_some() || !is_allowed,
                "words.txt allows {word:?} in {}, where it is not",
                path.display()
            );
        }
    }
}

/// True for the list itself and its tests.
fn is_the_list(path: &Path) -> bool {
    path.starts_with("xtask/src/tidy")
}

#[test]
fn every_module_begins_with_what_it_is() {
    for (path, text) in sources() {
        let head = text.lines().find(|line| !line.starts_with("#!") && !line.is_empty()).unwrap_or_default();
        let sibling = path.to_string_lossy().ends_with("_test.rs");
        assert!(head.starts_with("//! ") || sibling, "{}: no head `//! …`", path.display());
    }
}

#[test]
fn a_word_is_found_only_as_a_whole() {
    assert_eq!(line_with("a\ntempo.\n", "tempo"), Some(2));
    assert_eq!(line_with("temporary, tempo_x", "tempo"), None);
    assert_eq!((line_with("MOST_MOVED", "MOST_"), line_with("ALMOST_", "MOST_")), (Some(1), None));
    let list = banned("# head\nold = new\nallow docs/x old\n");
    assert_eq!((list[0].word, list[0].instead, list[0].allowed.as_slice()), ("old", "new", &["docs/x"][..]));
}
