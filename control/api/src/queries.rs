//! Queries: a parameter that an operation does not declare, or that comes twice, is refused. Ignored, a mistyped one would select
//! everything.

use crate::problem::Problem;
use axum::extract::{MatchedPath, Request};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// An operation: its method in lower case, and its path as it is declared.
type Operation = (String, String);

/// The parameters of the query of each operation.
static DECLARED: LazyLock<BTreeMap<Operation, BTreeSet<String>>> = LazyLock::new(|| {
    let description = serde_json::to_value(crate::description()).unwrap_or_default();
    let mut declared = BTreeMap::new();
    for (path, item) in description["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let names = parameters.filter(|it| it["in"] == "query").filter_map(|it| it["name"].as_str());
            declared.insert((method.clone(), path.clone()), names.map(str::to_owned).collect());
        }
    }
    declared
});

/// The middleware around the operations.
pub async fn check(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    // What an identity provider adds to the way back is its own matter.
    let is_way_back = request.uri().path().starts_with("/api/v1/sign-in/");
    if !is_way_back
        && let Err(detail) = understood(request.method(), path, request.uri().query().unwrap_or_default())
    {
        return Problem::rejected(StatusCode::BAD_REQUEST, detail).into_response();
    }
    next.run(request).await
}

fn understood(method: &Method, path: &str, query: &str) -> Result<(), String> {
    let method = if method == Method::HEAD { "get".into() } else { method.as_str().to_lowercase() };
    let Some(declared) = DECLARED.get(&(method, path.to_owned())) else { return Ok(()) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_takes_the_parameters_that_it_declares_and_no_others() {
        assert!(DECLARED.len() > 100, "{} operations", DECLARED.len());
        for ((method, path), parameters) in DECLARED.iter() {
            let method: Method = method.to_uppercase().parse().expect("a method");
            let all: Vec<_> = parameters.iter().map(|name| format!("{name}=1")).collect();
            assert_eq!(understood(&method, path, &all.join("&")), Ok(()), "{method} {path}");
            assert!(understood(&method, path, "colour=red").is_err(), "{method} {path}");
            for parameter in parameters {
                assert!(
                    understood(&method, path, &format!("{parameter}=1&{parameter}=2")).is_err(),
                    "{method} {path}"
                );
            }
        }
        assert!(understood(&Method::HEAD, "/api/v1/volumes", "topic=volumes").is_err());
        assert!(understood(&Method::GET, "/api/v1/stream", "topics=volumes").is_err());
        assert!(understood(&Method::GET, "/metrics", "volume=all").is_err());
    }
}
