//! The certificate that the array shows to its operators' programs. It is part of the configuration, so that it comes
//! along with the drives; its key is sealed.

use crate::Result;
use crate::action::Outcome;
use crate::array::{Array, Change};
use records::{CertificateEntry, Edit, Record, Secret};

/// The certificate as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The chain in PEM, the array's own first.
    pub chain: String,
    /// Since when it is used, in seconds since 1970.
    pub since: u64,
    /// When it stops to be good, in seconds since 1970; none when it does not say.
    pub expires: Option<u64>,
}

/// Until when the first certificate of a chain in PEM is good, in seconds since 1970.
pub(crate) fn expiry(chain: &str) -> Option<u64> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(chain.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    u64::try_from(certificate.validity().not_after.timestamp()).ok()
}

impl Array {
    /// The certificate with its key; none when there is none yet.
    ///
    /// # Errors
    /// When its key can't be opened.
    pub fn certificate(&self) -> Result<Option<(String, Secret)>> {
        let Some(entry) = self.config().certificate.clone() else { return Ok(None) };
        let key = self.parts.sealing.open(&entry.secret, CertificateEntry::PLACE)?;
        Ok(Some((entry.chain, key)))
    }
}

impl Certificate {
    pub(crate) fn of(entry: &CertificateEntry) -> Self {
        Self { chain: entry.chain.clone(), since: entry.since, expires: expiry(&entry.chain) }
    }
}

impl Change<'_> {
    /// The caller has made sure that they belong together.
    pub async fn replace_certificate(&mut self, chain: String, key: &Secret) -> Result<Outcome> {
        let array = self.array;
        let secret = array.parts.sealing.seal(key, CertificateEntry::PLACE, (array.env.random)())?;
        let entry = CertificateEntry { chain, secret, since: self.now() };
        self.commit(vec![Edit::Put(Record::Certificate(entry.clone()))]).await?;
        let message = format!("the certificate was replaced by {}", self.caller.user);
        array.log_event(history::Severity::Info, "certificate.replaced", None, message);
        Ok(Outcome::Certificate(Certificate::of(&entry)))
    }
}
