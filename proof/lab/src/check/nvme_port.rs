//! Path of an NVMe/TCP host: an I/O queue of a controller. A compare and write is a fused pair of commands.

use super::port::{Answer, Port, Request};
use crate::cdb::Exclusive;
use crate::host::Outcome;
use crate::libiscsi::Transfer;
use crate::load::Initiator;
use crate::nvme::{Controller, Names, QUEUE_ENTRIES, Queue, opcode, put32, sqe};
use anyhow::{Context, Result, ensure};
use std::ffi::c_short;
use std::net::SocketAddr;
use std::sync::Arc;

/// Bits 1:0 of byte 1 of a command: first and second command of a fused pair.
const FUSED: [u8; 2] = [1, 2];
/// Write Zeroes: the blocks are deallocated (DEAC).
const DEALLOCATE: u32 = 1 << 25;
/// Reservation Register: the registration persists through a power loss (CPTPL).
const PERSISTENT: u32 = 0b11 << 30;
/// Reservation commands: ignore the existing key (IEKEY).
const IGNORE_KEY: u32 = 1 << 3;

/// An I/O queue and its controller.
pub struct NvmePort {
    _controller: Controller,
    queue: Queue,
    /// Namespace and block length in bytes of each unit.
    units: Vec<(u32, u32)>,
    /// Free command identifiers.
    free: Vec<u16>,
    /// Outstanding commands by identifier.
    commands: Vec<Option<Part>>,
    waiting: usize,
}

/// Meaning of a command identifier.
#[derive(Clone, Copy)]
struct Part {
    tag: u64,
    role: Role,
}

#[derive(Clone, Copy)]
enum Role {
    Whole,
    /// The compare of a pair, with the identifier of its write.
    Compare(u16),
    /// The write of a pair, with the status of its compare once it is known.
    Write(Option<u16>),
}

/// Location of a controller, and its namespaces.
pub struct Place<'a> {
    /// Its portal.
    pub portal: SocketAddr,
    /// The name of the host.
    pub host: &'a str,
    /// The name of the subsystem.
    pub subsystem: &'a str,
    /// Namespaces of the units; if empty, those that the host sees, in order.
    pub namespaces: &'a [u32],
}

impl NvmePort {
    /// Connects a controller with one I/O queue; `blocks`: block length of each unit in bytes.
    ///
    /// # Errors
    /// If it is refused, or has fewer namespaces than there are units.
    pub fn connect(place: &Place, blocks: &[u32]) -> Result<Self> {
        let names = Names { portal: place.portal, host: place.host, subsystem: place.subsystem };
        let controller = Controller::connect(names, 1)?;
        let namespaces = if place.namespaces.is_empty() { controller.namespaces() } else { place.namespaces };
        ensure!(
            namespaces.len() >= blocks.len(),
            "{} namespaces, {} are needed",
            namespaces.len(),
            blocks.len()
        );
        let units = namespaces.iter().copied().zip(blocks.iter().copied()).collect();
        let queue = controller.queue(names, 1, Arc::from([]))?;
        let ids = QUEUE_ENTRIES;
        Ok(Self {
            _controller: controller,
            queue,
            units,
            free: (0..ids).rev().collect(),
            commands: vec![None; usize::from(ids)],
            waiting: 0,
        })
    }

    fn send(&mut self, part: Part, entry: [u8; 64], transfer: Transfer) -> Result<u16> {
        let id = self.free.pop().context("no command identifier is free")?;
        self.commands[usize::from(id)] = Some(part);
        self.queue.send(id, entry, transfer)?;
        Ok(id)
    }

    /// A command for blocks of a namespace.
    fn entry(&self, opcode: u8, unit: usize, lba: u64, blocks: u32) -> [u8; 64] {
        let mut entry = sqe(opcode);
        put32(&mut entry, 4, self.units[unit].0);
        entry[40..48].copy_from_slice(&lba.to_le_bytes());
        put32(&mut entry, 48, blocks - 1);
        entry
    }

    /// A reservation command with this dword 10.
    fn reservation(&self, opcode: u8, unit: usize, dword: u32) -> [u8; 64] {
        let mut entry = sqe(opcode);
        put32(&mut entry, 4, self.units[unit].0);
        put32(&mut entry, 40, dword);
        entry
    }

    fn ended(&mut self, id: u16, status: u16, answers: &mut Vec<Answer>) {
        let Some(Part { tag, role }) = self.commands.get_mut(usize::from(id)).and_then(Option::take) else {
            return;
        };
        self.free.push(id);
        let status = match role {
            Role::Whole => status,
            Role::Compare(write) => {
                if let Some(Some(part)) = self.commands.get_mut(usize::from(write)) {
                    part.role = Role::Write(Some(status));
                }
                return;
            }
            // The status of the compare explains the abort of the write.
            Role::Write(compared) => compared.filter(|compared| *compared != 0).unwrap_or(status),
        };
        self.waiting -= 1;
        let data = self.queue.take_data(id);
        answers.push(Answer { tag, outcome: Some(outcome(status, data)) });
    }
}

