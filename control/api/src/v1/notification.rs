//! Notification targets: whom alerts are told elsewhere.

use super::event::Severity;
use super::{Answer, Created, Gone, gone, perform, present, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{PARTIAL, Part, PartialList, list};
use crate::problem::{Problem, Problems};
use array::Secret;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(list_targets, create_target))
        .routes(routes!(show_target, change_target, delete_target))
        .routes(routes!(test_target))
}

/// How the way to a mail server is protected.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MailProtection {
    /// Not at all.
    None,
    /// STARTTLS; without it nothing goes there.
    Starttls,
    /// TLS from the beginning.
    Tls,
}

/// Where notices go. `ca`: certificates in PEM that are trusted there; those that the system trusts when it is `null` or
/// left out.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Destination {
    /// JSON by POST. With a secret, `X-Ashlar-Signature` has `t=<seconds since 1970>,v1=<hex>`: the HMAC-SHA256 of the
    /// time, a dot, and the body.
    Webhook {
        /// http or https.
        #[schema(example = "https://example.com/hook")]
        url: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
    /// RFC 5424 over TCP or TLS, each message with its length before it.
    Syslog {
        /// Name or address.
        host: String,
        /// Usually 6514 with TLS, 601 without.
        #[schema(minimum = 1)]
        port: u16,
        /// Over TLS.
        tls: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
    /// Electronic mail. The secret is the user's password.
    Email {
        /// The mail server.
        host: String,
        /// Usually 587 with STARTTLS, 465 with TLS, 25 without.
        #[schema(minimum = 1)]
        port: u16,
        /// How the way there is protected.
        protection: MailProtection,
        /// Who logs in there; left out: nobody.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// The sender.
        from: String,
        /// The receivers, 32 at most.
        to: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
    /// SNMP traps, as ASHLAR-MIB describes them. With a user: version 3, authenticated by HMAC-SHA-256 and encrypted with
    /// AES-128, and the secret is the passphrase of both; the engine of the array is `80007ed905` and its serial number.
    /// Without: version 2c, and the secret is the community, `public` when there is none.
    Snmp {
        /// Name or address.
        host: String,
        /// Usually 162.
        #[schema(minimum = 1)]
        port: u16,
        /// The user whom receivers know, 32 bytes at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
    },
}

/// Whom alerts are told elsewhere: when they open, matter more, and are over.
#[derive(Debug, Serialize, ToSchema)]
pub struct NotificationTarget {
    /// Its name.
    name: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created: String,
    /// Where notices go.
    destination: Destination,
    /// The least that an alert must matter.
    severity: Severity,
    /// Whether anything is sent.
    enabled: bool,
    /// There is a secret; it is never told.
    has_secret: bool,
    /// When a notice arrived last since the array began to serve; `null`: none did.
    #[schema(format = DateTime)]
    delivered: Option<String>,
    /// Why the last one did not arrive; `null`: it did.
    failing: Option<String>,
    /// Notices that wait.
    waiting: usize,
    /// Notices that nobody gets: too many waited.
    lost: u64,
}

/// Notification targets.
#[derive(Debug, Serialize, ToSchema)]
pub struct NotificationTargets {
    /// By name, when nothing else is asked for.
    items: Vec<NotificationTarget>,
    /// How many there are without `limit` and `offset`.
    total: usize,
}

/// A new notification target.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewNotificationTarget {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Where notices go.
    destination: Destination,
    /// The key of signatures, the password or the community, as the destination has it.
    #[serde(default)]
    #[schema(format = Password)]
    secret: Option<String>,
    /// The least that an alert must matter; `warning` when left out.
    #[serde(default = "warning")]
    severity: Severity,
    /// Whether anything is sent; yes when left out.
    #[serde(default = "yes")]
    enabled: bool,
}

fn warning() -> Severity {
    Severity::Warning
}

fn yes() -> bool {
    true
}

/// What to change of a notification target; what is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NotificationTargetChange {
    /// Another name.
    name: Option<String>,
    /// Another destination. The secret goes, as it was meant for the old one.
    destination: Option<Destination>,
    /// Another secret; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = Password)]
    secret: Option<Option<String>>,
    /// The least that an alert must matter.
    severity: Option<Severity>,
    /// Whether anything is sent.
    enabled: Option<bool>,
}

