//! HTTP views of the operator actions, and nothing of their meaning: `/api/v1`, JSON, described by OpenAPI.
//!
//! A handler turns a request into one [`array::Action`] and its outcome into a body. Whoever may ask is decided by
//! the [`auth::Operator`] that every handler takes. Problems are answered as RFC 9457 says, from one table. Paths
//! outside `/api` are the web interface.

mod auth;
mod body;
mod gui;
mod list;
mod problem;
mod v1;

pub use auth::Token;

use array::Array;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use std::sync::Arc;
use tokio::net::TcpListener;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;

/// Largest request body in bytes; the largest sensible one, a host with 64 initiators, is under 16 KiB.
const BODY_LIMIT: usize = 64 << 10;

/// What handlers share.
#[derive(Clone)]
struct Context {
    array: Arc<Array>,
    token: Token,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Ashlar",
        description = "Operator actions of an Ashlar array. Sizes are in bytes, times in UTC. Errors are \
                       application/problem+json with a `kind` that programs can act on.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(problem::Problem)),
    modifiers(&BearerToken),
    security(("token" = []))
)]
struct Description;

struct BearerToken;

impl utoipa::Modify for BearerToken {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        openapi.components.get_or_insert_default().add_security_scheme("token", token);
    }
}

fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::with_openapi(Description::openapi()).merge(v1::routes())
}

/// The description of the API: OpenAPI 3.1, as JSON for people to read.
pub fn openapi() -> String {
    let mut text = routes().get_openapi().to_pretty_json().expect("a description is JSON");
    text.push('\n');
    text
}

/// The service, for whoever has the token.
pub fn router(array: Arc<Array>, token: Token) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .fallback(gui::serve)
        .method_not_allowed_fallback(problem::no_such_method)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(Context { array, token })
}

/// Serves until `end`, then lets requests under way finish.
pub async fn serve(
    listener: TcpListener,
    array: Arc<Array>,
    token: Token,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(array, token)).with_graceful_shutdown(end).await
}
