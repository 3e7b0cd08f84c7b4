//! The device server's spine: units, what each initiator sees of them, and a command's way from its CDB to its
//! handler.

use crate::cdb::Cdb;
use crate::command::{Flow, Request};
use crate::opcode::{self, Access, Row};
use crate::sense::{Code, Fault};
use crate::task::{Running, Task};
use crate::unit::{Flags, Pass, Path, Unit};
use crate::{
    Attribute, Command, Execution, InitiatorPort, Lun, ManagementFunction, ManagementResponse, Response,
    Status, absent, thin,
};
use block::{Data, Disk, DiskId, Pending};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// What the target says about itself.
#[derive(Clone, Debug)]
pub struct Identity {
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

/// What one nexus sees: paths by logical unit number.
pub(crate) type View = BTreeMap<u16, Arc<Path>>;

/// A SCSI target device with its logical units.
pub struct Target {
    identity: Arc<Identity>,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    units: BTreeMap<DiskId, Arc<Unit>>,
    views: BTreeMap<String, BTreeMap<u16, DiskId>>,
    nexuses: Vec<Weak<Shared>>,
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
    /// A target without units.
    pub fn new(identity: Identity) -> Arc<Target> {
        Arc::new(Target { identity: Arc::new(identity), registry: Mutex::default() })
    }

    /// Adds a logical unit; views that name its disk show it from now on. Replaces a unit of the same disk.
    pub fn add_unit(&self, config: UnitConfig) {
        let unit = Unit::new(config.disk, self.identity.clone());
        self.change(|registry| {
            registry.units.insert(unit.id, unit);
        });
    }

    /// Takes a logical unit away. Its tasks end as aborted; to its initiators it does not exist any more.
    pub fn remove_unit(&self, id: DiskId) {
        self.change(|registry| {
            registry.units.remove(&id);
        });
    }

    /// Tells the initiators of a unit that its capacity is another (2A/09).
    pub fn capacity_changed(&self, id: DiskId) {
        let unit = self.registry.lock().units.get(&id).cloned();
        if let Some(unit) = unit {
            unit.attend(Code::CAPACITY_CHANGED, |_| true);
        }
    }

    /// Tells the initiators of a unit that space becomes scarce (38/07): one of them or all, as the unit's mode page
    /// has it.
    pub fn space_becomes_scarce(&self, id: DiskId) {
        let unit = self.registry.lock().units.get(&id).cloned();
        if let Some(unit) = unit {
            let core = unit.lock();
            if let Some(path) = core.paths.first() {
                thin::tell(&core, path);
            }
        }
    }

    /// Sets what an initiator sees: disks by logical unit number, numbers below 16384. Takes effect at once on every
    /// nexus of the initiator, which learns by 3F/0E. Disks without a unit are not shown until they get one.
    pub fn set_view(&self, initiator: &str, view: BTreeMap<u16, DiskId>) {
        self.change(|registry| {
            registry.views.insert(initiator.to_owned(), view);
        });
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
        let wanted = wanted.into_iter().flatten().filter_map(|(lun, id)| Some((*lun, self.units.get(id)?)));
        let old = shared.view.read().clone();
        let mut new = View::new();
        for (lun, unit) in wanted {
            let kept = old.get(&lun).filter(|path| Arc::ptr_eq(&path.unit, unit)).cloned();
            let path =
                kept.unwrap_or_else(|| Path::open(unit.clone(), shared.initiator.clone(), shared.port, lun));
            new.insert(lun, path);
        }
        let new = Arc::new(new);
        *shared.view.write() = new.clone();
        let stays = |path: &Arc<Path>| new.get(&path.lun).is_some_and(|kept| Arc::ptr_eq(kept, path));
        let gone: Vec<_> = old.values().filter(|path| !stays(path)).collect();
        gone.iter().for_each(|path| path.close(Some(Status::TaskAborted)));
        let changed = !gone.is_empty() || new.len() != old.len();
        if announce && changed {
            new.values().for_each(|path| path.attend(Code::LUNS_CHANGED.into()));
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
            return Execution::Done(absent::respond(&command, &self.target.identity, &luns));
        };
        start(path, &view, command)
    }

    /// Performs a task management function. When it returns, tasks that it aborted will not take effect any more.
    pub fn manage(&self, lun: Lun, function: ManagementFunction) -> ManagementResponse {
        let view = self.view();
        if function == ManagementFunction::TargetReset {
            let mut reset = BTreeSet::new();
            view.values().filter(|path| reset.insert(path.unit.id)).for_each(reset_unit);
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
            ManagementFunction::ClearTaskSet => clear_task_set(path),
            ManagementFunction::LogicalUnitReset | ManagementFunction::TargetReset => reset_unit(path),
        }
        ManagementResponse::Complete
    }

