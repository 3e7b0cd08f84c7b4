//! Security headers of all responses.

use crate::tls::Peer;
use axum::extract::{ConnectInfo, Request};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS};
use axum::middleware::Next;
use axum::response::Response;
use jiff::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

/// HTTP Strict Transport Security: browsers that connected over TLS use only TLS for a year.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// The field `Date` (RFC 9110 5.6.7); `None` with a clock that can't be right, as a server without a clock sends none (6.6.1).
pub fn date(now: SystemTime) -> Option<HeaderValue> {
    let since = now.duration_since(UNIX_EPOCH).ok()?;
    let time = Timestamp::from_second(i64::try_from(since.as_secs()).ok()?).ok()?;
    HeaderValue::from_str(&time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()).ok()
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_date_is_that_of_the_clock_and_left_out_before_1970() {
        // The example of RFC 9110 5.6.7.
        let time = UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(date(time).unwrap(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date(UNIX_EPOCH).unwrap(), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(UNIX_EPOCH - Duration::from_secs(1)), None);
        assert_eq!(date(UNIX_EPOCH + Duration::from_secs(1 << 60)), None);
    }
}
