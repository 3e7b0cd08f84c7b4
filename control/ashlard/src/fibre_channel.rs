//! Fibre Channel: the devices of TCMU that hosts with WWPNs need, as the mappings of hosts want them.
//!
//! A thread of its own makes and removes devices, since the kernel waits for commands in these calls. Their rings are
//! served by the threads of connections. When the process ends the devices stay: commands wait in their rings until
//! it is started again.

pub mod left_behind;

use anyhow::{Context, Result, anyhow};
use array::{FibreChannel, FibreChannelDevice, FibreChannelLink, FibreChannelNexus};
use block::DiskId;
use export::reservation::Change;
use export::{
    Event, Exports, FrontEnd, InitiatorPort, NexusName, Registry, Sleep, Touched, parse_wwpn, shown_wwpn,
};
use machine::threads::{self, Worker};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tcmu::uio::Uio;
use tcmu::{Configfs, Counters, Device, DeviceMemory, DeviceName, Fabric, Plan, PortLink, Ring, TargetPort};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use transport::Budget;

/// Where the kernel's target core is set up.
pub const CONFIGFS: &str = "/sys/kernel/config";
/// Where the memory of devices is found.
pub const SYSTEM: &str = "/sys";
pub const DEVICES: &str = "/dev";
/// When devices are looked at again without a change of mappings: one may have failed, or another process may have let go.
const INTERVAL: Duration = Duration::from_secs(5);

/// A target port of the command line: a WWPN, and what it belongs to.
///
/// # Errors
/// What to write.
pub fn target_port(text: &str) -> Result<TargetPort, String> {
    let (wwpn, fabric) = text.split_once('@').unwrap_or((text, Fabric::Qlogic.name()));
    let names = || Fabric::all().map(Fabric::name).join(", ");
    let fabric = Fabric::named(fabric).ok_or_else(|| format!("no fabric {fabric}; there are {}", names()))?;
    let wwpn = parse_wwpn(wwpn).ok_or("write a WWPN such as 21:00:00:24:ff:00:00:01, or WWPN@FABRIC")?;
    Ok(TargetPort { fabric, wwpn })
}

/// What the service needs of the array.
pub struct Parts {
    /// Serial number of the array.
    pub serial: String,
    /// Volumes and mappings.
    pub exports: Arc<Exports>,
    /// The SCSI target.
    pub target: Arc<scsi::Target>,
    /// Memory of all hosts.
    pub budget: Arc<Budget>,
    /// The relative identifiers of `ports`.
    pub numbers: Vec<u16>,
    /// The target ports.
    pub ports: Vec<TargetPort>,
    /// The threads of connections.
    pub shards: Vec<Handle>,
    /// Where what there is is shown.
    pub sessions: Arc<Sessions>,
}

/// The nexuses that have devices, as the service has seen them last.
#[derive(Default)]
pub struct Sessions(Mutex<Vec<Seen>>);

/// A nexus with its devices.
struct Seen {
    /// Everything but the devices.
    nexus: FibreChannelNexus,
    /// With the counters of those that are served.
    devices: Vec<(DeviceName, Option<Arc<Counters>>)>,
}

impl FibreChannel for Sessions {
    fn nexuses(&self) -> Vec<FibreChannelNexus> {
        let device = |(name, counters): &(DeviceName, Option<Arc<Counters>>)| {
            let counts = counters.as_ref().map(|counters| counters.read()).unwrap_or_default();
            FibreChannelDevice {
                lun: name.lun,
                disk: DiskId(name.disk),
                is_served: counters.is_some(),
                commands: counts.commands,
                aborted: counts.aborted,
                refused: counts.refused,
            }
        };
        let nexus = |seen: &Seen| FibreChannelNexus {
            devices: seen.devices.iter().map(device).collect(),
            ..seen.nexus.clone()
        };
        self.0.lock().iter().map(nexus).collect()
    }
}

/// The service, while there are target ports.
pub struct Service {
    worker: Worker,
    devices: Arc<Devices>,
    _changes: Arc<Changes>,
}

/// Starts it.
///
/// # Errors
/// If the kernel lacks something; the text says what to load.
pub fn start(parts: Parts) -> Result<Service> {
    let core = Configfs::new(CONFIGFS, &parts.serial);
    core.open(&parts.ports).context("Fibre Channel can't be served")?;
    let names = parts.numbers.iter().copied().zip(parts.ports.iter().map(|port| port.wwpn));
    parts.target.set_n_port_names(names.collect());
    let (changes, changed) = watch::channel(());
    let changes = Arc::new(Changes(changes));
    let front_end: Arc<dyn FrontEnd> = changes.clone();
    parts.exports.add_front_end(Arc::downgrade(&front_end));
    let devices = Arc::new(Devices { core, parts, state: Mutex::default() });
    let worker = threads::worker("fc", threads::runtime()?, devices.clone().follow(changed))?;
    Ok(Service { worker, devices, _changes: changes })
}

