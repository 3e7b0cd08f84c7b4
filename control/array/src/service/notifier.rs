//! Delivery of alerts to notification targets: e-mail, webhook, syslog, SNMP.
//!
//! Targets are configuration records. Notifications are queued in memory, sent on separate threads, and retried after
//! a failure. The queues are lost in a restart.

use crate::bus::{EventBus, Update};
use crate::condition::{self, About, Conditions};
use crate::configuration::Configuration;
use crate::delivery_queue::DeliveryQueue;
use crate::env::Env;
use crate::sealing::SealingKey;
use crate::view::NotificationTarget;
use crate::{Error, Result};
use history::{Alert, AlertChange, Condition, Severity};
use notify::Notification;
use parking_lot::Mutex;
use records::{ArrayIdentity, Config, Named, NotificationTargetEntry, NotificationTargetId, Secret};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;

/// Polling interval of the queues.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Consecutive failures of a target that raise an alert.
const FAILURES_FOR_ALERT: u32 = 3;
/// Notifications that wait to be sent, by target.
#[derive(Default)]
struct Deliveries(Mutex<BTreeMap<NotificationTargetId, DeliveryQueue<Notification>>>);

impl Deliveries {
    /// Queues a notification for the enabled targets whose minimum severity it reaches.
    fn put(&self, config: &Config, notification: &Notification) {
        let mut queues = self.0.lock();
        queues.retain(|id, _| config.notification_targets.get(*id).is_some());
        let severity = notification.alert.condition.severity;
        let accepts = |target: &&NotificationTargetEntry| target.enabled && severity >= target.least;
        for target in config.notification_targets.iter().filter(accepts) {
            if !queues.entry(target.id).or_default().put(notification.clone()) {
                tracing::warn!(target = target.name, "a notification is dropped: too many wait");
            }
        }
    }

    /// Takes what is due at an uptime, at most one for each target.
    fn take_due(&self, config: &Config, uptime: u64) -> Vec<(NotificationTargetEntry, Notification)> {
        let mut queues = self.0.lock();
        let enabled = config.notification_targets.iter().filter(|target| target.enabled);
        enabled.filter_map(|it| Some((it.clone(), queues.get_mut(&it.id)?.take(uptime)?))).collect()
    }

    /// Ends the delivery that was taken for a target, at an uptime and a time of day.
    fn finish(
        &self,
        id: NotificationTargetId,
        uptime: u64,
        now: u64,
        outcome: std::result::Result<(), String>,
    ) {
        if let Some(queue) = self.0.lock().get_mut(&id) {
            queue.done(uptime, now, outcome);
        }
    }

    /// Retries a target at once.
    fn retry(&self, id: NotificationTargetId) {
        if let Some(queue) = self.0.lock().get_mut(&id) {
            queue.hurry();
        }
    }

    fn forget(&self, id: NotificationTargetId) {
        self.0.lock().remove(&id);
    }

    /// Whether deliveries to a target fail repeatedly.
    fn is_failing(&self, id: NotificationTargetId) -> bool {
        self.0.lock().get(&id).is_some_and(|queue| queue.tries() >= FAILURES_FOR_ALERT)
    }

    /// A target with the state of its deliveries.
    fn show(&self, entry: &NotificationTargetEntry) -> NotificationTarget {
        let queues = self.0.lock();
        let queue = queues.get(&entry.id);
        let NotificationTargetEntry { name, created, destination, least, enabled, secret, .. } =
            entry.clone();
        NotificationTarget {
            name,
            created,
            destination,
            least,
            enabled,
            has_secret: secret.is_some(),
            delivered: queue.and_then(DeliveryQueue::delivered),
            failing: queue.and_then(|it| it.error().map(str::to_owned)),
            waiting: queue.map_or(0, DeliveryQueue::waiting),
            lost: queue.map_or(0, DeliveryQueue::lost),
        }
    }
}

/// Delivers alerts to notification targets.
pub struct Notifier {
    env: Arc<Env>,
    bus: Arc<EventBus>,
    configuration: Arc<Configuration>,
    sealing: Arc<SealingKey>,
    identity: ArrayIdentity,
    /// Start time of the array, in seconds since 1970.
    started: u64,
    deliveries: Deliveries,
}

impl Notifier {
    pub(crate) fn new(
        (env, bus, configuration): (Arc<Env>, Arc<EventBus>, Arc<Configuration>),
        sealing: Arc<SealingKey>,
        identity: ArrayIdentity,
    ) -> Self {
        let started = env.seconds();
        Self { env, bus, configuration, sealing, identity, started, deliveries: Deliveries::default() }
    }

    /// A target with the state of its deliveries.
    pub(crate) fn show(&self, entry: &NotificationTargetEntry) -> NotificationTarget {
        self.deliveries.show(entry)
    }

