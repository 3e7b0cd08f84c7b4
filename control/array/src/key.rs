//! The key that the drives are locked with: what kind it is, and another one in its place while hosts go on. What the
//! drives hold is not written again: their data key is wrapped anew.

use crate::action::Outcome;
use crate::array::{Array, Change};
use crate::config::Secret;
use crate::topic::Topic;
use crate::view::LockKind;
use crate::{Error, Result};
use history::Severity;
use serde::Serialize;
use shelf::seal::{Envelope, Lock};

/// What did not come about.
const WHAT: &str = "the key can't be changed";
const KEPT: &str = "the drives have the new key, which is beside the old one and could not take its place";

/// The key that comes: of the kind that the array has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NewKey {
    /// A new key in the file.
    File,
    /// Another passphrase.
    Passphrase(Secret),
    /// The key of this Unique Identifier on the KMIP server.
    Kmip(String),
}

/// What the drives are locked with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// The kind; none when the drives hold everything in clear.
    #[serde(skip)]
    pub lock: Option<LockKind>,
    /// How often it was changed, and one.
    pub generation: Option<u64>,
    /// The key's Unique Identifier on the KMIP server.
    pub kmip_id: Option<String>,
}

impl From<Option<Envelope>> for Key {
    fn from(envelope: Option<Envelope>) -> Self {
        let lock = envelope.as_ref().and_then(|it| LockKind::of(&it.lock));
        let generation = envelope.as_ref().map(|it| it.sequence);
        let kmip_id = envelope.and_then(|it| match it.lock {
            Lock::Kmip { id } => Some(id),
            _ => None,
        });
        Self { lock, generation, kmip_id }
    }
}

impl Array {
    /// What the drives are locked with.
    pub(crate) fn key(&self) -> Key {
        self.parts.shelf.envelope().into()
    }
}

impl Change<'_> {
    /// Locks the drives with another key. A crash leaves the old key, the new one, or both good.
    pub async fn rotate_key(&mut self, new: NewKey) -> Result<Outcome> {
        let (array, before) = (self.array, self.array.key());
        let Some(envelope) = array.parts.shelf.envelope() else {
            return Err(Error::precondition(
                "the drives are not encrypted: that is chosen when an array is made",
            ));
        };
        let machine = array.parts.machine.clone();
        let made = tokio::task::spawn_blocking(move || machine.next_key(&envelope, &new)).await;
        let (lock, with) = made.map_err(|error| Error::failed(WHAT, error))?.map_err(Error::precondition)?;
        let mut nonce = [0; 12];
        nonce.copy_from_slice(&(array.env.random)().to_le_bytes()[..12]);
        let changed = array.parts.shelf.change_lock(lock, &with, nonce).await;
        let absent = changed.map_err(|error| Error::failed(WHAT, error))?;
        let machine = array.parts.machine.clone();
        let changed = array.parts.shelf.envelope();
        let after = Key::from(changed.clone());
        let keep = move || changed.map_or(Ok(()), |changed| machine.keep_key(&changed));
        let kept = tokio::task::spawn_blocking(keep).await;
        self.note_change("key", None, [&before, &after]);
        let user = &self.caller.user;
        array.log_event(
            Severity::Info,
            "key.rotated",
            None,
            format!("the key of the drives was changed by {user}"),
        );
        if !absent.is_empty() {
            let message = format!(
                "the drives of slots {absent:?} could not be reached when the key was changed: the old key opens what \
                 they hold until the array is started with them, so destroy it"
            );
            array.log_event(Severity::Warning, "key.rotated", None, message);
        }
        for drive in array.parts.shelf.status().unwiped {
            let message = format!(
                "{drive} keeps a key wrapped by an older one: destroy the drive, or the key that opens it"
            );
            array.log_event(Severity::Warning, "key.rotated", None, message);
        }
        array.publish_change(Topic::Key);
        kept.map_err(|error| Error::failed(KEPT, error))?.map_err(|error| Error::failed(KEPT, error))?;
        Ok(Outcome::Key(after))
    }
}
