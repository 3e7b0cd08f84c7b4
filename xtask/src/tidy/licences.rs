//! Licences, bans and sources of everything that we link, by the rules in `deny.toml`. `cargo-deny` reads the same
//! file; it is not used for these three because building it takes longer than building the array.

use super::metadata;
use crate::shell::root;

/// The strings of a list in `deny.toml`.
fn list(section: &str, key: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let section = text.split_once(&format!("[{section}]\n")).expect("the section").1;
    let list = section.split_once(&format!("{key} = [")).expect("the list").1;
    let list = list.split_once(']').expect("the end of the list").0;
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// True when a licence expression (SPDX, or the older `A/B`) can be met with the allowed licences.
fn meets(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let (value, rest) = alternatives(&words, allowed);
    value && rest.is_empty()
}

fn alternatives<'a>(words: &'a [&'a str], allowed: &[String]) -> (bool, &'a [&'a str]) {
    let (mut value, mut rest) = conjunction(words, allowed);
    while let ["OR", after @ ..] = rest {
        let (other, remaining) = conjunction(after, allowed);
        (value, rest) = (value | other, remaining);
    }
    (value, rest)
}

fn conjunction<'a>(words: &'a [&'a str], allowed: &[String]) -> (bool, &'a [&'a str]) {
    let (mut value, mut rest) = licence(words, allowed);
    while let ["AND", after @ ..] = rest {
        let (other, remaining) = licence(after, allowed);
        (value, rest) = (value & other, remaining);
    }
    (value, rest)
}

fn licence<'a>(words: &'a [&'a str], allowed: &[String]) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inside @ ..] => match alternatives(inside, allowed) {
            (value, [")", rest @ ..]) => (value, rest),
            (_, rest) => (false, rest),
        },
        [name, "WITH", exception, rest @ ..] => {
            (allowed.iter().any(|it| *it == format!("{name} WITH {exception}")), rest)
        }
        [name, rest @ ..] => (allowed.iter().any(|it| it == name), rest),
        [] => (false, &[]),
    }
}

#[test]
fn everything_we_link_has_an_allowed_licence_and_comes_from_the_registry() {
    let (allowed, banned) = (list("licenses", "allow"), list("bans", "deny"));
    let metadata = metadata();
    let linked: Vec<_> = metadata["resolve"]["nodes"].as_array().expect("nodes").iter().collect();
    let linked: Vec<_> = linked.iter().filter_map(|node| node["id"].as_str()).collect();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        if !linked.iter().any(|id| package["id"] == *id) {
            continue;
        }
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(meets(licence, &allowed), "{name} is licensed under {licence}: see deny.toml");
        assert!(!banned.iter().any(|banned| banned == name), "{name} is banned: see deny.toml");
        let source = package["source"].as_str().unwrap_or("registry+ourselves");
        assert!(source.starts_with("registry+"), "{name} comes from {source}");
    }
}

#[test]
fn licence_expressions_are_understood() {
    let allowed = ["MIT".to_owned(), "Apache-2.0".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()];
    for yes in ["MIT", "MIT/GPL-3.0", "(GPL-2.0 OR MIT) AND Apache-2.0", "Apache-2.0 WITH LLVM-exception"] {
        assert!(meets(yes, &allowed), "{yes}");
    }
    for no in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT WITH Strange-exception", "none", ""] {
        assert!(!meets(no, &allowed), "{no}");
    }
}
