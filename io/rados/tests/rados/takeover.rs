//! Two owners at once: the older does not know yet that it is none any more.

use super::{format, opening};
use bytes::Bytes;
use rados::Store;
use rados::memory::Cluster;
use rados::objects::Objects;
use shelf::{AlignedBuf, Batch, Error, JournalPos, Result, SegmentId, Shelf, Superblock, Wait, wait};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }
}

fn poll<T>(wait: &mut Wait<T>) -> Option<Result<T>> {
    match Pin::new(wait).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// One owner, what it has under way, and what it has acknowledged.
struct Owner {
    store: Arc<Store>,
    instance: String,
    appends: Vec<(u64, Wait<JournalPos>)>,
    roots: Vec<(u64, Wait<()>)>,
    next: u64,
    acknowledged: u64,
    /// Where the journal of its newest superblock begins.
    root: u64,
    fenced: bool,
}

impl Owner {
    fn new(store: Arc<Store>, instance: String, next: u64, root: u64) -> Self {
        let (appends, roots) = (Vec::new(), Vec::new());
        Self { store, instance, appends, roots, next, acknowledged: next - 1, root, fenced: false }
    }

    /// Appends as long as it was not refused.
    fn go_on(&mut self, dice: &mut Dice) {
        if !self.fenced && self.appends.len() < 12 {
            self.append(dice);
        }
    }

    fn append(&mut self, dice: &mut Dice) {
        let number = self.next;
        let (done, answer) = wait();
        let len = 8 + dice.below(9000);
        let mut head = number.to_le_bytes().to_vec();
        head.resize(len, number as u8);
        self.store.append(head.into(), Vec::new(), done);
        self.appends.push((number, answer));
        self.next += 1;
    }

    fn trim(&mut self, dice: &mut Dice) {
        let from = (self.acknowledged + 1).saturating_sub(dice.below(4) as u64).max(self.root);
        self.root = from;
        let root = Superblock { journal_from: JournalPos(from), payload: from.to_le_bytes().to_vec().into() };
        let (done, answer) = wait();
        self.store.write_superblock(root, done);
        self.roots.push((from, answer));
    }

    /// Takes answers; returns the newest trim that was acknowledged.
    fn answers(&mut self) -> u64 {
        let mut trimmed = 0;
        self.appends.retain_mut(|(number, answer)| match poll(answer) {
            Some(Ok(pos)) => {
                assert_eq!(pos.0, *number);
                assert!(!self.fenced, "batch {number} was acknowledged by an owner that was refused before");
                self.acknowledged = self.acknowledged.max(*number);
                false
            }
            Some(Err(error)) => {
                assert!(matches!(error, Error::Fenced { .. } | Error::JournalFull), "{error}");
                self.fenced |= matches!(error, Error::Fenced { .. });
                self.next = self.next.min(*number);
                false
            }
            None => true,
        });
        self.roots.retain_mut(|(from, answer)| match poll(answer) {
            Some(Ok(())) => {
                trimmed = trimmed.max(*from);
                false
            }
            Some(Err(error)) => {
                assert!(matches!(error, Error::Fenced { .. }), "{error}");
                self.fenced = true;
                false
            }
            None => true,
        });
        trimmed
    }
}

struct World {
    seed: u64,
    dice: Dice,
    cluster: Cluster,
    encrypted: bool,
    owner: Owner,
    /// Older owners that do not know yet that they are none.
    ghosts: Vec<Owner>,
    contents: BTreeMap<u64, Bytes>,
    /// The journal before this is trimmed.
    trimmed: u64,
    takeovers: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let (mut dice, cluster) = (Dice(seed), Cluster::default());
        let encrypted = dice.below(2) == 1;
        let owner = Owner::new(format(cluster.client(), encrypted), "memory/1".into(), 1, 1);
        cluster.set_holding(true);
        let (ghosts, contents) = (Vec::new(), BTreeMap::new());
        Self { seed, dice, cluster, encrypted, owner, ghosts, contents, trimmed: 1, takeovers: 0 }
    }

    fn step(&mut self, number: u64) {
        match self.dice.below(10) {
            0..4 if self.owner.appends.len() < 12 => self.owner.append(&mut self.dice),
            4 if self.owner.roots.is_empty() => self.owner.trim(&mut self.dice),
            5 if number.is_multiple_of(7) => self.take_over(number),
            _ => _ = self.cluster.release(self.dice.below(64)),
        }
        self.trimmed = self.trimmed.max(self.owner.answers());
        assert!(!self.owner.fenced, "seed {}: the owner was refused", self.seed);
        for ghost in &mut self.ghosts {
            let before = ghost.acknowledged;
            if self.dice.below(4) == 0 {
                ghost.go_on(&mut self.dice);
            }
            ghost.answers();
            assert_eq!(ghost.acknowledged, before, "seed {}: an older owner acknowledged a batch", self.seed);
        }
    }

    /// Another owner takes over. The old one works, sleeps, or is gone with what it had under way.
    fn take_over(&mut self, number: u64) {
        let mut opening = opening(1000 + number, self.encrypted);
        opening.epoch = Some(self.owner.store.epoch() + 1 + self.dice.below(3) as u64);
        let client = self.cluster.client();
        let instance = client.instance();
        let goes_on = self.dice.below(2) == 1;
        let store = self.run(Store::open(client, opening), goes_on).expect("it opens");
        let (done, answer) = wait();
        store.recover(JournalPos(1), done);
        let seed = self.seed;
        let recovered = self.run(answer, goes_on).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        self.check(&recovered);
        let root = store.superblock().map_or(1, |root| root.journal_from.0);
        self.trimmed = self.trimmed.max(root);
        let next = recovered.last().map_or(0, |batch| batch.pos.0).max(root - 1) + 1;
        let old = std::mem::replace(&mut self.owner, Owner::new(store, instance, next, root));
        match self.dice.below(3) {
            0 => self.cluster.forget(&old.instance, || self.dice.below(2) == 0),
            _ => self.ghosts.push(old),
        }
        self.takeovers += 1;
    }

    /// Runs a future of the new owner while held operations take effect in a random order.
    fn run<T>(&mut self, future: impl Future<Output = T>, goes_on: bool) -> T {
        let mut future = std::pin::pin!(future);
        for _ in 0..100_000 {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return value;
            }
            if goes_on && self.dice.below(3) == 0 {
                self.owner.go_on(&mut self.dice);
            }
            self.trimmed = self.trimmed.max(self.owner.answers());
            self.cluster.release(self.dice.below(64));
        }
        panic!("seed {}: it never ends", self.seed);
    }

    fn check(&mut self, recovered: &[Batch]) {
        let (seed, acknowledged) = (self.seed, self.owner.acknowledged);
        let newest = recovered.last().map_or(0, |batch| batch.pos.0);
        assert!(
            newest >= acknowledged || self.trimmed > acknowledged,
            "seed {seed}: {newest} of {acknowledged}"
        );
        for batch in recovered {
            assert_eq!(batch.head[..8], batch.pos.0.to_le_bytes(), "seed {seed}");
            let before = self.contents.insert(batch.pos.0, batch.head.clone());
            let same = before.is_none_or(|before| before == batch.head);
            assert!(same || batch.pos.0 > acknowledged, "seed {seed}: batch {} has changed", batch.pos.0);
        }
    }
}

