//! The device server's spine: units, what each initiator sees of them, and a command's way from its CDB to its
//! handler.

use crate::cdb::Cdb;
use crate::clock::Clock;
use crate::command::{Flow, Request};
use crate::opcode::{self, Access, Row};
use crate::operator::Policies;
use crate::rate::Admission;
use crate::sense::{Code, Fault};
use crate::task::{Running, Task};
use crate::unit::{CommandInfo, Flags, Path, TaskSetEntry, Unit};
use crate::{
    Command, Direction, Execution, InitiatorPort, Lun, ManagementFunction, ManagementResponse, Response,
    Status, TaskAttribute, incorrect_lun,
};
use block::{Data, Disk, DiskId, Pending};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// What the target says about itself.
#[derive(Clone, Debug)]
pub struct TargetIdentity {
    /// The target's iSCSI name.
    pub name: String,
    /// T10 vendor identification, at most 8 ASCII characters.
    pub vendor: String,
    /// Product identification, at most 16 ASCII characters; the same for every unit (ESXi compares it before it
    /// copies between units).
    pub product: String,
    /// Product revision level, at most 4 ASCII characters.
    pub revision: String,
    /// Number of target ports; their relative identifiers are 1 up to this.
    pub ports: u16,
}

/// A logical unit to be.
#[derive(Clone)]
pub struct UnitConfig {
    /// The disk behind it; its identity is what the unit's names are made of.
    pub disk: Arc<dyn Disk>,
}

/// What an initiator sees under a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The disk.
    pub disk: DiskId,
    /// Writes of this initiator end with DATA PROTECT, WRITE PROTECTED.
    pub read_only: bool,
}

impl From<DiskId> for Mapping {
    fn from(disk: DiskId) -> Self {
        Mapping { disk, read_only: false }
    }
}

/// What one nexus sees: paths by logical unit number.
pub(crate) type View = BTreeMap<u16, Arc<Path>>;

/// A SCSI target device with its logical units.
pub struct Target {
    identity: Arc<TargetIdentity>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) registry: Mutex<Registry>,
}

#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) units: BTreeMap<DiskId, Arc<Unit>>,
    views: BTreeMap<String, BTreeMap<u16, Mapping>>,
    nexuses: Vec<Weak<Shared>>,
    pub(crate) policies: Policies,
}

/// A nexus as the target knows it.
struct Shared {
    initiator: Arc<InitiatorPort>,
    port: u16,
    view: RwLock<Arc<View>>,
}

/// An I_T nexus: one initiator port at one target port. Dropping it is the loss of the nexus.
pub struct Nexus {
    target: Arc<Target>,
    shared: Arc<Shared>,
}

impl Target {
    /// A target without units, that has its time from `clock`.
    pub fn new(identity: TargetIdentity, clock: Arc<dyn Clock>) -> Arc<Target> {
        Arc::new(Target { identity: Arc::new(identity), clock, registry: Mutex::default() })
    }

    /// Adds a logical unit; views that name its disk show it from now on. Replaces a unit of the same disk.
    pub fn add_unit(&self, config: UnitConfig) {
        let unit = Unit::new(config.disk, self.identity.clone(), self.clock.clone());
        self.change(|registry| {
            registry.policies.apply_to(&unit);
            registry.units.insert(unit.id, unit);
        });
    }

    /// Takes a logical unit away, and what was set on it. Its tasks end as aborted; to its initiators it does not
    /// exist any more.
    pub fn remove_unit(&self, id: DiskId) {
        self.change(|registry| {
            registry.units.remove(&id);
            registry.policies.forget(id);
        });
    }

    /// Sets what an initiator sees: disks by logical unit number, numbers below 16384. Takes effect at once on every
    /// nexus of the initiator, which learns by 3F/0E. Disks without a unit are not shown until they get one.
    pub fn set_view<M: Into<Mapping>>(&self, initiator: &str, view: BTreeMap<u16, M>) {
        let view = view.into_iter().map(|(lun, mapping)| (lun, mapping.into())).collect();
        self.change(|registry| {
            registry.views.insert(initiator.to_owned(), view);
        });
    }

    /// The initiators that see a disk which this one may write to; itself among them, unless there is none.
    pub fn hosts_sharing_with(&self, initiator: &str) -> BTreeSet<String> {
        let registry = self.registry.lock();
        let own = registry.views.get(initiator).into_iter().flat_map(BTreeMap::values);
        let own: BTreeSet<DiskId> =
            own.filter(|mapping| !mapping.read_only).map(|mapping| mapping.disk).collect();
        let shares = |view: &BTreeMap<u16, Mapping>| view.values().any(|mapping| own.contains(&mapping.disk));
        registry.views.iter().filter(|(_, view)| shares(view)).map(|(name, _)| name.clone()).collect()
    }

