//! Data mover: clones, migrations, deployments and eager zeroing, by the array if possible, otherwise by the host.

use super::{Next, World};
use crate::host::{Command, Content, Kind, Outcome, Time};
use crate::seed::Seed;
use std::collections::VecDeque;

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Zeroes a range.
    Zero {
        /// The disk.
        disk: usize,
        /// First byte.
        at: u64,
        /// Length.
        bytes: u64,
    },
    /// A copy.
    Copy {
        /// The source disk.
        from: usize,
        /// First byte of the source.
        from_at: u64,
        /// The target disk.
        to: usize,
        /// First byte of the target.
        to_at: u64,
        /// Length.
        bytes: u64,
    },
}

impl Job {
    fn bytes(&self) -> u64 {
        match self {
            Job::Zero { bytes, .. } | Job::Copy { bytes, .. } => *bytes,
        }
    }
}

/// Parameters of the mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfers {
    /// `DataMover.HardwareAcceleratedMove` and `…Init`.
    pub offload: bool,
    /// `DataMover.MaxHWTransferSize`: length of an offloaded copy command.
    pub copy: u64,
    /// Length of an offloaded zeroing command.
    pub zero: u64,
    /// Length of a command of the host's own copy.
    pub software: u64,
    /// Outstanding commands.
    pub outstanding: u32,
    /// Concurrent jobs.
    pub jobs_at_once: u32,
}

impl Default for Transfers {
    fn default() -> Self {
        let (copy, zero, software) = (4 << 20, 1 << 20, 64 << 10);
        Self { offload: true, copy, zero, software, outstanding: 8, jobs_at_once: 1 }
    }
}

/// A copy through the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Haul {
    from: usize,
    from_at: u64,
    to: usize,
    to_at: u64,
    bytes: u64,
}

impl Haul {
    fn read(&self) -> Command {
        Command { disk: self.from, kind: Kind::Read, at: self.from_at, bytes: self.bytes }
    }

    fn write(&self, data: Vec<u8>) -> Command {
        Command { disk: self.to, kind: Kind::Write(Content::Bytes(data)), at: self.to_at, bytes: self.bytes }
    }
}

/// A piece of a job.
#[derive(Clone, Debug)]
enum Piece {
    Send(Command),
    Haul(Haul),
}

/// The data mover and its jobs.
#[derive(Debug)]
pub struct Mover {
    transfers: Transfers,
    waiting: VecDeque<Job>,
    /// Current jobs, with the number of bytes already split.
    running: Vec<(Job, u64)>,
    turn: usize,
    /// Pieces with priority: writes of read data, and pieces that the array refused.
    again: VecDeque<Piece>,
    /// Outstanding reads of copies.
    hauls: Vec<Haul>,
    under_way: u32,
    failed: bool,
}

impl Mover {
    /// A mover with these jobs, in order.
    pub fn new(jobs: impl IntoIterator<Item = Job>, transfers: Transfers) -> Self {
        let waiting = jobs.into_iter().collect();
        let (running, again, hauls) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { transfers, waiting, running, turn: 0, again, hauls, under_way: 0, failed: false }
    }

    /// The next piece of the current jobs, alternately.
    fn cut(&mut self) -> Option<Piece> {
        while self.running.len() < self.transfers.jobs_at_once.max(1) as usize
            && let Some(job) = self.waiting.pop_front()
        {
            self.running.push((job, 0));
        }
        self.turn = (self.turn + 1) % self.running.len().max(1);
        let Transfers { offload, copy, zero, software, .. } = self.transfers;
        let (job, done) = self.running.get_mut(self.turn)?;
        let size = match (&job, offload) {
            (Job::Copy { .. }, true) => copy,
            (Job::Zero { .. }, true) => zero,
            (_, false) => software,
        };
        let (offset, bytes) = (*done, size.min(job.bytes() - *done));
        *done += bytes;
        let (job, over) = (*job, *done == job.bytes());
        if over {
            self.running.swap_remove(self.turn);
        }
        Some(piece(job, offset, bytes, offload))
    }

    /// Makes the host perform a piece that the array refused, and all later ones.
    fn take_over(&mut self, command: &Command) {
        self.transfers.offload = false;
        let job = match command.kind {
            Kind::Copy { from, at } => {
                Job::Copy { from, from_at: at, to: command.disk, to_at: command.at, bytes: command.bytes }
            }
            _ => Job::Zero { disk: command.disk, at: command.at, bytes: command.bytes },
        };
        let mut offset = 0;
        while offset < command.bytes {
            let bytes = self.transfers.software.min(command.bytes - offset);
            self.again.push_back(piece(job, offset, bytes, false));
            offset += bytes;
        }
    }
}

/// A piece of a job, for the array or for the host.
fn piece(job: Job, offset: u64, bytes: u64, offload: bool) -> Piece {
    match job {
        Job::Zero { disk, at, .. } => {
            let kind = if offload { Kind::Zero } else { Kind::Write(Content::Zero) };
            Piece::Send(Command { disk, kind, at: at + offset, bytes })
        }
        Job::Copy { from, from_at, to, to_at, .. } => {
            let (from_at, to_at) = (from_at + offset, to_at + offset);
            match offload {
                true => {
                    let kind = Kind::Copy { from, at: from_at };
                    Piece::Send(Command { disk: to, kind, at: to_at, bytes })
                }
                false => Piece::Haul(Haul { from, from_at, to, to_at, bytes }),
            }
        }
    }
}

impl World for Mover {
    fn outstanding(&self) -> u32 {
        self.transfers.outstanding
    }

    fn next(&mut self, _: Time, _: &mut Seed) -> Next {
        if self.failed {
            return Next::Nothing;
        }
        let Some(piece) = self.again.pop_front().or_else(|| self.cut()) else { return Next::Nothing };
        self.under_way += 1;
        Next::Command(match piece {
            Piece::Send(command) => command,
            Piece::Haul(haul) => {
                self.hauls.push(haul);
                haul.read()
            }
        })
    }

    fn done(&mut self, _: Time, command: &Command, outcome: Outcome) {
        self.under_way -= 1;
        let haul = self.hauls.iter().position(|haul| haul.read() == *command);
        match (outcome, haul) {
            (Outcome::Good(data), Some(index)) => {
                let haul = self.hauls.swap_remove(index);
                self.again.push_front(Piece::Send(haul.write(data)));
            }
            (Outcome::Good(_), None) => {}
            (Outcome::Unsupported, None) if !command.kind.moves_data() => self.take_over(command),
            _ => self.failed = true,
        }
    }

    fn is_finished(&self) -> bool {
        let idle = self.waiting.is_empty() && self.running.is_empty() && self.again.is_empty();
        (idle || self.failed) && self.under_way == 0
    }

    fn has_failed(&self) -> bool {
        self.failed
    }
}
