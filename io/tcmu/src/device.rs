//! State machine of one device, without system calls: passes commands of its ring to a nexus, and responses back. The
//! spine of this crate.
//!
//! The owner calls [`Device::poll`] when the kernel has signalled or the context was woken, and signals the kernel if
//! the result says so.

use crate::area::Outside;
use crate::ring::{Entry, Ring, RingError, RingResponse, Vectors};
use bytes::Bytes;
use scsi::{Command, Direction, Execution, Lun, ManagementFunction, Nexus, Response, Status, TaskAttribute};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use transport::{Budget, BudgetShare, Guarantee, Owner, Tasks};

/// Memory for commands that a device has without drawing from the shared pool, in bytes.
const GUARANTEE_BYTES: u64 = 128 << 10;
/// Upper bound of the records of one command in bytes.
const RECORD_BYTES: u64 = 1 << 10;
/// Rounds of responses and new commands before the device yields to others of its thread.
const MAX_ROUNDS: usize = 32;

/// Task management functions of the ring.
const ABORT_TASK_SET: u8 = 2;
const CLEAR_TASK_SET: u8 = 4;
const LUN_RESET: u8 = 5;
const TARGET_WARM_RESET: u8 = 6;
const TARGET_COLD_RESET: u8 = 7;

/// An error after which a device can't continue.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The kernel wrote an invalid entry.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Two commands with one identifier.
    #[error("a second command {0} came before the response to the first")]
    Duplicate(u16),
    /// The memory budget has no room for another device.
    #[error("there is no memory for another device")]
    NoMemory,
}

impl From<Outside> for DeviceError {
    fn from(outside: Outside) -> Self {
        DeviceError::Ring(outside.into())
    }
}

/// Memory of a device: a guarantee, and draws from the shared pool.
pub struct DeviceMemory(BudgetShare);

impl DeviceMemory {
    /// The share of a device, in the name of its initiator.
    ///
    /// # Errors
    /// [`DeviceError::NoMemory`] if there is no room for another guarantee.
    pub fn open(budget: Arc<Budget>, initiator: &str) -> Result<Self, DeviceError> {
        let mut share = BudgetShare::unknown_host(budget, 0);
        let guarantee = Guarantee { total_bytes: GUARANTEE_BYTES, covered_bytes: GUARANTEE_BYTES };
        // The fabric has logged the port in by its name.
        match share.open(&Owner::proved(initiator), guarantee) {
            true => Ok(Self(share)),
            false => Err(DeviceError::NoMemory),
        }
    }
}

/// Counters of a device since this process serves it, readable at any time.
#[derive(Debug, Default)]
pub struct Counters {
    commands: AtomicU64,
    aborted: AtomicU64,
    refused: AtomicU64,
}

/// Values of [`Counters`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commands taken from the ring.
    pub commands: u64,
    /// Commands that task management of the host aborted, for example after a time-out of the host.
    pub aborted: u64,
    /// Commands that ended with TASK SET FULL for lack of memory.
    pub refused: u64,
}

impl Counters {
    /// The counts now.
    pub fn read(&self) -> Counts {
        let [commands, aborted, refused] =
            [&self.commands, &self.aborted, &self.refused].map(|it| it.load(Ordering::Relaxed));
        Counts { commands, aborted, refused }
    }
}

/// A command without its response.
struct Pending {
    id: u16,
    /// Room for Data-In; empty for a command with Data-Out.
    room: Vectors,
    is_read: bool,
}

/// A taken command that waits for memory.
struct Held {
    id: u16,
    cdb: Bytes,
    data: Vectors,
    charge: u64,
    data_out: usize,
}

/// A device.
pub struct Device {
    ring: Ring,
    nexus: Arc<Nexus>,
    number: u16,
    lun: Lun,
    memory: DeviceMemory,
    tasks: Tasks<Pending, Option<Response>>,
    held: Option<Held>,
    /// Whether no more commands are taken.
    stopping: bool,
    counters: Arc<Counters>,
}

impl Device {
    /// A device whose commands go to a logical unit of a nexus.
    pub fn new(ring: Ring, nexus: Arc<Nexus>, number: u16, memory: DeviceMemory) -> Device {
        let [high, low] = number.to_be_bytes();
        let first = if number < 256 { 0 } else { 0x40 | high };
        let lun = Lun([first, low, 0, 0, 0, 0, 0, 0]);
        let (tasks, counters) = Default::default();
        Device { ring, nexus, number, lun, memory, tasks, held: None, stopping: false, counters }
    }

