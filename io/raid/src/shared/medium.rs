//! A drive in memory that several servers share, with persistent reservations: for tests and simulations.

use crate::{Done, Drive, Error, MemDrive, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use shelf::ReservationStep;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The medium. Every request takes effect on arrival.
pub struct SharedMedium {
    drive: Arc<MemDrive>,
    reservations: Mutex<Reservations>,
}

#[derive(Default)]
struct Reservations {
    /// The key of each server that is registered.
    registered: BTreeMap<u32, u64>,
    /// The server that holds the reservation.
    holder: Option<u32>,
    /// Whether the drive accepts every step and refuses no write.
    are_ignored: bool,
}

impl SharedMedium {
    /// A drive of zeros.
    pub fn new(name: impl Into<String>, bytes: u64) -> Arc<Self> {
        Arc::new(Self { drive: MemDrive::new(name, bytes), reservations: Mutex::default() })
    }

    /// The drive from a server's view.
    pub fn port(self: &Arc<Self>, server: u32) -> Arc<dyn Drive> {
        Arc::new(Port { medium: self.clone(), server })
    }

    /// Makes the drive report success for reservations without enforcing them.
    pub fn ignore_reservations(&self) {
        self.reservations.lock().are_ignored = true;
    }

    /// The drive below.
    pub fn drive(&self) -> &MemDrive {
        &self.drive
    }

    /// Checks that a server may write.
    ///
    /// # Errors
    /// [`Error::Fenced`].
    pub fn check_write(&self, server: u32) -> Result {
        let reservations = self.reservations.lock();
        let is_free = reservations.holder.is_none() || reservations.are_ignored;
        if is_free || reservations.registered.contains_key(&server) {
            return Ok(());
        }
        Err(Error::Fenced { epoch: 0 })
    }

    /// Performs a step for a server; false for a conflict.
    pub fn reserve(&self, server: u32, step: ReservationStep) -> bool {
        let mut state = self.reservations.lock();
        let own = state.registered.get(&server).copied();
        match step {
            ReservationStep::Probe { key } => own == Some(key),
            ReservationStep::Register { key } => {
                state.registered.insert(server, key);
                true
            }
            ReservationStep::Reserve { key } => {
                let is_ours = own == Some(key) && state.holder.is_none_or(|holder| holder == server);
                if is_ours {
                    state.holder = Some(server);
                }
                is_ours || state.are_ignored
            }
            ReservationStep::PreemptAndAbort { key, victim } => {
                let is_victim = |registered: &u64| *registered == victim;
                if own != Some(key) || !state.registered.values().any(is_victim) {
                    return state.are_ignored;
                }
                let holder = state.holder.and_then(|holder| state.registered.get(&holder));
                if holder.is_some_and(is_victim) {
                    state.holder = Some(server);
                }
                state.registered.retain(|other, registered| *other == server || *registered != victim);
                true
            }
            ReservationStep::Clear { key } => {
                let is_ours = own == Some(key);
                if is_ours {
                    (state.registered, state.holder) = (BTreeMap::new(), None);
                }
                is_ours
            }
        }
    }
}

/// A drive from the view of one server.
struct Port {
    medium: Arc<SharedMedium>,
    server: u32,
}

impl Drive for Port {
    fn name(&self) -> &str {
        self.medium.drive.name()
    }

    fn bytes(&self) -> u64 {
        self.medium.drive.bytes()
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        self.medium.drive.read(offset, len, done);
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        match self.medium.check_write(self.server) {
            Ok(()) => self.medium.drive.write(offset, pieces, durable, done),
            Err(error) => done(Err(error)),
        }
    }

    fn sync(&self, done: Done<()>) {
        done(self.medium.check_write(self.server));
    }

    fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        match self.medium.check_write(self.server) {
            Ok(()) => self.medium.drive.discard(offset, len, done),
            Err(error) => done(Err(error)),
        }
    }

    fn reserve(&self, step: ReservationStep, done: Done<bool>) {
        done(Ok(self.medium.reserve(self.server, step)));
    }
}