    /// The logical unit numbers that this nexus sees, in order.
    pub fn luns(&self) -> Vec<u16> {
        self.view().keys().copied().collect()
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

/// A command's way through its unit: find the row, take a place in the order, check, handle.
fn start(path: &Arc<Path>, view: &Arc<View>, command: Command) -> Execution {
    let cdb = Cdb::new(command.cdb);
    let Some(row) = opcode::find(&cdb) else {
        return Execution::Done(refuse(path, &cdb));
    };
    if command.attribute == Attribute::Aca {
        return Execution::Done(path.respond(Err(Code::INVALID_MESSAGE.into()), 0, None));
    }
    let wanted = row.data_out(&cdb, path.unit.block_bytes);
    let allocation = row.allocation(&cdb);
    let (pass, flags) = path.enter(row.class.with(command.attribute));
    // Held while a command that changes something begins: an abort then sees it whole or not at all.
    let changes = matches!(row.access, Access::Write | Access::Medium | Access::Own);
    let tasks = changes.then(|| path.tasks());
    if path.is_closed() {
        return Execution::Done(path.respond(Err(Code::UNIT_NOT_SUPPORTED.into()), wanted, allocation));
    }
    let flow = match pass.has_turn() {
        true => match begin(path, view, row, &cdb, command.data_out, flags) {
            Ok(flow) => flow,
            Err(fault) => return Execution::Done(path.respond(Err(fault), wanted, allocation)),
        },
        false => {
            drop(tasks);
            return queue(path, view, row, cdb, command.tag, command.data_out, pass);
        }
    };
    match flow {
        Flow::Done(answer) => Execution::Done(path.respond(Ok(answer), wanted, allocation)),
        Flow::Disk(Pending::Ready(Some(result))) => {
            let end = crate::command::finish(result);
            Execution::Done(path.respond(end, wanted, allocation))
        }
        flow => {
            let task = Task::new(command.tag, path.clone(), flow, Some(pass), wanted, allocation);
            let mut tasks = tasks.unwrap_or_else(|| path.tasks());
            enlist(path, &mut tasks, task)
        }
    }
}

/// A command that has to wait for its turn: the checks are made when it comes.
fn queue(
    path: &Arc<Path>,
    view: &Arc<View>,
    row: &'static Row,
    cdb: Cdb,
    tag: u64,
    data: Data,
    pass: Pass,
) -> Execution {
    let wanted = row.data_out(&cdb, path.unit.block_bytes);
    let allocation = row.allocation(&cdb);
    let (own_path, own_view) = (path.clone(), view.clone());
    let work = Flow::later(async move {
        std::future::poll_fn(|context| pass.poll_turn(context)).await;
        let mut flow = begin(&own_path, &own_view, row, &cdb, data, pass.flags())?;
        std::future::poll_fn(|context| flow.poll(context)).await
    });
    let task = Task::new(tag, path.clone(), work, None, wanted, allocation);
    enlist(path, &mut path.tasks(), task)
}

/// Enters a task in the task set of its path.
fn enlist(path: &Arc<Path>, tasks: &mut BTreeMap<u64, Arc<Task>>, task: Arc<Task>) -> Execution {
    if tasks.contains_key(&task.tag) {
        task.abort(None);
        return Execution::Done(path.respond(Err(Code::OVERLAPPED.into()), 0, None));
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
    mut data: Data,
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
    if given < wanted && !row.takes_less() {
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
    let told = flags.attention() && row.access != Access::Open;
    if let Some(sense) = told.then(|| path.take_attention()).flatten() {
        return Err(sense.into());
    }
    if flags.reserved() && path.unit.lock().reservations.refuses(path, row, cdb) {
        return Err(Fault::CONFLICT);
    }
    if flags.protected() && row.access == Access::Medium {
        return Err(Code::SOFTWARE_PROTECTED.into());
    }
    Ok(())
}

/// The answer to a CDB that is no command here.
fn refuse(path: &Path, cdb: &Cdb) -> Response {
    if let Some(sense) = path.take_attention() {
        return path.respond(Err(sense.into()), 0, None);
    }
    path.respond(Err(unknown(cdb)), 0, None)
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
            other.attend(Code::COMMANDS_CLEARED.into());
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
    core.attend(Code::BUS_DEVICE_RESET, |_| true);
}
