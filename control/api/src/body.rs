//! Extractors of requests that answer with problems instead of plain text.

use crate::problem::Problem;
use crate::tls::Peer;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::net::IpAddr;

/// A JSON body.
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(Problem::rejected(rejection.status(), rejection.body_text())),
        }
    }
}

/// A JSON body that its handler parses itself.
pub struct Text(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !kind.is_some_and(|kind| kind.trim_start().starts_with("application/json")) {
            let detail = "send the body as Content-Type: application/json";
            return Err(Problem::rejected(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail.into()));
        }
        let bytes = Bytes::from_request(request, state).await;
        bytes.map(Self).map_err(|rejection| Problem::rejected(rejection.status(), rejection.body_text()))
    }
}

/// A JSON body that may be left out.
pub struct Optional<T>(pub Option<T>);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Optional<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes =
            bytes.map_err(|rejection| Problem::rejected(rejection.status(), rejection.body_text()))?;
        if bytes.trim_ascii().is_empty() {
            return Ok(Self(None));
        }
        match Json::<T>::from_bytes(&bytes) {
            Ok(Json(body)) => Ok(Self(Some(body))),
            Err(rejection) => Err(Problem::rejected(rejection.status(), rejection.body_text())),
        }
    }
}

/// The variable parts of a path, percent-decoded.
pub struct Named<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(path)) => Ok(Self(path)),
            Err(rejection) => Err(Problem::rejected(rejection.status(), rejection.body_text())),
        }
    }
}

/// The address of the array at which a request reached it; none if it came over no socket.
#[derive(Clone, Copy, Debug)]
pub struct ReachedAddress(pub Option<IpAddr>);

impl<S: Send + Sync> FromRequestParts<S> for ReachedAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(
            parts.extensions.get::<ConnectInfo<Peer>>().map(|ConnectInfo(peer)| peer.reached.to_canonical()),
        ))
    }
}

/// The query of a request.
pub struct Asked<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejection) => Err(Problem::rejected(rejection.status(), rejection.body_text())),
        }
    }
}
