//! Operator requests about notification targets: e-mail, webhook, syslog, SNMP.

use crate::request::verbs;
use crate::transaction::Transaction;
use crate::view::NotificationTarget;
use crate::{Error, Result, check};
use history::Severity;
use notify::Deliver;
use records::{
    Content, Destination, Edit, Named, NotificationTargetEntry, NotificationTargetId, Record, Secret,
};
use serde::Serialize;
use std::collections::BTreeSet;

/// Maximum number of targets.
const MAX_TARGETS: usize = 64;

/// What to change of a notification target; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NotificationTargetChange {
    /// Another name.
    pub name: Option<String>,
    /// Another destination. The secret goes, as it was meant for the old one.
    pub destination: Option<Destination>,
    /// Another secret, or none.
    pub secret: Option<Option<Secret>>,
    /// The lowest severity of alerts and events that is sent.
    pub least: Option<Severity>,
    /// What is sent.
    pub content: Option<BTreeSet<Content>>,
    /// Whether anything is sent.
    pub enabled: Option<bool>,
}

/// All notification targets, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListNotificationTargets;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowNotificationTarget {
    /// Its name.
    pub name: String,
}

/// Create a notification target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateNotificationTarget {
    /// Its name.
    pub name: String,
    /// Where notices go.
    pub destination: Destination,
    /// What it is depends on the destination.
    pub secret: Option<Secret>,
    /// The lowest severity of alerts and events that is sent.
    pub least: Severity,
    /// What is sent. All but alerts is for syslog only.
    pub content: BTreeSet<Content>,
    /// Whether anything is sent.
    pub enabled: bool,
}

/// Change a notification target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeNotificationTarget {
    /// Its name.
    pub name: String,
    /// What to change.
    pub change: NotificationTargetChange,
}

/// Delete a notification target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeleteNotificationTarget {
    /// Its name.
    pub name: String,
}

/// Send a test notification, and wait for its delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestNotificationTarget {
    /// Its name.
    pub name: String,
}

verbs! {
    ListNotificationTargets -> Vec<NotificationTarget>, Read "list" "notification target", Viewer
        => |tx, _| Ok(tx.array.config().notification_targets.iter().map(|found| tx.array.notifier.show(found)).collect());
    ShowNotificationTarget -> NotificationTarget, Read "show" "notification target", Viewer, about name
        => |tx, it| tx.array.config().notification_targets.named(&it.name).map(|found| tx.array.notifier.show(found));
    CreateNotificationTarget -> NotificationTarget, Change "create" "notification target", Admin, about name
        => |tx, it| tx.create_target(it).await;
    ChangeNotificationTarget -> NotificationTarget, Change "change" "notification target", Admin, about name
        => |tx, it| tx.change_target(&it.name, it.change).await;
    DeleteNotificationTarget -> (), Change "delete" "notification target", Admin, about name
        => |tx, it| tx.delete_target(&it.name).await;
    TestNotificationTarget -> (), Probe "test" "notification target", Admin, about name
        => |tx, it| tx.array.notifier.test(&it.name).await;
}

impl Transaction<'_> {
    pub async fn create_target(&mut self, new: CreateNotificationTarget) -> Result<NotificationTarget> {
        let CreateNotificationTarget { name, destination, secret, least, content, enabled } = new;
        check::name(NotificationTargetEntry::NOUN, &name)?;
        {
            let config = self.array.config();
            config.notification_targets.free(&name)?;
            if config.notification_targets.len() >= MAX_TARGETS {
                return Err(Error::precondition(format!(
                    "there are {MAX_TARGETS} notification targets: delete one first"
                )));
            }
        }
        let (id, created) = (NotificationTargetId(self.id64()), self.now());
        let mut entry =
            NotificationTargetEntry { id, name, created, destination, least, content, enabled, secret: None };
        self.seal_for(&mut entry, secret.as_ref())?;
        self.put_target(entry, "created").await
    }

    pub async fn change_target(
        &mut self,
        name: &str,
        change: NotificationTargetChange,
    ) -> Result<NotificationTarget> {
        let mut entry = self.array.config().notification_targets.named(name)?.clone();
        if let Some(new) = change.name.filter(|new| *new != entry.name) {
            check::name(NotificationTargetEntry::NOUN, &new)?;
            self.array.config().notification_targets.free(&new)?;
            entry.name = new;
        }
        // What is hidden of a destination stays if the rest is sent as it was shown.
        let destination = change.destination.map(|new| new.completed_by(&entry.destination));
        if let Some(destination) = destination.filter(|new| *new != entry.destination) {
            entry.destination = destination;
            entry.secret = None;
        }
        if let Some(secret) = &change.secret {
            self.seal_for(&mut entry, secret.as_ref())?;
        }
        entry.least = change.least.unwrap_or(entry.least);
        entry.content = change.content.unwrap_or(entry.content);
        entry.enabled = change.enabled.unwrap_or(entry.enabled);
        // What waits may go now.
        self.array.notifier.retry(entry.id);
        self.put_target(entry, "changed").await
    }

    pub async fn delete_target(&mut self, name: &str) -> Result<()> {
        let entry = self.array.config().notification_targets.named(name)?.clone();
        self.array.notifier.forget(entry.id);
        self.commit(vec![Edit::Remove(Record::NotificationTarget(entry))]).await?;
        self.done("notification.deleted", NotificationTargetEntry::NOUN, name, "was deleted");
        Ok(())
    }

    fn seal_for(&self, entry: &mut NotificationTargetEntry, secret: Option<&Secret>) -> Result<()> {
        let array = self.array;
        if let Some(secret) = secret {
            entry.destination.check_secret(secret.expose()).map_err(wrong)?;
        }
        let seal = |secret| array.parts.sealing.seal(secret, &entry.place(), (array.env.random)());
        entry.secret = secret.map(seal).transpose()?;
        Ok(())
    }

    async fn put_target(&mut self, entry: NotificationTargetEntry, what: &str) -> Result<NotificationTarget> {
        // What is in use may be wrong by now, such as a certificate that has expired: it can be renamed and disabled all the same.
        let is_same = |known: &NotificationTargetEntry| {
            (&known.destination, &known.secret) == (&entry.destination, &entry.secret)
        };
        if !self.array.config().notification_targets.get(entry.id).is_some_and(is_same) {
            entry.destination.check(entry.secret.is_some()).map_err(wrong)?;
        }
        check_content(&entry)?;
        self.commit(vec![Edit::Put(Record::NotificationTarget(entry.clone()))]).await?;
        self.done(
            &format!("notification.{what}"),
            NotificationTargetEntry::NOUN,
            &entry.name,
            &format!("was {what}"),
        );
        Ok(self.array.notifier.show(&entry))
    }
}

/// Refuses content that the destination can't have.
fn check_content(entry: &NotificationTargetEntry) -> Result<()> {
    if entry.content.is_empty() {
        return Err(Error::invalid("a notification target has content: alerts, events, audit or statistics"));
    }
    match entry.destination.takes_log() || entry.content.iter().all(|it| *it == Content::Alerts) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "a target of kind {} takes alerts only: events, the audit log and statistics go by syslog",
            entry.destination.kind()
        ))),
    }
}

fn wrong(error: notify::Error) -> Error {
    Error::invalid(error.to_string())
}