    /// Retries a target at once.
    pub(crate) fn retry(&self, id: NotificationTargetId) {
        self.deliveries.retry(id);
    }

    /// Drops the queue of a target.
    pub(crate) fn forget(&self, id: NotificationTargetId) {
        self.deliveries.forget(id);
    }

    /// Delivers alerts to notification targets. Does not return; run it in a separate task.
    pub async fn deliver(self: Arc<Self>) {
        let mut updates = self.bus.subscribe();
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                update = updates.recv() => match update {
                    Ok(Update::Alert(AlertChange::Updated, _)) => {}
                    Ok(Update::Alert(change, alert)) => {
                        self.deliveries.put(&self.configuration.read(), &self.notification(Some(change), alert));
                    }
                    Ok(_) => continue,
                    Err(RecvError::Lagged(count)) => {
                        tracing::error!(count, "alerts may have been missed by notification targets");
                    }
                    Err(RecvError::Closed) => return,
                },
                _ = poll.tick() => {}
            }
            self.send_due();
        }
    }

    fn notification(&self, change: Option<AlertChange>, alert: Alert) -> Notification {
        let array = self.configuration.read().name_of_array(&self.identity).to_owned();
        let uptime = self.env.seconds().saturating_sub(self.started);
        Notification { array, serial: self.identity.serial.clone(), uptime, change, alert }
    }

    /// Sends what is due, each on a separate thread, because a target may be slow.
    fn send_due(self: &Arc<Self>) {
        let due = self.deliveries.take_due(&self.configuration.read(), self.env.uptime_seconds());
        for (target, notification) in due {
            let notifier = self.clone();
            let id = target.id;
            let sent = on_thread(move || notifier.sent(&target, &notification));
            if let Err(error) = sent {
                self.deliveries.finish(
                    id,
                    self.env.uptime_seconds(),
                    self.env.seconds(),
                    Err(error.to_string()),
                );
            }
        }
    }

    fn sent(&self, target: &NotificationTargetEntry, notification: &Notification) {
        let outcome = self.send(target, notification);
        if let Err(error) = &outcome {
            tracing::warn!(target = target.name, error, "a notification could not be sent");
        }
        self.deliveries.finish(target.id, self.env.uptime_seconds(), self.env.seconds(), outcome);
    }

    fn send(
        &self,
        target: &NotificationTargetEntry,
        notification: &Notification,
    ) -> std::result::Result<(), String> {
        let secret = target.secret.as_ref().map(|sealed| self.sealing.open(sealed, &target.place()));
        let secret = secret.transpose().map_err(|error| error.message)?;
        let secret = secret.as_ref().map(Secret::expose);
        target.destination.send(secret, notification, self.env.seconds()).map_err(|error| error.to_string())
    }

    /// Sends a test notification and waits for the result.
    pub(crate) async fn test(&self, name: &str) -> Result<()> {
        let target = self.configuration.read().notification_targets.named(name)?.clone();
        let now = self.env.seconds();
        let condition = Condition {
            kind: "test".into(),
            severity: Severity::Info,
            message: "this is a test of a notification target: no action is needed".into(),
            noun: Some("notification target".into()),
            name: Some(name.into()),
        };
        let (key, acknowledged, closed) = ("test".into(), None, None);
        let alert = Alert { id: 0, key, condition, opened: now, changed: now, acknowledged, closed };
        let notification = self.notification(None, alert);
        let secret = target.secret.as_ref().map(|sealed| self.sealing.open(sealed, &target.place()));
        let secret = secret.transpose()?;
        let (sender, sent) = tokio::sync::oneshot::channel();
        let started = on_thread(move || {
            let outcome = target.destination.send(secret.as_ref().map(Secret::expose), &notification, now);
            // The requester may have given up.
            let _ = sender.send(outcome);
        });
        started.map_err(|error| Error::failed("a thread can't be started", error))?;
        match sent.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Error::precondition(format!("the test did not arrive: {error}"))),
            Err(_) => Err(Error::failed("the test broke off", "its thread ended")),
        }
    }

    /// Targets whose deliveries fail repeatedly.
    pub(crate) fn conditions(&self) -> Conditions {
        let (mut found, config) = (Conditions::default(), self.configuration.read());
        for target in config.notification_targets.iter().filter(|target| target.enabled) {
            if self.deliveries.is_failing(target.id) {
                let about =
                    About { noun: NotificationTargetEntry::NOUN, name: &target.name, key: &target.place() };
                condition::add(&mut found, "notification.failing", Severity::Warning, Some(about), &|| {
                    format!(
                        "deliveries to the notification target {:?} fail: test it (ashlar notification test)",
                        target.name
                    )
                });
            }
        }
        found
    }
}

fn on_thread(body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name("notify".into()).spawn(body).map(drop)
}
