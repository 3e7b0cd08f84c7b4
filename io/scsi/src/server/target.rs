//! The SCSI target device: a front end of the exported volumes, with a logical unit for each of them and the paths of
//! each I_T nexus.

use crate::encoding::identity::TargetIdentity;
use crate::encoding::rods::Rods;
use crate::encoding::sense::Code;
use crate::encoding::task_set::Class;
use crate::encoding::volatile::Origin;
use crate::unit::gate;
use crate::unit::path::Path;
use crate::unit::reservation::Reservations;
use crate::unit::view::{Begin, Shared};
use crate::unit::{Unclaimed, Unit};
use crate::{InitiatorPort, Nexus, PortGroup, Status};
use crate::{commands::persistent_reserve, commands::provisioning};
use block::DiskId;
use export::reservation::Change;
use export::{Clock, Event, Exports, FrontEnd, NexusName, Power, Registry, Sleep, Touched};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A SCSI target device with its logical units.
pub struct Target {
    pub(crate) identity: Arc<TargetIdentity>,
    pub(crate) exports: Arc<Exports>,
    rods: Arc<Rods>,
    looked_at: AtomicU64,
    state: Mutex<State>,
}

/// Locked after the registry of the exports, if both are.
#[derive(Default)]
struct State {
    units: BTreeMap<DiskId, Arc<Unit>>,
    /// By host.
    nexuses: BTreeMap<Arc<str>, Vec<Arc<Shared>>>,
    /// Units without RESERVE and RELEASE of SCSI-2, whether they exist yet or not.
    without_simple_reservations: BTreeSet<DiskId>,
}

impl Target {
    /// A target with a unit for each exported volume. `token_key` seals ROD tokens: random bytes, and others in each
    /// process, as tokens end with it.
    pub fn new(identity: TargetIdentity, exports: Arc<Exports>, token_key: [u8; 32]) -> Arc<Target> {
        let rods = Arc::new(Rods::new(token_key, &identity.name));
        let (identity, looked_at) = (Arc::new(identity), AtomicU64::new(0));
        let target = Arc::new(Target { identity, exports, rods, looked_at, state: Mutex::default() });
        let front_end: Weak<Target> = Arc::downgrade(&target);
        target.exports.add_front_end(front_end);
        target
    }

    /// Replaces the target port groups. Hosts learn of a change by a unit attention.
    pub fn set_port_groups(&self, groups: Vec<PortGroup>) {
        if self.identity.ports.set(groups) {
            self.units()
                .iter()
                .for_each(|unit| unit.raise_unit_attention(Code::ACCESS_STATE_CHANGED, |_| true));
        }
    }

    /// Sets the N_Port names of Fibre Channel ports, by relative identifier. They are designators of the ports.
    pub fn set_n_port_names(&self, names: BTreeMap<u16, u64>) {
        self.identity.ports.set_n_port_names(names);
    }

    /// The target port groups.
    pub fn port_groups(&self) -> Arc<[PortGroup]> {
        self.identity.ports.all()
    }

    /// The I_T nexuses, by this controller and by others: the initiator port of each, and the relative identifier of the target
    /// port.
    pub fn nexuses(&self) -> Vec<(InitiatorPort, u16)> {
        let state = self.state.lock();
        let all = state.nexuses.values().flatten();
        all.map(|nexus| (nexus.nexus.initiator.clone(), nexus.nexus.target_port)).collect()
    }

    /// How many units and logical unit numbers of nexuses were looked at for changes of volumes, mappings and limits: what the
    /// changes cost.
    pub fn looked_at(&self) -> u64 {
        self.looked_at.load(Ordering::Relaxed)
    }

    fn count_looks(&self, looks: usize) {
        self.looked_at.fetch_add(looks as u64, Ordering::Relaxed);
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        self.exports.clock()
    }

    /// The hosts that see a unit which `host` may write to; `host` itself among them, unless it can write nowhere.
    pub fn hosts_sharing_with(&self, host: &str) -> BTreeSet<String> {
        self.exports.hosts_sharing_with(host)
    }

    /// Ends the ROD tokens that were not used for their inactivity timeout, and frees what they hold. Has to be called now
    /// and then, as nothing else does it while no tokens are used.
    pub fn expire_tokens(&self) {
        self.rods.expire(self.clock().now());
    }

    /// Sets whether RESERVE and RELEASE of SCSI-2 are commands of one unit; they are by default.
    pub fn set_simple_reservations(&self, id: DiskId, supported: bool) {
        let mut state = self.state.lock();
        state.without_simple_reservations.remove(&id);
        state.without_simple_reservations.extend((!supported).then_some(id));
        if let Some(unit) = state.units.get(&id) {
            unit.set_simple_reservations(supported);
        }
    }

