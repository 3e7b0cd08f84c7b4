//! Connections to other arrays that a test cuts, freezes and listens in on.

use array::{Array, Link, LinkIdentity, Network, Secret};
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// Connections to other arrays of a test.
#[derive(Default)]
pub struct Cables {
    /// The port of this array, if it listens.
    pub port: Mutex<Option<u16>>,
    /// Other arrays by their address.
    pub others: Mutex<BTreeMap<String, Arc<Array>>>,
    /// Whether both ends of a connection are in different TLS sessions: a machine is between them.
    pub intercepted: Mutex<bool>,
    /// Whether no array responds.
    pub silent: Mutex<bool>,
    /// Whether nothing comes from other arrays by the connections that there are.
    pub frozen: Arc<AtomicBool>,
    /// Notified when one that does not respond is asked.
    pub asked: tokio::sync::Notify,
    /// How many that do not respond are waited for.
    pub waiting: Arc<AtomicUsize>,
    /// What serves the other ends of connections.
    served: Mutex<Vec<tokio::task::AbortHandle>>,
}

impl Cables {
    /// Ends all connections, and lets none be made. Returns what [`Cables::plug`] makes possible again.
    pub fn cut(&self) -> BTreeMap<String, Arc<Array>> {
        let others = std::mem::take(&mut *self.others.lock().unwrap());
        self.served.lock().unwrap().drain(..).for_each(|served| served.abort());
        others
    }

    /// Lets connections be made again.
    pub fn plug(&self, others: BTreeMap<String, Arc<Array>>) {
        *self.others.lock().unwrap() = others;
    }
}

/// An end of a connection that gets nothing while its network is frozen.
struct Freezing(DuplexStream, Arc<AtomicBool>);

impl AsyncRead for Freezing {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context, into: &mut ReadBuf) -> Poll<io::Result<()>> {
        match self.1.load(Ordering::SeqCst) {
            true => Poll::Pending,
            false => Pin::new(&mut self.0).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Freezing {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A connection that is not made.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Network for Cables {
    fn port(&self) -> Option<u16> {
        *self.port.lock().unwrap()
    }

    fn new_identity(&self, serial: &str) -> Result<LinkIdentity, String> {
        Ok(LinkIdentity { certificate: format!("certificate of {serial}"), key: Secret::new("a secret key") })
    }

    fn connect(
        &self,
        address: String,
        own: LinkIdentity,
    ) -> Pin<Box<dyn Future<Output = Result<Link, String>> + Send>> {
        if *self.silent.lock().unwrap() {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let waiting = Waiting(self.waiting.clone());
            self.asked.notify_one();
            return Box::pin(async move {
                let _waiting = waiting;
                std::future::pending().await
            });
        }
        let other = self.others.lock().unwrap().get(&address).cloned();
        let intercepted = *self.intercepted.lock().unwrap();
        let Some(other) = other else { return Box::pin(async { Err("connection refused".to_owned()) }) };
        let (one, another) = tokio::io::duplex(4096);
        let frozen = self.frozen.clone();
        let (there, awaited) = tokio::sync::oneshot::channel();
        let answering = other.clone();
        let served = tokio::spawn(async move {
            if let Ok(there) = awaited.await {
                answering.answer(there).await;
            }
        });
        self.served.lock().unwrap().push(served.abort_handle());
        Box::pin(async move {
            let theirs = other.link_identity().unwrap().ok_or("it has no key")?;
            let link = |stream, identity: LinkIdentity, exporter| Link {
                stream,
                certificate: identity.certificate.into_bytes(),
                exporter: [exporter; 32],
                address: Ipv4Addr::new(192, 0, 2, 9).into(),
            };
            let here = link(Box::new(Freezing(one, frozen)) as Box<dyn array::Duplex>, theirs, 1);
            let other_end = link(Box::new(another), own, 1 + u8::from(intercepted));
            there.send(other_end).map_err(|_| "the connection was cut")?;
            Ok(here)
        })
    }
}
