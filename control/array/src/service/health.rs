//! Drive health (SMART), polled by a background task.

use crate::parts::env::Env;
use crate::parts::machine::Machine;
use crate::service::condition::{self, About, Conditions};
use crate::shape::view::{Health, Verdict};
use history::Severity;
use parking_lot::Mutex;
use shelf::pool::{DriveState, DriveStatus, Pool};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Polling interval of each drive, in seconds.
const INTERVAL_SECONDS: u64 = 600;
/// Percent used of the rated writes of a drive, with severity: the first that applies.
const WORN: [(u64, Severity); 2] = [(100, Severity::Critical), (90, Severity::Warning)];

/// The health that drives reported last.
#[derive(Debug, Default)]
struct HealthCache {
    /// By the identity of the drive.
    drives: BTreeMap<u128, Health>,
    /// Time of the last poll, in seconds since 1970.
    asked: Option<u64>,
    /// A poll is running.
    asking: bool,
}

/// Polls the health of the drives and keeps their last reports.
pub(crate) struct HealthMonitor {
    env: Arc<Env>,
    pool: Arc<dyn Pool>,
    machine: Arc<dyn Machine>,
    cache: Arc<Mutex<HealthCache>>,
}

impl HealthMonitor {
    pub fn new(env: Arc<Env>, pool: Arc<dyn Pool>, machine: Arc<dyn Machine>) -> Self {
        Self { env, pool, machine, cache: Arc::default() }
    }

    /// The health that a drive reported last; empty before the first poll.
    pub fn of(&self, drive: u128) -> Health {
        self.cache.lock().drives.get(&drive).cloned().unwrap_or_default()
    }

    /// Starts a poll of all drives when it is due, or when a drive has never been polled.
    pub fn watch(&self) {
        let there =
            self.pool.status().drives.into_iter().filter_map(|drive| Some((drive.drive, drive.name?)));
        let (drives, now): (Vec<(u128, String)>, u64) = (there.collect(), self.env.seconds());
        {
            let mut cache = self.cache.lock();
            let fresh = cache.asked.is_some_and(|asked| now.abs_diff(asked) < INTERVAL_SECONDS);
            if cache.asking || fresh && drives.iter().all(|(drive, _)| cache.drives.contains_key(drive)) {
                return;
            }
            (cache.asking, cache.asked) = (true, Some(now));
        }
        tokio::spawn(ask(self.machine.clone(), drives, self.cache.clone()));
    }

    /// Drives that are failing or worn.
    pub fn conditions(&self) -> Conditions {
        let drives = self.pool.status().drives;
        of_health(drives.iter().map(|drive| (drive, self.of(drive.drive))))
    }
}

/// Polls the drives one after the other, because they share buses.
async fn ask(machine: Arc<dyn Machine>, drives: Vec<(u128, String)>, cache: Arc<Mutex<HealthCache>>) {
    let mut found = BTreeMap::new();
    for (drive, path) in drives {
        found.insert(drive, machine.drive_health(&path).await);
    }
    let mut cache = cache.lock();
    (cache.drives, cache.asking) = (found, false);
}

/// Alert conditions from drive health.
pub(crate) fn of_health<'a>(drives: impl Iterator<Item = (&'a DriveStatus, Health)>) -> Conditions {
    let mut found = Conditions::default();
    for (drive, health) in drives.filter(|(drive, _)| drive.state != DriveState::Failed) {
        let slot = drive.slot.to_string();
        let path = drive.name.as_deref().unwrap_or("no drive");
        let about = Some(About { noun: "drive", name: &slot, key: &format!("{:032x}", drive.drive) });
        if health.verdict == Verdict::Failing {
            condition::add(&mut found, "drive.failing", Severity::Critical, about, &|| {
                format!(
                    "the drive of slot {slot} ({path}) reports that it is failing, or soon will (SMART): replace it now"
                )
            });
        }
        let used = health.used_percent.unwrap_or(0);
        if let Some((_, severity)) = WORN.iter().find(|(limit, _)| used >= *limit) {
            condition::add(&mut found, "drive.worn", *severity, about, &|| {
                format!(
                    "{used} % of the rated writes of the drive of slot {slot} ({path}) is used: replace it soon"
                )
            });
        }
    }
    found
}

#[cfg(test)]
#[path = "health_test.rs"]
mod tests;
