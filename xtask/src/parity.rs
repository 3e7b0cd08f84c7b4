//! Whatever the array can be asked for over HTTP, by command line and by browser: a table made from the description of
//! the API, the sources of `ashlar` and those of `web/`, checked against `docs/parity.md`. What is missing has its reason
//! in `xtask/parity-reasons.txt`.

use crate::shell::root;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const TABLE: &str = "docs/parity.md";
const REASONS: &str = "xtask/parity-reasons.txt";

/// Check or write.
#[derive(clap::Args)]
pub struct Args {
    /// Write the table instead of comparing
    #[arg(long)]
    write: bool,
}

/// Where each operation is used.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Compares the table with the checked-in one, or writes it; fails when something is missing without a reason.
pub fn run(args: &Args) -> Result<()> {
    let (by_id, roles) = operations()?;
    let operations: BTreeSet<String> = by_id.values().cloned().collect();
    let mut verbs = Uses::new();
    let programs = sources("control/cli/src", &["rs"])?;
    for (path, text) in &programs {
        verbs_of(path, text, &by_id, &programs, &mut verbs);
    }
    let mut pages = Uses::new();
    // The pages of the plug-in for the vSphere Client are another interface: what only they ask for is missing in ours.
    let plug_in = root().join("web/src/plugin");
    for (path, text) in sources("web/src", &["ts", "tsx"])?.iter().filter(|it| !it.0.starts_with(&plug_in)) {
        pages_of(path, text, &mut pages);
    }
    let reasons = Reasons::read()?;
    let mut wrong = other_verbs()?;
    for (column, uses) in [("cli", &verbs), ("web", &pages)] {
        let unknown = uses.keys().filter(|operation| !operations.contains(*operation));
        wrong.extend(unknown.map(|operation| format!("{column} asks for {operation}, which there is not")));
    }
    let table = table(&operations, &roles, (&verbs, &pages), &reasons, &mut wrong);
    let stale = reasons.stale(&operations, &verbs, &pages);
    if args.write {
        drop_reasons(&stale)?;
    } else {
        let text = |(operation, column): &(String, String)| {
            format!(
                "{operation} is not missing for {column} any more: `cargo xtask parity --write` drops the reason"
            )
        };
        wrong.extend(stale.iter().map(text));
    }
    if !wrong.is_empty() {
        bail!("{}\n(reasons for what is missing belong into {REASONS})", wrong.join("\n"));
    }
    let path = root().join(TABLE);
    if args.write {
        return std::fs::write(&path, table).with_context(|| format!("can't write {TABLE}"));
    }
    if std::fs::read_to_string(&path).unwrap_or_default() != table {
        bail!("{TABLE} is not what the sources say: `cargo xtask parity --write` and review the difference");
    }
    println!("parity: {} operations", operations.len());
    Ok(())
}

/// What `cargo xtask test` runs.
pub fn check() -> Result<()> {
    run(&Args { write: false })
}

/// What `cargo xtask openapi --write` writes with the description.
pub fn write() -> Result<()> {
    run(&Args { write: true })
}

/// `GET /api/v1/volumes/{}`: the method, and the path without the names of its variables.
fn operation(method: &str, path: &str) -> String {
    let segments = path.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment });
    format!("{method} {}", segments.collect::<Vec<_>>().join("/"))
}

/// The operations of the description, by id; and the verb of each, with the role that it needs.
fn operations() -> Result<(BTreeMap<String, String>, BTreeMap<String, String>)> {
    let text = std::fs::read_to_string(root().join("openapi/array.json"))?;
    let description: serde_json::Value = serde_json::from_str(&text)?;
    let paths = description["paths"].as_object().context("the description has no paths")?;
    let (mut operations, mut roles) = (BTreeMap::new(), BTreeMap::new());
    for (path, item) in paths {
        for (method, it) in item.as_object().into_iter().flatten() {
            let operation = operation(&method.to_uppercase(), path);
            if let (Some(verb), Some(role)) = (it["x-verb"]["name"].as_str(), it["x-verb"]["role"].as_str()) {
                roles.insert(operation.clone(), format!("{verb} | {role}"));
            }
            operations.insert(it["operationId"].as_str().unwrap_or_default().to_owned(), operation);
        }
    }
    Ok((operations, roles))
}

