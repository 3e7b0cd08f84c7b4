//! Operator requests about notification targets: e-mail, webhook, syslog, SNMP.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::parts::sealing::SealingKey;
use crate::request::verbs;
use crate::shape::view::NotificationTarget;
use crate::{Caller, Error, Result};
use history::Severity;
use notify::Deliver;
use records::{
    Content, Destination, Edit, Named, NotificationTargetEntry, NotificationTargetId, Record, Secret, present,
};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// Maximum number of targets.
const MAX_TARGETS: usize = 64;

/// A new alert notification target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewNotificationTarget)]
pub struct CreateNotificationTarget {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    pub name: String,
    /// Destination.
    pub destination: Destination,
    /// Signature key, password, passphrase or community, depending on the destination.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = Password)]
    pub secret: Option<Secret>,
    /// Minimum severity of alerts and events to send; default `warning`.
    #[serde(default = "warning")]
    pub severity: Severity,
    /// What is sent; default `alerts`. All but alerts is for syslog only.
    #[serde(default = "Content::default_set", deserialize_with = "content")]
    #[schema(value_type = Option<Vec<Content>>)]
    pub content: BTreeSet<Content>,
    /// Whether notifications are sent; default true.
    #[serde(default = "yes")]
    pub enabled: bool,
}

fn warning() -> Severity {
    Severity::Warning
}

fn yes() -> bool {
    true
}

fn content<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<BTreeSet<Content>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(Content::default_set))
}

/// Changes to a notification target. Omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationTargetChange {
    /// New name.
    pub name: Option<String>,
    /// New destination. The stored secret is discarded.
    pub destination: Option<Destination>,
    /// New secret; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = Password)]
    pub secret: Option<Option<Secret>>,
    /// Minimum severity of alerts and events to send.
    pub severity: Option<Severity>,
    /// What is sent. All but alerts is for syslog only.
    #[schema(value_type = Option<Vec<Content>>)]
    pub content: Option<BTreeSet<Content>>,
    /// Whether notifications are sent.
    pub enabled: Option<bool>,
}

verbs! {
    #![tag = "events"]

    /// List alert notification targets
    ListNotificationTargets {} -> Vec<NotificationTarget>, Read "list" "notification target", Viewer,
        at GET "/notification-targets" says "The targets"
        => |tx, _| Ok(tx.array.config().notification_targets.iter().map(|found| tx.array.notifier.show(found)).collect());
    /// Get an alert notification target
    ShowNotificationTarget { name } -> NotificationTarget, Read "show" "notification target", Viewer, about name,
        at GET "/notification-targets/{name}" says "The target"
        => |tx, it| tx.array.config().notification_targets.named(&it.name).map(|found| tx.array.notifier.show(found));
    /// Create an alert notification target
    CreateNotificationTarget -> NotificationTarget, Change "create" "notification target", Admin, about name,
        at POST "/notification-targets" 201 says "The new target"
        => |tx, it| tx.create_target(it).await;
    /// Change an alert notification target
    ChangeNotificationTarget { name; body change: NotificationTargetChange } -> NotificationTarget,
        Change "change" "notification target", Admin, about name,
        at PATCH "/notification-targets/{name}" says "The target"
        => |tx, it| tx.change_target(&it.name, it.change).await;
    /// Delete an alert notification target
    DeleteNotificationTarget { name } -> (), Change "delete" "notification target", Admin, about name,
        at DELETE "/notification-targets/{name}"
        => |tx, it| tx.delete_target(&it.name).await;
    /// Send a test notification
    ///
    /// Waits for delivery as far as the protocol confirms it. The returned problem describes a failure.
    TestNotificationTarget { name } -> (), Probe "test" "notification target", Admin, about name,
        at POST "/notification-targets/{name}/test" says "Delivered"
        => |tx, it| tx.array.notifier.test(&it.name).await;
}

