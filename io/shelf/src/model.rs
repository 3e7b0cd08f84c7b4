//! In-memory model of the store contract.
//!
//! It is the executable definition of [`Shelf`]: short enough to check by reading, and held to the same
//! [`conformance`](crate::conformance) suite as every implementation.

use crate::{
    ALIGN, AlignedBuf, Batch, Done, Error, JournalPos, Layout, Result, SegmentId, Shelf, Superblock,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The medium of the model; it outlives the owners.
pub struct Model(Arc<Mutex<Medium>>);

struct Medium {
    layout: Layout,
    epoch: u64,
    journal: VecDeque<Batch>,
    /// The number of the next batch.
    next: JournalPos,
    superblock: Option<Superblock>,
    /// By segment and offset.
    stripes: BTreeMap<(u32, u32), Stripe>,
}

struct Stripe {
    bytes: Vec<u8>,
    epoch: u64,
    synced: bool,
}

impl Model {
    /// An empty store.
    pub fn new(layout: Layout) -> Self {
        Self(Arc::new(Mutex::new(Medium {
            layout,
            epoch: 0,
            journal: VecDeque::new(),
            next: JournalPos(1),
            superblock: None,
            stripes: BTreeMap::new(),
        })))
    }

    /// Opens the store as a new owner.
    pub fn open(&self) -> Arc<ModelShelf> {
        let mut medium = self.0.lock();
        medium.epoch += 1;
        Arc::new(ModelShelf { medium: self.0.clone(), epoch: medium.epoch })
    }

    /// Simulates a power loss. `keep` decides for each stripe that was not synced whether it survives.
    pub fn lose_power(&self, mut keep: impl FnMut() -> bool) {
        self.0.lock().stripes.retain(|_, stripe| stripe.synced || keep());
    }
}

/// One owner of a [`Model`].
pub struct ModelShelf {
    medium: Arc<Mutex<Medium>>,
    epoch: u64,
}

fn cost(head: usize, body: usize) -> u64 {
    (head.next_multiple_of(ALIGN) + body) as u64
}

impl Medium {
    fn check_owner(&self, epoch: u64) -> Result {
        if self.epoch > epoch { Err(Error::Fenced { epoch: self.epoch }) } else { Ok(()) }
    }

    fn taken(&self, pos: JournalPos) -> u64 {
        let before = self.journal.iter().take_while(|batch| batch.pos < pos);
        before.map(|batch| cost(batch.head.len(), batch.body.len())).sum()
    }

    fn append(&mut self, head: Bytes, body: &[Bytes]) -> Result<JournalPos> {
        let body = Bytes::from(body.concat());
        assert!(head.len() + body.len() <= self.layout.batch_bytes as usize, "the batch fits in batch_bytes");
        if self.taken(self.next) + cost(head.len(), body.len()) > self.layout.journal_bytes {
            return Err(Error::JournalFull);
        }
        let pos = self.next;
        self.journal.push_back(Batch { pos, head, body });
        self.next = JournalPos(pos.0 + 1);
        Ok(pos)
    }

    fn write(&mut self, segment: SegmentId, offset: u32, stripes: &[u8], epoch: u64) {
        let each = self.layout.stripe_bytes;
        self.layout.assert_stripes(segment, offset, stripes.len());
        for (at, bytes) in (offset..).step_by(each as usize).zip(stripes.chunks_exact(each as usize)) {
            let stripe = Stripe { bytes: bytes.to_vec(), epoch, synced: false };
            let before = self.stripes.insert((segment.0, at), stripe);
            assert!(before.is_none(), "a stripe is written once");
        }
        let mut all = self.stripes.range((segment.0, 0)..(segment.0 + 1, 0));
        assert!(all.all(|(_, stripe)| stripe.epoch == epoch), "an older owner's segment is discarded first");
    }

    fn read(&self, segment: SegmentId, offset: u32, len: u32) -> Result<Bytes> {
        let each = self.layout.stripe_bytes;
        let mut out = Vec::new();
        for at in (offset / each * each..offset + len).step_by(each as usize) {
            let what = || format!("stripe {at} of segment {} was not written", segment.0);
            let stripe = self.stripes.get(&(segment.0, at)).ok_or_else(|| Error::Corrupt { what: what() })?;
            out.extend_from_slice(&stripe.bytes);
        }
        let skip = (offset % each) as usize;
        Ok(Bytes::from(out).slice(skip..skip + len as usize))
    }

    fn write_superblock(&mut self, superblock: Superblock) {
        self.journal.retain(|batch| batch.pos >= superblock.journal_from);
        self.superblock = Some(superblock);
    }
}

impl ModelShelf {
    /// Changes the medium unless this owner is fenced.
    fn change<T>(&self, done: Done<T>, change: impl FnOnce(&mut Medium) -> Result<T>) {
        let outcome = {
            let mut medium = self.medium.lock();
            medium.check_owner(self.epoch).and_then(|()| change(&mut medium))
        };
        done(outcome);
    }
}

impl Shelf for ModelShelf {
    fn layout(&self) -> Layout {
        self.medium.lock().layout
    }

    fn journal_cost(&self, head: usize, body: usize) -> u64 {
        cost(head, body)
    }

    fn append(&self, head: Bytes, body: Vec<Bytes>, done: Done<JournalPos>) {
        self.change(done, |medium| medium.append(head, &body));
    }

    fn journal_taken(&self, pos: JournalPos) -> u64 {
        self.medium.lock().taken(pos)
    }

    fn recover(&self, from: JournalPos, done: Done<Vec<Batch>>) {
        self.change(done, |medium| {
            Ok(medium.journal.iter().filter(|batch| batch.pos >= from).cloned().collect())
        });
    }

    fn write(&self, segment: SegmentId, offset: u32, stripes: Arc<AlignedBuf>, done: Done<()>) {
        self.change(done, |medium| {
            medium.write(segment, offset, &stripes, self.epoch);
            Ok(())
        });
    }

    fn read(&self, segment: SegmentId, offset: u32, len: u32, done: Done<Bytes>) {
        let read = self.medium.lock().read(segment, offset, len);
        done(read);
    }

    fn sync(&self, done: Done<()>) {
        self.change(done, |medium| {
            medium.stripes.values_mut().for_each(|stripe| stripe.synced = true);
            Ok(())
        });
    }

    fn discard(&self, segment: SegmentId) {
        let mut medium = self.medium.lock();
        if medium.check_owner(self.epoch).is_ok() {
            medium.stripes.retain(|(of, _), _| *of != segment.0);
        }
    }

    fn write_superblock(&self, superblock: Superblock, done: Done<()>) {
        self.change(done, |medium| {
            medium.write_superblock(superblock);
            Ok(())
        });
    }

    fn superblock(&self) -> Option<Superblock> {
        self.medium.lock().superblock.clone()
    }
}

#[cfg(test)]
#[path = "model_test.rs"]
mod tests;
