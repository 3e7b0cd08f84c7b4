//! Event bus: what services and verbs publish, for subscribers and for the history.

use crate::events::catalogue;
use crate::parts::env::Env;
use crate::shape::view::Job;
use history::{NewEvent, Severity, Store};
use notify::AuditMessage;
use records::Topic;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;

/// Updates that a slow subscriber may lag before it misses some.
const BACKLOG: usize = 4096;
/// How long a subscriber in the background lets updates gather before it looks again: else it is woken for each of them, which takes
/// as much processor time as a change.
pub const GATHER: Duration = Duration::from_millis(20);

/// An update for subscribers.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// An event.
    Event(history::Event),
    /// Objects of this kind have changed.
    Changed(Topic),
    /// The transition of an alert, and the alert as it is now.
    Alert(history::AlertChange, history::Alert),
    /// A job began, went on or ended.
    Job(Job),
    /// An entry of the audit log whose outcome is known.
    Audit(Box<AuditMessage>),
    /// What the whole array did in the second that ends at a time, in seconds since 1970.
    Measured(u64, Box<history::Sample>),
}

/// Publishes updates and stores events.
pub(crate) struct EventBus {
    env: Arc<Env>,
    history: Arc<Store>,
    updates: broadcast::Sender<Update>,
}

impl EventBus {
    pub fn new(env: Arc<Env>, history: Arc<Store>) -> Self {
        Self { env, history, updates: broadcast::Sender::new(BACKLOG) }
    }

    /// Subscribes to all updates from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Update> {
        self.updates.subscribe()
    }

    /// Publishes an update.
    pub fn publish(&self, update: Update) {
        // There need not be a subscriber.
        let _ = self.updates.send(update);
    }

    /// Publishes that objects of a kind have changed.
    pub fn publish_change(&self, topic: Topic) {
        self.publish(Update::Changed(topic));
    }

    /// Stores an event and publishes it.
    pub fn log_event(&self, severity: Severity, kind: &str, subject: Option<(&str, &str)>, message: String) {
        debug_assert!(catalogue::is_event(kind), "the catalogue of messages has no event {kind}");
        let event = NewEvent {
            time: self.env.seconds(),
            severity,
            kind: kind.into(),
            message,
            noun: subject.map(|(noun, _)| noun.into()),
            name: subject.map(|(_, name)| name.into()),
        };
        match self.history.add_event(&event) {
            Ok(id) => self.publish(Update::Event(history::Event { id, event })),
            Err(error) => tracing::error!(%error, ?event, "an event could not be stored"),
        }
    }
}
