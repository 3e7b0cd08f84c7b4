//! Sealed store for sessions and idempotent responses, which survive a restart.
//!
//! It lies in the history, not on the drives, and is sealed: who reads the file learns no secret, who writes it gains
//! no access. Without the history users sign in again; nothing else fails.

use crate::parts::env::Env;
use crate::parts::hex::hex;
use crate::parts::sealing::SealingKey;
use history::{ExpiringKey, ExpiringKind, Store};
use records::{Sealed, Secret};
use std::sync::Arc;

/// Longest body that is kept, in bytes.
const MAX_BODY_BYTES: usize = 64 << 10;

fn place(what: ExpiringKind, key: &ExpiringKey) -> String {
    format!("kept/{}/{}", what.name(), hex(key))
}

/// Stores texts that expire.
pub struct SealedStore {
    env: Arc<Env>,
    history: Arc<Store>,
    sealing: Arc<SealingKey>,
}

impl SealedStore {
    pub(crate) fn new(env: Arc<Env>, history: Arc<Store>, sealing: Arc<SealingKey>) -> Self {
        Self { env, history, sealing }
    }

    /// Stores a text until a time, in seconds since 1970. `key` is a hash that reveals nothing.
    pub fn store(&self, what: ExpiringKind, key: &ExpiringKey, until: u64, body: &str) {
        if body.len() > MAX_BODY_BYTES {
            return;
        }
        let sealed = self.sealing.seal(&Secret::new(body), &place(what, key), (self.env.random)());
        // Without its key nothing is remembered; that there is none, an alert says.
        let Ok(sealed) = sealed else { return };
        if let Err(error) = self.history.put_expiring(what, key, until, sealed.text(), self.env.seconds()) {
            tracing::warn!(%error, what = what.name(), "failed to persist the session entry");
        }
    }

    /// The entry of a key, unless it has expired.
    pub fn load(&self, what: ExpiringKind, key: &ExpiringKey) -> Option<String> {
        let found = self.history.expiring(what, key, self.env.seconds());
        self.open(what, key, found.inspect_err(|error| tracing::warn!(%error, "can't be looked up")).ok()??)
    }

    /// All entries of a kind that have not expired.
    pub fn load_all(&self, what: ExpiringKind) -> Vec<(ExpiringKey, String)> {
        let found = self.history.all_expiring(what, self.env.seconds());
        let found =
            found.inspect_err(|error| tracing::warn!(%error, "can't be looked up")).unwrap_or_default();
        found.into_iter().filter_map(|(key, body)| Some((key, self.open(what, &key, body)?))).collect()
    }

    /// Deletes an entry.
    pub fn delete(&self, what: ExpiringKind, key: &ExpiringKey) {
        if let Err(error) = self.history.remove_expiring(what, key) {
            tracing::warn!(%error, what = what.name(), "failed to delete the session entry");
        }
    }

    /// What was sealed by another key was kept by another array.
    fn open(&self, what: ExpiringKind, key: &ExpiringKey, body: String) -> Option<String> {
        let opened = self.sealing.open(&Sealed::of_text(body), &place(what, key)).ok()?;
        Some(opened.expose().to_owned())
    }
}
