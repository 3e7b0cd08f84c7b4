//! Listeners of links whose ends prove themselves by certificate: of other arrays, their witnesses among them, and of the
//! controllers of one array.
//!
//! TLS proves that the other end has a key; only its fingerprint shows whether it is known. Connections of known ends have
//! slots that no other connection can take, and those of unknown ones give way to new ones, the oldest first.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
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
    /// Serves it on the runtime that polls this, to its end or until it gives way to another one; `None` for that.
    pub async fn serve<T>(
        self,
        serve: impl AsyncFnOnce(TcpStream, &Admitted) -> T,
    ) -> Option<std::io::Result<T>> {
        let Self { stream, admitted, .. } = self;
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => return Some(Err(error)),
        };
        tokio::select! {
            served = serve(stream, &admitted) => Some(Ok(served)),
            () = admitted.gives_way() => None,
        }
    }
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
