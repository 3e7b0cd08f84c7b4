//! What the array did in a second, and the volumes and hosts that did the most of it.

use super::{Work, class, round};
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::Problems;
use crate::v1::{Answer, ask};
use array::{By, Sample};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(list_busiest))
}

/// Seconds that the busiest are judged by when nobody says it.
const USUAL_SECONDS: u64 = 5;
/// How many of the busiest are told when nobody says it.
const USUAL_BUSIEST: usize = 20;

/// What the whole array did in a second; the stream tells one every second.
#[derive(Debug, Serialize, ToSchema)]
pub struct Point {
    /// The second, since 1970.
    time: u64,
    /// READ.
    read: Work,
    /// WRITE.
    write: Work,
    /// ATS, EXTENDED COPY, WRITE SAME, UNMAP.
    offload: Work,
}

impl Point {
    /// A sample of the second `time`.
    pub fn of(time: u64, sample: &Sample) -> Self {
        let work = |index| Work::of(&class(sample, index), sample.millis);
        Self { time, read: work(0), write: work(1), offload: work(2) }
    }
}

/// What the busiest are chosen from.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Noun {
    /// Volumes.
    #[default]
    Volume,
    /// Hosts.
    Host,
}

/// Which of the busiest.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Volumes or hosts.
    #[serde(default)]
    #[param(inline)]
    by: Noun,
    /// What they did in so many seconds, 1 to 20; 5 when not given.
    #[param(minimum = 0)]
    seconds: Option<u64>,
    /// At most so many; 20 when not given.
    #[param(minimum = 0)]
    limit: Option<usize>,
}

/// One of the busiest.
#[derive(Debug, Serialize, ToSchema)]
struct Busy {
    /// Name of the volume or host.
    name: String,
    /// Everything together.
    total: Work,
    /// READ.
    read: Work,
    /// WRITE.
    write: Work,
    /// ATS, EXTENDED COPY, WRITE SAME, UNMAP.
    offload: Work,
}

/// The busiest.
#[derive(Debug, Serialize, ToSchema)]
pub struct Busiest {
    /// For how many seconds this is known.
    seconds: f64,
    /// The most commands first; what did nothing is not here.
    items: Vec<Busy>,
}

/// What each volume or host did in the last seconds
#[utoipa::path(get, path = "/api/v1/performance/top", tag = "performance", params(Which), responses(
    (status = 200, description = "The busiest", body = Busiest),
    Problems,
))]
async fn list_busiest(
    operator: Operator,
    State(context): State<Context>,
    Asked(Which { by, seconds, limit }): Asked<Which>,
) -> Answer<Busiest> {
    let by = match by {
        Noun::Volume => By::Volume,
        Noun::Host => By::Host,
    };
    let action = array::ListBusiest { by, seconds: seconds.unwrap_or(USUAL_SECONDS) };
    let array::Busiest { millis, busiest } = ask(operator, &context, action).await?;
    let busy = |it: array::Busy| Busy {
        total: Work::of(&it.sample.sum(|_, _| true), millis),
        read: Work::of(&class(&it.sample, 0), millis),
        write: Work::of(&class(&it.sample, 1), millis),
        offload: Work::of(&class(&it.sample, 2), millis),
        name: it.name,
    };
    let items = busiest.into_iter().take(limit.unwrap_or(USUAL_BUSIEST)).map(busy).collect();
    Ok(Json(Busiest { seconds: round(millis as f64 / 1000.0), items }))
}

#[cfg(test)]
#[path = "busiest_test.rs"]
mod tests;
