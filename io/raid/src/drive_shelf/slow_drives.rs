//! Slow-drive detection: drives that complete requests, but persistently much later than their peers (fail-slow).
//!
//! Latency is measured without a clock read per request: the average number of requests in flight at the ticks, divided by
//! the requests completed (Little's law). Reads, writes and durable writes are judged separately, each against the drives
//! that had the same kind of work: the latency of a journal write says nothing about a drive that only reads.
//!
//! A drive is slow if all of this holds:
//! - its latency is above a floor that neither flash nor a shared disk reaches on average, and many times the median of its
//!   peers. A peer counts only with enough completions, and with the upper bound of its latency: a drive that had hardly
//!   any work proves nothing about its speed;
//! - it was so in most of the last seconds. A single stall is not slowness;
//! - the array can do without all drives that are slow at the same time.
//!
//! Reads of a slow drive are served from the others, its copy of the journal moves to another drive if there is one, no
//! large batch of the journal is striped over it, and new segments avoid it as long as that costs neither parity nor space
//! that data may need (see [`segments`](super::segments)). It stays a member, keeps what it has, and is written when there
//! is no other way. It is known to be prompt again by evidence or, if it gets too little work for that, by a trial; after
//! each failed trial the next one is later.
//!
//! A drive that lags makes hosts wait although it is not slow enough for that, or although the array can't do without it: it is
//! reported, and nothing else. It lags if it takes several times the median of its peers, or longer than any drive should, in
//! half of the last minute in which it had work.
//!
//! The same figure shows how much rebuild and scrub slow hosts down, from which their rate follows.

use super::DriveShelf;
use super::member::{CLASSES, Member, Sample};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Length of a window of evidence, and the ticks that it must have: with fewer, this process was stalled.
const WINDOW: Duration = Duration::from_secs(1);
const WINDOW_MIN_TICKS: u32 = 8;

/// Windows that a judgement covers, and in how many of them a slow drive must have been late.
const WINDOWS: usize = 8;
const MIN_LATE_WINDOWS: usize = 6;

/// Latency below which no drive is slow, in µs, and how many times the median of its peers a slow one takes.
const FLOOR_US: f64 = 10_000.0;
const TIMES_PEERS: f64 = 10.0;

/// Requests seen in flight that are enough to judge a latency as late.
const MIN_IN_FLIGHT: u64 = 16;
/// Completions that are enough to judge a latency as prompt, or to compare peers with it.
const MIN_COMPLETED: u64 = 32;
/// Number of peers that must have that many.
const MIN_PEERS: usize = 2;

/// Latency below which no drive lags, and from which it lags whatever its peers take, in µs; how many times the median of its peers
/// a lagging one takes; and the requests seen in flight that are enough to say so.
const LAG_FLOOR_US: f64 = 2_000.0;
const LAG_CEILING_US: f64 = 100_000.0;
const LAG_TIMES_PEERS: f64 = 4.0;
const LAG_MIN_IN_FLIGHT: u64 = 8;
/// Of the last 64 windows in which a drive had work, those in which it must have lagged to be reported, and in which it may have
/// lagged when that ends.
const LAG_BEGINS: u32 = 32;
const LAG_ENDS: u32 = 8;

/// Windows until a slow drive without evidence is tried again, the first time and at most, and the windows of such a
/// trial.
const TRIAL_AFTER_WINDOWS: u32 = 30;
const TRIAL_AFTER_MAX_WINDOWS: u32 = 960;
const TRIAL_WINDOWS: u32 = 12;
/// Prompt windows after which the time to the next trial is reset.
const RESET_AFTER_WINDOWS: u32 = 3_600;

/// The current window, and the history of every drive.
#[derive(Default)]
pub struct SlowDriveDetector {
    since: Duration,
    ticks: u32,
    drives: BTreeMap<usize, DriveHistory>,
}

/// The last windows of a drive, and its state.
struct DriveHistory {
    drive: u128,
    windows: VecDeque<[Evidence; CLASSES]>,
    state: State,
    /// Windows until the next trial once it is found slow.
    trial_after: u32,
    prompt_windows: u32,
    /// Whether it lagged in each of the last windows in which it had work, the newest in the lowest bit.
    lagged: u64,
    lags: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Prompt,
    /// Avoided for this many more windows.
    Slow(u32),
    /// Used as if it were prompt, for this many more windows.
    Trial(u32),
}

/// Latency of requests of one kind in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    in_flight: u64,
    completed: u64,
    /// Time between two ticks, in µs.
    tick_us: f64,
    /// Of all requests together, in µs.
    waited_us: f64,
}

impl Evidence {
    fn new(sample: Sample, ticks: u32, window: Duration) -> Self {
        let tick_us = window.as_micros() as f64 / f64::from(ticks.max(1));
        let Sample { in_flight, completed } = sample;
        Self { in_flight, completed, tick_us, waited_us: in_flight as f64 * tick_us }
    }