    /// Begins an I_T nexus. `port` is the relative identifier of the target port that the initiator came in by.
    pub fn attach(self: &Arc<Target>, initiator: InitiatorPort, port: u16) -> Nexus {
        self.begin(NexusName { initiator, target_port: port }, None, Begin::New)
    }

    /// Begins an I_T nexus that comes by another controller. It may be resumed only if another home had it in the power-on whose
    /// number is known here ([`Target::power`]): what that home saved of it is in force then.
    pub fn attach_forwarded(
        self: &Arc<Target>,
        (initiator, port): (InitiatorPort, u16),
        origin: Origin,
        begin: Begin,
    ) -> Nexus {
        self.begin(NexusName { initiator, target_port: port }, Some(origin), begin)
    }

    fn begin(self: &Arc<Target>, name: NexusName, origin: Option<Origin>, begin: Begin) -> Nexus {
        let host: Arc<str> = name.initiator.host_name().into();
        let shared = Arc::new(Shared::new(name, host, origin));
        self.exports.read(|registry| {
            let mut state = self.state.lock();
            state.nexuses.entry(shared.host.clone()).or_default().push(shared.clone());
            let numbers: Vec<u16> = registry.mappings(&shared.host).map(|(number, _)| number).collect();
            state.refresh(&shared, registry, numbers, Why::Begin(begin));
        });
        Nexus::new(self.clone(), shared)
    }

    /// What is known of the target's power.
    pub fn power(&self) -> Power {
        self.exports.power()
    }

    /// Another controller knows the number of the power-on; or none does, and power was lost.
    pub fn resolve_power(&self, known: Option<u64>) {
        self.exports.resolve_power(known);
        // What this process has saved bears another number.
        self.units().iter().for_each(|unit| unit.set_changed(true));
    }

    /// The front ends that may resume nexuses of which a former home saved something.
    pub fn unclaimed_fronts(&self) -> BTreeSet<u64> {
        self.units().iter().flat_map(|unit| unit.unclaimed_fronts()).collect()
    }

    /// A front end resumes no nexus any more: those that it has not resumed are lost.
    pub fn release_unclaimed(&self, front: u64) {
        let units = self.units();
        let units = units.iter().filter(|unit| unit.unclaimed_fronts().contains(&front));
        units.for_each(|unit| unit.release_unclaimed(front));
    }

    /// Saves what has changed without a command that waits for it. Has to be called several times a second where a takeover may
    /// come.
    ///
    /// # Errors
    /// That of a disk; it is tried again by the next call.
    pub async fn save_volatile(&self) -> block::Result<()> {
        for unit in self.units() {
            unit.save_volatile().await?;
        }
        Ok(())
    }

    fn units(&self) -> Vec<Arc<Unit>> {
        self.state.lock().units.values().cloned().collect()
    }

    /// Ends an I_T nexus.
    pub(crate) fn detach(&self, shared: &Arc<Shared>) {
        let mut state = self.state.lock();
        if let Some(of_host) = state.nexuses.get_mut(&shared.host) {
            of_host.retain(|nexus| !Arc::ptr_eq(nexus, shared));
            if of_host.is_empty() {
                state.nexuses.remove(&shared.host);
            }
        }
        let view = std::mem::take(&mut *shared.view.write());
        drop(state);
        view.values().for_each(|path| path.close(None));
    }

    fn unit(&self, id: DiskId) -> Option<Arc<Unit>> {
        self.state.lock().units.get(&id).cloned()
    }
}

/// Why the view of a nexus is refreshed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Begin(Begin),
    /// Volumes or mappings have changed.
    Changed,
}

impl State {
    /// Makes the unit of a volume that of the exported volume, if it is one.
    fn refresh_unit(&mut self, id: DiskId, registry: &Registry, target: &Target) {
        let Some(volume) = registry.volume(id) else {
            self.units.remove(&id);
            self.without_simple_reservations.remove(&id);
            return;
        };
        if self.units.get(&id).is_some_and(|unit| Arc::ptr_eq(&unit.volume, volume)) {
            return;
        }
        let unit =
            Unit::new(volume.clone(), target.identity.clone(), target.exports.clone(), target.rods.clone());
        unit.set_simple_reservations(!self.without_simple_reservations.contains(&id));
        self.units.insert(id, unit);
    }

