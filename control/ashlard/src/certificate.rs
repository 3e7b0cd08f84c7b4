//! The certificate of the API: made at the first start, followed when an operator replaces it, and shown in the array's
//! folder so that a local `ashlar` can trust it.

use crate::access::write_whole;
use crate::args::Args;
use anyhow::{Context, Result, anyhow};
use api::Tls;
use array::{Action, Array, Caller, FIRST_USER, Happening, Secret};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;

/// The certificate chain in the array's folder, for those who want to trust it.
const FILE: &str = "tls.pem";

/// TLS with the array's certificate; one that the array signs itself is made when there is none.
pub async fn prepare(array: &Array, args: &Args) -> Result<Tls> {
    let (chain, key) = match array.certificate() {
        Some(found) => found,
        None => {
            let (chain, key) = self_signed(args)?;
            let replace = Action::ReplaceCertificate { chain: chain.clone(), key: key.clone() };
            array.perform(&Caller::array(), replace).await?;
            (chain, key)
        }
    };
    write_whole(&args.data().join(FILE), chain.as_bytes()).context("the certificate can't be shown")?;
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

/// Uses every certificate that replaces the one in use.
pub async fn follow(array: Arc<Array>, tls: Tls, data: PathBuf) {
    let mut happenings = array.listen();
    loop {
        match happenings.recv().await {
            Ok(Happening::Changed(array::Topic::Certificate)) | Err(RecvError::Lagged(_)) => {
                renew(&array, &tls, &data)
            }
            Ok(_) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

fn renew(array: &Array, tls: &Tls, data: &Path) {
    let Some((chain, key)) = array.certificate() else { return };
    if let Err(error) = tls.replace(&chain, key.expose()) {
        tracing::error!(error, "the new certificate can't be used");
        return;
    }
    if let Err(error) = write_whole(&data.join(FILE), chain.as_bytes()) {
        tracing::error!(%error, "the new certificate can't be shown in the array's folder");
    }
}

/// Tells the first user's password once, to whoever started the array; it is kept nowhere.
pub fn show_password(password: &Secret) {
    eprintln!("\nThe first user is {FIRST_USER:?} with the password {}", password.expose());
    eprintln!("It is not shown again. To set another one: ashlar user password {FIRST_USER}\n");
}
