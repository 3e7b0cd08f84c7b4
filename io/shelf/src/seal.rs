//! Encryption at rest: AES-256-GCM under one data key, and the data key wrapped by whatever a [`KeySource`] has.

use crate::sector::Sectors;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// One key for one kind of record. The caller never uses a nonce twice with it.
pub struct Cipher(LessSafeKey);

impl Cipher {
    /// The key for records of this kind, derived from the data key: nonces need to be unique within a kind only.
    pub fn new(data_key: &[u8; KEY_BYTES], kind: &[u8]) -> Self {
        // HMAC is a pseudorandom function of the kind; the data key is random already.
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, data_key), kind);
        let key = UnboundKey::new(&AES_256_GCM, derived.as_ref()).expect("a key of 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Encrypts in place and returns the tag.
    pub fn seal(&self, nonce: &[u8; 12], bytes: &mut [u8]) -> [u8; 16] {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::empty(), bytes);
        let mut out = [0; 16];
        out.copy_from_slice(tag.expect("the message is far from the limit").as_ref());
        out
    }

    /// Decrypts into `out`, which is as long; false when it is not what was sealed.
    pub fn open(&self, nonce: &[u8; 12], bytes: &[u8], tag: &[u8], out: &mut [u8]) -> bool {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.0.open_separate_gather(nonce, Aad::empty(), bytes, tag, out).is_ok()
    }
}

/// What makes and opens each kind of record.
pub struct Vault {
    /// Sectors of segments.
    pub segments: Sectors,
    /// Journal batches, when they are sealed.
    pub journal: Option<Cipher>,
    /// Superblock payloads, when they are sealed.
    pub superblock: Option<Cipher>,
}

impl Vault {
    /// Everything in clear.
    pub fn clear(array: u128) -> Self {
        Self { segments: Sectors::Clear { array }, journal: None, superblock: None }
    }

    /// Everything sealed under keys derived from this one.
    pub fn sealed(data_key: &[u8; KEY_BYTES]) -> Self {
        Self {
            segments: Sectors::Sealed(Box::new(Cipher::new(data_key, b"segments"))),
            journal: Some(Cipher::new(data_key, b"journal")),
            superblock: Some(Cipher::new(data_key, b"superblock")),
        }
    }

    /// True when there is a key.
    pub fn is_sealed(&self) -> bool {
        self.journal.is_some()
    }
}
