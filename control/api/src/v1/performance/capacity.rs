//! How the space was used, and how it goes on.

use super::{Format, csv};
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::{Problem, Problems};
use crate::v1::{ask, utc};
use array::Stretch;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(show_capacity))
}

/// When.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct When {
    /// Beginning, in seconds since 1970; five minutes before the end when not given.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// End, in seconds since 1970; now when not given.
    #[param(minimum = 0)]
    to: Option<u64>,
    /// About how many times, 3600 at most; 300 when not given.
    #[param(minimum = 0)]
    points: Option<u32>,
    /// `csv`: rows for a spreadsheet instead of JSON.
    #[param(inline)]
    format: Option<Format>,
}

/// What the coming days bring, by the trend of the last month.
#[derive(Debug, Serialize, ToSchema)]
struct Forecast {
    /// Bytes on the drives that are taken each day; `null` when less than an hour is known.
    bytes_per_day: Option<f64>,
    /// Days until nothing is free; `null` when that is not in sight.
    days_to_full: Option<f64>,
}

/// How the space was used, in columns of bytes.
#[derive(Debug, Default, Serialize, ToSchema)]
struct SpaceColumns {
    /// Sum of the volumes' sizes.
    provisioned: Vec<u64>,
    /// Mapped by hosts.
    mapped: Vec<u64>,
    /// Of that, different.
    unique: Vec<u64>,
    /// In use on the drives.
    physical: Vec<u64>,
    /// In use on the drives by the array's own data.
    metadata: Vec<u64>,
    /// Usable on the drives.
    total: Vec<u64>,
}

/// How the space was used, and how it goes on.
#[derive(Debug, Serialize, ToSchema)]
pub struct Capacity {
    /// In seconds since 1970.
    times: Vec<u64>,
    /// Bytes at each time.
    space: SpaceColumns,
    /// How it goes on.
    forecast: Forecast,
}

/// How the space was used, and how it goes on
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
    let capacity = ask(operator, &context, array::ShowCapacity(Stretch { from, to, points })).await?;
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
