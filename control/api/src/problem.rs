//! Errors as RFC 9457 has them. The one table from [`array::Kind`] to HTTP is here.

use array::Kind;
use axum::Json;
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

/// An error (application/problem+json, RFC 9457).
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// `urn:ashlar:problem:` and the kind.
    #[serde(rename = "type")]
    pub kind_uri: String,
    /// Title, equal for all problems of this kind.
    #[schema(value_type = String)]
    pub title: &'static str,
    /// HTTP status.
    pub status: u16,
    /// What is wrong and how to correct it.
    pub detail: String,
    /// Machine-readable kind: not_found, conflict, differs, invalid, precondition, stale, forbidden, failed, unauthorized,
    /// too_many or standby.
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// Field of the request that the problem is about; for `differs` the first one in which the existing object differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub field: Option<&'static str>,
    /// For `standby`: URL of the API of the controller that serves the array, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub home: Option<Box<str>>,
}

/// Error responses of every path.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its description is used")]
pub enum Problems {
    /// The request was refused. Nothing changed.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Refused(Problem),
    /// The array failed to process the request.
    #[response(status = "5XX", content_type = "application/problem+json")]
    Failed(Problem),
}

/// Kind, name, title, HTTP status.
const TABLE: &[(Kind, &str, &str, StatusCode)] = &[
    (Kind::NotFound, "not_found", "Not found", StatusCode::NOT_FOUND),
    (Kind::Conflict, "conflict", "Conflict", StatusCode::CONFLICT),
    (Kind::Differs, "differs", "Exists with other properties", StatusCode::CONFLICT),
    (Kind::Invalid, "invalid", "Invalid request", StatusCode::BAD_REQUEST),
    (Kind::Precondition, "precondition", "Not possible at present", StatusCode::CONFLICT),
    (Kind::Forbidden, "forbidden", "Permission denied", StatusCode::FORBIDDEN),
    (Kind::Failed, "failed", "The operation failed", StatusCode::INTERNAL_SERVER_ERROR),
];

impl Problem {
    fn new(kind: &'static str, title: &'static str, status: StatusCode, detail: String) -> Self {
        let status = status.as_u16();
        Self {
            kind_uri: format!("urn:ashlar:problem:{kind}"),
            title,
            status,
            detail,
            kind,
            field: None,
            home: None,
        }
    }

    fn of(kind: Kind, status: Option<StatusCode>, detail: String) -> Self {
        let (_, name, title, usual) =
            TABLE.iter().find(|row| row.0 == kind).expect("the table has a row for every kind");
        Self::new(name, title, status.unwrap_or(*usual), detail)
    }

    /// A request that is refused regardless of the caller.
    pub fn forbidden(detail: &str) -> Self {
        Self::of(Kind::Forbidden, None, detail.into())
    }

    /// Too many failed log-ins.
    pub fn too_many_failures(seconds: u64) -> Self {
        Self::too_many(format!("too many log-ins failed: wait for {seconds} seconds"))
    }

    /// The caller asks for more than one caller gets.
    pub fn too_many(detail: String) -> Self {
        Self::new("too_many", "Too many requests", StatusCode::TOO_MANY_REQUESTS, detail)
    }

    /// All callers together ask for more than there is.
    pub fn busy(detail: String) -> Self {
        Self::new("too_many", "Too many requests", StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// No valid token or session.
    pub fn unauthorized(detail: &str) -> Self {
        Self::new("unauthorized", "Not signed in", StatusCode::UNAUTHORIZED, detail.into())
    }

    /// The object has changed since.
    pub fn stale() -> Self {
        let detail =
            "the object has changed since it was read: get it again, and send the change with its new ETag";
        Self::new("stale", "Changed since it was read", StatusCode::PRECONDITION_FAILED, detail.into())
    }

    /// A key that stands for another request.
    pub fn reused_key() -> Self {
        let detail = "this Idempotency-Key was used for a request with another body: use a new one";
        Self::new("invalid", "Invalid request", StatusCode::UNPROCESSABLE_ENTITY, detail.into())
    }

    /// A request that could not be taken apart.
    pub fn rejected(status: StatusCode, detail: String) -> Self {
        Self::of(Kind::Invalid, Some(status), detail)
    }

    /// Hosts are not served.
    pub fn not_ready() -> Self {
        let detail = "the array has stopped to protect data: `ashlar array status` has the reason";
        Self::of(Kind::Failed, Some(StatusCode::SERVICE_UNAVAILABLE), detail.into())
    }

    /// A controller that does not serve the array, and the URL of the one that does.
    pub fn standby(detail: String, home: Option<String>) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self {
            home: home.map(String::into_boxed_str),
            ..Self::new("standby", "Standby controller", status, detail)
        }
    }

    /// The array's own side is wrong, which is worth a line in the log.
    pub fn internal(detail: String) -> Self {
        tracing::error!(%detail, "an API request failed");
        Self::of(Kind::Failed, None, detail)
    }
}

impl From<array::Error> for Problem {
    fn from(error: array::Error) -> Self {
        Self { field: error.field, ..Self::of(error.kind, None, error.message) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, axum::http::HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// For paths that nothing answers.
pub async fn no_such_path(uri: Uri) -> Problem {
    Problem::of(Kind::NotFound, None, format!("there is nothing at {}", uri.path()))
}

/// For methods that a path does not have.
pub async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{method} is not possible at {}", uri.path());
    Problem::of(Kind::Invalid, Some(StatusCode::METHOD_NOT_ALLOWED), detail)
}