/// Handlers, each declared with its verb (`operations!(list_volumes: ListVolumes)`), that don't carry out that verb, by
/// themselves or in a function that they call.
fn other_verbs() -> Result<Vec<String>> {
    let files = sources("control/api/src/v1", &["rs"])?;
    let functions: Vec<(&str, &str)> = files.iter().flat_map(|(_, text)| functions_of(text)).collect();
    let carries_out = |body: &str, verb: &str| {
        let helper = |(name, of_helper): &(&str, &str)| {
            of_helper.contains(verb) && calls_of(body, name).next().is_some()
        };
        body.contains(verb) || functions.iter().any(helper)
    };
    let mut wrong = Vec::new();
    for (path, text) in &files {
        for declared in text.split("operations!(").skip(1) {
            let declared = declared.split(')').next().unwrap_or_default();
            for (handler, verb) in declared.split(',').filter_map(|it| it.trim().split_once(": ")) {
                let verb = verb.split(' ').next().unwrap_or_default();
                let body = functions_of(text).find(|(name, _)| *name == handler).map(|(_, body)| body);
                if body.is_some_and(|body| !carries_out(body, verb)) {
                    let path = path.display();
                    wrong.push(format!("{path}: {handler} is declared as {verb}, and does not carry it out"));
                }
            }
        }
    }
    Ok(wrong)
}

/// The functions of a file, by name, each with its text up to the end of it.
fn functions_of(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("fn ").skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once(['(', '<'])?;
        Some((name, rest.split("\n}\n").next().unwrap_or_default()))
    })
}

