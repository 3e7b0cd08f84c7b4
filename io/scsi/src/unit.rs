//! A logical unit, and a path to it: what one I_T nexus and one unit have with each other (an I_T_L nexus).

use crate::cdb::Cdb;
use crate::clock::Clock;
use crate::command::{CommandResult, Completion};
use crate::copy::Results;
use crate::mode_pages::Pages;
use crate::opcode::{Effect, Row};
use crate::quota::{self, Quota};
use crate::rate::{Admission, Charges, Cost, RateLimiter};
use crate::reserve::Reservations;
use crate::sense::{Code, Fault, Sense};
use crate::statistics::{IoCounters, Operation, PathId, Recorder};
use crate::target::TargetIdentity;
use crate::task::Task;
use crate::task_set::{Class, Queue};
use crate::{InitiatorPort, Response, Status, TaskAttribute};
use block::{Data, Disk, DiskId, Geometry, Op, Pending};
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// A logical unit.
pub(crate) struct Unit {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) id: DiskId,
    pub(crate) block_bytes: u32,
    pub(crate) identity: Arc<TargetIdentity>,
    pub(crate) clock: Arc<dyn Clock>,
    /// RESERVE and RELEASE are commands of this unit.
    pub(crate) simple_reservations: AtomicBool,
    /// There is a hard quota, which the core holds.
    has_quota: AtomicBool,
    /// D_SENSE of the control mode page, read wherever sense data is made.
    pub(crate) descriptor_sense: AtomicBool,
    core: Mutex<Core>,
}

/// The state of a unit that changes rarely; never locked by a command that a plain path lets through.
pub(crate) struct Core {
    /// Every path to the unit.
    pub(crate) paths: Vec<Arc<Path>>,
    pub(crate) queue: Queue,
    pub(crate) reservations: Reservations,
    pub(crate) pages: Pages,
    /// A threshold of the provisioning mode page is crossed, and the initiators know it.
    pub(crate) threshold_crossed: bool,
    /// What was counted on paths that are closed.
    past: BTreeMap<PathId, IoCounters>,
    pub(crate) rates: Rates,
    quota: Option<Arc<Quota>>,
}

/// The limits that concern a unit.
#[derive(Clone, Default)]
pub(crate) struct Rates {
    /// Its own, and those of its groups.
    pub(crate) buckets: Vec<Arc<RateLimiter>>,
    /// That of commands that unmap.
    pub(crate) unmap: Option<Arc<RateLimiter>>,
}

/// Gate flags; the low half of a gate counts the tasks inside.
mod gate {
    /// A unit attention condition waits for this path.
    pub(super) const ATTENTION: u64 = 1 << 32;
    /// A reservation exists that this path has to be checked against.
    pub(super) const RESERVED: u64 = 1 << 33;
    /// A barrier is queued: tasks must be queued behind it.
    pub(super) const BARRIER: u64 = 1 << 34;
    /// The unit is write protected by SWP of the control mode page, or for this path.
    pub(super) const PROTECTED: u64 = 1 << 35;
    /// The path is gone: its initiator does not see the unit any more.
    pub(super) const CLOSED: u64 = 1 << 36;
    /// What may go on in a second is limited.
    pub(super) const LIMITED: u64 = 1 << 37;
    /// The tasks inside.
    pub(super) const COUNT: u64 = ATTENTION - 1;
}

/// What is unusual about a path when a task enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u64);

impl Flags {
    /// True when nothing has to be checked before the command begins.
    pub(crate) fn plain(self) -> bool {
        self.0 & !gate::LIMITED == 0
    }

    pub(crate) fn unit_attention(self) -> bool {
        self.0 & gate::ATTENTION != 0
    }

    pub(crate) fn reserved(self) -> bool {
        self.0 & gate::RESERVED != 0
    }

    pub(crate) fn protected(self) -> bool {
        self.0 & gate::PROTECTED != 0
    }

    pub(crate) fn limited(self) -> bool {
        self.0 & gate::LIMITED != 0
    }
}

