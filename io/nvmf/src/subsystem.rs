//! The NVM subsystem: a front end of the exported volumes, with the controllers of all hosts, and what each host sees.
//!
//! There is one subsystem. A volume that is mapped to a host under number *n* is namespace *n* + 1 of all controllers of that
//! host, and of no other: namespace identifiers start at one, mappings at zero.

use crate::authentication::Credentials;
use crate::controller::{Controller, Port, Start};
use crate::event::{EventKind, ReservationNotice};
use crate::namespaces::{ViewChange, Wanted};
use crate::observer::{ConnectObserver, RefusedConnect};
use crate::path::Path;
use crate::psk::{PskIdentity, TlsPsk};
use crate::spec::{DISCOVERY_NQN, DISCOVERY_PORT, MAX_NAMESPACES};
use crate::status::Status;
use block::DiskId;
use export::reservation::{Change, Notice};
use export::{Event, Exports, FrontEnd, InitiatorPort, NexusName, Registry, Sleep, Touched};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use tokio::sync::mpsc::UnboundedSender;
use transport::{ConnectionLog, Control, DownPortals, Portal, PreSharedKey, PreSharedKeys};

/// The controller identifier of a registrant without a controller, or with several (Base figure 414).
const ANY_CONTROLLER: u16 = 0xFFFF;
/// The largest controller identifier (Base 3.1.3.3): higher ones have a meaning of their own.
const MAX_CONTROLLER_ID: u16 = 0xFFEF;

/// The namespace identifier of a volume that is mapped under a number.
pub fn nsid(number: u16) -> u32 {
    u32::from(number) + 1
}

/// Names by which the subsystem identifies itself.
#[derive(Clone, Debug)]
pub struct SubsystemIdentity {
    /// NQN of the subsystem.
    pub nqn: String,
    /// Serial number, at most 20 ASCII characters.
    pub serial: String,
    /// Model number, at most 40 ASCII characters.
    pub model: String,
    /// Firmware revision, at most 8 ASCII characters.
    pub revision: String,
}

/// How a host authenticates. By default it is known by its NQN alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSecurity {
    /// By DH-HMAC-CHAP on each queue.
    pub dhchap: Option<Arc<Credentials>>,
    /// By TLS on each connection: it can't connect without.
    pub tls: Option<TlsPsk>,
}

/// A controller, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerInfo {
    /// NQN of the host.
    pub host: String,
    /// Controller identifier.
    pub id: u16,
    /// Number of the portal: the relative identifier of the target port.
    pub portal: u16,
    /// The host's address.
    pub peer: SocketAddr,
    /// Connected I/O queues.
    pub queues: usize,
}

/// The NVM subsystem.
pub struct Subsystem {
    pub(crate) identity: SubsystemIdentity,
    pub(crate) exports: Arc<Exports>,
    observer: OnceLock<Arc<dyn ConnectObserver>>,
    pub(crate) log: ConnectionLog,
    state: Mutex<State>,
}

/// Locked after the registry of the exports, if both are.
#[derive(Default)]
struct State {
    controllers: BTreeMap<u16, Arc<Controller>>,
    last_id: u16,
    /// The hosts that may connect, and how each authenticates.
    hosts: BTreeMap<String, HostSecurity>,
    /// By NQN, the number of how its host authenticates now, by which failures are counted.
    admissions: BTreeMap<String, u64>,
    last_admission: u64,
    portals: Vec<Portal>,
    /// Of these, those that do not listen yet.
    down: DownPortals,
    /// GENCTR of the discovery log page.
    generation: u64,
    /// Counts changes of the log page of asymmetric access.
    access_changes: u64,
}

impl Subsystem {
    /// A subsystem that no host may connect to yet.
    pub fn new(identity: SubsystemIdentity, exports: Arc<Exports>) -> Arc<Subsystem> {
        let (observer, state) = (OnceLock::new(), Mutex::default());
        let log = ConnectionLog::new(exports.clock());
        let subsystem = Arc::new(Subsystem { identity, exports, observer, log, state });
        let front_end: Weak<Subsystem> = Arc::downgrade(&subsystem);
        subsystem.exports.add_front_end(front_end);
        subsystem
    }

    /// Sets who is notified of connects, ends and refusals; only the first call has an effect.
    pub fn observe(&self, observer: Arc<dyn ConnectObserver>) {
        let _first = self.observer.set(observer);
    }

    /// A Connect was refused.
    pub(crate) fn refused(&self, refused: &RefusedConnect) {
        if let Some(left_out) = self.log.strangers.admit() {
            let RefusedConnect { host, peer, cause, .. } = refused;
            tracing::info!(host, %peer, %cause, left_out, "Connect refused");
        }
        self.observer.get().inspect(|observer| observer.refused(refused));
    }

