//! By what the controllers of an array know each other: a certificate of each, whose fingerprint is in the cluster's map, with
//! a proof that who wrote it there has the key that the controllers share.
//!
//! The objects of the array in Ceph are not enough for that: who can only write them can't read an encrypted array, and must
//! not be served what is in it. The shared key is that of `secrets.key`, which every controller that can be the home has.

use crate::mutual_tls;
use anyhow::{Context, Result, anyhow};
use array::hex::{from_hex, hex};
use array::{LinkIdentity, Secret};
use aws_lc_rs::hmac;
use cluster::{Map, MapMember};
use machine::access::{self, read_text, write_whole};
use shelf::arbiter::MemberId;
use std::path::Path;

/// The certificate of a controller and its key in the data folder.
const FILE: &str = "link.pem";
const CERTIFICATE_END: &str = "-----END CERTIFICATE-----\n";

/// What this controller shows the others, and how it knows them.
pub struct Own {
    /// Its number.
    pub id: u16,
    /// The array.
    pub array: u128,
    /// Its certificate and key.
    pub identity: LinkIdentity,
    /// The fingerprint of the certificate.
    pub fingerprint: String,
    /// The proof for it.
    pub proof: String,
    key: hmac::Key,
}

impl Own {
    /// That of a controller of an array, from its data folder; a new one at its first start.
    ///
    /// # Errors
    /// If the key that controllers share is missing, or nothing can be written.
    pub fn load(data: &Path, (array, id): (u128, u16)) -> Result<Self> {
        let secret = access::secrets_key(data, true).map_err(|why| {
            anyhow!(
                "{why}: controllers know each other by it; copy it from the data folder of a controller of this array, or \
                 start once without --link if this is the first one"
            )
        })?;
        let path = data.join(FILE);
        let known = read_text(&path).and_then(|both| split(&both));
        let identity = match known {
            Some(known) => known,
            None => {
                let name = format!("Ashlar controller {id}");
                let made = mutual_tls::new_identity(vec!["controller.ashlar.invalid".into()], &name)?;
                let both = format!("{}{}", made.certificate, made.key.expose());
                write_whole(&path, both.as_bytes())
                    .with_context(|| format!("{} can't be written", path.display()))?;
                made
            }
        };
        Self::new(&secret, identity, (array, id))
    }

    /// That of a controller with a key that it shares with others.
    pub(super) fn new(secret: &[u8], identity: LinkIdentity, (array, id): (u128, u16)) -> Result<Self> {
        let (certificate, _) = mutual_tls::parse(&identity)?;
        let fingerprint = mutual_tls::fingerprint(&certificate);
        // A key of its own for each purpose.
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), b"ashlar link of controllers");
        let key = hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref());
        let proof = hex(hmac::sign(&key, &message(array, id, &fingerprint)).as_ref());
        Ok(Self { id, array, identity, fingerprint, proof, key })
    }

    /// Whether the link of a controller in the map was written there by one that has the shared key.
    pub fn trusts(&self, member: &MapMember) -> bool {
        let proof = from_hex(&member.link.proof);
        let message = message(self.array, member.id, &member.link.certificate);
        proof.is_some_and(|proof| hmac::verify(&self.key, &message, &proof).is_ok())
    }

    /// The controller that takes part and shows this certificate.
    pub fn find<'a>(&self, map: &'a Map, certificate: &[u8]) -> Result<&'a MapMember> {
        let fingerprint = mutual_tls::fingerprint(certificate);
        let member = map.members.iter().find(|it| it.link.certificate == fingerprint);
        let member = member.context("no controller in the cluster's map has its certificate")?;
        anyhow::ensure!(
            map.active(MemberId(member.id)).is_some(),
            "controller {} does not take part in the cluster",
            member.id
        );
        anyhow::ensure!(
            self.trusts(member),
            "controller {} has another secrets.key: copy that of this controller to its data folder",
            member.id
        );
        Ok(member)
    }
}

/// What a proof is for.
fn message(array: u128, id: u16, fingerprint: &str) -> Vec<u8> {
    format!("array {array:032x}, controller {id}, certificate {fingerprint}").into_bytes()
}

/// Certificate and key of a file with both.
fn split(both: &str) -> Option<LinkIdentity> {
    let (certificate, key) = both.split_once(CERTIFICATE_END)?;
    let certificate = format!("{certificate}{CERTIFICATE_END}");
    let identity = LinkIdentity { certificate, key: Secret::new(key.to_owned()) };
    mutual_tls::parse(&identity).is_ok().then_some(identity)
}

#[cfg(test)]
#[path = "identity_test.rs"]
mod tests;
