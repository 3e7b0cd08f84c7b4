//! Connections to other arrays: TLS 1.3, with the certificates of both ends, over TCP.
//!
//! Certificates are self-signed. TLS proves that each end has the key of the one that it shows; whether that is an array which
//! this one is paired with is decided by the array, by the certificate's fingerprint.

use anyhow::{Context, Result, anyhow};
use array::{Array, Link, LinkIdentity, Network, Secret};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, ConnectionCommon, DigitallySignedStruct, DistinguishedName as Name, Error, ServerConfig,
    SignatureScheme,
};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The protocol in the handshake (RFC 7301): no other TLS client or server is taken for an array.
const PROTOCOL: &[u8] = b"ashlar-link";
/// Connections of other arrays at a time.
const MAX_CONNECTIONS: usize = 64;
/// Time in which a handshake has to be done.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after no connection could be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
const EXPORTER_LABEL: &[u8] = b"EXPORTER-ashlar-link";

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

    /// Serves connections of other arrays, and examines the links to them, for ever.
    pub async fn run(self: Arc<Self>, array: Arc<Array>) {
        let watch = array.watch_links();
        let listen = |listener: &std::net::TcpListener| TcpListener::from_std(listener.try_clone()?);
        match self.listener.as_ref().map(|(listener, _)| listen(listener)) {
            None => watch.await,
            Some(Ok(listener)) => drop(tokio::join!(watch, serve(array.clone(), listener))),
            Some(Err(error)) => crate::fatal::stop(&format!("other arrays can't be listened for: {error}")),
        }
    }
}

impl Network for Tcp {
    fn port(&self) -> Option<u16> {
        self.address().map(|address| address.port())
    }

    fn new_identity(&self, serial: &str) -> Result<LinkIdentity, String> {
        let made = || {
            let mut params = CertificateParams::new(vec![format!("{serial}.ashlar.invalid")])?;
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, format!("Ashlar {serial}"));
            let key = KeyPair::generate()?;
            let certificate = params.self_signed(&key)?.pem();
            Ok(LinkIdentity { certificate, key: Secret::new(key.serialize_pem()) })
        };
        made().map_err(|error: rcgen::Error| error.to_string())
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
    let (chain, key) = parse(own)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Possession(provider)))
        .with_client_auth_cert(chain, key)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let peer = stream.peer_addr()?;
    let name = ServerName::try_from("array.ashlar.invalid").context("a valid name")?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let (certificate, exporter) = facts(stream.get_ref().1)?;
    Ok(Link { stream: Box::new(stream), certificate, exporter, address: peer.ip() })
}

/// The certificate of the other end, and what only both ends of the session can derive.
fn facts<Side>(session: &ConnectionCommon<Side>) -> Result<(Vec<u8>, [u8; 32])> {
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let certificate = certificate.context("it has shown no certificate")?.as_ref().to_vec();
    let exporter = session.export_keying_material([0; 32], EXPORTER_LABEL, None)?;
    Ok((certificate, exporter))
}

fn parse(own: &LinkIdentity) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(own.key.expose().as_bytes());
    let wrong = "the key of this array for other arrays can't be read";
    Ok((vec![certificate.context(wrong)?], key.context(wrong)?))
}

/// Serves connections of other arrays, for ever. Until this array has a key for them, they are closed.
async fn serve(array: Arc<Array>, listener: TcpListener) {
    let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let permit = free.clone().acquire_owned().await.expect("it is not closed");
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection of another array could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let array = array.clone();
        tokio::spawn(async move {
            let accepting = timeout(HANDSHAKE_TIMEOUT, accept(&array, stream, address));
            match accepting.await.unwrap_or_else(|_| Err(anyhow!("the handshake took too long"))) {
                Ok(link) => array.answer(link).await,
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::info!(%address, error, "a connection for other arrays was closed");
                }
            }
            drop(permit);
        });
    }
}

async fn accept(array: &Array, stream: TcpStream, address: SocketAddr) -> Result<Link> {
    let own = array.link_identity()?.context("this array is not paired, and has no pairing key")?;
    let (chain, key) = parse(&own)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(Possession(provider)))
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.send_tls13_tickets = 0;
    stream.set_nodelay(true)?;
    let stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
    let session = stream.get_ref().1;
    anyhow::ensure!(session.alpn_protocol() == Some(PROTOCOL), "it is no array");
    let (certificate, exporter) = facts(session)?;
    Ok(Link { stream: Box::new(stream), certificate, exporter, address: address.ip() })
}

/// Accepts every certificate of which the other end proves to have the key.
#[derive(Debug)]
struct Possession(Arc<CryptoProvider>);

impl Possession {
    fn verify(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }
}

/// TLS 1.2 is not offered.
fn too_old() -> Error {
    Error::General("only TLS 1.3 is spoken between arrays".into())
}

impl ServerCertVerifier for Possession {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Possession {
    fn root_hint_subjects(&self) -> &[Name] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
