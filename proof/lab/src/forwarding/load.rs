//! Load on both paths at once during a fault: several writes, reads and steps of [counters](super::counters) in flight,
//! as of a host with two paths.
//!
//! A block has at most one command in flight, so the expected result of a read is known. Commands without a response on
//! one path are repeated on the other.

use super::counters::{COUNTERS, FIRST_TAG};
use super::{ABORTED_COMMAND, BLOCK_BYTES, BLOCKS, BUSY, UNIT_ATTENTION, World, command};
use crate::cdb;
use crate::libiscsi::{Command, Completion, Ending, Session, wait};
use crate::seed::stamp_of;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Reads and writes in flight on each path.
const DEPTH: usize = 8;
/// One of this many commands is a read.
const READ_DIVISOR: u64 = 4;
/// Interval between checks of the condition.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit for responses after the fault.
const SETTLE_LIMIT: Duration = Duration::from_secs(40);

#[derive(Clone, Copy)]
enum What {
    Read,
    /// Writes this stamp.
    Write(u64),
}

struct Open {
    at: usize,
    lba: u64,
    what: What,
    since: Instant,
}

/// Observations of the hosts on one path.
#[derive(Clone, Debug)]
pub struct Path {
    /// Maximum time between two GOOD responses.
    pub pause: Duration,
    /// Maximum time from a command to its response, with any status.
    pub slowest: Duration,
    /// Commands with the status GOOD.
    pub good: u64,
    /// Responses with BUSY.
    pub busy: u64,
    /// Unit attentions.
    pub attentions: u64,
    /// Responses with ABORTED COMMAND.
    pub aborted: u64,
    /// Commands without a response, because the session ended.
    pub unanswered: u64,
    last: Instant,
}

impl Path {
    fn new() -> Self {
        let zero = Duration::ZERO;
        let (good, busy, attentions, aborted, unanswered, last) = (0, 0, 0, 0, 0, Instant::now());
        Self { pause: zero, slowest: zero, good, busy, attentions, aborted, unanswered, last }
    }

    fn note_good(&mut self) {
        self.pause = self.pause.max(self.last.elapsed());
        self.last = Instant::now();
        self.good += 1;
    }
}

/// The load, until it is [finished](World::finish).
pub struct Load {
    open: BTreeMap<u64, Open>,
    /// Commands to repeat.
    again: Vec<(u64, What)>,
    next_tag: u64,
    /// The controller whose session advances the counters.
    counted_by: usize,
    /// Reads and writes in flight on each controller's path.
    depths: [usize; 2],
    /// Observations on each controller's path.
    pub paths: [Path; 2],
    /// Observations over both paths.
    pub both: Path,
}

impl Load {
    /// Increases the number of commands in flight on a controller's path.
    pub(super) fn add_under_way(&mut self, at: usize, more: usize) {
        self.depths[at] += more;
    }

    /// Counts a response on a controller's path; false if hosts must not see it.
    fn note(&mut self, at: usize, ending: &Ending) -> bool {
        for path in [&mut self.paths[at], &mut self.both] {
            match ending {
                Ending::Good(_) => path.note_good(),
                Ending::Status(BUSY) => path.busy += 1,
                Ending::Check { key: UNIT_ATTENTION, .. } => path.attentions += 1,
                Ending::Check { key: ABORTED_COMMAND, .. } => path.aborted += 1,
                Ending::Unanswered => path.unanswered += 1,
                _ => return false,
            }
        }
        true
    }
}

impl World {
    /// A load with counters on this controller. Both controllers serve the host.
    pub(super) fn begin(&mut self, counted_by: usize) -> Result<Load> {
        for at in 0..2 {
            self.reach(at).with_context(|| format!("controller {}", at + 1))?;
        }
        let paths = [Path::new(), Path::new()];
        Ok(Load {
            open: BTreeMap::new(),
            again: Vec::new(),
            next_tag: 0,
            counted_by,
            depths: [DEPTH; 2],
            paths,
            both: Path::new(),
        })
    }

    /// Continues the load until `is_over`, for at most `limit`.
    pub(super) fn load_until(
        &mut self,
        load: &mut Load,
        limit: Duration,
        mut is_over: impl FnMut(&mut Self, &Load) -> Result<bool>,
    ) -> Result<()> {
        let start = Instant::now();
        let mut looked = Instant::now();
        loop {
            self.fill(load)?;
            self.exchange(load)?;
            if looked.elapsed() >= LOOK_INTERVAL {
                if is_over(self, load)? {
                    return Ok(());
                }
                looked = Instant::now();
            }
            ensure!(start.elapsed() < limit, "not within {} s", limit.as_secs());
        }
    }

    /// Takes the last responses, and repeats commands that no path answered.
    pub(super) fn finish(&mut self, load: &mut Load) -> Result<()> {
        let start = Instant::now();
        while !load.open.is_empty() || !self.counters.is_idle() {
            self.exchange(load)?;
            ensure!(start.elapsed() < SETTLE_LIMIT, "{} commands are not answered", load.open.len());
        }
        for (lba, what) in std::mem::take(&mut load.again) {
            match what {
                What::Write(stamp) => self.write(lba, stamp)?,
                What::Read => {}
            }
        }
        let (counters, session) = self.counting(load.counted_by)?;
        counters.finish(session)
    }

