//! The run of a snapshot schedule.

use super::handler::{Answer, operations, perform};
use super::snapshot::Snapshots;
use crate::Context;
use crate::auth::Operator;
use crate::body::Named;
use crate::problem::Problems;
use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(run_schedule: RunSchedule))
}

/// Run a snapshot schedule now
///
/// Takes its snapshots and eradicates those that its rules no longer retain.
#[utoipa::path(post, path = "/api/v1/schedules/{name}/run", tag = "schedules", params(("name" = String, Path,)),
    responses(
    (status = 200, description = "The new snapshots", body = Snapshots),
    Problems,
))]
async fn run_schedule(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Snapshots> {
    let taken = perform(operator, &context, array::RunSchedule { name, now: true }).await?;
    Ok(Json(taken.into()))
}
