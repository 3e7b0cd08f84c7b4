//! Who may import whom inside the workspace.

use super::{members, metadata};
use crate::shell::root;
use std::collections::{BTreeMap, BTreeSet};

/// A crate, what it may import, and what only its tests and examples may import besides.
struct Edges {
    from: &'static str,
    to: &'static [&'static str],
    tests: &'static [&'static str],
}

const fn edges(from: &'static str, to: &'static [&'static str], tests: &'static [&'static str]) -> Edges {
    Edges { from, to, tests }
}

impl Edges {
    fn allows(&self, to: &str, test: bool) -> bool {
        self.to.contains(&to) || test && self.tests.contains(&to)
    }
}

/// The order of the path of an I/O, then control, then proof: nothing here points upwards.
const ALLOWED: &[Edges] = &[
    edges("block", &[], &[]),
    edges("shelf", &[], &[]),
    edges("rig", &["shelf"], &[]),
    edges("media", &["shelf"], &[]),
    edges("raid", &["media", "shelf"], &["rig"]),
    edges("rados", &["media", "shelf"], &["rig"]),
    edges("cluster", &["media", "shelf"], &[]),
    edges("peer", &["block"], &[]),
    edges("address", &[], &[]),
    edges("text", &[], &[]),
    edges("engine", &["block", "shelf"], &["raid", "rig"]),
    edges("export", &["block"], &[]),
    edges("transport", &["export"], &[]),
    edges("scsi", &["block", "export"], &[]),
    edges("forward", &["block", "peer", "scsi", "transport"], &["export"]),
    edges("iscsi", &["scsi", "text", "transport"], &["block", "export"]),
    edges("nvmf", &["block", "export", "transport"], &["scsi"]),
    edges("tcmu", &["export", "scsi", "transport"], &["block"]),
    edges("units", &[], &[]),
    edges("trust", &[], &[]),
    edges("records", &["block", "text"], &[]),
    edges("history", &["records"], &[]),
    edges("notify", &["history", "records", "text", "trust"], &[]),
    edges("directory", &["records", "text", "trust"], &["rig"]),
    edges("replication", &["block", "engine", "peer", "text"], &["raid", "rig", "shelf"]),
    edges(
        "array",
        &[
            "block",
            "export",
            "scsi",
            "iscsi",
            "nvmf",
            "engine",
            "shelf",
            "history",
            "notify",
            "directory",
            "peer",
            "records",
            "replication",
            "text",
            "transport",
        ],
        &["raid"],
    ),
    edges("machine", &["array", "cluster", "engine", "rados", "raid", "shelf", "trust"], &["rig"]),
    edges("api", &["array", "transport", "trust", "units"], &[]),
    edges("client", &[], &[]),
    edges("cli", &["client", "units"], &[]),
    edges(
        "fabric",
        &[
            "address",
            "api",
            "array",
            "block",
            "cluster",
            "engine",
            "forward",
            "history",
            "iscsi",
            "machine",
            "peer",
            "rados",
            "raid",
            "scsi",
            "shelf",
            "transport",
        ],
        &["export"],
    ),
    edges(
        "ashlard",
        &[
            "address",
            "api",
            "array",
            "block",
            "cluster",
            "engine",
            "export",
            "fabric",
            "history",
            "iscsi",
            "machine",
            "nvmf",
            "raid",
            "scsi",
            "shelf",
            "tcmu",
            "transport",
            "units",
        ],
        &["rig"],
    ),
    edges("bench", &["block", "engine", "raid", "rig", "shelf"], &[]),
    edges(
        "fuzz",
        &[
            "block",
            "cluster",
            "engine",
            "export",
            "forward",
            "iscsi",
            "nvmf",
            "peer",
            "raid",
            "replication",
            "scsi",
            "shelf",
            "tcmu",
            "transport",
        ],
        &[],
    ),
    edges(
        "sim",
        &[
            "block",
            "cluster",
            "engine",
            "export",
            "forward",
            "peer",
            "rados",
            "raid",
            "replication",
            "scsi",
            "shelf",
        ],
        &[],
    ),
    edges("lab", &[], &[]),
    edges("xtask", &["lab"], &[]),
];

#[test]
fn crates_import_only_what_lies_below_them() {
    let metadata = metadata();
    let names: BTreeSet<_> = members(&metadata).filter_map(|package| package["name"].as_str()).collect();
    for package in members(&metadata) {
        let name = package["name"].as_str().expect("a name");
        let edges = ALLOWED.iter().find(|edges| edges.from == name);
        let edges = edges.unwrap_or_else(|| panic!("{name} has no line in the edge list"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().expect("a name");
            let test = dependency["kind"] == "dev";
            assert!(edges.allows(to, test) || !names.contains(to), "{name} must not import {to}");
        }
    }
}

/// The folder above a crate: `io`, `control`, `proof`, or none for `xtask`.
pub(super) fn folder(package: &serde_json::Value) -> &str {
    let path = package["manifest_path"].as_str().expect("a path");
    let below = path.strip_prefix(root().to_str().expect("a path in UTF-8")).expect("below the top");
    below.trim_start_matches('/').split('/').next().unwrap_or_default()
}

/// What a crate in a folder may import, whatever the list says.
fn may_import(from: &str, to: &str, test: bool) -> bool {
    match from {
        "io" => to == "io" || test && to == "proof",
        "control" => ["io", "control"].contains(&to) || test && to == "proof",
        _ => true,
    }
}

#[test]
fn io_imports_no_control_and_the_product_no_proof() {
    let metadata = metadata();
    let folders: BTreeMap<_, _> = members(&metadata)
        .map(|package| (package["name"].as_str().expect("a name"), folder(package)))
        .collect();
    for edges in ALLOWED {
        let from = folders[edges.from];
        let product = edges.to.iter().map(|to| (to, false));
        for (to, test) in product.chain(edges.tests.iter().map(|to| (to, true))) {
            assert!(may_import(from, folders[to], test), "{} in {from} → {to}", edges.from);
        }
    }
}

#[test]
fn an_import_upwards_is_found() {
    let raid = ALLOWED.iter().find(|edges| edges.from == "raid").expect("a line");
    assert!(raid.allows("shelf", false) && !raid.allows("engine", false));
    assert!(raid.allows("rig", true) && !raid.allows("rig", false));
    assert!(may_import("control", "io", false) && !may_import("io", "control", true));
    assert!(may_import("io", "proof", true) && !may_import("io", "proof", false));
}

#[test]
fn the_edge_list_points_downwards() {
    for (position, edges) in ALLOWED.iter().enumerate() {
        for to in edges.to {
            assert!(ALLOWED[..position].iter().any(|below| below.from == *to), "{} → {to}", edges.from);
        }
    }
}
