//! Delivery of alerts to notification targets (e-mail, webhook, syslog, SNMP), and of events, the audit log and statistics to
//! those by syslog.
//!
//! Targets are configuration records. Messages are queued in memory, sent on separate threads, and retried after a failure.
//! The queues are lost in a restart.

use crate::configuration::Configuration;
use crate::events::bus::{EventBus, GATHER, Update};
use crate::events::catalogue;
use crate::parts::env::Env;
use crate::parts::sealing::SealingKey;
use crate::service::condition::{self, About, Conditions};
use crate::service::delivery_queue::DeliveryQueue;
use crate::service::statistics::{self, Statistics};
use crate::shape::view::NotificationTarget;
use crate::{Error, Result};
use engine::Engine;
use history::{Alert, AlertChange, Condition, Severity};
use notify::{Deliver, LogMessage, Notification};
use parking_lot::Mutex;
use records::{ArrayIdentity, Config, Content, Named, NotificationTargetEntry, NotificationTargetId, Secret};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// Polling interval of the queues.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Consecutive failures of a target that raise an alert.
const FAILURES_FOR_ALERT: u32 = 3;

/// Alerts that wait for a target at most, and log messages that wait for one by syslog.
const MAX_WAITING_ALERTS: usize = 256;
const MAX_WAITING_LOG: usize = 4096;
/// Log messages that are sent over one connection at most.
const MAX_LOG_BATCH: usize = 256;

/// What waits for a target.
#[derive(Clone, Debug)]
enum Message {
    /// An alert, for targets that are no log.
    Alert(Notification),
    /// Any message, for logs.
    Log(LogMessage),
}

/// Messages that wait to be sent, by target.
#[derive(Default)]
struct Deliveries(Mutex<BTreeMap<NotificationTargetId, DeliveryQueue<Message>>>);

impl Deliveries {
    /// Queues a message of some content for the enabled targets that want it; `severity` is `None` for what has none.
    fn put(
        &self,
        config: &Config,
        (content, severity): (Content, Option<Severity>),
        message: impl Fn(&NotificationTargetEntry) -> Message,
    ) {
        let mut queues = self.0.lock();
        queues.retain(|id, _| config.notification_targets.get(*id).is_some());
        let accepts = |target: &&NotificationTargetEntry| {
            let severe = severity.is_none_or(|severity| severity >= target.least);
            target.enabled && severe && target.content.contains(&content)
        };
        for target in config.notification_targets.iter().filter(accepts) {
            let max = if target.destination.takes_log() { MAX_WAITING_LOG } else { MAX_WAITING_ALERTS };
            if !queues.entry(target.id).or_default().put(message(target), max) {
                tracing::warn!(target = target.name, "a notification is dropped: too many wait");
            }
        }
    }

    /// Takes what is due at an uptime for each enabled target: several messages for a log, one otherwise.
    fn take_due(&self, config: &Config, uptime: u64) -> Vec<Delivery> {
        let targets = config.notification_targets.iter();
        targets.filter_map(|target| self.take(config, target.id, uptime)).collect()
    }

    /// Takes what is due for one target.
    fn take(&self, config: &Config, id: NotificationTargetId, uptime: u64) -> Option<Delivery> {
        let target = config.notification_targets.get(id).filter(|target| target.enabled)?;
        let max = if target.destination.takes_log() { MAX_LOG_BATCH } else { 1 };
        let messages = self.0.lock().get_mut(&id)?.take(uptime, max);
        (!messages.is_empty()).then(|| Delivery { target: target.clone(), messages })
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
        let NotificationTargetEntry { name, created, destination, least, content, enabled, secret, .. } =
            entry.clone();
        NotificationTarget {
            name,
            created,
            destination: destination.shown(),
            severity: least,
            content,
            enabled,
            has_secret: secret.is_some(),
            delivered: queue.and_then(DeliveryQueue::delivered),
            failing: queue.and_then(|it| it.error().map(str::to_owned)),
            waiting: queue.map_or(0, DeliveryQueue::waiting),
            lost: queue.map_or(0, DeliveryQueue::lost),
        }
    }
}

/// Messages on their way to a target.
struct Delivery {
    target: NotificationTargetEntry,
    messages: Vec<Message>,
}

/// Delivers alerts and log messages to notification targets.
pub struct Notifier {
    env: Arc<Env>,
    bus: Arc<EventBus>,
    configuration: Arc<Configuration>,
    engine: Arc<Engine>,
    sealing: Arc<SealingKey>,
    identity: ArrayIdentity,
    /// Start time of the array, in seconds since 1970.
    started: u64,
    deliveries: Deliveries,
}