    /// Takes everything out of an initiator's sight.
    pub fn remove_view(&self, initiator: &str) {
        self.change(|registry| {
            registry.views.remove(initiator);
        });
    }

    /// Begins an I_T nexus. `port` is the relative identifier of the target port that the initiator came in by.
    pub fn attach(self: &Arc<Target>, initiator: InitiatorPort, port: u16) -> Nexus {
        let shared = Arc::new(Shared {
            initiator: Arc::new(initiator),
            port,
            view: RwLock::new(Arc::new(View::new())),
        });
        let mut registry = self.registry.lock();
        registry.nexuses.push(Arc::downgrade(&shared));
        registry.rebuild(&shared, false);
        Nexus { target: self.clone(), shared }
    }

    /// Changes units or views and brings every nexus up to date.
    fn change(&self, change: impl FnOnce(&mut Registry)) {
        let mut registry = self.registry.lock();
        change(&mut registry);
        registry.nexuses.retain(|nexus| nexus.strong_count() > 0);
        let nexuses: Vec<_> = registry.nexuses.iter().filter_map(Weak::upgrade).collect();
        nexuses.iter().for_each(|nexus| registry.rebuild(nexus, true));
    }
}

impl Registry {
    /// Makes a nexus see what its initiator's view says: paths that stay are kept, the others closed.
    fn rebuild(&self, shared: &Shared, announce: bool) {
        let wanted = self.views.get(&shared.initiator.name);
        let old = shared.view.read().clone();
        let mut new = View::new();
        for (&lun, &Mapping { disk, read_only }) in wanted.into_iter().flatten() {
            let Some(unit) = self.units.get(&disk) else { continue };
            let kept = old.get(&lun).filter(|path| Arc::ptr_eq(&path.unit, unit)).cloned();
            if let Some(path) = &kept {
                path.protect(read_only);
            }
            let open = || Path::open(unit.clone(), shared.initiator.clone(), shared.port, lun, read_only);
            new.insert(lun, kept.unwrap_or_else(open));
        }
        let new = Arc::new(new);
        *shared.view.write() = new.clone();
        let stays = |path: &Arc<Path>| new.get(&path.lun).is_some_and(|kept| Arc::ptr_eq(kept, path));
        let gone: Vec<_> = old.values().filter(|path| !stays(path)).collect();
        gone.iter().for_each(|path| path.close(Some(Status::TaskAborted)));
        let changed = !gone.is_empty() || new.len() != old.len();
        if announce && changed {
            new.values().for_each(|path| path.raise_unit_attention(Code::LUNS_CHANGED.into()));
        }
    }
}

impl Nexus {
    /// Starts a command. What memory can answer is answered at once.
    pub fn execute(&self, command: Command) -> Execution {
        let view = self.view();
        let path = command.lun.number().and_then(|number| view.get(&number));
        let Some(path) = path else {
            let luns: Vec<u16> = view.keys().copied().collect();
            return Execution::Done(incorrect_lun::respond(&command, &self.target.identity, &luns));
        };
        start(path, &view, command, self.target.clock.now())
    }

    /// Performs a task management function. When it returns, tasks that it aborted will not take effect any more.
    /// Where the mapping is read-only only tasks of this nexus are aborted: what reaches others is rejected.
    pub fn manage(&self, lun: Lun, function: ManagementFunction) -> ManagementResponse {
        let view = self.view();
        if function == ManagementFunction::TargetReset {
            let mut reset = BTreeSet::new();
            let (own, shared): (Vec<_>, Vec<_>) = view.values().partition(|path| path.is_mapped_read_only());
            shared.into_iter().filter(|path| reset.insert(path.unit.id)).for_each(reset_unit);
            for path in own {
                path.abort_all(None);
            }
            return ManagementResponse::Complete;
        }
        let Some(path) = lun.number().and_then(|number| view.get(&number)) else {
            return ManagementResponse::IncorrectLun;
        };
        match function {
            ManagementFunction::AbortTask { tag } => path.abort(tag, None),
            ManagementFunction::AbortTaskSet => {
                path.abort_all(None);
            }
            ManagementFunction::ClearTaskSet | ManagementFunction::LogicalUnitReset
                if path.is_mapped_read_only() =>
            {
                return ManagementResponse::Rejected;
            }
            ManagementFunction::ClearTaskSet => clear_task_set(path),
            ManagementFunction::LogicalUnitReset | ManagementFunction::TargetReset => reset_unit(path),
        }
        ManagementResponse::Complete
    }

