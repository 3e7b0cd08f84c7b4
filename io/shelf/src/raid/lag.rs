//! Drives that answer, but much later than their like: what hosts wait for goes round them.
//!
//! How long a drive takes is known without a clock at every request: requests under way, on average, divided by
//! requests answered in a second (Little's law). Drives that have something to do get much the same, so that their
//! median is the measure. More of them that are late at once than can be spared, such as all that carry the journal,
//! are late with what they are asked, and none of them lags. Reads of a drive that lags are answered from the others,
//! its copy of the journal is made elsewhere where there is another drive, no large batch of the journal is striped over
//! it, and no new segment is placed on it. It keeps
//! what it has and stays a member: after a while it gets another chance. The same figure says how much hosts feel of
//! rebuilding and scrubbing, which slow down then.

use super::DriveShelf;
use super::member::Member;
use std::sync::Arc;
use std::time::Duration;

/// How long drives are watched before they are judged, and how often at least.
const WINDOW: Duration = Duration::from_secs(1);
const LEAST_TICKS: u32 = 8;

/// What a drive that lags takes at least, in µs, and how many times as much as the median.
const LATE: u64 = 5_000;
const TIMES: u64 = 20;

/// What the median counts as at least, in µs: drives that have nothing to do take no time.
const PROMPT: u64 = 250;

/// Windows until a drive gets another chance.
const CHANCE: u32 = 30;

/// The window under way.
#[derive(Default)]
pub struct Watch {
    since: Duration,
    ticks: u32,
}

impl DriveShelf {
    /// Takes note of what the drives have under way; at the end of a window they are judged.
    pub(super) fn watch(&self, now: Duration, members: &[Arc<Member>]) {
        let (ticks, time) = {
            let mut watch = self.watch.lock();
            watch.ticks += 1;
            let time = now.saturating_sub(watch.since);
            if time < WINDOW {
                return;
            }
            let ticks = watch.ticks;
            *watch = Watch { since: now, ticks: 0 };
            (ticks, time)
        };
        let there: Vec<_> = members.iter().filter(|member| !member.is_out()).collect();
        let took: Vec<_> = there.iter().map(|member| member.latency(ticks, time)).collect();
        if ticks < LEAST_TICKS || there.len() < 3 {
            return;
        }
        let mut sorted: Vec<u64> = took.iter().flatten().copied().collect();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        self.background.feel(median);
        let most = LATE.max(median.max(PROMPT) * TIMES);
        let late = |took: Option<u64>| took.filter(|took| sorted.len() >= 3 && *took > most);
        let all = there.iter().zip(&took).filter(|(_, took)| late(**took).is_some());
        let all = all.fold(self.lagging(&there), |set, (member, _)| set | 1 << member.slot);
        let spared = self.can_spare(all);
        for (member, took) in there.iter().zip(took) {
            if let Some(took) = late(took).filter(|_| spared) {
                if member.lags(CHANCE) {
                    tracing::error!(drive = member.name(), slot = member.slot, took, median, "a drive lags");
                    self.avoid(member.slot, true);
                }
            } else if member.had_chance() {
                tracing::warn!(
                    drive = member.name(),
                    slot = member.slot,
                    "a drive that lagged gets another chance"
                );
                self.avoid(member.slot, false);
            }
        }
    }

    fn lagging(&self, there: &[&Arc<Member>]) -> u64 {
        there.iter().filter(|member| member.is_lagging()).fold(0, |set, member| set | 1 << member.slot)
    }

    /// Places nothing new on a drive, or something again.
    fn avoid(&self, slot: usize, avoid: bool) {
        self.choose_lanes();
        if self.staying() >> slot & 1 == 1 {
            let mut segments = self.segments.lock();
            let before = segments.room();
            segments.close(slot, avoid);
            if segments.room() < before / 2 {
                // Slow space is better than none.
                segments.close(slot, false);
            }
        }
        self.background.wake();
    }
}

#[cfg(test)]
#[path = "lag_test.rs"]
mod tests;
