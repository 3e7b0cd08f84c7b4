//! Imports inside a crate. Files that import each other in a loop can be understood only together: [`CIRCLES`] is a ratchet, a
//! circle may become smaller, and then the list says so, never larger. [`FLOORS`] are folders of which none imports from
//! one above it.

use super::sources::{product_lines, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The largest circle of each crate that has one, in files.
const CIRCLES: &[(&str, usize)] = &[
    ("control/api", 6),
    ("control/history", 2),
    ("control/records", 2),
    ("io/block", 2),
    ("io/engine", 4),
    ("io/export", 2),
    ("io/iscsi", 3),
    ("io/nvmf", 2),
    ("io/raid", 12),
    ("io/scsi", 10),
    ("io/shelf", 2),
];

/// Crates whose folders stand on each other, from the ground up. Every file but the root is on a floor.
const FLOORS: &[(&str, &[&str])] = &[
    (
        "control/array",
        &["shape", "parts", "events", "configuration", "service", "array", "request", "noun", "replication"],
    ),
    ("io/scsi", &["encoding", "unit", "commands", "server"]),
];

/// A module by its path below the crate; the root is empty.
type Module = Vec<String>;

/// The files of a crate: imports of each module, and the re-exports of the root by name.
#[derive(Default)]
struct Crate {
    texts: BTreeMap<Module, String>,
    reexports: BTreeMap<String, Module>,
}

/// `io/engine` and the module of a file below its `src`; `None` for a file of no library or program.
fn module_of(path: &Path) -> Option<(String, Module)> {
    let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let [top, name, src, below @ ..] = parts.as_slice() else { return None };
    if src != "src" || !["io", "control"].contains(&top.as_str()) {
        return None;
    }
    let mut module: Module = below.to_vec();
    let file = module.pop()?;
    match file.strip_suffix(".rs")? {
        "lib" | "main" => {}
        stem => module.push(stem.to_owned()),
    }
    Some((format!("{top}/{name}"), module))
}

fn crates() -> BTreeMap<String, Crate> {
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    for (path, text) in sources() {
        let Some((name, module)) = module_of(&path) else { continue };
        let lines: Vec<&str> = product_lines(&path, &text).map(|(_, line)| line).collect();
        if !lines.is_empty() {
            crates.entry(name).or_default().texts.insert(module, lines.join("\n"));
        }
    }
    for it in crates.values_mut() {
        let root = it.texts.get(&Module::new()).cloned().unwrap_or_default();
        for statement in root.split("pub use ").skip(1) {
            let statement = statement.split(';').next().unwrap_or_default();
            for path in paths(statement) {
                if let (Some(module), Some(name)) = (it.deepest_module(&path), path.last()) {
                    it.reexports.insert(name.clone(), module);
                }
            }
        }
    }
    crates
}

impl Crate {
    /// The deepest module on a path, if there is one.
    fn deepest_module(&self, path: &[String]) -> Option<Module> {
        let known = |length: &usize| path.get(..*length).is_some_and(|it| self.texts.contains_key(it));
        (1..=path.len()).rev().find(known).and_then(|length| path.get(..length)).map(<[String]>::to_vec)
    }

    /// The modules that a module imports.
    fn imports(&self, module: &Module, text: &str) -> BTreeSet<Module> {
        let mut found = BTreeSet::new();
        let mut add = |path: Vec<String>| {
            let reexports = || path.first().and_then(|name| self.reexports.get(name)).cloned();
            found.extend(self.deepest_module(&path).or_else(reexports).filter(|other| other != module));
        };
        let parent = module.split_last().map(|(_, parent)| parent.to_vec()).unwrap_or_default();
        for (start, base) in [("crate::", Module::new()), ("super::", parent), ("self::", module.clone())] {
            for (at, _) in text.match_indices(start) {
                let rest = text.get(at + start.len()..).unwrap_or_default();
                paths(rest).into_iter().for_each(|path| add([base.clone(), path].concat()));
            }
        }
        for child in self.texts.keys().filter(|it| it.split_last().is_some_and(|(_, above)| above == module))
        {
            let start = format!("{}::", child.last().map_or("", String::as_str));
            let is_first = |at: usize| !text.get(..at).unwrap_or_default().ends_with(is_of_path);
            if text.match_indices(&start).any(|(at, _)| is_first(at)) {
                add(child.clone());
            }
        }
        found
    }

    /// The imports of files from a floor above their own, and files on no floor.
    fn upward_imports(&self, floors: &[&str]) -> Vec<String> {
        let floor =
            |module: &Module| floors.iter().position(|floor| module.first().is_some_and(|it| it == floor));
        let mut found = Vec::new();
        for (module, text) in self.texts.iter().filter(|(module, _)| !module.is_empty()) {
            let name = module.join("/");
            if floor(module).is_none() {
                found.push(format!("{name} is on no floor"));
            }
            let above = self.imports(module, text).into_iter().filter(|other| floor(other) > floor(module));
            found.extend(above.map(|other| format!("{name} imports {}", other.join("/"))));
        }
        found
    }

    /// The largest set of files that import each other in a loop.
    fn largest_circle(&self) -> Vec<Module> {
        let files = self.texts.iter().filter(|(module, _)| !module.is_empty());
        let imports: BTreeMap<_, _> =
            files.map(|(module, text)| (module.clone(), self.imports(module, text))).collect();
        let reached = |from: &Module| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(module) = next.pop() {
                let new = imports.get(module).into_iter().flatten();
                next.extend(new.filter(|it| reached.insert((*it).clone())));
            }
            reached
        };
        let reach: BTreeMap<&Module, BTreeSet<Module>> =
            imports.keys().map(|module| (module, reached(module))).collect();
        let with = |module: &Module| -> Vec<Module> {
            let back = |other: &&Module| reach.get(*other).is_some_and(|it| it.contains(module));
            reach.get(module).into_iter().flatten().filter(back).cloned().collect()
        };
        imports.keys().map(with).max_by_key(Vec::len).unwrap_or_default()
    }
}

