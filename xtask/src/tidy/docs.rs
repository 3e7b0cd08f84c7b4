//! Rules about the documentation: links, paths and commands in it exist.

use crate::shell::root;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Every Markdown file of ours, with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    collect(Path::new(""), &mut found);
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(root().join(&path)).expect("a text file");
        (path, text)
    };
    found.into_iter().map(read).collect()
}

/// Collects the pages at the root, and those below `docs`.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in
        std::fs::read_dir(root().join(folder)).expect("a folder").map(|entry| entry.expect("an entry"))
    {
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            if path.starts_with("docs") {
                collect(&path, found);
            }
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

/// Lines of a page fit in a window. Rows of tables and what stands in blocks of code can't be wrapped.
const LINE_MAX: usize = 120;

/// The lines of prose that are too long, with their numbers.
fn long_lines(text: &str) -> Vec<(usize, &str)> {
    let mut in_code = false;
    let is_prose = |line: &str| {
        let line = line.trim_start();
        in_code ^= line.starts_with("```");
        !in_code && !line.starts_with('|') && !line.starts_with("```")
    };
    let prose: Vec<bool> = text.lines().map(is_prose).collect();
    let lines = (1..).zip(text.lines()).zip(prose).filter(|(_, is_prose)| *is_prose).map(|(line, _)| line);
    lines.filter(|(_, line)| line.chars().count() > LINE_MAX).collect()
}

#[test]
fn lines_of_prose_have_a_maximum_length() {
    let faults: Vec<String> = pages()
        .iter()
        .flat_map(|(path, text)| {
            long_lines(text).into_iter().map(move |(at, line)| format!("{}:{at}: {line}", path.display()))
        })
        .collect();
    assert!(faults.is_empty(), "longer than {LINE_MAX} characters:\n{}", faults.join("\n"));
}

#[test]
fn a_long_line_is_found_outside_tables_and_code() {
    let long = "é ".repeat(61);
    let text = format!("{}\n| {long} |\n```sh\n{long}\n```\n- {long}\n", "é".repeat(120));
    assert_eq!(long_lines(&text), [(6, format!("- {long}").as_str())]);
}

#[test]
fn architecture_has_every_crate_in_its_picture_and_its_table() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let picture = text.split("```").nth(1).expect("a picture");
    let metadata = super::metadata();
    for name in super::members(&metadata).map(|package| package["name"].as_str().expect("a name")) {
        let is_word = |part: &str| part == name;
        assert!(picture.split(|it: char| !it.is_alphanumeric()).any(is_word), "the picture lacks {name}");
        let row = |line: &str| {
            let cell = line.split('|').nth(1).unwrap_or_default();
            cell.split(['`', '/', ',', ' ']).any(is_word)
        };
        assert!(text.lines().any(|line| line.starts_with("| `") && row(line)), "the table lacks {name}");
    }
}

/// The words of a command up to its first option or value.
fn words(line: &str) -> Vec<&str> {
    let plain = |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
    line.trim_end_matches('`').split_whitespace().take_while(plain).collect()
}
