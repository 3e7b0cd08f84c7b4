//! libiscsi's load program `iscsi-perf`, as a cross-check of our client: it only reads, and reports no latencies.

use crate::load::{INITIATOR, LOGICAL_BLOCK_BYTES, Load, Measure, Order, processor_time};
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Reads from random locations of LUN `lun` for whole seconds, in one session.
pub fn run(target: &dyn Target, lun: u16, load: Load, time: Duration) -> Result<Measure> {
    let before = processor_time(target.pid()?)?;
    let mut command = Command::new("iscsi-perf");
    command.args(["-i", INITIATOR, "-m", &load.depth.to_string(), "-t", &time.as_secs().to_string()]);
    command.args(["-b", &(load.bytes / LOGICAL_BLOCK_BYTES).to_string()]);
    if load.order == Order::Random {
        command.arg("-r");
    }
    command.arg(target.url(0, lun)?).stdin(Stdio::null());
    let output = command.output().context("can't start iscsi-perf")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "iscsi-perf ended with {}: {}", output.status, said.trim());
    let used = processor_time(target.pid()?)? - before;
    let iops = average(&said).with_context(|| format!("iscsi-perf reports no average: {}", said.trim()))?;
    let cpu_us = used.as_secs_f64() * 1e6 / (iops * time.as_secs_f64());
    // Latencies are not reported: NaN.
    let count = iops * time.as_secs_f64();
    Ok(Measure { count, iops, cpu_us, p50_us: f64::NAN, p99_us: f64::NAN, max_us: f64::NAN })
}

/// The last reported average.
fn average(said: &str) -> Option<f64> {
    let (_, last) = said.rsplit_once("iops average ")?;
    last.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_average_counts() {
        let said = "\r00:00:01 - lba 5, iops current 61 (0 MB/s), iops average 62 (0 MB/s), busy 0 \
                    \niops average 81680 (319 MB/s)      \n\nfinished.\n";
        assert_eq!(average(said), Some(81680.0));
        assert_eq!(average("finished."), None);
    }
}
