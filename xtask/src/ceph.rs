//! A real Ceph cluster that is made for a run.

use crate::setup;
use crate::shell::target_dir;
use anyhow::{Context, Result};
use lab::ceph::{self, Ceph};
use lab::scratch::Scratch;
use std::time::Instant;

/// Storage daemons of a cluster.
pub const OSDS: usize = 3;
/// Bytes of each, in memory as far as they are used.
pub const OSD_BYTES: u64 = 4 << 30;

/// Runs `body` of a verb on a cluster. Without Ceph it says so, and nothing is run; after a failure the folder stays.
pub fn with_cluster(verb: &str, body: impl FnOnce(&mut Ceph) -> Result<()>) -> Result<()> {
    if let Some(reason) = ceph::missing() {
        println!("{verb}: skipped: {reason}");
        return Ok(());
    }
    setup::need(&["libiscsi-bin"])?;
    let (scratch, start) = (Scratch::new(&target_dir(), verb)?, Instant::now());
    let result =
        Ceph::start(scratch.path(), OSDS, OSD_BYTES).context("a Ceph cluster").and_then(|mut ceph| {
            println!("a Ceph cluster with {OSDS} OSDs in {} s", start.elapsed().as_secs());
            body(&mut ceph)
        });
    scratch.end(result)
}
