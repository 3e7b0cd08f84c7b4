//! Faults: delays and failures of drives, and disturbances of controllers.

use super::ports::{Failure, Sent};
use super::{Action, MS, SECOND, TAKEOVER_NS, World};
use block::workload::Random;
use cluster::Change;
use raid::shared::REPLY_TIMEOUT;
use shelf::arbiter::MemberId;
use std::collections::BTreeMap;

/// Maximum ordinary delay of a request to a drive, or of its reply.
const MAX_WAY_NS: u64 = 4 * MS;

/// End time of a condition.
type Until = u64;

/// Faults with a duration.
pub struct Faults {
    /// Drives whose requests wait, and drives that fail.
    stalled: Vec<Until>,
    dead: Vec<Until>,
    /// Drives that do not reply; some perform requests nevertheless.
    silent: Vec<Until>,
    takes_requests: bool,
    /// Servers whose requests wait.
    cut: BTreeMap<u32, Until>,
    /// Requests out of 10,000 that are late, and record changes out of 1000 that take effect with an error.
    late: u64,
    unanswered: u64,
    calm_until: Until,
    /// Time of the last disturbance of each controller.
    disturbed: [u64; 2],
}

impl Faults {
    pub fn new(random: &mut Random, drives: usize) -> Self {
        let mut rate = |most| if random.chance(50) { 0 } else { random.below(most) };
        let (late, unanswered) = (rate(20), rate(20));
        Self {
            stalled: vec![0; drives],
            dead: vec![0; drives],
            silent: vec![0; drives],
            takes_requests: random.chance(50),
            cut: BTreeMap::new(),
            late,
            unanswered,
            calm_until: 0,
            disturbed: [0; 2],
        }
    }

    /// Ends all faults. Delayed requests stay late.
    pub fn heal(&mut self, now: u64) {
        let (drives, disturbed) = (self.stalled.len(), self.disturbed.map(|until| until.max(now)));
        *self = Self { late: 0, unanswered: 0, disturbed, ..Self::new(&mut Random::new(0), drives) };
        self.calm_until = u64::MAX;
    }

    /// Time since which a controller is undisturbed.
    pub fn quiet_since(&self, at: usize) -> u64 {
        self.disturbed[at]
    }

    fn disturb(&mut self, until: u64) {
        self.disturbed = self.disturbed.map(|before| before.max(until));
    }

    /// Time at which a request takes effect.
    pub fn arrival(&mut self, random: &mut Random, now: u64, sent: &Sent) -> u64 {
        let mut time = now + random.below(MAX_WAY_NS);
        if now >= self.calm_until && random.below(10_000) < self.late {
            time += random.below(20 * SECOND);
            self.disturb(time);
        }
        let cut = self.cut.get(&sent.server).copied().unwrap_or(0);
        let silent = if self.takes_requests { 0 } else { self.silent[sent.drive] };
        time.max(self.stalled[sent.drive]).max(cut).max(silent)
    }

    /// Whether a request fails.
    pub fn failure(&mut self, random: &mut Random, now: u64, sent: &Sent) -> Option<Failure> {
        if self.dead[sent.drive] > now {
            return Some(Failure::Refused);
        }
        let unanswered = now >= self.calm_until && sent.is_record() && random.below(1000) < self.unanswered;
        if unanswered {
            self.disturb(now);
        }
        unanswered.then_some(Failure::Unanswered)
    }

    /// Time at which a reply of a drive arrives.
    pub fn delivery(&mut self, random: &mut Random, now: u64, drive: usize) -> u64 {
        (now + random.below(MAX_WAY_NS)).max(self.silent[drive])
    }

    /// Silences a drive until a time.
    pub fn silence(&mut self, drive: usize, until: Until) {
        self.silent[drive] = until;
        self.disturb(until);
    }
}

impl World {
    /// Injects one fault, and schedules the next.
    pub fn fault(&mut self) {
        let at = self.random.below(2) as usize;
        let drive = self.random.below(self.media.len() as u64) as usize;
        let (now, long) = (self.now, self.random.chance(40));
        let most = if long { 20 * SECOND } else { 3 * SECOND };
        let until = now + self.random.below(most);
        let kind = self.random.weighted(&[22, 25, 14, 10, 4, 8, 8, 10, 10, 6]);
        self.trace(&[10, kind as u64, at as u64]);
        let mut next = now + 300 * MS + self.random.below(6 * SECOND);
        match kind {
            0 => {
                if self.controllers[at].process.is_some() {
                    self.kill(at);
                    let pause = self.random.below(10 * SECOND);
                    self.at(now + pause, Action::Restart(at));
                }
            }
            1 => self.put_to_sleep(at, until),
            2 => {
                self.faults.cut.insert(self.controllers[at].server, until);
                self.faults.disturb(until);
            }
            3 => {
                self.faults.stalled[drive] = until;
                self.faults.disturb(until);
            }
            4 => {
                self.faults.stalled.fill(until);
                self.faults.disturb(until);
            }
            5 => self.leave(at),
            6 => self.change(at),
            7 => {
                // One at a time: two may be missing at an opening if the home has already lost one.
                if self.faults.dead.iter().all(|until| *until <= now) {
                    self.faults.dead[drive] = until;
                    self.faults.disturb(until);
                }
            }
            9 => {
                self.faults.takes_requests = self.random.chance(50);
                self.faults.silence(drive, until + self.random.below(40 * SECOND));
            }
            _ => {
                // First all components recover, and late requests are over.
                self.faults.calm_until = now + 48 * SECOND;
                let quiet = now + 35 * SECOND;
                self.at(quiet, Action::Measure);
                next = quiet + TAKEOVER_NS + REPLY_TIMEOUT.as_nanos() as u64 + self.random.below(SECOND);
            }
        }
        self.at(next, Action::Fault);
    }

    fn put_to_sleep(&mut self, at: usize, until: u64) {
        let Some(process) = &mut self.controllers[at].process else { return };
        self.report.crashes += 1;
        process.asleep_until = process.asleep_until.max(until);
        self.faults.disturb(until);
        self.at(until, Action::Wake);
    }

    /// Stops a controller in order.
    pub fn leave(&mut self, at: usize) {
        let now = self.now;
        if let Some(running) = self.controllers[at].running(now) {
            running.home = None;
            running.member.leave();
        }
    }

    /// An operator requests a change of a controller.
    fn change(&mut self, at: usize) {
        let now = self.now;
        let of = MemberId(self.random.below(2) as u16 + 1);
        let change = match self.random.weighted(&[50, 30, 20]) {
            0 => Change::Drain(of),
            1 => Change::Resume(of),
            _ => Change::Remove(of),
        };
        if let Some(running) = self.controllers[at].running(now) {
            running.member.change(change);
        }
    }
}
