//! Rules about the text of our source files.

use crate::shell::root;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 800;

/// Every Rust file of ours, relative to the top folder, with its text.
pub(super) fn sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for top in ["io", "control", "proof", "xtask"] {
        collect(&root().join(top), &mut files);
    }
    assert!(files.len() > 20, "the source files were not found");
    files
}

fn collect(folder: &Path, files: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() && !entry.ends_with("target") {
            collect(&entry, files);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&entry).expect("a text file");
            files.push((entry.strip_prefix(root()).expect("below the top").to_path_buf(), text));
        }
    }
}

/// The lines that end up in the product: no tests, no examples, no comments.
pub(super) fn product_lines<'a>(path: &Path, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let name = path.to_string_lossy();
    let test = ["_test.rs", "_tests.rs"].iter().any(|end| name.ends_with(end));
    let not_product = ["/tests/", "/examples/", "/benches/", "proof/", "xtask/"];
    let product = !test && !not_product.iter().any(|part| name.contains(part));
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines
        .take_while(move |(_, line)| product && !inline_tests(line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// `mod tests {` in the same file: it stands at the end.
fn inline_tests(line: &str) -> bool {
    line.starts_with("mod test") && line.ends_with('{')
}

#[test]
fn files_have_a_maximum_length() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines, {LINES_MAX} are enough", path.display());
    }
}

#[test]
fn go_files_have_a_maximum_length() {
    let listed = crate::shell::capture(&mut crate::shell::command("git", &["ls-files", "--", "*.go"]));
    for name in listed.expect("git lists the files").lines().filter(|name| !name.ends_with(".gen.go")) {
        let Ok(text) = std::fs::read_to_string(root().join(name)) else { continue };
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{name} has {lines} lines, {LINES_MAX} are enough");
    }
}

#[test]
fn no_code_is_unfinished() {
    let banned = [concat!("to", "do!("), concat!("unimplemen", "ted!("), concat!("db", "g!(")];
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let found = banned.iter().find(|word| line.contains(**word));
            assert!(found.is_none(), "{}:{}: {}", path.display(), number + 1, line.trim());
        }
    }
}

#[test]
fn modules_have_specific_names() {
    for (path, _) in sources() {
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(
            !["common", "util", "utils", "types", "helpers", "misc"].contains(&stem.as_str()),
            "{path:?}"
        );
    }
}
