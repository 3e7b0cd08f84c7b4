//! The key that locks the drives: its kind, and its rotation while hosts do I/O. Data are not rewritten: their data
//! key is rewrapped.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::parts::machine::NewKey;
use crate::request::verbs;
use crate::shape::shapes;
use crate::shape::status::Encryption;
use crate::{Error, Result};
use history::Severity;
use records::{Secret, Topic};
use serde::{Deserialize, Serialize};
use shelf::pool::{KeySource, WrappedKey};
use std::sync::Arc;
use utoipa::ToSchema;

/// What did not come about.
const WHAT: &str = "the key can't be changed";
const KEPT: &str = "the drives have the new key; its file is beside the old one and could not replace it";

/// The encryption key of the drives. The key material is never returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Key {
    /// Key source.
    pub source: Encryption,
    /// Generation, incremented by each rotation; `null` if the drives are not encrypted.
    pub generation: Option<u64>,
    /// KMIP Unique Identifier; `null` if the key source is not KMIP.
    pub kmip_id: Option<String>,
}

shapes! {
    Key;
}

impl From<Option<&dyn WrappedKey>> for Key {
    fn from(wrapped: Option<&dyn WrappedKey>) -> Self {
        let source = Encryption::of(wrapped);
        let generation = wrapped.map(WrappedKey::generation);
        let kmip_id = wrapped.and_then(|it| match it.source() {
            KeySource::Kmip { id } => Some(id.clone()),
            _ => None,
        });
        Self { source, generation, kmip_id }
    }
}

/// The new key, from the same kind of source. Empty for a key file, in which a new key is generated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = KeyRotation)]
pub struct RotateKey {
    /// New passphrase of at least 12 characters. The next start requires it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub passphrase: Option<Secret>,
    /// Unique Identifier of the new 256-bit AES key on the KMIP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kmip_id: Option<String>,
}

impl RotateKey {
    fn new_key(self) -> Result<NewKey> {
        match (self.passphrase, self.kmip_id) {
            (None, None) => Ok(NewKey::File),
            (Some(words), None) => Ok(NewKey::Passphrase(words)),
            (None, Some(id)) => Ok(NewKey::Kmip(id)),
            (Some(_), Some(_)) => Err(Error::invalid("a key is a passphrase or on a KMIP server, not both")),
        }
    }
}

verbs! {
    #![tag = "drives"]

    /// Get the encryption key state
    ShowKey {} -> Key, Read "show" "key", Viewer, at GET "/key" says "The key state"
        => |tx, _| Ok(tx.array.key());
    /// Rotate the encryption key
    ///
    /// Takes effect immediately, regardless of the amount of data.
    ///
    /// Without interruption to hosts. The old key no longer unlocks any drive that is present.
    RotateKey -> Key, Exchange "rotate" "key", Admin, at POST "/key/rotate" says "The key state"
        => |tx, it| tx.rotate_key(it.new_key()?).await;
}

impl Array {
    /// The wrapped data key; `None` if the store is not encrypted.
    pub(crate) fn wrapped_key(&self) -> Option<Arc<dyn WrappedKey>> {
        self.parts.pool.keys()?.wrapped()
    }

    /// The key that locks the drives.
    pub(crate) fn key(&self) -> Key {
        self.wrapped_key().as_deref().into()
    }
}

impl Transaction<'_> {
    /// Locks the drives with another key. A crash leaves the old key, the new one, or both good.
    pub async fn rotate_key(&mut self, new: NewKey) -> Result<Key> {
        let array = self.array;
        let making = async {
            // One at a time, from before the new key is made: there is one place for it beside the one in use.
            let rotating = array.rotating.lock().await;
            let Some((keys, wrapped)) =
                array.parts.pool.keys().and_then(|keys| Some((keys, keys.wrapped()?)))
            else {
                return Err(Error::precondition(
                    "the drives are not encrypted: that is chosen when an array is made",
                ));
            };
            let machine = array.parts.machine.clone();
            // It may come from a KMIP server.
            let made = tokio::task::spawn_blocking(move || machine.next_key(&*wrapped, &new)).await;
            let made = made.map_err(|error| Error::failed(WHAT, error))?.map_err(Error::precondition)?;
            Ok::<_, Error>((rotating, keys, made))
        };
        let (_rotating, keys, (source, with)) = self.outside(making).await??;
        let before = array.key();
        let mut nonce = [0; 12];
        nonce.copy_from_slice(&(array.env.random)().to_le_bytes()[..12]);
        let changed = keys.rewrap(source, &with, nonce).await;
        let absent = changed.map_err(|error| Error::failed(WHAT, error))?;
        let machine = array.parts.machine.clone();
        let changed = keys.wrapped();
        let after = Key::from(changed.as_deref());
        let keep = move || changed.map_or(Ok(()), |changed| machine.keep_key(&*changed));
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
        for drive in array.parts.pool.status().unwiped_drives {
            let message = format!(
                "{drive} keeps a key wrapped by an older one: destroy the drive, or the key that opens it"
            );
            array.log_event(Severity::Warning, "key.rotated", None, message);
        }
        array.publish_change(Topic::Key);
        kept.map_err(|error| Error::failed(KEPT, error))?.map_err(|error| Error::failed(KEPT, error))?;
        Ok(after)
    }
}
