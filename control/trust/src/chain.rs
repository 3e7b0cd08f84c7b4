//! Certificates that an operator gives: whether a chain is one, whether it has its key, and whether it is valid now. What is wrong
//! is found when it is given, not by the clients that meet it.

use crate::{Error, Result, parse};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::time::{SystemTime, UNIX_EPOCH};
use x509_parser::certificate::X509Certificate;
use x509_parser::error::X509Error;
use x509_parser::extensions::{ExtendedKeyUsage, GeneralName};
use x509_parser::prelude::FromDer;

/// What stands in a private key in PEM that needs a passphrase: PKCS #8 (RFC 7468 11), and the form of OpenSSL (RFC 1421 4.6.1.1).
const ENCRYPTED: [&str; 2] = ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"];

/// A private key in PEM.
///
/// # Errors
/// If it is none, or encrypted.
pub fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>> {
    if ENCRYPTED.iter().any(|mark| pem.contains(mark)) {
        let text = "the key is encrypted with a passphrase, which can't be entered here: decrypt it first (openssl pkey -in \
                    KEY -out PLAIN), and protect that file";
        return Err(Error(text.into()));
    }
    PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| Error(format!("there is no private key in the PEM text: {error}")))
}

/// A certificate chain in PEM, the own certificate first.
///
/// # Errors
/// If there is no certificate, or one that can't be read.
pub fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>> {
    parse(pem.as_bytes())
}

/// The role of the end that presents a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A server, which clients know by its names and addresses.
    Server,
    /// A client.
    Client,
}

/// Checks a chain that a server or a client presents, its own certificate first: it serves the purpose, each certificate was issued
/// by the one after it, and all are valid now.
///
/// # Errors
/// What is wrong, with the certificate.
pub fn check_chain(chain: &[CertificateDer<'_>], purpose: Purpose) -> Result<()> {
    let read = read(chain)?;
    let now = now();
    if let Some(own) = read.first() {
        check_purpose(own, purpose)?;
    }
    for (number, certificate) in (1..).zip(&read) {
        check_dates(number, certificate, now)?;
    }
    for (index, pair) in read.windows(2).enumerate() {
        check_issued(index, &pair[0], &pair[1], &read)?;
    }
    Ok(())
}

/// Checks certificates of authorities: at least one of them can be used, and is valid now.
///
/// # Errors
/// If none is valid now, or one can't be read.
pub(crate) fn check_authorities(certificates: &[CertificateDer<'_>]) -> Result<()> {
    let (read, now) = (read(certificates)?, now());
    let mut wrong = (1..).zip(&read).map(|(number, it)| check_dates(number, it, now));
    let first = wrong.next().unwrap_or(Ok(()));
    if first.is_err() && wrong.all(|it| it.is_err()) { first } else { Ok(()) }
}

/// Whether a private key belongs to the certificate at this place of a chain, by the caller's cryptography; says so if it belongs to
/// another one.
///
/// # Errors
/// If it does not belong to the first one.
pub fn check_key(chain: &[CertificateDer<'_>], belongs: impl Fn(&CertificateDer<'_>) -> bool) -> Result<()> {
    let Some(place) = chain.iter().position(&belongs) else {
        let text = "the key belongs to none of the certificates: give the key that the certificate was requested with";
        return Err(Error(text.into()));
    };
    if place > 0 {
        return Err(Error(format!(
            "the order of the chain is wrong: the key belongs to certificate {}, and that must be the first one, followed by \
             the one that issued it, and so on",
            place + 1
        )));
    }
    Ok(())
}

fn read<'a>(chain: &'a [CertificateDer<'_>]) -> Result<Vec<X509Certificate<'a>>> {
    let one = |(number, der): (usize, &'a CertificateDer<'_>)| match X509Certificate::from_der(der.as_ref()) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err(Error(format!("certificate {number} has more than a certificate in it"))),
        Err(error) => Err(Error(format!("certificate {number} can't be read: {error}"))),
    };
    (1..).zip(chain).map(one).collect()
}

/// Seconds since 1970 by the clock of the system, by which TLS judges certificates.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn check_dates(number: usize, certificate: &X509Certificate<'_>, now: i64) -> Result<()> {
    let (valid, name) = (certificate.validity(), certificate.subject());
    if now > valid.not_after.timestamp() {
        return Err(Error(format!(
            "certificate {number} ({name}) has expired: it was valid until {}",
            valid.not_after
        )));
    }
    if now < valid.not_before.timestamp() {
        return Err(Error(format!(
            "certificate {number} ({name}) is not valid yet: it is from {} on; check the clock of this machine",
            valid.not_before
        )));
    }
    Ok(())
}

/// Whether the other end accepts a certificate as that of a server or a client (RFC 5280 4.2.1.3, 4.2.1.6, 4.2.1.12).
fn check_purpose(own: &X509Certificate<'_>, purpose: Purpose) -> Result<()> {
    let refuse = |why: &str| Err(Error(format!("certificate 1 ({}) {why}", own.subject())));
    let is_self_signed = own.subject().as_raw() == own.issuer().as_raw();
    if own.is_ca() && !is_self_signed {
        return refuse("is that of an authority: give the certificate that it issued for this end");
    }
    if matches!(own.key_usage(), Ok(Some(usage)) if !usage.value.digital_signature()) {
        return refuse("can't be used for TLS: its key usage lacks digitalSignature");
    }
    let extended = own.extended_key_usage().ok().flatten().map(|it| it.value);
    let is_for = |it: &ExtendedKeyUsage<'_>| match purpose {
        Purpose::Server => it.any || it.server_auth,
        Purpose::Client => it.any || it.client_auth,
    };
    if extended.is_some_and(|it| !is_for(it)) {
        return refuse(match purpose {
            Purpose::Server => "is not for servers: its extended key usage lacks serverAuth",
            Purpose::Client => "is not for clients: its extended key usage lacks clientAuth",
        });
    }
    let names = own.subject_alternative_name().ok().flatten();
    let names_server =
        |it: &GeneralName<'_>| matches!(it, GeneralName::DNSName(_) | GeneralName::IPAddress(_));
    let is_named = names.is_some_and(|it| it.value.general_names.iter().any(names_server));
    // A self-signed one is trusted as it is, whatever it states.
    if purpose == Purpose::Server && !is_named && !is_self_signed {
        return refuse(
            "has no host name and no address in its subjectAltName, by which clients know the server: request one with the \
             names and addresses of the array",
        );
    }
    Ok(())
}

