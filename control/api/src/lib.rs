//! HTTP views of the operator actions, and nothing of their meaning: `/api/v1`, JSON, described by OpenAPI.
//!
//! A handler turns an HTTP request into one [`array::Request`] and its answer into a body. Callers are
//! authenticated by the [`auth::Operator`] that every handler takes. Errors become RFC 9457 problems by one table.
//! Paths outside `/api` are the web interface.

mod auth;
mod body;
mod compress;
mod contract;
mod described;
mod gui;
mod headers;
mod health;
mod heavy;
mod limiter;
mod list;
mod metrics;
mod problem;
mod queries;
mod server;
mod session;
mod sign_in;
pub mod standby;
mod tls;
mod unread;
mod v1;

pub use auth::Token;
pub use limiter::MAX_SOCKETS;
pub use server::{PassOn, Passed, Relayed};
pub use tls::{Stream, Tls, check_certificate};

use array::Array;
use axum::extract::DefaultBodyLimit;
use axum::{Router, middleware};
use limiter::Streams;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use utoipa::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;

/// Largest request body in bytes; the largest sensible one is a set of snapshots of a thousand volumes with labels.
const BODY_LIMIT: usize = 1 << 20;
/// Largest request body with a configuration document, in bytes: 200,000 volumes. One is read at a time.
const DOCUMENT_LIMIT: usize = 16 << 20;
/// Largest request body before log-in, in bytes: credentials, or the parameters of an identity provider.
const LOG_IN_BODY_LIMIT: usize = 16 << 10;

/// State shared by handlers.
#[derive(Clone)]
struct Context {
    array: Arc<Array>,
    token: Token,
    sessions: Arc<session::Sessions>,
    /// Held during a log-in: there is one at a time.
    logging_in: Arc<tokio::sync::Mutex<()>>,
    /// Event streams that are open.
    streams: Arc<Streams>,
    /// Runs requests that take long.
    heavy: heavy::Heavy,
    /// Browser sign-ins in progress.
    pending_sign_ins: Arc<sign_in::PendingSignIns>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Ashlar",
        description = "Management API of an Ashlar array. Sizes are in bytes, times in UTC (RFC 3339). Errors are \
                       application/problem+json with a machine-readable `kind`. Requests repeated with the same \
                       `Idempotency-Key` within a day are carried out once and get the same response. The response for a \
                       single object has an `ETag`; a change with `If-Match` fails with 412 if the object has changed since. Every \
                       controller answers; one that does not reach the home responds with 503, the kind `standby`, and the URL \
                       of the home.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(problem::Problem, v1::Change, v1::Topic)),
    modifiers(&Secrets),
    security(("token" = []), ("session" = []))
)]
struct Description;

struct Secrets;

impl utoipa::Modify for Secrets {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let cookie = ApiKeyValue::with_description(session::COOKIE, "Set by POST /api/v1/session.");
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", token);
        components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    }
}

fn routes() -> OpenApiRouter<Context> {
    let mut routes = OpenApiRouter::with_openapi(Description::openapi())
        .merge(v1::routes())
        .merge(metrics::routes())
        .merge(health::routes());
    described::add_headers(routes.get_openapi_mut());
    routes
}

/// The description of the API.
fn description() -> utoipa::openapi::OpenApi {
    routes().into_openapi()
}

/// The description of the API: OpenAPI 3.1, as JSON for people to read.
pub fn openapi() -> String {
    let mut text = description().to_pretty_json().expect("a description is JSON");
    text.push('\n');
    text
}

/// The service, for authenticated requests over at most this many connections.
fn router(array: Arc<Array>, token: Token, connections: usize) -> Router {
    let (router, _) = routes().split_for_parts();
    let sessions = Arc::new(session::Sessions::kept(&array));
    let streams = Streams::new(limiter::connection_limits(connections));
    let (logging_in, heavy, pending_sign_ins) = Default::default();
    let context = Context { array, token, sessions, logging_in, streams, heavy, pending_sign_ins };
    let paths = router
        .fallback(gui::serve)
        .method_not_allowed_fallback(problem::no_such_method)
        .route_layer(middleware::from_fn(queries::check))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(context.clone());
    // Around all paths: the contract compares the ETag of an object before a change.
    let compress = middleware::from_fn_with_state(context.heavy.clone(), compress::compress);
    let contract = middleware::from_fn_with_state(contract::Contract::new(context), contract::keep);
    let guard = middleware::from_fn(headers::guard);
    Router::new().fallback_service(paths).layer(contract).layer(compress).layer(guard)
}

/// The service, on as many listeners as it is given.
#[derive(Clone)]
pub struct Service(Arc<server::Server>);

impl Service {
    /// With a limit of connections over all listeners.
    pub fn new(tls: Tls, array: Arc<Array>, token: Token, connections: usize) -> Self {
        let router = router(array, token, connections);
        Self(server::Server::new(tls, (router, None), connections))
    }

    /// Serves the connections of a listener, forever. `plain`: whether plain HTTP is answered beside HTTPS. `used` is set by the
    /// first authenticated request that succeeds.
    pub async fn listen(self, listener: tokio::net::TcpListener, plain: bool, used: Arc<AtomicBool>) {
        self.0.listen(listener, plain, used).await;
    }

    /// Serves one connection that another controller passes on.
    pub async fn serve_relayed(self, stream: Box<dyn Stream>, from: Relayed) {
        self.0.serve_relayed(stream, from).await;
    }

    /// Connections end after the request in progress, which runs as long as the runtime does.
    pub fn end(&self) {
        self.0.end();
    }
}
