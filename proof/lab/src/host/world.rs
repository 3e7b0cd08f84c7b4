//! Worlds, which issue commands: virtual machines with a mix of accesses, and workers of the kernel. Each is a state
//! machine that supplies its next command and takes results.

mod mover;
mod vmfs;

pub use mover::{Job, Mover, Transfers};
pub use vmfs::{Locking, PowerOn, Reclaim};

use super::{Command, Content, Kind, Outcome, Time};
use crate::seed::Seed;
use std::ops::Range;

/// Reply of a world to a request for a command.
#[derive(Debug)]
pub enum Next {
    /// A command.
    Command(Command),
    /// Ask again at this time.
    At(Time),
    /// None until one of its commands has ended.
    Nothing,
}

/// A source of commands.
pub trait World {
    /// Maximum number of its outstanding commands.
    fn outstanding(&self) -> u32;

    /// The next command.
    fn next(&mut self, now: Time, random: &mut Seed) -> Next;

    /// Processes the end of a command.
    fn done(&mut self, now: Time, command: &Command, outcome: Outcome);

    /// True if it has no further commands. An endless load never finishes.
    fn is_finished(&self) -> bool;

    /// True if it gave up because of an unexpected outcome.
    fn has_failed(&self) -> bool;

    /// True if it ends by itself.
    fn has_end(&self) -> bool {
        true
    }
}

/// A kind of access in a mix.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Length in bytes.
    pub bytes: u64,
    /// Percentage of reads.
    pub read: u64,
    /// Percentage of random addresses; the others follow their predecessor.
    pub random: u64,
    /// Relative frequency.
    #[serde(default = "one")]
    pub weight: u64,
}

fn one() -> u64 {
    1
}

/// A virtual machine with a load.
#[derive(Debug)]
pub struct Mix {
    disk: usize,
    range: Range<u64>,
    outstanding: u32,
    accesses: Vec<Access>,
    content: Content,
    /// Interval between commands of a virtual machine; 0 if it is always busy.
    pause: Time,
    due: Time,
    at: u64,
    left: Option<u64>,
    under_way: u64,
    failed: bool,
}

impl Mix {
    /// A load on a part of a disk.
    pub fn new(
        disk: usize,
        range: Range<u64>,
        outstanding: u32,
        accesses: Vec<Access>,
        content: Content,
    ) -> Self {
        let at = range.start;
        let (pause, due, left, under_way, failed) = (0, 0, None, 0, false);
        Self { disk, range, outstanding, accesses, content, pause, due, at, left, under_way, failed }
    }

    /// Sets an interval between commands, and a total number of commands.
    pub fn paced(mut self, pause: Time, start: Time, count: Option<u64>) -> Self {
        (self.pause, self.due, self.left) = (pause, start, count);
        self
    }
}

impl World for Mix {
    fn outstanding(&self) -> u32 {
        self.outstanding
    }

    fn next(&mut self, now: Time, random: &mut Seed) -> Next {
        if self.failed || self.left == Some(0) {
            return Next::Nothing;
        }
        if now < self.due {
            return Next::At(self.due);
        }
        if self.pause > 0 {
            // Half to one and a half of the interval, so machines are not synchronized.
            self.due = self.due.max(now) + random.range(self.pause / 2, self.pause + self.pause / 2);
        }
        let all = self.accesses.iter().map(|it| it.weight).sum();
        let mut choice = random.range(0, all);
        let chosen = self.accesses.iter().find(|access| {
            let found = choice < access.weight;
            choice = choice.saturating_sub(access.weight);
            found
        });
        let Some(&Access { bytes, read, random: scattered, .. }) = chosen else { return Next::Nothing };
        let places = (self.range.end - self.range.start) / bytes;
        if random.range(0, 100) < scattered || self.at + bytes > self.range.end {
            self.at = self.range.start + random.range(0, places) * bytes;
        }
        let at = self.at;
        self.at += bytes;
        let kind = match random.range(0, 100) < read {
            true => Kind::Read,
            false => Kind::Write(self.content.from(at - self.range.start)),
        };
        self.left = self.left.map(|left| left - 1);
        self.under_way += 1;
        Next::Command(Command { disk: self.disk, kind, at, bytes })
    }

    fn done(&mut self, _: Time, _: &Command, outcome: Outcome) {
        self.under_way -= 1;
        self.failed |= matches!(outcome, Outcome::Failed(_) | Outcome::Unsupported);
    }

    fn is_finished(&self) -> bool {
        (self.left == Some(0) || self.failed) && self.under_way == 0
    }

    fn has_failed(&self) -> bool {
        self.failed
    }

    fn has_end(&self) -> bool {
        self.left.is_some()
    }
}