/// A path of one initiator port through one target port to one unit.
pub(crate) struct Path {
    pub(crate) unit: Arc<Unit>,
    pub(crate) initiator: Arc<InitiatorPort>,
    /// Relative target port identifier.
    pub(crate) port: u16,
    /// The number under which the nexus sees the unit.
    pub(crate) lun: u16,
    gate: AtomicU64,
    attentions: Mutex<Vec<Sense>>,
    tasks: Mutex<BTreeMap<u64, Arc<Task>>>,
    pub(crate) recorder: Recorder,
    /// Blocks written, for looking at the thresholds now and then.
    pub(crate) blocks_written: AtomicU64,
    /// The initiator may not write by this path.
    pub(crate) read_only: AtomicBool,
    /// Third-party copies that came by this path.
    pub(crate) copies: Results,
}

/// What a command is counted as and answered by.
#[derive(Clone, Copy)]
pub(crate) struct CommandInfo {
    pub(crate) operation: Operation,
    /// Bytes that it is about.
    pub(crate) bytes: u64,
    /// When it came, by the clock of its unit.
    pub(crate) began: u64,
    /// Data-Out that its CDB asks for.
    pub(crate) data_out_wanted: u64,
    /// The allocation length that cuts its Data-In.
    pub(crate) allocation: Option<u64>,
}

impl Unit {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        identity: Arc<TargetIdentity>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Unit> {
        let state = disk.state();
        let (reservations, pages) = crate::state::load(&state).unwrap_or_else(|| {
            let (length, disk) = (state.len(), disk.id());
            tracing::error!(length, ?disk, "unit state is not understood: the unit refuses changes");
            (Reservations::unreadable(), Pages::default())
        });
        let unit = Unit {
            id: disk.id(),
            block_bytes: disk.geometry().block_bytes,
            identity,
            clock,
            simple_reservations: AtomicBool::new(true),
            has_quota: AtomicBool::new(false),
            descriptor_sense: AtomicBool::new(pages.current().descriptor_sense),
            core: Mutex::new(Core {
                paths: Vec::new(),
                queue: Queue::default(),
                reservations,
                pages,
                threshold_crossed: false,
                past: BTreeMap::new(),
                rates: Rates::default(),
                quota: None,
            }),
            disk,
        };
        Arc::new(unit)
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Performs an operation on the disk, as far as a hard quota allows.
    pub(crate) fn perform(&self, op: Op) -> Pending {
        match self.quota() {
            Some(quota) => quota::perform(quota, self.disk.clone(), op),
            None => self.disk.execute(op),
        }
    }

    /// The hard quota, when there is one.
    pub(crate) fn quota(&self) -> Option<Arc<Quota>> {
        self.has_quota.load(Ordering::Relaxed).then(|| self.lock().quota.clone()).flatten()
    }

    /// Puts a hard quota in force, or none.
    pub(crate) fn set_quota(&self, quota: Option<Arc<Quota>>) {
        let mut core = self.lock();
        self.has_quota.store(quota.is_some(), Ordering::Relaxed);
        core.quota = quota;
    }

    /// Says whether RESERVE and RELEASE of SCSI-2 are commands of the unit.
    pub(crate) fn set_simple_reservations(&self, are: bool) {
        self.simple_reservations.store(are, Ordering::Relaxed);
        if !are {
            let mut core = self.lock();
            core.reservations.reset();
            core.refresh();
        }
    }

    /// Puts limits in force.
    pub(crate) fn set_rates(&self, rates: Rates) {
        let mut core = self.lock();
        core.rates = rates;
        core.refresh();
    }

    /// Wakes the queued tasks after something ended that they may have waited for.
    fn wake_queued(&self) {
        let wakers = self.core.lock().queue.take_wakers();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Gives a unit attention condition to every path for which `choose` holds.
    pub(crate) fn raise_unit_attention(&self, code: Code, choose: impl Fn(&Path) -> bool) {
        self.lock().raise_unit_attention(code, choose);
    }

    /// What was counted, by the way that it came; ways that are gone included.
    pub(crate) fn statistics(&self) -> BTreeMap<PathId, IoCounters> {
        let core = self.lock();
        let mut ways = core.past.clone();
        core.paths.iter().for_each(|path| path.count_in(&mut ways));
        ways
    }
}

impl Core {
    /// Gives a unit attention condition to every path for which `choose` holds.
    pub(crate) fn raise_unit_attention(&self, code: Code, choose: impl Fn(&Path) -> bool) {
        self.paths.iter().filter(|path| choose(path)).for_each(|path| path.raise_unit_attention(code.into()));
    }

