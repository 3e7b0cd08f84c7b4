//! The NVM subsystem: front end of the exported volumes, with the controllers of all hosts and the namespaces that each
//! host sees.
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

/// Authentication of a host. By default the NQN alone identifies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSecurity {
    /// DH-HMAC-CHAP on each queue.
    pub dhchap: Option<Arc<Credentials>>,
    /// TLS on each connection, without which the host can't connect.
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
    /// Hosts that may connect, with their authentication.
    hosts: BTreeMap<String, HostSecurity>,
    /// Number of the current authentication settings of each host, by NQN; failures are counted by it.
    admissions: BTreeMap<String, u64>,
    last_admission: u64,
    portals: Vec<Portal>,
    /// Portals that do not listen yet.
    down: DownPortals,
    /// GENCTR of the discovery log page.
    generation: u64,
    /// Counts changes of the log page of asymmetric access.
    access_changes: u64,
}

impl Subsystem {
    /// A subsystem without hosts.
    pub fn new(identity: SubsystemIdentity, exports: Arc<Exports>) -> Arc<Subsystem> {
        let (observer, state) = (OnceLock::new(), Mutex::default());
        let log = ConnectionLog::new(exports.clock());
        let subsystem = Arc::new(Subsystem { identity, exports, observer, log, state });
        let front_end: Weak<Subsystem> = Arc::downgrade(&subsystem);
        subsystem.exports.add_front_end(front_end);
        subsystem
    }

    /// Sets the observer of connects, ends and refusals; only the first call has an effect.
    pub fn observe(&self, observer: Arc<dyn ConnectObserver>) {
        let _first = self.observer.set(observer);
    }

    /// Reports a refused Connect.
    pub(crate) fn refused(&self, refused: &RefusedConnect) {
        if let Some(left_out) = self.log.strangers.admit() {
            let RefusedConnect { host, peer, cause, .. } = refused;
            tracing::info!(host, %peer, %cause, left_out, "Connect refused");
        }
        self.observer.get().inspect(|observer| observer.refused(refused));
    }

    /// Sets the hosts that may connect, by NQN, with their authentication. Controllers of hosts that were removed or
    /// have other settings now end. Discovery controllers are notified of changes for their host.
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

    /// The portals; empty before [`Server::serve`](crate::Server::serve).
    pub fn portals(&self) -> Vec<Portal> {
        self.state.lock().portals.clone()
    }

    /// Portals that can't be bound, with the reason.
    pub fn down_portals(&self) -> Vec<(SocketAddr, String)> {
        self.state.lock().down.clone().list()
    }

    /// NQN of the subsystem.
    pub fn nqn(&self) -> &str {
        &self.identity.nqn
    }

    /// Sets the portals that do not listen yet.
    pub(crate) fn set_down(&self, down: DownPortals) {
        self.state.lock().down = down;
    }

    /// Sets the portals. Discovery controllers are notified.
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

    /// The generation of the discovery log page, and the portals for I/O; empty for a host that may not connect.
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

    /// The number of a host's authentication settings, if DH-HMAC-CHAP is required. Failures are counted by it.
    pub(crate) fn admission(&self, host: &str) -> Option<u64> {
        let state = self.state.lock();
        state.hosts.get(host)?.dhchap.as_ref()?;
        state.admissions.get(host).copied()
    }

    /// Whether a host has a PSK, and may therefore connect by TLS only.
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
            // The portals in the log page of a discovery controller are not secret.
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

    /// Admits the authenticated host of a controller.
    pub(crate) fn admit(&self, controller: &Controller) {
        // The view of a host is built only after its authentication.
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

    /// The controller that an I/O queue wants to join.
    pub(crate) fn controller(&self, id: u16) -> Option<Arc<Controller>> {
        self.state.lock().controllers.get(&id).filter(|controller| !controller.discovery).cloned()
    }

    /// Ends a controller, with this reason.
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

    /// Controllers of authenticated hosts, by identifier, except discovery controllers.
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

    /// Number of changes of the log page of asymmetric access.
    pub(crate) fn access_changes(&self) -> u64 {
        self.state.lock().access_changes
    }

    /// Notes that the host of a controller begins to list its namespaces: identifiers that it found free may name
    /// others now. `unread`: the host has still to read a notification of an identifier.
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
    /// An unused controller identifier. Identifiers are used in turn, so that a freed one is not reused soon.
    fn free_id(&mut self) -> Option<u16> {
        let after = self.last_id;
        let candidates = (1..=MAX_CONTROLLER_ID).map(|step| (after + step - 1) % MAX_CONTROLLER_ID + 1);
        let id = candidates.into_iter().find(|id| !self.controllers.contains_key(id))?;
        self.last_id = id;
        Some(id)
    }
}

/// Sets the view of a controller to the mappings of its host.
fn rebuild(controller: &Controller, registry: &Registry) -> ViewChange {
    let wanted = registry.mappings(&controller.nqn).take(MAX_NAMESPACES).filter_map(|(number, mapping)| {
        let volume = registry.volume(mapping.disk)?.clone();
        Some(Wanted { nsid: nsid(number), volume, mapping })
    });
    controller.namespaces.rebuild(wanted, |opening| {
        Path::open(opening, controller.host.clone(), (controller.nqn.clone(), controller.port.number))
    })
}

/// Sets the view of a controller to the mappings of its host, and notifies the host of changes. Returns whether there
/// were any.
fn refresh(controller: &Controller, registry: &Registry) -> bool {
    let change = rebuild(controller, registry);
    if change.nsids.is_empty() {
        return false;
    }
    controller.events.namespaces_changed(change.nsids);
    if change.appeared {
        // A host uses a namespace only once it knows the state of its ANA group.
        controller.events.raise(EventKind::Access);
    }
    true
}

/// The reservation notification for a notice.
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
                // The health log page shows hosts the fill level of the pool.
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
        // Writes that began under the old reservation end first: no write of a preempted host follows.
        Box::pin(async move {
            for (_, path) in paths.iter().filter(|(_, path)| path.check(crate::path::Access::Write).is_err())
            {
                std::future::poll_fn(|cx| path.poll_idle(cx)).await;
            }
        })
    }
}
