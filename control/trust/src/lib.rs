//! TLS and HTTP clients for servers that an operator configures: directories, webhooks, mail servers. A server is trusted by a
//! certificate that the operator gave, or by the system's trust store.

mod chain;

pub use chain::{Purpose, certificates, check_chain, check_key, private_key};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The system's trust store on Debian, SUSE and Arch, and on Fedora.
const SYSTEM_CERTIFICATES: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Why no certificate can be used, as text for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Checks that PEM text holds certificates of authorities, one of them valid now.
///
/// # Errors
/// The problem with it.
pub fn check(pem: Option<&str>) -> Result<()> {
    pem.map_or(Ok(()), |pem| chain::check_authorities(&parse(pem.as_bytes())?))
}

/// The certificates in PEM, or those of the system's trust store.
///
/// # Errors
/// If there is none.
pub fn roots(pem: Option<&str>) -> Result<Vec<CertificateDer<'static>>> {
    match pem {
        Some(pem) => parse(pem.as_bytes()),
        None => {
            let system = SYSTEM_CERTIFICATES.iter().find_map(|path| std::fs::read(path).ok());
            let system = system
                .ok_or_else(|| Error("this system has no trust store: give a CA certificate (PEM)".into()))?;
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

/// A TLS client configuration with these roots.
///
/// # Errors
/// If the cryptography library does not support TLS.
pub fn config(roots: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| Error(format!("TLS can't be used: {error}")))?;
    Ok(Arc::new(config.with_root_certificates(store).with_no_client_auth()))
}

/// An HTTP client without proxy and redirects, so that requests go only to the given address. `tls`: load certificates;
/// `ca`: those to trust, in PEM; `timeout`: of a request with its response.
///
/// # Errors
/// As [`roots`].
pub fn agent(tls: bool, ca: Option<&str>, timeout: Duration) -> Result<ureq::Agent> {
    let mut config = ureq::Agent::config_builder();
    if tls {
        let roots = roots(ca)?.into_iter().map(|it| Certificate::from_der(it.as_ref()).to_owned());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots.collect())));
        config = config.tls_config(tls.unversioned_rustls_crypto_provider(provider).build());
    }
    let config =
        config.http_status_as_error(false).proxy(None).max_redirects(0).timeout_global(Some(timeout));
    Ok(config.build().into())
}
