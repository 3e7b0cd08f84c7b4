//! Replication history: lag, throughput and backlog.

use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Named};
use crate::problem::{Problem, Problems};
use crate::v1::handler::{ask, operations, utc};
use crate::v1::performance::{Format, csv};
use array::TimeRange;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(show_replication_history: ShowReplicationHistory))
}

/// Time.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct When {
    /// Start of the range, in seconds since 1970; default: an hour before the end.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// End of the range, in seconds since 1970; default: now.
    #[param(minimum = 0)]
    to: Option<u64>,
    /// Approximate number of points, 3600 at most; default 300.
    #[param(minimum = 0)]
    points: Option<u32>,
    /// `csv` for a spreadsheet instead of JSON.
    #[param(inline)]
    format: Option<Format>,
}

/// Replication history as columns.
#[derive(Debug, Default, Serialize, ToSchema)]
struct ReplicationColumns {
    /// Largest lag in seconds; `null` where no point is to follow.
    lag_seconds: Vec<Option<u64>>,
    /// Bytes over the network per second.
    network_bytes_per_second: Vec<u64>,
    /// Changed data that was transferred, in bytes per second.
    logical_bytes_per_second: Vec<u64>,
    /// Maximum of the bytes that hosts had written since the newest complete point was taken; `null` on the target.
    backlog_bytes: Vec<Option<u64>>,
}

/// Replication history.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplicationHistory {
    /// Times in seconds since 1970.
    times: Vec<u64>,
    /// Values for each time.
    values: ReplicationColumns,
}

/// Get the history of a replication
#[utoipa::path(get, path = "/api/v1/replications/{name}/history", tag = "performance",
    params(("name" = String, Path), When), responses(
    (status = 200, description = "Columns", content(
        (ReplicationHistory = "application/json"),
        (String = "text/csv"),
    )),
    Problems,
))]
async fn show_replication_history(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Asked(When { from, to, points, format }): Asked<When>,
) -> Result<Response, Problem> {
    let range = TimeRange { from, to, points };
    let found = ask(operator, &context, array::ShowReplicationHistory { name, range }).await?;
    let rate = |bytes: u64, seconds: u64| bytes / seconds.max(1);
    if format == Some(Format::Csv) {
        let header =
            ["time", "lag_seconds", "network_bytes_per_second", "logical_bytes_per_second", "backlog_bytes"];
        let text = |value: Option<u64>| value.map(|it| it.to_string()).unwrap_or_default();
        let rows = found.iter().map(|it| {
            let (network, logical) = (rate(it.wire, it.seconds), rate(it.logical, it.seconds));
            vec![utc(it.time), text(it.lag), network.to_string(), logical.to_string(), text(it.backlog)]
        });
        return csv(header.map(str::to_owned).into(), rows);
    }
    let (mut times, mut values) = (Vec::new(), ReplicationColumns::default());
    for it in found {
        times.push(it.time);
        values.lag_seconds.push(it.lag);
        values.network_bytes_per_second.push(rate(it.wire, it.seconds));
        values.logical_bytes_per_second.push(rate(it.logical, it.seconds));
        values.backlog_bytes.push(it.backlog);
    }
    Ok(Json(ReplicationHistory { times, values }).into_response())
}
