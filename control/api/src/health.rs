//! `/healthz` and `/readyz`, for service monitors and load balancers: without credentials, and without details.

use crate::Context;
use crate::problem::{Problem, Problems};
use axum::extract::State as Shared;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

/// Whether the process responds
#[utoipa::path(get, path = "/healthz", tag = "array", security(()), responses(
    (status = 200, description = "It does", body = String, content_type = "text/plain"),
    Problems,
))]
async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether hosts are served; 503 after the array has stopped to protect data, and on a standby controller
#[utoipa::path(get, path = "/readyz", tag = "array", security(()), responses(
    (status = 200, description = "They are", body = String, content_type = "text/plain"),
    Problems,
))]
async fn readyz(Shared(context): Shared<Context>) -> Result<&'static str, Problem> {
    match context.array.state() {
        array::State::Online => Ok("ok\n"),
        // The reason may name drives: it is for operators.
        array::State::Stopped => Err(Problem::not_ready()),
    }
}
