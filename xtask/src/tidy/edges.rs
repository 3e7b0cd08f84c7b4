//! Who may import whom inside the workspace.

use super::{members, metadata};
use std::collections::BTreeSet;

/// A crate, what it may import, and what only its tests and examples may import besides.
struct Edges {
    from: &'static str,
    to: &'static [&'static str],
    tests: &'static [&'static str],
}

const fn edges(from: &'static str, to: &'static [&'static str], tests: &'static [&'static str]) -> Edges {
    Edges { from, to, tests }
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
    edges("engine", &["block", "shelf"], &["raid", "rig"]),
    edges("export", &["block"], &[]),
    edges("transport", &["export"], &[]),
    edges("scsi", &["block", "export"], &[]),
    edges("forward", &["block", "peer", "scsi", "transport"], &["export"]),
    edges("iscsi", &["scsi", "transport"], &["block", "export"]),
    edges("nvmf", &["block", "export", "transport"], &["scsi"]),
    edges("tcmu", &["export", "scsi", "transport"], &["block"]),
    edges("history", &[], &[]),
    edges("trust", &[], &[]),
    edges("notify", &["history", "trust"], &[]),
    edges("directory", &["trust"], &["rig"]),
    edges("records", &["block", "history", "notify", "directory"], &[]),
    edges("replication", &["block", "engine", "peer"], &["raid", "rig", "shelf"]),
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
            "records",
            "replication",
            "transport",
        ],
        &["raid"],
    ),
    edges("api", &["array"], &[]),
    edges("client", &[], &[]),
    edges("client-generate", &[], &[]),
    edges("cli", &["client"], &[]),
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
            "forward",
            "history",
            "iscsi",
            "nvmf",
            "peer",
            "rados",
            "raid",
            "scsi",
            "shelf",
            "tcmu",
            "transport",
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
            let allowed = edges.to.contains(&to) || test && edges.tests.contains(&to);
            assert!(allowed || !names.contains(to), "{name} must not import {to}");
        }
    }
}

#[test]
fn the_edge_list_points_downwards() {
    for (position, edges) in ALLOWED.iter().enumerate() {
        for to in edges.to {
            assert!(ALLOWED[..position].iter().any(|below| below.from == *to), "{} → {to}", edges.from);
        }
    }
}
