//! Queries and bodies: a parameter that an operation does not declare, or that comes twice, is refused, and so is a body of an
//! operation that has none. Ignored, a mistyped one would select everything.

use crate::problem::Problem;
use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{MatchedPath, Request};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::timeout;

/// An operation: its method in lower case, and its path as it is declared.
type Operation = (String, String);

/// What an operation takes.
struct Declared {
    /// The parameters of its query.
    parameters: BTreeSet<String>,
    has_body: bool,
}

/// Bodies that say nothing, of clients that always send one.
const EMPTY_BODIES: [&[u8]; 3] = [b"", b"{}", b"null"];
/// Bytes that are read of a body of an operation that has none.
const MAX_EMPTY_BODY_BYTES: usize = 8;
/// How long they are waited for.
const EMPTY_BODY_TIMEOUT: Duration = Duration::from_secs(2);

/// What each operation takes.
static DECLARED: LazyLock<BTreeMap<Operation, Declared>> = LazyLock::new(|| {
    let description = serde_json::to_value(crate::description()).unwrap_or_default();
    let mut declared = BTreeMap::new();
    for (path, item) in description["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let names = parameters.filter(|it| it["in"] == "query").filter_map(|it| it["name"].as_str());
            let parameters = names.map(str::to_owned).collect();
            let has_body = !operation["requestBody"].is_null();
            declared.insert((method.clone(), path.clone()), Declared { parameters, has_body });
        }
    }
    declared
});

/// The middleware around the operations.
pub async fn check(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    // What an identity provider adds to the way back is its own matter.
    let is_way_back = request.uri().path().starts_with("/api/v1/sign-in/");
    let refused = |detail: String| Problem::rejected(StatusCode::BAD_REQUEST, detail).into_response();
    let Some(declared) = declared(request.method(), path).filter(|_| !is_way_back) else {
        return next.run(request).await;
    };
    if let Err(detail) = declared.understood(request.uri().query().unwrap_or_default()) {
        return refused(detail);
    }
    if declared.has_body || request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    // That of a change was read before, within its time-out.
    let said = timeout(EMPTY_BODY_TIMEOUT, to_bytes(body, MAX_EMPTY_BODY_BYTES)).await;
    match said {
        Ok(Ok(said)) if EMPTY_BODIES.contains(&said.trim_ascii()) => {
            next.run(Request::from_parts(parts, Body::empty())).await
        }
        _ => refused("this request has no body: what it says would be ignored".into()),
    }
}

fn declared(method: &Method, path: &str) -> Option<&'static Declared> {
    let method = if method == Method::HEAD { "get".into() } else { method.as_str().to_lowercase() };
    DECLARED.get(&(method, path.to_owned()))
}

impl Declared {
    fn understood(&self, query: &str) -> Result<(), String> {
        let declared = &self.parameters;
        let mut seen = BTreeSet::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let name = pair.split('=').next().unwrap_or_default();
            if !declared.contains(name) {
                let known: Vec<_> = declared.iter().map(String::as_str).collect();
                return Err(match known.is_empty() {
                    true => format!("there is no parameter {name:?}: this request has none"),
                    false => format!("there is no parameter {name:?}: this request has {}", known.join(", ")),
                });
            }
            if !seen.insert(name) {
                return Err(format!("the parameter {name:?} comes twice: give it once, with commas"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_takes_the_parameters_that_it_declares_and_no_others() {
        assert!(DECLARED.len() > 100, "{} operations", DECLARED.len());
        for ((method, path), declared) in DECLARED.iter() {
            let all: Vec<_> = declared.parameters.iter().map(|name| format!("{name}=1")).collect();
            assert_eq!(declared.understood(&all.join("&")), Ok(()), "{method} {path}");
            assert!(declared.understood("colour=red").is_err(), "{method} {path}");
            for parameter in &declared.parameters {
                let twice = format!("{parameter}=1&{parameter}=2");
                assert!(declared.understood(&twice).is_err(), "{method} {path}");
            }
        }
        for (method, path, query) in [
            (Method::HEAD, "/api/v1/volumes", "topic=volumes"),
            (Method::GET, "/api/v1/stream", "topics=volumes"),
            (Method::GET, "/metrics", "volume=all"),
        ] {
            let declared = declared(&method, path).expect("an operation");
            assert!(declared.understood(query).is_err() && !declared.has_body);
        }
    }
}
