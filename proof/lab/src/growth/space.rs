//! The space of a volume that has thousands of snapshots.

use super::{Rig, VOLUME_BYTES};
use crate::load::{self, Content, Direction, INITIATOR, Load, Order, Until};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

const SNAPSHOTS: usize = 5000;
/// Number of snapshots between writes to the volume.
const STEP: usize = 500;
const READS: usize = 20;

/// One volume in a group, with snapshots that have data of their own.
pub fn snapshots(rig: &mut Rig) -> Result<()> {
    rig.array.cli(&["group", "create", "all"])?;
    rig.create("data", Some("all"))?;
    rig.array.add_host("load", INITIATOR)?;
    rig.post("connections", &json!({ "volume": "data", "host": "load" }))?;
    let load = Load {
        direction: Direction::Write,
        order: Order::Random,
        bytes: 4096,
        depth: 8,
        sessions: 1,
        content: Content::Half,
        span: VOLUME_BYTES,
    };
    for number in 0..SNAPSHOTS {
        if number % STEP == 0 {
            load::run(&rig.array, 0, load, Until::Time(Duration::from_millis(200)))?;
        }
        rig.post("snapshots", &json!({ "volume": "data", "suffix": number.to_string() }))?;
    }
    for noun in ["volumes/data", "groups/all"] {
        let path = format!("/api/v1/{noun}/space");
        let used = rig.used_each(READS, |rig, _| rig.api.text("GET", &path, "").map(drop))?;
        let name = format!("`GET /{noun}/space` with {SNAPSHOTS} snapshots: CPU");
        rig.report(name, format!("{used:.1} ms"), "counted as it changes");
    }
    Ok(())
}
