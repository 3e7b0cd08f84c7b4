//! A path: one I_T nexus and one logical unit (an I_T_L nexus), with its tasks and unit attention conditions.

use crate::Status;
use crate::encoding::sense::{Code, Sense};
use crate::encoding::volatile::{self, Origin};
use crate::unit::gate::{self, Gate};
use crate::unit::operations::Operations;
use crate::unit::row::Effect;
use crate::unit::task::Task;
use crate::unit::view::{Begin, Shared};
use crate::unit::{Core, Unit};
use export::{NexusName, PathId, Recorder};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A path of one initiator port through one target port to one unit.
pub(crate) struct Path {
    pub(crate) unit: Arc<Unit>,
    pub(crate) nexus: Arc<NexusName>,
    /// The nexus at its front end, if it comes by one.
    pub(crate) origin: Option<Origin>,
    /// The name of the initiator's host, by which QoS is shared.
    host: Arc<str>,
    /// The number under which the nexus sees the unit.
    pub(crate) lun: u16,
    pub(crate) gate: Gate,
    unit_attentions: Mutex<Vec<Sense>>,
    /// That of its nexus: see [`Shared::luns_changed`].
    luns_changed: Arc<AtomicBool>,
    tasks: Mutex<BTreeMap<u64, Arc<Task>>>,
    pub(crate) recorder: Arc<Recorder>,
    /// Blocks written, for checking the thresholds now and then.
    pub(crate) blocks_written: AtomicU64,
    /// The mapping is read-only.
    read_only: AtomicBool,
    /// Third-party copies that came by this path.
    pub(crate) copies: Operations,
}

impl Path {
    /// Opens a path and enters it with its unit. Its first command reports how its nexus has begun, if that is new to the host.
    pub(crate) fn open(
        unit: Arc<Unit>,
        shared: &Shared,
        (lun, read_only): (u16, bool),
        begin: Begin,
    ) -> Arc<Path> {
        let (nexus, host, origin) = (shared.nexus.clone(), shared.host.clone(), shared.origin);
        let recorder =
            unit.volume.open_path(PathId { initiator: (*host).to_owned(), port: nexus.target_port });
        let path = Arc::new(Path {
            unit,
            nexus,
            origin,
            host,
            lun,
            gate: Gate::default(),
            unit_attentions: Mutex::new(Vec::new()),
            luns_changed: shared.luns_changed.clone(),
            tasks: Mutex::new(BTreeMap::new()),
            recorder,
            blocks_written: AtomicU64::new(0),
            read_only: AtomicBool::new(read_only),
            copies: Operations::default(),
        });
        let mut core = path.unit.lock();
        match begin {
            Begin::New => path.raise_unit_attention(Code::POWER_ON.into()),
            Begin::Lost => path.raise_unit_attention(Code::NEXUS_LOSS.into()),
            Begin::Resumed => path.resume(&mut core),
        }
        core.paths.push(path.clone());
        match begin {
            // The other paths see the same reservations and the same queue as before.
            Begin::New | Begin::Lost => core.refresh_path(&path),
            Begin::Resumed => core.refresh(),
        }
        path.gate.set(gate::BARRIER, core.queue.has_barrier());
        drop(core);
        path
    }

    /// Takes what a former home had for the nexus.
    fn resume(self: &Arc<Path>, core: &mut Core) {
        let own = |attention: &mut (Origin, Code)| Some(attention.0) == self.origin;
        for (_, code) in core.unclaimed.attentions.extract_if(.., own) {
            self.raise_unit_attention(code.into());
        }
        if core.unclaimed.overflowed {
            self.raise_unit_attention(Code::POWER_ON.into());
        }
        core.reservations.resume(self);
    }

    /// Closes the path: aborts its tasks, releases its SCSI-2 reservation and removes it from its unit.
    pub(crate) fn close(self: &Arc<Path>, status: Option<Status>) {
        self.gate.set(gate::CLOSED, true);
        self.abort_all(status);
        let mut core = self.unit.lock();
        core.paths.retain(|other| !Arc::ptr_eq(other, self));
        let released = core.reservations.release_of(self);
        self.unit.volume.close_path(&self.recorder);
        if released {
            core.refresh();
        }
        drop(core);
        self.unit.wake_queued();
    }

    /// The name of the initiator's host.
    pub(crate) fn host(&self) -> &Arc<str> {
        &self.host
    }

    /// Relative identifier of the target port.
    pub(crate) fn port(&self) -> u16 {
        self.nexus.target_port
    }