/// The sources below a folder, tests and generated ones left out.
fn sources(folder: &str, extensions: &[&str]) -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("can't list {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let source = path.extension().is_some_and(|it| extensions.iter().any(|known| it == *known));
            if path.is_dir() && name != "test" && name != "mock" {
                folders.push(path);
            } else if source && !["test.", "_test", "schema", "mock"].iter().any(|not| name.contains(not)) {
                let text = std::fs::read_to_string(&path)?;
                found.push((path, text));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Calls of the generated client, `api::create_volume(…)`, with the verbs in whose arms they stand.
fn verbs_of(
    path: &Path,
    text: &str,
    operations: &BTreeMap<String, String>,
    programs: &[(PathBuf, String)],
    uses: &mut Uses,
) {
    const MODULE: &str = "api::";
    for (at, _) in text.match_indices(MODULE) {
        let rest = text.get(at + MODULE.len()..).unwrap_or_default();
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
        let (id, after) = rest.split_at(end.unwrap_or(rest.len()));
        if let Some(operation) = operations.get(id).filter(|_| after.starts_with('(')) {
            let mut verbs = verbs_at(path, text, at, programs, &mut BTreeSet::new());
            if verbs.is_empty() {
                verbs.insert(noun_of(path));
            }
            uses.entry(operation.clone()).or_default().extend(verbs);
        }
    }
}

/// The noun that a file is named after.
fn noun_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().replace('_', "-")
}

/// `volume create`: the verbs that reach a place in a text. A place in a helper function is reached by those that call the
/// function, `seen` being the functions that were looked at.
fn verbs_at(
    path: &Path,
    text: &str,
    at: usize,
    programs: &[(PathBuf, String)],
    seen: &mut BTreeSet<String>,
) -> BTreeSet<String> {
    let before = text.get(..at).unwrap_or_default();
    match (verb_at(before), closure_at(before)) {
        (Some(Place::Arm(verb)), _) => return [verb].into(),
        (Some(Place::Noun(noun)), None) => return [noun].into(),
        (Some(Place::Noun(noun)), Some(closure)) => {
            let calls = calls_of(text, closure).filter(|call| *call > at);
            let verbs = calls.filter_map(|call| verb_at(text.get(..call)?));
            let arms = verbs.filter_map(|place| match place {
                Place::Arm(verb) if verb.starts_with(&noun) => Some(verb),
                _ => None,
            });
            return arms.collect();
        }
        (None, _) => {}
    }
    let Some(function) = function_at(before).filter(|it| seen.insert((*it).to_owned())) else {
        return BTreeSet::new();
    };
    let mut verbs = BTreeSet::new();
    // Private helpers of several files may have the same name: those of the same file come first.
    let own = [(path.to_path_buf(), text.to_owned())];
    for programs in [own.as_slice(), programs] {
        for (path, text) in programs {
            for at in calls_of(text, function) {
                verbs.extend(verbs_at(path, text, at, programs, seen));
            }
        }
        if !verbs.is_empty() {
            return verbs;
        }
    }
    verbs
}

/// Where in the code of a noun's verbs a text ends.
enum Place {
    /// In the arm of a verb: `volume create`.
    Arm(String),
    /// Before the first arm.
    Noun(String),
}

/// The closure in whose body a text ends, if it is the last thing that was defined.
fn closure_at(before: &str) -> Option<&str> {
    let (_, rest) = before.rsplit_once("let ")?;
    let (name, _) = rest.split_once(" = |")?;
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(name)
}

/// The function in whose body a text ends.
fn function_at(before: &str) -> Option<&str> {
    let (_, rest) = before.rsplit_once("fn ")?;
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    rest.get(..end)
}

/// Where a function is called, `show(`, `.show(client` (a program's) and `.show(operator` (a handler's), or handed
/// on, `.map(show)`; not where it is defined.
fn calls_of<'a>(text: &'a str, function: &'a str) -> impl Iterator<Item = usize> + 'a {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(function).map(|(at, _)| at).filter(move |at| {
        let before = text.get(..*at).unwrap_or_default();
        let after = text.get(at + function.len()..).unwrap_or_default();
        let is_call = after.starts_with('(') || after.starts_with("::<") || after.starts_with(')');
        is_call
            && !before.ends_with(word)
            && (!before.ends_with('.') || ["(client", "(operator"].iter().any(|it| after.starts_with(it)))
            && !before.ends_with("fn ")
            && !before.ends_with("api::")
    })
}

/// The noun and the verb of the arm that begins last before a place in the text; none outside of the verbs' own code.
fn verb_at(before: &str) -> Option<Place> {
    let (_, body) = before.rsplit_once("\nimpl ")?;
    // After the end of the block there are functions that several verbs may use.
    let noun = body.split_once(' ').map_or("", |(name, _)| name);
    let is_noun = |it: &&str| *it == "Noun" || it.ends_with("Verb");
    let noun = Some(noun).filter(is_noun).filter(|_| !body.contains("\n}\n"))?;
    let noun = noun.strip_suffix("Verb").unwrap_or_default();
    let arm = |line: &str| -> Option<String> {
        let line = line.trim();
        let name = ["Verb::", "Noun::"]
            .iter()
            .find_map(|it| line.split_once(it))
            .filter(|(before, _)| !before.contains(' '))
            .map_or(line, |(_, it)| it);
        let end = name.find(|c: char| !c.is_ascii_alphanumeric())?;
        let (name, rest) = name.split_at(end);
        let begins = name.starts_with(|c: char| c.is_ascii_uppercase()) && name != "Ok";
        (begins && (rest.starts_with(" {") || rest.starts_with(" =>"))).then(|| kebab(name))
    };
    Some(match body.lines().skip(1).filter_map(arm).last() {
        Some(verb) => Place::Arm(format!("{} {verb}", kebab(noun)).trim_start().to_owned()),
        None => Place::Noun(kebab(noun)),
    })
}

/// `HostGroup`: `host-group`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// Calls of the generated client, `api.GET("/api/v1/volumes"`, and paths that the browser opens by itself.
fn pages_of(path: &Path, text: &str, uses: &mut Uses) {
    let place = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for (at, _) in text.match_indices("/api/v1/") {
        let before = text.get(..at).unwrap_or_default().trim_end_matches(['"', '`', '\'']).trim_end();
        let call = before.strip_suffix('(').unwrap_or_default();
        let method =
            ["POST", "PATCH", "PUT", "DELETE"].into_iter().find(|it| call.ends_with(it)).unwrap_or("GET");
        let path = text.get(at..).unwrap_or_default();
        let end =
            path.find(|c: char| !(c.is_ascii_alphanumeric() || "/-_{}.".contains(c))).unwrap_or(path.len());
        let path = path.get(..end).unwrap_or_default();
        uses.entry(operation(method, path)).or_default().insert(place.clone());
    }
}

/// Why something is missing: `GET /api/v1/x | cli | the reason`.
struct Reasons(BTreeMap<(String, String), String>);

impl Reasons {
    fn read() -> Result<Self> {
        let text =
            std::fs::read_to_string(root().join(REASONS)).with_context(|| format!("can't read {REASONS}"))?;
        let mut reasons = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let parts: Vec<_> = line.splitn(3, '|').map(str::trim).collect();
            let [operation, column, reason] = parts[..] else {
                bail!("{REASONS}: {line:?} has not three parts")
            };
            reasons.insert((operation.to_owned(), column.to_owned()), reason.to_owned());
        }
        Ok(Self(reasons))
    }

    fn of(&self, operation: &str, column: &str) -> Option<&String> {
        self.0.get(&(operation.to_owned(), column.to_owned()))
    }

    /// Reasons for what is there, or for what can't be asked for.
    fn stale(&self, operations: &BTreeSet<String>, verbs: &Uses, pages: &Uses) -> Vec<(String, String)> {
        let stale = |(operation, column): &&(String, String)| {
            let uses = if column == "cli" { verbs } else { pages };
            !operations.contains(operation) || uses.contains_key(operation)
        };
        self.0.keys().filter(stale).cloned().collect()
    }
}

