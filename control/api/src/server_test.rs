#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use axum::http::StatusCode;
use axum::routing::{get, post};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// A connection to a server that refuses every POST before it reads its body; the number of refused ones is counted.
struct Client {
    stream: DuplexStream,
    refused: Arc<AtomicU32>,
    _end: watch::Sender<bool>,
}

impl Client {
    fn connect() -> Self {
        let refused = Arc::new(AtomicU32::new(0));
        let counter = refused.clone();
        let refuse = move || async move {
            counter.fetch_add(1, Ordering::Relaxed);
            StatusCode::UNAUTHORIZED
        };
        let router = Router::new().route("/refused", post(refuse)).route("/", get(|| async { "here" }));
        let (sender, end) = watch::channel(false);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let peer = Peer { address, reached: address.ip(), encrypted: false, token: None };
        let admitted = Arc::new(Admission::new(connection_limits(1)).admit(address.ip()).unwrap());
        let (stream, other) = tokio::io::duplex(1 << 20);
        tokio::spawn(async move {
            serve_http(&router, (end, Arc::default()), Box::new(other), peer, admitted).await
        });
        Self { stream, refused, _end: sender }
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    async fn refused(&self, times: u32) {
        while self.refused.load(Ordering::Relaxed) < times {
            tokio::task::yield_now().await;
        }
    }

    /// The head of the next response.
    async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    async fn is_closed(&mut self) -> bool {
        self.stream.read_u8().await.is_err()
    }
}

#[tokio::test]
async fn a_body_that_comes_after_the_refusal_does_not_cost_the_connection() {
    let mut client = Client::connect();
    client.send("POST /refused HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n").await;
    client.refused(1).await;
    client.send("{}").await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 401") && !head.contains("close"), "{head}");
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(client.head().await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_connection_whose_body_is_late_or_large_is_closed_and_the_response_says_so() {
    let late = "content-length: 2\r\n\r\n{";
    let large = "content-length: 100000\r\n\r\n{}";
    let chunks = format!("transfer-encoding: chunked\r\n\r\n8000\r\n{:32768}\r\n", "");
    let asks = "content-length: 2\r\nexpect: 100-continue\r\n\r\n";
    for body in [late, large, &chunks, asks] {
        let mut client = Client::connect();
        client.send(&format!("POST /refused HTTP/1.1\r\nhost: a\r\n{body}")).await;
        let head = client.head().await;
        assert!(head.starts_with("HTTP/1.1 401") && head.contains("connection: close"), "{head}");
        assert!(client.is_closed().await, "{}", &body[..20]);
    }
}
