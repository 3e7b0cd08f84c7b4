//! The web interface: the files that the build of `web/` made, embedded in the program.
//!
//! They are public; what they show comes from the API, which authenticates. A page is one document whose
//! addresses (`/volumes`, `/hosts/web1`) are taken apart in the browser, so they are all answered with it.
//! Style sheets that the page's own scripts make carry a number that is in this one answer only.

use crate::Context;
use crate::compress::accepts_gzip;
use crate::problem::{self, Problem};
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;
use std::io::{self, Read};

/// Paths with their bytes, in the order of paths. What ends with [`PACKED`] is a file compressed with gzip (RFC 1952), which is not
/// there otherwise.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/gui.rs"));

const PACKED: &str = ".gz";

const INDEX: &str = "/index.html";

/// Answered to browsers when the program was built without the files.
const NOT_BUILT: &str = include_str!("gui_not_built.html");

/// Where the document holds the number of its answer.
const NONCE: &str = "{{nonce}}";

/// Nothing from elsewhere: no script, picture or font, no request to another server, no frame around it. No style
/// stands in the document but those with the number of this answer, which the component library's sheets get.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{{nonce}}'; \
                      img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";

/// Of files: they load nothing.
const FILE_POLICY: &str = "default-src 'none'";

/// The script that keeps the pages' files in the browser asks for them itself.
const WORKER: &str = "/sw.js";
const WORKER_POLICY: &str = "default-src 'none'; connect-src 'self'";

/// Names carry a digest of their content, so they never change.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// What a file's name ends with, and its media type.
const TYPES: &[(&str, &str)] = &[
    (".html", "text/html; charset=utf-8"),
    (".js", "text/javascript; charset=utf-8"),
    (".css", "text/css; charset=utf-8"),
    (".svg", "image/svg+xml"),
    (".png", "image/png"),
    (".woff2", "font/woff2"),
];

/// Answers what no path of the API answers.
pub async fn serve(State(context): State<Context>, request: Request) -> Response {
    answer(request, || context.array.accounts().secret()).await
}

pub async fn answer(request: Request, nonce: impl Fn() -> String) -> Response {
    let (parts, _) = request.into_parts();
    let path = parts.uri.path();
    let reads = parts.method == Method::GET || parts.method == Method::HEAD;
    if path == "/api" || path.starts_with("/api/") {
        return problem::no_such_path(parts.uri).await.into_response();
    }
    if !reads {
        return problem::no_such_method(parts.method, parts.uri).await.into_response();
    }
    let gzip = accepts_gzip(&parts.headers);
    match choose(FILES, path) {
        Some(INDEX) => document(FILES, &nonce()),
        Some(name) => file(FILES, name, gzip),
        None if is_page(path) => document(&[(INDEX, NOT_BUILT.as_bytes())], &nonce()),
        None => problem::no_such_path(parts.uri).await.into_response(),
    }
}

/// The file for a path: itself, or the document when the path is one of its pages.
fn choose<'a>(files: &[(&'a str, &[u8])], path: &str) -> Option<&'a str> {
    let wanted = if is_page(path) { INDEX } else { path };
    files.iter().map(|(name, _)| name.strip_suffix(PACKED).unwrap_or(name)).find(|name| *name == wanted)
}

/// Files of the build have an extension; names of volumes and hosts may contain dots, too.
fn is_page(path: &str) -> bool {
    !path.starts_with("/assets/") && !TYPES.iter().any(|(end, _)| path.ends_with(end)) || path == INDEX
}

/// The document of the pages, with a fresh nonce.
fn document(files: &[(&str, &[u8])], nonce: &str) -> Response {
    let bytes = files.iter().find(|(name, _)| *name == INDEX).map_or(&[][..], |(_, bytes)| bytes);
    let text = String::from_utf8_lossy(bytes).replace(NONCE, nonce);
    response(INDEX, text.into(), &POLICY.replace(NONCE, nonce))
}

fn file(files: &'static [(&str, &[u8])], name: &str, gzip: bool) -> Response {
    let find = |name: &str| files.iter().find(|(other, _)| *other == name).map(|(_, bytes)| *bytes);
    let packed = find(&format!("{name}{PACKED}"));
    let bytes = match packed {
        Some(packed) if !gzip => match unpack(packed) {
            Ok(bytes) => bytes.into(),
            Err(error) => {
                return Problem::internal(format!("{name} can't be unpacked: {error}")).into_response();
            }
        },
        packed => Bytes::from_static(packed.or_else(|| find(name)).unwrap_or_default()),
    };
    let policy = if name == WORKER { WORKER_POLICY } else { FILE_POLICY };
    let mut response = response(name, bytes, policy);
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if packed.is_some() && gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).map(|_| bytes)
}

fn response(name: &str, bytes: Bytes, policy: &str) -> Response {
    let kind =
        TYPES.iter().find(|(end, _)| name.ends_with(end)).map_or("application/octet-stream", |row| row.1);
    let cache = if name.starts_with("/assets/") { FOR_EVER } else { "no-cache" };
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, cache),
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (headers, bytes).into_response()
}

#[cfg(test)]
#[path = "gui_test.rs"]
mod tests;
