//! Trusted servers: the array whose certificate is in a file, those certified by authorities in a file, or by those of the system.

use crate::exact;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Certificate bundles of the system: Debian, SUSE and Arch, and Fedora.
const SYSTEM: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Which servers are trusted.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those that the authorities of the system certify.
    System,
    /// Those that the certificates in a file certify.
    Authorities(PathBuf),
    /// The one whose certificate is in the file, whatever names, dates and uses the certificate states: an array on this
    /// machine, which writes the file into its data folder.
    Exactly(PathBuf),
}

impl Trust {
    /// The file with the certificates.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::System => None,
            Self::Authorities(file) | Self::Exactly(file) => Some(file),
        }
    }

    /// What sends requests to this URL. Certificates are read only if it needs them.
    pub fn agent(&self, url: &str) -> Result<ureq::Agent> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            // The array never redirects, and the token must not be sent elsewhere.
            .max_redirects(0)
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_global(Some(Duration::from_secs(600)));
        if !url.starts_with("https:") {
            return Ok(config.build().into());
        }
        let roots = match self {
            Self::Exactly(file) => return exact::agent(config.build(), &required(file)?),
            Self::Authorities(file) => required(file)?,
            Self::System => SYSTEM.iter().find_map(|path| read(Path::new(path)).ok()).unwrap_or_default(),
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots)));
        Ok(config.tls_config(tls.unversioned_rustls_crypto_provider(provider).build()).build().into())
    }
}

fn required(file: &Path) -> Result<Vec<Certificate<'static>>> {
    let found = read(file)?;
    ensure!(!found.is_empty(), "there is no certificate in {}", file.display());
    Ok(found)
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
