//! Cost of management: the same loads on one array, alternately undisturbed, and with two open web pages and a
//! monitoring system that collects metrics.

use crate::array::{Api, Programs};
use crate::bench::{Client, Options, loads, pin};
use crate::compare::{Row, filled, pairs, row};
use crate::load::{self, Until};
use crate::scratch::Scratch;
use crate::stats;
use crate::target::Target;
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Number of further volumes of the array.
const VOLUMES: usize = 1000;
/// Polling interval of pages without an event stream, and interval of metrics collection.
const PAGE_INTERVAL: Duration = Duration::from_secs(2);
const COLLECTION_INTERVAL: Duration = Duration::from_secs(15);

/// Requests of the dashboard and of a volume's performance page.
const REQUESTS: &[&str] = &[
    "/api/v1/array",
    "/api/v1/alerts",
    "/api/v1/performance?points=300",
    "/api/v1/capacity?points=200",
    "/api/v1/performance?points=300&volume=volume1",
    "/api/v1/performance/sizes?points=300&volume=volume1",
    "/api/v1/performance/latency?points=120&volume=volume1",
    "/api/v1/performance/offload?points=300&volume=volume1",
    "/api/v1/performance/top?by=volume&limit=10",
];

/// A result.
#[derive(Clone, Debug)]
pub enum Finding {
    /// Share of one processor that management takes on an otherwise idle array, less its idle load: the loss of hosts
    /// that keep the processor busy. It has almost no noise.
    Share(f64),
    /// A load: figures with management, as ratios to those without.
    Load(Row),
}

/// Measures the share, and the loads whose names contain `only`, in a folder below `parent`. A run takes at least one
/// collection interval.
///
/// # Errors
/// If the array can't be started, or does not respond.
pub fn run(
    programs: &Programs,
    parent: &Path,
    options: Options,
    only: &str,
    mut report: impl FnMut(&Finding),
) -> Result<()> {
    pin(options.client_core)?;
    let scratch = Scratch::new(parent, "management")?;
    let (array, lun) = filled(programs, scratch.path(), options)?;
    let api = array.api()?;
    for number in 0..VOLUMES {
        let volume = serde_json::json!({ "name": format!("other{number}"), "size": 1u64 << 30 });
        api.ask("POST", "volumes", &volume.to_string())?;
    }
    let time = options.time.max(COLLECTION_INTERVAL);
    let idle = || -> Result<f64> {
        let begun = load::processor_time(array.pid()?)?;
        std::thread::sleep(time);
        Ok((load::processor_time(array.pid()?)? - begun).as_secs_f64() / time.as_secs_f64())
    };
    let shares = (0..options.rounds).map(|_| Ok(looked_at(&api, idle)? - idle()?));
    let shares = stats::middle(shares.collect::<Result<Vec<f64>>>()?).context("no rounds")?;
    report(&Finding::Share(shares.median));
    let loads = loads(options).into_iter();
    for (name, load, _) in loads.filter(|(name, _, client)| *client == Client::Ours && name.contains(only)) {
        let pairs = pairs(options.rounds, |index| {
            let measure = || load::run(&array, lun, load, Until::Time(time));
            let measure = if index == 0 { looked_at(&api, measure) } else { measure() };
            measure.with_context(|| name.clone())
        })?;
        report(&Finding::Load(row(name, &pairs)?));
    }
    Ok(())
}

/// Runs `act` while management requests are sent.
fn looked_at<T>(api: &Api, act: impl FnOnce() -> Result<T>) -> Result<T> {
    std::thread::scope(|scope| {
        let (ended, end) = channel::<()>();
        let looking = scope.spawn(move || look(api, &end));
        let done = act();
        drop(ended);
        looking.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the management thread panicked")))?;
        done
    })
}

/// Sends requests until the sender of `end` is dropped.
fn look(api: &Api, end: &Receiver<()>) -> Result<()> {
    for turn in 0u32.. {
        if (PAGE_INTERVAL * turn).as_secs() % COLLECTION_INTERVAL.as_secs() < PAGE_INTERVAL.as_secs() {
            api.text("GET", "/metrics", "")?;
        }
        for path in REQUESTS {
            api.text("GET", path, "")?;
        }
        if end.recv_timeout(PAGE_INTERVAL) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    Ok(())
}
