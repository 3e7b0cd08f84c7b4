//! Every direct dependency, crate or Go module, has a line with its reason in `docs/dependencies.md`.

use super::{members, metadata};
use crate::shell::root;
use std::collections::BTreeSet;
use std::path::Path;

/// The names that docs/dependencies.md gives a reason for.
fn reasons(text: &str) -> BTreeSet<&str> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.skip(1).flat_map(|names| names.split(", ")).collect()
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/dependencies.md")).expect("docs/dependencies.md")
}

/// The Go modules that we have.
const GO_MODULES: &[&str] = &["integrations/go", "integrations/kubernetes/plane"];

/// The lines of the blocks of a `go.mod` that begin with a word, such as `require`.
fn block<'a>(list: &'a str, word: &str) -> Vec<&'a str> {
    let begin = format!("\n{word} (\n");
    let blocks = list.split(&begin).skip(1);
    blocks.flat_map(|rest| rest.split("\n)").next().unwrap_or_default().lines()).map(str::trim).collect()
}

#[test]
fn every_go_module_has_a_reason() {
    let page = page();
    let reasons = reasons(&page);
    for module in GO_MODULES {
        let list = std::fs::read_to_string(root().join(module).join("go.mod")).expect("go.mod");
        let required = block(&list, "require");
        let direct = required.iter().filter(|line| !line.ends_with("// indirect"));
        let used: Vec<_> = direct.filter_map(|line| line.split_whitespace().next()).collect();
        assert!(!used.is_empty(), "no module in go.mod of {module}");
        let own = |name: &str| name.starts_with("ashlar/");
        let unexplained: Vec<_> = used.iter().filter(|name| !own(name) && !reasons.contains(*name)).collect();
        assert!(unexplained.is_empty(), "{module}: no line in docs/dependencies.md: {unexplained:?}");
        // A program's module is one of what is before it in its path.
        let explained = |tool: &str| {
            Path::new(tool).ancestors().any(|part| part.to_str().is_some_and(|it| reasons.contains(it)))
        };
        let tools: Vec<_> = block(&list, "tool").into_iter().filter(|tool| !explained(tool)).collect();
        assert!(tools.is_empty(), "{module}: no line in docs/dependencies.md: {tools:?}");
    }
}

#[test]
fn every_direct_dependency_has_a_reason() {
    let page = page();
    let reasons = reasons(&page);
    let metadata = metadata();
    let own: BTreeSet<_> = members(&metadata).filter_map(|package| package["name"].as_str()).collect();
    let used: BTreeSet<_> = members(&metadata)
        .flat_map(|package| package["dependencies"].as_array().expect("dependencies"))
        .filter_map(|dependency| dependency["name"].as_str())
        .filter(|name| !own.contains(name))
        .collect();
    let unexplained: Vec<_> = used.difference(&reasons).collect();
    assert!(unexplained.is_empty(), "no line in docs/dependencies.md: {unexplained:?}");
}