    /// Sets the hosts that may connect, by NQN, and how they authenticate. Controllers of hosts that were removed, or authenticate
    /// otherwise, end. Discovery controllers are notified of what their host sees now.
    pub fn set_hosts(&self, hosts: BTreeMap<String, HostSecurity>) {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.hosts, hosts);
        let names = before.keys().chain(state.hosts.keys());
        let differs = |name: &&String| before.get(*name) != state.hosts.get(*name);
        let changed: BTreeSet<String> = names.filter(differs).cloned().collect();
        if changed.is_empty() {
            return;
        }
        state.generation += 1;
        for name in &changed {
            state.last_admission += 1;
            let number = state.last_admission;
            match state.hosts.contains_key(name) {
                true => state.admissions.insert(name.clone(), number),
                false => state.admissions.remove(name),
            };
        }
        for controller in state.controllers.values().filter(|it| changed.contains(&*it.nqn)) {
            match controller.discovery {
                true => controller.events.raise(EventKind::Discovery),
                false => controller.close("access changed"),
            }
        }
    }

    /// Where hosts connect; none before [`Server::serve`](crate::Server::serve).
    pub fn portals(&self) -> Vec<Portal> {
        self.state.lock().portals.clone()
    }

    /// Portals that can't be bound, and why.
    pub fn down_portals(&self) -> Vec<(SocketAddr, String)> {
        self.state.lock().down.clone().list()
    }

    /// NQN of the subsystem.
    pub fn nqn(&self) -> &str {
        &self.identity.nqn
    }

    /// Sets which of the portals do not listen yet.
    pub(crate) fn set_down(&self, down: DownPortals) {
        self.state.lock().down = down;
    }

    /// Sets where hosts connect. Discovery controllers are notified.
    pub(crate) fn set_portals(&self, portals: Vec<Portal>) {
        let mut state = self.state.lock();
        if state.portals == portals {
            return;
        }
        state.portals = portals;
        state.generation += 1;
        for controller in state.controllers.values().filter(|it| it.discovery) {
            controller.events.raise(EventKind::Discovery);
        }
    }

    /// The generation of the discovery log page, and the portals for I/O; none for a host that may not connect.
    pub(crate) fn discovery(&self, host: &str) -> (u64, Vec<Portal>) {
        let state = self.state.lock();
        let for_io = state.portals.iter().filter(|portal| portal.address.port() != DISCOVERY_PORT);
        let visible = if state.hosts.contains_key(host) { for_io.copied().collect() } else { Vec::new() };
        (state.generation, visible)
    }

    /// Whether a portal requires TLS.
    pub(crate) fn requires_tls_at(&self, portal: u16) -> bool {
        self.state.lock().portals.iter().any(|it| it.number == portal && it.tls)
    }

    /// The number of how a host authenticates, if it has to do so by DH-HMAC-CHAP. Failures are counted by it.
    pub(crate) fn admission(&self, host: &str) -> Option<u64> {
        let state = self.state.lock();
        state.hosts.get(host)?.dhchap.as_ref()?;
        state.admissions.get(host).copied()
    }

    /// Whether a host has a PSK, and so may connect by TLS only.
    pub(crate) fn requires_tls_of(&self, host: &str) -> bool {
        self.state.lock().hosts.get(host).is_some_and(|host| host.tls.is_some())
    }

    /// The key of a PSK identity.
    pub(crate) fn key_of(&self, identity: &PskIdentity<'_>) -> Option<PreSharedKey> {
        if identity.subsystem != self.identity.nqn && identity.subsystem != DISCOVERY_NQN {
            return None;
        }
        let psk = self.state.lock().hosts.get(identity.host)?.tls.clone()?;
        psk.of_identity(identity)
    }

    /// Whether a portal serves discovery only.
    pub(crate) fn is_for_discovery(&self, portal: u16) -> bool {
        let state = self.state.lock();
        let found = state.portals.iter().find(|it| it.number == portal);
        found.is_some_and(|portal| portal.address.port() == DISCOVERY_PORT)
    }

    /// Creates a controller for a host.
    pub(crate) fn connect(
        self: &Arc<Self>,
        (nqn, host_id): (&str, [u8; 16]),
        discovery: bool,
        port: Port,
        (keep_alive_ms, admin): (u32, UnboundedSender<Control>),
    ) -> Result<Arc<Controller>, Status> {
        let created = self.exports.read(|registry| {
            let mut state = self.state.lock();
            let known = state.hosts.get(nqn).cloned();
            if !discovery && known.is_none() {
                return Err(Status::CONNECT_INVALID_HOST);
            }
            // The portals that a discovery controller lists are no secret.
            let credentials = known.and_then(|it| it.dhchap).filter(|_| !discovery);
            let id = state.free_id().ok_or(Status::CONNECT_CONTROLLER_BUSY)?;
            let nqn = nqn.into();
            let start = Start { id, nqn, host_id, credentials, discovery, port, keep_alive_ms, admin };
            let controller = Arc::new(Controller::new(self.clone(), start));
            if !discovery && controller.is_admitted() {
                rebuild(&controller, registry);
            }
            state.controllers.insert(id, controller.clone());
            Ok(controller)
        })?;
        if created.is_admitted() {
            self.report_connected(&created);
        }
        Ok(created)
    }

    /// The host of a controller is authenticated.
    pub(crate) fn admit(&self, controller: &Controller) {
        // What it sees is built for a host that has proved who it is, and no earlier.
        let is_new = self.exports.read(|registry| {
            let is_new = controller.admit();
            if is_new {
                rebuild(controller, registry);
            }
            is_new
        });
        if is_new {
            self.report_connected(controller);
        }
    }

    fn report_connected(&self, controller: &Controller) {
        let Controller { nqn, id, discovery, port, .. } = controller;
        if let Some(left_out) = self.log.of(!discovery).admit() {
            tracing::info!(host = &**nqn, controller = id, discovery, peer = %port.peer, left_out, "connected");
        }
        if let Some(observer) = self.observer.get().filter(|_| !discovery) {
            observer.connected(nqn, port.peer, port.number);
        }
    }

    /// The controller that an I/O queue is to belong to.
    pub(crate) fn controller(&self, id: u16) -> Option<Arc<Controller>> {
        self.state.lock().controllers.get(&id).filter(|controller| !controller.discovery).cloned()
    }

    /// Ends a controller, for this reason.
    pub(crate) fn disconnect(&self, controller: &Arc<Controller>, reason: &str) {
        self.state.lock().controllers.remove(&controller.id);
        controller.end();
        controller.namespaces.close();
        if let Some(observer) =
            self.observer.get().filter(|_| !controller.discovery && controller.is_admitted())
        {
            observer.disconnected(&controller.nqn, controller.port.peer, controller.port.number, reason);
        }
    }

    /// The controllers of hosts, by identifier; without those of discovery, and of hosts that are not authenticated yet.
    pub fn controllers(&self) -> Vec<ControllerInfo> {
        let state = self.state.lock();
        let info = |controller: &Arc<Controller>| ControllerInfo {
            host: (*controller.nqn).to_owned(),
            id: controller.id,
            portal: controller.port.number,
            peer: controller.port.peer,
            queues: controller.connected_queues(),
        };
        let admitted = |it: &&Arc<Controller>| !it.discovery && it.is_admitted();
        state.controllers.values().filter(admitted).map(info).collect()
    }

    /// The identifiers of the controllers of a host, for display to that host.
    pub(crate) fn controller_ids(&self, nqn: &str) -> Vec<u16> {
        let state = self.state.lock();
        let own = state.controllers.values().filter(|it| !it.discovery && *it.nqn == *nqn);
        own.map(|controller| controller.id).collect()
    }

    /// The controller identifier by which a registrant is listed.
    pub(crate) fn listed_controller(&self, host: &InitiatorPort) -> u16 {
        let state = self.state.lock();
        let own = state.controllers.values().filter(|it| !it.discovery && it.host.initiator == *host);
        let mut ids = own.map(|controller| controller.id);
        match (ids.next(), ids.next()) {
            (Some(id), None) => id,
            _ => ANY_CONTROLLER,
        }
    }

    /// Changes of the log page of asymmetric access so far.
    pub(crate) fn access_changes(&self) -> u64 {
        self.state.lock().access_changes
    }

    /// The host of a controller begins to read which namespaces it has: identifiers that it found free before may name others now.
    /// `unread`: it has a notification of an identifier to read first.
    pub(crate) fn begin_inventory(&self, controller: &Controller, unread: impl Fn(u32) -> bool) {
        if !controller.namespaces.begin_inventory(unread) {
            return;
        }
        self.exports.read(|registry| {
            let mut state = self.state.lock();
            state.access_changes += u64::from(refresh(controller, registry));
        });
    }

    /// Every path to a volume, with its controller.
    fn paths(&self, volume: DiskId) -> Vec<(Arc<Controller>, Arc<Path>)> {
        let controllers: Vec<_> = self.state.lock().controllers.values().cloned().collect();
        let paths = controllers.into_iter().flat_map(|controller| {
            let view = controller.view();
            let of = view.values().filter(|path| path.volume.id() == volume).cloned().collect::<Vec<_>>();
            of.into_iter().map(move |path| (controller.clone(), path))
        });
        paths.collect()
    }
}