fn takeovers(seed: u64) -> usize {
    let mut world = World::new(seed);
    (0..300).for_each(|number| world.step(number));
    world.takeovers
}

#[test]
fn what_an_owner_acknowledged_is_there_for_the_next_and_an_older_one_acknowledges_nothing() {
    let takeovers: usize = (0..120).map(takeovers).sum();
    assert!(takeovers > 120, "{takeovers} takeovers");
}

/// Monitors can take long for the blocklist. Nothing depends on it but the removal of tombstones.
#[test]
fn an_owner_begins_while_its_predecessor_is_still_put_on_the_blocklist() {
    let cluster = Cluster::default();
    let append = |store: &Store| {
        let (done, mut answer) = wait();
        store.append(Bytes::from_static(b"head"), Vec::new(), done);
        poll(&mut answer)
    };
    let old = format(cluster.client(), false);
    assert_eq!(append(&old), Some(Ok(JournalPos(1))));
    cluster.set_fencing_hangs(true);
    let new = super::now(Store::open(cluster.client(), opening(2, false))).unwrap();
    let (done, mut recovered) = wait();
    new.recover(JournalPos(1), done);
    let batches = poll(&mut recovered).expect("it does not wait for the monitors").unwrap();
    assert_eq!(batches.len(), 1);
    assert_eq!(append(&new), Some(Ok(JournalPos(2))));
    assert!(matches!(append(&old), Some(Err(Error::Fenced { .. }))), "the objects refuse it");
}

/// A removal that an older owner sent before it was replaced comes late: the segment has been written again since.
#[test]
fn a_late_removal_leaves_what_was_written_since() {
    let cluster = Cluster::default();
    let old = format(cluster.client(), false);
    let write = |store: &Store, byte: u8| {
        let mut stripe = AlignedBuf::zeroed(store.layout().stripe_bytes as usize);
        stripe.fill(byte);
        let (done, mut answer) = wait();
        store.write(SegmentId(2), 0, Arc::new(stripe), done);
        assert_eq!(poll(&mut answer), Some(Ok(())));
    };
    write(&old, 1);
    cluster.set_holding(true);
    old.discard(SegmentId(2));
    assert!(cluster.held() > 0, "the removal is under way");
    let held = cluster.held();
    cluster.set_holding(false);
    let new = super::now(Store::open(cluster.client(), opening(2, false))).unwrap();
    // Without a blocklist the attributes alone have to protect it.
    new.discard(SegmentId(2));
    write(&new, 2);
    (0..held).for_each(|_| assert!(cluster.release(0)));
    let (done, mut answer) = wait();
    new.read(SegmentId(2), 0, new.layout().stripe_bytes, done);
    assert!(poll(&mut answer).unwrap().unwrap().iter().all(|byte| *byte == 2));
}
