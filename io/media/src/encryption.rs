//! Encryption at rest: AES-256-GCM with keys derived from one data key, of which every drive has a wrapped copy.
//!
//! # Why no nonce is used twice with a key
//!
//! An owner, which is one opening of the shelf, draws a random number of 64 bits, its salt, and encrypts with keys of
//! its own: one for each kind of record, `HMAC-SHA-256(data key, kind ‖ salt)`. Every record has the salt, so that
//! later owners can decrypt it; they never encrypt with it. So only the nonces of one owner must be distinct:
//!
//! - *Sectors*: the nonce is the generation of the segment and the number of the page in it. An owner gives every
//!   segment that it places another generation, from a counter in memory, and writes each of its stripes once, which
//!   is asserted. A segment that an older owner began is never continued. Repair, rebuild and evacuation move sectors as
//!   they are, and parity is computed over ciphertext.
//! - *Journal batches*: the nonce is the address in the journal, which only grows. A place of the ring that is written
//!   again has another address; an address that is written again after a crash is written by another owner. Recovery
//!   copies records as they are.
//! - *Superblocks*: the nonce is the sequence number, which a superblock gets when it is written for the first time;
//!   writing it to drives that lack it gives the same bytes.
//!
//! Nonces also contain the epoch. It alone would not be enough: if an array was started with some of its drives and
//! then with the others, two owners have the same epoch. Epoch and 64 random bits would both have to be equal.
//!
//! An owner that encrypts 4 PiB leaves an adversary an advantage below 2⁻³² (2⁴⁸ blocks, squared, of 2¹²⁹); the next
//! opening has new keys.

pub use crate::cipher::{Cipher, TAG_BYTES};

use crate::codec::{ENVELOPES, Reader, Writer, crc32c};
use crate::sector::Sectors;
use aws_lc_rs::{constant_time, hmac};
use bytes::Bytes;
use parking_lot::RwLock;
use shelf::pool::{KEY_BYTES, KeySource, WrappedKey};
use shelf::{ALIGN, AlignedBuf};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The data key, from which all keys of an array are derived. It is stored only wrapped.
#[derive(Clone)]
pub struct DataKey([u8; KEY_BYTES]);

impl DataKey {
    /// A key of random bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    fn derive(&self, kind: &[u8], salt: u64) -> [u8; KEY_BYTES] {
        // HMAC is a pseudorandom function of kind and salt; the data key is random already.
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.0));
        context.update(kind);
        context.update(&salt.to_le_bytes());
        let mut derived = [0; KEY_BYTES];
        derived.copy_from_slice(context.sign().as_ref());
        derived
    }

    fn cipher(&self, kind: Kind, salt: u64) -> Cipher {
        Cipher::new(&self.derive(kind.name(), salt))
    }

    /// A check value that distinguishes keys and reveals nothing about them.
    fn check(&self) -> [u8; 16] {
        let mut check = [0; 16];
        check.copy_from_slice(&self.derive(b"check", 0)[..16]);
        check
    }
}

impl Drop for DataKey {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}

impl std::fmt::Debug for DataKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("DataKey")
    }
}

/// Kinds of encrypted records, each with a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Sectors of segments.
    Segments,
    /// Journal batches.
    Journal,
    /// Superblock payloads.
    Superblock,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Segments, Self::Journal, Self::Superblock];

    fn name(self) -> &'static [u8] {
        match self {
            Self::Segments => b"segments",
            Self::Journal => b"journal",
            Self::Superblock => b"superblock",
        }
    }
}

/// The keys of an array, if it is encrypted: encodes and decodes every kind of record with them, or in clear.
pub struct Keyring {
    array: u128,
    keys: Option<Keys>,
}

struct Keys {
    data: DataKey,
    /// Ciphers of the current owner by kind, so that writes take no lock.
    own: Option<(u64, [Arc<Cipher>; 3])>,
    /// Ciphers of other owners, derived on first use.
    ciphers: RwLock<BTreeMap<(Kind, u64), Arc<Cipher>>>,
}

impl Keyring {
    /// A keyring of an array without encryption.
    pub fn clear(array: u128) -> Self {
        Self { array, keys: None }
    }

    /// A keyring of an encrypted array that decrypts records of any owner.
    pub fn sealed(array: u128, key: DataKey) -> Self {
        Self { array, keys: Some(Keys { data: key, own: None, ciphers: RwLock::default() }) }
    }

