//! Alert conditions and their life cycle: raised, acknowledged, cleared.
//!
//! Conditions are evaluated again and again from the present state, so a restart neither loses nor repeats an alert.

use crate::array::{Array, Transaction, Update};
use crate::condition::{self, Conditions};
use crate::performance::Stretch;
use crate::verb::verbs;
use crate::{Error, Result};
use history::{Alert, AlertChange, AlertState, Severity};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Over how many seconds paths are compared.
const PATHS_OVER: u64 = 300;

/// Where conditions are found: not more often than every so many seconds, with what was found last time and the time now.
type Look = fn(&Array, &Conditions, u64) -> Conditions;

const LOOKS: [(u64, Look); 14] = [
    (0, |array, _, _| array.history_conditions()),
    (0, |array, _, _| array.reported_conditions()),
    (10, |array, _, _| array.secret_conditions()),
    (0, |array, _, _| array.space_conditions()),
    (0, |array, _, _| array.target_conditions()),
    (5, |array, _, _| {
        let mut found = condition::of_drives(&array.parts.pool.status());
        found.extend(condition::of_contradictions(&array.parts.engine.inconsistencies()));
        found
    }),
    (5, |array, _, _| condition::of_map(&array.parts.engine.space())),
    (5, |array, before, _| array.scrub_conditions(before)),
    (5, |array, _, _| array.health_conditions()),
    (5, |array, _, _| array.state_conditions()),
    (60, |array, _, now| array.path_conditions(now)),
    (0, |array, _, _| array.clock_conditions()),
    (600, |array, _, now| array.certificate_conditions(now)),
    (600, |array, before, now| array.forecast_conditions(before, now)),
];

/// The word for a state.
pub(crate) fn word<S: serde::Serializer>(
    state: &AlertState,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(match state {
        AlertState::Open => "open",
        AlertState::Acknowledged => "acknowledged",
        AlertState::Closed => "closed",
    })
}

/// What is remembered between two looks.
#[derive(Debug, Default)]
pub(crate) struct AlertTable {
    /// What each look found last, and when.
    found: [Option<(u64, Conditions)>; LOOKS.len()],
    /// Conditions that an operator cleared although they persist, with their severity: silent until
    /// they end, or become more severe.
    silent: BTreeMap<String, Severity>,
}

/// All alerts, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListAlerts;

/// One alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowAlert {
    /// Its number.
    pub id: i64,
}

/// Acknowledge an alert, reopen it, or clear it: a cleared alert is not raised again before
/// it really is, or matters more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeAlert {
    /// Its number.
    pub id: i64,
    /// How far it is to be.
    #[serde(serialize_with = "crate::alert::word")]
    pub state: AlertState,
}

verbs! {
    ListAlerts -> Vec<Alert>, Read "list" "alert", Viewer
        => |tx, _| tx.array.parts.history.alerts(true).map_err(failed);
    ShowAlert -> Alert, Read "show" "alert", Viewer, about id
        => |tx, it| tx.array.parts.history.alert(it.id).map_err(failed)?.ok_or_else(|| no_alert(it.id));
    ChangeAlert -> Alert, Change "change" "alert", Operator, about id
        => |tx, it| tx.change_alert(it.id, it.state);
}

impl Array {
    /// Raises alerts for present conditions, and closes those of conditions that ended.
    pub(crate) fn watch_alerts(&self) {
        let now = self.now();
        let conditions = self.conditions(now);
        let mut attention = self.alert_table.lock();
        attention.silent.retain(|key, severity| {
            conditions.get(key).is_some_and(|condition| condition.severity <= *severity)
        });
        let history = &self.parts.history;
        let open = match history.alerts(false) {
            Ok(open) => open,
            Err(error) => return tracing::error!(%error, "alerts can't be read"),
        };
        let loud = conditions.iter().filter(|(key, _)| !attention.silent.contains_key(*key));
        for (key, condition) in loud {
            match history.raise(now, key, condition) {
                Ok(None) => {}
                Ok(Some((turn, alert))) => {
                    tracing::warn!(key, message = condition.message, "alert");
                    self.publish(Update::Alert(turn, alert));
                }
                Err(error) => tracing::error!(%error, key, "an alert can't be kept"),
            }
        }
        let known: BTreeSet<&str> = conditions.keys().map(String::as_str).collect();
        for alert in open.iter().filter(|alert| !known.contains(alert.key.as_str())) {
            match history.close(now, &alert.key) {
                Ok(Some(alert)) => self.publish(Update::Alert(AlertChange::Closed, alert)),
                Ok(None) => {}
                Err(error) => tracing::error!(%error, alert.key, "the end of an alert can't be kept"),
            }
        }
    }

