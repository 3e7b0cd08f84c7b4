//! Slow-drive detection: drives that answer, but persistently much later than their peers.
//!
//! Latency is measured without a clock at every request: requests under way, on average over the ticks, divided by
//! requests answered (Little's law). Reads, writes and durable writes are judged apart, each against the drives that
//! had the same kind of work: what a journal write takes is no measure for a drive that only reads.
//!
//! A drive is slow when all of this holds:
//! - its latency is above a floor that neither flash nor a shared disk reaches as an average, and many times the median
//!   of its peers. A peer counts only with enough answers, and with the most that its latency may be: a drive that had
//!   hardly anything to do proves nothing about its speed;
//! - it was so in most of the last seconds. A stall is not slowness;
//! - the drives that are slow at once can be spared.
//!
//! Reads of a slow drive are answered from the others, its copy of the journal is made elsewhere where there is another
//! drive, no large batch of the journal is striped over it, and new segments avoid it as long as that costs neither
//! parity nor room that data may need (see [`segments`](super::segments)). It stays a member, keeps what it has, and is
//! written when there is no other way. It is found prompt again by evidence, or, when it is asked too little for that,
//! used again for a trial; each time that it is found slow again, the next trial is later.
//!
//! The same figure says how much hosts feel of rebuilding and scrubbing, which slow down then.

use super::DriveShelf;
use super::member::{CLASSES, Member, Sample};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long a window of evidence is, and how many ticks it has at least: with fewer, this process stood still.
const WINDOW: Duration = Duration::from_secs(1);
const WINDOW_MIN_TICKS: u32 = 8;

/// Windows that a judgement covers, and in how many of them a slow drive was late.
const WINDOWS: usize = 8;
const MIN_LATE_WINDOWS: usize = 6;

/// Latency below which no drive is slow, in µs, and how many times the median of its peers a slow one takes.
const FLOOR_US: f64 = 10_000.0;
const TIMES_PEERS: f64 = 10.0;

/// Requests found under way that a latency is judged late by, at least.
const MIN_IN_FLIGHT: u64 = 16;
/// Answers that a latency is judged prompt by, or serves as a measure for peers, at least.
const MIN_ANSWERS: u64 = 32;
/// Peers that have to have so many.
const MIN_PEERS: usize = 2;

/// Windows until a slow drive of which nothing is known is used again, the first time and at most, and windows that such a
/// trial takes.
const TRIAL_AFTER_WINDOWS: u32 = 30;
const TRIAL_AFTER_MAX_WINDOWS: u32 = 960;
const TRIAL_WINDOWS: u32 = 12;
/// Prompt windows after which it is forgotten that a drive was slow.
const FORGIVEN_AFTER_WINDOWS: u32 = 3_600;

/// The window under way, and what is known about every drive.
#[derive(Default)]
pub struct Watch {
    since: Duration,
    ticks: u32,
    drives: BTreeMap<usize, Record>,
}

/// What is known about a drive.
struct Record {
    drive: u128,
    windows: VecDeque<[Evidence; CLASSES]>,
    state: State,
    /// Windows until the next trial when it is found slow.
    trial_after: u32,
    prompt_windows: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Prompt,
    /// Avoided for so many windows more.
    Slow(u32),
    /// Used as if it were prompt, for so many windows more.
    Trial(u32),
}

/// What requests of one kind took in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    in_flight: u64,
    answered: u64,
    /// Time between two ticks, in µs.
    tick_us: f64,
    /// Of all requests together, in µs.
    waited_us: f64,
}

impl Evidence {
    fn new(sample: Sample, ticks: u32, window: Duration) -> Self {
        let tick_us = window.as_micros() as f64 / f64::from(ticks.max(1));
        let Sample { in_flight, answered } = sample;
        Self { in_flight, answered, tick_us, waited_us: in_flight as f64 * tick_us }
    }

    fn add(self, other: &Self) -> Self {
        Self {
            in_flight: self.in_flight + other.in_flight,
            answered: self.answered + other.answered,
            tick_us: self.tick_us.max(other.tick_us),
            waited_us: self.waited_us + other.waited_us,
        }
    }

    fn mean_us(&self) -> f64 {
        self.waited_us / self.answered.max(1) as f64
    }

    /// The least that a request took on average, with some certainty.
    fn least_us(&self) -> f64 {
        let certain = 1.0 - 2.0 / (self.in_flight.max(1) as f64).sqrt();
        self.mean_us() * certain.max(0.0)
    }

    /// The most that a request took on average; none without enough answers.
    fn most_us(&self) -> Option<f64> {
        (self.answered >= MIN_ANSWERS).then(|| (self.waited_us + self.tick_us) / self.answered as f64)
    }
}

