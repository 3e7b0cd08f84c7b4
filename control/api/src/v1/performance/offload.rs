//! Statistics of the primitives that hosts offload: VAAI and ODX.

use super::columns::WorkColumns;
use super::{Whose, times};
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::Problems;
use crate::v1::handler::Answer;
use crate::v1::handler::operations;
use array::{Latency, Operation, Work};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_offloads: ShowPerformance as "list_offloads"))
        .routes(operations!(show_offload_history: ShowPerformance as "show_offload_history"))
}

/// Statistics of one offloaded primitive.
#[derive(Debug, Serialize, ToSchema)]
struct Offload {
    /// `ats`, `xcopy`, `odx` (WRITE USING TOKEN), `write_same` or `unmap`.
    primitive: String,
    /// Commands that succeeded.
    commands: u64,
    /// Failed commands, including ATS miscompares.
    failures: u64,
    /// Bytes processed.
    bytes: u64,
    /// Bytes that XCOPY and ODX shared instead of copied, both together; only of `xcopy`, `null` for the others.
    shared_bytes: Option<u64>,
    /// Bytes that XCOPY and ODX physically copied, both together; only of `xcopy`, `null` for the others.
    copied_bytes: Option<u64>,
    /// Latency.
    latency_us: Latency,
}

/// Statistics of offloaded primitives.
#[derive(Debug, Serialize, ToSchema)]
pub struct Offloads {
    /// One entry per primitive.
    items: Vec<Offload>,
}

/// What the primitives are called.
const PRIMITIVES: [(&str, Operation); 5] = [
    ("ats", Operation::CompareAndWrite),
    ("xcopy", Operation::Copy),
    ("odx", Operation::TokenCopy),
    ("write_same", Operation::WriteSame),
    ("unmap", Operation::Unmap),
];

/// Performance history of one VAAI primitive.
#[derive(Debug, Serialize, ToSchema)]
struct OffloadColumns {
    /// `ats`, `xcopy`, `odx`, `write_same` or `unmap`.
    primitive: String,
    /// A value for each time.
    work: WorkColumns,
}

/// Performance history of the VAAI primitives as columns.
#[derive(Debug, Serialize, ToSchema)]
pub struct OffloadHistory {
    /// Interval between two times, in seconds.
    resolution_seconds: u64,
    /// Interval start times, in seconds since 1970.
    times: Vec<u64>,
    /// One entry per primitive.
    items: Vec<OffloadColumns>,
}

/// Get the performance history of the VAAI primitives
#[utoipa::path(get, path = "/api/v1/performance/offload/history", tag = "performance", params(Whose), responses(
    (status = 200, description = "Columns for each primitive", body = OffloadHistory),
    Problems,
))]
async fn show_offload_history(
    operator: Operator,
    State(context): State<Context>,
    Asked(whose): Asked<Whose>,
) -> Answer<OffloadHistory> {
    let series = whose.series(operator, &context).await?;
    let columns = |(name, operation): (&str, Operation)| {
        let mut work = WorkColumns::default();
        for sample in &series.samples {
            let of = |sample: &array::Sample| {
                (sample.sum(|kind, _| array::kind(kind) == Some(operation)), sample.millis)
            };
            let cell = sample.as_ref().map(of);
            work.push(cell.as_ref().map(|(cell, millis)| (cell, *millis)));
        }
        OffloadColumns { primitive: name.into(), work }
    };
    Ok(Json(OffloadHistory {
        resolution_seconds: series.span.width,
        times: times(&series),
        items: PRIMITIVES.into_iter().map(columns).collect(),
    }))
}

/// Get statistics of the VAAI and ODX primitives
#[utoipa::path(get, path = "/api/v1/performance/offload", tag = "performance", params(Whose), responses(
    (status = 200, description = "Each primitive", body = Offloads),
    Problems,
))]
async fn list_offloads(
    operator: Operator,
    State(context): State<Context>,
    Asked(whose): Asked<Whose>,
) -> Answer<Offloads> {
    let whole = whose.series(operator, &context).await?.whole();
    let offload = |(name, operation): (&str, Operation)| {
        let cell = whole.sum(|kind, _| array::kind(kind) == Some(operation));
        let copies = operation == Operation::Copy;
        Offload {
            primitive: name.into(),
            commands: cell.latency.count(),
            failures: cell.failures,
            bytes: cell.bytes,
            shared_bytes: copies.then_some(whole.shared),
            copied_bytes: copies.then_some(whole.moved),
            latency_us: Work::of(&cell, whole.millis).latency_us,
        }
    };
    Ok(Json(Offloads { items: PRIMITIVES.into_iter().map(offload).collect() }))
}
