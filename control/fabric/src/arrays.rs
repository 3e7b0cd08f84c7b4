//! Connections to other arrays: TLS 1.3, with the certificates of both ends, over TCP.
//!
//! Whether the other end is an array which this one is paired with is decided by the array, by the certificate's fingerprint.

use crate::admission::{self, Door, authenticate};
use crate::mutual_tls::{self, Protocol, Session};
use anyhow::{Context, Result, anyhow};
use array::{Array, Link, LinkIdentity, Network};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use transport::Admitted;

/// No other TLS client or server is taken for an array.
const PROTOCOL: Protocol = Protocol { name: b"ashlar-link", exporter_label: b"EXPORTER-ashlar-link" };
/// Time in which a handshake has to be done.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The network, as the array uses it.
pub struct Tcp {
    listener: Option<(std::net::TcpListener, SocketAddr)>,
}

impl Tcp {
    /// The network of an array that listens for others at this address, or not at all.
    ///
    /// # Errors
    /// If the address can't be listened on.
    pub fn listen(address: Option<SocketAddr>) -> Result<Self> {
        let Some(address) = address else { return Ok(Self { listener: None }) };
        let listener = std::net::TcpListener::bind(address)
            .with_context(|| format!("can't listen for other arrays on {address}"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener: Some((listener, address)) })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(|(_, address)| *address)
    }

    /// Serves connections of other arrays, and examines the links to them, forever.
    pub async fn run(self: Arc<Self>, array: Arc<Array>) {
        let watch = array.watch_links();
        let listen = |listener: &std::net::TcpListener| TcpListener::from_std(listener.try_clone()?);
        match self.listener.as_ref().map(|(listener, _)| listen(listener)) {
            None => watch.await,
            Some(Ok(listener)) => drop(tokio::join!(watch, serve(array.clone(), listener))),
            Some(Err(error)) => machine::fatal::stop(&format!("other arrays can't be listened for: {error}")),
        }
    }
}

impl Network for Tcp {
    fn port(&self) -> Option<u16> {
        self.address().map(|address| address.port())
    }

    fn new_identity(&self, serial: &str) -> Result<LinkIdentity, String> {
        mutual_tls::new_identity(vec![format!("{serial}.ashlar.invalid")], &format!("Ashlar {serial}"))
            .map_err(|error| error.to_string())
    }

    fn connect(
        &self,
        address: String,
        own: LinkIdentity,
    ) -> Pin<Box<dyn Future<Output = Result<Link, String>> + Send>> {
        Box::pin(async move {
            let connecting = timeout(HANDSHAKE_TIMEOUT, connect(&address, &own));
            let connected = connecting.await.unwrap_or_else(|_| Err(anyhow!("it did not respond in time")));
            connected.map_err(|error| format!("no connection to {address}: {error:#}"))
        })
    }
}

async fn connect(address: &str, own: &LinkIdentity) -> Result<Link> {
    let session = mutual_tls::connect(address, own, PROTOCOL).await?;
    let peer = session.stream.get_ref().0.peer_addr()?;
    Ok(link(session, peer))
}

fn link(session: Session, peer: SocketAddr) -> Link {
    let Session { stream, certificate, exporter, .. } = session;
    Link { stream: Box::new(stream), certificate, exporter, address: peer.ip() }
}

/// Serves connections of other arrays, forever. Until this array has a key for them, they are closed.
async fn serve(array: Arc<Array>, listener: TcpListener) {
    admission::accept(listener, "another array", |arrival| {
        let (array, address) = (array.clone(), arrival.address);
        tokio::spawn(async move {
            let served =
                arrival.serve(async |stream, admitted| answer(&array, (stream, address), admitted).await);
            if let Err(why) = served.await {
                tracing::info!(%address, why = format!("{why:#}"), "a connection for other arrays was closed");
            }
        });
    })
    .await;
}

/// Answers another array. A connection with one that is paired gives way to none.
async fn answer(
    array: &Array,
    (stream, address): (TcpStream, SocketAddr),
    admitted: &Admitted,
) -> Result<()> {
    let own = array.link_identity()?.context("this array is not paired, and has no pairing key")?;
    let door = Door { own: &own, protocols: &[PROTOCOL], limit: HANDSHAKE_TIMEOUT };
    let paired = |session: &Session| {
        let fingerprint = mutual_tls::fingerprint(&session.certificate);
        Ok(array.is_paired_with(&fingerprint).then_some(()))
    };
    // One that is not paired may have the pairing key.
    let (session, _) = authenticate((stream, admitted), door, paired).await?;
    array.answer(link(session, address)).await;
    Ok(())
}
