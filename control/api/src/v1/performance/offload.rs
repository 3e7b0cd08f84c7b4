//! Statistics of the primitives that hosts offload: VAAI and ODX.

use super::{Latency, Whose, Work};
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::Problems;
use crate::v1::handler::Answer;
use crate::v1::handler::operations;
use array::Operation;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(list_offloads: ShowPerformance as "list_offloads"))
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
