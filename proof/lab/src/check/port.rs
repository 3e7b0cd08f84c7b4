//! Protocol-independent path of a host: requests of the checker and their results.

use crate::cdb::{self, Exclusive};
use crate::host::Outcome;
use crate::libiscsi::{Command, Completion, Ending, Session};
use crate::real;
use anyhow::Result;
use std::ffi::c_short;

/// A request. Addresses and counts are in logical blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads blocks.
    Read {
        /// First block.
        lba: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// Writes blocks.
    Write {
        /// First block.
        lba: u64,
        /// Whole blocks.
        data: Vec<u8>,
    },
    /// Writes zeros without transferring them, and deallocates.
    Zero {
        /// First block.
        lba: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// Writes a block if its content equals the first half of the data.
    CompareAndWrite {
        /// The block.
        lba: u64,
        /// The block to compare, then the block to write.
        data: Vec<u8>,
    },
    /// Replaces the registration of this path; zero removes it.
    Register {
        /// The key.
        key: u64,
        /// Whether it persists through a power loss.
        persistent: bool,
    },
    /// Reserves the unit for all registered paths.
    Reserve {
        /// Key of this path.
        key: u64,
        /// Excluded access of other hosts.
        kind: Exclusive,
    },
    /// Ends the reservation.
    Release {
        /// Key of this path.
        key: u64,
        /// As in the reservation.
        kind: Exclusive,
    },
}

/// The result of a command.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Tag passed to [`Port::submit`].
    pub tag: u64,
    /// Outcome; `None` without a response.
    pub outcome: Option<Outcome>,
}

/// A non-blocking connection of a host for commands to all units.
pub trait Port {
    /// Starts a command to a unit, given by index.
    ///
    /// # Errors
    /// If the connection is lost.
    fn submit(&mut self, tag: u64, unit: usize, request: Request) -> Result<()>;

    /// Number of outstanding commands.
    fn in_flight(&self) -> usize;

    /// Events for poll(2); `None` if [`Port::service`] may be called at any time.
    fn pollfd(&self) -> Option<libc::pollfd>;

    /// Sends and receives, and adds the results.
    ///
    /// # Errors
    /// If the connection is lost, after adding earlier results.
    fn service(&mut self, revents: c_short, answers: &mut Vec<Answer>) -> Result<()>;
}

/// A session of iSCSI.
pub struct ScsiPort {
    session: Session,
    /// LUN and block length in bytes of each unit.
    units: Vec<(u16, u32)>,
}

impl ScsiPort {
    /// Takes over a session, with LUN and block length in bytes of each unit.
    pub fn new(session: Session, units: Vec<(u16, u32)>) -> Self {
        Self { session, units }
    }

    fn command(&self, unit: usize, request: Request) -> Command {
        let (lun, block_bytes) = self.units[unit];
        match request {
            Request::Read { lba, blocks } => cdb::read(lun, lba, blocks, block_bytes),
            Request::Write { lba, data } => {
                cdb::write(lun, lba, (data.len() / block_bytes as usize) as u32, false, data)
            }
            Request::Zero { lba, blocks } => {
                cdb::write_same(lun, lba, blocks, true, Some(vec![0; block_bytes as usize]))
            }
            Request::CompareAndWrite { lba, data } => cdb::compare_and_write(lun, lba, 1, data),
            Request::Register { key, persistent } => cdb::register(lun, key, persistent),
            Request::Reserve { key, kind } => cdb::reserve(lun, key, kind),
            Request::Release { key, kind } => cdb::release(lun, key, kind),
        }
    }
}

fn answer(Completion { tag, ending }: Completion) -> Answer {
    let outcome = (ending != Ending::Unanswered).then(|| real::outcome(ending));
    Answer { tag, outcome }
}

impl Port for ScsiPort {
    fn submit(&mut self, tag: u64, unit: usize, request: Request) -> Result<()> {
        let command = self.command(unit, request);
        self.session.submit(tag, command)
    }

    fn in_flight(&self) -> usize {
        self.session.in_flight()
    }

    fn pollfd(&self) -> Option<libc::pollfd> {
        Some(self.session.pollfd())
    }

    fn service(&mut self, revents: c_short, answers: &mut Vec<Answer>) -> Result<()> {
        let (ended, result) = match self.session.service(revents) {
            Ok(ended) => (ended, Ok(())),
            Err(lost) => (self.session.ended(), Err(lost)),
        };
        answers.extend(ended.into_iter().map(answer));
        result
    }
}