impl Service {
    /// Responds to what was taken from the rings, within a time, and lets go of the devices. They stay.
    pub async fn stop(self, seconds: u16) {
        self.worker.stop();
        let served = std::mem::take(&mut self.devices.state.lock().served);
        let (stops, tasks): (Vec<_>, Vec<_>) = served.into_values().map(|it| (it.stop, it.task)).unzip();
        drop(stops);
        let ended = async {
            for task in tasks {
                // It has reported how it ended.
                let _ended = task.await;
            }
        };
        if timeout(Duration::from_secs(seconds.into()), ended).await.is_err() {
            tracing::warn!(
                "commands by Fibre Channel did not end in time: they get BUSY after the next start"
            );
        }
    }
}

/// Stops the service, if there is one.
pub async fn stop(service: Option<Service>, seconds: u16) {
    if let Some(service) = service {
        service.stop(seconds).await;
    }
}

/// Notices changes of mappings.
struct Changes(watch::Sender<()>);

impl FrontEnd for Changes {
    fn mappings_changed(&self, _: &Registry, touched: &Touched) {
        if !touched.numbers().is_empty() {
            self.0.send_replace(());
        }
    }

    fn limits_changed(&self, _: &Registry, _: &BTreeSet<DiskId>) {}

    fn reservations_changed(&self, _: DiskId, _: &NexusName, _: &Change) -> Sleep {
        Box::pin(std::future::ready(()))
    }

    fn notify(&self, _: DiskId, _: Event) {}
}

struct Devices {
    core: Configfs,
    parts: Parts,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    served: BTreeMap<DeviceName, Served>,
    /// Devices that their initiators see.
    exposed: BTreeSet<DeviceName>,
    /// Nexuses by initiator port and target port.
    nexuses: BTreeMap<(u64, u64), Arc<scsi::Nexus>>,
    /// What went wrong the last time.
    failures: BTreeSet<String>,
    /// Devices that were served so far.
    count: usize,
}

