//! How fast the array is, and was.

use super::{Shown, query, seconds};
use crate::client::Client;
use crate::show::{rows, text};
use anyhow::Result;
use bytesize::ByteSize;
use clap::Args;
use serde_json::{Map, Value};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a line tells of each kind of work, as the API calls it.
const KINDS: [&str; 3] = ["read", "write", "offload"];

#[derive(Clone, Args)]
pub struct Performance {
    /// Only this volume
    #[arg(long, conflicts_with_all = ["host", "group"])]
    volume: Option<String>,
    /// Only this host
    #[arg(long, conflicts_with = "group")]
    host: Option<String>,
    /// Only the volumes of this group
    #[arg(long)]
    group: Option<String>,
    /// How far back, such as 1h or 7d
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "1m")]
    last: u64,
    /// In about how many lines
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    lines: u32,
}

impl Performance {
    pub fn run(self, client: &Client) -> Result<Shown> {
        let whose = [("volume", &self.volume), ("host", &self.host), ("group", &self.group)];
        Ok((points(client, self.last, self.lines, &whose)?, table))
    }
}

/// What was done in the parts of the last seconds: a list of what the API calls a Point.
pub fn points(client: &Client, last: u64, parts: u32, whose: &[(&str, &Option<String>)]) -> Result<Value> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (from, parts) = (now.saturating_sub(last.max(1)).to_string(), parts.to_string());
    let mut fields = vec![("from", Some(from.as_str())), ("points", Some(parts.as_str()))];
    fields.extend(whose.iter().map(|(name, value)| (*name, value.as_deref())));
    let columns = client.send("GET", &["performance"], &query(&fields), None)?;
    let times = columns["times"].as_array().map_or(0, Vec::len);
    Ok((0..times).map(|row| point(&columns, row)).collect())
}

/// One row of columns.
fn point(columns: &Value, row: usize) -> Value {
    fn at(columns: &Value, row: usize) -> Value {
        match columns {
            Value::Object(fields) => fields
                .iter()
                .map(|(name, column)| (name.clone(), at(column, row)))
                .collect::<Map<_, _>>()
                .into(),
            column => column[row].clone(),
        }
    }
    let kinds = KINDS.iter().map(|kind| ((*kind).to_owned(), at(&columns[*kind], row)));
    let time = std::iter::once(("time".to_owned(), columns["times"][row].clone()));
    time.chain(kinds).collect::<Map<_, _>>().into()
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
                row.extend([micros(&work["latency_us"]["mean"]), micros(&work["latency_us"]["p99"])]);
            }
        }
        row
    })
}

/// The time of day in UTC.
fn clock(time: &Value) -> String {
    let Some(seconds) = time.as_u64() else { return text(time) };
    format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// Commands in a second.
pub fn iops(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |iops| format!("{iops:.0}"))
}

/// Bytes in a second.
pub fn rate(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |bytes| ByteSize(bytes as u64).display().iec().to_string())
}

/// Microseconds, as people like to read them.
pub fn micros(value: &Value) -> String {
    match value.as_f64() {
        None => "-".into(),
        Some(micros) if micros < 1000.0 => format!("{micros:.0} µs"),
        Some(micros) if micros < 1e6 => format!("{:.1} ms", micros / 1e3),
        Some(micros) => format!("{:.1} s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_become_lines() {
        let work = json!({
            "iops": [5.0, null], "bytes_per_second": [20480.0, null], "failures": [0, null],
            "latency_us": { "mean": [90.4, null], "p99": [1500.0, null] },
        });
        let columns = json!({ "times": [86_399, 86_400], "read": work, "write": work, "offload": work });
        let points: Value = (0..2).map(|row| point(&columns, row)).collect();
        assert_eq!(points[0]["write"]["latency_us"]["p99"], 1500.0);
        let shown = table(&points);
        let lines: Vec<_> = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(lines[1][..8], ["23:59:59", "5", "20.0", "KiB", "90", "µs", "1.5", "ms"]);
        assert_eq!(lines[2][..3], ["00:00:00", "-", "-"]);
    }
}
