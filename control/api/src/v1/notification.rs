//! Notification targets: e-mail, webhook, syslog, SNMP.

use super::event::Severity;
use super::handler::{Answer, Created, NoContent, no_content, operations, perform, present, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{List, PARTIAL, PartialList, list};
use crate::problem::{Problem, Problems};
use array::Secret;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_notification_targets: ListNotificationTargets, create_notification_target: CreateNotificationTarget))
        .routes(operations!(show_notification_target: ShowNotificationTarget, change_notification_target: ChangeNotificationTarget, delete_notification_target: DeleteNotificationTarget))
        .routes(operations!(test_notification_target: TestNotificationTarget))
}

/// Transport security of a mail server.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MailProtection {
    /// None.
    None,
    /// STARTTLS, required.
    Starttls,
    /// Implicit TLS.
    Tls,
}

/// Destination of notifications. `ca`: trusted certificates in PEM; default: those of the system.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Destination {
    /// Webhook: JSON by POST. With a secret, `X-Ashlar-Signature` is `t=<seconds since 1970>,v1=<hex>`, the HMAC-SHA256 of the
    /// time, a dot, and the body.
    Webhook {
        /// URL, http or https. Only `https://HOST/…` is ever returned, as user, password, path and query may be secrets; a change
        /// with the URL as it is returned keeps it.
        #[schema(example = "https://example.com/hook")]
        url: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
    /// Syslog (RFC 5424) over TCP or TLS, with octet counting.
    Syslog {
        /// Host name or address.
        host: String,
        /// Port; usually 6514 with TLS, 601 without.
        #[schema(minimum = 1)]
        port: u16,
        /// Whether to use TLS.
        tls: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
    /// E-mail. The secret is the password of `user`.
    Email {
        /// Mail server.
        host: String,
        /// Port; usually 587 with STARTTLS, 465 with TLS, 25 without.
        #[schema(minimum = 1)]
        port: u16,
        /// Transport security.
        protection: MailProtection,
        /// User to log in as; omitted: no log-in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// Sender address.
        from: String,
        /// Recipient addresses, 32 at most.
        to: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
    /// SNMP traps as defined in ASHLAR-MIB. With a user: version 3, authenticated by HMAC-SHA-256 and encrypted with
    /// AES-128; the secret is the passphrase of both. The engine ID is `80007ed905` followed by the serial number.
    /// Without a user: version 2c; the secret is the community, default `public`.
    Snmp {
        /// Host name or address.
        host: String,
        /// Port; usually 162.
        #[schema(minimum = 1)]
        port: u16,
        /// SNMPv3 user, 32 bytes at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
    },
}

/// What is sent to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NotificationContent {
    /// Alerts that open, escalate or close.
    Alerts,
    /// Events. Syslog only.
    Events,
    /// Entries of the audit log, once their outcome is known. Syslog only.
    Audit,
    /// Performance and capacity of the array, once a minute. Syslog only.
    Statistics,
}

/// A notification target.
#[derive(Debug, Serialize, ToSchema)]
pub struct NotificationTarget {
    /// Name.
    name: String,
    /// Creation time.
    #[schema(format = DateTime)]
    created: String,
    /// Destination.
    destination: Destination,
    /// Minimum severity of alerts and events to send.
    severity: Severity,
    /// What is sent.
    content: Vec<NotificationContent>,
    /// Whether notifications are sent.
    enabled: bool,
    /// Whether a secret is set. The secret is never returned.
    has_secret: bool,
    /// Time of the last successful delivery since the array started; `null` if there was none.
    #[schema(format = DateTime)]
    delivered: Option<String>,
    /// Reason why the last delivery failed; `null` if it succeeded.
    failing: Option<String>,
    /// Number of queued notifications.
    waiting: usize,
    /// Number of notifications dropped because the queue was full.
    lost: u64,
}

/// Alert notification targets.
#[derive(Debug, Serialize, ToSchema)]
pub struct NotificationTargets {
    /// Sorted by name unless `sort` is given.
    items: Vec<NotificationTarget>,
    /// Total count, regardless of `limit` and `offset`.
    total: usize,
}

/// A new alert notification target.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewNotificationTarget {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Destination.
    destination: Destination,
    /// Signature key, password, passphrase or community, depending on the destination.
    #[serde(default)]
    #[schema(format = Password)]
    secret: Option<String>,
    /// Minimum severity of alerts and events to send; default `warning`.
    #[serde(default = "warning")]
    severity: Severity,
    /// What is sent; default `alerts`. All but alerts is for syslog only.
    #[serde(default)]
    content: Option<Vec<NotificationContent>>,
    /// Whether notifications are sent; default true.
    #[serde(default = "yes")]
    enabled: bool,
}

