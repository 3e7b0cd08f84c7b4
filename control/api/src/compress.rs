//! Compression of responses with gzip (RFC 1952), for clients that accept it.
//!
//! Only what is read is compressed: responses to changes may hold secrets, whose length compression would reveal beside text that a
//! request chooses.

use crate::heavy::Heavy;
use crate::problem::Problem;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Shorter bodies stay as they are, in bytes: they fit into one packet.
const MIN_BYTES: u64 = 1024;
/// Longer bodies are compressed on a thread of their own, in bytes: other requests would wait for it.
const MAX_INLINE_BYTES: usize = 64 << 10;

/// Media types of texts, up to their parameters; not the event stream, which has no end.
const TEXTS: &[&str] = &[
    "application/json",
    "application/problem+json",
    crate::list::PARTIAL,
    "application/openmetrics-text",
    "text/plain",
    "text/csv",
    "text/html",
];

/// Whether a client accepts gzip (RFC 9110, 12.5.3).
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut accepted = None;
    for coding in values.flat_map(|value| value.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok());
        let wanted = weight.is_some_and(|weight: f32| weight > 0.0);
        match name {
            name if name.eq_ignore_ascii_case("gzip") => return wanted,
            "*" => accepted = Some(wanted),
            _ => {}
        }
    }
    accepted.unwrap_or(false)
}

/// The middleware around all paths.
pub async fn compress(State(heavy): State<Heavy>, request: Request, next: Next) -> Response {
    let reads = request.method() == Method::GET;
    let accepts = accepts_gzip(request.headers());
    let mut response = next.run(request).await;
    if !reads || !is_text(response.headers()) || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    if !response.headers().contains_key(VARY) {
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    }
    let Some(length) = response.body().size_hint().exact().filter(|length| accepts && *length >= MIN_BYTES)
    else {
        return response;
    };
    let (mut parts, body) = response.into_parts();
    // It is in memory as a whole, as its length is known.
    let Ok(whole) = to_bytes(body, usize::try_from(length).unwrap_or(usize::MAX)).await else {
        return Problem::internal("an answer broke off".into()).into_response();
    };
    let packed = match whole.len() > MAX_INLINE_BYTES {
        true => {
            let text = whole.clone();
            heavy.run(move || gzip(&text)).await.ok().flatten()
        }
        false => gzip(&whole),
    };
    let Some(packed) = packed else { return Response::from_parts(parts, Body::from(whole)) };
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(packed))
}

fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    TEXTS.contains(&kind.split(';').next().unwrap_or_default().trim())
}

/// The bytes compressed; `None` if that fails.
fn gzip(bytes: &Bytes) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{Router, middleware, routing};
    use flate2::read::GzDecoder;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;
    use std::io::Read;

    fn headers(accepted: &[&str]) -> HeaderMap {
        accepted.iter().map(|value| (ACCEPT_ENCODING, value.parse().expect("a header"))).collect()
    }

    #[test]
    fn gzip_is_accepted_as_the_header_says() {
        for (accepted, expected) in [
            (&["gzip"][..], true),
            (&["GZIP"], true),
            (&["br", "deflate, gzip;q=0.5"], true),
            (&["*"], true),
            (&["*;q=0"], false),
            (&["gzip;q=0, *"], false),
            (&["gzip; q=0"], false),
            (&["identity"], false),
            (&["gzipped"], false),
            (&[], false),
        ] {
            assert_eq!(accepts_gzip(&headers(accepted)), expected, "{accepted:?}");
        }
    }

    async fn ask(method: Method, path: &str, accepted: &str) -> (HeaderMap, Vec<u8>) {
        let long = || async { ([(CONTENT_TYPE, "application/json")], "[1]".repeat(100_000)) };
        let router: Router = Router::new()
            .route("/long", routing::get(long).post(long))
            .route("/short", routing::get(|| async { ([(CONTENT_TYPE, "application/json")], "[]") }))
            .route("/binary", routing::get(|| async { vec![0; 10_000] }))
            .layer(middleware::from_fn_with_state(Heavy::default(), compress));
        let request = Request::builder().method(method).uri(path).header(ACCEPT_ENCODING, accepted);
        let response = TowerToHyperService::new(router)
            .call(request.body(Body::empty()).expect("a request"))
            .await
            .expect("it answers");
        let (parts, body) = response.into_parts();
        (parts.headers, to_bytes(body, usize::MAX).await.expect("a body").to_vec())
    }

    #[tokio::test]
    async fn long_texts_that_are_read_are_compressed_for_clients_that_accept_it() {
        let (headers, packed) = ask(Method::GET, "/long", "gzip").await;
        assert_eq!(
            (&headers[CONTENT_ENCODING], &headers[VARY]),
            (&"gzip".parse().unwrap(), &"accept-encoding".parse().unwrap())
        );
        assert!(packed.len() < 300_000 / 20, "{} bytes", packed.len());
        let mut text = String::new();
        GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("gzip");
        assert_eq!(text, "[1]".repeat(100_000));
        for (method, path, accepted) in [
            (Method::GET, "/long", "identity"),
            (Method::POST, "/long", "gzip"),
            (Method::GET, "/short", "gzip"),
            (Method::GET, "/binary", "gzip"),
        ] {
            let (headers, _) = ask(method.clone(), path, accepted).await;
            assert!(!headers.contains_key(CONTENT_ENCODING), "{method} {path} {accepted}");
        }
    }
}
