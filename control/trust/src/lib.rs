//! Which servers elsewhere are trusted: those that a certificate vouches for which somebody gave, or which the system
//! trusts. Clients of TLS and HTTP that hold to it.

pub mod mark;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Where Debian, SUSE and Arch keep what the system trusts, and where Fedora does.
const SYSTEM: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Why nobody can be trusted, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// The answer of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Refuses PEM that holds no certificate.
///
/// # Errors
/// What is wrong with it.
pub fn check(pem: Option<&str>) -> Result<()> {
    pem.map_or(Ok(()), |pem| parse(pem.as_bytes()).map(drop))
}

/// The certificates in PEM, or those that the system trusts.
///
/// # Errors
/// When there is none.
pub fn roots(pem: Option<&str>) -> Result<Vec<CertificateDer<'static>>> {
    match pem {
        Some(pem) => parse(pem.as_bytes()),
        None => {
            let system = SYSTEM.iter().find_map(|path| std::fs::read(path).ok());
            let system = system.ok_or_else(|| {
                Error("this system has no list of certificates that it trusts: give one (PEM)".into())
            })?;
            parse(&system)
        }
    }
}

fn parse(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Error("there is no certificate in the PEM text".into())),
        Err(error) => Err(Error(format!("the certificate can't be read: {error}"))),
    }
}

/// TLS that trusts these.
///
/// # Errors
/// When the cryptography does not offer what TLS needs.
pub fn config(roots: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| Error(format!("TLS can't be used: {error}")))?;
    Ok(Arc::new(config.with_root_certificates(store).with_no_client_auth()))
}

/// HTTP that goes where it is told and nowhere else: no proxy, no redirection. `tls`: certificates are needed; `ca`:
/// those to trust in PEM; `patience`: for a request with its answer.
///
/// # Errors
/// As [`roots`].
pub fn agent(tls: bool, ca: Option<&str>, patience: Duration) -> Result<ureq::Agent> {
    let mut config = ureq::Agent::config_builder();
    if tls {
        let roots = roots(ca)?.into_iter().map(|it| Certificate::from_der(it.as_ref()).to_owned());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots.collect())));
        config = config.tls_config(tls.unversioned_rustls_crypto_provider(provider).build());
    }
    let config =
        config.http_status_as_error(false).proxy(None).max_redirects(0).timeout_global(Some(patience));
    Ok(config.build().into())
}
