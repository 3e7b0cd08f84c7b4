//! Alert conditions and their life cycle: raised, acknowledged, cleared.
//!
//! Conditions are evaluated again and again from the present state, so a restart neither loses nor repeats an alert. The
//! services that find them are given as [`Source`]s.

use crate::events::bus::{EventBus, Update};
use crate::events::catalogue;
use crate::parts::env::Env;
use crate::service::condition::Conditions;
use crate::shape::status::OpenAlerts;
use crate::{Error, Result};
use history::{Alert, AlertChange, AlertState, Condition, Severity, Store};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Finds conditions from what it found last time and the time, in seconds since 1970.
type Find = Box<dyn Fn(&Conditions, u64) -> Conditions + Send + Sync>;

/// Where conditions are found.
pub(crate) struct Source {
    /// Minimum polling interval, in seconds.
    interval_seconds: u64,
    find: Find,
    /// What it found last, and when.
    found: Mutex<Option<(u64, Conditions)>>,
}

impl Source {
    pub fn new(
        interval_seconds: u64,
        find: impl Fn(&Conditions, u64) -> Conditions + Send + Sync + 'static,
    ) -> Self {
        Self { interval_seconds, find: Box::new(find), found: Mutex::default() }
    }

    /// The conditions that are present now.
    fn conditions(&self, now: u64) -> Conditions {
        let mut last = self.found.lock();
        let fresh = last.as_ref().is_some_and(|(at, _)| now.abs_diff(*at) < self.interval_seconds);
        if !fresh {
            let before = last.take().map(|(_, found)| found).unwrap_or_default();
            *last = Some((now, (self.find)(&before, now)));
        }
        last.as_ref().map(|(_, found)| found.clone()).unwrap_or_default()
    }
}

/// Raises, changes and closes alerts.
pub struct Alerts {
    env: Arc<Env>,
    bus: Arc<EventBus>,
    history: Arc<Store>,
    sources: Vec<Source>,
    /// Conditions that the process reported and are not over.
    reported: Mutex<Conditions>,
    /// Conditions that an operator cleared although they persist, with their severity: silent until
    /// they end, or become more severe.
    silent: Mutex<BTreeMap<String, Severity>>,
    /// The alerts that are open since the last look, acknowledged or not.
    open: Mutex<OpenAlerts>,
}

impl Alerts {
    pub(crate) fn new(env: Arc<Env>, bus: Arc<EventBus>, history: Arc<Store>, sources: Vec<Source>) -> Self {
        let (reported, silent, open) = <(Mutex<_>, Mutex<_>, Mutex<_>)>::default();
        Self { env, bus, history, sources, reported, silent, open }
    }

    /// How many alerts were open at the last look, of which there is one a second.
    pub(crate) fn open(&self) -> OpenAlerts {
        *self.open.lock()
    }

    /// Raises an alert about something outside the array, until [`Alerts::end_report`]. `kind`: for programs, and one at
    /// a time.
    pub fn report(&self, kind: &str, severity: Severity, message: String) {
        debug_assert!(catalogue::is_alert(kind), "the catalogue of messages has no alert {kind}");
        tracing::error!(kind, "{message}");
        let condition = Condition { kind: kind.into(), severity, message, noun: None, name: None };
        self.reported.lock().insert(kind.into(), condition);
    }

    /// Whether this was reported and is not over.
    pub(crate) fn is_reported(&self, kind: &str) -> bool {
        self.reported.lock().contains_key(kind)
    }

    /// What was reported is over.
    pub fn end_report(&self, kind: &str) {
        self.reported.lock().remove(kind);
    }

    /// All alerts, newest first.
    pub(crate) fn list(&self) -> Result<Vec<Alert>> {
        self.history.alerts(true).map_err(failed)
    }

    /// One alert.
    pub(crate) fn get(&self, id: i64) -> Result<Alert> {
        self.history.alert(id).map_err(failed)?.ok_or_else(|| no_alert(id))
    }

    /// Raises alerts for present conditions, and closes those of conditions that ended.
    pub(crate) fn watch(&self) {
        let now = self.env.seconds();
        let conditions = self.conditions(now);
        let mut silent = self.silent.lock();
        silent.retain(|key, severity| {
            conditions.get(key).is_some_and(|condition| condition.severity <= *severity)
        });
        let history = &self.history;
        let open = match history.alerts(false) {
            Ok(open) => open,
            Err(error) => return tracing::error!(%error, "alerts can't be read"),
        };
        let loud: Vec<_> = conditions.iter().filter(|(key, _)| !silent.contains_key(*key)).collect();
        let count = |severity| loud.iter().filter(|(_, condition)| condition.severity == severity).count();
        *self.open.lock() = OpenAlerts {
            all: loud.len(),
            warning: count(Severity::Warning),
            critical: count(Severity::Critical),
        };
        for (key, condition) in loud {
            match history.raise(now, key, condition) {
                Ok(None) => {}
                Ok(Some((turn, alert))) => {
                    tracing::warn!(key, message = condition.message, "alert");
                    self.bus.publish(Update::Alert(turn, alert));
                }
                Err(error) => tracing::error!(%error, key, "an alert can't be stored"),
            }
        }
        let known: BTreeSet<&str> = conditions.keys().map(String::as_str).collect();
        for alert in open.iter().filter(|alert| !known.contains(alert.key.as_str())) {
            match history.close(now, &alert.key) {
                Ok(Some(alert)) => self.bus.publish(Update::Alert(AlertChange::Closed, alert)),
                Ok(None) => {}
                Err(error) => tracing::error!(%error, alert.key, "the end of an alert can't be stored"),
            }
        }
    }

    /// The conditions that are present now.
    fn conditions(&self, now: u64) -> Conditions {
        let mut all = self.reported.lock().clone();
        self.sources.iter().for_each(|source| all.extend(source.conditions(now)));
        all
    }

    /// Acknowledges an alert for a user, reopens it, or clears it even if its condition persists.
    pub(crate) fn change(&self, id: i64, state: AlertState, user: &str) -> Result<Alert> {
        let (history, now) = (&self.history, self.env.seconds());
        let failed = |error| Error::failed("the alert can't be changed", error);
        let alert = self.get(id)?;
        match (alert.state(), state) {
            (before, after) if before == after => return Ok(alert),
            (AlertState::Closed, _) => {
                return Err(Error::precondition(format!(
                    "alert {id} is over: nothing about it can be changed"
                )));
            }
            _ => {}
        }
        let (change, changed) = match state {
            AlertState::Open => (AlertChange::Updated, history.acknowledge(now, id, None)),
            AlertState::Acknowledged => (AlertChange::Updated, history.acknowledge(now, id, Some(user))),
            AlertState::Closed => {
                self.silent.lock().insert(alert.key.clone(), alert.condition.severity);
                (AlertChange::Closed, history.close(now, &alert.key))
            }
        };
        let alert = changed.map_err(failed)?.ok_or_else(|| no_alert(id))?;
        self.bus.publish(Update::Alert(change, alert.clone()));
        Ok(alert)
    }
}

fn failed(error: history::Error) -> Error {
    Error::failed("the alerts can't be read", error)
}

fn no_alert(id: i64) -> Error {
    Error::not_found(format!("there is no alert {id}"))
}
