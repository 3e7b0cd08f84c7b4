//! Version 1: a file for each noun, with its shapes and its handlers. A handler turns an HTTP request into a
//! request of the array and its answer into a body. Sizes are in bytes; a field once there keeps its name and meaning.

mod alert;
mod array;
mod bin;
mod bundle;
mod connection;
mod directory;
mod drive;
mod event;
mod group;
mod host;
mod job;
mod key;
mod notification;
mod performance;
mod policy;
mod schedule;
mod sign_in;
mod snapshot;
mod stream;
mod usage;
mod user;
mod volume;

pub use stream::{Change, Topic};

use crate::Context;
use crate::auth::Operator;
use crate::problem::Problem;
use ::array::Request;
use axum::Json;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::{Deserialize, Deserializer};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

type Answer<T> = Result<Json<T>, Problem>;
type Created<T> = Result<(StatusCode, Json<T>), Problem>;
type Gone = Result<StatusCode, Problem>;

/// Every path of version 1.
pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .merge(array::routes())
        .merge(drive::routes())
        .merge(job::routes())
        .merge(key::routes())
        .merge(volume::routes())
        .merge(bin::routes())
        .merge(snapshot::routes())
        .merge(schedule::routes())
        .merge(group::routes())
        .merge(host::routes())
        .merge(connection::routes())
        .merge(event::routes())
        .merge(performance::routes())
        .merge(stream::routes())
        .merge(alert::routes())
        .merge(notification::routes())
        .merge(bundle::routes())
        .merge(usage::routes())
        .merge(user::routes())
        .merge(directory::routes())
        .merge(sign_in::routes())
        .routes(routes!(show_openapi))
}

/// Carries out a request in a task of its own: a client that hangs up must not stop a change half-way.
async fn perform<R: Request>(
    operator: Operator,
    context: &Context,
    request: R,
) -> Result<R::Answer, Problem> {
    let array = context.array.clone();
    match tokio::spawn(async move { array.perform(&operator.caller, request).await }).await {
        Ok(answer) => Ok(answer?),
        Err(error) => Err(Problem::internal(format!("the request broke off: {error}"))),
    }
}

/// Runs a query that may take a moment on a blocking thread.
pub async fn ask<R: Request>(operator: Operator, context: &Context, query: R) -> Result<R::Answer, Problem> {
    let array = context.array.clone();
    let runtime = tokio::runtime::Handle::current();
    let asked = move || runtime.block_on(array.perform(&operator.caller, query));
    match tokio::task::spawn_blocking(asked).await {
        Ok(answer) => Ok(answer?),
        Err(error) => Err(Problem::internal(format!("the query broke off: {error}"))),
    }
}

/// The answer to a request whose object is gone.
fn gone((): ()) -> Gone {
    Ok(StatusCode::NO_CONTENT)
}

/// Get the OpenAPI description
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "array", security(()), responses(
    (status = 200, description = "OpenAPI 3.1", body = Object),
))]
async fn show_openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], crate::openapi())
}

/// A field that may be left out, null, or a value.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Seconds since 1970 as RFC 3339 has it.
fn utc(seconds: u64) -> String {
    let timestamp =
        i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    timestamp.unwrap_or(jiff::Timestamp::MAX).to_string()
}
