//! An exported volume: a disk with its QoS limiters, quota, statistics and reservations.
//!
//! All front ends share this state. A front end adds the state that its protocol needs.

use crate::initiator::NexusName;
use crate::power::Power;
use crate::qos::{Charges, Cost, RateLimiter};
use crate::quota::{self, Quota};
use crate::reservation::Registrations;
use crate::state::{Record, SavedState, StateError, Volatile};
use crate::state_lock::{StateGuard, StateLock};
use crate::statistics::{IoCounters, Operation, PathId, Recorder};
use block::{Disk, DiskId, Geometry, Note, Op, Pending};
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Unit of space allocation. It divides 1 MiB: ESXi does not unmap automatically with a larger unit.
pub const PROVISIONING_BLOCK_BYTES: u32 = 4096;

/// Number of logical blocks whose provisioning status is looked up in one step.
pub const STATUS_MAX_BLOCKS: u64 = 1 << 21;

/// An exported volume.
pub struct Volume {
    disk: Arc<dyn Disk>,
    id: DiskId,
    block_bytes: u32,
    /// Whether `quota` is set, so that commands without a quota take no lock.
    has_quota: AtomicBool,
    quota: Mutex<Option<Arc<Quota>>>,
    limiters: Mutex<Limiters>,
    state: Mutex<VolumeState>,
    state_lock: StateLock,
    statistics: Mutex<Statistics>,
}

/// The rate limiters of a volume.
#[derive(Clone, Default)]
pub struct Limiters {
    /// Limiters of its groups, then its own; the last one is passed first.
    pub limiters: Vec<Arc<RateLimiter>>,
    /// The limiter of commands that unmap.
    pub unmap: Option<Arc<RateLimiter>>,
}

impl Limiters {
    /// True if nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.limiters.is_empty() && self.unmap.is_none()
    }

    /// Charge of a command: its cost at every limiter, and the bytes that it unmaps at the limiter for unmapping.
    pub fn charges(&self, cost: Cost, unmapped_bytes: Option<u64>) -> Charges {
        let mut charges = Charges::new();
        if let (Some(bytes), Some(limiter)) = (unmapped_bytes, &self.unmap) {
            charges.push((limiter.clone(), Cost { operations: 0, bytes }));
        }
        charges.extend(self.limiters.iter().map(|limiter| (limiter.clone(), cost)));
        charges
    }
}

/// Reservations of a volume, and its other saved state.
#[derive(Default)]
pub struct VolumeState {
    /// Registrations and the reservation.
    pub registrations: Registrations,
    mode_pages: Bytes,
    /// The power-on under which volatile state is saved; zero if it is not saved.
    power_on: u64,
    /// State of the SCSI front end, as saved last.
    scsi_volatile: Bytes,
    unknown: Vec<Record>,
    fenced: bool,
}

impl VolumeState {
    /// True if the saved state could not be decoded. The access rights are unknown then: every command that changes the
    /// medium or the state must be refused until an operator clears the state.
    pub fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// The saved SCSI mode pages; empty if there are none.
    pub fn scsi_mode_pages(&self) -> &Bytes {
        &self.mode_pages
    }

    /// The volatile state of the SCSI front end in force since a takeover, possibly empty.
    pub fn scsi_volatile(&self) -> &Bytes {
        &self.scsi_volatile
    }

    /// Sets the state of the SCSI front end after it was saved: every later save includes it.
    pub fn set_scsi(&mut self, scsi: ScsiState) {
        (self.mode_pages, self.scsi_volatile) = (scsi.mode_pages, scsi.volatile);
    }

    /// The state of the SCSI front end that was saved last.
    pub fn scsi(&self) -> ScsiState {
        ScsiState { mode_pages: self.mode_pages.clone(), volatile: self.scsi_volatile.clone() }
    }

    /// Whether volatile state is saved, too.
    pub fn saves_volatile(&self) -> bool {
        self.power_on != 0
    }

