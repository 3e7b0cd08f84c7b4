//! A logical unit, and a path to it: what one I_T nexus and one unit have with each other (an I_T_L nexus).

use crate::command::{Answer, End};
use crate::copy::Results;
use crate::mode::Pages;
use crate::order::{Class, Queue};
use crate::reserve::Reservations;
use crate::sense::{Code, Fault, Sense};
use crate::target::Identity;
use crate::task::Task;
use crate::{InitiatorPort, Response, Status};
use block::{Data, Disk, DiskId, Geometry};
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
    pub(crate) identity: Arc<Identity>,
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
}

/// Gate flags; the low half of a gate counts the tasks inside.
mod gate {
    /// A unit attention condition waits for this path.
    pub(super) const ATTENTION: u64 = 1 << 32;
    /// A reservation exists that this path has to be checked against.
    pub(super) const RESERVED: u64 = 1 << 33;
    /// A barrier is queued: tasks must be queued behind it.
    pub(super) const BARRIER: u64 = 1 << 34;
    /// The unit is write protected by SWP of the control mode page.
    pub(super) const PROTECTED: u64 = 1 << 35;
    /// The path is gone: its initiator does not see the unit any more.
    pub(super) const CLOSED: u64 = 1 << 36;
    /// The tasks inside.
    pub(super) const COUNT: u64 = ATTENTION - 1;
}

/// What is unusual about a path when a task enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u64);

impl Flags {
    /// True when nothing has to be checked.
    pub(crate) fn plain(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn attention(self) -> bool {
        self.0 & gate::ATTENTION != 0
    }

    pub(crate) fn reserved(self) -> bool {
        self.0 & gate::RESERVED != 0
    }

    pub(crate) fn protected(self) -> bool {
        self.0 & gate::PROTECTED != 0
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
    pub(crate) counters: Counters,
    /// Third-party copies that came by this path.
    pub(crate) copies: Results,
}

/// What went over one path, for the general statistics log page (SPC-5 7.3.9).
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) blocks_read: AtomicU64,
    pub(crate) blocks_written: AtomicU64,
}

impl Counters {
    /// Adds what another path counted.
    pub(crate) fn add(&self, other: &Counters) {
        let pairs = [
            (&self.reads, &other.reads),
            (&self.writes, &other.writes),
            (&self.blocks_read, &other.blocks_read),
            (&self.blocks_written, &other.blocks_written),
        ];
        for (mine, theirs) in pairs {
            mine.fetch_add(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl Unit {
    pub(crate) fn new(disk: Arc<dyn Disk>, identity: Arc<Identity>) -> Arc<Unit> {
        let (reservations, pages) = crate::state::load(&disk.state());
        let unit = Unit {
            id: disk.id(),
            block_bytes: disk.geometry().block_bytes,
            identity,
            descriptor_sense: AtomicBool::new(pages.current().descriptor_sense),
            core: Mutex::new(Core {
                paths: Vec::new(),
                queue: Queue::default(),
                reservations,
                pages,
                threshold_crossed: false,
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

    /// Wakes the queued tasks after something ended that they may have waited for.
    fn stir(&self) {
        let wakers = self.core.lock().queue.take_wakers();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Gives a unit attention condition to every path for which `choose` holds.
    pub(crate) fn attend(&self, code: Code, choose: impl Fn(&Path) -> bool) {
        self.lock().attend(code, choose);
    }

    /// The counters of all paths together.
    pub(crate) fn counted(&self) -> Counters {
        let sum = Counters::default();
        self.lock().paths.iter().for_each(|path| sum.add(&path.counters));
        sum
    }
}

impl Core {
    /// Gives a unit attention condition to every path for which `choose` holds.
    pub(crate) fn attend(&self, code: Code, choose: impl Fn(&Path) -> bool) {
        self.paths.iter().filter(|path| choose(path)).for_each(|path| path.attend(code.into()));
    }

    /// Tells the gates of all paths what the reservations and the mode pages mean for them.
    pub(crate) fn refresh(&self) {
        for path in &self.paths {
            path.set(gate::RESERVED, self.reservations.concerns(path));
            path.set(gate::PROTECTED, self.pages.current().write_protect);
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
pub(crate) struct Pass {
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

impl Pass {
    /// Ready when the task may run.
    pub(crate) fn poll_turn(&self, context: &mut Context<'_>) -> Poll<()> {
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
    pub(crate) fn has_turn(&self) -> bool {
        self.poll_turn(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// What has to be checked before the task begins.
    pub(crate) fn flags(&self) -> Flags {
        self.path.flags()
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        match self.place {
            Place::Free => (),
            Place::Counted => self.path.leave(),
            Place::Queued(entry) => {
                let mut core = self.path.unit.lock();
                core.queue.remove(entry);
                core.refresh_barrier();
                drop(core);
                self.path.unit.stir();
            }
        }
    }
}

impl Path {
    /// Makes a path and enters it with its unit; its first command meets POWER ON.
    pub(crate) fn open(unit: Arc<Unit>, initiator: Arc<InitiatorPort>, port: u16, lun: u16) -> Arc<Path> {
        let path = Arc::new(Path {
            unit,
            initiator,
            port,
            lun,
            gate: AtomicU64::new(0),
            attentions: Mutex::new(Vec::new()),
            tasks: Mutex::new(BTreeMap::new()),
            counters: Counters::default(),
            copies: Results::default(),
        });
        path.attend(Code::POWER_ON.into());
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
        core.refresh();
        drop(core);
        self.unit.stir();
    }

    /// Whether both paths belong to the same I_T nexus as the standards name it.
    pub(crate) fn same_nexus(&self, other: &Path) -> bool {
        self.port == other.port && self.initiator == other.initiator
    }

    /// Enters the unit's task set. The pass may have to wait for its turn.
    pub(crate) fn enter(self: &Arc<Path>, class: Class) -> (Pass, Flags) {
        if class == Class::Free {
            return (Pass { path: self.clone(), place: Place::Free }, self.flags());
        }
        if !class.is_barrier() {
            let before = self.gate.fetch_add(1, Ordering::SeqCst) & !gate::COUNT;
            if before & gate::BARRIER == 0 {
                return (Pass { path: self.clone(), place: Place::Counted }, Flags(before));
            }
            self.leave();
        }
        let mut core = self.unit.lock();
        let entry = core.queue.push(class);
        core.refresh_barrier();
        drop(core);
        (Pass { path: self.clone(), place: Place::Queued(entry) }, self.flags())
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
            self.unit.stir();
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
    pub(crate) fn attend(&self, sense: Sense) {
        let mut attentions = self.attentions.lock();
        if !attentions.iter().any(|other| other.code == sense.code) {
            attentions.push(sense);
        }
        self.set(gate::ATTENTION, true);
    }

    /// Takes the oldest unit attention condition, to be reported once.
    pub(crate) fn take_attention(&self) -> Option<Sense> {
        let mut attentions = self.attentions.lock();
        let first = (!attentions.is_empty()).then(|| attentions.remove(0));
        self.set(gate::ATTENTION, !attentions.is_empty());
        first
    }

    /// Clears a kind of unit attention condition that the initiator has learnt otherwise.
    pub(crate) fn clear_attention(&self, code: Code) {
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

    /// The response for the end of a command, with Data-In cut to the allocation length.
    pub(crate) fn respond(&self, end: End, data_out_wanted: u64, allocation: Option<u64>) -> Response {
        match end {
            Ok(Answer { mut data_in, condition_met }) => {
                if let Some(allocation) = allocation {
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
}
