//! The TLS certificate of the API. It is a record, so it moves with the drives; its key is sealed.

use crate::Error;
use crate::Result;
use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::parts::certificate_chain::expiry;
use crate::request::verbs;
use crate::shape::{shapes, some_time, time};
use records::{CertificateEntry, Edit, Record, Secret};
use serde::Serialize;
use utoipa::ToSchema;

/// The TLS certificate of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Certificate {
    /// Certificate chain in PEM, the array's own certificate first.
    pub chain: String,
    /// Time since which it is in use.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub since: u64,
    /// Expiry time; `null` if unknown.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires: Option<u64>,
}

shapes! {
    Certificate;
}

/// Replace it; that the key belongs to it has been looked at before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplaceCertificate {
    /// The chain in PEM, the array's own first.
    #[serde(serialize_with = "records::mark::pem")]
    pub chain: String,
    /// The key in PEM.
    pub key: Secret,
}

verbs! {
    #![tag = "access"]

    /// Get the TLS certificate
    ShowCertificate {} -> Certificate, Read "show" "certificate", Viewer, at GET "/certificate"
        => |tx, _| Certificate::now(tx.array);
    ReplaceCertificate -> Certificate, Change "replace" "certificate", Admin
        => |tx, it| tx.replace_certificate(it.chain, &it.key).await;
}

impl Array {
    /// The certificate with its key; `None` if there is none yet.
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
    fn now(array: &Array) -> Result<Self> {
        let shown = array.config().certificate.as_ref().map(Certificate::of);
        shown.ok_or_else(|| Error::not_found("there is no certificate yet"))
    }

    pub(crate) fn of(entry: &CertificateEntry) -> Self {
        Self { chain: entry.chain.clone(), since: entry.since, expires: expiry(&entry.chain) }
    }
}

impl Transaction<'_> {
    /// The caller has made sure that they belong together.
    pub async fn replace_certificate(&mut self, chain: String, key: &Secret) -> Result<Certificate> {
        let array = self.array;
        let secret = array.parts.sealing.seal(key, CertificateEntry::PLACE, (array.env.random)())?;
        let entry = CertificateEntry { chain, secret, since: self.now() };
        self.commit(vec![Edit::Put(Record::Certificate(entry.clone()))]).await?;
        let message = format!("the certificate was replaced by {}", self.caller.user);
        array.log_event(history::Severity::Info, "certificate.replaced", None, message);
        Ok(Certificate::of(&entry))
    }
}
