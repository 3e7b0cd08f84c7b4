//! Every direct dependency, crate or Go module, has a line with its reason in `docs/dependencies.md`.

use super::{members, metadata};
use crate::shell::root;
use std::collections::BTreeSet;

/// The names that docs/dependencies.md gives a reason for.
fn reasons(text: &str) -> BTreeSet<&str> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.skip(1).flat_map(|names| names.split(", ")).collect()
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/dependencies.md")).expect("docs/dependencies.md")
}

#[test]
fn every_go_module_has_a_reason() {
    let (page, list) =
        (page(), std::fs::read_to_string(root().join("integrations/go/go.mod")).expect("go.mod"));
    let direct = list.lines().filter(|line| line.starts_with('\t') && !line.ends_with("// indirect"));
    let used: Vec<_> = direct.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(!used.is_empty(), "no module in go.mod");
    let unexplained: Vec<_> = used.iter().filter(|name| !reasons(&page).contains(*name)).collect();
    assert!(unexplained.is_empty(), "no line in docs/dependencies.md: {unexplained:?}");
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