    /// The conditions that are present now.
    fn conditions(&self, now: u64) -> Conditions {
        let mut found = std::mem::take(&mut self.alert_table.lock().found);
        for ((every, look), last) in LOOKS.iter().zip(&mut found) {
            let fresh = last.as_ref().is_some_and(|(looked, _)| now.abs_diff(*looked) < *every);
            if !fresh {
                let before = last.take().map(|(_, found)| found).unwrap_or_default();
                *last = Some((now, look(self, &before, now)));
            }
        }
        let all = found.iter().flatten().flat_map(|(_, found)| found.clone()).collect();
        self.alert_table.lock().found = found;
        all
    }

    fn space_conditions(&self) -> Conditions {
        let mut found = Conditions::default();
        if let Some(why) = self.parts.engine.stopped() {
            condition::add(&mut found, "array.stopped", Severity::Critical, None, &|| {
                format!("the array stopped to protect data and needs a new start: {why}")
            });
        }
        if let Some((limit, severity)) = self.space_threshold() {
            condition::add(&mut found, "space.threshold", severity, None, &|| {
                format!(
                    "{limit} % of the drives' space is in use: delete or unmap what is not needed, or add drives"
                )
            });
        }
        for group in self.config().groups.iter() {
            let about = condition::About {
                noun: "volume group",
                name: &group.name,
                key: &format!("{:016x}", group.id.0),
            };
            let (soft, hard) = self.quota_state(group.id);
            if hard {
                condition::add(&mut found, "group.quota", Severity::Critical, Some(about), &|| {
                    format!(
                        "volume group {:?} reached its hard quota: its volumes take no new space",
                        group.name
                    )
                });
            } else if soft {
                condition::add(&mut found, "group.quota", Severity::Warning, Some(about), &|| {
                    format!("volume group {:?} is beyond its soft quota", group.name)
                });
            }
        }
        found
    }

    /// Volumes and snapshots whose saved reservations and mode pages can't be understood.
    fn state_conditions(&self) -> Conditions {
        let (mut found, config) = (Conditions::default(), self.config());
        for id in self.parts.exports.unreadable_states() {
            let Some(name) = config.disk_name(id) else { continue };
            let noun = if config.snapshots.get(id).is_some() { "snapshot" } else { "volume" };
            let about = condition::About { noun, name, key: &format!("{:032x}", id.0) };
            condition::add(&mut found, "volume.state-unreadable", Severity::Critical, Some(about), &|| {
                format!(
                    "the saved reservations of {noun} {name:?} can't be understood, so no host can write to it: make sure \
                     that only those use it that should, then clear them (ashlar volume clear-state {name})"
                )
            });
        }
        found
    }

    fn path_conditions(&self, now: u64) -> Conditions {
        let stretch = Stretch { from: Some(now.saturating_sub(PATHS_OVER)), to: None, points: Some(1) };
        let paths = self.paths(None, stretch).unwrap_or_else(|error| {
            tracing::error!(%error, "paths can't be judged");
            Vec::new()
        });
        condition::of_paths(&paths, self.parts.server.portals().len())
    }

    fn certificate_conditions(&self, now: u64) -> Conditions {
        let config = self.config();
        let expires = config.certificate.as_ref().and_then(|entry| crate::certificate::expiry(&entry.chain));
        expires.map(|expires| condition::of_certificate(expires, now)).unwrap_or_default()
    }

    fn forecast_conditions(&self, before: &Conditions, now: u64) -> Conditions {
        match self.past_month(now) {
            Ok(past) => condition::of_forecast(&past, before),
            Err(error) => {
                tracing::error!(%error, "the use of space can't be foreseen");
                Conditions::default()
            }
        }
    }
}

fn failed(error: history::Error) -> Error {
    Error::failed("the alerts can't be read", error)
}

fn no_alert(id: i64) -> Error {
    Error::not_found(format!("there is no alert {id}"))
}

impl Transaction<'_> {
    /// Acknowledges an alert, reopens it, or clears it even if its condition persists.
    pub fn change_alert(&mut self, id: i64, state: AlertState) -> Result<Alert> {
        let (array, now) = (self.array, self.now());
        let history = &array.parts.history;
        let failed = |error| Error::failed("the alert can't be changed", error);
        let alert = history.alert(id).map_err(failed)?.ok_or_else(|| no_alert(id))?;
        match (alert.state(), state) {
            (before, after) if before == after => return Ok(alert),
            (AlertState::Closed, _) => {
                return Err(Error::precondition(format!(
                    "alert {id} is over: nothing about it can be changed"
                )));
            }
            _ => {}
        }
        let (turn, changed) = match state {
            AlertState::Open => (AlertChange::Updated, history.acknowledge(now, id, None)),
            AlertState::Acknowledged => {
                (AlertChange::Updated, history.acknowledge(now, id, Some(&self.caller.user)))
            }
            AlertState::Closed => {
                array.alert_table.lock().silent.insert(alert.key.clone(), alert.condition.severity);
                (AlertChange::Closed, history.close(now, &alert.key))
            }
        };
        let alert = changed.map_err(failed)?.ok_or_else(|| no_alert(id))?;
        array.publish(Update::Alert(turn, alert.clone()));
        Ok(alert)
    }
}
