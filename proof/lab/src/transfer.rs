//! Cost of replication between two arrays on loopback: network bytes relative to the data, speed and processor time for
//! new data, and effect on hosts of the source.

use crate::array::{Api, Array, Drives, Programs};
use crate::cdb;
use crate::content::Payload;
use crate::host::Content;
use crate::libiscsi::{Ending, Libiscsi};
use crate::load::{self, Direction, INITIATOR, LOGICAL_BLOCK_BYTES, Load, Order, Until, processor_time};
use crate::real::login;
use crate::replication;
use crate::scratch::Scratch;
use crate::stats::{Middle, middle};
use crate::target::{Shape, Target};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Parameters of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Duration of each host load.
    pub time: Duration,
    /// Rounds of timed measurements; the median is used.
    pub rounds: usize,
    /// Bytes of new data in a round.
    pub span: u64,
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the figure.
    pub name: String,
    /// Value with its unit.
    pub value: String,
    /// Target value; empty if there is none.
    pub aim: &'static str,
}

/// Bytes and time of a transfer.
#[derive(Clone, Copy, Debug)]
struct Synced {
    network: u64,
    logical: u64,
    time: Duration,
    /// Processor time of source and target.
    used: [Duration; 2],
}

const HOST: &str = "host";
const DRIVES: Drives = Drives { count: 4, bytes: 4 << 30 };
const CLONES: usize = 100;
const IMAGE_BYTES: u64 = 64 << 20;
/// Unshared data of each clone.
const OWN_BYTES: u64 = 256 << 10;
const TABLE_BYTES: u64 = 256 << 20;
/// Size of a thin volume, of which a thousandth is changed, distributed over the whole volume.
const LARGE_BYTES: u64 = 1 << 40;
const CHANGED_BYTES: u64 = LARGE_BYTES / 1000 / WRITE_BYTES * WRITE_BYTES;
/// Size of the volume that hosts use during the transfer.
const BESIDE_BYTES: u64 = 64 << 20;
const WRITE_BYTES: u64 = 256 << 10;
const BESIDE_LUN: u16 = 201;
const FRESH_LUN: u16 = 202;
const TABLE_LUN: u16 = 203;
const LARGE_LUN: u16 = 204;
/// Time limit of a transfer.
const TIMEOUT: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(20);
/// Time without a change of space after which the background has finished.
const REST: Duration = Duration::from_secs(3);

struct Rig {
    arrays: [Array; 2],
    apis: [Api; 2],
    payload: Payload,
    rows: Vec<Row>,
}

/// Measures in a folder below `parent`, with the source on processor 0 and the target on processor 1.
///
/// # Errors
/// If an array does not start, or a transfer does not end.
pub fn run(programs: &Programs, parent: &Path, options: Options) -> Result<Vec<Row>> {
    let scratch = Scratch::new(parent, "transfer")?;
    let mut rig = Rig::start(programs, scratch.path())?;
    rig.clones().context("clones")?;
    rig.table().context("the fact table")?;
    rig.large().context("a large volume")?;
    rig.fresh(options).context("new data")?;
    rig.beside(options).context("hosts beside a transfer")?;
    Ok(rig.rows)
}

impl Rig {
    fn start(programs: &Programs, folder: &Path) -> Result<Self> {
        let (source, _) = replication::start(programs, &folder.join("source"), &DRIVES, Some(0))?;
        let (target, there) = replication::start(programs, &folder.join("target"), &DRIVES, Some(1))?;
        replication::pair(&source, &target, &there.to_string())?;
        let arrays = [source, target];
        arrays[0].add_host(HOST, INITIATOR)?;
        let apis = [arrays[0].api()?, arrays[1].api()?];
        Ok(Self { arrays, apis, payload: Payload::new(1), rows: Vec::new() })
    }

    fn report(&mut self, name: &str, value: String, aim: &'static str) {
        eprintln!("{name}: {value}");
        self.rows.push(Row { name: name.to_owned(), value, aim });
    }

