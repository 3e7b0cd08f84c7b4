//! A path of a host: what the checker sends over it, and what comes back, whatever the protocol.

use crate::cdb::{self, Exclusive};
use crate::host::Outcome;
use crate::libiscsi::{Command, Completion, Ending, Session};
use crate::real;
use anyhow::Result;
use std::ffi::c_short;

/// What a command does. Addresses and counts are in logical blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads blocks.
    Read {
        /// The first one.
        lba: u64,
        /// How many.
        blocks: u32,
    },
    /// Writes blocks.
    Write {
        /// The first one.
        lba: u64,
        /// Whole blocks.
        data: Vec<u8>,
    },
    /// Writes zeros without sending them, and deallocates.
    Zero {
        /// The first one.
        lba: u64,
        /// How many.
        blocks: u32,
    },
    /// Writes a block if it holds the first half of the data.
    CompareAndWrite {
        /// The block.
        lba: u64,
        /// What to compare with, then what to write.
        data: Vec<u8>,
    },
    /// Registers a key on this path, whatever was registered there; zero removes it.
    Register {
        /// The key.
        key: u64,
        /// Over a loss of power.
        persistent: bool,
    },
    /// Reserves the unit for all registered paths.
    Reserve {
        /// That of this path.
        key: u64,
        /// What others may not do.
        kind: Exclusive,
    },
    /// Ends the reservation.
    Release {
        /// That of this path.
        key: u64,
        /// As it was reserved.
        kind: Exclusive,
    },
}

/// A command that ended.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What [`Port::submit`] was given.
    pub tag: u64,
    /// How it ended; `None` if it got no answer.
    pub outcome: Option<Outcome>,
}

/// A connection of a host over which commands go to all units. It does not block.
pub trait Port {
    /// Starts a command to a unit, by its index.
    ///
    /// # Errors
    /// When the connection is lost.
    fn submit(&mut self, tag: u64, unit: usize, request: Request) -> Result<()>;

    /// Commands that have not ended.
    fn in_flight(&self) -> usize;

    /// What poll(2) is to wait for; `None` if [`Port::service`] may be called at any time.
    fn pollfd(&self) -> Option<libc::pollfd>;

    /// Sends and receives, and adds what ended.
    ///
    /// # Errors
    /// When the connection is lost. What ended before has been added.
    fn service(&mut self, revents: c_short, answers: &mut Vec<Answer>) -> Result<()>;
}

/// A session of iSCSI.
pub struct ScsiPort {
    session: Session,
    /// LUN and bytes of a block of each unit.
    units: Vec<(u16, u32)>,
}

impl ScsiPort {
    /// Takes a session over, with LUN and bytes of a block of each unit.
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