    fn add(self, other: &Self) -> Self {
        Self {
            in_flight: self.in_flight + other.in_flight,
            completed: self.completed + other.completed,
            tick_us: self.tick_us.max(other.tick_us),
            waited_us: self.waited_us + other.waited_us,
        }
    }

    fn mean_us(&self) -> f64 {
        self.waited_us / self.completed.max(1) as f64
    }

    /// Lower confidence bound of the mean latency.
    fn least_us(&self) -> f64 {
        let certain = 1.0 - 2.0 / (self.in_flight.max(1) as f64).sqrt();
        self.mean_us() * certain.max(0.0)
    }

    /// Upper bound of the mean latency; `None` without enough completions.
    fn most_us(&self) -> Option<f64> {
        (self.completed >= MIN_COMPLETED).then(|| (self.waited_us + self.tick_us) / self.completed as f64)
    }
}

impl DriveHistory {
    fn new(drive: u128) -> Self {
        let (windows, state) = (VecDeque::new(), State::Prompt);
        Self {
            drive,
            windows,
            state,
            trial_after: TRIAL_AFTER_WINDOWS,
            prompt_windows: 0,
            lagged: 0,
            lags: false,
        }
    }

    fn note(&mut self, window: [Evidence; CLASSES]) {
        self.windows.push_back(window);
        if self.windows.len() > WINDOWS {
            self.windows.pop_front();
        }
    }

    fn sum(&self, class: usize) -> Evidence {
        self.windows.iter().fold(Evidence::default(), |sum, window| sum.add(&window[class]))
    }

    /// Whether requests of this kind were late, given the expected latency.
    fn is_late(&self, class: usize, expected_us: f64) -> bool {
        let sum = self.sum(class);
        let late = |window: &&[Evidence; CLASSES]| {
            window[class].in_flight > 0 && window[class].mean_us() >= FLOOR_US
        };
        self.windows.len() == WINDOWS
            && sum.in_flight >= MIN_IN_FLIGHT
            && sum.least_us() >= FLOOR_US.max(TIMES_PEERS * expected_us)
            && self.windows.iter().filter(late).count() >= MIN_LATE_WINDOWS
    }

    /// Whether hosts wait for requests of this kind for longer than they should.
    fn lags_in(&self, class: usize, expected_us: Option<f64>) -> bool {
        let sum = self.sum(class);
        let bound = expected_us
            .map_or(LAG_CEILING_US, |us| LAG_FLOOR_US.max(LAG_TIMES_PEERS * us).min(LAG_CEILING_US));
        self.windows.len() == WINDOWS && sum.in_flight >= LAG_MIN_IN_FLIGHT && sum.mean_us() >= bound
    }

    /// Takes the last window into account.
    fn note_lag(&mut self, expected: &[Option<f64>; CLASSES]) {
        let had_work = |window: &[Evidence; CLASSES]| window.iter().any(|it| it.in_flight + it.completed > 0);
        if self.windows.back().is_some_and(had_work) {
            let lags = (0..CLASSES).any(|class| self.lags_in(class, expected[class]));
            self.lagged = self.lagged << 1 | u64::from(lags);
        }
        self.lags = self.lagged.count_ones() >= if self.lags { LAG_ENDS } else { LAG_BEGINS };
    }

    /// Whether it is known to be prompt in every kind of request that it had: well below what would be late.
    fn is_prompt(&self, expected: &[Option<f64>; CLASSES]) -> bool {
        let known: Vec<bool> = (0..CLASSES)
            .filter_map(|class| {
                let bound = FLOOR_US.max(TIMES_PEERS * expected[class].unwrap_or(0.0));
                self.sum(class).most_us().map(|most| most < bound / 2.0)
            })
            .collect();
        self.windows.len() == WINDOWS && !known.is_empty() && known.iter().all(|prompt| *prompt)
    }

    /// Ends a window. `late`: it was judged late, and the array can do without it.
    fn step(&mut self, late: bool, prompt: bool) {
        let before = self.state;
        self.state = match before {
            _ if late => State::Slow(match before {
                State::Slow(_) => self.trial_after,
                _ => self.found_slow(),
            }),
            State::Prompt => State::Prompt,
            _ if prompt => State::Prompt,
            State::Slow(0) => {
                self.windows.clear();
                State::Trial(TRIAL_WINDOWS)
            }
            State::Slow(left) => State::Slow(left - 1),
            State::Trial(0) => State::Prompt,
            State::Trial(left) => State::Trial(left - 1),
        };
        self.prompt_windows = if self.state == State::Prompt { self.prompt_windows + 1 } else { 0 };
        if self.prompt_windows >= RESET_AFTER_WINDOWS {
            self.trial_after = TRIAL_AFTER_WINDOWS;
        }
    }

    fn found_slow(&mut self) -> u32 {
        let after = self.trial_after;
        self.trial_after = (after * 2).min(TRIAL_AFTER_MAX_WINDOWS);
        after
    }
}