    /// Whether the mapping lets the initiator neither write nor change the state of the unit.
    pub(crate) fn is_mapped_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// Whether writes by this path are always refused: by the mapping, or because the disk is read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_mapped_read_only() || self.unit.volume.disk().is_read_only()
    }

    /// Sets whether the mapping is read-only. A change raises MODE PARAMETERS CHANGED, since the header of the mode
    /// pages reports it.
    pub(crate) fn set_read_only(&self, read_only: bool) {
        if self.read_only.swap(read_only, Ordering::Relaxed) != read_only {
            let mut core = self.unit.lock();
            if read_only {
                // It would keep out initiators that may write, as long as its holder exists.
                core.reservations.release_of(self);
            }
            core.refresh();
            drop(core);
            self.raise_unit_attention(Code::MODE_CHANGED.into());
        }
    }

    /// The sense code that refuses a command with this effect, if write protection does.
    pub(crate) fn protection(&self, effect: Effect) -> Option<Code> {
        match effect {
            Effect::Nothing | Effect::Named => return None,
            Effect::Unit => return self.is_mapped_read_only().then_some(Code::WRITE_PROTECTED),
            Effect::Medium => {}
        }
        if self.is_read_only() {
            return Some(Code::WRITE_PROTECTED);
        }
        // The gate may be out of date: the disk was read-only when the flags were set last.
        self.unit.lock().pages.current().write_protect.then_some(Code::SOFTWARE_PROTECTED)
    }

    /// Whether both paths belong to the same I_T nexus.
    pub(crate) fn same_nexus(&self, other: &Path) -> bool {
        self.nexus == other.nexus
    }

    /// Whether the path is closed. A task that finds it open while it holds the task set is aborted with the others.
    pub(crate) fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    /// Establishes a unit attention condition, unless the same one is pending.
    pub(crate) fn raise_unit_attention(&self, sense: Sense) {
        self.note_attention(sense.code);
        let mut pending = self.unit_attentions.lock();
        if !pending.iter().any(|other| other.code == sense.code) {
            pending.push(sense);
        }
        self.gate.set(gate::UNIT_ATTENTION, true);
    }

    /// Takes the oldest unit attention condition, to be reported once.
    pub(crate) fn take_unit_attention(&self) -> Option<Sense> {
        let mut pending = self.unit_attentions.lock();
        let first = (!pending.is_empty()).then(|| pending.remove(0));
        self.gate.set(gate::UNIT_ATTENTION, !pending.is_empty());
        first.iter().for_each(|sense| self.note_gone(sense.code));
        first
    }

    /// A unit attention condition has gone.
    fn note_gone(&self, code: Code) {
        self.note_attention(code);
        if code == Code::LUNS_CHANGED {
            self.luns_changed.swap(false, Ordering::AcqRel);
        }
    }

    /// A unit attention condition comes or goes.
    fn note_attention(&self, code: Code) {
        if self.origin.is_some() && volatile::is_saved(code) {
            self.unit.set_changed(true);
        }
    }

    /// The pending unit attention conditions that are saved.
    pub(crate) fn saved_attentions(&self) -> Vec<Code> {
        let pending = self.unit_attentions.lock();
        pending.iter().map(|sense| sense.code).filter(|code| volatile::is_saved(*code)).collect()
    }

    /// Clears a unit attention condition whose cause the initiator has learnt in another way.
    pub(crate) fn clear_unit_attention(&self, code: Code) {
        let mut pending = self.unit_attentions.lock();
        pending.retain(|sense| sense.code != code);
        self.gate.set(gate::UNIT_ATTENTION, !pending.is_empty());
        self.note_gone(code);
    }

    /// The tasks of this path; while they are locked no task begins to change anything.
    pub(crate) fn tasks(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Task>>> {
        self.tasks.lock()
    }

    /// Removes a task that has ended.
    pub(crate) fn forget(&self, task: &Arc<Task>) {
        let mut tasks = self.tasks.lock();
        if tasks.get(&task.tag).is_some_and(|known| Arc::ptr_eq(known, task)) {
            tasks.remove(&task.tag);
        }
    }

    /// Aborts one task; does nothing if it has ended.
    pub(crate) fn abort(&self, tag: u64, status: Option<Status>) {
        let task = self.tasks.lock().remove(&tag);
        if let Some(task) = task {
            task.abort(status);
        }
    }

    /// Aborts every task of the path; returns their number.
    pub(crate) fn abort_all(&self, status: Option<Status>) -> usize {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.values().for_each(|task| task.abort(status));
        tasks.len()
    }
}