fn warning() -> Severity {
    Severity::Warning
}

fn yes() -> bool {
    true
}

/// Changes to a notification target. Omitted fields keep their values.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NotificationTargetChange {
    /// New name.
    name: Option<String>,
    /// New destination. The stored secret is discarded.
    destination: Option<Destination>,
    /// New secret; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = Password)]
    secret: Option<Option<String>>,
    /// Minimum severity of alerts and events to send.
    severity: Option<Severity>,
    /// What is sent. All but alerts is for syslog only.
    content: Option<Vec<NotificationContent>>,
    /// Whether notifications are sent.
    enabled: Option<bool>,
}

/// List alert notification targets
#[utoipa::path(get, path = "/api/v1/notification-targets", tag = "events", params(List), responses(
    (status = 200, description = "The targets",
        content((NotificationTargets = "application/json"), (PartialList = PARTIAL))),
    Problems,
))]
async fn list_notification_targets(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
) -> Result<Response, Problem> {
    let targets = perform(operator, &context, array::ListNotificationTargets).await?;
    let targets = targets.into_iter().map(NotificationTarget::from).collect::<Vec<_>>();
    list(targets, part)
}

/// Create an alert notification target
#[utoipa::path(post, path = "/api/v1/notification-targets", tag = "events", request_body = NewNotificationTarget,
    responses(
    (status = 201, description = "The new target", body = NotificationTarget),
    Problems,
))]
async fn create_notification_target(
    operator: Operator,
    State(context): State<Context>,
    Body(asked): Body<NewNotificationTarget>,
) -> Created<NotificationTarget> {
    let NewNotificationTarget { name, destination, secret, severity, content, enabled } = asked;
    let (destination, secret, least) = (destination.into(), secret.map(Secret::new), severity.into());
    let content = content.map_or_else(array::Content::default_set, chosen);
    let action = array::CreateNotificationTarget { name, destination, secret, least, content, enabled };
    let done = perform(operator, &context, action).await?;
    Ok((StatusCode::CREATED, Json(done.into())))
}

/// Get an alert notification target
#[utoipa::path(get, path = "/api/v1/notification-targets/{name}", tag = "events", params(("name" = String, Path)),
    responses(
    (status = 200, description = "The target", body = NotificationTarget),
    Problems,
))]
async fn show_notification_target(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<NotificationTarget> {
    let it = perform(operator, &context, array::ShowNotificationTarget { name }).await?;
    Ok(Json(it.into()))
}

/// Change an alert notification target
#[utoipa::path(patch, path = "/api/v1/notification-targets/{name}", tag = "events", params(("name" = String, Path)),
    request_body = NotificationTargetChange, responses(
    (status = 200, description = "The target", body = NotificationTarget),
    Problems,
))]
async fn change_notification_target(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Body(it): Body<NotificationTargetChange>,
) -> Answer<NotificationTarget> {
    let change = array::NotificationTargetChange {
        name: it.name,
        destination: it.destination.map(Into::into),
        secret: it.secret.map(|secret| secret.map(Secret::new)),
        least: it.severity.map(Into::into),
        content: it.content.map(chosen),
        enabled: it.enabled,
    };
    let done = perform(operator, &context, array::ChangeNotificationTarget { name, change }).await?;
    Ok(Json(done.into()))
}