    /// The keyring of the owner with this salt; without encryption if there is no key.
    pub fn new(array: u128, key: Option<DataKey>, salt: u64) -> Self {
        let Some(data) = key else { return Self::clear(array) };
        let own = Kind::ALL.map(|kind| Arc::new(data.cipher(kind, salt)));
        Self { array, keys: Some(Keys { data, own: Some((salt, own)), ciphers: RwLock::default() }) }
    }

    /// The array.
    pub fn array(&self) -> u128 {
        self.array
    }

    /// True if there is a key.
    pub fn is_sealed(&self) -> bool {
        self.keys.is_some()
    }

    /// The cipher for records of the owner with this salt; `None` if they are in clear.
    pub fn cipher(&self, kind: Kind, salt: u64) -> Option<Arc<Cipher>> {
        let keys = self.keys.as_ref()?;
        if let Some((own, ciphers)) = &keys.own
            && *own == salt
        {
            return Some(ciphers[kind as usize].clone());
        }
        if let Some(cipher) = keys.ciphers.read().get(&(kind, salt)) {
            return Some(cipher.clone());
        }
        let mut ciphers = keys.ciphers.write();
        let made = || Arc::new(keys.data.cipher(kind, salt));
        Some(ciphers.entry((kind, salt)).or_insert_with(made).clone())
    }

    /// Encodes and verifies the sectors of the owner with this salt.
    pub fn sectors(&self, salt: u64) -> Sectors {
        match self.cipher(Kind::Segments, salt) {
            Some(cipher) => Sectors::Sealed(cipher),
            None => Sectors::Clear { array: self.array, salt },
        }
    }

    /// The same data key under another key-encryption key: the successor of an envelope. `None` if there is no key.
    pub fn rewrap(
        &self,
        envelope: &Envelope,
        source: KeySource,
        kek: &[u8; KEY_BYTES],
        nonce: [u8; 12],
    ) -> Option<Envelope> {
        self.keys.as_ref().map(|keys| envelope.rewrap(&keys.data, source, kek, nonce))
    }

    /// True if an envelope holds this data key.
    pub fn fits(&self, envelope: &Envelope) -> bool {
        self.keys.as_ref().is_some_and(|keys| {
            constant_time::verify_slices_are_equal(&keys.data.check(), &envelope.check).is_ok()
        })
    }
}

/// The wrapped data key as it is stored, twice on every drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The array.
    pub array: u128,
    /// Incremented by every change.
    pub sequence: u64,
    /// Where the key-encryption key comes from.
    pub source: KeySource,
    check: [u8; 16],
    nonce: [u8; 12],
    wrapped: [u8; KEY_BYTES],
    tag: [u8; TAG_BYTES],
}

const MAGIC: [u8; 8] = *b"ASH_KEYS";
const CHECKSUM_AT: usize = ALIGN - 4;
/// Offset after the part that the tag authenticates.
const NONCE_AT: usize = 2048;

impl Envelope {
    /// Wraps the data key. `nonce` is random: it must be unique for the key-encryption key.
    pub fn wrap(
        array: u128,
        key: &DataKey,
        source: KeySource,
        kek: &[u8; KEY_BYTES],
        nonce: [u8; 12],
    ) -> Self {
        let (check, wrapped, tag) = (key.check(), key.0, [0; TAG_BYTES]);
        Self { array, sequence: 1, source, check, nonce, wrapped, tag }.seal_with(kek)
    }

    /// The same data key under another key-encryption key: the successor of this envelope.
    pub fn rewrap(&self, key: &DataKey, source: KeySource, kek: &[u8; KEY_BYTES], nonce: [u8; 12]) -> Self {
        Self { sequence: self.sequence + 1, source, nonce, wrapped: key.0, ..self.clone() }.seal_with(kek)
    }

    /// An erased envelope that replaces this one.
    pub fn erased(&self) -> Self {
        let (check, nonce, wrapped, tag) = ([0; 16], [0; 12], [0; KEY_BYTES], [0; TAG_BYTES]);
        Self {
            array: self.array,
            sequence: self.sequence + 1,
            source: KeySource::Erased,
            check,
            nonce,
            wrapped,
            tag,
        }
    }

    fn seal_with(mut self, kek: &[u8; KEY_BYTES]) -> Self {
        let aad = self.aad();
        self.tag = Cipher::new(kek).seal(&self.nonce, &aad, &mut self.wrapped);
        self
    }

