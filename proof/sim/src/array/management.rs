//! World `management`: while hosts work, reduction policies of volumes change, records are put and removed, images of
//! volumes are created and read, and the exclusive space of disks is measured.
//!
//! An acknowledged change survives a crash; an unacknowledged one has taken effect or not. An image keeps the content
//! of its volume at its creation.

use super::{Incarnation, Run, ask, runs};
use crate::history::Action;
use crate::machine::Outcome;
use block::mem::MemArray;
use block::{DiskId, Error, Image, Op, Reply};
use bytes::Bytes;
use engine::{Compression, Engine, Exclusive, Policy};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys of records.
const KEYS: u64 = 6;

/// Maximum number of images at a time.
const IMAGES: usize = 3;

/// Possible results of the last changes, by subject: one value if the last was acknowledged.
#[derive(Default)]
pub struct Managed {
    records: BTreeMap<u64, Vec<Option<Bytes>>>,
    policies: BTreeMap<DiskId, Vec<Policy>>,
}

/// A change or a measurement in progress.
pub enum Chore {
    /// A record is put or removed.
    Record(u64, Outcome<block::Result<()>>),
    /// The policy of a volume changes.
    Policy(DiskId, Outcome<block::Result<()>>),
    /// The space of disks is measured.
    Space(Outcome<block::Result<Exclusive>>),
}

/// An image, and the content of its volume at its creation.
pub struct Held {
    image: Image,
    model: MemArray,
    volume: DiskId,
}

/// Keeps only the last value, since its change was acknowledged.
fn keep_newest<T>(values: &mut Vec<T>) {
    values.drain(..values.len() - 1);
}

fn key(number: u64) -> String {
    format!("managed/{number}")
}

impl Run {
    /// Begins an occasional chore, one at a time.
    pub(super) fn manage(&mut self, incarnation: &mut Incarnation) -> Result<(), String> {
        self.end_chore(incarnation)?;
        if incarnation.chore.is_some() || self.random.below(20) > 0 {
            return Ok(());
        }
        let (engine, disks) = (incarnation.engine.clone(), self.history.disks());
        let kind = self.random.below(6);
        self.machine.drives.note(kind);
        match kind {
            0 | 1 => {
                let (number, len) = (self.random.below(KEYS), self.random.below(3000));
                let byte = self.random.below(256) as u8;
                let value = self.random.chance(70).then(|| Bytes::from(vec![byte; len as usize]));
                self.managed.records.entry(number).or_insert_with(|| vec![None]).push(value.clone());
                let put = async move { engine.put_record(&key(number), value).await };
                incarnation.chore = Some(Chore::Record(number, self.machine.start(put).1));
            }
            _ if disks.is_empty() => {}
            2 | 3 => {
                let id = self.one(&disks);
                let Some(before) = engine.policy(id) else { return Ok(()) };
                let policy = self.policy();
                self.managed.policies.entry(id).or_insert_with(|| vec![before]).push(policy);
                let set = async move { engine.set_policy(id, policy).await };
                incarnation.chore = Some(Chore::Policy(id, self.machine.start(set).1));
            }
            4 => {
                let ids: Vec<DiskId> = (0..=self.random.below(3)).map(|_| self.one(&disks)).collect();
                let measured = async move { engine.exclusive_of(&ids).await };
                incarnation.chore = Some(Chore::Space(self.machine.start(measured).1));
            }
            _ if incarnation.under_way.is_empty() => self.change_images(incarnation)?,
            _ => {}
        }
        Ok(())
    }

    fn policy(&mut self) -> Policy {
        let all = [Compression::Off, Compression::Fast, Compression::High, Compression::Adaptive];
        let compression = all[self.random.below(4) as usize];
        Policy { dedup: self.random.chance(60), compression, verify: self.random.chance(30) }
    }

    fn end_chore(&mut self, incarnation: &mut Incarnation) -> Result<(), String> {
        match incarnation.chore.take() {
            None => {}
            Some(Chore::Record(number, outcome)) => match outcome.take() {
                None => incarnation.chore = Some(Chore::Record(number, outcome)),
                Some(put) => {
                    put.map_err(|cause| format!("putting a record: {cause}"))?;
                    self.managed.records.entry(number).and_modify(keep_newest);
                }
            },
            Some(Chore::Policy(id, outcome)) => match outcome.take() {
                None => incarnation.chore = Some(Chore::Policy(id, outcome)),
                Some(Ok(())) => _ = self.managed.policies.entry(id).and_modify(keep_newest),
                // The volume was deleted since.
                Some(Err(Error::Deleted)) => _ = self.managed.policies.remove(&id),
                Some(Err(cause)) => return Err(format!("setting a policy: {cause}")),
            },
            Some(Chore::Space(outcome)) => match outcome.take() {
                None => incarnation.chore = Some(Chore::Space(outcome)),
                Some(measured) => _ = measured.map_err(|cause| format!("measuring space: {cause}"))?,
            },
        }
        Ok(())
    }

    /// Creates an image, or compares one and releases it. Hosts do not wait.
    fn change_images(&mut self, incarnation: &mut Incarnation) -> Result<(), String> {
        let disks = self.history.disks();
        if incarnation.images.len() < IMAGES && self.random.chance(60) {
            let volume = self.one(&disks);
            let made = self.machine.finish(ask(&incarnation.engine, Action::Op(volume, Op::Image)))?;
            match made {
                None => return Ok(()),
                Some(Ok(Reply::Image(image))) => {
                    let model = self.history.model.fork();
                    incarnation.images.push(Held { image, model, volume });
                    self.report.images += 1;
                }
                Some(other) => return Err(format!("an image of disk {}: {other:?}", volume.0)),
            }
        }
        if incarnation.images.is_empty() || self.random.chance(50) {
            return Ok(());
        }
        let held =
            incarnation.images.swap_remove(self.random.below(incarnation.images.len() as u64) as usize);
        let geometry = held.image.0.geometry();
        for extent in runs(geometry) {
            let image = held.image.0.clone();
            let read = async move { image.execute(Op::Read(extent)).await };
            match self.machine.finish(read)? {
                None => return Ok(()),
                Some(Ok(Reply::Data(data))) => {
                    if data.first_difference(&held.model.peek(held.volume, extent)).is_some() {
                        return Err(format!("an image of disk {} differs at {extent:?}", held.volume.0));
                    }
                }
                Some(other) => {
                    return Err(format!("an image of disk {} at {extent:?}: {other:?}", held.volume.0));
                }
            }
        }
        Ok(())
    }

    /// Checks changes after a crash.
    pub(super) fn compare_managed(&mut self, engine: &Arc<Engine>) -> Result<(), String> {
        let found: BTreeMap<String, Bytes> = engine.records("managed/").into_iter().collect();
        for (number, possible) in &mut self.managed.records {
            let value = found.get(&key(*number)).cloned();
            if !possible.contains(&value) {
                let bytes =
                    |value: &Option<Bytes>| value.as_ref().map(|value| (value.len(), value.first().copied()));
                let possible: Vec<_> = possible.iter().map(bytes).collect();
                return Err(format!("record {number} is {:?}, not one of {possible:?}", bytes(&value)));
            }
            *possible = vec![value];
        }
        let mut wrong = None;
        self.managed.policies.retain(|id, possible| {
            let Some(policy) = engine.policy(*id) else { return false };
            if !possible.contains(&policy) {
                wrong = Some(format!("disk {} has {policy:?}, not one of {possible:?}", id.0));
            }
            *possible = vec![policy];
            true
        });
        wrong.map_or(Ok(()), Err)
    }
}
