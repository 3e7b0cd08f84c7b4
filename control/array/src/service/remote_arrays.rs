//! Links to remote arrays: pairing keys that were given out, and whether each array can be reached.

use crate::events::bus::EventBus;
use crate::parts::env::Env;
use crate::parts::remote_link::PAIRING_KEY_BYTES;
use crate::service::condition::{self, About, Conditions};
use crate::shape::some_time;
use history::Severity;
use parking_lot::Mutex;
use records::{Config, Identity, Named, RemoteArrayEntry, RemoteArrayId, Topic};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;
use zeroize::Zeroizing;

/// How long a pairing key can be used, in seconds.
pub(crate) const PAIRING_KEY_SECONDS: u64 = 3600;
/// Pairing keys that can be used at a time; the oldest is forgotten first.
const MAX_PAIRING_KEYS: usize = 16;
/// Attempts that fail one after the other before there is an alert.
const MIN_FAILURES: u32 = 3;
/// Without an address an array is disconnected when it was not heard of for this long, in seconds.
const MAX_SILENCE_SECONDS: u64 = 60;

/// State of the link to a remote array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// Not known yet.
    #[default]
    Unknown,
    /// The other array responds.
    Connected,
    /// It does not, or does not know this array.
    Disconnected,
}

/// The link to a remote array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = RemoteArrayLink)]
pub struct LinkStatus {
    /// State.
    pub state: LinkState,
    /// Time of the last contact since the array started; `null` if there was none.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last: Option<u64>,
    /// Round-trip time in microseconds; `null` if it is not known.
    pub rtt_us: Option<u64>,
    /// Reason why it is disconnected; `null` if it is not.
    pub problem: Option<String>,
    #[serde(skip)]
    failures: u32,
}

type Key = Zeroizing<[u8; PAIRING_KEY_BYTES]>;

/// Pairing keys and the state of links. Neither outlives a restart.
pub(crate) struct Links {
    env: Arc<Env>,
    bus: Arc<EventBus>,
    /// Keys with the uptime at which each ends, the oldest first.
    keys: Mutex<Vec<(Key, u64)>>,
    states: Mutex<BTreeMap<RemoteArrayId, LinkStatus>>,
}

impl Links {
    pub fn new(env: Arc<Env>, bus: Arc<EventBus>) -> Self {
        Self { env, bus, keys: Mutex::default(), states: Mutex::default() }
    }

    /// A new pairing key.
    pub fn new_key(&self) -> Key {
        let key = Zeroizing::new((self.env.random)().to_le_bytes());
        let mut keys = self.keys.lock();
        let excess = (keys.len() + 1).saturating_sub(MAX_PAIRING_KEYS);
        keys.drain(..excess);
        keys.push((key.clone(), self.env.uptime_seconds() + PAIRING_KEY_SECONDS));
        key
    }

    /// The pairing key that `proves` accepts. It stays until [`Links::use_up`].
    pub fn find_key(&self, proves: impl Fn(&[u8]) -> bool) -> Option<Key> {
        let now = self.env.uptime_seconds();
        let mut keys = self.keys.lock();
        keys.retain(|(_, ends)| *ends > now);
        keys.iter().find(|(key, _)| proves(&key[..])).map(|(key, _)| key.clone())
    }

    /// Forgets a pairing key; false if it was used already.
    pub fn use_up(&self, used: &Key) -> bool {
        let mut keys = self.keys.lock();
        let before = keys.len();
        keys.retain(|(key, _)| key != used);
        keys.len() < before
    }

    /// What is known of a link.
    pub fn status(&self, entry: &RemoteArrayEntry) -> LinkStatus {
        let mut status = self.states.lock().get(&entry.id).cloned().unwrap_or_default();
        let silent = status.last.is_none_or(|last| last + MAX_SILENCE_SECONDS < self.env.seconds());
        if entry.address.is_none() && status.state == LinkState::Connected && silent {
            status.state = LinkState::Disconnected;
            status.problem = Some("it has not connected for a minute".into());
        }
        status
    }

    /// Notes that the other array was heard of; with the time that a response took.
    pub fn note_heard(&self, entry: &RemoteArrayEntry, rtt_us: Option<u64>) {
        let last = Some(self.env.seconds());
        self.change(entry, |before| LinkStatus {
            state: LinkState::Connected,
            last,
            rtt_us: rtt_us.or(before.rtt_us),
            problem: None,
            failures: 0,
        });
    }

    /// Notes that an attempt to reach it has failed.
    pub fn note_failure(&self, entry: &RemoteArrayEntry, problem: String) {
        self.change(entry, |before| LinkStatus {
            state: LinkState::Disconnected,
            last: before.last,
            rtt_us: None,
            problem: Some(problem),
            failures: before.failures.saturating_add(1),
        });
    }

    /// Forgets what is known of a link.
    pub fn forget(&self, id: RemoteArrayId) {
        self.states.lock().remove(&id);
    }

    fn change(&self, entry: &RemoteArrayEntry, change: impl FnOnce(&LinkStatus) -> LinkStatus) {
        let (before, after) = {
            let mut states = self.states.lock();
            let known = states.entry(entry.id).or_default();
            let after = change(known);
            (std::mem::replace(known, after.clone()), after)
        };
        if before.state == after.state {
            return;
        }
        self.bus.publish_change(Topic::RemoteArrays);
        let (severity, kind, what) = match after.state {
            LinkState::Connected => (Severity::Info, "remote-array.connected", "is connected".to_owned()),
            _ => {
                let why = after.problem.unwrap_or_default();
                (Severity::Warning, "remote-array.disconnected", format!("is disconnected: {why}"))
            }
        };
        let message = format!("remote array {:?} {what}", entry.name);
        self.bus.log_event(severity, kind, Some((RemoteArrayEntry::NOUN, &entry.name)), message);
    }

    /// Remote arrays that can't be reached.
    pub fn conditions(&self, config: &Config) -> Conditions {
        let mut found = Conditions::default();
        for entry in config.remote_arrays.iter() {
            let status = self.status(entry);
            let lasts = entry.address.is_none() || status.failures >= MIN_FAILURES;
            if status.state != LinkState::Disconnected || !lasts {
                continue;
            }
            let about = About { noun: RemoteArrayEntry::NOUN, name: &entry.name, key: &entry.id.digits() };
            condition::add(&mut found, "remote-array.disconnected", Severity::Warning, Some(about), &|| {
                let why = status.problem.as_deref().unwrap_or("it does not respond");
                format!("remote array {:?} is disconnected: {why}", entry.name)
            });
        }
        found
    }
}

#[cfg(test)]
#[path = "remote_arrays_test.rs"]
mod tests;
