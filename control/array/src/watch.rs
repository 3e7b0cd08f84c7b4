//! Monitoring of quotas and of free space, about once a second and after every change. Hard quotas are enforced where
//! commands are (`scsi`), and only reported here.

use crate::array::Array;
use block::{Disk, DiskId};
use engine::Engine;
use history::Severity;
use records::{Config, GroupEntry, GroupId, ScheduleId};
use std::collections::{BTreeMap, BTreeSet};

/// Parts of a hundred of the drives' space, with how much it matters when they are in use.
const THRESHOLDS: &[(u64, Severity)] =
    &[(70, Severity::Warning), (80, Severity::Warning), (90, Severity::Critical), (95, Severity::Critical)];

/// What was found, so that each crossing is logged once.
#[derive(Debug, Default)]
pub(crate) struct WatchState {
    /// Groups beyond their soft quota.
    soft: BTreeSet<GroupId>,
    /// Groups that reached their hard quota.
    hard: BTreeSet<GroupId>,
    /// Operations that each group's hard quota had refused by then.
    refused: BTreeMap<GroupId, u64>,
    /// When schedules failed last, in seconds of uptime.
    pub failed: BTreeMap<ScheduleId, u64>,
    /// When the scrub that was due could not begin, in seconds since 1970.
    pub scrub_failed: Option<u64>,
    /// The threshold of space that was crossed last, in parts of a hundred.
    space: u64,
}

/// Whether something is beyond a limit, with hysteresis: not again before one percent is given back, so that nobody
/// hears of it every second.
fn beyond(used: u64, limit: u64, before: bool) -> bool {
    used >= if before { limit - limit / 100 } else { limit }
}

/// Bytes that hosts mapped on some volumes: what quotas are about.
pub(crate) fn mapped(engine: &Engine, disks: impl Iterator<Item = DiskId>) -> u64 {
    disks.filter_map(|id| engine.volume(id)).map(|disk| disk.space().mapped).sum()
}

impl Array {
    /// Bytes that hosts mapped on the volumes of a group.
    pub(crate) fn mapped_by(&self, config: &Config, group: GroupId) -> u64 {
        mapped(&self.parts.engine, config.members(group).map(|volume| volume.id))
    }

    /// Whether a group is beyond its soft quota, and whether it reached the hard one.
    pub(crate) fn quota_state(&self, group: GroupId) -> (bool, bool) {
        let watched = self.watched.lock();
        (watched.soft.contains(&group), watched.hard.contains(&group))
    }

    /// Checks all quotas. `log`: crossings are logged; at a start they are not new.
    pub(crate) fn check_quotas(&self, config: &Config, log: bool) {
        let (mut soft, mut hard, mut refused) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        let limited = |group: &&GroupEntry| group.soft_quota.is_some() || group.hard_quota.is_some();
        let refused_before = self.watched.lock().refused.clone();
        for group in config.groups.iter().filter(limited) {
            let used = self.mapped_by(config, group.id);
            let (was_soft, was_hard) = self.quota_state(group.id);
            let is_soft = group.soft_quota.is_some_and(|quota| beyond(used, quota, was_soft));
            let last = self.parts.exports.refresh_quota(group.id.0.into());
            let met = last.operations > refused_before.get(&group.id).copied().unwrap_or(0);
            // Hosts that were refused wait until there is as much room as they asked for.
            let wanted = if met || was_hard { last.bytes } else { 0 };
            let is_out = |quota| used >= quota || used.saturating_add(wanted) > quota;
            let is_hard = group.hard_quota.is_some_and(is_out);
            if log {
                self.log_soft_quota(config, group, (was_soft, is_soft));
                self.log_hard_quota(group, (was_hard, met, is_hard));
            }
            soft.extend(is_soft.then_some(group.id));
            hard.extend(is_hard.then_some(group.id));
            refused.insert(group.id, last.operations);
        }
        let mut watched = self.watched.lock();
        (watched.soft, watched.hard, watched.refused) = (soft, hard, refused);
    }

    fn log_quota(&self, group: &GroupEntry, severity: Severity, kind: &str, what: &str) {
        let name = &group.name;
        self.log_event(severity, kind, Some(("volume group", name)), format!("volume group {name:?} {what}"));
    }

    /// Reports the state of the soft quota: whether the group was beyond it, and is.
    fn log_soft_quota(&self, config: &Config, group: &GroupEntry, (was, is): (bool, bool)) {
        match (was, is) {
            (false, true) => {
                config
                    .members(group.id)
                    .for_each(|volume| self.parts.exports.notify(volume.id, export::Event::ThresholdCrossed));
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

    /// The threshold of space that is crossed now, in parts of a hundred, and how much it matters.
    pub(crate) fn space_threshold(&self) -> Option<(u64, Severity)> {
        let crossed = self.watched.lock().space;
        THRESHOLDS.iter().find(|(limit, _)| *limit == crossed).copied()
    }

    /// Looks how full the drives are.
    pub(crate) fn watch_space(&self) {
        let space = self.parts.engine.space();
        let used = space.total.saturating_sub(space.free);
        let before = self.watched.lock().space;
        let reached = |limit: u64| beyond(used, space.total / 100 * limit, limit <= before);
        let crossed = THRESHOLDS.iter().rev().find(|(limit, _)| space.total > 0 && reached(*limit));
        let now = crossed.map_or(0, |(limit, _)| *limit);
        self.watched.lock().space = now;
        match crossed {
            Some((limit, severity)) if now > before => {
                let message = format!(
                    "{limit} % of the drives' space is in use: {} bytes are free; delete or unmap what is not needed, \
                     or add drives",
                    space.free
                );
                self.log_event(*severity, "space.threshold-crossed", None, message);
            }
            _ if now < before => {
                let message = format!("less than {before} % of the drives' space is in use again");
                self.log_event(Severity::Info, "space.threshold-over", None, message);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_beyond_is_so_until_a_part_is_given_back() {
        assert!(!beyond(99, 100, false) && beyond(100, 100, false));
        assert!(beyond(99, 100, true) && !beyond(98, 100, true));
    }
}