    /// Whether the change to `next` has to be saved.
    pub fn must_save(&self, next: &Registrations) -> bool {
        self.registrations.must_save(next) || self.saves_volatile() && self.registrations != *next
    }

    /// Adopts a decoded state, including the volatile state that is still valid.
    fn restore(saved: SavedState, power: Power) -> VolumeState {
        let SavedState { mut registrations, mode_pages, volatile, unknown } = saved;
        let (power_on, in_force) = power.of_volume(volatile.as_ref().map(|volatile| volatile.power_on));
        let Volatile { registrations: other, scsi, .. } = volatile.filter(|_| in_force).unwrap_or_default();
        // Persistent registrations are saved separately, so at most one of both exists.
        registrations = other.unwrap_or(registrations);
        VolumeState { registrations, mode_pages, power_on, scsi_volatile: scsi, unknown, fenced: false }
    }
}

/// State that the SCSI front end saves, in its own encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScsiState {
    /// Mode pages.
    pub mode_pages: Bytes,
    /// State that ends when the target loses power.
    pub volatile: Bytes,
}

#[derive(Default)]
struct Statistics {
    open: Vec<(PathId, Arc<Recorder>)>,
    /// Counters of closed paths.
    closed: BTreeMap<PathId, IoCounters>,
}

impl Volume {
    pub(crate) fn new(disk: Arc<dyn Disk>, power: Power) -> Arc<Volume> {
        let saved = disk.state();
        let state = match SavedState::decode(&saved) {
            Some(saved) => VolumeState::restore(saved, power),
            None => VolumeState { fenced: true, ..VolumeState::restore(SavedState::default(), power) },
        };
        let volume = Volume {
            id: disk.id(),
            block_bytes: disk.geometry().block_bytes,
            disk,
            has_quota: AtomicBool::new(false),
            quota: Mutex::default(),
            limiters: Mutex::default(),
            state: Mutex::new(state),
            state_lock: StateLock::default(),
            statistics: Mutex::default(),
        };
        if volume.state().is_fenced() {
            volume.log_fence();
        }
        Arc::new(volume)
    }

    fn log_fence(&self) {
        let length = self.disk.state().len();
        tracing::error!(length, disk = ?self.id, "the saved unit state can't be decoded: the unit refuses changes until \
             `ashlar volume clear-state`");
    }

    /// The disk. Operations that may map blocks go through [`Volume::perform`].
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Identity of the disk.
    pub fn id(&self) -> DiskId {
        self.id
    }

    /// Logical block length in bytes.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Size and block length.
    pub fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    /// Performs an operation on the disk if the quota allows it.
    pub fn perform(&self, op: Op) -> Pending {
        self.perform_with(op, None)
    }

    /// Like [`Volume::perform`], with a note for the disk to store.
    pub fn perform_with(&self, op: Op, note: Option<Note>) -> Pending {
        match self.quota() {
            Some(quota) => quota::perform(quota, self.disk.clone(), (op, note)),
            None => self.disk.execute_with(op, note),
        }
    }

    pub(crate) fn quota(&self) -> Option<Arc<Quota>> {
        self.has_quota.load(Ordering::Relaxed).then(|| self.quota.lock().clone()).flatten()
    }

    pub(crate) fn set_quota(&self, quota: Option<Arc<Quota>>) {
        let mut held = self.quota.lock();
        self.has_quota.store(quota.is_some(), Ordering::Relaxed);
        *held = quota;
    }