/// Whether the certificate at `index` was issued by the one after it (RFC 5280 6.1, RFC 8446 4.4.2).
fn check_issued(
    index: usize,
    certificate: &X509Certificate<'_>,
    next: &X509Certificate<'_>,
    chain: &[X509Certificate<'_>],
) -> Result<()> {
    let (number, following) = (index + 1, index + 2);
    let (name, issuer) = (certificate.subject(), certificate.issuer());
    if issuer.as_raw() != next.subject().as_raw() {
        let elsewhere = chain.iter().position(|it| it.subject().as_raw() == issuer.as_raw());
        let remedy = match elsewhere {
            Some(place) if place == index => "it is self-signed: a chain ends with it".to_owned(),
            Some(place) => format!("the order is wrong: that is certificate {}", place + 1),
            None => "that certificate is missing: put it between them".into(),
        };
        return Err(Error(format!(
            "the chain has a gap: certificate {number} ({name}) was issued by {issuer}, and certificate {following} is that of \
             {}: {remedy}",
            next.subject()
        )));
    }
    let verified = certificate.verify_signature(Some(next.public_key()));
    // What this library can't verify, clients may.
    if !matches!(verified, Ok(()) | Err(X509Error::SignatureUnsupportedAlgorithm)) {
        return Err(Error(format!(
            "certificate {following} ({}) did not issue certificate {number} ({name}): it has the name of the issuer, and \
             another key",
            next.subject()
        )));
    }
    check_authority(index, next)
}

/// Whether the certificate after `index` may issue certificates (RFC 5280 4.2.1.3, 4.2.1.9).
fn check_authority(index: usize, authority: &X509Certificate<'_>) -> Result<()> {
    let (number, name) = (index + 2, authority.subject());
    let signs = !matches!(authority.key_usage(), Ok(Some(usage)) if !usage.value.key_cert_sign());
    if !authority.is_ca() || !signs {
        return Err(Error(format!(
            "certificate {number} ({name}) may not issue others: it is not that of an authority"
        )));
    }
    let most = authority.basic_constraints().ok().flatten().and_then(|it| it.value.path_len_constraint);
    if most.is_some_and(|most| (most as usize) < index) {
        return Err(Error(format!(
            "certificate {number} ({name}) allows {} authorities below it, and there are {index}",
            most.unwrap_or_default()
        )));
    }
    Ok(())
}

#[cfg(test)]
#[path = "chain_test.rs"]
mod tests;