    /// The logical unit numbers that this nexus sees, in order.
    pub fn luns(&self) -> Vec<u16> {
        self.view().keys().copied().collect()
    }

    /// Block length of a logical unit that it sees.
    pub(crate) fn block_bytes(&self, lun: Lun) -> Option<u32> {
        let view = self.shared.view.read();
        view.get(&lun.number()?).map(|path| path.unit.block_bytes)
    }

    fn view(&self) -> Arc<View> {
        self.shared.view.read().clone()
    }
}

impl Drop for Nexus {
    fn drop(&mut self) {
        let mut registry = self.target.registry.lock();
        registry.nexuses.retain(|nexus| !std::ptr::eq(nexus.as_ptr(), Arc::as_ptr(&self.shared)));
        let view = std::mem::take(&mut *self.shared.view.write());
        drop(registry);
        view.values().for_each(|path| path.close(None));
    }
}

/// A command's way through its unit: find the row, take a place in the order, pay, check, handle.
fn start(path: &Arc<Path>, view: &Arc<View>, command: Command, began: u64) -> Execution {
    let Command { tag, attribute, direction, data_out: data, .. } = command;
    let cdb = Cdb::new(command.cdb);
    let Some(row) = opcode::find(&cdb) else {
        return Execution::Done(refuse(path, &cdb, began));
    };
    let info = info(path, row, &cdb, &data, began);
    if attribute == TaskAttribute::Aca {
        return Execution::Done(path.respond(Err(Code::INVALID_MESSAGE.into()), &info));
    }
    let (pass, flags) = path.enter(row.class.with(attribute));
    // Held while a command that changes something begins: an abort then sees it whole or not at all.
    let changes = matches!(row.access, Access::Write | Access::Own);
    let tasks = changes.then(|| path.tasks());
    if path.is_closed() {
        return Execution::Done(path.respond(Err(Code::UNIT_NOT_SUPPORTED.into()), &info));
    }
    let admission = if flags.limited() { path.admission(row, &cdb, &data, attribute) } else { None };
    if admission.is_some() || !pass.may_dispatch() {
        drop(tasks);
        return queue(path, view, tag, info, Queued { row, cdb, direction, data, pass, admission });
    }
    let flow = match begin(path, view, row, &cdb, (direction, data), flags) {
        Ok(flow) => flow,
        Err(fault) => return Execution::Done(path.respond(Err(fault), &info)),
    };
    match flow {
        Flow::Done(answer) => Execution::Done(path.respond(Ok(answer), &info)),
        Flow::Disk(Pending::Ready(Some(result))) => {
            let end = crate::command::finish(result);
            Execution::Done(path.respond(end, &info))
        }
        flow => {
            let task = Task::new(tag, path.clone(), flow, Some(pass), info);
            let mut tasks = tasks.unwrap_or_else(|| path.tasks());
            enlist(path, &mut tasks, task)
        }
    }
}

fn info(path: &Path, row: &Row, cdb: &Cdb, data: &Data, began: u64) -> CommandInfo {
    let block_bytes = path.unit.block_bytes;
    CommandInfo {
        operation: row.operation,
        bytes: row.amount(cdb, data, block_bytes),
        began,
        data_out_wanted: row.data_out(cdb, block_bytes),
        allocation: row.allocation(cdb),
    }
}

/// A command that has to wait before it may begin.
struct Queued {
    row: &'static Row,
    cdb: Cdb,
    direction: Direction,
    data: Data,
    pass: TaskSetEntry,
    admission: Option<Admission>,
}

/// Lets a command wait for its turn, and for what the limits of its unit allow: the checks are made then. Meanwhile
/// it is a task like every other.
fn queue(path: &Arc<Path>, view: &Arc<View>, tag: u64, info: CommandInfo, queued: Queued) -> Execution {
    let (own_path, own_view) = (path.clone(), view.clone());
    let work = Flow::later(async move {
        let Queued { row, cdb, direction, data, pass, admission } = queued;
        std::future::poll_fn(|context| pass.poll_dispatch(context)).await;
        if let Some(mut admission) = admission {
            std::future::poll_fn(|context| admission.poll(context)).await;
        }
        let mut flow = begin(&own_path, &own_view, row, &cdb, (direction, data), pass.flags())?;
        std::future::poll_fn(|context| flow.poll(context)).await
    });
    let task = Task::new(tag, path.clone(), work, None, info);
    enlist(path, &mut path.tasks(), task)
}