    /// Counters of the device.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Takes no more commands. The commands taken so far complete.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// True if every taken command has its response.
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.held.is_none()
    }

    /// Takes commands and responds to ended ones. Returns whether to signal the kernel. Wakes the context when there
    /// may be more work without a signal of the kernel.
    ///
    /// # Errors
    /// [`DeviceError`]: the ring is unusable.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Result<bool, DeviceError> {
        for round in 0..=MAX_ROUNDS {
            let mut progress = false;
            if let Poll::Ready(ended) = self.tasks.poll(cx) {
                progress = true;
                for (pending, response) in ended {
                    self.respond(&pending, response.as_ref())?;
                }
            }
            progress |= self.take_next(cx)?;
            if !progress {
                break;
            }
            if round == MAX_ROUNDS {
                cx.waker().wake_by_ref();
            }
        }
        self.memory.0.settle(self.tasks.charge());
        Ok(self.ring.take_moved())
    }

    /// Begins the held command, or takes the next entry. Returns false if no command can begin now.
    fn take_next(&mut self, cx: &mut Context<'_>) -> Result<bool, DeviceError> {
        if let Some(held) = self.held.take() {
            return self.begin_or_hold(held, cx);
        }
        if self.stopping {
            return Ok(false);
        }
        match self.ring.take()? {
            None => Ok(false),
            Some(Entry::Management { function, aborted }) => {
                self.manage(function, &aborted);
                Ok(true)
            }
            Some(Entry::Command { id, cdb, data }) => {
                if self.tasks.contains(id.into()) {
                    return Err(DeviceError::Duplicate(id));
                }
                self.counters.commands.fetch_add(1, Ordering::Relaxed);
                let bound = self.nexus.transfer_bound(self.lun, &cdb);
                let data_out = usize::try_from(bound.data_out).unwrap_or(usize::MAX).min(data.bytes());
                let charge = RECORD_BYTES + data_out as u64 + bound.data_in.min(data.bytes() as u64);
                self.begin_or_hold(Held { id, cdb, data, charge, data_out }, cx)
            }
        }
    }

    /// Begins a command if there is memory for it. Otherwise its data stay in the kernel's data area, and no further
    /// command is taken.
    fn begin_or_hold(&mut self, held: Held, cx: &mut Context<'_>) -> Result<bool, DeviceError> {
        let total = self.tasks.charge() + held.charge;
        let share = &mut self.memory.0;
        let covered = match share.waits() {
            true => share.poll(cx).is_ready() && share.covers(total),
            false => share.cover(total),
        };
        if covered {
            self.begin(held)?;
            return Ok(true);
        }
        if !share.waits() && share.wait_for(total).is_err() {
            // The command would never begin.
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
            self.finish(held.id, Status::TaskSetFull, &[], 0)?;
            return Ok(true);
        }
        let granted = share.poll(cx).is_ready();
        self.held = Some(held);
        Ok(granted)
    }

    fn begin(&mut self, held: Held) -> Result<(), DeviceError> {
        let Held { id, cdb, data, charge, data_out } = held;
        // The ring does not contain the data direction, so it is derived from the command. It has no room for a
        // residual either: a command whose data exceed the announced length is refused.
        let writes = self.nexus.transfer_bound(self.lun, &cdb).data_out > 0;
        let is_read = !writes && data.bytes() > 0;
        let direction = if is_read { Direction::In } else { Direction::None };
        let data_in_limit = if is_read { data.bytes() as u64 } else { 0 };
        let data_out = if writes { self.ring.gather(&data, data_out)? } else { Bytes::new() };
        let room = if is_read { data } else { Vectors::default() };
        let pending = Pending { id, room, is_read };
        let command = Command {
            tag: self.tag(id),
            lun: self.lun,
            cdb,
            attribute: TaskAttribute::Simple,
            direction,
            data_out: data_out.into(),
            data_in_limit,
        };
        match self.nexus.execute(command) {
            Execution::Done(response) => self.respond(&pending, Some(&response)),
            Execution::Task(running) => {
                self.tasks.insert(id.into(), pending, charge, running);
                Ok(())
            }
        }
    }

    /// Tag of a command, unique in its nexus, which has a device for each logical unit.
    fn tag(&self, id: u16) -> u64 {
        u64::from(self.number) << 16 | u64::from(id)
    }

    /// Responds to a command; without a response it was aborted.
    fn respond(&mut self, pending: &Pending, response: Option<&Response>) -> Result<(), DeviceError> {
        let Some(response) = response else {
            return self.finish(pending.id, Status::TaskAborted, &[], 0);
        };
        let mut data_in = 0;
        if pending.is_read {
            data_in = self.ring.scatter(&pending.room, response.data_in.parts().cloned())?;
        }
        self.finish(pending.id, response.status, &response.sense, data_in)
    }

    fn finish(&mut self, id: u16, status: Status, sense: &[u8], data_in: usize) -> Result<(), DeviceError> {
        let data_in = u32::try_from(data_in).unwrap_or(u32::MAX);
        Ok(self.ring.respond(id, &RingResponse { status: status as u8, sense, data_in })?)
    }

    /// Performs a task management function. The kernel responds to the initiator after the responses to the aborted
    /// commands, which the next poll returns, since aborted tasks end without a response of their own.
    fn manage(&mut self, function: u8, aborted: &[u16]) {
        tracing::info!(lun = self.number, function, aborted = aborted.len(), "task management");
        self.counters.aborted.fetch_add(aborted.len() as u64, Ordering::Relaxed);
        let function = match function {
            ABORT_TASK_SET => ManagementFunction::AbortTaskSet,
            CLEAR_TASK_SET => ManagementFunction::ClearTaskSet,
            LUN_RESET => ManagementFunction::LogicalUnitReset,
            TARGET_WARM_RESET | TARGET_COLD_RESET => ManagementFunction::TargetReset,
            _ => {
                for id in aborted {
                    self.nexus.manage(self.lun, ManagementFunction::AbortTask { tag: self.tag(*id) });
                }
                return;
            }
        };
        self.nexus.manage(self.lun, function);
    }
}

#[cfg(test)]
#[path = "device_test.rs"]
mod tests;
