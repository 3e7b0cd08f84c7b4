//! Notification targets and delivery of alerts to them: e-mail, webhook, syslog, SNMP.
//!
//! Targets are records. Notices wait in memory, are sent on threads of their own, and are sent again after a failure.
//! After a restart only new alerts are sent, not what was waiting.

use crate::array::{Array, Transaction, Update};
use crate::condition::{self, About, Conditions};
use crate::delivery_queue::DeliveryQueue;
use crate::verb::verbs;
use crate::{Error, Result, check};
use history::{Alert, AlertChange, Condition, Severity};
use notify::{Destination, Notification};
use parking_lot::Mutex;
use records::{Config, Edit, Named, Record, Secret, TargetEntry, TargetId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;

/// How often the queues are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A target that fails so often one after the other is worth an alert.
const FAILING: u32 = 3;
/// Most targets.
const MAX_TARGETS: usize = 64;

/// A notification target as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Where notices go.
    pub destination: Destination,
    /// The lowest severity that is sent.
    pub least: Severity,
    /// Whether anything is sent.
    pub enabled: bool,
    /// There is a secret.
    pub has_secret: bool,
    /// When a notification arrived last since the array began to serve, in seconds since 1970.
    pub delivered: Option<u64>,
    /// Why the last one did not.
    pub failing: Option<String>,
    /// Notices that wait.
    pub waiting: usize,
    /// Notices that were dropped because too many waited.
    pub lost: u64,
}

/// What to change of a notification target; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TargetChange {
    /// Another name.
    pub name: Option<String>,
    /// Another destination. The secret goes, as it was meant for the old one.
    pub destination: Option<Destination>,
    /// Another secret, or none.
    pub secret: Option<Option<Secret>>,
    /// The lowest severity that is sent.
    pub least: Option<Severity>,
    /// Whether anything is sent.
    pub enabled: Option<bool>,
}

/// Notifications that wait to be sent, by target.
#[derive(Default)]
pub(crate) struct Deliveries(Mutex<BTreeMap<TargetId, DeliveryQueue<Notification>>>);

impl Deliveries {
    /// Queues a notification for the targets that want its severity.
    fn put(&self, config: &Config, notification: &Notification) {
        let mut queues = self.0.lock();
        queues.retain(|id, _| config.targets.get(*id).is_some());
        let severity = notification.alert.condition.severity;
        let wants = |target: &&TargetEntry| target.enabled && severity >= target.least;
        for target in config.targets.iter().filter(wants) {
            if !queues.entry(target.id).or_default().put(notification.clone()) {
                tracing::warn!(target = target.name, "a notification is dropped: too many wait");
            }
        }
    }

    /// Takes what is due at an uptime, at most one for each target.
    fn take_due(&self, config: &Config, uptime: u64) -> Vec<(TargetEntry, Notification)> {
        let mut queues = self.0.lock();
        let enabled = config.targets.iter().filter(|target| target.enabled);
        enabled.filter_map(|it| Some((it.clone(), queues.get_mut(&it.id)?.take(uptime)?))).collect()
    }

    /// Ends the delivery that was taken for a target, at an uptime and a time of day.
    fn finish(&self, id: TargetId, uptime: u64, now: u64, outcome: std::result::Result<(), String>) {
        if let Some(queue) = self.0.lock().get_mut(&id) {
            queue.done(uptime, now, outcome);
        }
    }

    /// Retries a target at once.
    fn retry(&self, id: TargetId) {
        if let Some(queue) = self.0.lock().get_mut(&id) {
            queue.hurry();
        }
    }

    fn forget(&self, id: TargetId) {
        self.0.lock().remove(&id);
    }

    /// Whether deliveries to a target fail repeatedly.
    fn is_failing(&self, id: TargetId) -> bool {
        self.0.lock().get(&id).is_some_and(|queue| queue.tries() >= FAILING)
    }

