//! The array: composes the configuration, the services and the parts that carry it out.
//!
//! Each service has its own state and a narrow interface; none knows the array. How a request is carried out is in
//! [`crate::request`], how a change is committed in [`crate::array::transaction`].

pub(crate) mod alert_source;
pub(crate) mod page;
pub(crate) mod projection;
pub(crate) mod reconcile;
pub(crate) mod recover;
pub(crate) mod tick;
pub(crate) mod transaction;

use crate::array::alert_source::Services;
use crate::array::reconcile::Reconciler;
use crate::configuration::Configuration;
use crate::events::audit::AuditLog;
use crate::events::bus::{EventBus, Update};
use crate::parts::Parts;
use crate::parts::api_listeners::Trial;
use crate::parts::env::Env;
use crate::parts::moving_addresses::Moved;
use crate::parts::target_ports::OwnPorts;
use crate::service::accounts::Accounts;
use crate::service::alerts::Alerts;
use crate::service::audit_mark::AuditWatch;
use crate::service::clock::RetentionClock;
use crate::service::controllers::ControllerMonitor;
use crate::service::directories::Directories;
use crate::service::drives::DriveMonitor;
use crate::service::health::HealthMonitor;
use crate::service::jobs::Jobs;
use crate::service::login_queue::LoginReports;
use crate::service::logins::Logins;
use crate::service::metering::Metering;
use crate::service::notifier::Notifier;
use crate::service::quotas::Quotas;
use crate::service::remote_arrays::Links;
use crate::service::replicas::Replicas;
use crate::service::replication_meter::ReplicationMeter;
use crate::service::schedules::Schedules;
use crate::service::scrub::Scrubs;
use crate::service::sealed_store::SealedStore;
use crate::service::space::SpaceMonitor;
use crate::service::usage_meter::UsageMeter;
use crate::{Error, Result};
use block::DiskId;
use history::Severity;
use parking_lot::{Mutex, RwLockReadGuard};
use records::{ArrayIdentity, Config, Topic};
use std::sync::{Arc, OnceLock};
use tokio::sync::broadcast;

/// The array: its configuration, its services, and the parts that they direct.
pub struct Array {
    pub(crate) parts: Parts,
    pub(crate) env: Arc<Env>,
    pub(crate) identity: ArrayIdentity,
    pub(crate) version: String,
    pub(crate) started: u64,
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) reconciler: Reconciler,
    bus: Arc<EventBus>,
    pub(crate) audit: Arc<AuditLog>,
    pub(crate) clock: Arc<RetentionClock>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) space: Arc<SpaceMonitor>,
    pub(crate) metering: Arc<Metering>,
    pub(crate) controller_monitor: Arc<ControllerMonitor>,
    pub(crate) drive_monitor: DriveMonitor,
    pub(crate) health: Arc<HealthMonitor>,
    pub(crate) scrubs: Arc<Scrubs>,
    pub(crate) schedules: Schedules,
    pub(crate) links: Arc<Links>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) replication_meter: ReplicationMeter,
    pub(crate) logins: Arc<Logins>,
    pub(crate) audit_watch: Arc<AuditWatch>,
    pub(crate) directories: Arc<Directories>,
    pub(crate) accounts: Accounts,
    pub(crate) notifier: Arc<Notifier>,
    pub(crate) alerts: Alerts,
    /// Set once portals have their numbers.
    pub(crate) own_ports: Arc<OnceLock<OwnPorts>>,
    /// The address of the API that is on trial.
    pub(crate) api_trial: Mutex<Option<Trial>>,
    /// Held by the one rotation of the drives' key under way.
    pub(crate) rotating: tokio::sync::Mutex<()>,
    pub(crate) moved: Moved,
    sealed_store: SealedStore,
    pub(crate) usage_meter: Arc<UsageMeter>,
}

