//! Which certificates are trusted: those that somebody gave, or those that the system trusts.

use crate::{Error, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// Where Debian, SUSE and Arch keep what the system trusts, and where Fedora does.
const SYSTEM: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Refuses what holds no certificate.
pub fn check(pem: Option<&str>) -> Result<()> {
    pem.map_or(Ok(()), |pem| parse(pem.as_bytes()).map(drop))
}

/// The certificates in PEM, or those that the system trusts.
pub fn roots(pem: Option<&str>) -> Result<Vec<CertificateDer<'static>>> {
    match pem {
        Some(pem) => parse(pem.as_bytes()),
        None => {
            let system = SYSTEM.iter().find_map(|path| std::fs::read(path).ok());
            let system = system.ok_or_else(|| {
                Error::new("this system has no list of certificates that it trusts: give one (PEM)")
            })?;
            parse(&system)
        }
    }
}

fn parse(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Error::new("there is no certificate in the PEM text")),
        Err(error) => Err(Error::new(format!("the certificate can't be read: {error}"))),
    }
}

/// TLS that trusts these.
pub fn config(roots: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| Error::new(format!("TLS can't be used: {error}")))?;
    Ok(Arc::new(config.with_root_certificates(store).with_no_client_auth()))
}
