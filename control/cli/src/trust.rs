//! Trusted certificates: the array's own, or those of the system.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::sync::Arc;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Certificate bundles of the system: Debian, SUSE and Arch, and Fedora.
const SYSTEM: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Trusts the certificates in a file, or those of the system without one.
pub fn config(file: Option<&Path>) -> Result<TlsConfig> {
    let roots = match file {
        Some(path) => {
            let found = read(path)?;
            ensure!(!found.is_empty(), "there is no certificate in {}", path.display());
            found
        }
        None => SYSTEM.iter().find_map(|path| read(Path::new(path)).ok()).unwrap_or_default(),
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots)));
    Ok(config.unversioned_rustls_crypto_provider(provider).build())
}

fn read(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let text = std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    let mut found = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) =
            item.with_context(|| format!("{} is damaged", path.display()))?
        {
            found.push(certificate.to_owned());
        }
    }
    Ok(found)
}
