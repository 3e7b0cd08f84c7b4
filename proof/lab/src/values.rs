//! Values of a step by name, as in workload files.

use crate::host::Host;
use crate::host::figures::{INTERVAL, Offload, Sample};
use crate::real::Run;
use crate::stats::Latencies;
use std::collections::BTreeMap;

/// Values by name.
pub type Values = BTreeMap<String, f64>;

/// Results of one run of a step.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// By name.
    pub values: Values,
    /// Commands per second of the watched hosts, for each tenth of a second.
    pub line: Vec<f64>,
}

/// Samples in a window for the peak and the steadiness of a rate: half a second.
const WINDOW: usize = 5;
const PER_SECOND: f64 = 1e9 / INTERVAL as f64;

/// Values of a run. Only `watched` hosts count, except for values that begin with `all_`.
pub fn measure(hosts: &[Host], watched: &[bool], run: &Run) -> Measured {
    let seen = || hosts.iter().zip(watched).filter(|(_, watched)| **watched).map(|(host, _)| host.figures());
    let (mut sum, mut latencies, mut all) = (Sample::default(), Latencies::default(), Sample::default());
    seen().for_each(|figures| {
        sum.merge(&figures.sum());
        latencies.add(&figures.latencies);
    });
    hosts.iter().for_each(|host| all.merge(&host.figures().sum()));
    let line = line(seen().map(|figures| figures.samples.as_slice()), run.time.as_nanos() as u64);
    let seconds = run.time.as_secs_f64().max(1e-9);
    let mut values = Values::new();
    let mut put = |name: &str, value: f64| {
        values.insert(name.to_owned(), value);
    };
    put("iops", sum.commands as f64 / seconds);
    put("mb_s", (sum.read + sum.written) as f64 / 1e6 / seconds);
    put("read_mb_s", sum.read as f64 / 1e6 / seconds);
    put("write_mb_s", sum.written as f64 / 1e6 / seconds);
    put("davg", sum.davg());
    put("kavg", sum.kavg());
    put("gavg", sum.gavg());
    put("p50", latencies.at(0.5) / 1e3);
    put("p99", latencies.at(0.99) / 1e3);
    put("longest", latencies.at(1.0) / 1e3);
    put("actv", seen().map(|figures| figures.active()).sum());
    put("qued", seen().map(|figures| figures.queued()).sum());
    put("all_stuns", hosts.iter().map(|host| host.figures().stuns as f64).sum());
    put("all_conflicts", all.conflicts as f64);
    put("all_ats_failed", all.offloaded[Offload::Ats as usize].failed as f64);
    put("all_unmap_mb_s", all.offloaded[Offload::Delete as usize].bytes as f64 / 1e6 / seconds);
    put("all_moved_mb", (all.read + all.written) as f64 / 1e6);
    put("soft_quota_warnings", run.attentions.get(&0x3807).copied().unwrap_or(0) as f64);
    if let Some(finished) = run.finished {
        put("seconds", finished.as_secs_f64());
    }
    if let Some(processor) = run.processor {
        put("cpu_s", processor.as_secs_f64());
        if sum.commands > 0 {
            put("cpu_us", processor.as_secs_f64() * 1e6 / sum.commands as f64);
        }
    }
    for (name, value) in steadiness(&line) {
        put(name, value);
    }
    Measured { values, line }
}

/// Summed rates of all hosts, without an incomplete last interval.
fn line<'a>(hosts: impl Iterator<Item = &'a [Sample]>, end: u64) -> Vec<f64> {
    let mut line: Vec<f64> = Vec::new();
    for samples in hosts {
        for (index, sample) in samples.iter().enumerate().filter(|(_, sample)| sample.until <= end) {
            if line.len() <= index {
                line.resize(index + 1, 0.0);
            }
            line[index] += sample.commands as f64 * PER_SECOND;
        }
    }
    line
}

/// The maximum rate, and minimum and standard deviation relative to the mean, all in windows of half a second.
fn steadiness(line: &[f64]) -> Vec<(&'static str, f64)> {
    let windows: Vec<f64> =
        line.chunks_exact(WINDOW).map(|it| it.iter().sum::<f64>() / WINDOW as f64).collect();
    let mean = windows.iter().sum::<f64>() / windows.len() as f64;
    if windows.is_empty() || mean == 0.0 {
        return Vec::new();
    }
    let variance = windows.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / windows.len() as f64;
    let peak = windows.iter().copied().fold(0.0, f64::max);
    let least = windows.iter().copied().fold(f64::INFINITY, f64::min);
    vec![("peak", peak), ("least", least / mean), ("swing", variance.sqrt() / mean)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Settings;
    use crate::host::world::{Access, Mix, World};
    use crate::ideal::{self, Ideal};
    use std::time::Duration;

    #[test]
    fn rates_of_an_ideal_array_are_as_calculated() {
        let access = Access { bytes: 4096, read: 50, random: 100, weight: 1 };
        let mix: Box<dyn World> =
            Box::new(Mix::new(0, 0..1 << 20, 10, vec![access], crate::host::Content::Half));
        let mut host = Host::new(Settings::default(), 1, vec![mix], 1);
        ideal::run(&mut host, Ideal { service: 1_000_000, at_once: 0, offload_per_mib: 0 }, 2_000_000_000);
        let (time, processor) = (Duration::from_secs(2), Some(Duration::from_millis(200)));
        let run = Run { time, processor, ..Run::default() };
        let measured = measure(&[host], &[true], &run);
        let near = |name: &str, expected: f64| {
            let value = measured.values[name];
            assert!((value / expected - 1.0).abs() < 0.01, "{name}: {value}");
        };
        near("iops", 10_000.0);
        near("mb_s", 40.96);
        near("gavg", 1.0);
        near("cpu_us", 10.0);
        near("peak", 10_000.0);
        near("least", 1.0);
        assert!(measured.values["swing"] < 0.01);
        assert!(!measured.values.contains_key("seconds"));
        assert_eq!(measured.line.len(), 20);
    }

    #[test]
    fn an_unsteady_rate_is_reported() {
        let line: Vec<f64> = [100.0; 10].into_iter().chain([0.0; 10]).collect();
        assert_eq!(steadiness(&line), [("peak", 100.0), ("least", 0.0), ("swing", 1.0)]);
        assert!(steadiness(&[]).is_empty());
    }
}
