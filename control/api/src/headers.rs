//! Security headers of all responses.

use crate::tls::Peer;
use axum::extract::{ConnectInfo, Request};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS};
use axum::middleware::Next;
use axum::response::Response;

/// HTTP Strict Transport Security: browsers that connected over TLS use only TLS for a year.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// The middleware around all paths. Responses of the API must not be cached, as they may hold secrets. Files of the
/// web interface set their own cache lifetime.
pub async fn guard(request: Request, next: Next) -> Response {
    let encrypted =
        request.extensions().get::<ConnectInfo<Peer>>().is_some_and(|ConnectInfo(peer)| peer.encrypted);
    let from_api = request.uri().path().starts_with("/api") || request.uri().path() == "/metrics";
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    if from_api || !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // A browser must ignore it without TLS (RFC 6797 7.2).
    if encrypted {
        headers.insert(STRICT_TRANSPORT_SECURITY, HSTS);
    }
    response
}
