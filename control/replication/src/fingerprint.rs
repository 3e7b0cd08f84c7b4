//! Keyed fingerprints of blocks and the digest of a point; only the two paired arrays have the key.
//!
//! The engine's own fingerprints use keys that never leave their array, so both arrays compute these fingerprints when
//! they read blocks.

use std::fmt;

/// The common key of two paired arrays, derived from a secret.
#[derive(Clone)]
pub struct Key {
    fingerprints: [u8; 32],
    digests: [u8; 32],
}

/// The fingerprint of a block: 128 bits of keyed BLAKE3 over its bytes.
pub type Fingerprint = [u8; 16];

/// A chain over everything that was applied for a point, and over the digest of its base.
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

    /// Digest of the point with this number that both arrays create from the changes after its base, without offers.
    pub(crate) fn seal(&self, base: Digest, number: u64) -> Digest {
        let mut sealed = b"sealed".to_vec();
        sealed.extend(number.to_le_bytes());
        self.chain(base, &sealed)
    }

    /// The digest after `bytes`, as one unit.
    pub fn chain(&self, before: Digest, bytes: &[u8]) -> Digest {
        let mut hasher = blake3::Hasher::new_keyed(&self.digests);
        hasher.update(&before.0).update(bytes);
        Digest(*hasher.finalize().as_bytes())
    }
}