impl Record {
    fn new(drive: u128) -> Self {
        let (windows, state) = (VecDeque::new(), State::Prompt);
        Self { drive, windows, state, trial_after: TRIAL_AFTER_WINDOWS, prompt_windows: 0 }
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

    /// Whether requests of this kind were late, given what may be expected.
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

    /// Whether it is known to be prompt in all that it was asked for: well below what would be late.
    fn is_prompt(&self, expected: &[Option<f64>; CLASSES]) -> bool {
        let known: Vec<bool> = (0..CLASSES)
            .filter_map(|class| {
                let bound = FLOOR_US.max(TIMES_PEERS * expected[class].unwrap_or(0.0));
                self.sum(class).most_us().map(|most| most < bound / 2.0)
            })
            .collect();
        self.windows.len() == WINDOWS && !known.is_empty() && known.iter().all(|prompt| *prompt)
    }

    /// A window has ended. `late`: as judged, and the drive can be spared.
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
        if self.prompt_windows >= FORGIVEN_AFTER_WINDOWS {
            self.trial_after = TRIAL_AFTER_WINDOWS;
        }
    }

    fn found_slow(&mut self) -> u32 {
        let after = self.trial_after;
        self.trial_after = (after * 2).min(TRIAL_AFTER_MAX_WINDOWS);
        after
    }
}

/// What requests of each kind may be expected to take, in µs: the median of the drives that are known well enough, when
/// there are enough besides the one that is judged.
fn expected(records: &BTreeMap<usize, Record>, but: usize) -> [Option<f64>; CLASSES] {
    std::array::from_fn(|class| {
        let peers = records.iter().filter(|(slot, _)| **slot != but);
        let mut most: Vec<f64> = peers.filter_map(|(_, record)| record.sum(class).most_us()).collect();
        most.sort_by(f64::total_cmp);
        if most.len() < MIN_PEERS { None } else { most.get(most.len() / 2).copied() }
    })
}

impl Watch {
    /// Slots that are late and those that are avoided or on trial, as sets.
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
    /// Takes note of what the drives have under way; at the end of a window they are judged.
    pub(super) fn watch(&self, now: Duration, members: &[Arc<Member>]) {
        let mut watch = self.watch.lock();
        watch.ticks += 1;
        let time = now.saturating_sub(watch.since);
        if time < WINDOW {
            return;
        }
        let ticks = std::mem::take(&mut watch.ticks);
        watch.since = now;
        let there: Vec<_> = members.iter().filter(|member| !member.is_out()).collect();
        let samples: Vec<_> = there.iter().map(|member| member.take_samples()).collect();
        if ticks < WINDOW_MIN_TICKS {
            // What came meanwhile is about this process, not about the drives.
            return;
        }
        self.background.feel(median_us(&samples, ticks, time));
        watch.drives.retain(|slot, record| {
            there.iter().any(|member| member.slot == *slot && member.id == record.drive)
        });
        for (member, samples) in there.iter().zip(samples) {
            let window = samples.map(|sample| Evidence::new(sample, ticks, time));
            watch.drives.entry(member.slot).or_insert_with(|| Record::new(member.id)).note(window);
        }
        let (late, prompt, slow) = watch.judge();
        let spared = late != 0 && self.can_spare(late | slow);
        let late = if spared { late } else { 0 };
        let mut changed = Vec::new();
        for member in there {
            let Some(record) = watch.drives.get_mut(&member.slot) else { continue };
            let before = record.state;
            record.step(late >> member.slot & 1 == 1, prompt >> member.slot & 1 == 1);
            if std::mem::discriminant(&before) != std::mem::discriminant(&record.state) {
                changed.push((member, record.state));
            }
        }
        drop(watch);
        changed.into_iter().for_each(|(member, state)| self.found(member, state));
    }

    /// Acts on what a drive was found to be.
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
        self.choose_lanes();
        self.segments.lock().avoid(slot, avoided);
        self.background.wake();
    }
}

/// What a request to a drive takes, in µs, in the median of the drives: 0 for one that hardly ever had one under way.
fn median_us(samples: &[[Sample; CLASSES]], ticks: u32, window: Duration) -> u64 {
    let took = samples.iter().filter_map(|classes| {
        let (mut in_flight, mut answered) = (0, 0);
        classes.iter().for_each(|sample| {
            in_flight += sample.in_flight;
            answered += sample.answered;
        });
        let ticks = u64::from(ticks.max(1));
        match (in_flight * 2 < ticks, answered) {
            (_, 0) if in_flight == 0 => None,
            (true, _) => Some(0),
            (false, _) => Some(in_flight * window.as_micros() as u64 / ticks / answered.max(1)),
        }
    });
    let mut sorted: Vec<u64> = took.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
#[path = "slow_drives_test.rs"]
mod tests;