    /// Tells the gates of all paths what reservations, mode pages and limits mean for them.
    pub(crate) fn refresh(&self) {
        let write_protect = self.pages.current().write_protect;
        let limited = !self.rates.buckets.is_empty() || self.rates.unmap.is_some();
        for path in &self.paths {
            path.set(gate::RESERVED, self.reservations.concerns(path));
            path.set(gate::PROTECTED, write_protect || path.is_read_only());
            path.set(gate::LIMITED, limited);
        }
    }

    fn counted(&self) -> u64 {
        self.paths.iter().map(|path| path.gate.load(Ordering::SeqCst) & gate::COUNT).sum()
    }

    fn refresh_barrier(&self) {
        let on = self.queue.has_barrier();
        self.paths.iter().for_each(|path| path.set(gate::BARRIER, on));
    }
}

/// A task's place in the order of its unit; dropping it lets others go on.
pub(crate) struct TaskSetEntry {
    path: Arc<Path>,
    place: Place,
}

/// How a task stands in the order.
#[derive(Clone, Copy)]
enum Place {
    /// Not at all.
    Free,
    /// Counted in the path's gate.
    Counted,
    /// An entry of the unit's queue.
    Queued(u64),
}

impl TaskSetEntry {
    /// Ready when the task may run.
    pub(crate) fn poll_dispatch(&self, context: &mut Context<'_>) -> Poll<()> {
        let Place::Queued(entry) = self.place else { return Poll::Ready(()) };
        let mut core = self.path.unit.lock();
        if core.queue.may_run(entry, core.counted()) {
            return Poll::Ready(());
        }
        // A counted task that leaves from now on sees the barrier and wakes us once it gets this lock.
        core.queue.park(entry, context.waker());
        Poll::Pending
    }

