//! Hash functions of DH-HMAC-CHAP (Base 2.0 figure 447), with digest, HMAC and constant-time comparison.

use aws_lc_rs::{digest, hmac};

/// A hash function. Its discriminant is its identifier in messages, and in the text form of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Hash {
    Sha256 = 1,
    Sha384 = 2,
    Sha512 = 3,
}

impl Hash {
    /// Longest digest in bytes.
    pub(crate) const MAX_BYTES: usize = 64;

    /// All hash functions, the preferred one first: SHA-384 and SHA-512 cost the same on 64-bit processors.
    pub(crate) const PREFERRED: [Hash; 3] = [Hash::Sha512, Hash::Sha384, Hash::Sha256];

    /// Bytes of a digest.
    pub(crate) fn bytes(self) -> usize {
        self.hmac().digest_algorithm().output_len()
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha384 => hmac::HMAC_SHA384,
            Hash::Sha512 => hmac::HMAC_SHA512,
        }
    }

    /// The digest of `bytes`.
    pub(crate) fn digest(self, bytes: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Hash::Sha256 => &digest::SHA256,
            Hash::Sha384 => &digest::SHA384,
            Hash::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, bytes).as_ref().to_vec()
    }

    /// The HMAC (RFC 2104) of the parts, one after the other.
    pub(crate) fn mac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&hmac::Key::new(self.hmac(), key));
        parts.iter().for_each(|part| context.update(part));
        context.sign().as_ref().to_vec()
    }
}

/// Whether two values are equal, compared in constant time.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}
