//! Superblocks and journal batches as they are stored. `docs/format/rados.md` draws them.
//!
//! Fields are little-endian and consecutive, under a CRC32C; an encrypted record has an authentication tag instead of
//! the checksum of its content. The fields before the checksum are never encrypted.

use bytes::Bytes;
use media::codec::{Reader, Versions, Writer, crc32c, pages};
use media::encryption::{Keyring, Kind, TAG_BYTES};
use shelf::{Batch, JournalPos, Layout, Superblock};

/// Versions of superblocks and batches.
pub const RECORDS: Versions = Versions { oldest: 1, current: 1 };

/// Lanes of the journal: appends that may be under way.
pub const LANES: usize = 4;

/// Bytes in front of the head of a batch, and of the content of a superblock.
pub const HEADER_BYTES: usize = 256;

const SUPERBLOCK: [u8; 8] = *b"ASHRSUPB";
const BATCH: [u8; 8] = *b"ASHRBTCH";
const CHECKSUM_AT: usize = HEADER_BYTES - 4;
/// Bytes of an epoch of the journal in a superblock.
const TERM_BYTES: usize = 16 + 8 * LANES;
/// Numbers of batches and superblocks are smaller, so that arithmetic on them can't overflow.
const MAX_NUMBER: u64 = 1 << 62;

/// The part of the journal that one owner wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// The owner.
    pub epoch: u64,
    /// Its first batch. Batches of older owners from here on are not part of the journal.
    pub from: JournalPos,
    /// The number of the first object of each lane that may still exist.
    pub first_object: [u64; LANES],
}

/// A superblock with the fields of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSuperblock {
    /// The owner that wrote it.
    pub epoch: u64,
    /// The salt of that owner.
    pub salt: u64,
    /// One more with every superblock.
    pub sequence: u64,
    /// Sizes, fixed when the store was formatted.
    pub layout: Layout,
    /// Owners whose batches are in the journal, oldest first, the current one last.
    pub terms: Vec<Term>,
    /// The address of the owner's client, to fence it.
    pub instance: String,
    /// The engine's superblock; `None` until it has written one.
    pub superblock: Option<Superblock>,
}

impl StoredSuperblock {
    /// Encodes it.
    pub fn encode(&self, keyring: &Keyring) -> Bytes {
        let (from, payload) = match &self.superblock {
            Some(superblock) => (superblock.journal_from.0, &superblock.payload[..]),
            None => (0, &[][..]),
        };
        let instance = &self.instance.as_bytes()[..self.instance.len().min(usize::from(u16::MAX))];
        let mut content = Vec::with_capacity(self.terms.len() * TERM_BYTES + instance.len() + payload.len());
        for term in &self.terms {
            content.extend(term.epoch.to_le_bytes());
            content.extend(term.from.0.to_le_bytes());
            term.first_object.iter().for_each(|object| content.extend(object.to_le_bytes()));
        }
        content.extend_from_slice(instance);
        content.extend_from_slice(payload);
        let mut header = [0; HEADER_BYTES];
        let layout = &self.layout;
        let mut out = Writer::new(&mut header);
        out.put(&SUPERBLOCK).put(&RECORDS.current.to_le_bytes()).put(&keyring.array().to_le_bytes());
        out.put(&self.epoch.to_le_bytes()).put(&self.salt.to_le_bytes()).put(&self.sequence.to_le_bytes());
        out.put(&layout.segment_bytes.to_le_bytes()).put(&layout.stripe_bytes.to_le_bytes());
        out.put(&layout.segments.to_le_bytes()).put(&layout.journal_bytes.to_le_bytes());
        out.put(&layout.batch_bytes.to_le_bytes()).put(&layout.superblock_bytes.to_le_bytes());
        out.put(&from.to_le_bytes()).put(&(self.terms.len() as u16).to_le_bytes());
        out.put(&(instance.len() as u16).to_le_bytes()).put(&(content.len() as u32).to_le_bytes());
        let nonce = nonce(self.sequence, self.epoch);
        close(header, content, keyring, (Kind::Superblock, self.salt), &nonce).into()
    }