/// Expected latency of each kind of request, in µs: the median of the drives with enough evidence, if there are enough
/// besides the one that is judged.
fn expected(records: &BTreeMap<usize, DriveHistory>, but: usize) -> [Option<f64>; CLASSES] {
    std::array::from_fn(|class| {
        let peers = records.iter().filter(|(slot, _)| **slot != but);
        let mut most: Vec<f64> = peers.filter_map(|(_, record)| record.sum(class).most_us()).collect();
        most.sort_by(f64::total_cmp);
        if most.len() < MIN_PEERS { None } else { most.get(most.len() / 2).copied() }
    })
}

impl SlowDriveDetector {
    fn note_lags(&mut self) {
        let slots: Vec<_> = self.drives.keys().copied().collect();
        for slot in slots {
            let expected = expected(&self.drives, slot);
            self.drives.get_mut(&slot).into_iter().for_each(|record| record.note_lag(&expected));
        }
    }

    /// Whether the drive in a slot makes hosts wait.
    pub(super) fn lags(&self, slot: usize) -> bool {
        self.drives.get(&slot).is_some_and(|record| record.lags)
    }

    /// Slots that are late, prompt, and avoided or on trial, as sets.
    fn judge(&self) -> (u64, u64, u64) {
        let (mut late, mut prompt, mut slow) = (0, 0, 0);
        for (slot, record) in &self.drives {
            let expected = expected(&self.drives, *slot);
            let is_late = (0..CLASSES)
                .any(|class| expected[class].is_some_and(|expected| record.is_late(class, expected)));
            late |= u64::from(is_late) << slot;
            prompt |= u64::from(!is_late && record.is_prompt(&expected)) << slot;
            slow |= u64::from(record.state != State::Prompt) << slot;
        }
        (late, prompt, slow)
    }
}

impl DriveShelf {
    /// Samples the requests in flight; judges the drives at the end of a window.
    pub(super) fn detect_slow_drives(&self, now: Duration, members: &[Arc<Member>]) {
        let mut detector = self.slow_drives.lock();
        detector.ticks += 1;
        let time = now.saturating_sub(detector.since);
        if time < WINDOW {
            return;
        }
        let ticks = std::mem::take(&mut detector.ticks);
        detector.since = now;
        let there: Vec<_> = members.iter().filter(|member| !member.is_failed()).collect();
        let samples: Vec<_> = there.iter().map(|member| member.take_samples()).collect();
        if ticks < WINDOW_MIN_TICKS {
            // The samples say something about this process, not about the drives.
            return;
        }
        self.background.observe_latency(median_us(&samples, ticks, time));
        detector.drives.retain(|slot, record| {
            there.iter().any(|member| member.slot == *slot && member.id == record.drive)
        });
        for (member, samples) in there.iter().zip(samples) {
            let window = samples.map(|sample| Evidence::new(sample, ticks, time));
            detector.drives.entry(member.slot).or_insert_with(|| DriveHistory::new(member.id)).note(window);
        }
        detector.note_lags();
        let (late, prompt, slow) = detector.judge();
        let spared = late != 0 && self.can_spare(late | slow);
        let late = if spared { late } else { 0 };
        let mut changed = Vec::new();
        for member in there {
            let Some(record) = detector.drives.get_mut(&member.slot) else { continue };
            let before = record.state;
            record.step(late >> member.slot & 1 == 1, prompt >> member.slot & 1 == 1);
            if std::mem::discriminant(&before) != std::mem::discriminant(&record.state) {
                changed.push((member, record.state));
            }
        }
        drop(detector);
        changed.into_iter().for_each(|(member, state)| self.found(member, state));
    }

    /// Acts on a changed state.
    fn found(&self, member: &Member, state: State) {
        let (drive, slot) = (member.name(), member.slot);
        match state {
            State::Slow(_) => {
                tracing::error!(drive, slot, "a drive is much slower than the others: it is avoided")
            }
            State::Trial(_) => tracing::warn!(drive, slot, "a slow drive is tried again"),
            State::Prompt => tracing::warn!(drive, slot, "a drive is not slow any more"),
        }
        let avoided = matches!(state, State::Slow(_));
        member.set_slow(state != State::Prompt, avoided);
        self.update_stripe_candidates();
        self.segments.lock().set_slow(slot, avoided);
        self.background.wake();
    }
}

/// Median of the drives' latencies, in µs: 0 for a drive that hardly ever had a request in flight.
fn median_us(samples: &[[Sample; CLASSES]], ticks: u32, window: Duration) -> u64 {
    let took = samples.iter().filter_map(|classes| {
        let (mut in_flight, mut completed) = (0, 0);
        classes.iter().for_each(|sample| {
            in_flight += sample.in_flight;
            completed += sample.completed;
        });
        let ticks = u64::from(ticks.max(1));
        match (in_flight * 2 < ticks, completed) {
            (_, 0) if in_flight == 0 => None,
            (true, _) => Some(0),
            (false, _) => Some(in_flight * window.as_micros() as u64 / ticks / completed.max(1)),
        }
    });
    let mut sorted: Vec<u64> = took.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
#[path = "slow_drives_test.rs"]
mod tests;