    /// The data key; `None` if it was wrapped with another key-encryption key.
    pub fn open(&self, kek: &[u8; KEY_BYTES]) -> Option<DataKey> {
        let mut key = DataKey([0; KEY_BYTES]);
        let open = self.source != KeySource::Erased
            && Cipher::new(kek).open(&self.nonce, &self.aad(), &self.wrapped, &self.tag, &mut key.0);
        open.then_some(key)
    }

    /// The additional data: everything that is not secret.
    fn aad(&self) -> [u8; NONCE_AT] {
        let mut aad = [0; NONCE_AT];
        let mut out = Writer::new(&mut aad);
        out.put(&MAGIC).put(&ENVELOPES.current.to_le_bytes()).put(&[0; 4]);
        out.put(&self.array.to_le_bytes()).put(&self.sequence.to_le_bytes()).put(&self.check);
        match &self.source {
            KeySource::Erased => _ = out.put(&0u32.to_le_bytes()),
            KeySource::File => _ = out.put(&1u32.to_le_bytes()),
            KeySource::Passphrase { salt, memory, passes, lanes } => {
                out.put(&2u32.to_le_bytes()).put(salt);
                [memory, passes, lanes].iter().for_each(|number| _ = out.put(&number.to_le_bytes()));
            }
            KeySource::Kmip { id } => {
                let id = &id.as_bytes()[..id.len().min(KeySource::MAX_ID_BYTES)];
                out.put(&3u32.to_le_bytes()).put(&(id.len() as u32).to_le_bytes()).put(id);
            }
        }
        aad
    }

    /// Encodes the page.
    pub fn encode(&self) -> Bytes {
        let mut page = AlignedBuf::zeroed(ALIGN);
        page[..NONCE_AT].copy_from_slice(&self.aad());
        Writer::new(&mut page[NONCE_AT..]).put(&self.nonce).put(&self.wrapped).put(&self.tag);
        let checksum = crc32c([&page[..CHECKSUM_AT]]);
        page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        Arc::new(page).share(0..ALIGN)
    }

    /// Decodes a page; `None` if it is not a valid one of this array.
    pub fn decode(page: &[u8], array: u128) -> Option<Self> {
        let covered = page.get(..CHECKSUM_AT)?;
        let mut from = Reader(covered);
        let is_valid = from.take() == Some(MAGIC)
            && Reader(page.get(CHECKSUM_AT..)?).u32() == Some(crc32c([covered]))
            && from.u32().is_some_and(|version| ENVELOPES.reads(version));
        from.take::<4>()?;
        if !is_valid || from.u128()? != array {
            return None;
        }
        let (sequence, check) = (from.u64()?, from.take()?);
        let source = match from.u32()? {
            0 => KeySource::Erased,
            1 => KeySource::File,
            2 => KeySource::Passphrase {
                salt: from.take()?,
                memory: from.u32()?,
                passes: from.u32()?,
                lanes: from.u32()?,
            },
            3 => {
                let len = from.u32()? as usize;
                let id = from.0.get(..len).filter(|_| len <= KeySource::MAX_ID_BYTES)?;
                KeySource::Kmip { id: std::str::from_utf8(id).ok()?.to_owned() }
            }
            _ => return None,
        };
        let mut from = Reader(covered.get(NONCE_AT..)?);
        let (nonce, wrapped, tag) = (from.take()?, from.take()?, from.take()?);
        Some(Self { array, sequence, source, check, nonce, wrapped, tag })
    }
}

impl Envelope {
    /// The version of a valid envelope of this array, if this release can't read it.
    pub fn unknown_version(page: &[u8], array: u128) -> Option<u32> {
        let covered = page.get(..CHECKSUM_AT)?;
        let mut from = Reader(covered);
        let valid =
            from.take() == Some(MAGIC) && Reader(page.get(CHECKSUM_AT..)?).u32() == Some(crc32c([covered]));
        let version = from.u32()?;
        from.take::<4>()?;
        (valid && from.u128()? == array && !ENVELOPES.reads(version)).then_some(version)
    }
}

impl WrappedKey for Envelope {
    fn source(&self) -> &KeySource {
        &self.source
    }

    fn generation(&self) -> u64 {
        self.sequence
    }

    fn opens(&self, key: &[u8; KEY_BYTES]) -> bool {
        self.open(key).is_some()
    }
}

#[cfg(test)]
#[path = "encryption_test.rs"]
mod tests;
