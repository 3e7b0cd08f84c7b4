//! The certificate of the API: made at the first start, followed when an operator replaces it, and shown in the array's
//! folder so that a local `ashlar` can trust it.

use crate::access::Folder;
use crate::args::Args;
use anyhow::{Context, Result, anyhow};
use api::Tls;
use array::{Action, Array, Caller, FIRST_USER, Secret, Severity, Update};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use std::io::Write;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;

/// The certificate chain in the array's folder, for those who want to trust it.
const FILE: &str = "tls.pem";

/// TLS with the array's certificate; one that the array signs itself is made when there is none. When the one there is
/// can't be used, another serves for the time being, and nothing takes its place.
///
/// # Errors
/// When no certificate can be made at all.
pub async fn prepare(array: &Array, args: &Args, folder: &Folder) -> Result<Tls> {
    let why = match array.certificate() {
        Ok(Some((chain, key))) => match Tls::new(&chain, key.expose()) {
            Ok(tls) => {
                folder.show(FILE, chain.into_bytes());
                return Ok(tls);
            }
            Err(wrong) => wrong,
        },
        Ok(None) => {
            let (chain, key) = self_signed(args)?;
            let tls = Tls::new(&chain, key.expose()).map_err(|wrong| anyhow!(wrong))?;
            let replace = Action::ReplaceCertificate { chain: chain.clone(), key };
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
        "the certificate of the API can't be used ({why}): until the array is started again the API shows one that it \
         made for now, which nobody has reason to trust; replace the certificate (ashlar certificate replace), or see to \
         its key"
    );
    array.raise_condition("certificate.temporary", Severity::Warning, message);
    let (chain, key) = self_signed(args)?;
    Tls::new(&chain, key.expose()).map_err(|wrong| anyhow!(wrong))
}

fn self_signed(args: &Args) -> Result<(String, Secret)> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".into(), "::1".into()];
    if let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        names.push(host.trim().to_owned());
    }
    if !args.api.ip().is_unspecified() {
        names.push(args.api.ip().to_string());
    }
    names.sort();
    names.dedup();
    let mut params = CertificateParams::new(names).context("a certificate can't be made")?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Ashlar {}", args.name));
    let key = KeyPair::generate().context("a key can't be made")?;
    let certificate = params.self_signed(&key).context("a certificate can't be made")?;
    Ok((certificate.pem(), Secret::new(key.serialize_pem())))
}

/// Uses every certificate that replaces the one in use. Ends when the array does.
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
    if let Err(error) = tls.replace(&chain, key.expose()) {
        tracing::error!(error, "the new certificate can't be used");
        return;
    }
    array.clear_condition("certificate.temporary");
    folder.show(FILE, chain.into_bytes());
}

/// Tells the first user's password once, to whoever started the array; it is kept nowhere.
pub fn show_password(password: &Secret) {
    let text = format!(
        "\nThe first user is {FIRST_USER:?} with the password {}\nIt is not shown again. To set another one: ashlar \
         user password {FIRST_USER}\n\n",
        password.expose()
    );
    if let Err(error) = std::io::stderr().write_all(text.as_bytes()) {
        tracing::error!(%error, "nobody saw the first user's password: set another one with ashlar user password");
    }
}
