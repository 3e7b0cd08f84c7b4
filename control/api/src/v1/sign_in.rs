//! Browser sign-in through an identity provider.
//!
//! The browser goes from a page of the array to the directory, and comes back to a page of the array, which hands over
//! what it brings: nothing here redirects anybody anywhere.

use super::handler::{Answer, utc};
use super::user::{Session, cookie};
use crate::Context;
use crate::auth::{self, cookie_named, is_from_elsewhere};
use crate::body::{Body, Named};
use crate::problem::{Problem, Problems};
use crate::sign_in::{COOKIE, TIMEOUT_S};
use crate::tls::Peer;
use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::http::Extensions;
use axum::http::header::{HOST, HeaderMap, SET_COOKIE};
use axum::response::{AppendHeaders, IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(list_sign_ins, complete_sign_in)).routes(routes!(start_sign_in))
}

/// An identity provider for browser sign-in.
#[derive(Serialize, ToSchema)]
struct SignIn {
    /// Name.
    directory: String,
}

/// Identity providers for browser sign-in.
#[derive(Serialize, ToSchema)]
struct SignIns {
    /// By name.
    items: Vec<SignIn>,
    /// Total count.
    total: usize,
}

/// Redirect target of a browser sign-in.
#[derive(Serialize, ToSchema)]
struct Departure {
    /// Log-in page of the identity provider, which redirects back to `/sign-in` of the array.
    url: String,
}

/// Parameters returned by the identity provider.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arrival {
    /// `state` parameter.
    state: String,
    /// `code` parameter.
    #[schema(format = Password)]
    code: String,
    /// `iss` parameter, if present (RFC 9207).
    #[serde(default)]
    iss: Option<String>,
}

/// List identity providers for browser sign-in
#[utoipa::path(get, path = "/api/v1/sign-in", tag = "access", security(()), responses(
    (status = 200, description = "The directories", body = SignIns),
    Problems,
))]
async fn list_sign_ins(State(context): State<Context>) -> Answer<SignIns> {
    let items: Vec<_> =
        context.array.directories().redirecting().into_iter().map(|directory| SignIn { directory }).collect();
    let total = items.len();
    Ok(Json(SignIns { items, total }))
}

/// Start a browser sign-in
///
/// Sets a cookie that binds the sign-in to this browser. It must be completed within ten minutes.
#[utoipa::path(post, path = "/api/v1/sign-in/{directory}", tag = "access", security(()),
    params(("directory" = String, Path)), responses(
    (status = 200, description = "The redirect target", body = Departure),
    Problems,
))]
async fn start_sign_in(
    State(context): State<Context>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    Named(directory): Named<String>,
) -> Result<Response, Problem> {
    if is_from_elsewhere(&headers) {
        return Err(Problem::forbidden("the request comes from a page of another site"));
    }
    let host = auth::text(&headers, &HOST).unwrap_or_default().to_owned();
    let _turn = context.pending_sign_ins.asking.acquire().await;
    let (array, name) = (context.array.clone(), directory.clone());
    let request = blocking(move || array.directories().begin_sign_in(&name, &host)).await?;
    let (browser, url) = (context.array.accounts().secret(), request.url.clone());
    context.pending_sign_ins.begin(&directory, request, &browser, context.array.uptime());
    Ok(([(SET_COOKIE, mark(&browser, peer.encrypted))], Json(Departure { url })).into_response())
}

/// Complete a browser sign-in
///
/// The response sets the session cookie.
#[utoipa::path(post, path = "/api/v1/sign-in", tag = "access", security(()), request_body = Arrival, responses(
    (status = 200, description = "The session", body = Session),
    Problems,
))]
async fn complete_sign_in(
    State(context): State<Context>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    Body(Arrival { state, code, iss }): Body<Arrival>,
) -> Result<Response, Problem> {
    if is_from_elsewhere(&headers) {
        return Err(Problem::forbidden("the request comes from a page of another site"));
    }
    let (origin, now) = (peer.address.ip().to_string(), context.array.uptime());
    let client = [origin.as_str()];
    if let Some(seconds) = context.sessions.wait(&client, now) {
        return Err(Problem::too_many_failures(seconds));
    }
    let browser = cookie_named(&headers, COOKIE).unwrap_or_default();
    let Some((directory, request)) = context.pending_sign_ins.end(&state, browser, now) else {
        context.sessions.failed(&client, now);
        let detail =
            "this was not begun in this browser, is over, or took longer than ten minutes: sign in again";
        return Err(Problem::unauthorized(detail));
    };
    let _turn = context.pending_sign_ins.asking.acquire().await;
    let (array, name, from) = (context.array.clone(), directory.clone(), origin.clone());
    let ended = move || array.directories().end_sign_in(&name, &request, &code, iss.as_deref(), &from);
    let guest = match blocking(ended).await {
        Ok(guest) => guest,
        Err(problem) => {
            context.sessions.failed(&client, context.array.uptime());
            context.array.accounts().log_login(&format!("{directory}/…"), &origin, false);
            return Err(problem);
        }
    };
    context.array.accounts().log_login(&guest.user, &origin, true);
    let (user, role) = (guest.user.clone(), guest.role);
    let (secret, until) = context.sessions.begin_guest(guest, &context.array);
    let mut extensions = Extensions::new();
    extensions.insert(ConnectInfo(peer));
    let cookies = [(SET_COOKIE, cookie(&secret, &extensions)), (SET_COOKIE, mark("", peer.encrypted))];
    let session = Session { user, role, expires: Some(utc(until)) };
    Ok((AppendHeaders(cookies), Json(session)).into_response())
}

/// On a blocking thread: directories can be slow.
async fn blocking<T: Send + 'static>(
    body: impl FnOnce() -> array::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(body).await {
        Ok(done) => Ok(done?),
        Err(error) => Err(Problem::internal(format!("the sign-in broke off: {error}"))),
    }
}

/// The cookie of a sign-in; without a secret, one that deletes it.
fn mark(secret: &str, encrypted: bool) -> String {
    let age = if secret.is_empty() { 0 } else { TIMEOUT_S };
    let secure = if encrypted { "; Secure" } else { "" };
    format!("{COOKIE}={secret}; Path=/api/v1/sign-in; HttpOnly; SameSite=Strict; Max-Age={age}{secure}")
}
