//! Encryption of secrets at rest (CHAP, passwords of mail servers): AES-256-GCM with a key that is not on the drives.
//!
//! Secrets in the history are sealed as well. An array whose key is lost serves hosts: what needs a secret is
//! refused, and sealed secrets are not replaced.

use crate::{Error, Result};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use records::{Sealed, Secret};
use zeroize::Zeroizing;

/// Seals and opens secrets. Without its key, the reason.
pub struct SealingKey(std::result::Result<LessSafeKey, String>);

impl SealingKey {
    /// Takes a key that was read.
    pub fn new(key: [u8; 32]) -> Self {
        let key = Zeroizing::new(key);
        let key = UnboundKey::new(&AES_256_GCM, &*key).expect("AES-256 takes 32 bytes");
        Self(Ok(LessSafeKey::new(key)))
    }

    /// A key that is not there, and why. It seals and opens nothing.
    pub fn locked(why: impl Into<String>) -> Self {
        Self(Err(why.into()))
    }

    /// Why the key is not there; `None` if it is.
    pub(crate) fn locked_because(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    fn key(&self) -> Result<&LessSafeKey> {
        self.0
            .as_ref()
            .map_err(|why| Error::precondition(format!("secrets can't be sealed or opened: {why}")))
    }

    /// Seals a secret. `random`: a number that was never used before with this key. `place`: where the secret
    /// belongs; it can't be opened anywhere else.
    ///
    /// # Errors
    /// When the key is not there.
    pub fn seal(&self, secret: &Secret, place: &str, random: u128) -> Result<Sealed> {
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&random.to_le_bytes()[..NONCE_LEN]);
        let mut bytes = secret.expose().as_bytes().to_vec();
        let sealed = self.key()?.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(place.as_bytes()),
            &mut bytes,
        );
        sealed.expect("secrets are short");
        Ok(Sealed::of_text(STANDARD_NO_PAD.encode([&nonce[..], &bytes].concat())))
    }

    /// Opens what was sealed for a place.
    ///
    /// # Errors
    /// When it was sealed with another key or for another place, or was changed.
    pub fn open(&self, sealed: &Sealed, place: &str) -> Result<Secret> {
        let key = self.key()?;
        let opened = || {
            let bytes = STANDARD_NO_PAD.decode(sealed.text()).ok()?;
            let (nonce, rest) = bytes.split_first_chunk::<NONCE_LEN>()?;
            let mut rest = Zeroizing::new(rest.to_vec());
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let plain = key.open_in_place(nonce, Aad::from(place.as_bytes()), &mut rest).ok()?;
            String::from_utf8(plain.to_vec()).ok().map(Secret::new)
        };
        opened().ok_or_else(|| {
            Error::precondition(format!(
                "the secret of {place} was sealed with a key that is not here: set it again, or restore the file \
                 secrets.key of the folder where it was set"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_with_its_key_at_its_place_and_nowhere_else() {
        let sealing = SealingKey::new([1; 32]);
        let sealed = sealing.seal(&Secret::new("twelve chars"), "host/1", 77).unwrap();
        assert_eq!(sealing.open(&sealed, "host/1").unwrap().expose(), "twelve chars");
        assert!(sealing.open(&sealed, "host/2").is_err());
        assert!(SealingKey::new([2; 32]).open(&sealed, "host/1").is_err());
        assert!(sealing.open(&Sealed::of_text("AAAA".into()), "host/1").is_err());
        let locked = SealingKey::locked("secrets.key is missing");
        let said = locked.open(&sealed, "host/1").err().unwrap().message;
        assert!(said.contains("secrets.key is missing"), "{said}");
        assert!(locked.seal(&Secret::new("twelve chars"), "host/1", 78).is_err());
        assert!(!format!("{sealed:?}{}", serde_json::to_string(&sealed).unwrap()).contains("twelve"));
    }
}