/// Takes lines out of the file of reasons.
fn drop_reasons(stale: &[(String, String)]) -> Result<()> {
    let path = root().join(REASONS);
    let text = std::fs::read_to_string(&path)?;
    let is_stale = |line: &&str| {
        let mut parts = line.split('|').map(str::trim);
        let key = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        stale.iter().any(|(operation, column)| key == (operation.as_str(), column.as_str()))
    };
    let left: Vec<&str> = text.lines().filter(|line| !is_stale(line)).collect();
    Ok(std::fs::write(&path, left.join("\n") + "\n")?)
}

fn table(
    operations: &BTreeSet<String>,
    roles: &BTreeMap<String, String>,
    (verbs, pages): (&Uses, &Uses),
    reasons: &Reasons,
    wrong: &mut Vec<String>,
) -> String {
    let mut text = String::from(
        "# What can be asked for, and where\n\nMade from the sources: `cargo xtask parity --write`.\n\n\
         | operation | verb | role | `ashlar` | files of `web/src` |\n|---|---|---|---|---|\n",
    );
    // By path, so that what belongs together stands together.
    let mut sorted: Vec<_> = operations.iter().filter_map(|it| it.split_once(' ')).collect();
    sorted.sort_by_key(|(method, path)| (*path, *method));
    for (method, path) in sorted {
        let operation = format!("{method} {path}");
        let mut cell =
            |column: &str, uses: &Uses| match (uses.get(&operation), reasons.of(&operation, column)) {
                (Some(places), _) => places.iter().cloned().collect::<Vec<_>>().join(", "),
                (None, Some(reason)) => format!("– {reason}"),
                (None, None) => {
                    wrong.push(format!("{operation} is missing for {column}"));
                    String::new()
                }
            };
        let (verb, page) = (cell("cli", verbs), cell("web", pages));
        let declared = roles.get(&operation).map_or("– | –", String::as_str);
        let path = path.trim_start_matches("/api/v1");
        let _ = writeln!(text, "| {method} {path} | {declared} | {verb} | {page} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_with_the_verb_that_makes_them() {
        let text = "\nuse client::api;\nimpl HostGroupVerb {\n    fn run(self) {\n        match self {\n            \
                    HostGroupVerb::List => client.call(api::list_it(&api::ListIt::default())),\n            Help => help(),\n            Set { name } => \
                    {\n                client.call(api::change_it(&name, &x))\n            }\n        }\n    }\n}\n\nfn help() \
                    {\n    client.call(api::copy_it(&b))\n}\n";
        let operations =
            [("list_it", "GET /its"), ("change_it", "PATCH /its/{}"), ("copy_it", "POST /its/{}")];
        let operations = operations.map(|(id, operation)| (id.to_owned(), operation.to_owned()));
        let mut uses = Uses::new();
        let programs = [(PathBuf::from("x/group.rs"), text.to_owned())];
        verbs_of(Path::new("x/group.rs"), text, &BTreeMap::from(operations), &programs, &mut uses);
        let found: Vec<_> =
            uses.iter().map(|(operation, verbs)| (operation.as_str(), verbs.iter().next())).collect();
        assert_eq!(found[0], ("GET /its", Some(&"host-group list".into())));
        assert_eq!(found[1], ("PATCH /its/{}", Some(&"host-group set".into())));
        assert_eq!(found[2], ("POST /its/{}", Some(&"host-group help".into())));
    }

    #[test]
    fn pages_ask_by_the_generated_client_or_by_address() {
        let mut uses = Uses::new();
        let text = "api.POST(\"/api/v1/hosts/{name}/x\", { body }); new EventSource(`/api/v1/stream`)";
        pages_of(Path::new("web/src/hosts.tsx"), text, &mut uses);
        assert_eq!(uses.keys().collect::<Vec<_>>(), ["GET /api/v1/stream", "POST /api/v1/hosts/{}/x"]);
    }
}
