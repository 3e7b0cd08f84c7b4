//! Cost of management as the array grows: changes, starts and lists with thousands of volumes, as processor time of the
//! daemon per operation, which is independent of other load on the machine.

mod hosts;
mod space;
mod volumes;

use crate::array::{Api, Array, Drives, Programs};
use crate::load::processor_time;
use crate::scratch::Scratch;
use crate::target::Target;
use crate::transfer::Row;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

const DRIVES: Drives = Drives { count: 4, bytes: 4 << 30 };
const VOLUME_BYTES: u64 = 64 << 20;
/// Number of volumes in one import document: its body stays below the limit of the API.
const DOCUMENT_VOLUMES: usize = 2000;

/// A growing array, and its results.
struct Rig {
    array: Array,
    api: Api,
    rows: Vec<Row>,
}

/// What measures a group of rows.
type Measure = fn(&mut Rig) -> Result<()>;

/// Measures the groups of rows whose names contain `only`, each on a separate array in a folder below `parent`.
///
/// # Errors
/// If the array does not start, or refuses a request.
pub fn run(programs: &Programs, parent: &Path, only: &str) -> Result<Vec<Row>> {
    let groups: [(&str, Measure); 5] = [
        ("volumes", volumes::volumes),
        ("groups", volumes::groups),
        ("host group", hosts::host_group),
        ("sessions", hosts::sessions),
        ("snapshots", space::snapshots),
    ];
    let mut rows = Vec::new();
    for (name, measure) in groups.into_iter().filter(|(name, _)| name.contains(only)) {
        let scratch = Scratch::new(parent, "growth")?;
        let array = Array::start(programs, scratch.path(), DRIVES, None)?;
        let api = array.api()?;
        let mut rig = Rig { array, api, rows: Vec::new() };
        measure(&mut rig).context(name)?;
        rig.array.stop()?;
        rows.append(&mut rig.rows);
    }
    Ok(rows)
}

/// The name of a volume.
fn volume(number: usize) -> String {
    format!("v{number:05}")
}

impl Rig {
    fn report(&mut self, name: String, value: String, aim: &'static str) {
        eprintln!("{name}: {value}");
        self.rows.push(Row { name, value, aim });
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.api.ask("POST", path, &body.to_string())
    }

    /// Processor time of the daemon for an operation.
    fn used(&self, act: impl FnOnce(&Self) -> Result<()>) -> Result<Duration> {
        let before = processor_time(self.array.pid()?)?;
        act(self)?;
        Ok(processor_time(self.array.pid()?)? - before)
    }

    /// Mean processor time of several operations, in ms.
    fn used_each(&self, count: usize, mut act: impl FnMut(&Self, usize) -> Result<()>) -> Result<f64> {
        let used = self.used(|rig| (0..count).try_for_each(|number| act(rig, number)))?;
        Ok(used.as_secs_f64() * 1e3 / count as f64)
    }

    fn create(&self, name: &str, group: Option<&str>) -> Result<()> {
        self.post("volumes", &json!({ "name": name, "size": VOLUME_BYTES, "group": group })).map(drop)
    }

    /// Imports configuration objects.
    fn import(&self, section: &str, items: Vec<Value>) -> Result<()> {
        let count = items.len();
        let mut document = json!({ "format": 1 });
        document[section] = items.into();
        let done = self.post("configuration/import", &json!({ "document": document }))?;
        let created = done["items"].as_array().context("a list of steps")?;
        let created = created.iter().filter(|it| it["action"] == "create").count();
        ensure!(created == count, "{created} of {count} were created");
        Ok(())
    }

    /// Creates the volumes with these numbers, distributed over groups if there are any.
    fn import_volumes(&self, numbers: Range<usize>, groups: usize) -> Result<()> {
        let group = |number: usize| (groups > 0).then(|| format!("g{:03}", number % groups.max(1)));
        let item = |number: usize| json!({ "name": volume(number), "size": VOLUME_BYTES, "block_size": 512, "group": group(number) });
        for first in numbers.clone().step_by(DOCUMENT_VOLUMES) {
            let end = numbers.end.min(first + DOCUMENT_VOLUMES);
            self.import("volumes", (first..end).map(item).collect())?;
        }
        Ok(())
    }

    /// Restarts the daemon; returns its processor time until it serves.
    fn restart(&mut self) -> Result<Duration> {
        self.array.stop()?;
        self.array.restart()?;
        self.api = self.array.api()?;
        processor_time(self.array.pid()?)
    }
}