impl State {
    /// An unused controller identifier. Identifiers are used in turn, so that one is not soon used again.
    fn free_id(&mut self) -> Option<u16> {
        let after = self.last_id;
        let candidates = (1..=MAX_CONTROLLER_ID).map(|step| (after + step - 1) % MAX_CONTROLLER_ID + 1);
        let id = candidates.into_iter().find(|id| !self.controllers.contains_key(id))?;
        self.last_id = id;
        Some(id)
    }
}

/// Makes the view of a controller that of its host's mappings.
fn rebuild(controller: &Controller, registry: &Registry) -> ViewChange {
    let wanted = registry.mappings(&controller.nqn).take(MAX_NAMESPACES).filter_map(|(number, mapping)| {
        let volume = registry.volume(mapping.disk)?.clone();
        Some(Wanted { nsid: nsid(number), volume, mapping })
    });
    controller.namespaces.rebuild(wanted, |opening| {
        Path::open(opening, controller.host.clone(), (controller.nqn.clone(), controller.port.number))
    })
}

/// Makes the view of a controller that of its host's mappings, and notifies the host of what changed. Returns whether anything did.
fn refresh(controller: &Controller, registry: &Registry) -> bool {
    let change = rebuild(controller, registry);
    if change.nsids.is_empty() {
        return false;
    }
    controller.events.namespaces_changed(change.nsids);
    if change.appeared {
        // A host uses a namespace only once it knows the state of its group.
        controller.events.raise(EventKind::Access);
    }
    true
}