    /// A first transfer of clones of one image, each with some unshared data.
    fn clones(&mut self) -> Result<()> {
        let source = &self.arrays[0];
        source.cli(&["group", "create", "desktops"])?;
        self.add("image", IMAGE_BYTES, 0)?;
        self.write(0, 0..IMAGE_BYTES, &Content::Image(0))?;
        for number in 1..=CLONES {
            let (name, lun) = (format!("desktop{number}"), u16::try_from(number)?);
            let source = &self.arrays[0];
            source.cli(&["volume", "clone", "image", &name, "--group", "desktops"])?;
            source.connect(&name, HOST, lun)?;
            // At a different location in each.
            let at = number as u64 * OWN_BYTES;
            self.write(lun, at..at + OWN_BYTES, &Content::Half)?;
        }
        let stored = self.rest()?;
        let synced = self.first("desktops", &["--group", "desktops"])?;
        ensure!(synced.logical >= CLONES as u64 * IMAGE_BYTES, "not all was transferred: {synced:?}");
        self.report_first(
            &format!("{CLONES} clones of an image of 64 MiB, 256 KiB of each its own"),
            synced,
            stored,
        );
        let again = self.sync("desktops")?;
        self.report(
            "a point of 100 volumes without changes: network",
            format!("{} bytes", again.network),
            "",
        );
        Ok(())
    }

    /// A first transfer of a data set, and one after it was rewritten with the same data.
    fn table(&mut self) -> Result<()> {
        let before = self.rest()?;
        self.add("table", TABLE_BYTES, TABLE_LUN)?;
        self.write(TABLE_LUN, 0..TABLE_BYTES, &Content::Table(0))?;
        let stored = self.rest()?.saturating_sub(before);
        let synced = self.first("table", &["--volume", "table"])?;
        self.report_first("fact table of 256 MiB", synced, stored);
        self.write(TABLE_LUN, 0..TABLE_BYTES, &Content::Table(0))?;
        let synced = self.sync("table")?;
        let share = format!("{} ({} bytes)", percent(synced.network, TABLE_BYTES), synced.network);
        self.report("fact table, all written again with what was there: network ÷ its size", share, "≤ 1 %");
        Ok(())
    }

    /// A point of a large volume with few changes: unchanged data must cost nothing.
    fn large(&mut self) -> Result<()> {
        self.add("large", LARGE_BYTES, LARGE_LUN)?;
        self.first("large", &["--volume", "large"])?;
        let before = self.rest()?;
        let writes = CHANGED_BYTES / WRITE_BYTES;
        let apart = LARGE_BYTES / writes / WRITE_BYTES * WRITE_BYTES;
        for number in 0..writes {
            let at = number * apart;
            self.write(LARGE_LUN, at..at + WRITE_BYTES, &Content::Half)?;
        }
        let stored = self.rest()?.saturating_sub(before);
        let synced = self.sync("large")?;
        ensure!(synced.logical == CHANGED_BYTES, "not all was transferred: {synced:?}");
        let what = "thin volume of 1 TiB, 0.1 % of it changed";
        self.report(&format!("{what}: time"), format!("{:.1} s", synced.time.as_secs_f64()), "seconds");
        for (name, bytes) in [("changed data", CHANGED_BYTES), ("unique data after reduction", stored)] {
            let value =
                format!("{} ({} of {})", percent(synced.network, bytes), mib(synced.network), mib(bytes));
            self.report(&format!("{what}: network ÷ {name}"), value, "");
        }
        Ok(())
    }

    fn report_first(&mut self, what: &str, synced: Synced, stored: u64) {
        let parts = [("logical data", synced.logical), ("unique data after reduction on the source", stored)];
        for (name, bytes) in parts {
            let value =
                format!("{} ({} of {})", percent(synced.network, bytes), mib(synced.network), mib(bytes));
            self.report(&format!("{what}, first transfer: network ÷ {name}"), value, "");
        }
        self.report(
            &format!("{what}, first transfer: time"),
            format!("{:.1} s", synced.time.as_secs_f64()),
            "",
        );
    }

