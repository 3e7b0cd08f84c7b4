//! TLS 1.3 between two ends that show each other self-signed certificates: between arrays, and between the controllers of one.
//!
//! TLS proves that each end has the key of the certificate that it shows. Whether that certificate is accepted is decided by
//! the caller, by its fingerprint.

use anyhow::{Context, Result, ensure};
use array::hex::hex;
use array::{LinkIdentity, Secret};
use aws_lc_rs::digest;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, ConnectionCommon, DigitallySignedStruct, DistinguishedName as Name, Error, ServerConfig,
    SignatureScheme,
};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// What both ends know of a session.
pub struct Session {
    /// Its bytes.
    pub stream: TlsStream<TcpStream>,
    /// The certificate in DER of which the other end has proven to have the key.
    pub certificate: Vec<u8>,
    /// What only both ends of this session can derive (RFC 8446 7.5).
    pub exporter: [u8; 32],
    /// The protocol that both ends speak.
    pub protocol: &'static [u8],
}

/// A protocol over it: its name in the handshake (RFC 7301), and the label by which secrets are derived of its sessions.
#[derive(Clone, Copy)]
pub struct Protocol {
    /// No other TLS client or server is taken for one of this protocol.
    pub name: &'static [u8],
    /// The label (RFC 5705).
    pub exporter_label: &'static [u8],
}

/// A new key and a certificate for it, of these hosts.
///
/// # Errors
/// If none can be made.
pub fn new_identity(hosts: Vec<String>, name: &str) -> Result<LinkIdentity> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.pem();
    Ok(LinkIdentity { certificate, key: Secret::new(key.serialize_pem()) })
}

/// SHA-256 of a certificate in DER, in hex digits.
pub fn fingerprint(certificate: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, certificate).as_ref())
}

/// The certificate, in DER, and the key of an identity.
///
/// # Errors
/// If they are damaged.
pub fn parse(own: &LinkIdentity) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(own.key.expose().as_bytes());
    let wrong = "the key of this end for its links can't be read";
    Ok((certificate.context(wrong)?, key.context(wrong)?))
}

/// Connects to an address, host and port.
///
/// # Errors
/// Why there is no session.
pub async fn connect(address: &str, own: &LinkIdentity, protocol: Protocol) -> Result<Session> {
    let stream = TcpStream::connect(address).await?;
    let (certificate, key) = parse(own)?;
    let provider = Arc::new(provider::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Possession(provider)))
        .with_client_auth_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![protocol.name.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("peer.ashlar.invalid").context("a valid name")?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let (certificate, exporter) = facts(stream.get_ref().1, protocol)?;
    Ok(Session { stream: stream.into(), certificate, exporter, protocol: protocol.name })
}

/// The session of the end that was connected to.
///
/// # Errors
/// Why there is none.
pub async fn accept(stream: TcpStream, own: &LinkIdentity, protocols: &[Protocol]) -> Result<Session> {
    let (certificate, key) = parse(own)?;
    let provider = Arc::new(provider::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(Possession(provider)))
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.name.to_vec()).collect();
    config.send_tls13_tickets = 0;
    stream.set_nodelay(true)?;
    let stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
    let spoken = stream.get_ref().1.alpn_protocol();
    let protocol = protocols.iter().find(|protocol| spoken == Some(protocol.name));
    let protocol = *protocol.context("it speaks another protocol")?;
    let (certificate, exporter) = facts(stream.get_ref().1, protocol)?;
    Ok(Session { stream: stream.into(), certificate, exporter, protocol: protocol.name })
}

/// The certificate of the other end, and what only both ends of the session can derive.
fn facts<Side>(session: &ConnectionCommon<Side>, protocol: Protocol) -> Result<(Vec<u8>, [u8; 32])> {
    ensure!(session.alpn_protocol() == Some(protocol.name), "it speaks another protocol");
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let certificate = certificate.context("it has shown no certificate")?.as_ref().to_vec();
    let exporter = session.export_keying_material([0; 32], protocol.exporter_label, None)?;
    Ok((certificate, exporter))
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
    Error::General("only TLS 1.3 is spoken on links".into())
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
