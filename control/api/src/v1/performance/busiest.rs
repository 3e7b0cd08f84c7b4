//! Performance of the array per second, and the busiest volumes, hosts and controllers.

use super::class;
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::Problems;
use crate::v1::handler::operations;
use crate::v1::handler::{Answer, ask};
use array::{By, Sample, Work, round};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(list_busiest: ListBusiest))
}

/// Default window of a ranking, in seconds.
const USUAL_SECONDS: u64 = 5;
/// Default number of ranked objects.
const USUAL_BUSIEST: usize = 20;

/// Performance of the whole array in one second.
#[derive(Debug, Serialize, ToSchema)]
pub struct Point {
    /// Time in seconds since 1970.
    time: u64,
    /// Reads.
    read: Work,
    /// Writes.
    write: Work,
    /// Offloaded commands: COMPARE AND WRITE (ATS), EXTENDED COPY, WRITE SAME, UNMAP.
    offload: Work,
}

impl Point {
    /// A sample of the second `time`.
    pub fn of(time: u64, sample: &Sample) -> Self {
        let work = |index| Work::of(&class(sample, index), sample.millis);
        Self { time, read: work(0), write: work(1), offload: work(2) }
    }
}

/// Kind of object to rank.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Noun {
    /// Volumes.
    #[default]
    Volume,
    /// Hosts.
    Host,
    /// Controllers.
    Controller,
}

/// Options of a ranking.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Volumes, hosts or controllers.
    #[serde(default)]
    #[param(inline)]
    by: Noun,
    /// Length of the window in seconds, 1 to 20; default 5.
    #[param(minimum = 0)]
    seconds: Option<u64>,
    /// Maximum number of objects; default 20.
    #[param(minimum = 0)]
    limit: Option<usize>,
}

/// A ranked object.
#[derive(Debug, Serialize, ToSchema)]
struct Busy {
    /// Volume, host, or number of the controller.
    name: String,
    /// All commands.
    total: Work,
    /// Reads.
    read: Work,
    /// Writes.
    write: Work,
    /// Offloaded commands: COMPARE AND WRITE (ATS), EXTENDED COPY, WRITE SAME, UNMAP.
    offload: Work,
}

/// The busiest volumes, hosts or controllers.
#[derive(Debug, Serialize, ToSchema)]
pub struct Busiest {
    /// Length of the measured window in seconds.
    seconds: f64,
    /// Sorted by IOPS, highest first. Idle objects are omitted.
    items: Vec<Busy>,
}

/// List the busiest volumes, hosts or controllers
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
        Noun::Controller => By::Controller,
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
