//! The door: TLS on every address. On a loopback address plain HTTP is answered at the same port too, as nobody else
//! can hear it there; the first byte tells which it is.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;

/// How long somebody may take to say the first word and to agree on keys.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that may be at that at once.
const GREETINGS: usize = 256;
/// How long to wait when there are no sockets left.
const PAUSE: Duration = Duration::from_millis(100);
/// First byte of a TLS handshake (RFC 8446 5.1).
const HANDSHAKE: u8 = 22;

const ONLY_TLS: &[u8] =
    b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.2\r\nConnection: Upgrade, close\r\n\
    Content-Type: text/plain\r\nContent-Length: 39\r\n\r\nThis port speaks HTTPS: use https://.\r\n";

/// The certificate in use, and what follows from it.
#[derive(Clone)]
pub struct Tls {
    certificate: Arc<Current>,
    config: Arc<ServerConfig>,
}

#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone())
    }
}

/// A certificate chain and its key, both in PEM, when they are good and belong together.
///
/// # Errors
/// What is wrong with them.
pub fn check_certificate(chain: &str, key: &str) -> Result<(), String> {
    certified(chain, key).map(|_| ())
}

fn certified(chain: &str, key: &str) -> Result<CertifiedKey, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let chain = chain.map_err(|error| format!("the certificate is not PEM: {error}"))?;
    if chain.is_empty() {
        return Err(
            "there is no certificate: give PEM, the array's own first, then those that vouch for it".into()
        );
    }
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|error| format!("the key is not PEM: {error}"))?;
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
        .map_err(|error| format!("the certificate and the key can't be used together: {error}"))
}

impl Tls {
    /// With a certificate chain and its key in PEM.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(chain: &str, key: &str) -> Result<Self, String> {
        let certificate = Arc::new(Current(RwLock::new(Arc::new(certified(chain, key)?))));
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
        Ok(Self { certificate, config: Arc::new(config) })
    }

    /// Takes another certificate for new connections.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn replace(&self, chain: &str, key: &str) -> Result<(), String> {
        let new = Arc::new(certified(chain, key)?);
        *self.certificate.0.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = new;
        Ok(())
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether nobody else can hear.
    pub encrypted: bool,
}

/// A connection, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

type Guest = (Box<dyn Stream>, Peer);

/// Where connections come in.
pub struct Door {
    address: SocketAddr,
    guests: mpsc::Receiver<Guest>,
}

impl Door {
    /// Opens it. `plain`: whether plain HTTP is answered.
    ///
    /// # Errors
    /// When the listener has no address.
    pub fn open(listener: TcpListener, tls: &Tls, plain: bool) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (send, guests) = mpsc::channel(1);
        let acceptor = TlsAcceptor::from(tls.config.clone());
        tokio::spawn(receive(listener, acceptor, plain, send));
        Ok(Self { address, guests })
    }
}

/// Takes connections until nobody wants them.
async fn receive(listener: TcpListener, acceptor: TlsAcceptor, plain: bool, send: mpsc::Sender<Guest>) {
    let greetings = Arc::new(Semaphore::new(GREETINGS));
    loop {
        let Ok(place) = greetings.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = send.closed() => return,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (acceptor, send) = (acceptor.clone(), send.clone());
        tokio::spawn(async move {
            let greeted = tokio::time::timeout(PATIENCE, greet(stream, address, acceptor, plain)).await;
            drop(place);
            match greeted {
                Ok(Ok(Some(guest))) => drop(send.send(guest).await),
                Ok(Ok(None)) | Err(_) => {}
                Ok(Err(error)) => tracing::debug!(%address, %error, "a connection was not agreed on"),
            }
        });
    }
}

async fn greet(
    mut stream: TcpStream,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    plain: bool,
) -> io::Result<Option<Guest>> {
    stream.set_nodelay(true)?;
    let mut first = [0];
    let encrypted = match stream.peek(&mut first).await? {
        0 => return Ok(None),
        _ => first == [HANDSHAKE],
    };
    let peer = Peer { address, encrypted };
    if encrypted {
        return Ok(Some((Box::new(acceptor.accept(stream).await?), peer)));
    }
    if plain {
        return Ok(Some((Box::new(stream), peer)));
    }
    stream.write_all(ONLY_TLS).await?;
    stream.shutdown().await?;
    Ok(None)
}

impl Listener for Door {
    type Io = Box<dyn Stream>;
    type Addr = Peer;

    async fn accept(&mut self) -> Guest {
        match self.guests.recv().await {
            Some(guest) => guest,
            // Nobody comes any more.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer { address: self.address, encrypted: true })
    }
}

impl Connected<IncomingStream<'_, Door>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        *stream.remote_addr()
    }
}