impl Array {
    #[allow(
        clippy::too_many_lines,
        reason = "one line for each service: parts of it would only pass these on"
    )]
    pub(crate) fn new(
        parts: Parts,
        env: Env,
        identity: ArrayIdentity,
        version: String,
        config: Config,
    ) -> Result<Self> {
        let env = Arc::new(env);
        let Parts { engine, pool, machine, exports, server, history, sealing, .. } = parts.clone();
        let configuration = Arc::new(Configuration::new(engine.clone(), config));
        let bus = Arc::new(EventBus::new(env.clone(), history.clone()));
        let audit = Arc::new(AuditLog::new(env.clone(), history.clone(), bus.clone()));
        let core = || (env.clone(), bus.clone(), configuration.clone());
        let drives = || (engine.clone(), pool.clone(), machine.clone());

        let clock = Arc::new(RetentionClock::load(env.clone(), engine.clone())?);
        let jobs = Arc::new(Jobs::new(env.clone(), bus.clone()));
        let quotas = Arc::new(Quotas::new(engine.clone(), exports.clone(), bus.clone()));
        let space = Arc::new(SpaceMonitor::new(engine.clone(), bus.clone()));
        let metering = Arc::new(Metering::new(core(), &parts));
        let controllers = Arc::new(ControllerMonitor::new(bus.clone(), parts.controllers.clone()));
        let drive_monitor = DriveMonitor::new(bus.clone(), jobs.clone(), drives());
        let health = Arc::new(HealthMonitor::new(env.clone(), pool.clone(), machine.clone()));
        let scrubs = Arc::new(Scrubs::new(core(), jobs.clone(), drives(), identity.created));
        let links = Arc::new(Links::new(env.clone(), bus.clone()));
        let volumes = (engine.clone(), exports.clone());
        let replicas = Arc::new(Replicas::new(env.clone(), bus.clone(), volumes, clock.clone()));
        let directories = Arc::new(Directories::new(configuration.clone(), audit.clone(), sealing.clone()));
        let accounts = Accounts::new(core(), directories.clone());
        let notifier = Arc::new(Notifier::new(core(), (engine.clone(), sealing.clone()), identity.clone()));
        let logins = Arc::new(Logins::observe(&server, &parts.subsystem, env.clone(), bus.clone()));
        let audit_watch = Arc::new(AuditWatch::load(env.clone(), engine.clone(), history.clone())?);
        let sources = alert_source::sources(&Services {
            parts: &parts,
            configuration: &configuration,
            space: &space,
            quotas: &quotas,
            notifier: &notifier,
            controllers: &controllers,
            links: &links,
            replicas: &replicas,
            scrubs: &scrubs,
            health: &health,
            metering: &metering,
            clock: &clock,
            logins: &logins,
            audit_watch: &audit_watch,
        });
        Ok(Self {
            alerts: Alerts::new(env.clone(), bus.clone(), history.clone(), sources),
            sealed_store: SealedStore::new(env.clone(), history.clone(), sealing.clone()),
            logins,
            audit_watch,
            reconciler: Reconciler::new(&parts, quotas.clone()),
            replication_meter: ReplicationMeter::new(core(), history, replicas.clone()),
            usage_meter: Arc::new(UsageMeter::new(core(), &parts)),
            parts,
            started: env.seconds(),
            env,
            identity,
            version,
            configuration,
            bus,
            audit,
            clock,
            jobs,
            quotas,
            space,
            own_ports: metering.own_ports.clone(),
            metering,
            controller_monitor: controllers,
            drive_monitor,
            health,
            scrubs,
            schedules: Schedules::default(),
            links,
            replicas,
            directories,
            accounts,
            notifier,
            api_trial: Mutex::default(),
            rotating: tokio::sync::Mutex::default(),
            moved: Moved::default(),
        })
    }

    /// Subscribes to all updates from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Update> {
        self.bus.subscribe()
    }

    /// Users of the array and API tokens.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Directories that authenticate users.
    pub fn directories(&self) -> &Directories {
        &self.directories
    }

    /// Alerts about what the process knows.
    pub fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    /// The delivery of alerts to notification targets.
    pub fn notifier(&self) -> &Arc<Notifier> {
        &self.notifier
    }

    /// Texts that outlive a restart, such as sessions.
    pub fn sealed_store(&self) -> &SealedStore {
        &self.sealed_store
    }

    /// Takes log-ins that hosts had, or were refused, at other controllers.
    pub fn put_logins(&self, reports: LoginReports) {
        self.logins.put(reports);
    }

    /// Measures what was done since the last time: to be called shortly after each second began, on a thread that may
    /// work for a moment.
    pub fn measure(&self) {
        self.metering.measure();
        self.replication_meter.measure();
    }

    /// Stores what is only in memory: the last measurements, and how far the retention clock is. To be called before a
    /// stop.
    pub async fn flush(&self) {
        self.metering.flush();
        self.clock.store().await;
    }

    /// The time of day, in seconds since 1970.
    pub fn now(&self) -> u64 {
        self.env.seconds()
    }

    /// How long the machine is up, in seconds: for what must not depend on the time of day.
    pub fn uptime(&self) -> u64 {
        self.env.uptime_seconds()
    }

    /// Publishes that objects of a kind have changed.
    pub(crate) fn publish_change(&self, topic: Topic) {
        self.bus.publish_change(topic);
    }

    /// Stores an event and publishes it.
    pub(crate) fn log_event(
        &self,
        severity: Severity,
        kind: &str,
        subject: Option<(&str, &str)>,
        message: String,
    ) {
        self.bus.log_event(severity, kind, subject, message);
    }

    /// The configuration. Its lock is recursive: a waiting writer does not block a reader that already holds it.
    pub(crate) fn config(&self) -> RwLockReadGuard<'_, Config> {
        self.configuration.read()
    }

    pub(crate) fn disk(&self, id: DiskId, name: &str) -> Result<Arc<engine::Volume>> {
        self.parts.engine.volume(id).ok_or_else(|| {
            Error::failed(
                &format!("volume {name:?} has no data"),
                "the engine has no volume with its identity",
            )
        })
    }
}
