//! World `encrypted`: the drives are encrypted, and the key that opens them is changed while hosts work.
//!
//! An operator who starts the array knows the key of the last change that was acknowledged, and those of changes that began
//! since and were not. Any of them that opens an envelope must open the array; once a change is acknowledged, no older one may.

use super::{Incarnation, Run};
use crate::World;
use crate::machine::Outcome;
use raid::encryption::{DataKey, Envelope};
use raid::{DriveShelf, Opening};
use shelf::pool::KeySource;
use shelf::{Drive, Error};
use std::sync::Arc;

/// The array's number on its drives.
pub const ARRAY: u128 = 9;

/// The keys that may open the drives, by number.
#[derive(Default)]
pub struct Keys {
    /// The key of the last change that was acknowledged.
    confirmed: u64,
    /// The key of the last change that began.
    newest: u64,
}

/// A change of the key that is under way.
pub type KeyChange = Outcome<shelf::Result<Vec<usize>>>;

/// The key-encryption key of this number.
fn key(number: u64) -> [u8; 32] {
    let mut key = [0x4b; 32];
    key[..8].copy_from_slice(&number.to_le_bytes());
    key
}

/// A nonce that no other change has.
fn nonce(number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    nonce
}

impl Keys {
    /// What each of these envelopes opens to.
    fn open(&self, envelopes: Vec<Envelope>) -> Result<Vec<(DataKey, Envelope)>, String> {
        let opened = envelopes.into_iter().map(|envelope| {
            let data = (self.confirmed..=self.newest).find_map(|number| envelope.open(&key(number)));
            let sequence = envelope.sequence;
            data.map(|data| (data, envelope)).ok_or_else(|| {
                let Self { confirmed, newest } = self;
                format!("envelope {sequence} opens with none of the keys {confirmed} to {newest}")
            })
        });
        opened.collect()
    }
}

impl Run {
    /// What the store on these drives is opened or made with; `None` if the machine must crash before.
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
        let mut opened = self.keys.open(envelopes)?;
        if opened.is_empty() {
            let data = DataKey::new([7; 32]);
            let envelope = Envelope::wrap(ARRAY, &data, KeySource::File, &key(0), nonce(0));
            return Ok(Some(Opening { salt, key: Some((data, envelope)) }));
        }
        let given = self.random.below(opened.len() as u64) as usize;
        Ok(Some(Opening { salt, key: Some(opened.swap_remove(given)) }))
    }

    /// Changes the key now and then.
    pub(super) fn change_key(&mut self, incarnation: &mut Incarnation) -> Result<(), String> {
        match incarnation.key_change.as_ref().map(Outcome::take) {
            Some(None) => return Ok(()),
            Some(Some(Ok(unreached))) if unreached.is_empty() => {
                self.keys.confirmed = self.keys.newest;
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