/// Enters a task in the task set of its path.
fn enlist(path: &Arc<Path>, tasks: &mut BTreeMap<u64, Arc<Task>>, task: Arc<Task>) -> Execution {
    if tasks.contains_key(&task.tag) {
        task.abort(None);
        return Execution::Done(path.refuse(Code::OVERLAPPED.into(), path.unit.clock.now()));
    }
    tasks.insert(task.tag, task.clone());
    Execution::Task(Box::pin(Running::new(task)))
}

/// The checks that every command goes through, in the order of their precedence, and then its handler.
fn begin(
    path: &Arc<Path>,
    view: &Arc<View>,
    row: &'static Row,
    cdb: &Cdb,
    (direction, mut data): (Direction, Data),
    flags: Flags,
) -> Result<Flow, Fault> {
    if !flags.plain() {
        check_unusual(path, row, cdb, flags)?;
    }
    if cdb.bytes().len() < row.usage.len() {
        return Err(Code::INVALID_FIELD_IN_CDB.into());
    }
    if let Some((byte, bit)) = row.stray_bit(cdb) {
        return Err(Fault::cdb_bit(byte, bit));
    }
    let wanted = row.data_out(cdb, path.unit.block_bytes);
    let given = data.len() as u64;
    if given > wanted && row.exact() {
        return Err(Code::INVALID_FIELD_IN_CDB.into());
    }
    // Less than the CDB asks for is taken only from who announced it: whoever announced none must not read GOOD.
    let takes_less = row.takes_less() && direction == Direction::Out;
    if given < wanted && !takes_less {
        return Err(Code::SHORT_DATA.into());
    }
    data.truncate(wanted as usize);
    let flow = (row.handler)(Request { path, peers: view, row, cdb, data });
    if let Err(fault) = &flow {
        tracing::debug!(command = row.name, lun = path.lun, ?fault, "refused");
    }
    flow
}

/// The checks of a path that is not plain: unit attentions, reservations, write protection.
fn check_unusual(path: &Arc<Path>, row: &Row, cdb: &Cdb, flags: Flags) -> Result<(), Fault> {
    let told = flags.unit_attention() && row.access != Access::Open;
    if let Some(sense) = told.then(|| path.take_unit_attention()).flatten() {
        return Err(sense.into());
    }
    if flags.reserved() && path.unit.lock().reservations.refuses(path, row, cdb) {
        return Err(Fault::CONFLICT);
    }
    match flags.protected().then(|| path.protection(row.effect)).flatten() {
        Some(code) => Err(code.into()),
        None => Ok(()),
    }
}

/// The answer to a CDB that is no command here.
fn refuse(path: &Path, cdb: &Cdb, began: u64) -> Response {
    let fault = path.take_unit_attention().map_or_else(|| unknown(cdb), Fault::from);
    path.refuse(fault, began)
}

/// INVALID COMMAND OPERATION CODE, or INVALID FIELD IN CDB at a service action that is not there.
pub(crate) fn unknown(cdb: &Cdb) -> Fault {
    if opcode::known(cdb.u8(0)) { Fault::cdb_bit(1, 4) } else { Code::INVALID_OPCODE.into() }
}

/// CLEAR TASK SET: every task of the unit, whoever sent it.
fn clear_task_set(path: &Arc<Path>) {
    let (paths, status) = {
        let core = path.unit.lock();
        (core.paths.clone(), core.pages.current().aborted_status())
    };
    for other in &paths {
        let own = other.same_nexus(path);
        let aborted = other.abort_all(if own { None } else { status });
        // With TAS the other initiators learn by TASK ABORTED, else by a unit attention (SAM-5 5.14.4).
        if aborted > 0 && !own && status.is_none() {
            other.raise_unit_attention(Code::COMMANDS_CLEARED.into());
        }
    }
}

/// LOGICAL UNIT RESET (SAM-5 6.3.3): no task, no SCSI-2 reservation, mode pages as saved, and everyone is told.
fn reset_unit(path: &Arc<Path>) {
    let unit = &path.unit;
    let (paths, status) = {
        let core = unit.lock();
        (core.paths.clone(), core.pages.current().aborted_status())
    };
    for other in &paths {
        other.abort_all(if other.same_nexus(path) { None } else { status });
    }
    let mut core = unit.lock();
    core.reservations.reset();
    core.pages.reset();
    unit.descriptor_sense.store(core.pages.current().descriptor_sense, Ordering::Relaxed);
    core.refresh();
    core.raise_unit_attention(Code::BUS_DEVICE_RESET, |_| true);
}
