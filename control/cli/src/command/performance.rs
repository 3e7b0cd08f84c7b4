//! Performance, capacity and replication history.

use crate::client::Client;
use crate::show::Shown;
use crate::show::{micros, rows, text};
use anyhow::Result;
use bytesize::ByteSize;
use clap::{Args, Subcommand};
use client::api;
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use units::seconds;

/// Kinds of commands, as the API calls them.
const KINDS: [&str; 3] = ["read", "write", "offload"];

#[derive(Clone, Subcommand)]
pub enum PerformanceVerb {
    /// Show the performance history; with --watch, live
    History {
        #[command(flatten)]
        object: Object,
        #[command(flatten)]
        range: Range<60>,
        /// Approximate number of lines
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
        lines: u64,
    },
    /// Show live performance and the busiest volumes, hosts or controllers on the whole terminal, until q is pressed
    Top,
    /// Show the distribution of transfer sizes
    Sizes {
        #[command(flatten)]
        object: Object,
        #[command(flatten)]
        range: Range<300>,
    },
    /// Show the latency distribution
    Latency {
        #[command(flatten)]
        object: Object,
        #[command(flatten)]
        range: Range<300>,
    },
    /// Show statistics of the offloads ATS, XCOPY, ODX, WRITE SAME and UNMAP
    Offload {
        #[command(flatten)]
        object: Object,
        #[command(flatten)]
        range: Range<300>,
    },
    /// Show statistics of host paths
    Paths {
        /// Only this host
        #[arg(long)]
        host: Option<String>,
        #[command(flatten)]
        range: Range<300>,
    },
    /// Show lag, throughput and backlog of a replication
    Replication {
        /// Replication
        name: String,
        #[command(flatten)]
        range: Range<86_400>,
        /// Approximate number of lines
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
        lines: u64,
    },
    /// Show the capacity history
    Capacity {
        #[command(flatten)]
        range: Range<86_400>,
        /// Approximate number of lines
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
        lines: u64,
    },
}

/// The object whose performance is shown: by default the array.
#[derive(Clone, Args)]
pub struct Object {
    /// Only this volume
    #[arg(long, conflicts_with_all = ["host", "group", "controller"])]
    volume: Option<String>,
    /// Only this host
    #[arg(long, conflicts_with_all = ["group", "controller"])]
    host: Option<String>,
    /// Only the volumes of this volume group
    #[arg(long, conflicts_with = "controller")]
    group: Option<String>,
    /// Only I/O through the portals of this controller
    #[arg(long, value_name = "NUMBER")]
    controller: Option<u64>,
}

/// The time range up to now, with a default in seconds.
#[derive(Clone, Args)]
pub struct Range<const DEFAULT_SECONDS: u64> {
    /// Range up to now, such as 1h or 7d
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = default_range(DEFAULT_SECONDS))]
    last: u64,
}

/// A default range, as it is written.
const fn default_range(seconds: u64) -> &'static str {
    match seconds {
        60 => "1m",
        300 => "5m",
        _ => "1d",
    }
}

impl<const DEFAULT_SECONDS: u64> Range<DEFAULT_SECONDS> {
    fn from(&self) -> Option<u64> {
        Some(since(self.last))
    }
}

/// The beginning of the last seconds.
fn since(seconds: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    now.saturating_sub(seconds.max(1))
}

/// A query about an object since a time. The types that the description has for them share fields, but no trait.
macro_rules! query {
    ($query:ident, $object:expr, $range:expr) => {{
        let Object { volume, host, group, controller } = $object;
        api::$query { from: $range.from(), volume, host, group, controller, ..Default::default() }
    }};
}

impl PerformanceVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use PerformanceVerb::*;
        Ok(match self {
            History { object, range, lines } => {
                let query =
                    api::ShowPerformance { points: Some(lines), ..query!(ShowPerformance, object, range) };
                Shown::text(history(client, &query)?, table)
            }
            Top => unreachable!("it has the terminal to itself"),
            Sizes { object, range } => {
                client.call(api::show_sizes(&query!(ShowSizes, object, range)))?.into()
            }
            Latency { object, range } => {
                let map = client.call(api::show_latency(&query!(ShowLatency, object, range)))?.value;
                Shown::text(buckets(&map), latency)
            }
            Offload { object, range } => {
                client.call(api::list_offloads(&query!(ListOffloads, object, range)))?.into()
            }
            Paths { host, range } => {
                let query = api::ListPaths { from: range.from(), host, ..Default::default() };
                client.call(api::list_paths(&query))?.into()
            }
            Replication { name, range, lines } => {
                let (from, points) = (range.from(), Some(lines));
                let query = api::ShowReplicationHistory { from, points, ..Default::default() };
                let answer = client.call(api::show_replication_history(&name, &query))?.value;
                Shown::text(rows_of(&answer["times"], &answer["values"]), replication)
            }
            Capacity { range, lines } => {
                let query =
                    api::ShowCapacity { from: range.from(), points: Some(lines), ..Default::default() };
                let answer = client.call(api::show_capacity(&query))?.value;
                Shown::text(rows_of(&answer["times"], &answer["space"]), capacity)
            }
        })
    }
}

