//! Every direct dependency has a line with its reason in `docs/dependencies.md`.

use super::{members, metadata};
use crate::shell::root;
use std::collections::BTreeSet;

#[test]
fn every_direct_dependency_has_a_reason() {
    let text = std::fs::read_to_string(root().join("docs/dependencies.md")).expect("docs/dependencies.md");
    let reasons: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .skip(1)
        .flat_map(|names| names.split(", "))
        .collect();
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
