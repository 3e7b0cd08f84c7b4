//! The iSCSI target: configuration, access table, portals and sessions.

use crate::access::{AccessTable, TargetConfig};
use crate::chap::Nonce;
use crate::connection::{ConnectionConfig, OpenedSession, Timeouts};
use crate::keys::Offers;
use crate::login::{LoginIdentity, LoginStatus};
use crate::observer::LoginObserver;
use crate::session::SessionLimits;
use crate::sessions::{Registration, SessionInfo, SessionShares, Sessions};
use crate::{LoginAttempts, LoginThrottle};
use parking_lot::RwLock;
use scsi::{DeviceServer, InitiatorPort, Target};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use transport::{
    BoundPortal, Budget, ConnectionLimits, ConnectionLog, Control, Permit, Portal, Serving, Shard,
    SystemClock,
};

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The target's iSCSI name.
    pub target_name: String,
    /// Limits on the number of connections.
    pub connection_limits: ConnectionLimits,
    /// Permission to answer hosts.
    pub permit: Permit,
    /// Values proposed in login.
    pub offers: Offers,
    /// Bounds on each session.
    pub session: SessionLimits,
    /// Time-outs of each connection.
    pub timeouts: Timeouts,
    /// Seconds that initiators get to log out when the server shuts down.
    pub logout_seconds: u16,
}

impl ServerConfig {
    /// A configuration with default values.
    pub fn new(target_name: impl Into<String>) -> Self {
        Self {
            target_name: target_name.into(),
            connection_limits: ConnectionLimits::default(),
            permit: Permit::default(),
            offers: Offers::default(),
            session: SessionLimits::default(),
            timeouts: Timeouts::default(),
            logout_seconds: 3,
        }
    }
}

/// Ends the session of a lost nexus; may be called at any time, and repeatedly.
pub type NexusLost = Box<dyn Fn() + Send + Sync>;

/// The SCSI target device, in this process or at another controller.
pub trait TargetDevice: Send + Sync {
    /// Begins an I_T nexus through the port with this relative identifier.
    fn attach(self: Arc<Self>, initiator: InitiatorPort, port: u16, lost: NexusLost)
    -> Box<dyn DeviceServer>;

    /// Hosts that see a unit which `host` may write to. `host` itself is included, unless it can write to no unit.
    fn hosts_sharing_with(&self, host: &str) -> BTreeSet<String>;
}

impl TargetDevice for Target {
    /// A nexus of this process is never lost while its session exists.
    fn attach(self: Arc<Self>, initiator: InitiatorPort, port: u16, _: NexusLost) -> Box<dyn DeviceServer> {
        Box::new(Target::attach(&self, initiator, port))
    }

    fn hosts_sharing_with(&self, host: &str) -> BTreeSet<String> {
        Target::hosts_sharing_with(self, host)
    }
}

/// An iSCSI target that serves a SCSI target.
pub struct Server {
    target: Arc<dyn TargetDevice>,
    pub(crate) config: ServerConfig,
    pub(crate) target_config: Arc<TargetConfig>,
    pub(crate) sessions: Arc<Sessions>,
    budget: Arc<Budget>,
    serving: Serving,
    observer: RwLock<Option<Arc<dyn LoginObserver>>>,
    throttle: Arc<LoginThrottle>,
    pub(crate) log: Arc<ConnectionLog>,
    access_changes: watch::Sender<()>,
}

impl Server {
    /// A server that does not listen yet, with an empty access table.
    ///
    /// `budget` is the memory of all connections: their guarantees, and a shared pool.
    pub fn new(target: Arc<dyn TargetDevice>, config: ServerConfig, budget: Arc<Budget>) -> Arc<Self> {
        let target_config = Arc::new(TargetConfig::new(config.target_name.clone()));
        let sessions = Sessions::new(SessionShares::of(config.connection_limits));
        Arc::new(Self {
            target,
            config,
            target_config,
            sessions,
            budget,
            serving: Serving::default(),
            observer: RwLock::default(),
            throttle: Arc::new(LoginThrottle::new(Arc::new(SystemClock::default()))),
            log: Arc::default(),
            access_changes: watch::Sender::new(()),
        })
    }