impl Notifier {
    pub(crate) fn new(
        (env, bus, configuration): (Arc<Env>, Arc<EventBus>, Arc<Configuration>),
        (engine, sealing): (Arc<Engine>, Arc<SealingKey>),
        identity: ArrayIdentity,
    ) -> Self {
        let (started, deliveries) = (env.seconds(), Deliveries::default());
        Self { env, bus, configuration, engine, sealing, identity, started, deliveries }
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

    /// Delivers alerts and log messages to notification targets. Does not return; run it in a separate task.
    pub async fn deliver(self: Arc<Self>) {
        let mut updates = self.bus.subscribe();
        let mut statistics = Statistics::default();
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                update = updates.recv() => {
                    let mut next = update.map_err(|error| match error {
                        RecvError::Lagged(count) => TryRecvError::Lagged(count),
                        RecvError::Closed => TryRecvError::Closed,
                    });
                    loop {
                        match next {
                            Ok(update) => self.queue(update, &mut statistics),
                            Err(TryRecvError::Lagged(count)) => {
                                tracing::error!(count, "messages may have been missed by notification targets");
                            }
                            Err(TryRecvError::Empty) => break,
                            Err(TryRecvError::Closed) => return,
                        }
                        next = updates.try_recv();
                    }
                }
                _ = poll.tick() => {}
            }
            self.send_due();
            tokio::time::sleep(GATHER).await;
        }
    }

    /// Queues what targets are sent about an update.
    fn queue(&self, update: Update, statistics: &mut Statistics) {
        match update {
            // A change of text or state within one severity is no news.
            Update::Alert(AlertChange::Updated, _) | Update::Changed(_) | Update::Job(_) => {}
            Update::Alert(change, alert) => {
                let severity = alert.condition.severity;
                let notification = self.notification(Some(change), alert);
                let message = |target: &NotificationTargetEntry| match target.destination.takes_log() {
                    true => Message::Log(LogMessage::of(&notification)),
                    false => Message::Alert(notification.clone()),
                };
                self.deliveries.put(&self.configuration.read(), (Content::Alerts, Some(severity)), message);
            }
            Update::Event(event) => self.queue_log((Content::Events, Some(event.event.severity)), |array| {
                LogMessage::of_event(array, &event)
            }),
            Update::Audit(entry) => {
                self.queue_log((Content::Audit, None), |array| LogMessage::of_audit(array, &entry));
            }
            Update::Measured(time, sample) => {
                if let Some(sum) = statistics.add(&sample) {
                    let content = (Content::Statistics, None);
                    self.queue_log(content, |array| statistics::performance(array, time, &sum));
                    let space = self.engine.space();
                    self.queue_log(content, |array| statistics::capacity(array, time, &space));
                }
            }
        }
    }

    /// Queues a log message of the array with this name and serial number.
    fn queue_log(&self, content: (Content, Option<Severity>), make: impl Fn((&str, &str)) -> LogMessage) {
        let config = self.configuration.read();
        let array = (config.name_of_array(&self.identity), &*self.identity.serial);
        self.deliveries.put(&config, content, |_| Message::Log(make(array)));
    }

    fn notification(&self, change: Option<AlertChange>, alert: Alert) -> Notification {
        let array = self.configuration.read().name_of_array(&self.identity).to_owned();
        let uptime = self.env.seconds().saturating_sub(self.started);
        Notification { array, serial: self.identity.serial.clone(), uptime, change, alert }
    }

    /// Sends what is due, for each target on a separate thread, because a target may be slow.
    fn send_due(self: &Arc<Self>) {
        let due = self.deliveries.take_due(&self.configuration.read(), self.env.uptime_seconds());
        for delivery in due {
            let notifier = self.clone();
            let id = delivery.target.id;
            let sent = on_thread(move || notifier.drain(delivery));
            if let Err(error) = sent {
                self.finish(id, Err(error.to_string()));
            }
        }
    }

    /// Sends what waits for a target until nothing does, or until it fails.
    fn drain(&self, first: Delivery) {
        let mut next = Some(first);
        while let Some(delivery) = next {
            let id = delivery.target.id;
            let outcome = self.send(&delivery);
            if let Err(error) = &outcome {
                tracing::warn!(target = delivery.target.name, error, "a notification could not be sent");
            }
            self.finish(id, outcome);
            // After a failure nothing is due.
            next = self.deliveries.take(&self.configuration.read(), id, self.env.uptime_seconds());
        }
    }

    fn finish(&self, id: NotificationTargetId, outcome: std::result::Result<(), String>) {
        self.deliveries.finish(id, self.env.uptime_seconds(), self.env.seconds(), outcome);
    }

    fn send(&self, Delivery { target, messages }: &Delivery) -> std::result::Result<(), String> {
        let secret = target.secret.as_ref().map(|sealed| self.sealing.open(sealed, &target.place()));
        let secret = secret.transpose().map_err(|error| error.message)?;
        let secret = secret.as_ref().map(Secret::expose);
        let destination = self.sealing.destination(target).map_err(|error| error.message)?;
        let mut log = Vec::new();
        for message in messages {
            match message {
                Message::Log(message) => log.push(message.clone()),
                Message::Alert(alert) => {
                    let sent = destination.send(secret, alert, self.env.seconds());
                    sent.map_err(|error| error.to_string())?;
                }
            }
        }
        match log.is_empty() || !destination.takes_log() {
            // What waited for a log is nothing for the target that it has become.
            true => Ok(()),
            false => destination.send_log(&log).map_err(|error| error.to_string()),
        }
    }

    /// Sends a test notification and waits for the result.
    pub(crate) async fn test(&self, name: &str) -> Result<()> {
        let target = self.configuration.read().notification_targets.named(name)?.clone();
        let now = self.env.seconds();
        let condition = Condition {
            kind: catalogue::TEST.into(),
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
        let destination = self.sealing.destination(&target)?;
        let (sender, sent) = tokio::sync::oneshot::channel();
        let started = on_thread(move || {
            let outcome = destination.send(secret.as_ref().map(Secret::expose), &notification, now);
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

#[cfg(test)]
#[path = "notifier_test.rs"]
mod tests;
