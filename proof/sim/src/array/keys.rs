//! World `encrypted`: the drives are encrypted, and their key is changed while hosts work or the array is off.
//!
//! The operator has the key of the last acknowledged change, and those of later changes that were not acknowledged.
//! Every one of these keys that opens an envelope must open the array; after an acknowledged change, no older key may.
//! A drive may fail or be missing if the store can spare it. An older key may open its content until it has been opened
//! with the others, and a change of the key must name the drive.

use super::{Incarnation, Run};
use crate::World;
use crate::drives::Fault;
use crate::machine::Outcome;
use block::workload::Random;
use raid::encryption::{DataKey, Envelope};
use raid::{DriveShelf, Opening};
use shelf::pool::KeySource;
use shelf::{Drive, Error};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The array's number on its drives.
pub const ARRAY: u128 = 9;

/// Possible keys of the drives, by number.
pub struct Keys {
    /// Key of the last acknowledged change.
    confirmed: u64,
    /// Key of the last begun change.
    newest: u64,
    /// Drives that may have an envelope with an older key.
    unreached: BTreeSet<usize>,
    /// The drive that failed after the opening.
    failed: Option<usize>,
    /// True if all drives were present with full redundancy at the power loss.
    whole: bool,
    /// True if the opening got the newest envelope, so all drives get it.
    spreads: bool,
    /// For later additions to this world, so that other draws stay unchanged.
    random: Random,
}

/// A change of the key in progress.
pub type KeyChange = Outcome<shelf::Result<Vec<usize>>>;

/// The key-encryption key of this number.
fn key(number: u64) -> [u8; 32] {
    let mut key = [0x4b; 32];
    key[..8].copy_from_slice(&number.to_le_bytes());
    key
}

/// A nonce that no other change uses.
fn nonce(number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    nonce
}

impl Keys {
    /// The keys of a world.
    pub fn new(seed: u64) -> Self {
        Self {
            confirmed: 0,
            newest: 0,
            unreached: BTreeSet::new(),
            failed: None,
            whole: true,
            spreads: false,
            random: Random::new(seed ^ 0x6b65_7973),
        }
    }

    /// Opens each envelope.
    fn open(&self, envelopes: Vec<Envelope>) -> Result<Vec<(DataKey, Envelope)>, String> {
        let Self { confirmed, newest, unreached, .. } = self;
        let mut opened = Vec::new();
        for envelope in envelopes {
            let data = (*confirmed..=*newest).find_map(|number| envelope.open(&key(number)));
            match data {
                Some(data) => opened.push((data, envelope)),
                None if !unreached.is_empty() => {}
                None => {
                    let sequence = envelope.sequence;
                    return Err(format!(
                        "envelope {sequence} opens with none of the keys {confirmed} to {newest}"
                    ));
                }
            }
        }
        Ok(opened)
    }

    /// Notes the end of a change, which did not reach the drives in these slots.
    fn confirm(&mut self, unreached: &[usize]) {
        self.confirmed = self.newest;
        self.unreached.extend(unreached);
    }
}

impl Run {
    /// Parameters for opening or creating the store on these drives; `None` if the machine must crash first.
    pub(super) fn opening(&mut self, handles: &[Arc<dyn Drive>]) -> Result<Option<Opening>, String> {
        let salt = 1 + self.report.crashes + self.openings;
        if self.scenario.world != World::Encrypted {
            return Ok(Some(Opening { salt, key: None }));
        }
        let given = handles.to_vec();
        let read = async move {
            match DriveShelf::is_formatted(&given).await? {
                true => DriveShelf::envelopes(&given).await?.ok_or_else(|| Error::Corrupt {
                    what: "an encrypted array is not encrypted any more".into(),
                }),
                false => Ok(Vec::new()),
            }
        };
        let Some(envelopes) = self.machine.finish(read)? else { return Ok(None) };
        let envelopes = envelopes.map_err(|cause| format!("reading the envelopes: {cause}"))?;
        let newest = envelopes.iter().map(|envelope| envelope.sequence).max();
        let mut opened = self.keys.open(envelopes)?;
        if newest.is_none() {
            let data = DataKey::new([7; 32]);
            let envelope = Envelope::wrap(ARRAY, &data, KeySource::File, &key(0), nonce(0));
            return Ok(Some(Opening { salt, key: Some((data, envelope)) }));
        }
        if opened.is_empty() {
            return Err("no envelope opens with a key that an operator has".into());
        }
        let given = self.random.below(opened.len() as u64) as usize;
        let (data, envelope) = opened.swap_remove(given);
        self.keys.spreads = newest == Some(envelope.sequence);
        Ok(Some(Opening { salt, key: Some((data, envelope)) }))
    }