    /// A target with the state of its deliveries.
    fn show(&self, entry: &TargetEntry) -> Target {
        let queues = self.0.lock();
        let queue = queues.get(&entry.id);
        let TargetEntry { name, created, destination, least, enabled, secret, .. } = entry.clone();
        Target {
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

/// All notification targets, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListTargets;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowTarget {
    /// Its name.
    pub name: String,
}

/// Create a notification target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateTarget {
    /// Its name.
    pub name: String,
    /// Where notices go.
    pub destination: Destination,
    /// What it is depends on the destination.
    pub secret: Option<Secret>,
    /// The lowest severity that is sent.
    pub least: Severity,
    /// Whether anything is sent.
    pub enabled: bool,
}

/// Change a notification target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeTarget {
    /// Its name.
    pub name: String,
    /// What to change.
    pub change: TargetChange,
}

/// Delete a notification target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeleteTarget {
    /// Its name.
    pub name: String,
}

/// Send a test notification, and wait for its delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestTarget {
    /// Its name.
    pub name: String,
}

verbs! {
    ListTargets -> Vec<Target>, Read "list" "notification target", Viewer
        => |tx, _| Ok(tx.array.config().targets.iter().map(|found| tx.array.deliveries.show(found)).collect());
    ShowTarget -> Target, Read "show" "notification target", Viewer, about name
        => |tx, it| tx.array.config().targets.named(&it.name).map(|found| tx.array.deliveries.show(found));
    CreateTarget -> Target, Change "create" "notification target", Admin, about name
        => |tx, it| tx.create_target(it).await;
    ChangeTarget -> Target, Change "change" "notification target", Admin, about name
        => |tx, it| tx.change_target(&it.name, it.change).await;
    DeleteTarget -> (), Change "delete" "notification target", Admin, about name
        => |tx, it| tx.delete_target(&it.name).await;
    TestTarget -> (), Probe "test" "notification target", Admin, about name
        => |tx, it| tx.array.test_target(&it.name).await;
}