    /// Decodes it; `None` if it is not a whole superblock of this array.
    pub fn decode(bytes: &[u8], keyring: &Keyring) -> Option<Self> {
        let mut from = Reader(bytes.get(..CHECKSUM_AT)?);
        if from.take() != Some(SUPERBLOCK)
            || !RECORDS.reads(from.u32()?)
            || from.u128() != Some(keyring.array())
        {
            return None;
        }
        let (epoch, salt, sequence) = (from.u64()?, from.u64()?, from.u64()?);
        let layout = Layout {
            segment_bytes: from.u32()?,
            stripe_bytes: from.u32()?,
            segments: from.u32()?,
            journal_bytes: from.u64()?,
            batch_bytes: from.u32()?,
            superblock_bytes: from.u32()?,
        };
        let journal_from = JournalPos(from.u64()?);
        let counts: [u8; 4] = from.take()?;
        let terms = usize::from(u16::from_le_bytes([counts[0], counts[1]]));
        let instance = usize::from(u16::from_le_bytes([counts[2], counts[3]]));
        let len = from.u32()? as usize;
        let content = open(bytes, len, keyring, (Kind::Superblock, salt), &nonce(sequence, epoch))?;
        let (terms, rest) = content.split_at_checked(terms * TERM_BYTES)?;
        let (instance, payload) = rest.split_at_checked(instance)?;
        let terms = terms.chunks_exact(TERM_BYTES).map(decode_term).collect::<Option<Vec<_>>>()?;
        let sound = epoch < MAX_NUMBER
            && sequence < MAX_NUMBER
            && journal_from.0 < MAX_NUMBER
            && layout.stripe_bytes > 0
            && layout.segment_bytes.is_multiple_of(layout.stripe_bytes)
            && terms.is_sorted_by(|a, b| a.epoch < b.epoch && a.from <= b.from);
        let payload = Bytes::copy_from_slice(payload);
        let superblock = (journal_from.0 > 0).then_some(Superblock { journal_from, payload });
        let instance = String::from_utf8(instance.to_vec()).ok()?;
        sound.then_some(Self { epoch, salt, sequence, layout, terms, instance, superblock })
    }

    /// The array that a superblock is of; `None` if it is no superblock.
    pub fn array(bytes: &[u8]) -> Option<u128> {
        let mut from = Reader(bytes);
        let is_superblock = from.take() == Some(SUPERBLOCK);
        from.u32()?;
        from.u128().filter(|_| is_superblock)
    }

    /// Why a superblock of this array can't be read by this release, and what to do; `None` if the version is not the
    /// reason.
    pub fn refusal(bytes: &[u8]) -> Option<shelf::Error> {
        let mut from = Reader(bytes);
        let version = (from.take() == Some(SUPERBLOCK)).then(|| from.u32())??;
        (!RECORDS.reads(version)).then(|| RECORDS.refusal("the superblock in RADOS", version))
    }
}

fn decode_term(bytes: &[u8]) -> Option<Term> {
    let mut from = Reader(bytes);
    let (epoch, first) = (from.u64()?, JournalPos(from.u64()?));
    let mut first_object = [0; LANES];
    for object in &mut first_object {
        *object = from.u64()?;
    }
    let sound = first.0 < MAX_NUMBER && first_object.iter().all(|object| *object < MAX_NUMBER);
    sound.then_some(Term { epoch, from: first, first_object })
}

/// Bytes of the journal that a batch takes.
pub fn batch_bytes(head: usize, body: usize) -> u64 {
    pages((HEADER_BYTES + head + body) as u64)
}

/// A batch in the journal.
#[derive(Clone, Debug)]
pub struct StoredBatch {
    /// The owner that wrote it.
    pub epoch: u64,
    /// The newest batch that was acknowledged when this one was encoded.
    pub acknowledged: JournalPos,
    /// The batch.
    pub batch: Batch,
}

