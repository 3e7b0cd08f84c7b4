//! What it costs an array to be looked at: the same loads on one array, in turn while nobody looks, and while an
//! administrator has two pages open and a monitoring system collects.

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

/// Volumes that the array has beside the one that is used.
const VOLUMES: usize = 1000;
/// How often pages ask while nothing tells them of changes, and how often measurements are collected.
const PAGE: Duration = Duration::from_secs(2);
const COLLECTED: Duration = Duration::from_secs(15);

/// What the dashboard, and the analysis of a volume, ask each time.
const ASKED: &[&str] = &[
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

/// What is found.
#[derive(Clone, Debug)]
pub enum Finding {
    /// The part of one processor that looking takes of an array that does nothing else, less what that takes left alone:
    /// what hosts that keep the processor busy have less. Hardly any noise is in it.
    Share(f64),
    /// A load: figures while somebody looks, as multiples of those while nobody does.
    Load(Row),
}

/// Measures the share, and the loads whose names contain `only`, in a folder below `parent`. A run lasts as long as it
/// takes to collect once, at least.
///
/// # Errors
/// When the array can't be started, or does not answer.
pub fn run(
    programs: &Programs,
    parent: &Path,
    options: Options,
    only: &str,
    mut tell: impl FnMut(&Finding),
) -> Result<()> {
    pin(options.client_core)?;
    let scratch = Scratch::new(parent, "management")?;
    let (array, lun) = filled(programs, scratch.path(), options)?;
    let api = array.api()?;
    for number in 0..VOLUMES {
        let volume = serde_json::json!({ "name": format!("other{number}"), "size": 1u64 << 30 });
        api.ask("POST", "volumes", &volume.to_string())?;
    }
    let time = options.time.max(COLLECTED);
    let idle = || -> Result<f64> {
        let begun = load::processor_time(array.pid()?)?;
        std::thread::sleep(time);
        Ok((load::processor_time(array.pid()?)? - begun).as_secs_f64() / time.as_secs_f64())
    };
    let shares = (0..options.rounds).map(|_| Ok(looked_at(&api, idle)? - idle()?));
    let shares = stats::middle(shares.collect::<Result<Vec<f64>>>()?).context("no rounds")?;
    tell(&Finding::Share(shares.median));
    let loads = loads(options).into_iter();
    for (name, load, _) in loads.filter(|(name, _, client)| *client == Client::Ours && name.contains(only)) {
        let pairs = pairs(options.rounds, |index| {
            let measure = || load::run(&array, lun, load, Until::Time(time));
            let measure = if index == 0 { looked_at(&api, measure) } else { measure() };
            measure.with_context(|| name.clone())
        })?;
        tell(&Finding::Load(row(name, &pairs)?));
    }
    Ok(())
}

/// Does something while the array is looked at.
fn looked_at<T>(api: &Api, act: impl FnOnce() -> Result<T>) -> Result<T> {
    std::thread::scope(|scope| {
        let (ended, end) = channel::<()>();
        let looking = scope.spawn(move || look(api, &end));
        let done = act();
        drop(ended);
        looking.join().unwrap_or_else(|_| Err(anyhow::anyhow!("whoever looked at the array panicked")))?;
        done
    })
}

/// Asks until there is nobody any more who could say that it is to end.
fn look(api: &Api, end: &Receiver<()>) -> Result<()> {
    for turn in 0u32.. {
        if (PAGE * turn).as_secs() % COLLECTED.as_secs() < PAGE.as_secs() {
            api.text("GET", "/metrics", "")?;
        }
        for path in ASKED {
            api.text("GET", path, "")?;
        }
        if end.recv_timeout(PAGE) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    Ok(())
}
