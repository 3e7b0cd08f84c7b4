//! Monitoring of the quotas of volume groups, about once a second and after every change. Hard quotas are enforced where
//! commands are (`export`), and only reported here.

use crate::events::bus::EventBus;
use crate::service::space::beyond;
use block::{Disk, DiskId};
use engine::Engine;
use export::Exports;
use history::Severity;
use parking_lot::Mutex;
use records::{Config, GroupEntry, GroupId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was found, so that each crossing is logged once.
#[derive(Debug, Default)]
struct Found {
    /// Groups beyond their soft quota.
    soft: BTreeSet<GroupId>,
    /// Groups that reached their hard quota.
    hard: BTreeSet<GroupId>,
    /// Operations that each group's hard quota had refused by then.
    refused: BTreeMap<GroupId, u64>,
}

/// Bytes that hosts mapped on some volumes: what quotas are about.
pub(crate) fn mapped(engine: &Engine, disks: impl Iterator<Item = DiskId>) -> u64 {
    disks.filter_map(|id| engine.volume(id)).map(|disk| disk.space().mapped).sum()
}

/// Watches the quotas of volume groups.
pub(crate) struct Quotas {
    engine: Arc<Engine>,
    exports: Arc<Exports>,
    bus: Arc<EventBus>,
    found: Mutex<Found>,
}

impl Quotas {
    pub fn new(engine: Arc<Engine>, exports: Arc<Exports>, bus: Arc<EventBus>) -> Self {
        Self { engine, exports, bus, found: Mutex::default() }
    }

    /// Whether a group is beyond its soft quota, and whether it reached the hard one.
    pub fn state(&self, group: GroupId) -> (bool, bool) {
        let found = self.found.lock();
        (found.soft.contains(&group), found.hard.contains(&group))
    }

    /// Checks all quotas. `log`: crossings are logged; at a start they are not new.
    pub fn check(&self, config: &Config, log: bool) {
        config.groups.iter().for_each(|group| self.check_group(config, group.id, log));
    }

    /// Checks the quotas of one group, whether it is there or not.
    pub fn check_group(&self, config: &Config, id: GroupId, log: bool) {
        let limited = |group: &&GroupEntry| group.soft_quota.is_some() || group.hard_quota.is_some();
        let Some(group) = config.groups.get(id).filter(limited) else {
            let mut found = self.found.lock();
            found.soft.remove(&id);
            found.hard.remove(&id);
            found.refused.remove(&id);
            return;
        };
        let members: Vec<DiskId> = config.members(id).map(|volume| volume.id).collect();
        let used = mapped(&self.engine, members.iter().copied());
        let (was_soft, was_hard) = self.state(id);
        let is_soft = group.soft_quota.is_some_and(|quota| beyond(used, quota, was_soft));
        let last = self.exports.refresh_quota(id.0.into());
        let refused_before = self.found.lock().refused.insert(id, last.operations);
        let met = last.operations > refused_before.unwrap_or(0);
        // Hosts that were refused wait until there is as much room as they asked for.
        let wanted = if met || was_hard { last.bytes } else { 0 };
        let is_out = |quota| used >= quota || used.saturating_add(wanted) > quota;
        let is_hard = group.hard_quota.is_some_and(is_out);
        if log {
            self.log_soft_quota(group, &members, (was_soft, is_soft));
            self.log_hard_quota(group, (was_hard, met, is_hard));
        }
        let mut found = self.found.lock();
        if is_soft {
            found.soft.insert(id)
        } else {
            found.soft.remove(&id)
        };
        if is_hard {
            found.hard.insert(id)
        } else {
            found.hard.remove(&id)
        };
    }

    fn log_quota(&self, group: &GroupEntry, severity: Severity, kind: &str, what: &str) {
        let name = &group.name;
        self.bus.log_event(
            severity,
            kind,
            Some(("volume group", name)),
            format!("volume group {name:?} {what}"),
        );
    }

    /// Reports the state of the soft quota: whether the group was beyond it, and is.
    fn log_soft_quota(&self, group: &GroupEntry, members: &[DiskId], (was, is): (bool, bool)) {
        match (was, is) {
            (false, true) => {
                members.iter().for_each(|id| self.exports.notify(*id, export::Event::ThresholdCrossed));
                let what = format!("crossed its soft quota of {} bytes", group.soft_quota.unwrap_or(0));
                self.log_quota(group, Severity::Warning, "group.soft-quota-crossed", &what);
            }
            (true, false) => {
                let what = "is below its soft quota again";
                self.log_quota(group, Severity::Info, "group.soft-quota-over", what);
            }
            _ => {}
        }
    }

    /// Reports the state of the hard quota: whether the group had reached it, a host met it since, and it is reached
    /// now.
    fn log_hard_quota(&self, group: &GroupEntry, (was, met, is): (bool, bool, bool)) {
        if !was && (met || is) {
            let what = format!(
                "reached its hard quota of {} bytes: its volumes take no new space until something is unmapped or the \
                 quota is raised",
                group.hard_quota.unwrap_or(0)
            );
            self.log_quota(group, Severity::Critical, "group.hard-quota-reached", &what);
        }
        if (was || met) && !is {
            self.log_quota(group, Severity::Info, "group.hard-quota-over", "takes new space again");
        }
    }
}
