//! TLS on every address. On a loopback address plain HTTP is accepted at the same port, as it does not leave the machine;
//! the first byte shows which it is.

use crate::auth::Token;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::TlsAcceptor;

/// First byte of a TLS handshake (RFC 8446 5.1).
const HANDSHAKE: u8 = 22;

const ONLY_TLS: &[u8] =
    b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.2\r\nConnection: Upgrade, close\r\n\
    Content-Type: text/plain\r\nContent-Length: 39\r\n\r\nThis port speaks HTTPS: use https://.\r\n";

const UNUSABLE_KEY: &str = "TLS can't use this kind of key: give an RSA key of 2048 to 8192 bits, one of the elliptic curves P-256, P-384 \
                            or P-521, or an Ed25519 key, and the certificate that was requested with it";

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

/// Checks a certificate chain that is to be used, and its key, both in PEM: the key belongs to the first certificate, each was issued
/// by the next one, and all are valid now. The one in use may have expired: it is better than none.
///
/// # Errors
/// What is wrong with them.
pub fn check_certificate(chain: &str, key: &str) -> Result<(), String> {
    let read = trust::certificates(chain).map_err(|error| error.to_string())?;
    let key = trust::private_key(key).map_err(|error| error.to_string())?;
    aws_lc_rs::sign::any_supported_type(&key).map_err(|_| UNUSABLE_KEY)?;
    let signs =
        |certificate: &CertificateDer<'_>| signing(vec![certificate.clone().into_owned()], &key).is_ok();
    // Without it the key could not be said to be of another certificate.
    signing(read.clone(), &key).or_else(|error| {
        trust::check_key(&read, signs).map_err(|wrong| wrong.to_string())?;
        Err(error)
    })?;
    trust::check_chain(&read, trust::Purpose::Server).map_err(|error| error.to_string())
}

fn signing(chain: Vec<CertificateDer<'static>>, key: &PrivateKeyDer<'_>) -> Result<CertifiedKey, String> {
    CertifiedKey::from_der(chain, key.clone_key(), &aws_lc_rs::default_provider())
        .map_err(|error| format!("the certificate and the key can't be used together: {error}"))
}

fn certified(chain: &str, key: &str) -> Result<CertifiedKey, String> {
    let chain = trust::certificates(chain).map_err(|error| error.to_string())?;
    signing(chain, &trust::private_key(key).map_err(|error| error.to_string())?)
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

    /// Takes another certificate for new connections, unless it is the one in use. `publish` is called before that, if the
    /// certificate is good, while no connection is given one: a client that meets the new certificate finds it published.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn replace(&self, chain: &str, key: &str, publish: impl FnOnce()) -> Result<(), String> {
        let new = certified(chain, key)?;
        let mut current = self.certificate.0.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if current.cert != new.cert {
            publish();
            *current = Arc::new(new);
        }
        Ok(())
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The address of the array that it reached.
    pub reached: IpAddr,
    /// Whether the connection is encrypted.
    pub encrypted: bool,
    /// Of a connection that another controller passes on: the token of that one's data folder.
    pub token: Option<Token>,
}

/// A connection, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Tls {
    /// Detects the protocol and performs the TLS handshake; `None` if nothing is sent, or for plain HTTP unless `plain`
    /// allows it.
    pub(crate) async fn greet(
        &self,
        mut stream: Box<dyn Stream>,
        peer: Peer,
        plain: bool,
    ) -> io::Result<Option<(Box<dyn Stream>, Peer)>> {
        let mut first = [0];
        if stream.read(&mut first).await? == 0 {
            return Ok(None);
        }
        let encrypted = first == [HANDSHAKE];
        let mut stream = Begun { first: Some(first[0]), stream };
        let peer = Peer { encrypted, ..peer };
        if encrypted {
            let acceptor = TlsAcceptor::from(self.config.clone());
            return Ok(Some((Box::new(acceptor.accept(stream).await?), peer)));
        }
        if plain {
            return Ok(Some((Box::new(stream), peer)));
        }
        stream.write_all(ONLY_TLS).await?;
        stream.shutdown().await?;
        Ok(None)
    }
}

/// A connection whose first byte was read.
struct Begun {
    first: Option<u8>,
    stream: Box<dyn Stream>,
}

impl AsyncRead for Begun {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if into.remaining() > 0
            && let Some(first) = self.first.take()
        {
            into.put_slice(&[first]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Begun {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
