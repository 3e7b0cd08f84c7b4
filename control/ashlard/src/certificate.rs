//! The TLS certificate of the API: created at the first start, reloaded when an operator replaces it, and published in the
//! data folder so that a local `ashlar` can trust it.

use anyhow::{Result, anyhow};
use api::Tls;
use array::{Array, Caller, FIRST_USER, LinkIdentity, ReplaceCertificate, Secret, Severity, Update};
use fabric::certificate::{FILE, self_signed};
use fabric::listening::Config;
use machine::access::Folder;
use std::io::Write;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;

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
            let LinkIdentity { certificate: chain, key } = self_signed(config)?;
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
    let LinkIdentity { certificate: chain, key } = self_signed(config)?;
    Tls::new(&chain, key.expose()).map_err(|wrong| anyhow!(wrong))
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
        if updates.is_empty() {
            tokio::time::sleep(array::GATHER).await;
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