/// Encodes a batch of the owner with this epoch and salt, in whole pages.
pub fn encode_batch(
    (pos, acknowledged): (JournalPos, JournalPos),
    head: &[u8],
    body: &[Bytes],
    (epoch, salt): (u64, u64),
    keyring: &Keyring,
) -> Bytes {
    let len = head.len() + body.iter().map(Bytes::len).sum::<usize>();
    let mut content = Vec::with_capacity(pages((HEADER_BYTES + len) as u64) as usize);
    content.extend_from_slice(head);
    body.iter().for_each(|piece| content.extend_from_slice(piece));
    let mut header = [0; HEADER_BYTES];
    let mut out = Writer::new(&mut header);
    out.put(&BATCH).put(&RECORDS.current.to_le_bytes()).put(&keyring.array().to_le_bytes());
    out.put(&epoch.to_le_bytes()).put(&salt.to_le_bytes()).put(&pos.0.to_le_bytes());
    out.put(&(head.len() as u32).to_le_bytes()).put(&((len - head.len()) as u32).to_le_bytes());
    out.put(&acknowledged.0.to_le_bytes());
    let mut record = close(header, content, keyring, (Kind::Journal, salt), &nonce(pos.0, epoch));
    record.resize(pages(record.len() as u64) as usize, 0);
    record.into()
}

/// Decodes the batch at the front of `bytes` and returns it with the bytes that it takes; `None` if there is none that
/// is whole.
pub fn decode_batch(bytes: &[u8], keyring: &Keyring) -> Option<(StoredBatch, usize)> {
    let mut from = Reader(bytes.get(..CHECKSUM_AT)?);
    if from.take() != Some(BATCH) || !RECORDS.reads(from.u32()?) || from.u128() != Some(keyring.array()) {
        return None;
    }
    let (epoch, salt, pos) = (from.u64()?, from.u64()?, from.u64()?);
    let (head, body) = (from.u32()? as usize, from.u32()? as usize);
    let acknowledged = JournalPos(from.u64()?);
    if epoch >= MAX_NUMBER || pos >= MAX_NUMBER {
        return None;
    }
    let len = head.checked_add(body)?;
    let content: Bytes = open(bytes, len, keyring, (Kind::Journal, salt), &nonce(pos, epoch))?.into();
    let batch = Batch { pos: JournalPos(pos), head: content.slice(..head), body: content.slice(head..) };
    Some((StoredBatch { epoch, acknowledged, batch }, batch_bytes(head, body) as usize))
}

/// An owner uses each number once for a kind of record, and the key is the owner's.
fn nonce(number: u64, epoch: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    nonce[8..].copy_from_slice(&(epoch as u32).to_le_bytes());
    nonce
}

/// Offset of the tag, or of the checksum of a content in clear.
const TAG_AT: usize = CHECKSUM_AT - TAG_BYTES;

/// Encrypts the content if there is a key, and completes the header.
fn close(
    mut header: [u8; HEADER_BYTES],
    mut content: Vec<u8>,
    keyring: &Keyring,
    (kind, salt): (Kind, u64),
    nonce: &[u8; 12],
) -> Vec<u8> {
    let tag = match keyring.cipher(kind, salt) {
        Some(cipher) => cipher.seal(nonce, &header[..TAG_AT], &mut content),
        None => {
            let mut tag = [0; TAG_BYTES];
            tag[..4].copy_from_slice(&crc32c([&content[..]]).to_le_bytes());
            tag
        }
    };
    header[TAG_AT..CHECKSUM_AT].copy_from_slice(&tag);
    let checksum = crc32c([&header[..CHECKSUM_AT]]);
    header[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    let mut record = Vec::with_capacity(pages((HEADER_BYTES + content.len()) as u64) as usize);
    record.extend_from_slice(&header);
    record.append(&mut content);
    record
}

/// Verifies a record and decrypts its content, `len` bytes after the header.
fn open(
    record: &[u8],
    len: usize,
    keyring: &Keyring,
    (kind, salt): (Kind, u64),
    nonce: &[u8; 12],
) -> Option<Vec<u8>> {
    let (header, rest) = record.split_at_checked(HEADER_BYTES)?;
    let (covered, checksum) = header.split_at_checked(CHECKSUM_AT)?;
    if Reader(checksum).u32()? != crc32c([covered]) {
        return None;
    }
    let content = rest.get(..len)?;
    let (fields, tag) = covered.split_at_checked(TAG_AT)?;
    match keyring.cipher(kind, salt) {
        Some(cipher) => {
            let mut clear = vec![0; len];
            cipher.open(nonce, fields, content, tag, &mut clear).then_some(clear)
        }
        None => (Reader(tag).u32()? == crc32c([content])).then(|| content.to_vec()),
    }
}

#[cfg(test)]
#[path = "record_test.rs"]
mod tests;
