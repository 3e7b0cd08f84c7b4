//! Capacity history and forecast.

use super::{Format, csv};
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::{Problem, Problems};
use crate::v1::handler::operations;
use crate::v1::handler::{ask, utc};
use array::TimeRange;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(show_capacity: ShowCapacity))
}

/// Time.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct When {
    /// Start of the range, in seconds since 1970; default: five minutes before the end.
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

/// Capacity forecast, from the trend of the last month.
#[derive(Debug, Serialize, ToSchema)]
struct Forecast {
    /// Growth of physical space in bytes per day; `null` with less than an hour of history.
    bytes_per_day: Option<f64>,
    /// Days until the capacity is exhausted; `null` if not foreseeable.
    days_to_full: Option<f64>,
}

/// Capacity history as columns of bytes.
#[derive(Debug, Default, Serialize, ToSchema)]
struct SpaceColumns {
    /// Provisioned: sum of the volume sizes.
    provisioned: Vec<u64>,
    /// Mapped by hosts.
    mapped: Vec<u64>,
    /// Unique data.
    unique: Vec<u64>,
    /// Physical space in use.
    physical: Vec<u64>,
    /// Physical space in use by metadata.
    metadata: Vec<u64>,
    /// Usable physical capacity.
    total: Vec<u64>,
}

/// Capacity history and forecast.
#[derive(Debug, Serialize, ToSchema)]
pub struct Capacity {
    /// Times in seconds since 1970.
    times: Vec<u64>,
    /// Capacity values for each time.
    space: SpaceColumns,
    /// Forecast.
    forecast: Forecast,
}

/// Get the capacity history and forecast
#[utoipa::path(get, path = "/api/v1/capacity", tag = "performance", params(When), responses(
    (status = 200, description = "Columns", content(
        (Capacity = "application/json"),
        (String = "text/csv"),
    )),
    Problems,
))]
async fn show_capacity(
    operator: Operator,
    State(context): State<Context>,
    Asked(When { from, to, points, format }): Asked<When>,
) -> Result<Response, Problem> {
    let capacity = ask(operator, &context, array::ShowCapacity(TimeRange { from, to, points })).await?;
    if format == Some(Format::Csv) {
        let header = ["time", "provisioned", "mapped", "unique", "physical", "metadata", "total"];
        let rows = capacity.points.iter().map(|it| {
            let bytes = [it.provisioned, it.mapped, it.unique, it.physical, it.metadata, it.total];
            std::iter::once(utc(it.time)).chain(bytes.map(|bytes| bytes.to_string())).collect()
        });
        return csv(header.map(str::to_owned).into(), rows);
    }
    let (mut times, mut space) = (Vec::new(), SpaceColumns::default());
    for it in &capacity.points {
        times.push(it.time);
        space.provisioned.push(it.provisioned);
        space.mapped.push(it.mapped);
        space.unique.push(it.unique);
        space.physical.push(it.physical);
        space.metadata.push(it.metadata);
        space.total.push(it.total);
    }
    let forecast = Forecast { bytes_per_day: capacity.per_day, days_to_full: capacity.days_to_full };
    Ok(Json(Capacity { times, space, forecast }).into_response())
}
