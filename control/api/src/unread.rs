//! Bodies of requests that were answered before they were read, such as that of a request without credentials.
//!
//! HTTP/1.1 keeps the connection only if the body was read to its end (RFC 9112, 9.3). A client whose body arrives after
//! the response would otherwise send its next request on a connection that is being closed, and see it fail. So the rest of
//! a small body is read and dropped; after a large or late one the response says that the connection is closed.

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::EXPECT;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum size of what is read and dropped, in bytes.
const MAX_DROPPED_BYTES: usize = 16 << 10;
/// Time-out of the rest of a body that is not used.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a request; it is given back if it is dropped before its end.
pub struct Received {
    body: Option<Incoming>,
    back: Option<oneshot::Sender<Incoming>>,
}

/// What is left of the body of a request after its response.
pub struct Rest {
    back: oneshot::Receiver<Incoming>,
    /// The client sends the body only when it is asked for it.
    waits: bool,
}

/// Follows the body of a request.
pub fn follow(request: Request<Incoming>) -> (Request<Received>, Rest) {
    let waits = request.headers().contains_key(EXPECT);
    let (sender, back) = oneshot::channel();
    let request = request.map(|body| Received { body: Some(body), back: Some(sender) });
    (request, Rest { back, waits })
}

impl Rest {
    /// Reads the rest of the body if it is small and arrives soon; whether the connection can be used for another request.
    pub async fn dropped(mut self) -> bool {
        // Without a body the request was read to its end, or its handler still reads.
        let Ok(mut body) = self.back.try_recv() else { return true };
        if self.waits || body.size_hint().lower() > MAX_DROPPED_BYTES as u64 {
            return false;
        }
        let read = async {
            let mut bytes = 0;
            while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                let Ok(frame) = frame else { return false };
                bytes += frame.data_ref().map_or(0, Bytes::len);
                if bytes > MAX_DROPPED_BYTES {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(TIMEOUT, read).await.unwrap_or(false)
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let unread = self.body.take().filter(|body| !body.is_end_stream());
        if let (Some(body), Some(back)) = (unread, self.back.take()) {
            let _ = back.send(body);
        }
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
        let frame = std::task::ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}
