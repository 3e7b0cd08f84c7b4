//! What a new owner does before it serves: it claims the superblocks, seals the journals of older owners, and reads them.

use crate::journal::{object_name, parse_name};
use crate::objects::{Name, ObjectError, Objects, Operation, Pool, Step};
use crate::owned::{OWNER, claim, failure, hex};
use crate::record::{LANES, StoredSuperblock, Term, batch_bytes, decode_batch};
use bytes::Bytes;
use media::encryption::Keyring;
use shelf::{Batch, Error, JournalPos, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The attribute of a journal object that is a tombstone.
const TOMBSTONE: &str = "tombstone";

/// Maximum number of bytes that are read of an object.
const MAX_OBJECT_BYTES: u64 = 128 << 20;

/// A superblock object; superblocks are written to both in turn.
pub fn superblock_name(domain: u16, slot: u64) -> Name {
    Name { pool: Pool::Meta, name: format!("super.{domain:04x}.{}", slot % 2) }
}

/// The journal of older owners: what is left of it when it is sealed.
pub struct Sealed {
    /// Batches that belong to the journal, in order and without gaps.
    pub batches: Vec<Batch>,
    /// The number after the last of them.
    pub next: JournalPos,
    /// Objects, each with the number from which on its batches are not needed.
    pub objects: Vec<(LaneObject, JournalPos)>,
    /// Where each lane of each owner ends: these are empty, and stay until their owner is known to be gone.
    pub tombstones: Vec<LaneObject>,
}

/// Epoch, lane and number of an object of the journal.
pub type LaneObject = (u64, usize, u64);

/// A client of RADOS that takes over a store.
pub struct Takeover<'a> {
    /// The client.
    pub objects: &'a Arc<dyn Objects>,
    /// The domain.
    pub domain: u16,
    /// The new owner.
    pub epoch: u64,
    /// The keys of the array.
    pub keyring: &'a Keyring,
}

