//! Keyed fingerprints of blocks and the digest of a point, under a key that only the two arrays have.
//!
//! The arrays' own fingerprints are under keys of their own, which never leave them: both compute these when they read.

use std::fmt;

/// The key of two paired arrays, from a secret that both have.
#[derive(Clone)]
pub struct Key {
    fingerprints: [u8; 32],
    digests: [u8; 32],
}

/// The fingerprint of a block: 128 bits of keyed BLAKE3 over its bytes.
pub type Fingerprint = [u8; 16];

/// Chained over everything that was applied for a point, and over the digest of its base.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Derives the key from the secret of the pairing.
    pub fn new(secret: &[u8]) -> Self {
        Self {
            fingerprints: blake3::derive_key("Ashlar 2026 replication: fingerprints of blocks", secret),
            digests: blake3::derive_key("Ashlar 2026 replication: digests of points", secret),
        }
    }

    /// The fingerprint of a block.
    pub fn fingerprint(&self, block: &[u8]) -> Fingerprint {
        let mut out = Fingerprint::default();
        out.copy_from_slice(&blake3::keyed_hash(&self.fingerprints, block).as_bytes()[..16]);
        out
    }

    /// The digest of the point with this number that both arrays have by the changes after its base, without offers.
    pub(crate) fn seal(&self, base: Digest, number: u64) -> Digest {
        let mut sealed = b"sealed".to_vec();
        sealed.extend(number.to_le_bytes());
        self.chain(base, &sealed)
    }

    /// The digest after `bytes`, which is one unit of its own.
    pub fn chain(&self, before: Digest, bytes: &[u8]) -> Digest {
        let mut hasher = blake3::Hasher::new_keyed(&self.digests);
        hasher.update(&before.0).update(bytes);
        Digest(*hasher.finalize().as_bytes())
    }
}
