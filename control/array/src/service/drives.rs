//! Monitoring of the drives: events when they fail, return or leave, the progress of evacuations and rebuilds, and where
//! the drives are, for the next start.

use crate::events::bus::EventBus;
use crate::parts::machine::Machine;
use crate::service::jobs::Jobs;
use crate::shape::view::called;
use engine::Engine;
use history::Severity;
use parking_lot::Mutex;
use records::Topic;
use shelf::pool::{DriveState, DriveStatus, Pool, PoolStatus};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was seen of the drives when they were last looked at.
#[derive(Debug, Default)]
struct DriveStates {
    drives: BTreeMap<usize, (u128, DriveState, String)>,
    paths: Vec<String>,
    repaired: u64,
    lost: u64,
}

/// Watches the drives.
pub(crate) struct DriveMonitor {
    bus: Arc<EventBus>,
    jobs: Arc<Jobs>,
    engine: Arc<Engine>,
    pool: Arc<dyn Pool>,
    machine: Arc<dyn Machine>,
    seen: Mutex<DriveStates>,
}

impl DriveMonitor {
    pub fn new(
        bus: Arc<EventBus>,
        jobs: Arc<Jobs>,
        (engine, pool, machine): (Arc<Engine>, Arc<dyn Pool>, Arc<dyn Machine>),
    ) -> Self {
        Self { bus, jobs, engine, pool, machine, seen: Mutex::default() }
    }

    /// Looks what became of the drives.
    pub fn watch(&self) {
        self.engine.watch_drives();
        let mut seen = self.seen.lock();
        let status = self.pool.status();
        self.jobs.follow_relocations(&status);
        let before = std::mem::take(&mut *seen);
        let mut now = DriveStates {
            repaired: status.repaired_pages,
            lost: status.lost_pages,
            ..DriveStates::default()
        };
        let mut changed = false;
        for drive in &status.drives {
            let old = before.drives.get(&drive.slot);
            let state = old.filter(|(id, ..)| *id == drive.drive).map(|(_, state, _)| *state);
            if state != Some(drive.state) {
                changed = true;
                self.log_state(drive, state);
            }
            now.drives.insert(drive.slot, (drive.drive, drive.state, called(drive)));
        }
        for (slot, (_, state, called)) in &before.drives {
            if !now.drives.contains_key(slot) {
                changed = true;
                self.log_removal(*slot, *state, called);
            }
        }
        self.log_pages(&before, &now);
        now.paths = self.remember(&status, before.paths);
        *seen = now;
        if changed {
            self.bus.publish_change(Topic::Drives);
        }
    }

    fn log_state(&self, drive: &DriveStatus, before: Option<DriveState>) {
        let slot = drive.slot.to_string();
        let log = |severity, kind: &str, message: String| {
            self.bus.log_event(severity, kind, Some(("drive", &slot)), message);
        };
        let called = called(drive);
        match (before, drive.state) {
            (_, DriveState::Failed) => {
                let what = "failed: its data are rebuilt on the other drives; replace it";
                log(Severity::Critical, "drive.failed", format!("{called} {what}"));
            }
            (Some(DriveState::Failed), DriveState::Online) => {
                log(Severity::Info, "drive.returned", format!("{called} is online again"));
            }
            _ => {}
        }
    }

    fn log_removal(&self, slot: usize, state: DriveState, called: &str) {
        let (kind, what) = match state {
            DriveState::Evacuating => {
                ("drive.evacuated", "is evacuated and no longer a member of the array: it can be removed")
            }
            _ => ("drive.removed", "is no longer a member of the array: its data are on the other drives"),
        };
        self.bus.log_event(
            Severity::Info,
            kind,
            Some(("drive", &slot.to_string())),
            format!("{called} {what}"),
        );
    }

    fn log_pages(&self, before: &DriveStates, now: &DriveStates) {
        let (repaired, lost) =
            (now.repaired.saturating_sub(before.repaired), now.lost.saturating_sub(before.lost));
        if repaired > 0 {
            let message = format!("{repaired} pages had wrong checksums and were repaired");
            self.bus.log_event(Severity::Warning, "drive.pages-repaired", None, message);
        }
        if lost > 0 {
            let message = format!(
                "{lost} pages can't be reconstructed: hosts get medium errors there; write these blocks again, or restore \
                 them from a backup"
            );
            self.bus.log_event(Severity::Critical, "drive.pages-lost", None, message);
        }
    }

    /// Stores the paths of the drives on the machine if they have changed; returns what is stored.
    fn remember(&self, status: &PoolStatus, before: Vec<String>) -> Vec<String> {
        let mut paths: Vec<String> = status.drives.iter().filter_map(|drive| drive.name.clone()).collect();
        paths.sort();
        if paths == before {
            return before;
        }
        match self.machine.remember_drives(&paths) {
            Ok(()) => paths,
            Err(error) => {
                tracing::error!(%error, "the locations of the drives can't be stored");
                before
            }
        }
    }
}
