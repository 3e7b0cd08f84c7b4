//! The certificates of the API that controllers have in their data folders: the one that a controller makes itself, and what
//! programs on its machine trust.

use crate::board;
use crate::listening::Config;
use crate::mutual_tls;
use anyhow::{Context, Result, anyhow};
use api::Tls;
use array::LinkIdentity;
use machine::access::{read_text, write_whole};
use std::path::Path;

/// The certificate chain in the data folder, for clients, so that they trust it.
pub const FILE: &str = "tls.pem";
/// The certificate of a standby and its key in the data folder.
const STANDBY_FILE: &str = "standby.pem";
const CERTIFICATE_END: &str = "-----END CERTIFICATE-----";

/// TLS of a controller that does not serve the array, whose certificate only the home can read: a self-signed one that is
/// kept in the data folder. Programs on this machine trust it besides the one that the array had here.
///
/// # Errors
/// If no certificate can be created.
pub fn of_standby(config: &Config) -> Result<Tls> {
    let path = config.data.join(STANDBY_FILE);
    let known = read_text(&path).and_then(|both| Some((Tls::new(&both, &both).ok()?, both)));
    let (tls, both) = match known {
        Some(known) => known,
        None => {
            let LinkIdentity { certificate, key } = self_signed(config)?;
            let both = format!("{certificate}{}", key.expose());
            if let Err(error) = write_whole(&path, both.as_bytes()) {
                tracing::warn!(%error, file = %path.display(), "the next start shows another certificate");
            }
            (Tls::new(&both, &both).map_err(|wrong| anyhow!(wrong))?, both)
        }
    };
    let trusted = config.data.join(FILE);
    let chain = both.split_inclusive(CERTIFICATE_END).next().unwrap_or_default();
    let before = read_text(&trusted).unwrap_or_default();
    if !before.contains(chain)
        && let Err(error) = write_whole(&trusted, format!("{chain}\n{before}").as_bytes())
    {
        tracing::warn!(%error, file = %trusted.display(), "programs on this machine may not trust the API");
    }
    Ok(tls)
}

/// Makes programs on the machine of a standby trust the array's certificate, which they see where connections are passed on to
/// the home, besides the standby's own.
pub fn trust_home(data: &Path, chain: &str) {
    let own = read_text(&data.join(STANDBY_FILE)).unwrap_or_default();
    let own = own.split_inclusive(CERTIFICATE_END).next().unwrap_or_default();
    let (path, text) = (data.join(FILE), format!("{own}\n{chain}"));
    if read_text(&path).is_none_or(|before| before != text)
        && let Err(error) = write_whole(&path, text.as_bytes())
    {
        tracing::warn!(%error, file = %path.display(), "programs on this machine may not trust the API");
    }
}

/// The chain that a home has published; empty if it could not.
pub fn published(data: &Path) -> String {
    read_text(&data.join(FILE)).unwrap_or_default()
}

/// A new certificate in PEM that names where the API listens, and its key.
///
/// # Errors
/// If none can be made.
pub fn self_signed(config: &Config) -> Result<LinkIdentity> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".into(), "::1".into()];
    names.push(board::host_name());
    if !config.address.ip().is_unspecified() {
        names.push(config.address.ip().to_string());
    }
    names.sort();
    names.dedup();
    let made = mutual_tls::new_identity(names, &format!("Ashlar {}", config.array));
    made.context("a certificate can't be created")
}
