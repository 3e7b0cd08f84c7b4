//! Authenticated encryption with one key: the primitive of [`encryption`](crate::encryption).

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use shelf::pool::KEY_BYTES;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// AES-256-GCM with one key. The caller never uses a nonce twice.
pub struct Cipher(LessSafeKey);

impl Cipher {
    /// A cipher with this key.
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("a key of 32 bytes")))
    }

    /// Encrypts in place and returns the tag, which authenticates `aad` as well.
    pub fn seal(&self, nonce: &[u8; 12], aad: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(aad), bytes);
        let mut out = [0; TAG_BYTES];
        out.copy_from_slice(tag.expect("the message is far from the limit").as_ref());
        out
    }

    /// Decrypts into `out`, which is as long; false if key, nonce, additional data or bytes are not those of the
    /// encryption.
    pub fn open(&self, nonce: &[u8; 12], aad: &[u8], bytes: &[u8], tag: &[u8], out: &mut [u8]) -> bool {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.0.open_separate_gather(nonce, Aad::from(aad), bytes, tag, out).is_ok()
    }
}
