//! Secrets in the text form of NVMe: `DHHC-1:HH:BASE64:` (NVM Express Base 2.0 clause 8.13.5.8).

use super::hash::Hash;
use crate::key_text::{self, Malformed};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes that follow the NQN in the transformation of a secret (clause 8.13.5.7).
const SEED: &[u8] = b"NVMe-over-Fabrics";

/// A secret of DH-HMAC-CHAP. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct DhchapSecret {
    /// Hash function of the transformation; without one, the secret is used unchanged.
    transform: Option<Hash>,
    key: Zeroizing<Vec<u8>>,
}

/// Why a text is not a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotASecret {
    /// The text does not have the form of a secret.
    #[error("a DH-HMAC-CHAP secret is DHHC-1:HH:BASE64:, as `nvme gen-dhchap-key` makes it")]
    Form,
    /// The hash function is unknown.
    #[error("HH in DHHC-1:HH:BASE64: is 00, 01, 02 or 03")]
    Hash,
    /// The length does not match the hash function.
    #[error(
        "a DH-HMAC-CHAP secret has 32, 48 or 64 bytes: 32 for SHA-256 (01), 48 for SHA-384 (02), 64 for SHA-512 (03)"
    )]
    Length,
    /// The CRC differs.
    #[error("the CRC of the DH-HMAC-CHAP secret is wrong: a character of it was changed or lost")]
    Crc,
}

impl From<Malformed> for NotASecret {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Form => Self::Form,
            Malformed::Hash => Self::Hash,
            Malformed::Length => Self::Length,
            Malformed::Crc => Self::Crc,
        }
    }
}

impl DhchapSecret {
    /// Decodes a secret.
    ///
    /// # Errors
    /// The fault of the text. The error does not contain the text, which may be a secret.
    pub fn parse(text: &str) -> Result<Self, NotASecret> {
        let (transform, key) =
            key_text::decode(text, "DHHC-1:", &[Hash::Sha256, Hash::Sha384, Hash::Sha512])?;
        Ok(Self { transform, key })
    }

    /// The key of responses by the port with this NQN (clause 8.13.5.7).
    pub(crate) fn transformed(&self, nqn: &str) -> Zeroizing<Vec<u8>> {
        match self.transform {
            None => self.key.clone(),
            Some(hash) => Zeroizing::new(hash.mac(&self.key, &[nqn.as_bytes(), SEED])),
        }
    }

    /// Whether both are the same key.
    pub fn is_same_key(&self, other: &Self) -> bool {
        super::hash::same(&self.key, &other.key)
    }
}

impl fmt::Debug for DhchapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DhchapSecret(…)")
    }
}
