//! The TLS certificate of the API: created at the first start, reloaded when an operator replaces it, and published in the
//! data folder so that a local `ashlar` can trust it.

use crate::board;
use crate::listening::Config;
use anyhow::{Context, Result, anyhow};
use api::Tls;
use array::{Array, Caller, FIRST_USER, ReplaceCertificate, Secret, Severity, Update};
use machine::access::{Folder, read_text, write_whole};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;

/// The certificate chain in the data folder, for clients, so that they trust it.
const FILE: &str = "tls.pem";
/// The certificate of a standby and its key in the data folder.
const STANDBY_FILE: &str = "standby.pem";
const CERTIFICATE_END: &str = "-----END CERTIFICATE-----";

/// TLS with the array's certificate; a self-signed one is created if there is none. If the stored one can't be used, a
/// temporary one is used, and the stored one is kept.
///
/// # Errors
/// If no certificate can be created.
pub async fn prepare(array: &Array, config: &Config, folder: &Folder) -> Result<Tls> {
    let why = match array.certificate() {
        Ok(Some((chain, key))) => match Tls::new(&chain, key.expose()) {
            Ok(tls) => {
                folder.show(FILE, chain.into_bytes());
                return Ok(tls);
            }
            Err(wrong) => wrong,
        },
        Ok(None) => {
            let (chain, key) = self_signed(config)?;
            let tls = Tls::new(&chain, key.expose()).map_err(|wrong| anyhow!(wrong))?;
            let replace = ReplaceCertificate { chain: chain.clone(), key };
            match array.perform(&Caller::array(), replace).await {
                Ok(_) => {
                    folder.show(FILE, chain.into_bytes());
                    return Ok(tls);
                }
                Err(error) => error.message,
            }
        }
        Err(error) => error.message,
    };
    let message = format!(
        "the certificate of the API can't be used ({why}): until the next start the API uses a temporary \
         certificate that clients do not trust; replace the certificate (ashlar certificate replace), or restore its \
         key"
    );
    array.alerts().report("certificate.temporary", Severity::Warning, message);
    let (chain, key) = self_signed(config)?;
    Tls::new(&chain, key.expose()).map_err(|wrong| anyhow!(wrong))
}

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
            let (chain, key) = self_signed(config)?;
            let both = format!("{chain}{}", key.expose());
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

fn self_signed(config: &Config) -> Result<(String, Secret)> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".into(), "::1".into()];
    names.push(board::host_name());
    if !config.address.ip().is_unspecified() {
        names.push(config.address.ip().to_string());
    }
    names.sort();
    names.dedup();
    let mut params = CertificateParams::new(names).context("a certificate can't be created")?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Ashlar {}", config.array));
    let key = KeyPair::generate().context("a key can't be created")?;
    let certificate = params.self_signed(&key).context("a certificate can't be created")?;
    Ok((certificate.pem(), Secret::new(key.serialize_pem())))
}

/// Reloads the certificate whenever it is replaced. Ends when the array does.
pub async fn follow(array: Arc<Array>, tls: Tls, folder: Arc<Folder>) {
    let mut updates = array.subscribe();
    loop {
        match updates.recv().await {
            Ok(Update::Changed(array::Topic::Certificate)) | Err(RecvError::Lagged(_)) => {
                renew(&array, &tls, &folder)
            }
            Ok(_) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

fn renew(array: &Array, tls: &Tls, folder: &Folder) {
    let (chain, key) = match array.certificate() {
        Ok(Some(certificate)) => certificate,
        Ok(None) => return,
        Err(error) => return tracing::error!(%error, "the new certificate can't be used"),
    };
    if let Err(error) = tls.replace(&chain, key.expose(), || folder.show(FILE, chain.clone().into_bytes())) {
        return tracing::error!(error, "the new certificate can't be used");
    }
    array.alerts().end_report("certificate.temporary");
}

/// Prints the first user's password once, to standard error; it is not stored. A journal would store it (sd_journal(3)):
/// there it is left out.
pub fn show_password(password: &Secret) {
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        tracing::info!(
            "the first user is {FIRST_USER:?}: set its password with ashlar user password {FIRST_USER}"
        );
        return;
    }
    let text = format!(
        "\nThe first user is {FIRST_USER:?} with the password {}\nIt is not shown again. To set another one: ashlar \
         user password {FIRST_USER}\n\n",
        password.expose()
    );
    if let Err(error) = std::io::stderr().write_all(text.as_bytes()) {
        tracing::error!(%error, "the first user's password could not be shown: set another one with ashlar user password");
    }
}

#[cfg(test)]
#[path = "certificate_test.rs"]
mod tests;
