//! A path: one controller and one namespace, with the gate that admits its commands.
//!
//! The gate is one atomic word: flags for the checks before a command begins, and the number of modifying commands in
//! progress. A command on a path without flags takes no lock.

use crate::status::Status;
use block::Data;
use export::{Admission, Charges, Cost, NexusName, Operation, PathId, Recorder, Volume};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// The namespaces that a controller's host sees, by namespace identifier.
pub(crate) type View = BTreeMap<u32, Arc<Path>>;

/// A reservation exists that may refuse commands of this path, or the saved state can't be read.
const RESERVED: u64 = 1 << 32;
/// The host may only read.
const READ_ONLY: u64 = 1 << 33;
/// A QoS limit applies.
const LIMITED: u64 = 1 << 34;
/// The host no longer sees the namespace.
const CLOSED: u64 = 1 << 35;
/// A task waits until no command is in progress.
const AWAITED: u64 = 1 << 36;
/// The host has to identify the namespace before it uses it.
const UNIDENTIFIED: u64 = 1 << 37;
/// The number of commands in progress.
const COUNT: u64 = RESERVED - 1;

/// The access of a command to the namespace, which reservations and write protection may refuse (NVM Command Set figure
/// 113).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No access that a reservation protects.
    None,
    /// A read.
    Read,
    /// A write.
    Write,
}

/// A path of a controller to a namespace.
pub(crate) struct Path {
    pub(crate) nsid: u32,
    pub(crate) volume: Arc<Volume>,
    /// The host, as a registrant of reservations: all its controllers are one registrant.
    pub(crate) host: Arc<NexusName>,
    name: Arc<str>,
    pub(crate) recorder: Arc<Recorder>,
    /// The number of the view in which the path appeared: commands that arrived before were meant for another
    /// namespace.
    pub(crate) since: u64,
    gate: AtomicU64,
    awaiting: Mutex<Vec<Waker>>,
}

/// Parameters of a new path.
pub(crate) struct Opening {
    pub(crate) nsid: u32,
    pub(crate) volume: Arc<Volume>,
    pub(crate) read_only: bool,
    /// The host may associate the identifier with another volume.
    pub(crate) unidentified: bool,
    pub(crate) since: u64,
}

impl Path {
    pub(crate) fn open(opening: Opening, host: Arc<NexusName>, (name, port): (Arc<str>, u16)) -> Arc<Path> {
        let Opening { nsid, volume, read_only, unidentified, since } = opening;
        let recorder = volume.open_path(PathId { initiator: (*name).to_owned(), port });
        let (gate, awaiting) = (AtomicU64::new(0), Mutex::default());
        let path = Arc::new(Path { nsid, volume, host, name, recorder, since, gate, awaiting });
        path.set(READ_ONLY, read_only);
        path.set(UNIDENTIFIED, unidentified);
        path.refresh();
        path
    }

    /// Closes the path: later commands find no namespace.
    pub(crate) fn close(&self) {
        self.set(CLOSED, true);
        self.volume.close_path(&self.recorder);
    }

    fn set(&self, flag: u64, on: bool) -> bool {
        let before = match on {
            true => self.gate.fetch_or(flag, Ordering::SeqCst),
            false => self.gate.fetch_and(!flag, Ordering::SeqCst),
        };
        before & flag != 0
    }

    fn has(&self, flag: u64) -> bool {
        self.gate.load(Ordering::SeqCst) & flag != 0
    }

    /// Notes that the host has identified the namespace.
    pub(crate) fn set_identified(&self) {
        self.set(UNIDENTIFIED, false);
    }

    /// Sets whether the host may only read; returns whether this changed.
    pub(crate) fn set_read_only(&self, read_only: bool) -> bool {
        self.set(READ_ONLY, read_only) != read_only
    }

    /// Whether the mapping forbids the host to write and to change state that hosts share.
    pub(crate) fn is_mapped_read_only(&self) -> bool {
        self.has(READ_ONLY)
    }

    /// Whether writes on this path are always refused.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_mapped_read_only() || self.volume.disk().is_read_only()
    }

    /// Whether a QoS limit applies.
    pub(crate) fn is_limited(&self) -> bool {
        self.has(LIMITED)
    }

    /// Updates the flags for reservations and limits.
    pub(crate) fn refresh(&self) {
        let limited = !self.volume.limiters().is_empty();
        let state = self.volume.state();
        let reserved = state.is_fenced()
            || state.registrations.reservation().is_some() && !state.registrations.admits(&self.host);
        self.set(RESERVED, reserved);
        drop(state);
        self.set(LIMITED, limited);
    }

    /// Counts a modifying command as in progress, until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Path>) -> InProgress {
        self.gate.fetch_add(1, Ordering::SeqCst);
        InProgress(self.clone())
    }

    /// Ready when no modifying command is in progress.
    pub(crate) fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut awaiting = self.awaiting.lock();
        self.set(AWAITED, true);
        if self.gate.load(Ordering::SeqCst) & COUNT == 0 {
            return Poll::Ready(());
        }
        awaiting.push(cx.waker().clone());
        Poll::Pending
    }

    /// Checks that a command may begin.
    pub(crate) fn check(&self, access: Access) -> Result<(), Status> {
        let flags = self.gate.load(Ordering::SeqCst);
        if flags & CLOSED != 0 {
            return Err(Status::INVALID_NAMESPACE);
        }
        if flags & UNIDENTIFIED != 0 {
            return Err(Status::NAMESPACE_NOT_READY);
        }
        if flags & RESERVED != 0 && self.conflicts(access) {
            return Err(Status::RESERVATION_CONFLICT);
        }
        if access == Access::Write && self.is_read_only() {
            return Err(Status::NAMESPACE_WRITE_PROTECTED);
        }
        Ok(())
    }

    /// Whether a reservation refuses the access (Base 8.19, NVM Command Set figure 113).
    fn conflicts(&self, access: Access) -> bool {
        let state = self.volume.state();
        if state.is_fenced() {
            return access == Access::Write;
        }
        let Some(reservation) = state.registrations.reservation() else { return false };
        match access {
            Access::None => false,
            Access::Read => !reservation.kind.lets_others_read() && !state.registrations.admits(&self.host),
            Access::Write => !state.registrations.admits(&self.host),
        }
    }

    /// Requests admission by the QoS limits. `None` if the command is admitted at once.
    pub(crate) fn request_admission(
        &self,
        operation: Operation,
        bytes: u64,
        unmapped: Option<u64>,
    ) -> Option<Admission> {
        let charges: Charges = self.volume.limiters().charges(Cost { operations: 1, bytes }, unmapped);
        // Locks of clustered file systems must not be delayed.
        if operation == Operation::CompareAndWrite {
            Admission::count(&charges);
            return None;
        }
        Admission::request(charges, &self.name)
    }

    /// Blocks of zeros to fill with.
    pub(crate) fn zero_block(&self) -> Data {
        Data::from(vec![0; self.volume.block_bytes() as usize])
    }
}

/// Guard of a modifying command in progress.
pub(crate) struct InProgress(Arc<Path>);

impl Drop for InProgress {
    fn drop(&mut self) {
        let before = self.0.gate.fetch_sub(1, Ordering::SeqCst);
        if before & AWAITED != 0 && before & COUNT == 1 {
            let mut awaiting = self.0.awaiting.lock();
            self.0.set(AWAITED, false);
            awaiting.drain(..).for_each(Waker::wake);
        }
    }
}
