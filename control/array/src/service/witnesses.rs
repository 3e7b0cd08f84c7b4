//! What is known of the witnesses of synchronous replications: whether each would decide, and how long both arrays are apart.
//!
//! Nothing here outlives a restart: rulings are the engine's, on the array that is the witness.

use crate::service::condition::{self, About, Conditions};
use history::Severity;
use parking_lot::Mutex;
use records::{Identity, Named, ReplicationEntry, ReplicationId};
use std::collections::BTreeMap;

/// Seconds after which a source that has lost its session asks: a link that comes back at once keeps it.
const SOURCE_PATIENCE_SECONDS: u64 = 2;
/// Seconds after which a target asks: longer than the silence that ends a session and the patience of the source, so that a source
/// which is well keeps its hosts.
const TARGET_PATIENCE_SECONDS: u64 = 10;
/// Seconds between two requests that were not granted. Sessions are begun between them.
const RETRY_SECONDS: u64 = 5;
/// Seconds after which a session is reported again, to know whether the witness would still decide.
const REPORT_SECONDS: u64 = 10;
/// Seconds for which a witness does not decide before there is an alert.
const ALERT_SECONDS: u64 = 30;

/// Which end is patient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Source,
    Target,
}

/// What is known of the witness of a replication. Times are uptimes in seconds.
#[derive(Default)]
struct Known {
    /// The session that it knows, and when it said so.
    reported: Option<(u64, u64)>,
    /// It knows the replication.
    enrolled: bool,
    /// Since when both arrays are apart.
    apart: Option<u64>,
    /// When it has not granted what it was asked for.
    refused: Option<u64>,
    /// Why it would not decide, and since when.
    problem: Option<(String, u64)>,
}

/// The witnesses of the replications of an array; and the lock of the rulings of this array as a witness.
#[derive(Default)]
pub(crate) struct Witnesses {
    pub rulings: tokio::sync::Mutex<()>,
    known: Mutex<BTreeMap<ReplicationId, Known>>,
}

impl Known {
    fn is_waiting(&self, now: u64) -> bool {
        self.refused.is_some_and(|refused| now < refused + RETRY_SECONDS)
    }
}

impl Witnesses {
    fn with<T>(&self, id: ReplicationId, change: impl FnOnce(&mut Known) -> T) -> T {
        change(self.known.lock().entry(id).or_default())
    }

    /// Forgets a replication.
    pub fn forget(&self, id: ReplicationId) {
        self.known.lock().remove(&id);
    }

    /// Notes that both arrays hear of each other.
    pub fn note_together(&self, id: ReplicationId) {
        self.with(id, |known| known.apart = None);
    }

    /// Whether both arrays are apart for so long that this one asks the witness, now for the first time or again.
    pub fn is_time_to_ask(&self, id: ReplicationId, patience: Patience, now: u64) -> bool {
        let patience = match patience {
            Patience::Source => SOURCE_PATIENCE_SECONDS,
            Patience::Target => TARGET_PATIENCE_SECONDS,
        };
        self.with(id, |known| {
            let apart = *known.apart.get_or_insert(now);
            now >= apart + patience && !known.is_waiting(now)
        })
    }

    /// Whether it was asked too recently.
    pub fn is_waiting(&self, id: ReplicationId, now: u64) -> bool {
        self.with(id, |known| known.is_waiting(now))
    }

    /// Notes that a request was not granted.
    pub fn note_refused(&self, id: ReplicationId, now: u64) {
        self.with(id, |known| known.refused = Some(now));
    }

    /// Whether the witness has to hear of a session, for the first time or again.
    pub fn must_report(&self, id: ReplicationId, session: u64, now: u64) -> bool {
        self.with(id, |known| {
            known.reported.is_none_or(|(known, at)| known != session || now >= at + REPORT_SECONDS)
        })
    }

    /// Whether the witness knows a session.
    pub fn knows(&self, id: ReplicationId, session: u64) -> bool {
        self.with(id, |known| known.reported.is_some_and(|(known, _)| known == session))
    }

    /// Notes that the witness knows a session.
    pub fn note_reported(&self, id: ReplicationId, session: u64, now: u64) {
        self.with(id, |known| (known.reported, known.enrolled) = (Some((session, now)), true));
    }

    /// Whether the witness knows the replication, as far as this array has heard since its start.
    pub fn is_enrolled(&self, id: ReplicationId) -> bool {
        self.with(id, |known| known.enrolled)
    }

    /// Notes whether the witness knows the replication.
    pub fn note_enrolled(&self, id: ReplicationId, enrolled: bool) {
        self.with(id, |known| known.enrolled = enrolled);
    }

    /// Notes why the witness would not decide; `None` if it would.
    pub fn note_problem(&self, id: ReplicationId, problem: Option<String>, now: u64) {
        self.with(id, |known| {
            let since = known.problem.as_ref().map_or(now, |(_, since)| *since);
            known.problem = problem.map(|problem| (problem, since));
        });
    }

    /// Why the witness would not decide.
    pub fn problem(&self, id: ReplicationId) -> Option<String> {
        self.with(id, |known| known.problem.as_ref().map(|(problem, _)| problem.clone()))
    }

    /// Adds that a witness would not decide.
    pub fn add_condition(&self, found: &mut Conditions, entry: &ReplicationEntry, now: u64) {
        let problem = self.with(entry.id, |known| known.problem.clone()).filter(|_| entry.has_witness());
        let Some((problem, _)) = problem.filter(|(_, since)| now >= since + ALERT_SECONDS) else { return };
        let name = &entry.name;
        let about = Some(About { noun: ReplicationEntry::NOUN, name, key: &entry.id.digits() });
        condition::add(found, "replication.witness", Severity::Warning, about, &|| {
            format!(
                "the witness of replication {name:?} can't decide: {problem}. If an array is lost now, no failover follows by \
                 itself"
            )
        });
    }
}
