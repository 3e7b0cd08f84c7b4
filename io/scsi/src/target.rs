//! The SCSI target device: a front end of the exported volumes, with a logical unit for each of them and the paths of
//! each I_T nexus.

use crate::gate;
use crate::nexus::{Begin, Shared, View};
use crate::path::Path;
use crate::reservation::Reservations;
use crate::rod::Rods;
use crate::sense::Code;
use crate::task_set::Class;
use crate::unit::{Unclaimed, Unit};
use crate::volatile::Origin;
use crate::{InitiatorPort, Nexus, PortGroup, PortGroups, Status};
use crate::{persistent_reserve, provisioning};
use block::DiskId;
use export::reservation::Change;
use export::{Clock, Event, Exports, FrontEnd, Mapping, NexusName, Power, Registry, Sleep};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Names by which the target identifies itself.
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
    /// The target ports, in groups.
    pub ports: PortGroups,
}

/// A SCSI target device with its logical units.
pub struct Target {
    pub(crate) identity: Arc<TargetIdentity>,
    pub(crate) exports: Arc<Exports>,
    rods: Arc<Rods>,
    state: Mutex<State>,
}

/// Locked after the registry of the exports, if both are.
#[derive(Default)]
struct State {
    units: BTreeMap<DiskId, Arc<Unit>>,
    nexuses: Vec<Weak<Shared>>,
    /// Units without RESERVE and RELEASE of SCSI-2, whether they exist yet or not.
    without_simple_reservations: BTreeSet<DiskId>,
}

impl Target {
    /// A target with a unit for each exported volume. `token_key` seals ROD tokens: random bytes, and others in each
    /// process, as tokens end with it.
    pub fn new(identity: TargetIdentity, exports: Arc<Exports>, token_key: [u8; 32]) -> Arc<Target> {
        let rods = Arc::new(Rods::new(token_key, &identity.name));
        let target =
            Arc::new(Target { identity: Arc::new(identity), exports, rods, state: Mutex::default() });
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
        let alive: Vec<Arc<Shared>> = self.state.lock().nexuses.iter().filter_map(Weak::upgrade).collect();
        alive.iter().map(|nexus| (nexus.nexus.initiator.clone(), nexus.nexus.target_port)).collect()
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
            state.nexuses.push(Arc::downgrade(&shared));
            state.rebuild(&shared, registry, Rebuild::Begin(begin));
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
        state.nexuses.retain(|nexus| !std::ptr::eq(nexus.as_ptr(), Arc::as_ptr(shared)));
        let view = std::mem::take(&mut *shared.view.write());
        drop(state);
        view.values().for_each(|path| path.close(None));
    }

    fn unit(&self, id: DiskId) -> Option<Arc<Unit>> {
        self.state.lock().units.get(&id).cloned()
    }
}

/// Why the view of a nexus is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rebuild {
    Begin(Begin),
    /// Volumes or mappings have changed.
    Changed,
}

impl State {
    /// Makes the units those of the exported volumes.
    fn rebuild_units(&mut self, registry: &Registry, target: &Target) {
        let Self { units, without_simple_reservations, .. } = self;
        units.retain(|id, _| {
            let exported = registry.volume(*id).is_some();
            if !exported {
                without_simple_reservations.remove(id);
            }
            exported
        });
        for volume in registry.volumes() {
            let known = units.get(&volume.id());
            if known.is_some_and(|unit| Arc::ptr_eq(&unit.volume, volume)) {
                continue;
            }
            let unit = Unit::new(
                volume.clone(),
                target.identity.clone(),
                target.exports.clone(),
                target.rods.clone(),
            );
            unit.set_simple_reservations(!without_simple_reservations.contains(&unit.id));
            units.insert(unit.id, unit);
        }
    }

    /// Makes the view of a nexus that of its host's mappings: paths that stay are kept, the others closed.
    fn rebuild(&self, shared: &Shared, registry: &Registry, why: Rebuild) {
        let old = shared.view.read().clone();
        let mut new = View::new();
        for (lun, Mapping { disk, read_only, .. }) in registry.mappings(&shared.host) {
            let Some(unit) = self.units.get(&disk) else { continue };
            let kept = old.get(&lun).filter(|path| Arc::ptr_eq(&path.unit, unit)).cloned();
            if let Some(path) = &kept {
                path.set_read_only(read_only);
            }
            let begin = if let Rebuild::Begin(begin) = why { begin } else { Begin::New };
            let open = || {
                let path = Path::open(unit.clone(), shared, (lun, read_only), begin);
                let before = shared.named.lock().insert(lun, unit.id);
                path.gate.set(gate::REPLACED, before.is_some_and(|before| before != unit.id));
                path
            };
            new.insert(lun, kept.unwrap_or_else(open));
        }
        let new = Arc::new(new);
        *shared.view.write() = new.clone();
        let stays = |path: &Arc<Path>| new.get(&path.lun).is_some_and(|kept| Arc::ptr_eq(kept, path));
        let gone: Vec<_> = old.values().filter(|path| !stays(path)).collect();
        gone.iter().for_each(|path| path.close(Some(Status::TaskAborted)));
        let changed = !gone.is_empty() || new.len() != old.len();
        if why == Rebuild::Changed && changed {
            new.values().for_each(|path| path.raise_unit_attention(Code::LUNS_CHANGED.into()));
        }
    }
}

/// Every change takes effect at once on every nexus.
impl FrontEnd for Target {
    fn mappings_changed(&self, registry: &Registry) {
        let mut state = self.state.lock();
        state.rebuild_units(registry, self);
        state.nexuses.retain(|nexus| nexus.strong_count() > 0);
        let nexuses: Vec<_> = state.nexuses.iter().filter_map(Weak::upgrade).collect();
        nexuses.iter().for_each(|nexus| state.rebuild(nexus, registry, Rebuild::Changed));
        self.rods.revoke(|host, disk| {
            registry.volume(disk).is_some()
                && registry.mappings(host).any(|(_, mapping)| mapping.disk == disk)
        });
    }

    fn limits_changed(&self, _: &Registry) {
        self.state.lock().units.values().for_each(|unit| unit.lock().refresh());
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