/// The performance of the array in the last seconds, second by second.
pub fn last(client: &Client, seconds: u64) -> Result<Value> {
    let (from, points) = (Some(since(seconds)), Some(seconds));
    history(client, &api::ShowPerformance { from, points, ..Default::default() })
}

/// A row for each time, instead of columns.
fn history(client: &Client, query: &api::ShowPerformance) -> Result<Value> {
    let answer = client.call(api::show_performance(query))?.value;
    let columns: Map<_, _> = KINDS.iter().map(|kind| ((*kind).to_owned(), answer[*kind].clone())).collect();
    Ok(rows_of(&answer["times"], &columns.into()))
}

/// A row for each time: its `time`, and its value of each column.
fn rows_of(times: &Value, columns: &Value) -> Value {
    let times = times.as_array().map_or(&[][..], Vec::as_slice);
    let row = |(index, time): (usize, &Value)| {
        let mut row = at(columns, index);
        row["time"] = time.clone();
        row
    };
    times.iter().enumerate().map(row).collect()
}

/// One row of columns.
fn at(columns: &Value, row: usize) -> Value {
    match columns {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, column)| (name.clone(), at(column, row)));
            fields.collect::<Map<_, _>>().into()
        }
        column => column[row].clone(),
    }
}

fn table(answer: &Value) -> String {
    let headers = [
        "TIME",
        "READ IOPS",
        "PER S",
        "MEAN",
        "P99",
        "WRITE IOPS",
        "PER S",
        "MEAN",
        "P99",
        "OFFLOAD IOPS",
        "PER S",
    ];
    rows(&headers, answer, |it| {
        let mut row = vec![clock(&it["time"])];
        for kind in KINDS {
            let work = &it[kind];
            row.extend([iops(&work["iops"]), rate(&work["bytes_per_second"])]);
            if kind != "offload" {
                row.extend(["mean", "p99"].map(|part| micros(&work["latency_us"][part])));
            }
        }
        row
    })
}

/// The time of day in UTC.
fn clock(time: &Value) -> String {
    let Some(seconds) = time.as_u64() else { return "-".into() };
    format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// Commands per second.
pub fn iops(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |iops| format!("{iops:.0}"))
}

/// Bytes per second.
pub fn rate(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |bytes| ByteSize(bytes as u64).display().iec().to_string())
}

/// The latency map without its times: the number of commands of each kind in each bucket.
fn buckets(map: &Value) -> Value {
    let ends = map["buckets_us"].as_array().map_or(&[][..], Vec::as_slice);
    let sum = |kind: &str, bucket: usize| -> u64 {
        let times = map[kind].as_array().into_iter().flatten();
        times.filter_map(|counts| counts[bucket].as_u64()).sum()
    };
    let row = |(bucket, end): (usize, &Value)| {
        let [read, write, offload] = KINDS.map(|kind| sum(kind, bucket));
        json!({ "up_to_us": end, "read": read, "write": write, "offload": offload })
    };
    ends.iter().enumerate().map(row).collect()
}

fn latency(answer: &Value) -> String {
    rows(&["UP TO", "READS", "WRITES", "OFFLOADS"], answer, |it| {
        vec![micros(&it["up_to_us"]), text(it, "read"), text(it, "write"), text(it, "offload")]
    })
}

fn capacity(answer: &Value) -> String {
    const NAMES: [&str; 6] = ["provisioned", "mapped", "unique", "physical", "metadata", "total"];
    rows(&["TIME", "PROVISIONED", "MAPPED", "UNIQUE", "PHYSICAL", "METADATA", "TOTAL"], answer, |it| {
        std::iter::once(text(it, "time")).chain(NAMES.map(|name| rate(&it[name]))).collect()
    })
}

fn replication(answer: &Value) -> String {
    rows(&["TIME", "LAG", "NETWORK PER S", "CHANGED PER S", "BACKLOG"], answer, |it| {
        let lag = it["lag_seconds"].as_u64().map_or("-".into(), |lag| format!("{lag} s"));
        let rest = ["network_bytes_per_second", "logical_bytes_per_second", "backlog_bytes"];
        [text(it, "time"), lag].into_iter().chain(rest.map(|name| rate(&it[name]))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_become_lines() {
        let work = json!({
            "iops": [5.0, null], "bytes_per_second": [20480.0, null], "failures": [0, null],
            "latency_us": { "mean": [90.4, null], "p99": [1500.0, null] },
        });
        let columns = json!({ "read": work, "write": work, "offload": work });
        let points = rows_of(&json!([86_399, 86_400]), &columns);
        assert_eq!(points[0]["write"]["latency_us"]["p99"], 1500.0);
        let shown = table(&points);
        let lines: Vec<_> = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(lines[1][..8], ["23:59:59", "5", "20.0", "KiB", "90", "µs", "1.5", "ms"]);
        assert_eq!(lines[2][..3], ["00:00:00", "-", "-"]);
    }

    #[test]
    fn a_latency_map_is_summed_over_time() {
        let map = json!({ "buckets_us": [96.0, 128.0], "read": [[1, 2], null, [3, 4]], "write": [[0, 1], null, [0, 0]], "offload": [] });
        let rows = buckets(&map);
        assert_eq!(rows[1], json!({ "up_to_us": 128.0, "read": 6, "write": 1, "offload": 0 }));
        assert_eq!(latency(&rows).lines().count(), 3);
    }
}