    /// Whether the task may run now.
    pub(crate) fn may_dispatch(&self) -> bool {
        self.poll_dispatch(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// What has to be checked before the task begins.
    pub(crate) fn flags(&self) -> Flags {
        self.path.flags()
    }
}

impl Drop for TaskSetEntry {
    fn drop(&mut self) {
        match self.place {
            Place::Free => (),
            Place::Counted => self.path.leave(),
            Place::Queued(entry) => {
                let mut core = self.path.unit.lock();
                core.queue.remove(entry);
                core.refresh_barrier();
                drop(core);
                self.path.unit.wake_queued();
            }
        }
    }
}

impl Path {
    /// Makes a path and enters it with its unit; its first command meets POWER ON.
    pub(crate) fn open(
        unit: Arc<Unit>,
        initiator: Arc<InitiatorPort>,
        port: u16,
        lun: u16,
        read_only: bool,
    ) -> Arc<Path> {
        let path = Arc::new(Path {
            unit,
            initiator,
            port,
            lun,
            gate: AtomicU64::new(0),
            attentions: Mutex::new(Vec::new()),
            tasks: Mutex::new(BTreeMap::new()),
            recorder: Recorder::default(),
            blocks_written: AtomicU64::new(0),
            read_only: AtomicBool::new(read_only),
            copies: Results::default(),
        });
        path.raise_unit_attention(Code::POWER_ON.into());
        let mut core = path.unit.lock();
        core.paths.push(path.clone());
        core.refresh();
        core.refresh_barrier();
        drop(core);
        path
    }

    /// Ends the path: aborts its tasks, releases its SCSI-2 reservation and takes it from its unit.
    pub(crate) fn close(self: &Arc<Path>, status: Option<Status>) {
        self.set(gate::CLOSED, true);
        self.abort_all(status);
        let mut core = self.unit.lock();
        core.paths.retain(|other| !Arc::ptr_eq(other, self));
        core.reservations.lose(self);
        self.count_in(&mut core.past);
        core.refresh();
        drop(core);
        self.unit.wake_queued();
    }

    fn count_in(&self, ways: &mut BTreeMap<PathId, IoCounters>) {
        let table = self.recorder.table();
        if table != IoCounters::default() {
            let way = PathId { initiator: self.initiator.name.clone(), port: self.port };
            ways.entry(way).or_default().add(&table);
        }
    }

    /// Whether the initiator may neither write nor change the state of the unit by this path.
    pub(crate) fn is_mapped_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// Whether writes by this path are refused for good: by the mapping, or since the disk is read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_mapped_read_only() || self.unit.disk.is_read_only()
    }

    /// Says whether the initiator may write by this path, which learns when that is another than before: the
    /// header of the mode pages tells it.
    pub(crate) fn protect(&self, read_only: bool) {
        if self.read_only.swap(read_only, Ordering::Relaxed) != read_only {
            let mut core = self.unit.lock();
            if read_only {
                // It would keep out those who may write, until its holder goes.
                core.reservations.lose(self);
            }
            core.refresh();
            drop(core);
            self.raise_unit_attention(Code::MODE_CHANGED.into());
        }
    }

    /// Why a command with this effect may not go by this path, when it may not.
    pub(crate) fn protection(&self, effect: Effect) -> Option<Code> {
        match effect {
            Effect::Nothing | Effect::Named => return None,
            Effect::Unit => return self.is_mapped_read_only().then_some(Code::WRITE_PROTECTED),
            Effect::Medium => {}
        }
        if self.is_read_only() {
            return Some(Code::WRITE_PROTECTED);
        }
        // The gate may still say so of a disk that was read-only when it was looked at last.
        self.unit.lock().pages.current().write_protect.then_some(Code::SOFTWARE_PROTECTED)
    }

    /// What a command has to pay before it may begin, when it must wait for that.
    pub(crate) fn admission(
        &self,
        row: &Row,
        cdb: &Cdb,
        data: &Data,
        attribute: TaskAttribute,
    ) -> Option<Admission> {
        if row.class != Class::Media {
            return None;
        }
        let limits = crate::block_limits::BlockLimits::of(self.unit.block_bytes);
        let bytes = |blocks: u64| blocks.saturating_mul(self.unit.block_bytes.into());
        let carried = match row.operation {
            Operation::Read => bytes(row.extent(cdb).blocks.min(limits.transfer.into())),
            _ => data.len() as u64,
        };
        let cost = Cost { operations: 1, bytes: carried };
        let mut charges = Charges::new();
        {
            let core = self.unit.lock();
            if row.unmaps(cdb)
                && let Some(bucket) = &core.rates.unmap
            {
                let bytes = row.amount(cdb, data, self.unit.block_bytes).min(bytes(limits.write_same));
                charges.push((bucket.clone(), Cost { operations: 0, bytes }));
            }
            charges.extend(core.rates.buckets.iter().map(|bucket| (bucket.clone(), cost)));
        }
        // Locks of clustered file systems must not come late, and what goes ahead of everything goes ahead here.
        if row.operation == Operation::CompareAndWrite || attribute == TaskAttribute::HeadOfQueue {
            Admission::force(&charges);
            return None;
        }
        Admission::begin(charges, &self.initiator.name)
    }

    /// Whether both paths belong to the same I_T nexus as the standards name it.
    pub(crate) fn same_nexus(&self, other: &Path) -> bool {
        self.port == other.port && self.initiator == other.initiator
    }

    /// Enters the unit's task set. The pass may have to wait for its turn.
    pub(crate) fn enter(self: &Arc<Path>, class: Class) -> (TaskSetEntry, Flags) {
        if class == Class::Free {
            return (TaskSetEntry { path: self.clone(), place: Place::Free }, self.flags());
        }
        if !class.is_barrier() {
            let before = self.gate.fetch_add(1, Ordering::SeqCst) & !gate::COUNT;
            if before & gate::BARRIER == 0 {
                return (TaskSetEntry { path: self.clone(), place: Place::Counted }, Flags(before));
            }
            self.leave();
        }
        let mut core = self.unit.lock();
        let entry = core.queue.push(class);
        core.refresh_barrier();
        drop(core);
        (TaskSetEntry { path: self.clone(), place: Place::Queued(entry) }, self.flags())
    }

    pub(crate) fn flags(&self) -> Flags {
        Flags(self.gate.load(Ordering::SeqCst) & !(gate::COUNT | gate::BARRIER))
    }

    /// Whether the path is gone. A task that finds it open while it holds the task set is aborted with the others.
    pub(crate) fn is_closed(&self) -> bool {
        self.gate.load(Ordering::SeqCst) & gate::CLOSED != 0
    }

    fn leave(&self) {
        let before = self.gate.fetch_sub(1, Ordering::SeqCst);
        debug_assert_ne!(before & gate::COUNT, 0, "a task leaves once");
        if before & gate::BARRIER != 0 {
            self.unit.wake_queued();
        }
    }

    fn set(&self, flag: u64, on: bool) {
        if on {
            self.gate.fetch_or(flag, Ordering::SeqCst);
        } else {
            self.gate.fetch_and(!flag, Ordering::SeqCst);
        }
    }

    /// Adds a unit attention condition, unless the same one waits already.
    pub(crate) fn raise_unit_attention(&self, sense: Sense) {
        let mut attentions = self.attentions.lock();
        if !attentions.iter().any(|other| other.code == sense.code) {
            attentions.push(sense);
        }
        self.set(gate::ATTENTION, true);
    }

    /// Takes the oldest unit attention condition, to be reported once.
    pub(crate) fn take_unit_attention(&self) -> Option<Sense> {
        let mut attentions = self.attentions.lock();
        let first = (!attentions.is_empty()).then(|| attentions.remove(0));
        self.set(gate::ATTENTION, !attentions.is_empty());
        first
    }

    /// Clears a kind of unit attention condition that the initiator has learnt otherwise.
    pub(crate) fn clear_unit_attention(&self, code: Code) {
        let mut attentions = self.attentions.lock();
        attentions.retain(|sense| sense.code != code);
        self.set(gate::ATTENTION, !attentions.is_empty());
    }

    /// The task set of this path; while it is locked no task begins to change anything.
    pub(crate) fn tasks(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Task>>> {
        self.tasks.lock()
    }

    /// Takes a task that is over out of the task set.
    pub(crate) fn forget(&self, task: &Arc<Task>) {
        let mut tasks = self.tasks.lock();
        if tasks.get(&task.tag).is_some_and(|known| Arc::ptr_eq(known, task)) {
            tasks.remove(&task.tag);
        }
    }

    /// Aborts one task; nothing when it is over.
    pub(crate) fn abort(&self, tag: u64, status: Option<Status>) {
        let task = self.tasks.lock().remove(&tag);
        if let Some(task) = task {
            task.abort(status);
        }
    }

    /// Aborts every task of the path; answers how many there were.
    pub(crate) fn abort_all(&self, status: Option<Status>) -> usize {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.values().for_each(|task| task.abort(status));
        tasks.len()
    }

    /// The response for the end of a command, with Data-In cut to the allocation length. OperationCounts the command.
    pub(crate) fn respond(&self, end: CommandResult, info: &CommandInfo) -> Response {
        let took = end.is_ok().then(|| self.unit.clock.now().saturating_sub(info.began));
        self.recorder.record(info.operation, info.bytes, took);
        let data_out_wanted = info.data_out_wanted;
        match end {
            Ok(Completion { mut data_in, condition_met }) => {
                if let Some(allocation) = info.allocation {
                    data_in.truncate(usize::try_from(allocation).unwrap_or(usize::MAX));
                }
                let status = if condition_met { Status::ConditionMet } else { Status::Good };
                Response { status, sense: Bytes::new(), data_in, data_out_wanted }
            }
            Err(Fault::Check(sense)) => Response {
                status: Status::CheckCondition,
                sense: sense.encode(self.unit.descriptor_sense.load(Ordering::Relaxed)),
                data_in: Data::new(),
                data_out_wanted,
            },
            Err(Fault::Status(status)) => {
                Response { status, sense: Bytes::new(), data_in: Data::new(), data_out_wanted }
            }
        }
    }

    /// The response to what is no command of ours, or none that can be.
    pub(crate) fn refuse(&self, fault: Fault, began: u64) -> Response {
        let operation = Operation::Other;
        self.respond(
            Err(fault),
            &CommandInfo { operation, bytes: 0, began, data_out_wanted: 0, allocation: None },
        )
    }

    /// A command was aborted.
    pub(crate) fn count_abort(&self, info: &CommandInfo) {
        self.recorder.record(info.operation, info.bytes, None);
    }
}
