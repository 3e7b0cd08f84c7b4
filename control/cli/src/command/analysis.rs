//! What is told of performance besides rates: sizes, offloads, paths, space.

use super::performance::{iops, micros, rate};
use super::{Shown, items, query, seconds};
use crate::client::Client;
use crate::show::{bytes, rows, text};
use anyhow::Result;
use clap::Subcommand;
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Subcommand)]
pub enum AnalysisVerb {
    /// How large reads and writes were
    Sizes {
        /// How far back, such as 1h or 7d
        #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "5m")]
        last: u64,
        /// Only this volume
        #[arg(long)]
        volume: Option<String>,
    },
    /// What ATS, XCOPY, WRITE SAME and UNMAP did
    Offload {
        /// How far back, such as 1h or 7d
        #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "5m")]
        last: u64,
        /// Only this volume
        #[arg(long)]
        volume: Option<String>,
    },
    /// What came by each path of the hosts
    Paths {
        /// How far back, such as 1h or 7d
        #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "5m")]
        last: u64,
        /// Only this host
        #[arg(long)]
        host: Option<String>,
    },
    /// How long commands took, in steps that double: how many of each
    Latency {
        /// How far back, such as 1h or 7d
        #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "5m")]
        last: u64,
        /// Only this volume
        #[arg(long)]
        volume: Option<String>,
    },
    /// How the space was used
    Capacity {
        /// How far back, such as 7d or 52w
        #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "1d")]
        last: u64,
        /// In about how many lines
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
        lines: u32,
    },
}

/// The beginning of the last seconds.
fn since(last: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    now.saturating_sub(last.max(1)).to_string()
}

impl AnalysisVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use AnalysisVerb::*;
        let of = |last: u64, name, value: Option<String>| {
            query(&[("from", Some(&since(last))), (name, value.as_deref())])
        };
        Ok(match self {
            Sizes { last, volume } => {
                let query = of(last, "volume", volume);
                (items(client.send("GET", &["performance", "sizes"], &query, None)?), sizes)
            }
            Offload { last, volume } => {
                let query = of(last, "volume", volume);
                (items(client.send("GET", &["performance", "offload"], &query, None)?), offload)
            }
            Paths { last, host } => {
                let query = of(last, "host", host);
                (items(client.send("GET", &["performance", "paths"], &query, None)?), paths)
            }
            Latency { last, volume } => {
                let query = of(last, "volume", volume);
                let map = client.send("GET", &["performance", "latency"], &query, None)?;
                (buckets(&map), latency)
            }
            Capacity { last, lines } => {
                let (from, points) = (since(last), lines.to_string());
                let query = query(&[("from", Some(&from)), ("points", Some(&points))]);
                (points_of_space(&client.send("GET", &["capacity"], &query, None)?), capacity)
            }
        })
    }
}

fn sizes(answer: &Value) -> String {
    rows(&["UP TO", "READS", "WRITES"], answer, |it| {
        vec![bytes(&it["bytes"]), text(&it["reads"]), text(&it["writes"])]
    })
}

fn offload(answer: &Value) -> String {
    let headers = ["PRIMITIVE", "COMMANDS", "FAILED", "BYTES", "SHARED", "COPIED", "MEAN", "P99"];
    rows(&headers, answer, |it| {
        vec![
            text(&it["primitive"]),
            text(&it["commands"]),
            text(&it["failures"]),
            bytes(&it["bytes"]),
            bytes(&it["shared_bytes"]),
            bytes(&it["copied_bytes"]),
            micros(&it["latency_us"]["mean"]),
            micros(&it["latency_us"]["p99"]),
        ]
    })
}

fn paths(answer: &Value) -> String {
    rows(&["HOST", "INITIATOR", "PORTAL", "SESSIONS", "SHARE", "IOPS", "PER S", "P99"], answer, |it| {
        let share =
            it["share"].as_f64().map_or_else(|| "-".into(), |share| format!("{:.0} %", share * 100.0));
        vec![
            text(&it["host"]),
            text(&it["initiator"]),
            text(&it["portal"]),
            text(&it["sessions"]),
            share,
            iops(&it["total"]["iops"]),
            rate(&it["total"]["bytes_per_second"]),
            micros(&it["total"]["latency_us"]["p99"]),
        ]
    })
}

/// The map of latencies without its times: how many of each kind took at most so long, and longer than the step before.
fn buckets(map: &Value) -> Value {
    let steps = map["buckets_us"].as_array().map_or(&[][..], Vec::as_slice);
    let sum = |kind: &str, step: usize| -> u64 {
        map[kind].as_array().into_iter().flatten().filter_map(|counts| counts[step].as_u64()).sum()
    };
    let row = |(step, end): (usize, &Value)| {
        let (read, write, offload) = (sum("read", step), sum("write", step), sum("offload", step));
        serde_json::json!({ "up_to_us": end, "read": read, "write": write, "offload": offload })
    };
    steps.iter().enumerate().map(row).collect()
}

fn latency(answer: &Value) -> String {
    rows(&["UP TO", "READS", "WRITES", "OFFLOADS"], answer, |it| {
        vec![micros(&it["up_to_us"]), text(&it["read"]), text(&it["write"]), text(&it["offload"])]
    })
}

/// A row for each time.
fn points_of_space(answer: &Value) -> Value {
    let times = answer["times"].as_array().map_or(&[][..], Vec::as_slice);
    let row = |(at, time): (usize, &Value)| -> Value {
        let fields = answer["space"].as_object().into_iter().flatten();
        let fields = fields.map(|(name, column)| (name.clone(), column[at].clone()));
        std::iter::once(("time".to_owned(), time.clone()))
            .chain(fields)
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    times.iter().enumerate().map(row).collect()
}

fn capacity(answer: &Value) -> String {
    rows(&["TIME", "PROVISIONED", "MAPPED", "UNIQUE", "PHYSICAL", "METADATA", "TOTAL"], answer, |it| {
        let mut row = vec![text(&it["time"])];
        row.extend(
            ["provisioned", "mapped", "unique", "physical", "metadata", "total"].map(|name| bytes(&it[name])),
        );
        row
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_map_is_summed_over_time() {
        let map = json!({ "buckets_us": [96.0, 128.0], "read": [[1, 2], null, [3, 4]], "write": [[0, 1], null, [0, 0]], "offload": [] });
        let rows = buckets(&map);
        assert_eq!(rows[1], json!({ "up_to_us": 128.0, "read": 6, "write": 1, "offload": 0 }));
        assert_eq!(latency(&rows).lines().count(), 3);
    }

    #[test]
    fn columns_of_space_become_rows() {
        let answer = json!({ "times": [1, 2], "space": { "mapped": [5, 6] } });
        assert_eq!(points_of_space(&answer)[1], json!({ "time": 2, "mapped": 6 }));
    }
}