    /// Replaces the access table. Sessions of initiators that were removed from it, or whose credentials changed,
    /// end; the others continue.
    pub fn set_access(&self, table: AccessTable) {
        let changed = self.target_config.set_access(table);
        self.sessions.close("access changed", |initiator| changed.contains(initiator));
        self.access_changes.send_replace(());
    }

    /// The current access table.
    pub fn access_table(&self) -> AccessTable {
        self.target_config.access_table()
    }

    /// Notifies of every replacement of the access table.
    pub fn access_changes(&self) -> watch::Receiver<()> {
        self.access_changes.subscribe()
    }

    /// Sets portals of the same target at other controllers, which discovery reports as well.
    pub fn set_other_portals(&self, portals: Vec<Portal>) {
        self.target_config.set_other_portals(portals);
    }

    /// Replaces the observer of logins, logouts and refused logins.
    pub fn observe(&self, observer: Arc<dyn LoginObserver>) {
        *self.observer.write() = Some(observer);
    }

    /// Notifies the observer, if there is one.
    pub(crate) fn notify(&self, call: impl FnOnce(&dyn LoginObserver)) {
        let observer = self.observer.read().clone();
        if let Some(observer) = observer {
            call(&*observer);
        }
    }

    pub(crate) fn permit(&self) -> Permit {
        self.config.permit.clone()
    }

    /// Serves connections on the shards' runtimes until [`Server::shutdown`]. Binding a portal that can't be bound is
    /// retried ([`Server::down_portals`]). The number of a portal is its target portal group tag and its relative
    /// target port identifier. Returns the portals with their addresses, in the given order.
    ///
    /// # Errors
    /// The system's error for a socket that can't be used.
    ///
    /// # Panics
    /// Without a shard, if two portals have one number, or if it is called a second time.
    pub async fn serve(self: &Arc<Self>, wanted: &[Portal], shards: Vec<Shard>) -> io::Result<Vec<Portal>> {
        let portals = self.serving.begin(shards, self.config.connection_limits);
        let bound = portals.bind_all(wanted).await?;
        let all: Vec<Portal> = bound.iter().map(BoundPortal::portal).collect();
        // Discovery must know all portals before a host can ask.
        self.target_config.set_portals(all.clone());
        bound.into_iter().try_for_each(|portal| portals.open(self, portal))?;
        Ok(all)
    }

    /// Opens another portal while others serve.
    ///
    /// # Errors
    /// The system's error for a socket that can't be used, or if nothing is served.
    ///
    /// # Panics
    /// If an open portal has its number.
    pub fn open_portal(self: &Arc<Self>, bound: BoundPortal) -> io::Result<()> {
        let portals = self.serving.portals()?;
        portals.open(self, bound)?;
        self.target_config.set_portals(portals.list());
        Ok(())
    }

    /// Binds a portal for [`Server::open_portal`], which retries if the portal can't be bound now.
    ///
    /// # Errors
    /// The system's error for a socket whose address it does not know, or if nothing is served.
    pub async fn bind_portal(&self, portal: Portal) -> io::Result<BoundPortal> {
        self.serving.portals()?.bind(portal).await
    }

    /// Closes a portal: discovery no longer reports it, its initiators are asked to log out, and remaining connections
    /// are closed after [`ServerConfig::logout_seconds`].
    pub async fn close_portal(&self, number: u16) {
        let Ok(portals) = self.serving.portals() else { return };
        let others = portals.list().into_iter().filter(|portal| portal.number != number);
        self.target_config.set_portals(others.collect());
        portals.close(number, self.config.logout_seconds).await;
    }

    /// Opens and closes portals until they match `wanted`. A portal that stays keeps its connections. Returns those
    /// that can't be opened, with the reason.
    ///
    /// # Panics
    /// If two portals have one number.
    pub async fn set_portals(self: &Arc<Self>, wanted: &[Portal]) -> Vec<(Portal, io::Error)> {
        let is_same = |open: &Portal, wanted: &Portal| {
            // Port 0 stands for the port that the system chose.
            let port = wanted.address.port();
            open.number == wanted.number
                && open.address.ip() == wanted.address.ip()
                && (port == 0 || open.address.port() == port)
        };
        for open in self.portals() {
            if !wanted.iter().any(|wanted| is_same(&open, wanted)) {
                self.close_portal(open.number).await;
            }
        }
        let mut failed = Vec::new();
        for portal in wanted {
            if self.portals().iter().any(|open| open.number == portal.number) {
                continue;
            }
            let opened = self.bind_portal(*portal).await.and_then(|bound| self.open_portal(bound));
            failed.extend(opened.err().map(|error| (*portal, error)));
        }
        failed
    }

