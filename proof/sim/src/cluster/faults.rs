//! Faults: delays and losses of store operations, and disturbances of controllers.

use super::{Action, Check, MS, SECOND, TAKEOVER_NS, World};
use block::workload::Random;
use cluster::Change;
use shelf::arbiter::MemberId;

/// Objects of the store besides the three witnesses.
pub const MAP: usize = 3;
pub const JOURNAL: usize = 4;
const OBJECTS: usize = 5;

/// Maximum ordinary delay of an operation to the store, or of its reply.
const MAX_WAY_NS: u64 = 15 * MS;

/// End time of a condition.
type Until = u64;

/// Faults with a duration.
pub struct Faults {
    /// Objects whose operations wait.
    stalled: [Until; OBJECTS],
    /// Controllers whose operations do not reach the store, and controllers without replies.
    requests_cut: Vec<Until>,
    replies_cut: Vec<Until>,
    /// Operations out of 1000 that are lost before they take effect, whose reply is lost, or that take effect late.
    lost: u64,
    unanswered: u64,
    late: u64,
    /// No operation is lost until then.
    calm_until: Until,
    /// Time of the last disturbance of each controller.
    disturbed: Vec<u64>,
}

impl Faults {
    pub fn new(random: &mut Random) -> Self {
        let mut rate = || if random.chance(50) { 0 } else { random.below(30) };
        Self {
            stalled: [0; OBJECTS],
            requests_cut: vec![0; 4],
            replies_cut: vec![0; 4],
            lost: rate(),
            unanswered: rate(),
            late: rate(),
            calm_until: 0,
            disturbed: vec![0; 4],
        }
    }

    /// Ends all faults.
    pub fn heal(&mut self, now: u64) {
        *self = Self { disturbed: vec![now; 4], calm_until: u64::MAX, ..Self::new(&mut Random::new(0)) };
    }

    /// Time since which a controller is undisturbed.
    pub fn quiet_since(&self, at: usize) -> u64 {
        self.disturbed[at]
    }

    fn disturb(&mut self, at: usize, until: u64) {
        self.disturbed[at] = self.disturbed[at].max(until);
    }

    fn happens(&self, random: &mut Random, now: u64, rate: u64) -> bool {
        now >= self.calm_until && random.below(1000) < rate
    }

    /// Time at which an operation takes effect, if it does.
    pub fn arrival(&mut self, random: &mut Random, (now, at): (u64, usize), object: usize) -> Option<u64> {
        let mut time = now + random.below(MAX_WAY_NS);
        if self.happens(random, now, self.lost) {
            self.disturb(at, now);
            return None;
        }
        if self.happens(random, now, self.late) {
            time += random.below(20 * SECOND);
            self.disturb(at, time);
        }
        // The client repeats operations that did not arrive, or whose connection was closed.
        if self.requests_cut[at] > time {
            if random.chance(30) {
                return None;
            }
            time = self.requests_cut[at] + random.below(MAX_WAY_NS);
        }
        Some(time.max(self.stalled[object]))
    }

    /// Time at which a reply arrives, if it does.
    pub fn delivery(&mut self, random: &mut Random, now: u64, at: usize) -> Option<u64> {
        let time = now + random.below(MAX_WAY_NS);
        if self.happens(random, now, self.unanswered) {
            self.disturb(at, now);
            return None;
        }
        if self.replies_cut[at] > time {
            return (!random.chance(30)).then_some(self.replies_cut[at] + random.below(MAX_WAY_NS));
        }
        Some(time)
    }
}

impl World {
    /// Injects one fault, and schedules the next.
    pub fn fault(&mut self) -> Check {
        let at = self.random.below(self.controllers.len() as u64) as usize;
        let (now, long) = (self.now, self.random.chance(40));
        let most = if long { 20 * SECOND } else { 3 * SECOND };
        let until = now + self.random.below(most);
        let kind = self.random.weighted(&[20, 25, 20, 12, 6, 8, 8, 10, 12]);
        self.trace(&[10, kind as u64, at as u64]);
        let mut next = now + 300 * MS + self.random.below(6 * SECOND);
        match kind {
            0 => self.kill(at),
            1 => self.put_to_sleep(at, until),
            2 => self.cut(at, until),
            3 => {
                let object = self.random.below(OBJECTS as u64) as usize;
                self.stall(object..object + 1, until);
            }
            4 => self.stall(0..OBJECTS, until),
            5 => self.leave(at)?,
            6 => self.give_up(at)?,
            7 => self.change(at)?,
            _ => {
                // First all components recover, and lost or late operations are over.
                self.faults.calm_until = now + 45 * SECOND;
                let quiet = now + 32 * SECOND;
                self.at(quiet, Action::Measure);
                next = quiet + TAKEOVER_NS + self.random.below(SECOND);
            }
        }
        self.at(next, Action::Fault);
        Ok(())
    }