impl Port for NvmePort {
    fn submit(&mut self, tag: u64, unit: usize, request: Request) -> Result<()> {
        let bytes = self.units[unit].1 as usize;
        let whole = Part { tag, role: Role::Whole };
        let keys = |current: u64, new: u64| [current.to_le_bytes(), new.to_le_bytes()].concat();
        self.waiting += 1;
        let (entry, transfer) = match request {
            Request::Read { lba, blocks } => {
                (self.entry(opcode::READ, unit, lba, blocks), Transfer::In(blocks as usize * bytes))
            }
            Request::Write { lba, data } => {
                let blocks = (data.len() / bytes) as u32;
                (self.entry(opcode::WRITE, unit, lba, blocks), Transfer::Out(data))
            }
            Request::Zero { lba, blocks } => {
                let mut entry = self.entry(opcode::WRITE_ZEROES, unit, lba, blocks);
                put32(&mut entry, 48, (blocks - 1) | DEALLOCATE);
                (entry, Transfer::None)
            }
            Request::CompareAndWrite { lba, mut data } => {
                let replacement = data.split_off(bytes);
                let mut write = self.entry(opcode::WRITE, unit, lba, 1);
                let mut compare = self.entry(opcode::COMPARE, unit, lba, 1);
                compare[1] |= FUSED[0];
                write[1] |= FUSED[1];
                // The compare precedes the write in the queue.
                let first = self.send(Part { tag, role: Role::Compare(0) }, compare, Transfer::Out(data))?;
                let second =
                    self.send(Part { tag, role: Role::Write(None) }, write, Transfer::Out(replacement))?;
                self.commands[usize::from(first)] = Some(Part { tag, role: Role::Compare(second) });
                return Ok(());
            }
            Request::Register { key: 0, .. } => {
                let entry = self.reservation(opcode::RESERVATION_REGISTER, unit, 1 | IGNORE_KEY);
                (entry, Transfer::Out(keys(0, 0)))
            }
            Request::Register { key, persistent } => {
                // Any path of a host may register, since they all use the same key.
                let kept = if persistent { PERSISTENT } else { 0 };
                let entry = self.reservation(opcode::RESERVATION_REGISTER, unit, kept);
                (entry, Transfer::Out(keys(0, key)))
            }
            Request::Reserve { key, kind } => {
                let entry = self.reservation(opcode::RESERVATION_ACQUIRE, unit, reservation_type(kind) << 8);
                (entry, Transfer::Out(keys(key, 0)))
            }
            Request::Release { key, kind } => {
                let entry = self.reservation(opcode::RESERVATION_RELEASE, unit, reservation_type(kind) << 8);
                (entry, Transfer::Out(key.to_le_bytes().to_vec()))
            }
        };
        self.send(whole, entry, transfer).map(drop)
    }

    fn in_flight(&self) -> usize {
        self.waiting
    }

    fn pollfd(&self) -> Option<libc::pollfd> {
        Some(self.queue.pollfd())
    }

    fn service(&mut self, revents: c_short, answers: &mut Vec<Answer>) -> Result<()> {
        let mut ended = Vec::new();
        let mut result = self.queue.flush().map(drop);
        if revents & !libc::POLLOUT != 0 {
            result = result.and(self.queue.receive(&mut ended));
        }
        for crate::load::Answer { tag, status } in ended {
            self.ended(tag as u16, status, answers);
        }
        result
    }
}

/// RTYPE of NVM Express.
fn reservation_type(kind: Exclusive) -> u32 {
    match kind {
        Exclusive::Writes => 3,
        Exclusive::Access => 4,
    }
}

/// Result for a host of a status: status code type and code (Base 2.0, 3.3.3.2.1).
fn outcome(status: u16, data: Vec<u8>) -> Outcome {
    match status & 0x7ff {
        0 => Outcome::Good(data),
        // Not executed, to be retried: aborted with the other half of a pair, namespace not ready, access of the path
        // inaccessible or in transition.
        0x009 | 0x00a | 0x082 | 0x302 | 0x303 => Outcome::Busy,
        0x001 => Outcome::Unsupported,
        0x080 => Outcome::OutOfRange,
        0x081 => Outcome::NoSpace,
        0x083 => Outcome::Conflict,
        0x285 => Outcome::Miscompare,
        other => Outcome::Failed(format!("status {other:#05x}")),
    }
}