    /// Makes what a nexus sees under these logical unit numbers that of its host's mappings: paths that stay are kept, the
    /// others closed. Returns the number of paths on which the change was established as a unit attention condition besides
    /// those that were opened.
    fn refresh(
        &self,
        shared: &Shared,
        registry: &Registry,
        numbers: impl IntoIterator<Item = u16>,
        why: Why,
    ) -> usize {
        let old = shared.view.read().clone();
        let begin = if let Why::Begin(begin) = why { begin } else { Begin::New };
        let (mut opened, mut gone) = (Vec::new(), Vec::new());
        for lun in numbers {
            let mapping = registry.mapping(&shared.host, lun);
            let wanted = mapping.and_then(|it| Some((self.units.get(&it.disk)?, it.read_only)));
            let path = old.get(&lun);
            match (wanted, path) {
                (Some((unit, read_only)), Some(path)) if Arc::ptr_eq(&path.unit, unit) => {
                    path.set_read_only(read_only);
                    continue;
                }
                (Some((unit, read_only)), _) => {
                    let path = Path::open(unit.clone(), shared, (lun, read_only), begin);
                    let before = shared.named.lock().insert(lun, unit.id);
                    path.gate.set(gate::REPLACED, before.is_some_and(|before| before != unit.id));
                    opened.push(path);
                }
                (None, _) => {}
            }
            gone.extend(path.cloned());
        }
        drop(old);
        if opened.is_empty() && gone.is_empty() {
            return 0;
        }
        let new = {
            let mut view = shared.view.write();
            // Copied only if a command has it.
            let paths = Arc::make_mut(&mut view);
            gone.iter().for_each(|path| drop(paths.remove(&path.lun)));
            paths.extend(opened.iter().map(|path| (path.lun, path.clone())));
            view.clone()
        };
        gone.iter().for_each(|path| path.close(Some(Status::TaskAborted)));
        if why != Why::Changed {
            return 0;
        }
        let raise = |path: &Arc<Path>| path.raise_unit_attention(Code::LUNS_CHANGED.into());
        // A host that has not learnt of the last change learns of this one with it.
        if shared.luns_changed.swap(true, Ordering::AcqRel) {
            opened.iter().for_each(raise);
            return 0;
        }
        new.values().for_each(raise);
        new.len() - opened.len()
    }
}

/// Every change takes effect at once on every nexus of the hosts that it touches.
impl FrontEnd for Target {
    fn mappings_changed(&self, registry: &Registry, touched: &Touched) {
        let mut state = self.state.lock();
        touched.volumes().iter().for_each(|id| state.refresh_unit(*id, registry, self));
        self.count_looks(touched.volumes().len());
        for (host, numbers) in touched.numbers() {
            for nexus in state.nexuses.get(host).into_iter().flatten() {
                let others = state.refresh(nexus, registry, numbers.iter().copied(), Why::Changed);
                self.count_looks(numbers.len() + others);
            }
        }
        drop(state);
        let is_touched = |host: &str| touched.numbers().contains_key(host);
        if !touched.numbers().is_empty() {
            self.rods.revoke(|host, disk| {
                let sees = || registry.mapped_to(disk).any(|(other, _)| **other == *host);
                !is_touched(host) || registry.volume(disk).is_some() && sees()
            });
        }
    }

    fn limits_changed(&self, _: &Registry, volumes: &BTreeSet<DiskId>) {
        let state = self.state.lock();
        volumes.iter().filter_map(|id| state.units.get(id)).for_each(|unit| unit.lock().refresh());
        self.count_looks(volumes.len());
    }

    fn reservations_changed(&self, volume: DiskId, sender: &NexusName, change: &Change) -> Sleep {
        let Some(unit) = self.unit(volume) else { return Box::pin(std::future::ready(())) };
        let core = unit.lock();
        persistent_reserve::apply(&core, change);
        // A SCSI command changes registrations as the only task of the unit. For others the tasks end that have begun.
        let path =
            matches!(sender.initiator, InitiatorPort::Nvme { .. }).then(|| core.paths.first()).flatten();
        let path = path.cloned();
        drop(core);
        Box::pin(async move {
            if let Some(path) = path {
                let (entry, _) = path.enter_task_set(Class::Change);
                std::future::poll_fn(|context| entry.poll_dispatch(context)).await;
            }
        })
    }

    fn notify(&self, volume: DiskId, event: Event) {
        let Some(unit) = self.unit(volume) else { return };
        match event {
            Event::CapacityChanged => unit.raise_unit_attention(Code::CAPACITY_CHANGED, |_| true),
            Event::ContentReplaced => unit.raise_unit_attention(Code::MEDIUM_MAY_HAVE_CHANGED, |_| true),
            Event::ThresholdCrossed => {
                let core = unit.lock();
                if let Some(path) = core.paths.first() {
                    provisioning::raise_threshold_crossed(&core, path);
                }
            }
            Event::StateCleared => {
                let mut core = unit.lock();
                core.reservations = Reservations::default();
                core.refresh();
                core.raise_unit_attention(Code::RESERVATIONS_PREEMPTED, |_| true);
            }
            Event::PowerLost => {
                let mut core = unit.lock();
                (core.reservations, core.unclaimed) = (Reservations::default(), Unclaimed::default());
                core.pages.reset();
                unit.descriptor_sense.store(core.pages.current().descriptor_sense, Ordering::Relaxed);
                core.refresh();
                core.raise_unit_attention(Code::POWER_ON, |_| true);
                drop(core);
                unit.wake_queued();
            }
        }
    }
}