/// Delete an alert notification target
#[utoipa::path(delete, path = "/api/v1/notification-targets/{name}", tag = "events", params(("name" = String, Path)),
    responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_notification_target(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> NoContent {
    no_content(perform(operator, &context, array::DeleteNotificationTarget { name }).await?)
}

/// Send a test notification
///
/// Waits for delivery as far as the protocol confirms it. The returned problem describes a failure.
#[utoipa::path(post, path = "/api/v1/notification-targets/{name}/test", tag = "events",
    params(("name" = String, Path)), responses(
    (status = 204, description = "Delivered"),
    Problems,
))]
async fn test_notification_target(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> NoContent {
    no_content(perform(operator, &context, array::TestNotificationTarget { name }).await?)
}

fn chosen(content: Vec<NotificationContent>) -> BTreeSet<array::Content> {
    content.into_iter().map(Into::into).collect()
}

impl From<NotificationContent> for array::Content {
    fn from(content: NotificationContent) -> Self {
        match content {
            NotificationContent::Alerts => array::Content::Alerts,
            NotificationContent::Events => array::Content::Events,
            NotificationContent::Audit => array::Content::Audit,
            NotificationContent::Statistics => array::Content::Statistics,
        }
    }
}

impl From<array::Content> for NotificationContent {
    fn from(content: array::Content) -> Self {
        match content {
            array::Content::Alerts => NotificationContent::Alerts,
            array::Content::Events => NotificationContent::Events,
            array::Content::Audit => NotificationContent::Audit,
            array::Content::Statistics => NotificationContent::Statistics,
        }
    }
}

impl From<MailProtection> for array::MailProtection {
    fn from(protection: MailProtection) -> Self {
        match protection {
            MailProtection::None => array::MailProtection::None,
            MailProtection::Starttls => array::MailProtection::Starttls,
            MailProtection::Tls => array::MailProtection::Tls,
        }
    }
}

impl From<array::MailProtection> for MailProtection {
    fn from(protection: array::MailProtection) -> Self {
        match protection {
            array::MailProtection::None => MailProtection::None,
            array::MailProtection::Starttls => MailProtection::Starttls,
            array::MailProtection::Tls => MailProtection::Tls,
        }
    }
}

impl From<Destination> for array::Destination {
    fn from(it: Destination) -> Self {
        match it {
            Destination::Webhook { url, ca } => Self::Webhook { url, ca },
            Destination::Syslog { host, port, tls, ca } => Self::Syslog { host, port, tls, ca },
            Destination::Email { host, port, protection, user, from, to, ca } => {
                Self::Email { host, port, protection: protection.into(), user, from, to, ca }
            }
            Destination::Snmp { host, port, user } => Self::Snmp { host, port, user },
        }
    }
}

impl From<array::Destination> for Destination {
    fn from(it: array::Destination) -> Self {
        match it {
            array::Destination::Webhook { url, ca } => Self::Webhook { url, ca },
            array::Destination::Syslog { host, port, tls, ca } => Self::Syslog { host, port, tls, ca },
            array::Destination::Email { host, port, protection, user, from, to, ca } => {
                Self::Email { host, port, protection: protection.into(), user, from, to, ca }
            }
            array::Destination::Snmp { host, port, user } => Self::Snmp { host, port, user },
        }
    }
}

impl From<array::NotificationTarget> for NotificationTarget {
    fn from(it: array::NotificationTarget) -> Self {
        let array::NotificationTarget {
            name,
            created,
            destination,
            least,
            content,
            enabled,
            has_secret,
            delivered,
            ..
        } = it;
        Self {
            name,
            created: utc(created),
            destination: destination.into(),
            severity: least.into(),
            content: content.into_iter().map(Into::into).collect(),
            enabled,
            has_secret,
            delivered: delivered.map(utc),
            failing: it.failing,
            waiting: it.waiting,
            lost: it.lost,
        }
    }
}