fn is_of_path(character: char) -> bool {
    character == ':' || character == '_' || character.is_ascii_alphanumeric()
}

/// The paths that a use tree names, such as `a::{b::C, d}`: `a::b::C` and `a::d`.
fn paths(tree: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    descend(tree, &mut Vec::new(), &mut found);
    found
}

/// Reads one tree after `base`; returns what follows it.
fn descend<'a>(tree: &'a str, base: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let depth = base.len();
    let mut rest = tree.trim_start();
    loop {
        if let Some(mut list) = rest.strip_prefix('{') {
            loop {
                list = descend(list, base, found).trim_start();
                match list.strip_prefix(',') {
                    Some(after) if !after.trim_start().starts_with('}') => list = after,
                    after => break rest = after.unwrap_or(list).trim_start().trim_start_matches('}'),
                }
            }
            break;
        }
        let end = rest.find(|it: char| !(it == '_' || it.is_ascii_alphanumeric())).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        base.push(name.to_owned());
        match after.strip_prefix("::") {
            Some(deeper) if !name.is_empty() => rest = deeper,
            _ => {
                found.push(base.clone());
                rest = after;
                break;
            }
        }
    }
    base.truncate(depth);
    rest
}

#[test]
fn use_trees_are_read() {
    let found: Vec<String> =
        paths("a::{b::{C, d}, e, f::G as H}; x").iter().map(|it| it.join("::")).collect();
    assert_eq!(found[..4], ["a::b::C", "a::b::d", "a::e", "a::f::G"]);
    assert_eq!(paths("a::b(c)"), [["a", "b"]]);
}

#[test]
fn a_loop_of_imports_is_a_circle() {
    let module = |name: &str| vec![name.to_owned()];
    let texts =
        [("a", "use crate::b::B;"), ("b", "fn f() { crate::{c::d, e}; }"), ("c", "use crate::A;"), ("e", "")];
    let texts = texts.map(|(name, text)| (module(name), text.to_owned()));
    let it = Crate { texts: texts.into(), reexports: [("A".to_owned(), module("a"))].into() };
    assert_eq!(it.largest_circle(), ["a", "b", "c"].map(module));
}

#[test]
fn an_import_from_a_floor_above_is_found() {
    let module = |path: &str| path.split('/').map(str::to_owned).collect::<Module>();
    let texts =
        [("low", ""), ("low/a", "use crate::high::b::B;"), ("high/b", "use crate::low::a;"), ("c", "")];
    let texts = texts.map(|(name, text)| (module(name), text.to_owned()));
    let it = Crate { texts: texts.into(), ..Crate::default() };
    assert_eq!(it.upward_imports(&["low", "high"]), ["c is on no floor", "low/a imports high/b"]);
}

#[test]
fn imports_point_downwards() {
    let crates = crates();
    for (name, floors) in FLOORS {
        let it = crates.get(*name).expect("a crate with floors");
        assert_eq!(it.upward_imports(floors), Vec::<String>::new(), "{name}");
        for floor in *floors {
            assert!(
                it.texts.keys().any(|module| module.first().is_some_and(|it| it == floor)),
                "{name}: {floor}"
            );
        }
    }
}

#[test]
fn circles_of_imports_do_not_grow() {
    let mut wrong = Vec::new();
    for (name, it) in crates() {
        let circle = it.largest_circle();
        let listed = CIRCLES.iter().find(|(listed, _)| *listed == name).map_or(0, |(_, files)| *files);
        if circle.len() != listed {
            let files: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
            let files = files.join(", ");
            wrong.push(format!(
                "{name}: the largest circle has {} files, {listed} in the list: {files}",
                circle.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
