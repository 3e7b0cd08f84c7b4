//! Distributions of transfer sizes and latencies.

use super::{CLASSES, Whose, class, times};
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::Problems;
use crate::v1::handler::Answer;
use crate::v1::handler::operations;
use array::{Cell, Operation, micros};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(show_sizes: ShowPerformance as "show_sizes"))
        .routes(operations!(show_latency: ShowPerformance as "show_latency"))
}

/// Number of commands by transfer size.
#[derive(Debug, Default, Serialize, ToSchema)]
struct SizeRow {
    /// Upper bound of the size class in bytes; `null` for the last, unbounded class.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    bytes: Option<u64>,
    /// Reads.
    reads: u64,
    /// Writes.
    writes: u64,
}

/// Distribution of transfer sizes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Sizes {
    /// By size, ascending.
    items: Vec<SizeRow>,
}

/// Get the distribution of transfer sizes
#[utoipa::path(get, path = "/api/v1/performance/sizes", tag = "performance", params(Whose), responses(
    (status = 200, description = "The distribution", body = Sizes),
    Problems,
))]
async fn show_sizes(
    operator: Operator,
    State(context): State<Context>,
    Asked(whose): Asked<Whose>,
) -> Answer<Sizes> {
    let whole = whose.series(operator, &context).await?.whole();
    let mut rows: BTreeMap<u8, SizeRow> = BTreeMap::new();
    for ((kind, size), cell) in &whole.cells {
        let row = rows.entry(*size).or_default();
        row.bytes = array::size_limit(*size);
        match array::kind(*kind) {
            Some(Operation::Read) => row.reads += cell.latency.count(),
            Some(Operation::Write) => row.writes += cell.latency.count(),
            _ => {}
        }
    }
    let items = rows.into_values().filter(|row| row.reads + row.writes > 0).collect();
    Ok(Json(Sizes { items }))
}

/// Latency heat map: number of commands per latency bucket over time.
#[derive(Debug, Serialize, ToSchema)]
pub struct LatencyMap {
    /// Interval between two times, in seconds.
    resolution_seconds: u64,
    /// Interval start times, in seconds since 1970.
    times: Vec<u64>,
    /// Upper bounds of the latency buckets in microseconds, ascending.
    buckets_us: Vec<f64>,
    /// Reads: for each time, a count for each bucket; `null` where there is no data.
    read: Vec<Option<Vec<u64>>>,
    /// Writes, likewise.
    write: Vec<Option<Vec<u64>>>,
    /// Offloaded commands, likewise.
    offload: Vec<Option<Vec<u64>>>,
}

/// Bucket boundaries grow by half a power of two.
fn heat_row(end: u64) -> u64 {
    let power = 1u64 << end.max(2).saturating_sub(1).ilog2();
    if end <= power + power / 2 { power + power / 2 } else { power * 2 }
}

/// Get the latency distribution over time
#[utoipa::path(get, path = "/api/v1/performance/latency", tag = "performance", params(Whose), responses(
    (status = 200, description = "The latency map", body = LatencyMap),
    Problems,
))]
async fn show_latency(
    operator: Operator,
    State(context): State<Context>,
    Asked(whose): Asked<Whose>,
) -> Answer<LatencyMap> {
    let series = whose.series(operator, &context).await?;
    let maps: Vec<Vec<Option<BTreeMap<u64, u64>>>> = (0..CLASSES.len())
        .map(|index| {
            series.samples.iter().map(|sample| sample.as_ref().map(|it| heat(&class(it, index)))).collect()
        })
        .collect();
    let ends: BTreeSet<u64> = maps.iter().flatten().flatten().flat_map(|rows| rows.keys().copied()).collect();
    let counts = |index: usize| {
        let map = maps.get(index).into_iter().flatten();
        map.map(|rows| {
            rows.as_ref().map(|rows| ends.iter().map(|end| rows.get(end).copied().unwrap_or(0)).collect())
        })
        .collect()
    };
    Ok(Json(LatencyMap {
        resolution_seconds: series.span.width,
        times: times(&series),
        buckets_us: ends.iter().map(|end| micros(*end)).collect(),
        read: counts(0),
        write: counts(1),
        offload: counts(2),
    }))
}

fn heat(cell: &Cell) -> BTreeMap<u64, u64> {
    let mut rows = BTreeMap::new();
    for (end, count) in cell.latency.buckets() {
        *rows.entry(heat_row(end)).or_default() += count;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_heat_map_hold_what_ends_in_them() {
        for end in [1024, 1152, 1280, 1536, 1664, 2048, 2304, 1 << 36] {
            let row = heat_row(end);
            assert!(row >= end && row <= end * 3 / 2, "{end} is in {row}");
        }
        let rows: BTreeSet<u64> = (8..=16).map(|eighth| heat_row(eighth << 7)).collect();
        assert_eq!(rows, BTreeSet::from([1024, 1536, 2048]));
    }
}
