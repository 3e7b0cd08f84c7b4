//! Listeners of links whose ends prove themselves by certificate: of other arrays, their witnesses among them, and of the
//! controllers of one array.
//!
//! TLS proves that the other end has a key; only its fingerprint shows whether it is known, which is found before anything that it
//! says is decoded. Connections of known ends have slots that no other connection can take, and those of unknown ones give
//! way to new ones, the oldest first.

use crate::mutual_tls::{self, Protocol, Session};
use anyhow::{Context, Result, bail};
use array::LinkIdentity;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use transport::{Admission, Admitted, ConnectionLimits};

/// Connections of a link at a time: 64 of known ends, 48 of one of them, and 32 of ends that are not known yet, 16 of them
/// from one address.
pub const LIMITS: ConnectionLimits = ConnectionLimits {
    total: 96,
    unauthenticated: 32,
    unauthenticated_per_address: 16,
    authenticated: 64,
    authenticated_per_identity: 48,
};
/// Pause after no connection could be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Pause while too many connections that gave way are still open.
const CROWDED_PAUSE: Duration = Duration::from_millis(5);

/// A connection that was accepted. It belongs to no runtime yet.
pub struct Arrival {
    stream: std::net::TcpStream,
    /// Where it comes from.
    pub address: SocketAddr,
    admitted: Admitted,
}

impl Arrival {
    /// Serves it on the runtime that polls this, to its end or until it gives way to another one.
    ///
    /// # Errors
    /// Why it was closed.
    pub async fn serve(self, serve: impl AsyncFnOnce(TcpStream, &Admitted) -> Result<()>) -> Result<()> {
        let Self { stream, admitted, .. } = self;
        let stream = TcpStream::from_std(stream)?;
        tokio::select! {
            served = serve(stream, &admitted) => served,
            () = admitted.gives_way() => {
                bail!("it gave way to another one, as it had not shown a known certificate")
            }
        }
    }
}

/// What an end that listens shows, what it speaks, and the time in which a handshake has to be done.
pub struct Door<'a> {
    /// By what others know it.
    pub own: &'a LinkIdentity,
    /// The protocols.
    pub protocols: &'a [Protocol],
    /// The time.
    pub limit: Duration,
}

/// The session of an end that has connected, and who it is by its certificate, as `who` finds: `None` for one that is not known and
/// proves itself by a secret. Nothing that it says was decoded.
///
/// # Errors
/// Why there is no session, or the reason of `who`.
pub async fn authenticate<W>(
    (stream, admitted): (TcpStream, &Admitted),
    Door { own, protocols, limit }: Door<'_>,
    who: impl FnOnce(&Session) -> Result<Option<W>>,
) -> Result<(Session, Option<W>)> {
    let accepting = timeout(limit, mutual_tls::accept(stream, own, protocols));
    let session = accepting.await.context("the handshake took too long")??;
    let known = who(&session)?;
    if known.is_some() {
        // One with more connections than its share is served, and may have to give way.
        let _has_slot = admitted.prove(&mutual_tls::fingerprint(&session.certificate));
    }
    Ok((session, known))
}

/// Accepts connections and gives them to `start`, forever. `what`: whose they are, for the log.
pub async fn accept(listener: TcpListener, what: &str, mut start: impl FnMut(Arrival)) {
    let admission = Admission::new(LIMITS);
    loop {
        while admission.is_crowded() {
            tokio::time::sleep(CROWDED_PAUSE).await;
        }
        let accepted = match listener.accept().await {
            Ok((stream, address)) => stream.into_std().map(|stream| (stream, address)),
            Err(error) => Err(error),
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection of {what} could not be accepted");
                // Probably too many open files.
                admission.evict();
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match admission.admit(address.ip()) {
            Some(admitted) => start(Arrival { stream, address, admitted }),
            None => tracing::warn!(%address, "too many connections of {what}"),
        }
    }
}

#[cfg(test)]
#[path = "admission_test.rs"]
mod tests;
