//! Pre-shared keys of TLS (NVMe TCP Transport 1.0 clause 3.6.1): the interchange format, and the keys derived for each
//! pair of NQNs.
//!
//! An operator enters one *configured PSK* on host and array. Both derive a *retained PSK* from it, which is bound to
//! the NQN of the host, and from that the *TLS PSK* and its identity, which are bound to the NQN of the subsystem as
//! well. So one configured PSK serves the subsystem and the discovery subsystem with different keys.

use crate::authentication::hash::Hash;
use crate::key_text::{self, Malformed};
use aws_lc_rs::hkdf;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use transport::{PreSharedKey, PskHash};
use zeroize::Zeroizing;

/// Bytes that follow the NQNs in a PSK digest (clause 3.6.1.3).
const SEED: &[u8] = b"NVMe-over-Fabrics";

/// A configured PSK of TLS. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsPsk {
    /// Hash function that derives the retained PSK; without one, the retained PSK is the configured PSK.
    transform: Option<Hash>,
    key: Zeroizing<Vec<u8>>,
}

/// Why a text is not a PSK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotATlsPsk {
    /// The text does not have the form of a PSK.
    #[error("a TLS PSK is NVMeTLSkey-1:HH:BASE64:, as `nvme gen-tls-key` makes it")]
    Form,
    /// The hash function is unknown.
    #[error("HH in NVMeTLSkey-1:HH:BASE64: is 00, 01 or 02")]
    Hash,
    /// The length does not match the hash function.
    #[error("a TLS PSK has 32 or 48 bytes: 32 for SHA-256 (01), 48 for SHA-384 (02)")]
    Length,
    /// The CRC differs.
    #[error("the CRC of the TLS PSK is wrong: a character of it was changed or lost")]
    Crc,
}

impl From<Malformed> for NotATlsPsk {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Form => Self::Form,
            Malformed::Hash => Self::Hash,
            Malformed::Length => Self::Length,
            Malformed::Crc => Self::Crc,
        }
    }
}

impl TlsPsk {
    /// Decodes a PSK in the interchange format (clause 3.6.1.2).
    ///
    /// # Errors
    /// The fault of the text. The error does not contain the text, which may be a key.
    pub fn parse(text: &str) -> Result<Self, NotATlsPsk> {
        let (transform, key) = key_text::decode(text, "NVMeTLSkey-1:", &[Hash::Sha256, Hash::Sha384])?;
        Ok(Self { transform, key })
    }

    /// The hash function of its identities and of the cipher suite.
    fn hash(&self) -> (Hash, PskHash) {
        match self.key.len() == Hash::Sha256.bytes() {
            true => (Hash::Sha256, PskHash::Sha256),
            false => (Hash::Sha384, PskHash::Sha384),
        }
    }

    /// The TLS PSK with this identity; `None` if the identity belongs to another PSK.
    pub(crate) fn of_identity(&self, wanted: &PskIdentity<'_>) -> Option<PreSharedKey> {
        [Labels::Standard, Labels::Libnvme].into_iter().find_map(|labels| self.derive(wanted, labels))
    }

    /// The TLS PSK for these names with this label encoding; `None` if its identity differs.
    fn derive(&self, wanted: &PskIdentity<'_>, labels: Labels) -> Option<PreSharedKey> {
        let PskIdentity { text, version, host, subsystem } = wanted;
        let (hash, of_tls) = self.hash();
        let retained = match self.transform {
            None => self.key.clone(),
            Some(hash) => labels.expand(hash, &self.key, "HostNQN", host)?,
        };
        let names = format!("NVMe{}R{:02} {host} {subsystem}", *version as u8, hash as u8);
        let (identity, context) = match version {
            IdentityVersion::Zero => (names.clone(), names),
            IdentityVersion::One => {
                let parts = [host.as_bytes(), b" ", subsystem.as_bytes(), b" ", SEED];
                let digest = STANDARD.encode(hash.mac(&retained, &parts));
                (format!("{names} {digest}"), format!("{:02} {digest}", hash as u8))
            }
        };
        if identity != *text {
            return None;
        }
        let secret = labels.expand(hash, &retained, "nvme-tls-psk", &context)?;
        Some(PreSharedKey { hash: of_tls, secret })
    }
}

impl fmt::Debug for TlsPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsPsk(…)")
    }
}

/// Encodings of the labels of HKDF-Expand-Label. Both sides must use the same one. The digest in an identity of version
/// 1 shows it, since the digest is computed with the retained PSK, unless that is the configured one.
#[derive(Clone, Copy)]
enum Labels {
    /// RFC 8446 clause 7.1.
    Standard,
    /// libnvme before 1.16, which Debian 13 has: without the lengths of label and context, and with the key length in
    /// the other byte order.
    Libnvme,
}

impl Labels {
    /// HKDF-Extract with a salt of zeros (RFC 5869), then HKDF-Expand-Label, to the length of `key`.
    fn expand(self, hash: Hash, key: &[u8], label: &str, context: &str) -> Option<Zeroizing<Vec<u8>>> {
        let length = u16::try_from(key.len()).ok()?;
        let label = format!("tls13 {label}");
        let mut info = Vec::new();
        match self {
            Labels::Standard => {
                info.extend(length.to_be_bytes());
                for text in [&*label, context] {
                    info.push(u8::try_from(text.len()).ok()?);
                    info.extend(text.as_bytes());
                }
            }
            Labels::Libnvme => {
                info.extend(length.to_le_bytes());
                info.extend(label.as_bytes());
                info.extend(context.as_bytes());
            }
        }
        let algorithm = match hash {
            Hash::Sha256 => hkdf::HKDF_SHA256,
            Hash::Sha384 => hkdf::HKDF_SHA384,
            Hash::Sha512 => hkdf::HKDF_SHA512,
        };
        let secret = hkdf::Salt::new(algorithm, &[]).extract(key);
        let mut out = Zeroizing::new(vec![0; key.len()]);
        secret.expand(&[&info], Length(key.len())).ok()?.fill(&mut out).ok()?;
        Some(out)
    }
}

/// Bytes of output key material.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum IdentityVersion {
    Zero = 0,
    One = 1,
}

/// A PSK identity of a retained PSK (clause 3.6.1.3): `NVMe1R01 HOSTNQN SUBNQN DIGEST`, or of version 0 without a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PskIdentity<'a> {
    text: &'a str,
    version: IdentityVersion,
    /// NQN of the host.
    pub(crate) host: &'a str,
    /// NQN of the subsystem.
    pub(crate) subsystem: &'a str,
}

impl<'a> PskIdentity<'a> {
    /// Decodes an identity; `None` if it is not one of NVMe/TCP.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let words: Vec<&str> = text.splitn(5, ' ').collect();
        let (version, host, subsystem) = match words.as_slice() {
            ["NVMe0R01" | "NVMe0R02", host, subsystem] => (IdentityVersion::Zero, host, subsystem),
            ["NVMe1R01" | "NVMe1R02", host, subsystem, _] => (IdentityVersion::One, host, subsystem),
            _ => return None,
        };
        let names = [host, subsystem].iter().all(|name| crate::spec::nqn(name).is_some());
        names.then_some(Self { text, version, host, subsystem })
    }
}

#[cfg(test)]
#[path = "psk_test.rs"]
mod tests;