impl Transaction<'_> {
    pub async fn create_target(&mut self, new: CreateNotificationTarget) -> Result<NotificationTarget> {
        let CreateNotificationTarget { name, destination, secret, severity: least, content, enabled } = new;
        check::name(NotificationTargetEntry::NOUN, &name)?;
        {
            let config = self.config();
            config.notification_targets.free(&name)?;
            if config.notification_targets.len() >= MAX_TARGETS {
                return Err(Error::precondition(format!(
                    "there are {MAX_TARGETS} notification targets: delete one first"
                )));
            }
        }
        let (id, created) = (NotificationTargetId(self.id64()), self.now());
        let mut entry = NotificationTargetEntry {
            id,
            name,
            created,
            destination,
            url: None,
            least,
            content,
            enabled,
            secret: None,
        };
        self.seal_for(&mut entry, secret.as_ref())?;
        self.put_target(entry, "created").await
    }

    pub async fn change_target(
        &mut self,
        name: &str,
        change: NotificationTargetChange,
    ) -> Result<NotificationTarget> {
        let mut entry = self.config().notification_targets.named(name)?.clone();
        if let Some(new) = change.name.filter(|new| *new != entry.name) {
            check::name(NotificationTargetEntry::NOUN, &new)?;
            self.config().notification_targets.free(&new)?;
            entry.name = new;
        }
        if let Some(new) = change.destination {
            let known = self.array.parts.sealing.destination(&entry)?;
            // What is hidden of a destination stays if the rest is sent as it was shown.
            let new = new.completed_by(&known);
            if new != known {
                entry.destination = new;
                (entry.url, entry.secret) = (None, None);
            }
        }
        if let Some(secret) = &change.secret {
            self.seal_for(&mut entry, secret.as_ref())?;
        }
        entry.least = change.severity.unwrap_or(entry.least);
        entry.content = change.content.unwrap_or(entry.content);
        entry.enabled = change.enabled.unwrap_or(entry.enabled);
        // What waits may go now.
        if !self.is_rehearsal() {
            self.array.notifier.retry(entry.id);
        }
        self.put_target(entry, "changed").await
    }

    pub async fn delete_target(&mut self, name: &str) -> Result<()> {
        let entry = self.config().notification_targets.named(name)?.clone();
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

    async fn put_target(
        &mut self,
        mut entry: NotificationTargetEntry,
        what: &str,
    ) -> Result<NotificationTarget> {
        let sealing = self.array.parts.sealing.clone();
        // What is in use may be wrong by now, such as a certificate that has expired: it can be renamed and disabled all the same.
        let is_same = |known: &NotificationTargetEntry| {
            (&known.destination, &known.url, &known.secret) == (&entry.destination, &entry.url, &entry.secret)
        };
        if !self.config().notification_targets.get(entry.id).is_some_and(is_same) {
            sealing.destination(&entry)?.check(entry.secret.is_some()).map_err(wrong)?;
        }
        sealing.seal_destination(&mut entry, (self.array.env.random)())?;
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

impl SealingKey {
    /// The whole destination of a target.
    ///
    /// # Errors
    /// When its address can't be opened.
    pub(crate) fn destination(&self, target: &NotificationTargetEntry) -> Result<Destination> {
        match (&target.url, &target.destination) {
            (Some(sealed), Destination::Webhook { ca, .. }) => {
                let url = self.open(sealed, &target.url_place())?.expose().to_owned();
                Ok(Destination::Webhook { url, ca: ca.clone() })
            }
            (_, destination) => Ok(destination.clone()),
        }
    }

    /// Seals what is not to be shown of a destination, also that of a record of an earlier release. `random`: a number that was
    /// never used before with this key.
    fn seal_destination(&self, target: &mut NotificationTargetEntry, random: u128) -> Result<()> {
        let shown = target.destination.shown();
        if let Destination::Webhook { url, .. } = &target.destination
            && target.url.is_none()
            && shown != target.destination
        {
            target.url = Some(self.seal(&Secret::new(url.clone()), &target.url_place(), random)?);
            target.destination = shown;
        }
        Ok(())
    }
}

impl Array {
    /// Seals the addresses of webhooks that an earlier release has stored as they are.
    pub(crate) async fn seal_stored_destinations(&self) -> Result<()> {
        let _one_at_a_time = self.configuration.change().await;
        let known: Vec<_> = self.config().notification_targets.iter().cloned().collect();
        let mut edits = Vec::new();
        for mut target in known {
            let before = target.clone();
            self.parts.sealing.seal_destination(&mut target, (self.env.random)())?;
            if target != before {
                edits.push(Edit::Put(Record::NotificationTarget(target)));
            }
        }
        if edits.is_empty() { Ok(()) } else { Transaction::new(self, &Caller::array()).commit(edits).await }
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
