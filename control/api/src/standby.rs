//! The API of a controller that does not serve the array: it passes connections on to the one that does, where it can, and else
//! answers which one that is.
//!
//! The web interface is served as always; its first request gets the same answer, which it shows.

use crate::problem::Problem;
use crate::server::PassOn;
use crate::tls::Tls;
use crate::{gui, headers, server};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use std::sync::Arc;

/// Why the array is not served here, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referral {
    /// What is wrong here and what to do.
    pub detail: String,
    /// URL of the API of the controller that serves the array, if one does.
    pub home: Option<String>,
}

/// What the responses of a standby are made from.
#[derive(Clone)]
pub struct Standby {
    /// Where the array is served now.
    pub referral: Arc<dyn Fn() -> Referral + Send + Sync>,
    /// A random number that can't be guessed.
    pub secret: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Serves until `end`. `plain`: whether plain HTTP is answered beside HTTPS.
pub async fn serve(
    listener: tokio::net::TcpListener,
    (tls, plain): (Tls, bool),
    (standby, pass_on): (Standby, Option<PassOn>),
    connections: usize,
    end: impl Future<Output = ()> + Send,
) {
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .fallback(answer)
        .with_state(standby)
        .layer(middleware::from_fn(headers::guard));
    server::run(listener, (tls, plain), (router, pass_on), connections, end).await;
}

async fn answer(State(standby): State<Standby>, request: Request) -> Response {
    let path = request.uri().path();
    if ["/api", "/readyz", "/metrics"].contains(&path) || path.starts_with("/api/") {
        let Referral { detail, home } = (standby.referral)();
        return Problem::standby(detail, home).into_response();
    }
    gui::answer(request, || (standby.secret)()).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::{Body, to_bytes};
    use axum::http::{Method, StatusCode};
    use serde_json::Value;

    async fn ask(method: Method, path: &str, home: Option<&str>) -> (StatusCode, Value) {
        let referral = Referral { detail: "it is elsewhere".into(), home: home.map(str::to_owned) };
        let referral = Arc::new(move || referral.clone());
        let standby = Standby { referral, secret: Arc::new(|| "n0nce".into()) };
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let response = answer(State(standby), request).await;
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    #[tokio::test]
    async fn every_path_of_the_api_says_where_the_array_is_served() {
        for (method, path) in [
            (Method::GET, "/api/v1/array"),
            (Method::POST, "/api/v1/volumes"),
            (Method::GET, "/api/v1/session"),
            (Method::DELETE, "/api/v2/nothing"),
            (Method::GET, "/api"),
            (Method::GET, "/metrics"),
            (Method::GET, "/readyz"),
        ] {
            let (status, problem) = ask(method, path, Some("https://192.0.2.1:8443")).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
            assert_eq!(problem["kind"], "standby");
            assert_eq!(problem["home"], "https://192.0.2.1:8443");
            assert_eq!(problem["detail"], "it is elsewhere");
        }
        let (_, problem) = ask(Method::GET, "/api/v1/array", None).await;
        assert!(problem.get("home").is_none(), "no controller serves it");
    }

    #[tokio::test]
    async fn pages_are_served_as_always() {
        assert_eq!(ask(Method::GET, "/volumes", None).await.0, StatusCode::OK);
        assert_eq!(ask(Method::POST, "/volumes", None).await.0, StatusCode::METHOD_NOT_ALLOWED);
    }
}