    /// Number of sessions without discovery sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.count()
    }

    /// Limits on the number of sessions.
    pub fn session_shares(&self) -> SessionShares {
        self.sessions.shares()
    }

    /// Replaces the limits on connections, and so on sessions; open ones stay.
    pub fn set_connection_limits(&self, limits: ConnectionLimits) {
        self.sessions.set_shares(SessionShares::of(limits));
        if let Ok(portals) = self.serving.portals() {
            portals.set_limits(limits);
        }
    }

    /// Stops listening, requests logout of every initiator, and closes remaining connections after
    /// [`ServerConfig::logout_seconds`].
    pub async fn shutdown(&self) {
        self.close(self.config.logout_seconds).await;
    }

    /// Like [`Server::shutdown`], with another time for initiators to log out.
    pub async fn close(&self, seconds: u16) {
        if let Some(portals) = self.serving.end() {
            portals.close_all(seconds).await;
        }
    }

    /// Portals that can't be bound, with the reason.
    pub fn down_portals(&self) -> Vec<(SocketAddr, String)> {
        self.serving.portals().map(|portals| portals.down().list()).unwrap_or_default()
    }

    /// The portals ordered by number; empty before [`Server::serve`].
    pub fn portals(&self) -> Vec<Portal> {
        self.target_config.portals()
    }

    /// All sessions except discovery sessions.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        self.sessions.list()
    }

    /// Ends the sessions of an initiator, and of initiators that share a unit with it.
    pub(crate) fn close_sessions_sharing_with(&self, initiator: &str) {
        let companions = self.target.hosts_sharing_with(initiator);
        let is_meant = |name: &str| name == initiator || companions.contains(name);
        self.sessions.close("target cold reset", is_meant);
    }

    /// The configuration of a connection through `portal` to the local address `local`.
    pub(crate) fn setup(
        &self,
        portal: u16,
        local: SocketAddr,
        peer: SocketAddr,
        nonce: Nonce,
    ) -> ConnectionConfig {
        let sessions = self.sessions.clone();
        ConnectionConfig {
            target_config: self.target_config.clone(),
            offers: self.config.offers.clone(),
            limits: self.config.session.clone(),
            budget: self.budget.clone(),
            timeouts: self.config.timeouts,
            portal,
            local,
            nonce,
            attempts: LoginAttempts::new(self.throttle.clone(), peer.ip()),
            log: self.log.clone(),
            session_exists: Arc::new(move |identity| sessions.connection(identity, portal)),
        }
    }

    /// Opens the session of a login.
    pub(crate) async fn open(
        &self,
        identity: LoginIdentity,
        info: SessionInfo,
        control: UnboundedSender<Control>,
    ) -> Result<(OpenedSession, Option<Registration>), LoginStatus> {
        // A discovery session has no nexus; its handle is arbitrary.
        if identity.discovery {
            return Ok((OpenedSession { tsih: 1, device: None }, None));
        }
        let portal = info.portal;
        let registration = self.sessions.register(&identity, info, &control).await;
        let registration = registration.ok_or(LoginStatus::OutOfResources)?;
        // Access may have changed between the check in login and the registration.
        let admission = self.target_config.admission(&identity.initiator).map(|admission| admission.number);
        if admission != Some(identity.admission) {
            return Err(LoginStatus::AuthorizationFailure);
        }
        let port = InitiatorPort::iscsi(identity.initiator, identity.isid);
        let lost: NexusLost = Box::new(move || {
            // A connection that is ending no longer receives.
            let _gone = control.send(Control::Close("the nexus is lost"));
        });
        let device = self.target.clone().attach(port, portal, lost);
        Ok((OpenedSession { tsih: registration.tsih, device: Some(device) }, Some(registration)))
    }
}