/// The notification of a reservation notice.
fn notification(notice: Notice) -> ReservationNotice {
    match notice {
        Notice::ReservationPreempted => ReservationNotice::ReservationPreempted,
        Notice::ReservationReleased => ReservationNotice::ReservationReleased,
        Notice::RegistrationPreempted => ReservationNotice::RegistrationPreempted,
    }
}

impl PreSharedKeys for Subsystem {
    fn find(&self, identity: &[u8]) -> Option<PreSharedKey> {
        self.key_of(&PskIdentity::parse(identity)?)
    }
}

impl FrontEnd for Subsystem {
    fn mappings_changed(&self, registry: &Registry, touched: &Touched) {
        if touched.numbers().is_empty() {
            return;
        }
        let mut state = self.state.lock();
        let sees = |it: &&Arc<Controller>| {
            !it.discovery && it.is_admitted() && touched.numbers().contains_key(&it.nqn)
        };
        let controllers: Vec<_> = state.controllers.values().filter(sees).cloned().collect();
        let changed = controllers.iter().filter(|controller| refresh(controller, registry)).count();
        state.access_changes += changed as u64;
    }

    fn limits_changed(&self, registry: &Registry, volumes: &BTreeSet<DiskId>) {
        let hosts = volumes.iter().flat_map(|id| registry.mapped_to(*id)).map(|(host, _)| host);
        let hosts: BTreeSet<_> = hosts.collect();
        if hosts.is_empty() {
            return;
        }
        let state = self.state.lock();
        for controller in state.controllers.values().filter(|it| hosts.contains(&it.nqn)) {
            let view = controller.view();
            let limited = view.values().filter(|path| volumes.contains(&path.volume.id()));
            limited.for_each(|path| path.refresh());
        }
    }

    fn notify(&self, volume: DiskId, event: Event) {
        for (controller, path) in self.paths(volume) {
            match event {
                Event::CapacityChanged | Event::ContentReplaced => {
                    controller.events.namespaces_changed([path.nsid]);
                }
                // Hosts see how full the pool is in the health log page.
                Event::ThresholdCrossed => {}
                Event::StateCleared | Event::PowerLost => {
                    path.refresh();
                    controller.events.reservation_changed(path.nsid, ReservationNotice::ReservationPreempted);
                }
            }
        }
    }

    fn reservations_changed(&self, volume: DiskId, _: &NexusName, change: &Change) -> Sleep {
        let paths = self.paths(volume);
        for (controller, path) in &paths {
            path.refresh();
            let own = change.notices.iter().filter(|(host, _)| *host == *path.host);
            own.for_each(|(_, notice)| {
                if !controller.masks_notice(path.nsid, notification(*notice)) {
                    controller.events.reservation_changed(path.nsid, notification(*notice));
                }
            });
        }
        // Writes that began under the rights before end first: nothing of a preempted host comes after.
        Box::pin(async move {
            for (_, path) in paths.iter().filter(|(_, path)| path.check(crate::path::Access::Write).is_err())
            {
                std::future::poll_fn(|cx| path.poll_idle(cx)).await;
            }
        })
    }
}