/// A device that is served; it stops when `stop` is dropped.
struct Served {
    counters: Arc<Counters>,
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Devices {
    /// Follows the mappings. Never returns.
    async fn follow(self: Arc<Self>, mut changed: watch::Receiver<()>) {
        loop {
            changed.borrow_and_update();
            self.reconcile();
            tokio::select! {
                // The sender lasts as long as the service.
                _ = changed.changed() => {}
                () = sleep(INTERVAL) => {}
            }
        }
    }

    /// Makes the devices those of the mappings. Whatever fails is tried again.
    fn reconcile(&self) {
        let ports: Vec<u64> = self.parts.ports.iter().map(|port| port.wwpn).collect();
        let plan = self.parts.exports.read(|registry| Plan::of(registry, &ports));
        let mut state = self.state.lock();
        let mut failures = BTreeSet::new();
        if plan.left_out > 0 {
            let limit = tcmu::MAX_DEVICES;
            failures.insert(format!("{} devices are more than {limit}, and are left out", plan.left_out));
        }
        if let Err(error) = self.change(&mut state, &plan, &mut failures) {
            failures.insert(format!("{error:#}"));
        }
        for failure in failures.difference(&state.failures) {
            tracing::error!("Fibre Channel: {failure}");
        }
        state.failures = failures;
        *self.parts.sessions.0.lock() = self.see(&state);
    }

    /// The nexuses as they are now.
    fn see(&self, state: &State) -> Vec<Seen> {
        let mut nexuses = BTreeMap::<(u64, u64), Vec<DeviceName>>::new();
        for name in &state.exposed {
            nexuses.entry((name.initiator, name.port)).or_default().push(*name);
        }
        let link = |port: &TargetPort| PortLink::read(Path::new(SYSTEM), port.wwpn).map(shown_link);
        let numbered = self.parts.ports.iter().zip(&self.parts.numbers);
        // The link is read once for all initiators of a port.
        let ports: BTreeMap<_, _> =
            numbered.map(|(port, number)| (port.wwpn, (port, *number, link(port)))).collect();
        let seen = |((initiator, wwpn), names): ((u64, u64), Vec<DeviceName>)| {
            let (port, portal, link) = ports.get(&wwpn)?.clone();
            let is_logged_in = names.iter().any(|name| self.core.is_logged_in(*port, name));
            let nexus = FibreChannelNexus {
                initiator: shown_wwpn(initiator),
                target_port: shown_wwpn(wwpn),
                portal,
                fabric: port.fabric.name().to_owned(),
                is_logged_in,
                devices: Vec::new(),
                link,
            };
            let counters = |name: &DeviceName| {
                let served = state.served.get(name).filter(|served| !served.task.is_finished());
                served.map(|served| served.counters.clone())
            };
            Some(Seen { nexus, devices: names.iter().map(|name| (*name, counters(name))).collect() })
        };
        nexuses.into_iter().filter_map(seen).collect()
    }

    fn change(&self, state: &mut State, plan: &Plan, failures: &mut BTreeSet<String>) -> Result<()> {
        let existing = self.core.devices()?;
        // Removing a device waits for its commands, so those of an earlier process are served first.
        for name in existing.iter().chain(plan.devices.keys()) {
            if let Err(error) = self.provide(state, plan, name) {
                failures.insert(format!("{error:#}"));
            }
        }
        for name in plan.superfluous(&existing) {
            if let Err(error) = self.remove(state, &name) {
                failures.insert(format!("{error:#}"));
            }
        }
        for name in plan.devices.keys().filter(|name| state.served.contains_key(name)) {
            let port = self.parts.ports.iter().find(|port| port.wwpn == name.port);
            if let Some(port) = port.filter(|_| !state.exposed.contains(name)) {
                match self.core.expose(*port, name) {
                    Ok(()) => drop(state.exposed.insert(*name)),
                    Err(error) => drop(failures.insert(error.to_string())),
                }
            }
        }
        Ok(())
    }

    /// Makes a device unless there is one, and serves it unless it is served.
    fn provide(&self, state: &mut State, plan: &Plan, name: &DeviceName) -> Result<()> {
        if state.served.get(name).is_some_and(|served| !served.task.is_finished()) {
            return Ok(());
        }
        state.served.remove(name);
        if let Some(wanted) = plan.devices.get(name) {
            self.core.create(name, *wanted)?;
        }
        let opened = Uio::open(Path::new(SYSTEM), Path::new(DEVICES), &self.core.uio_name(name));
        let uio = match opened {
            // It was never enabled, and is to be removed.
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound && !plan.devices.contains_key(name) =>
            {
                return Ok(());
            }
            opened => opened.with_context(|| format!("the memory of {name:?} can't be opened"))?,
        };
        // What an earlier process took of the ring may have taken effect or not: its initiators send it again.
        self.core.reset_ring(name)?;
        let ring = Ring::open(uio.area()).with_context(|| format!("the ring of {name:?} can't be used"))?;
        let host = InitiatorPort::FibreChannel { wwpn: name.initiator };
        let memory = DeviceMemory::open(self.parts.budget.clone(), &host.host_name())?;
        let nexus = self.nexus(state, name);
        let device = Device::new(ring, nexus, name.lun, memory);
        let counters = device.counters();
        let shard = self.parts.shards.get(state.count % self.parts.shards.len().max(1));
        let shard = shard.ok_or_else(|| anyhow!("there is no thread for connections"))?;
        state.count += 1;
        let (stop, stopped) = oneshot::channel::<()>();
        let name = *name;
        let task = shard.spawn(async move {
            let stopped = async { drop(stopped.await) };
            if let Err(error) = uio.serve(device, stopped).await {
                tracing::info!(%error, ?name, "a device is not served any more");
            }
        });
        state.served.insert(name, Served { counters, task, stop });
        Ok(())
    }

    /// The nexus of an initiator port with a target port.
    fn nexus(&self, state: &mut State, name: &DeviceName) -> Arc<scsi::Nexus> {
        let index = self.parts.ports.iter().position(|port| port.wwpn == name.port).unwrap_or(0);
        let number = self.parts.numbers.get(index).copied().unwrap_or(1);
        let attach = || {
            let initiator = InitiatorPort::FibreChannel { wwpn: name.initiator };
            Arc::new(self.parts.target.attach(initiator, number))
        };
        state.nexuses.entry((name.initiator, name.port)).or_insert_with(attach).clone()
    }

    fn remove(&self, state: &mut State, name: &DeviceName) -> Result<()> {
        for fabric in Fabric::all() {
            self.core.conceal(TargetPort { fabric, wwpn: name.port }, name)?;
        }
        state.exposed.remove(name);
        self.core.remove(name)?;
        if let Some(Served { task, stop, .. }) = state.served.remove(name) {
            drop(stop);
            task.abort();
        }
        let uses = |other: &DeviceName| (other.initiator, other.port) == (name.initiator, name.port);
        if !state.served.keys().any(uses) {
            state.nexuses.remove(&(name.initiator, name.port));
        }
        Ok(())
    }
}

fn shown_link(link: PortLink) -> FibreChannelLink {
    let PortLink { state, speed, link_failures, sync_losses, signal_losses, invalid_crcs } = link;
    FibreChannelLink { state, speed, link_failures, sync_losses, signal_losses, invalid_crcs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_port_is_a_wwpn_of_an_adapter_unless_another_fabric_is_named() {
        let wwpn = 0x2100_0024_FF00_0001;
        let parsed = |text| target_port(text).map(|port| (port.fabric, port.wwpn));
        assert_eq!(parsed("21:00:00:24:ff:00:00:01"), Ok((Fabric::Qlogic, wwpn)));
        assert_eq!(parsed("21000024ff000001@loopback"), Ok((Fabric::Loopback, wwpn)));
        let wrong = parsed("21000024ff000001@iscsi").unwrap_err();
        assert!(wrong.contains("qla2xxx, efct, fc, loopback"), "{wrong}");
        assert!(parsed("21000024ff00000@fc").unwrap_err().contains("WWPN"));
    }
}