impl Takeover<'_> {
    /// Makes both superblocks refuse every older owner, and returns the newest.
    ///
    /// # Errors
    /// [`Error::Fenced`] when a newer owner was faster; [`Error::Unusable`] when there is no array, or one of another
    /// release; [`Error::Corrupt`] when neither superblock is whole.
    pub async fn claim(&self) -> Result<StoredSuperblock> {
        for slot in 0..2 {
            let name = superblock_name(self.domain, slot);
            let claimed = self.objects.operate(&name, claim(self.epoch)).await;
            claimed.map_err(|error| failure(&name, &error, self.epoch))?;
        }
        self.newest_superblock().await
    }

    /// The newest superblock.
    ///
    /// # Errors
    /// As [`Takeover::claim`].
    pub async fn newest_superblock(&self) -> Result<StoredSuperblock> {
        let (mut newest, mut absent) = (None::<StoredSuperblock>, 0);
        for slot in 0..2 {
            let name = superblock_name(self.domain, slot);
            let bytes = match self.objects.read(&name, 0, MAX_OBJECT_BYTES).await {
                Ok(bytes) => bytes,
                Err(ObjectError::Absent) => {
                    absent += 1;
                    continue;
                }
                Err(error) => return Err(failure(&name, &error, self.epoch)),
            };
            if let Some(refusal) = StoredSuperblock::refusal(&bytes) {
                return Err(refusal);
            }
            let found = StoredSuperblock::decode(&bytes, self.keyring);
            let newer = found.filter(|found| newest.as_ref().is_none_or(|it| it.sequence < found.sequence));
            newest = newer.or(newest);
        }
        match newest {
            Some(newest) => Ok(newest),
            None if absent == 2 => Err(Error::Unusable(format!(
                "there is no array {:032x} in this pool and namespace: check the pool's name, or format it",
                self.keyring.array()
            ))),
            None => Err(Error::Corrupt {
                what: format!(
                    "neither superblock of array {:032x} is whole, or the key is not its key",
                    self.keyring.array()
                ),
            }),
        }
    }

    /// Seals the journal of every older owner and reads it.
    ///
    /// # Errors
    /// [`Error::Fenced`] when a newer owner was faster; [`Error::Corrupt`] when something is missing that was
    /// acknowledged.
    pub async fn seal(&self, terms: &[Term], trimmed: JournalPos) -> Result<Sealed> {
        let listed = self.objects.list(Pool::Meta).await;
        let listed = listed.map_err(|error| Error::Drive { what: format!("listing objects: {error}") })?;
        let highest = highest_objects(&listed, self.domain);
        let mut found = BTreeMap::new();
        let mut acknowledged = JournalPos(trimmed.0.saturating_sub(1));
        let mut sealed =
            Sealed { batches: Vec::new(), next: trimmed, objects: Vec::new(), tombstones: Vec::new() };
        for (at, term) in terms.iter().enumerate() {
            let end = terms.get(at + 1).map_or(JournalPos(u64::MAX), |next| next.from);
            for lane in 0..LANES {
                let mut number = term.first_object[lane];
                while let Some(bytes) = self.seal_object(term.epoch, lane, number).await? {
                    let name = object_name(self.domain, term.epoch, lane, number);
                    let mut last = JournalPos(0);
                    for stored in self.decode(&name, &bytes, term.epoch)? {
                        last = stored.1.pos;
                        if last < end {
                            acknowledged = acknowledged.max(stored.0);
                            found.insert(last, stored.1);
                        }
                    }
                    let needed_to = JournalPos(last.0.min(end.0.saturating_sub(1)) + 1);
                    sealed.objects.push(((term.epoch, lane, number), needed_to));
                    number += 1;
                }
                let tombstone = object_name(self.domain, term.epoch, lane, number);
                if highest.get(&(term.epoch, lane)).is_some_and(|highest| *highest > number) {
                    return Err(Error::Corrupt { what: format!("{} is missing or empty", tombstone.name) });
                }
                sealed.tombstones.push((term.epoch, lane, number));
            }
        }
        while let Some(batch) = found.remove(&sealed.next) {
            sealed.batches.push(batch);
            sealed.next = JournalPos(sealed.next.0 + 1);
        }
        if acknowledged >= sealed.next {
            let (lost, newest) = (sealed.next.0, acknowledged.0);
            return Err(Error::Corrupt {
                what: format!("batch {lost} of the journal is missing, up to {newest} were acknowledged"),
            });
        }
        Ok(sealed)
    }

    /// Makes an object of a lane refuse its owner and returns its content. Where there is none it leaves a tombstone, so
    /// that the owner can't create it, and returns `None`.
    async fn seal_object(&self, epoch: u64, lane: usize, number: u64) -> Result<Option<Bytes>> {
        let name = object_name(self.domain, epoch, lane, number);
        let failed = |error: ObjectError| failure(&name, &error, self.epoch);
        loop {
            match self.objects.operate(&name, claim(self.epoch)).await {
                Ok(()) => {
                    let bytes = self.objects.read(&name, 0, MAX_OBJECT_BYTES).await.map_err(failed)?;
                    return Ok((!bytes.is_empty()).then_some(bytes));
                }
                Err(ObjectError::Absent) => {}
                Err(error) => return Err(failed(error)),
            }
            let steps = vec![
                Step::CreateExclusive,
                Step::set(OWNER, hex(self.epoch)),
                Step::set(TOMBSTONE, hex(epoch)),
            ];
            match self.objects.operate(&name, Operation { steps, force: true }).await {
                Ok(()) => return Ok(None),
                // Its owner was faster: it is sealed in the next round.
                Err(ObjectError::Exists) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// The batches of an object, each with the newest that was acknowledged when it was written.
    fn decode(&self, name: &Name, bytes: &Bytes, epoch: u64) -> Result<Vec<(JournalPos, Batch)>> {
        let (mut batches, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let found = decode_batch(&bytes[at..], self.keyring).filter(|(stored, _)| stored.epoch == epoch);
            // RADOS writes a batch wholly or not at all.
            let what = || format!("{}: no batch at byte {at}", name.name);
            let (stored, len) = found.ok_or_else(|| Error::Corrupt { what: what() })?;
            batches.push((stored.acknowledged, stored.batch));
            at += len;
        }
        Ok(batches)
    }

    /// Journal objects that no superblock names any more: their owner ended before it removed them. Tombstones are among
    /// them only if `fenced`.
    pub async fn unused(&self, terms: &[Term], fenced: bool) -> Result<Vec<Name>> {
        let listed = self.objects.list(Pool::Meta).await;
        let listed = listed.map_err(|error| Error::Drive { what: format!("listing objects: {error}") })?;
        let mut unused = Vec::new();
        for (epoch, lane, number) in listed.iter().filter_map(|name| parse_name(name, self.domain)) {
            let used = terms.iter().any(|term| term.epoch == epoch && number >= term.first_object[lane]);
            let name = object_name(self.domain, epoch, lane, number);
            if used || epoch >= self.epoch {
                continue;
            }
            let tombstone = self.objects.attributes(&name).await;
            if fenced || tombstone.is_ok_and(|attributes| !attributes.contains_key(TOMBSTONE)) {
                unused.push(name);
            }
        }
        Ok(unused)
    }
}

fn highest_objects(names: &[String], domain: u16) -> BTreeMap<(u64, usize), u64> {
    let mut highest = BTreeMap::new();
    for (epoch, lane, number) in names.iter().filter_map(|name| parse_name(name, domain)) {
        let entry = highest.entry((epoch, lane)).or_insert(number);
        *entry = number.max(*entry);
    }
    highest
}

/// Numbers and bytes of batches as they count in the journal.
pub fn taken(batches: &[Batch]) -> impl Iterator<Item = (JournalPos, u64)> + '_ {
    batches.iter().map(|batch| (batch.pos, batch_bytes(batch.head.len(), batch.body.len())))
}