    fn kill(&mut self, at: usize) {
        if self.controllers[at].running.is_none() {
            return;
        }
        self.report.crashes += 1;
        self.controllers[at].end();
        let pause = self.random.below(10 * SECOND);
        self.at(self.now + pause, Action::Restart(at));
    }

    fn put_to_sleep(&mut self, at: usize, until: u64) {
        if self.controllers[at].running.is_some() {
            self.report.crashes += 1;
            self.faults.disturb(at, until);
            let until = until.max(self.controllers[at].asleep_until.unwrap_or(0));
            self.controllers[at].asleep_until = Some(until);
            let process = (at, self.controllers[at].life);
            self.at(until, Action::Wake(process));
        }
    }

    fn cut(&mut self, at: usize, until: u64) {
        let which = self.random.below(3);
        if which != 1 {
            self.faults.requests_cut[at] = until;
        }
        if which != 0 {
            self.faults.replies_cut[at] = until;
        }
        self.faults.disturb(at, until);
    }

    fn stall(&mut self, objects: std::ops::Range<usize>, until: u64) {
        objects.for_each(|object| self.faults.stalled[object] = until);
        // Each controller loses its lease at another time, and may return at another one.
        (0..self.controllers.len()).for_each(|at| self.faults.disturb(at, until));
    }

    /// Stops a controller in order.
    pub(super) fn leave(&mut self, at: usize) -> Check {
        let process = (at, self.controllers[at].life);
        if self.controllers[at].awake(self.now).is_none() {
            return Ok(());
        }
        self.cease(process);
        self.step(process, |running, _| running.member.leave())
    }

    /// Moves a domain, while its home continues.
    fn give_up(&mut self, at: usize) -> Check {
        let process = (at, self.controllers[at].life);
        let serves = self.controllers[at].awake(self.now).is_some_and(|running| running.serving.is_some());
        if !serves {
            return Ok(());
        }
        self.cease(process);
        self.step(process, |running, _| running.member.give_up(0))
    }

    /// An operator requests a change of a controller.
    fn change(&mut self, at: usize) -> Check {
        let process = (at, self.controllers[at].life);
        if self.controllers[at].awake(self.now).is_none() {
            return Ok(());
        }
        let of = MemberId(self.random.below(self.controllers.len() as u64) as u16 + 1);
        let change = match self.random.weighted(&[50, 30, 20]) {
            0 => Change::Drain(of),
            1 => Change::Resume(of),
            _ => Change::Remove(of),
        };
        self.step(process, move |running, _| running.member.change(change))
    }

    /// Kills the home in the absence of other faults, if there is another controller.
    pub fn measure(&mut self) -> Check {
        let now = self.now;
        let is_well = |at: &usize| {
            let controller = &self.controllers[*at];
            let lease = controller.awake(now).map(|running| running.member.lease());
            lease.is_some_and(|lease| lease.holds(controller.clock(now)))
                && self.faults.quiet_since(*at) + 10 * SECOND < now
        };
        let well: Vec<usize> = (0..self.controllers.len()).filter(is_well).collect();
        let serves = |at: &usize| {
            let running = self.controllers[*at].running.as_ref();
            running.and_then(|running| running.serving.as_ref()).is_some_and(|serving| serving.open)
        };
        let home = well.iter().copied().find(serves);
        match home {
            Some(home) if well.len() >= 2 => {
                self.trace(&[11, home as u64]);
                self.taking_over = Some(now);
                self.report.takeovers += 1;
                self.report.crashes += 1;
                self.controllers[home].end();
                self.at(now + TAKEOVER_NS + SECOND, Action::Restart(home));
                Ok(())
            }
            _ if well.len() == self.controllers.len() => {
                Err(format!("no controller serves at {now}, and nothing has been wrong for a while"))
            }
            _ => Ok(()),
        }
    }
}