impl Array {
    /// Delivers alerts to notification targets. Never ends; belongs in a task of its own.
    pub async fn deliver(self: Arc<Self>) {
        let mut updates = self.subscribe();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                update = updates.recv() => match update {
                    Ok(Update::Alert(AlertChange::Updated, _)) => {}
                    Ok(Update::Alert(change, alert)) => {
                        self.deliveries.put(&self.config(), &self.notification(Some(change), alert));
                    }
                    Ok(_) => continue,
                    Err(RecvError::Lagged(count)) => {
                        tracing::error!(count, "alerts may have been missed by notification targets");
                    }
                    Err(RecvError::Closed) => return,
                },
                _ = look.tick() => {}
            }
            self.send_due();
        }
    }

    fn notification(&self, change: Option<AlertChange>, alert: Alert) -> Notification {
        let array = self.name(&self.config());
        let uptime = self.now().saturating_sub(self.started);
        Notification { array, serial: self.identity.serial.clone(), uptime, change, alert }
    }

    /// Sends what is due, each on a thread of its own: the other side may take its time.
    fn send_due(self: &Arc<Self>) {
        let due = self.deliveries.take_due(&self.config(), self.uptime());
        for (target, notification) in due {
            let array = self.clone();
            let id = target.id;
            let sent = on_thread(move || array.sent(&target, &notification));
            if let Err(error) = sent {
                self.deliveries.finish(id, self.uptime(), self.now(), Err(error.to_string()));
            }
        }
    }

    fn sent(&self, target: &TargetEntry, notification: &Notification) {
        let outcome = self.send(target, notification);
        if let Err(error) = &outcome {
            tracing::warn!(target = target.name, error, "a notification could not be sent");
        }
        self.deliveries.finish(target.id, self.uptime(), self.now(), outcome);
    }

    fn send(&self, target: &TargetEntry, notification: &Notification) -> std::result::Result<(), String> {
        let secret = target.secret.as_ref().map(|sealed| self.parts.sealing.open(sealed, &target.place()));
        let secret = secret.transpose().map_err(|error| error.message)?;
        let secret = secret.as_ref().map(Secret::expose);
        target.destination.send(secret, notification, self.now()).map_err(|error| error.to_string())
    }

    /// Sends a notification that says that it is a test, and waits for it.
    pub(crate) async fn test_target(self: &Array, name: &str) -> Result<()> {
        let target = self.config().targets.named(name)?.clone();
        let now = self.now();
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
        let secret = target.secret.as_ref().map(|sealed| self.parts.sealing.open(sealed, &target.place()));
        let secret = secret.transpose()?;
        let (sender, sent) = tokio::sync::oneshot::channel();
        let started = on_thread(move || {
            let outcome = target.destination.send(secret.as_ref().map(Secret::expose), &notification, now);
            // Whoever asked may be gone.
            let _ = sender.send(outcome);
        });
        started.map_err(|error| Error::failed("a thread can't be started", error))?;
        match sent.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Error::precondition(format!("the test did not arrive: {error}"))),
            Err(_) => Err(Error::failed("the test broke off", "its thread ended")),
        }
    }

    /// Targets that nothing gets to.
    pub(crate) fn target_conditions(&self) -> Conditions {
        let (mut found, config) = (Conditions::default(), self.config());
        for target in config.targets.iter().filter(|target| target.enabled) {
            if self.deliveries.is_failing(target.id) {
                let about = About { noun: TargetEntry::NOUN, name: &target.name, key: &target.place() };
                condition::add(&mut found, "notification.failing", Severity::Warning, Some(about), &|| {
                    format!(
                        "nothing gets to the notification target {:?}: test it (ashlar notification test)",
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

impl Transaction<'_> {
    pub async fn create_target(&mut self, new: CreateTarget) -> Result<Target> {
        let CreateTarget { name, destination, secret, least, enabled } = new;
        check::name(TargetEntry::NOUN, &name)?;
        {
            let config = self.array.config();
            config.targets.free(&name)?;
            if config.targets.len() >= MAX_TARGETS {
                return Err(Error::precondition(format!(
                    "there are {MAX_TARGETS} notification targets: delete one first"
                )));
            }
        }
        let (id, created) = (TargetId(self.id64()), self.now());
        let mut entry = TargetEntry { id, name, created, destination, least, enabled, secret: None };
        self.seal_for(&mut entry, secret.as_ref())?;
        self.put_target(entry, "created").await
    }

    pub async fn change_target(&mut self, name: &str, change: TargetChange) -> Result<Target> {
        let mut entry = self.array.config().targets.named(name)?.clone();
        if let Some(new) = change.name.filter(|new| *new != entry.name) {
            check::name(TargetEntry::NOUN, &new)?;
            self.array.config().targets.free(&new)?;
            entry.name = new;
        }
        if let Some(destination) = change.destination.filter(|new| *new != entry.destination) {
            entry.destination = destination;
            entry.secret = None;
        }
        if let Some(secret) = &change.secret {
            self.seal_for(&mut entry, secret.as_ref())?;
        }
        entry.least = change.least.unwrap_or(entry.least);
        entry.enabled = change.enabled.unwrap_or(entry.enabled);
        // What waits may go now.
        self.array.deliveries.retry(entry.id);
        self.put_target(entry, "changed").await
    }

    pub async fn delete_target(&mut self, name: &str) -> Result<()> {
        let entry = self.array.config().targets.named(name)?.clone();
        self.array.deliveries.forget(entry.id);
        self.commit(vec![Edit::Remove(Record::Target(entry))]).await?;
        self.done("notification.deleted", TargetEntry::NOUN, name, "was deleted");
        Ok(())
    }

    fn seal_for(&self, entry: &mut TargetEntry, secret: Option<&Secret>) -> Result<()> {
        let array = self.array;
        if let Some(secret) = secret {
            entry.destination.check_secret(secret.expose()).map_err(wrong)?;
        }
        let seal = |secret| array.parts.sealing.seal(secret, &entry.place(), (array.env.random)());
        entry.secret = secret.map(seal).transpose()?;
        Ok(())
    }

    async fn put_target(&mut self, entry: TargetEntry, what: &str) -> Result<Target> {
        entry.destination.check(entry.secret.is_some()).map_err(wrong)?;
        self.commit(vec![Edit::Put(Record::Target(entry.clone()))]).await?;
        self.done(&format!("notification.{what}"), TargetEntry::NOUN, &entry.name, &format!("was {what}"));
        Ok(self.array.deliveries.show(&entry))
    }
}

fn wrong(error: notify::Error) -> Error {
    Error::invalid(error.to_string())
}
