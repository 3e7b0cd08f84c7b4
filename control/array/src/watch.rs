//! What the array watches by itself, about once a second and after every change: quotas of volume groups, and how full
//! the drives are. No I/O waits for it, so that hosts can go beyond a hard quota by what they write in that time.

use crate::array::Array;
use crate::config::{Config, GroupEntry, GroupId, ScheduleId};
use block::{Disk, DiskId};
use history::Severity;
use std::collections::{BTreeMap, BTreeSet};

/// Parts of a hundred of the drives' space, with how much it matters when they are in use.
const THRESHOLDS: &[(u64, Severity)] =
    &[(70, Severity::Warning), (80, Severity::Warning), (90, Severity::Critical), (95, Severity::Critical)];

/// What was found, so that everything is told once.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Groups beyond their soft quota.
    soft: BTreeSet<GroupId>,
    /// Groups that reached their hard quota.
    hard: BTreeSet<GroupId>,
    /// Volumes that take no new space because of that.
    stopped: BTreeSet<DiskId>,
    /// When schedules failed last, in seconds since 1970.
    pub failed: BTreeMap<ScheduleId, u64>,
    /// When the scrub that was due could not begin, in seconds since 1970.
    pub scrub_failed: Option<u64>,
    /// The threshold of space that was crossed last, in parts of a hundred.
    space: u64,
}

/// Whether something is beyond a limit; it is not again before one part of a hundred is given back, so that nobody
/// hears of it every second.
fn beyond(used: u64, limit: u64, before: bool) -> bool {
    used >= if before { limit - limit / 100 } else { limit }
}

impl Array {
    /// Bytes that hosts mapped on the volumes of a group: what quotas are about.
    pub(crate) fn mapped_by(&self, config: &Config, group: GroupId) -> u64 {
        let disks = config.members(group).filter_map(|volume| self.parts.engine.volume(volume.id));
        disks.map(|disk| disk.space().mapped).sum()
    }

    /// Whether a group is beyond its soft quota, and whether it reached the hard one.
    pub(crate) fn quota_state(&self, group: GroupId) -> (bool, bool) {
        let watched = self.watched.lock();
        (watched.soft.contains(&group), watched.hard.contains(&group))
    }

    /// Whether a volume takes no new space.
    pub(crate) fn is_stopped(&self, id: DiskId) -> bool {
        self.watched.lock().stopped.contains(&id)
    }

    /// Looks at all quotas. `told`: what is found is news, not what was so when the array came up.
    pub(crate) fn enforce_quotas(&self, config: &Config, told: bool) {
        let (mut soft, mut hard, mut stopped) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let limited = |group: &&GroupEntry| group.soft_quota.is_some() || group.hard_quota.is_some();
        for group in config.groups.iter().filter(limited) {
            let used = self.mapped_by(config, group.id);
            let (was_soft, was_hard) = self.quota_state(group.id);
            if group.soft_quota.is_some_and(|quota| beyond(used, quota, was_soft)) {
                soft.insert(group.id);
            }
            // Space may be taken again as soon as there is any: hosts wait for it.
            if group.hard_quota.is_some_and(|quota| beyond(used, quota, false)) {
                hard.insert(group.id);
                stopped.extend(config.members(group.id).map(|volume| volume.id));
            }
            if told {
                self.tell_quota(
                    config,
                    group,
                    (was_soft, was_hard),
                    (soft.contains(&group.id), hard.contains(&group.id)),
                );
            }
        }
        let changed: Vec<DiskId> = {
            let mut watched = self.watched.lock();
            let changed = watched.stopped.symmetric_difference(&stopped).copied().collect();
            (watched.soft, watched.hard, watched.stopped) = (soft, hard, stopped);
            changed
        };
        for volume in changed.into_iter().filter_map(|id| config.volumes.get(id)) {
            self.set_options(volume);
        }
    }

    fn tell_quota(
        &self,
        config: &Config,
        group: &GroupEntry,
        (was_soft, was_hard): (bool, bool),
        (soft, hard): (bool, bool),
    ) {
        let name = &group.name;
        let tell = |severity, kind: &str, what: String| {
            self.tell(severity, kind, Some(("volume group", name)), format!("volume group {name:?} {what}"));
        };
        let bytes = |quota: Option<u64>| quota.unwrap_or(0);
        match (was_soft, soft) {
            (false, true) => {
                config.members(group.id).for_each(|volume| self.parts.target.threshold_crossed(volume.id));
                let what = format!("crossed its soft quota of {} bytes", bytes(group.soft_quota));
                tell(Severity::Warning, "group.soft-quota-crossed", what);
            }
            (true, false) => {
                tell(Severity::Info, "group.soft-quota-over", "is below its soft quota again".into());
            }
            _ => {}
        }
        match (was_hard, hard) {
            (false, true) => {
                let what = format!(
                    "reached its hard quota of {} bytes: its volumes take no new space until something is unmapped \
                     or the quota is raised",
                    bytes(group.hard_quota)
                );
                tell(Severity::Critical, "group.hard-quota-reached", what);
            }
            (true, false) => tell(Severity::Info, "group.hard-quota-over", "takes new space again".into()),
            _ => {}
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
                self.tell(*severity, "space.threshold-crossed", None, message);
            }
            _ if now < before => {
                let message = format!("less than {before} % of the drives' space is in use again");
                self.tell(Severity::Info, "space.threshold-over", None, message);
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