    /// New data that compress to half.
    fn fresh(&mut self, options: Options) -> Result<()> {
        self.add("fresh", options.span, FRESH_LUN)?;
        self.write(FRESH_LUN, 0..WRITE_BYTES, &Content::Half)?;
        self.first("fresh", &["--volume", "fresh"])?;
        let mut rounds = Vec::new();
        for _ in 0..options.rounds {
            self.fill(options.span)?;
            self.rest()?;
            let synced = self.sync("fresh")?;
            ensure!(synced.logical == options.span, "not all was transferred: {synced:?}");
            rounds.push(synced);
        }
        let mib = options.span as f64 / f64::from(1 << 20);
        let rate = of(&rounds, |it| options.span as f64 / 1e6 / it.time.as_secs_f64())?;
        self.report("new data, 2:1: MB/s", shown(rate), "≥ 400");
        let network = of(&rounds, |it| it.network as f64 * 100.0 / options.span as f64)?;
        self.report("new data, 2:1: network ÷ logical data, in %", shown(network), "");
        for (end, name) in ["source", "target"].into_iter().enumerate() {
            let used = of(&rounds, |it| it.used[end].as_secs_f64() * 1e3 / mib)?;
            self.report(&format!("new data, 2:1: CPU of the {name}, in ms/MiB"), shown(used), "≤ 2.6");
        }
        Ok(())
    }

    /// Hosts of another volume, alternately during a transfer of new data and without.
    fn beside(&mut self, options: Options) -> Result<()> {
        self.add("beside", BESIDE_BYTES, BESIDE_LUN)?;
        self.write(BESIDE_LUN, 0..BESIDE_BYTES, &Content::Half)?;
        for (name, direction) in [("reads", Direction::Read), ("writes", Direction::Write)] {
            let mut rounds = Vec::new();
            for round in 0..options.rounds {
                // The order alternates, since the first run of a pair may change conditions for the second.
                let mut pair = [0.0; 2];
                for index in [round % 2, 1 - round % 2] {
                    pair[index] = self.latency(direction, options, index == 1)?;
                }
                rounds.push(pair);
            }
            let [alone, syncing] = [0, 1].map(|index| middle(rounds.iter().map(|pair| pair[index])));
            let ratio = middle(rounds.iter().map(|[alone, syncing]| syncing / alone)).context("no rounds")?;
            let what = format!("4K random {name}, depth 4: p99");
            self.report(&format!("{what} alone, in µs"), shown(alone.context("no rounds")?), "");
            self.report(
                &format!("{what} while new data are transferred, in µs"),
                shown(syncing.context("no rounds")?),
                "",
            );
            self.report(&format!("{what} while new data are transferred ÷ alone"), shown(ratio), "≤ 1.3");
        }
        Ok(())
    }

    /// The 99th percentile of a load's latency on the other volume, in µs.
    fn latency(&mut self, direction: Direction, options: Options, syncing: bool) -> Result<f64> {
        let load = Load {
            direction,
            order: Order::Random,
            bytes: 4096,
            depth: 4,
            sessions: 1,
            content: load::Content::Half,
            span: BESIDE_BYTES,
        };
        // Both are preceded by the same writes.
        self.fill(options.span)?;
        self.rest()?;
        let before = self.progress(0, "fresh")?;
        if syncing {
            self.apis[0].ask("POST", "replications/fresh/sync", "{}")?;
            self.until(0, "fresh", |now| number(now, "network_bytes") > number(&before, "network_bytes"))?;
        }
        let measured = load::run(&self.arrays[0], BESIDE_LUN, load, Until::Time(options.time))?;
        if syncing {
            let over = self.progress(0, "fresh")?["state"] != "syncing";
            ensure!(!over, "the transfer has ended before the load: choose a larger --span");
            self.until(0, "fresh", |now| now["state"] == "idle")?;
        } else {
            self.sync("fresh")?;
        }
        Ok(measured.p99_us)
    }

    fn add(&self, name: &str, bytes: u64, lun: u16) -> Result<()> {
        self.arrays[0].add_volume(name, Shape { bytes, block_bytes: LOGICAL_BLOCK_BYTES })?;
        self.arrays[0].connect(name, HOST, lun)
    }

    /// Writes a part of a volume, one command after the other.
    fn write(&mut self, lun: u16, part: std::ops::Range<u64>, content: &Content) -> Result<()> {
        let mut session = login(&Libiscsi::load()?, &self.arrays[0], INITIATOR, &[lun], 0)?;
        let block = u64::from(LOGICAL_BLOCK_BYTES);
        for at in part.step_by(WRITE_BYTES as usize) {
            let data = self.payload.make(&content.from(at), WRITE_BYTES as usize);
            let write = cdb::write(lun, at / block, (WRITE_BYTES / block) as u32, false, data);
            match session.perform(write)? {
                Ending::Good(_) => {}
                other => bail!("a write ended with {other:?}"),
            }
        }
        Ok(())
    }

