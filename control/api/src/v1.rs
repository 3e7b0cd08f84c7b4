//! Version 1. Verbs that declare their route have one handler for all of them ([`route`]); the other files have the
//! operations that are more than that, and shapes that are not the array's own. A handler turns an HTTP request into a
//! request of the array and its answer into a body. Sizes are in bytes; a field once there keeps its name and meaning.

mod bundle;
mod configuration;
mod connection;
pub(crate) mod handler;
mod label;
mod performance;
mod replication_history;
mod route;
mod schedule;
mod sign_in;
mod snapshot;
mod stream;
mod user;
mod volume;

pub use stream::{Change, Topic};

use crate::Context;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Every path of version 1.
pub fn routes() -> OpenApiRouter<Context> {
    route::routes()
        .merge(configuration::routes())
        .merge(volume::routes())
        .merge(snapshot::routes())
        .merge(schedule::routes())
        .merge(connection::routes())
        .merge(performance::routes())
        .merge(stream::routes())
        .merge(bundle::routes())
        .merge(user::routes())
        .merge(replication_history::routes())
        .merge(sign_in::routes())
        .routes(routes!(show_openapi))
}

/// Get the OpenAPI description
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "array", security(()), responses(
    (status = 200, description = "OpenAPI 3.1", body = Object),
))]
async fn show_openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], crate::openapi())
}
