use super::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion, version};

/// Shows a certificate and signs with a key, without a check that they belong together.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// A certificate as `openssl req -x509` makes it: an authority, for a name that is not the server's.
fn made(key: &KeyPair) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(vec!["array.example.com".into()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(key).unwrap().der().clone()
}

/// The client's verdict about a server that shows `certificate` and signs with `key`.
fn shake(
    known: &[CertificateDer<'static>],
    certificate: &CertificateDer<'static>,
    key: &KeyPair,
    version: &'static SupportedProtocolVersion,
) -> Result<(), Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let secret = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let signer = provider.key_provider.load_private_key(secret).unwrap();
    let shown = Shown(Arc::new(CertifiedKey::new(vec![certificate.clone()], signer)));
    let server = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let server = server.with_no_client_auth().with_cert_resolver(Arc::new(shown));
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    let client = Arc::new(client(known.to_vec()).unwrap());
    let mut client = ClientConnection::new(client, ServerName::try_from("127.0.0.1").unwrap()).unwrap();
    while client.is_handshaking() {
        let mut sent = Vec::new();
        client.write_tls(&mut sent).unwrap();
        server.read_tls(&mut &sent[..]).unwrap();
        server.process_new_packets().unwrap();
        let mut sent = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut sent).unwrap();
        }
        client.read_tls(&mut &sent[..]).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}

#[test]
fn a_known_certificate_is_trusted_whatever_it_states_and_with_its_key_alone() {
    let (key, stranger) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let (certificate, other) = (made(&key), made(&key));
    assert_ne!(certificate, other, "each has its own serial number");
    let known = [other.clone(), certificate.clone()];
    for version in [&version::TLS12, &version::TLS13] {
        shake(&known, &certificate, &key, version).unwrap();
        shake(&known, &other, &key, version).unwrap();
        let unknown = shake(&known[..1], &certificate, &key, version);
        assert_eq!(unknown, Err(CertificateError::UnknownIssuer.into()), "not the bytes that are known");
        let copied = shake(&known, &certificate, &stranger, version);
        assert_eq!(copied, Err(CertificateError::BadSignature.into()), "a copy without the key");
    }
}