    fn fill(&mut self, load: &mut Load) -> Result<()> {
        for at in 0..2 {
            let mut under_way = load.open.values().filter(|open| open.at == at).count();
            let mut busy: BTreeSet<u64> = load.open.values().map(|open| open.lba).collect();
            busy.extend(load.again.iter().map(|(lba, _)| *lba));
            while under_way < load.depths[at] && self.sessions[at].is_some() {
                let (lba, what) = match load.again.pop() {
                    Some(again) => again,
                    None => self.choose(&busy),
                };
                busy.insert(lba);
                let tag = load.next_tag;
                load.next_tag += 1;
                load.open.insert(tag, Open { at, lba, what, since: Instant::now() });
                under_way += 1;
                let request = request(lba, what);
                if self.sessions[at].as_mut().is_some_and(|session| session.submit(tag, request).is_err()) {
                    self.lose(load, at);
                }
            }
        }
        let (counters, session) = self.counting(load.counted_by).context("the path of the counters")?;
        counters.step_all(session)
    }

    /// Chooses a block without a command in flight.
    fn choose(&mut self, busy: &BTreeSet<u64>) -> (u64, What) {
        loop {
            let (lba, stamp) = self.next();
            if !busy.contains(&lba) {
                // Each block is sometimes read and sometimes written.
                let is_read = (stamp / BLOCKS + stamp).is_multiple_of(READ_DIVISOR);
                let is_read = is_read && self.written[lba as usize] != 0;
                return (lba, if is_read { What::Read } else { What::Write(stamp) });
            }
        }
    }

    fn exchange(&mut self, load: &mut Load) -> Result<()> {
        let none = libc::pollfd { fd: -1, events: 0, revents: 0 };
        let mut polls = [none; 2];
        for (poll, session) in polls.iter_mut().zip(&self.sessions) {
            *poll = session.as_ref().map_or(none, |session| session.pollfd());
        }
        wait(&mut polls, 10)?;
        for (at, poll) in polls.into_iter().enumerate() {
            let Some(session) = &mut self.sessions[at] else { continue };
            let (ended, is_lost) = match session.service(poll.revents) {
                Ok(ended) => (ended, poll.fd < 0),
                Err(_) => (session.ended(), true),
            };
            let (steps, others): (Vec<_>, Vec<_>) =
                ended.into_iter().partition(|it| it.tag >= FIRST_TAG && it.tag < FIRST_TAG + COUNTERS as u64);
            let is_lost = is_lost || others.iter().any(|it| it.ending == Ending::Unanswered);
            others.into_iter().try_for_each(|it| self.take(load, at, it))?;
            for Completion { ending, .. } in &steps {
                load.note(at, ending);
            }
            self.counters.take(steps)?;
            if is_lost {
                self.lose(load, at);
            }
        }
        Ok(())
    }

    fn take(&mut self, load: &mut Load, at: usize, Completion { tag, ending }: Completion) -> Result<()> {
        let Some(Open { lba, what, since, .. }) = load.open.remove(&tag) else { return Ok(()) };
        ensure!(
            load.note(at, &ending),
            "a command for block {lba} by controller {} ended with {ending:?}",
            at + 1
        );
        if ending != Ending::Unanswered {
            load.paths[at].slowest = load.paths[at].slowest.max(since.elapsed());
        }
        match (ending, what) {
            (Ending::Good(_), What::Write(stamp)) => {
                self.written[lba as usize] = stamp;
                self.report.acknowledged += 1;
            }
            (Ending::Good(block), What::Read) => {
                let (found, written) = (stamp_of(&block), self.written[lba as usize]);
                ensure!(
                    found == Some(written),
                    "block {lba} has {found:?} by controller {} under load, and {written} was acknowledged",
                    at + 1
                );
                self.report.verified += 1;
            }
            // On any path.
            _ => load.again.push((lba, what)),
        }
        Ok(())
    }

    /// The host gives a path up, and repeats its commands on the other one. Returns the open session.
    pub(super) fn give_up(&mut self, load: &mut Load, at: usize) -> Option<Session> {
        self.given_up = Some(at);
        let session = self.sessions[at].take();
        self.lose(load, at);
        session
    }

    /// Handles the end of a path's session: its commands have no response.
    fn lose(&mut self, load: &mut Load, at: usize) {
        self.sessions[at] = None;
        let lost: Vec<u64> =
            load.open.iter().filter(|(_, open)| open.at == at).map(|(tag, _)| *tag).collect();
        for open in lost.iter().filter_map(|tag| load.open.remove(tag)) {
            load.paths[at].unanswered += 1;
            load.both.unanswered += 1;
            load.again.push((open.lba, open.what));
        }
    }
}

fn request(lba: u64, what: What) -> Command {
    match what {
        What::Read => cdb::read(1, lba, 1, BLOCK_BYTES),
        What::Write(stamp) => command(lba, stamp),
    }
}

/// There is always a block without a command in flight.
const _: () = assert!(4 * DEPTH < BLOCKS as usize);
