//! Rules about the documentation: links, paths and commands in it exist.

use crate::shell::root;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Every Markdown file of ours, with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut found: Vec<_> = ["README.md", "ARCHITECTURE.md", "STYLE.md"].map(PathBuf::from).into();
    collect(Path::new("docs"), &mut found);
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(root().join(&path)).expect("a text file");
        (path, text)
    };
    found.into_iter().map(read).collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in
        std::fs::read_dir(root().join(folder)).expect("a folder").map(|entry| entry.expect("an entry"))
    {
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
fn links_lead_somewhere() {
    for (path, text) in pages() {
        for (_, rest) in text.match_indices("](").map(|(at, _)| text.split_at(at + 2)) {
            let target = rest.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let to = root().join(path.parent().expect("a folder")).join(target);
            assert!(to.exists(), "{}: no file {target}", path.display());
        }
    }
}

#[test]
fn files_that_are_named_exist() {
    let tops = ["io/", "control/", "proof/", "xtask/", "docs/", "openapi/", "integrations/"];
    // The guide shows the files of an example that is not in the tree.
    for (path, text) in pages().into_iter().filter(|(path, _)| !path.ends_with("add-a-noun.md")) {
        // Pieces between backquotes have odd positions, unless a block of code is open.
        let prose: String = text.split("```").step_by(2).collect();
        for code in prose.split('`').skip(1).step_by(2) {
            let name = code.split(": ").next().unwrap_or_default();
            let is_path = tops.iter().any(|top| name.starts_with(top))
                && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
            assert!(!is_path || root().join(name).exists(), "{}: no file {name}", path.display());
        }
    }
}

#[test]
fn commands_that_are_shown_exist() {
    let reference = std::fs::read_to_string(root().join("docs/cli.md")).expect("docs/cli.md");
    let heads = reference.lines().filter_map(|line| line.strip_prefix("### `ashlar ")).map(words);
    let verbs: BTreeSet<_> =
        heads.map(|head| head.into_iter().take(2).collect::<Vec<_>>().join(" ")).collect();
    // Some commands have no verbs.
    let nouns: BTreeSet<_> =
        verbs.iter().filter_map(|verb| verb.split_once(' ')).map(|(noun, _)| noun).collect();
    for (path, text) in pages().into_iter().filter(|(path, _)| !path.ends_with("cli.md")) {
        for (_, rest) in text.match_indices("ashlar ").map(|(at, _)| text.split_at(at + 7)) {
            let line = rest.split(['\n', '`', '(', '|']).next().unwrap_or_default();
            let [noun, verb, ..] = words(line)[..] else { continue };
            if nouns.contains(noun) && verb.starts_with(|letter: char| letter.is_ascii_lowercase()) {
                let known = verbs.contains(&format!("{noun} {verb}"));
                assert!(known, "{}: no command `ashlar {noun} {verb}`", path.display());
            }
        }
    }
}

/// The words of a command up to its first option or value.
fn words(line: &str) -> Vec<&str> {
    let plain = |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
    line.trim_end_matches('`').split_whitespace().take_while(plain).collect()
}