    /// The current rate limiters.
    pub fn limiters(&self) -> MutexGuard<'_, Limiters> {
        self.limiters.lock()
    }

    pub(crate) fn set_limiters(&self, limiters: Limiters) {
        *self.limiters.lock() = limiters;
    }

    /// Locks the state against changes by any front end.
    pub async fn lock_state(&self) -> StateGuard {
        self.state_lock.lock().await
    }

    /// The reservations. A front end that changes them must hold [`Volume::lock_state`], and first save the bytes of
    /// [`Volume::encode_state`].
    pub fn state(&self) -> MutexGuard<'_, VolumeState> {
        self.state.lock()
    }

    /// Fences the volume, because a front end could not decode its part of the saved state.
    pub fn fence(&self) {
        self.set_empty_state(true);
        self.log_fence();
    }

    pub(crate) fn clear_state(&self) {
        self.set_empty_state(false);
    }

    fn set_empty_state(&self, fenced: bool) {
        let mut state = self.state();
        *state = VolumeState { fenced, power_on: state.power_on, ..VolumeState::default() };
    }

    /// Resolves the power-on: `known`, or `fresh` if no controller knows one. Returns true if state was in force that
    /// had ended.
    pub(crate) fn resolve_power(&self, known: Option<u64>, fresh: u64) -> bool {
        let mut state = self.state();
        let saved = std::mem::replace(&mut state.power_on, known.unwrap_or(fresh));
        // State saved under `fresh` belongs to this process.
        let is_over = saved != state.power_on && saved != fresh;
        if is_over {
            state.scsi_volatile = Bytes::new();
            if !state.registrations.persists {
                state.registrations = Registrations::default();
            }
        }
        is_over
    }

    /// The bytes to save (`Op::SaveState`) for registrations that are not in force yet, and the state of the SCSI front
    /// end.
    ///
    /// # Errors
    /// If the state would not be decoded unchanged after a restart: it must not be saved then.
    pub fn encode_state(&self, registrations: &Registrations, scsi: ScsiState) -> Result<Bytes, StateError> {
        let (unknown, power_on) = {
            let state = self.state();
            (state.unknown.clone(), state.power_on)
        };
        let is_volatile = !registrations.persists && *registrations != Registrations::default();
        let volatile = Volatile {
            power_on,
            registrations: is_volatile.then(|| registrations.clone()),
            scsi: scsi.volatile,
        };
        let is_empty = volatile.registrations.is_none() && volatile.scsi.is_empty();
        let volatile = (power_on != 0 && !is_empty).then_some(volatile);
        let (registrations, mode_pages) = (registrations.clone(), scsi.mode_pages);
        SavedState { registrations, mode_pages, volatile, unknown }.encode()
    }

    /// Whether a nexus has full access under the reservation.
    pub fn admits(&self, nexus: &NexusName) -> bool {
        self.state().registrations.admits(nexus)
    }

    /// Starts counting commands of a path.
    pub fn open_path(&self, path: PathId) -> Arc<Recorder> {
        let recorder = Arc::new(Recorder::default());
        self.statistics.lock().open.push((path, recorder.clone()));
        recorder
    }

    /// Ends counting; the path's counters are kept.
    pub fn close_path(&self, recorder: &Arc<Recorder>) {
        let mut statistics = self.statistics.lock();
        let Statistics { open, closed } = &mut *statistics;
        for (path, recorder) in open.extract_if(.., |(_, other)| Arc::ptr_eq(other, recorder)) {
            add(closed, &path, &recorder);
        }
    }

    /// Number of successful commands of a kind on the open paths, and the sum of their latencies in nanoseconds.
    pub(crate) fn open_latencies(&self, operation: Operation) -> (u64, u64) {
        let statistics = self.statistics.lock();
        let paths = statistics.open.iter().map(|(_, recorder)| recorder.latencies(operation));
        paths.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
    }

    /// Counters since the volume was added, by path, including closed paths.
    pub fn statistics(&self) -> BTreeMap<PathId, IoCounters> {
        let statistics = self.statistics.lock();
        let mut paths = statistics.closed.clone();
        statistics.open.iter().for_each(|(path, recorder)| add(&mut paths, path, recorder));
        paths
    }
}

fn add(paths: &mut BTreeMap<PathId, IoCounters>, path: &PathId, recorder: &Recorder) {
    let counters = recorder.counters();
    if counters != IoCounters::default() {
        paths.entry(path.clone()).or_default().add(&counters);
    }
}
