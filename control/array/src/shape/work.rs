//! Performance figures of commands, as every view shows them.

use history::{Cell, Sample};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// How much in a second.
pub fn rate(count: u64, millis: u64) -> f64 {
    if millis == 0 { 0.0 } else { round(count as f64 * 1000.0 / millis as f64) }
}

/// Three decimals are more than was measured.
pub fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Nanoseconds as microseconds.
pub fn micros(nanos: u64) -> f64 {
    round(nanos as f64 / 1000.0)
}

/// Performance of one kind of command.
#[derive(Debug, Serialize, ToSchema)]
pub struct Work {
    /// Commands per second.
    #[schema(extensions(("x-unit" = json!("1/s"))))]
    pub iops: f64,
    /// Bytes per second.
    #[schema(extensions(("x-unit" = json!("bytes/s"))))]
    pub bytes_per_second: f64,
    /// Failed commands.
    pub failures: u64,
    /// Latency.
    pub latency_us: Latency,
}

/// Latency in microseconds; `null` without commands.
#[derive(Debug, Serialize, ToSchema)]
pub struct Latency {
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
}

/// Performance of an object in the last seconds.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecentPerformance {
    /// Commands per second.
    #[schema(extensions(("x-unit" = json!("1/s"))))]
    pub iops: f64,
    /// Bytes per second.
    #[schema(extensions(("x-unit" = json!("bytes/s"))))]
    pub bytes_per_second: f64,
    /// Mean latency in microseconds; `null` without commands.
    pub latency_us: Option<f64>,
}

impl RecentPerformance {
    /// Serializes what a sample shows.
    pub(crate) fn serialize_of<S: Serializer>(sample: &Sample, serializer: S) -> Result<S::Ok, S::Error> {
        let work = Work::of(&sample.sum(|_, _| true), sample.millis);
        let Work { iops, bytes_per_second, latency_us: Latency { mean: latency_us, .. }, .. } = work;
        Self { iops, bytes_per_second, latency_us }.serialize(serializer)
    }
}

impl Work {
    /// What was counted in some milliseconds.
    pub fn of(cell: &Cell, millis: u64) -> Self {
        let part = |part| cell.latency.quantile(part).map(micros);
        Self {
            iops: rate(cell.latency.count(), millis),
            bytes_per_second: rate(cell.bytes, millis),
            failures: cell.failures,
            latency_us: Latency {
                mean: cell.latency.mean().map(|nanos| round(nanos / 1000.0)),
                p50: part(0.5),
                p95: part(0.95),
                p99: part(0.99),
                max: part(1.0),
            },
        }
    }
}