    /// Writes all of volume `fresh` with new data.
    fn fill(&self, span: u64) -> Result<()> {
        let load = Load {
            direction: Direction::Write,
            order: Order::Sequential,
            bytes: 65_536,
            depth: 8,
            sessions: 1,
            content: load::Content::Half,
            span,
        };
        load::run(&self.arrays[0], FRESH_LUN, load, Until::Covered).map(drop)
    }

    /// Waits until both arrays have finished their background work; returns the stored bytes of the source.
    fn rest(&self) -> Result<u64> {
        let start = Instant::now();
        let (mut last, mut since) = (Value::Null, start);
        loop {
            let spaces: Vec<Value> = self
                .apis
                .iter()
                .map(|api| Ok(api.ask("GET", "array", "")?["space"].clone()))
                .collect::<Result<_>>()?;
            let stored = spaces.first().and_then(|space| space["physical"].as_u64()).context("a space")?;
            let now = Value::Array(spaces);
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() >= REST {
                return Ok(stored);
            }
            ensure!(start.elapsed() < TIMEOUT, "the arrays do not come to rest: {last}");
            std::thread::sleep(POLL);
        }
    }

    /// Creates a replication, whose first point is transferred at once.
    fn first(&self, name: &str, subject: &[&str]) -> Result<Synced> {
        let words: Vec<&str> = ["replication", "create", name, "--to", "target", "--rpo", "24h"]
            .into_iter()
            .chain(subject.iter().copied())
            .collect();
        self.measured(name, &serde_json::json!({}), || self.arrays[0].cli(&words).map(drop))
    }

    fn sync(&self, name: &str) -> Result<Synced> {
        let before = self.progress(0, name)?;
        self.measured(name, &before, || {
            self.apis[0].ask("POST", &format!("replications/{name}/sync"), "{}").map(drop)
        })
    }

    /// Cost of a transfer until its point is complete.
    fn measured(&self, name: &str, before: &Value, begin: impl FnOnce() -> Result<()>) -> Result<Synced> {
        let used = || -> Result<[Duration; 2]> {
            Ok([processor_time(self.arrays[0].pid()?)?, processor_time(self.arrays[1].pid()?)?])
        };
        let (used_before, start) = (used()?, Instant::now());
        begin()?;
        let point = number(before, "last_point");
        let after = self.until(0, name, |now| now["state"] == "idle" && number(now, "last_point") > point)?;
        let (time, used) = (start.elapsed(), used()?);
        let grown = |field: &str| number(&after, field) - number(before, field);
        Ok(Synced {
            network: grown("network_bytes"),
            logical: grown("logical_bytes"),
            time,
            used: [used[0] - used_before[0], used[1] - used_before[1]],
        })
    }

    fn progress(&self, at: usize, name: &str) -> Result<Value> {
        Ok(self.apis[at].ask("GET", &format!("replications/{name}"), "")?["progress"].clone())
    }

    fn until(&self, at: usize, name: &str, is_reached: impl Fn(&Value) -> bool) -> Result<Value> {
        let start = Instant::now();
        loop {
            let progress = self.progress(at, name)?;
            if is_reached(&progress) {
                return Ok(progress);
            }
            ensure!(start.elapsed() < TIMEOUT, "the transfer does not get on: {progress}");
            std::thread::sleep(POLL);
        }
    }
}

fn number(progress: &Value, field: &str) -> u64 {
    progress[field].as_u64().unwrap_or_default()
}

fn of(rounds: &[Synced], value: impl Fn(&Synced) -> f64) -> Result<Middle> {
    middle(rounds.iter().map(value)).context("no rounds")
}

fn shown(it: Middle) -> String {
    let digits = if it.median < 100.0 { 2 } else { 0 };
    format!("{:.digits$} ({:.digits$}–{:.digits$})", it.median, it.low, it.high)
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2} %", part as f64 * 100.0 / whole.max(1) as f64)
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