    /// Notes that drives opened with the others have the newest envelope.
    pub(super) fn note_spread(&mut self) {
        if self.keys.spreads {
            let given: BTreeSet<usize> = self.roster.given().collect();
            self.keys.unreached.retain(|drive| !given.contains(drive));
        }
    }

    /// Makes a drive fail occasionally, if the store can spare it. It returns at the next opening or later.
    fn lose_drive(&mut self, incarnation: &Incarnation) {
        if self.keys.failed.is_some() || self.keys.random.below(2000) > 0 {
            return;
        }
        let tolerates = incarnation.tolerates.min(incarnation.drives().status().tolerates);
        let given: Vec<usize> = self.roster.given().collect();
        if tolerates == 0 || given.len() < self.scenario.drives as usize {
            return;
        }
        let drive = given[self.keys.random.below(given.len() as u64) as usize];
        self.machine.drives.note(drive);
        self.machine.drives.set_fault(drive, Fault::Dead);
        self.keys.failed = Some(drive);
        self.report.drives_failed += 1;
        if self.keys.random.chance(50) {
            self.roster.lose(drive);
        }
    }

    /// Notes at a power loss whether the store had all drives and full redundancy.
    pub(super) fn note_redundancy(&mut self, incarnation: &Incarnation) {
        let drives = self.scenario.drives as usize;
        let full = incarnation.drives().status().tolerates == (drives - 1).min(2);
        self.keys.whole = full && self.keys.failed.is_none() && self.roster.given().count() == drives;
    }

    /// Changes envelopes while the power is off.
    pub(super) fn change_key_offline(&mut self) -> Result<(), String> {
        self.keys.failed = None;
        if self.formatted && self.keys.random.chance(25) {
            self.replace_envelope()?;
        }
        Ok(())
    }

    /// True if the drives may rot now: mirrored data rots on one drive, if no other is missing.
    pub(super) fn may_rot(&self) -> bool {
        self.keys.whole
    }

    /// Replaces the envelope on the present drives, possibly until a power loss.
    fn replace_envelope(&mut self) -> Result<(), String> {
        let handles = self.machine.drives.handles();
        let given: Vec<_> = self.roster.given().map(|drive| handles[drive].clone()).collect();
        let drives = given.clone();
        let Some(envelopes) =
            self.finished(async move { DriveShelf::envelopes(&drives).await })?.map_err(super::say)?
        else {
            return Err("an encrypted array is not encrypted any more".into());
        };
        let newest = envelopes.first().cloned().ok_or("no envelope")?;
        let opened = self.keys.open(envelopes)?;
        let (data, _) = opened.first().ok_or("no envelope opens with a key that an operator has")?;
        self.keys.newest += 1;
        let number = self.keys.newest;
        let changed = newest.rewrap(data, KeySource::File, &key(number), nonce(number));
        self.machine.drives.note(number);
        if self.keys.random.chance(50) {
            self.machine.crash_after(1 + self.keys.random.below(16));
        }
        let replaced =
            self.machine.finish(async move { DriveShelf::replace_envelope(&given, &changed).await })?;
        self.machine.crash();
        let Some(missing) = replaced else { return Ok(()) };
        let missing = missing.map_err(|cause| format!("replacing the envelope: {cause}"))?;
        let away: Vec<usize> = (0..self.scenario.drives as usize)
            .filter(|drive| self.roster.given().all(|it| it != *drive))
            .collect();
        // A failed drive is no longer a member once its content was rebuilt.
        if let Some(slot) = missing.iter().find(|slot| !away.contains(slot)) {
            return Err(format!("the new envelope did not reach {slot}, and {away:?} were away"));
        }
        self.keys.confirm(&away);
        self.report.key_changes += 1;
        Ok(())
    }

    /// True if the drive in this slot failed or is missing.
    fn is_missing(&self, slot: usize) -> bool {
        self.keys.failed == Some(slot) || self.roster.given().all(|drive| drive != slot)
    }

    /// Changes the key occasionally.
    pub(super) fn change_key(&mut self, incarnation: &mut Incarnation) -> Result<(), String> {
        self.lose_drive(incarnation);
        match incarnation.key_change.as_ref().map(Outcome::take) {
            Some(None) => return Ok(()),
            Some(Some(Ok(unreached))) if unreached.iter().all(|slot| self.is_missing(*slot)) => {
                self.keys.confirm(&unreached);
                self.report.key_changes += 1;
            }
            Some(Some(other)) => return Err(format!("changing the key: {other:?}")),
            None => {}
        }
        incarnation.key_change = None;
        if self.random.below(500) == 0 {
            self.keys.newest += 1;
            let (number, shelf) = (self.keys.newest, incarnation.drives().clone());
            self.machine.drives.note(number);
            let change = async move { shelf.rewrap(KeySource::File, &key(number), nonce(number)).await };
            incarnation.key_change = Some(self.machine.start(change).1);
        }
        Ok(())
    }
}
