//! Destinations of notifications, as they are configured.

use crate::mark;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use utoipa::ToSchema;

/// Transport security of a mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = MailProtection)]
pub enum Protection {
    /// None.
    None,
    /// STARTTLS, required.
    Starttls,
    /// Implicit TLS.
    Tls,
}

/// What is sent to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = NotificationContent)]
pub enum Content {
    /// Alerts that open, escalate or close.
    Alerts,
    /// Events. Syslog only.
    Events,
    /// Entries of the audit log, once their outcome is known. Syslog only.
    Audit,
    /// Performance and capacity of the array, once a minute. Syslog only.
    Statistics,
}

impl Content {
    /// The default content.
    pub fn default_set() -> BTreeSet<Content> {
        BTreeSet::from([Content::Alerts])
    }

    /// Whether it is the default content.
    pub fn is_default(content: &BTreeSet<Content>) -> bool {
        *content == Self::default_set()
    }
}

/// Destination of notifications. `ca`: trusted certificates in PEM; default: those of the system.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Destination {
    /// Webhook: JSON by POST. With a secret, `X-Ashlar-Signature` is `t=<seconds since 1970>,v1=<hex>`, the HMAC-SHA256 of the
    /// time, a dot, and the body.
    Webhook {
        /// URL, http or https. Only `https://HOST/…` is ever returned, as user, password, path and query may be secrets; a change
        /// with the URL as it is returned keeps it.
        #[serde(serialize_with = "mark::url")]
        #[schema(example = "https://example.com/hook")]
        url: String,
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "mark::pem")]
        #[allow(missing_docs, reason = "the description of the type says it for all")]
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
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "mark::pem")]
        #[allow(missing_docs, reason = "the description of the type says it for all")]
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
        protection: Protection,
        /// User to log in as; omitted: no log-in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// Sender address.
        from: String,
        /// Recipient addresses, 32 at most.
        to: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "mark::pem")]
        #[allow(missing_docs, reason = "the description of the type says it for all")]
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

/// For logs, without the path of a webhook, which is often a secret.
impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Webhook { url, .. } => write!(f, "Webhook({})", mark::shown_url(url)),
            Destination::Syslog { host, port, .. } => write!(f, "Syslog({host}:{port})"),
            Destination::Email { host, port, to, .. } => write!(f, "Email({host}:{port} {to:?})"),
            Destination::Snmp { host, port, .. } => write!(f, "Snmp({host}:{port})"),
        }
    }
}

impl Destination {
    /// Its kind: `webhook`, `syslog`, `email` or `snmp`.
    pub fn kind(&self) -> &'static str {
        match self {
            Destination::Webhook { .. } => "webhook",
            Destination::Syslog { .. } => "syslog",
            Destination::Email { .. } => "email",
            Destination::Snmp { .. } => "snmp",
        }
    }

    /// As it is shown: of the address of a webhook what is no secret.
    pub fn shown(&self) -> Self {
        match self {
            Destination::Webhook { url, ca } => {
                Destination::Webhook { url: mark::shown_url(url), ca: ca.clone() }
            }
            other => other.clone(),
        }
    }

    /// Whether it is as it is shown, and what is hidden is not known.
    pub fn is_incomplete(&self) -> bool {
        matches!(self, Destination::Webhook { url, .. } if url.ends_with(mark::REST))
    }

    /// With what is hidden of it, if it is another one as it is shown.
    pub fn completed_by(self, known: &Self) -> Self {
        match (self, known) {
            (Destination::Webhook { url, ca }, Destination::Webhook { url: whole, .. })
                if url == mark::shown_url(whole) =>
            {
                Destination::Webhook { url: whole.clone(), ca }
            }
            (other, _) => other,
        }
    }

    /// Whether it receives log messages, not only alerts.
    pub fn takes_log(&self) -> bool {
        matches!(self, Destination::Syslog { .. })
    }
}
