//! Performance history: columns of values for charts and spreadsheets.

use super::{CLASSES, Format, Whose, class, csv, times};
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::{Problem, Problems};
use crate::v1::handler::operations;
use crate::v1::handler::utc;
use array::{Cell, Series, micros, rate, round};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(show_performance: ShowPerformance))
}

/// Latency in microseconds. Percentiles come from histogram buckets and are at most an eighth too high.
#[derive(Debug, Default, Serialize, ToSchema)]
struct LatencyColumns {
    /// Mean.
    mean: Vec<Option<f64>>,
    /// Median.
    p50: Vec<Option<f64>>,
    /// 95th percentile.
    p95: Vec<Option<f64>>,
    /// 99th percentile.
    p99: Vec<Option<f64>>,
    /// 99.9th percentile.
    p999: Vec<Option<f64>>,
    /// Maximum.
    max: Vec<Option<f64>>,
}

/// Performance of one kind of command: a value for each time; `null` where there is no data.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct WorkColumns {
    /// Commands per second.
    iops: Vec<Option<f64>>,
    /// Bytes per second.
    bytes_per_second: Vec<Option<f64>>,
    /// Failed commands.
    failures: Vec<Option<u64>>,
    /// Latency.
    latency_us: LatencyColumns,
}

/// Performance history as columns.
#[derive(Debug, Serialize, ToSchema)]
pub struct Performance {
    /// Interval between two times, in seconds.
    resolution_seconds: u64,
    /// Interval start times, in seconds since 1970.
    times: Vec<u64>,
    /// Reads.
    read: WorkColumns,
    /// Writes.
    write: WorkColumns,
    /// Offloaded commands: COMPARE AND WRITE (ATS), EXTENDED COPY, WRITE SAME, UNMAP.
    offload: WorkColumns,
}

impl WorkColumns {
    pub(super) fn push(&mut self, work: Option<(&Cell, u64)>) {
        let cell = work.map(|(cell, _)| cell);
        self.iops.push(work.map(|(cell, millis)| rate(cell.latency.count(), millis)));
        self.bytes_per_second.push(work.map(|(cell, millis)| rate(cell.bytes, millis)));
        self.failures.push(cell.map(|cell| cell.failures));
        let latency = &mut self.latency_us;
        latency.mean.push(cell.and_then(|cell| cell.latency.mean()).map(|nanos| round(nanos / 1000.0)));
        for (column, part) in [
            (&mut latency.p50, 0.5),
            (&mut latency.p95, 0.95),
            (&mut latency.p99, 0.99),
            (&mut latency.p999, 0.999),
            (&mut latency.max, 1.0),
        ] {
            column.push(cell.and_then(|cell| cell.latency.quantile(part)).map(micros));
        }
    }

    /// What there is of one time, in the order of the fields.
    fn row(&self, row: usize) -> [Option<f64>; 9] {
        let at = |column: &[Option<f64>]| column.get(row).copied().flatten();
        let LatencyColumns { mean, p50, p95, p99, p999, max } = &self.latency_us;
        let failures = self.failures.get(row).copied().flatten().map(|count| count as f64);
        let [iops, bytes] = [&self.iops, &self.bytes_per_second].map(|column| at(column));
        [iops, bytes, failures, at(mean), at(p50), at(p95), at(p99), at(p999), at(max)]
    }
}

impl Performance {
    fn of(series: &Series) -> Self {
        let columns = |index| {
            let mut columns = WorkColumns::default();
            for sample in &series.samples {
                let cell = sample.as_ref().map(|sample| (class(sample, index), sample.millis));
                columns.push(cell.as_ref().map(|(cell, millis)| (cell, *millis)));
            }
            columns
        };
        Self {
            resolution_seconds: series.span.width,
            times: times(series),
            read: columns(0),
            write: columns(1),
            offload: columns(2),
        }
    }

    /// The names of the columns of a table, and its rows.
    fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        const COLUMNS: [&str; 9] = [
            "iops",
            "bytes_per_second",
            "failures",
            "mean_us",
            "p50_us",
            "p95_us",
            "p99_us",
            "p999_us",
            "max_us",
        ];
        let named = CLASSES.iter().flat_map(|(class, _)| COLUMNS.map(|column| format!("{class}_{column}")));
        let header = std::iter::once("time".to_owned()).chain(named).collect();
        let rows = self.times.iter().enumerate().map(|(row, time)| {
            let work = [&self.read, &self.write, &self.offload];
            let values = work.into_iter().flat_map(|work| work.row(row));
            let cells = values.map(|value| value.map_or_else(String::new, |value| value.to_string()));
            std::iter::once(utc(*time)).chain(cells).collect()
        });
        (header, rows.collect())
    }
}

/// Get the performance history
#[utoipa::path(get, path = "/api/v1/performance", tag = "performance", params(Whose), responses(
    (status = 200, description = "Columns", content(
        (Performance = "application/json"),
        (String = "text/csv"),
    )),
    Problems,
))]
async fn show_performance(
    operator: Operator,
    State(context): State<Context>,
    Asked(whose): Asked<Whose>,
) -> Result<Response, Problem> {
    let performance = Performance::of(&whose.series(operator, &context).await?);
    if whose.format == Some(Format::Csv) {
        let (header, rows) = performance.table();
        return csv(header, rows.into_iter());
    }
    Ok(Json(performance).into_response())
}

#[cfg(test)]
#[path = "columns_test.rs"]
mod tests;
