//! Secrets that the array must be able to say again (CHAP, passwords of mail servers), sealed at rest: AES-256-GCM
//! with a key that is not on the drives beside them. In the history, too, what has secrets in it is sealed so.

use crate::config::Secret;
use crate::{Error, Result};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use notify::mark;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// A sealed secret: base 64 of the nonce, the ciphertext and the tag.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Sealed(String);

impl Serialize for Sealed {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(mark::SECRET, &self.0)
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealed(…)")
    }
}

impl Sealed {
    /// As it is written down.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What was written down.
    pub fn of_text(text: String) -> Self {
        Self(text)
    }
}

/// What seals and opens.
pub struct Vault(LessSafeKey);

impl Vault {
    /// A vault with this key.
    pub fn new(key: [u8; 32]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, &key).expect("AES-256 takes 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Seals a secret. `random`: a number that was never used before with this key. `place`: where the secret
    /// belongs; it can't be opened anywhere else.
    pub fn seal(&self, secret: &Secret, place: &str, random: u128) -> Sealed {
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&random.to_le_bytes()[..NONCE_LEN]);
        let mut bytes = secret.expose().as_bytes().to_vec();
        let sealed = self.0.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(place.as_bytes()),
            &mut bytes,
        );
        sealed.expect("secrets are short");
        Sealed(STANDARD_NO_PAD.encode([&nonce[..], &bytes].concat()))
    }

    /// Opens what was sealed for a place.
    ///
    /// # Errors
    /// When it was sealed with another key or for another place, or was changed.
    pub fn open(&self, sealed: &Sealed, place: &str) -> Result<Secret> {
        let opened = || {
            let bytes = STANDARD_NO_PAD.decode(&sealed.0).ok()?;
            let (nonce, rest) = bytes.split_first_chunk::<NONCE_LEN>()?;
            let mut rest = rest.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let plain = self.0.open_in_place(nonce, Aad::from(place.as_bytes()), &mut rest).ok()?;
            String::from_utf8(plain.to_vec()).ok().map(Secret::new)
        };
        opened().ok_or_else(|| {
            Error::precondition(format!(
                "the secret of {place} was sealed with a key that is not here: give it anew, or bring the file \
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
        let vault = Vault::new([1; 32]);
        let sealed = vault.seal(&Secret::new("twelve chars"), "host/1", 77);
        assert_eq!(vault.open(&sealed, "host/1").unwrap().expose(), "twelve chars");
        assert!(vault.open(&sealed, "host/2").is_err());
        assert!(Vault::new([2; 32]).open(&sealed, "host/1").is_err());
        assert!(vault.open(&Sealed("AAAA".into()), "host/1").is_err());
        assert!(!format!("{sealed:?}{}", serde_json::to_string(&sealed).unwrap()).contains("twelve"));
    }
}