/// Notification targets
#[utoipa::path(get, path = "/api/v1/notification-targets", tag = "events", params(Part), responses(
    (status = 200, description = "The targets",
        content((NotificationTargets = "application/json"), (PartialList = PARTIAL))),
    Problems,
))]
async fn list_targets(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let targets = perform(operator, &context, array::ListTargets).await?;
    let targets = targets.into_iter().map(NotificationTarget::from).collect::<Vec<_>>();
    list(targets, &part)
}

/// Make a notification target
#[utoipa::path(post, path = "/api/v1/notification-targets", tag = "events", request_body = NewNotificationTarget,
    responses(
    (status = 201, description = "The new target", body = NotificationTarget),
    Problems,
))]
async fn create_target(
    operator: Operator,
    State(context): State<Context>,
    Body(NewNotificationTarget { name, destination, secret, severity, enabled }): Body<NewNotificationTarget>,
) -> Created<NotificationTarget> {
    let (destination, secret, least) = (destination.into(), secret.map(Secret::new), severity.into());
    let action = array::CreateTarget { name, destination, secret, least, enabled };
    let done = perform(operator, &context, action).await?;
    Ok((StatusCode::CREATED, Json(done.into())))
}

/// A notification target
#[utoipa::path(get, path = "/api/v1/notification-targets/{name}", tag = "events", params(("name" = String, Path)),
    responses(
    (status = 200, description = "The target", body = NotificationTarget),
    Problems,
))]
async fn show_target(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<NotificationTarget> {
    let it = perform(operator, &context, array::ShowTarget { name }).await?;
    Ok(Json(it.into()))
}

/// Change a notification target
#[utoipa::path(patch, path = "/api/v1/notification-targets/{name}", tag = "events", params(("name" = String, Path)),
    request_body = NotificationTargetChange, responses(
    (status = 200, description = "The target as it is now", body = NotificationTarget),
    Problems,
))]
async fn change_target(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Body(it): Body<NotificationTargetChange>,
) -> Answer<NotificationTarget> {
    let change = array::TargetChange {
        name: it.name,
        destination: it.destination.map(Into::into),
        secret: it.secret.map(|secret| secret.map(Secret::new)),
        least: it.severity.map(Into::into),
        enabled: it.enabled,
    };
    let done = perform(operator, &context, array::ChangeTarget { name, change }).await?;
    Ok(Json(done.into()))
}

/// Forget a notification target
#[utoipa::path(delete, path = "/api/v1/notification-targets/{name}", tag = "events", params(("name" = String, Path)),
    responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn delete_target(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Gone {
    gone(perform(operator, &context, array::DeleteTarget { name }).await?)
}

/// Send a test to a notification target
///
/// Waits until it is there, as far as the way tells; the problem says why it is not.
#[utoipa::path(post, path = "/api/v1/notification-targets/{name}/test", tag = "events",
    params(("name" = String, Path)), responses(
    (status = 204, description = "It is there"),
    Problems,
))]
async fn test_target(operator: Operator, State(context): State<Context>, Named(name): Named<String>) -> Gone {
    gone(perform(operator, &context, array::TestTarget { name }).await?)
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

impl From<array::Target> for NotificationTarget {
    fn from(it: array::Target) -> Self {
        let array::Target { name, created, destination, least, enabled, has_secret, delivered, .. } = it;
        Self {
            name,
            created: utc(created),
            destination: destination.into(),
            severity: least.into(),
            enabled,
            has_secret,
            delivered: delivered.map(utc),
            failing: it.failing,
            waiting: it.waiting,
            lost: it.lost,
        }
    }
}
