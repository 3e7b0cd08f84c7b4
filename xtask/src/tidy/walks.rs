//! Replays `docs/walks.md`: every step exists, and the path goes down the layers once and up once.
//!
//! A walk is a heading `## NAME` and a numbered list whose lines begin with a step in backquotes,
//! ``1. `io/scsi/src/server/target.rs: execute` what happens there``.

use crate::shell::root;

/// The layers from the top, by the beginning of a walk's name: a walk may only go down, turn once, and go up. The last one
/// holds for all others.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "A forwarded command, at the front end",
        &["io/transport/", "io/iscsi/", "io/forward/", "io/peer/", "control/fabric/"],
    ),
    (
        "A forwarded command, at the home",
        &["control/fabric/", "io/peer/", "io/forward/", "io/scsi/", "io/export/", "io/engine/", "io/raid/"],
    ),
    (
        "Synchronous replication: a write, at the source",
        &["io/engine/", "control/replication/", "control/array/"],
    ),
    ("Fibre Channel", &["io/tcmu/", "io/scsi/", "io/export/", "io/engine/", "io/raid/"]),
    (
        "",
        &[
            "control/ashlard/",
            "control/api/",
            "control/array/",
            "control/replication/",
            "io/transport/",
            "io/iscsi/",
            "io/nvmf/",
            "io/scsi/",
            "io/export/",
            "io/block/",
            "io/engine/",
            "io/raid/",
        ],
    ),
];

/// The layers of a walk.
fn layers(name: &str) -> &'static [&'static str] {
    let found = LAYERS.iter().find(|(beginning, _)| name.starts_with(beginning));
    found.expect("the last one holds for all").1
}

struct Walk {
    name: String,
    steps: Vec<(String, String)>,
}

fn walks(text: &str) -> Vec<Walk> {
    let mut walks: Vec<Walk> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            walks.push(Walk { name: name.to_owned(), steps: Vec::new() });
        } else if let (Some(step), Some(walk)) = (step(line), walks.last_mut()) {
            walk.steps.push(step);
        }
    }
    walks
}

/// `3. `file: function` …` → file and function.
fn step(line: &str) -> Option<(String, String)> {
    let (number, rest) = line.trim_start().split_once(". `")?;
    number.parse::<u32>().ok()?;
    let (file, function) = rest.split_once('`')?.0.split_once(": ")?;
    Some((file.to_owned(), function.to_owned()))
}

/// True when the numbers never rise after they have fallen.
fn one_turn(depths: &[usize]) -> bool {
    let deepest = depths.iter().enumerate().max_by_key(|(_, depth)| **depth).map_or(0, |(at, _)| at);
    let (down, up) = depths.split_at(deepest);
    down.is_sorted() && up.is_sorted_by(|a, b| a >= b)
}

/// True when the text defines a function of this name, written `name` or `Type::name`.
fn defines(text: &str, function: &str) -> bool {
    let (owner, name) = function.rsplit_once("::").map_or(("", function), |(owner, name)| (owner, name));
    let defined = text.match_indices(&format!("fn {name}")).any(|(at, found)| {
        let next = text[at + found.len()..].chars().next();
        matches!(next, Some('(' | '<'))
    });
    defined
        && (owner.is_empty() || text.contains(&format!("{owner} {{")) || text.contains(&format!("{owner}<")))
}

#[test]
fn every_walk_exists_and_goes_down_once_and_up_once() {
    let text = std::fs::read_to_string(root().join("docs/walks.md")).expect("docs/walks.md");
    let walks = walks(&text);
    for named in ["WRITE(16)", "READ(16)", "COMPARE AND WRITE", "UNMAP", "WRITE SAME", "EXTENDED COPY"] {
        assert!(walks.iter().any(|walk| walk.name.starts_with(named)), "no walk for {named}");
    }
    for named in ["NVMe", "Fibre Channel", "A forwarded command", "Creating", "Asynchronous", "Synchronous"] {
        assert!(walks.iter().any(|walk| walk.name.starts_with(named)), "no walk for {named}");
    }
    for named in ["PERSISTENT RESERVE OUT", "ABORT TASK", "LOGICAL UNIT RESET", "Path failover", "Recovery"] {
        assert!(walks.iter().any(|walk| walk.name.starts_with(named)), "no walk for {named}");
    }
    for walk in &walks {
        assert!(walk.steps.len() >= 3, "{}: a walk has steps", walk.name);
        let depths: Vec<_> = walk.steps.iter().map(|(file, function)| depth(walk, file, function)).collect();
        assert!(one_turn(&depths), "{}: the layers zig-zag: {depths:?}", walk.name);
    }
}

/// Checks that a step exists and returns how deep it lies.
fn depth(walk: &Walk, file: &str, function: &str) -> usize {
    let text = std::fs::read_to_string(root().join(file));
    let text = text.unwrap_or_else(|error| panic!("{}: {file}: {error}", walk.name));
    assert!(defines(&text, function), "{}: no function {function} in {file}", walk.name);
    let depth = layers(&walk.name).iter().position(|layer| file.starts_with(layer));
    depth.unwrap_or_else(|| panic!("{}: {file} lies in no layer", walk.name))
}

#[test]
fn a_zig_zag_is_seen() {
    assert!(one_turn(&[2, 2, 3, 5, 6, 5, 3, 2]));
    assert!(one_turn(&[2, 3, 5]));
    assert!(!one_turn(&[2, 3, 5, 3, 5, 2]));
    assert!(!one_turn(&[2, 5, 2, 3]));
}

#[test]
fn steps_are_read_from_list_lines() {
    let walk = &walks("## X\n1. `io/a.rs: Unit::go` does it\ntext `b: c`\n2. `io/b.rs: stop`\n")[0];
    assert_eq!(walk.steps.len(), 2);
    assert_eq!(walk.steps[0], ("io/a.rs".to_owned(), "Unit::go".to_owned()));
    assert!(defines("impl Unit { pub fn go(&self) }", "Unit::go"));
    assert!(!defines("fn gone()", "go"));
}
