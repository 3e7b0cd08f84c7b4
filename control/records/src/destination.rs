//! Destinations of notifications, as they are configured.

use crate::mark;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Transport security to a mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protection {
    /// Plain text.
    None,
    /// STARTTLS is required.
    Starttls,
    /// TLS from the beginning.
    Tls,
}

/// Content that a notification target gets. All but alerts is for syslog only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// Alerts that open, escalate or close.
    Alerts,
    /// Events.
    Events,
    /// Entries of the audit log, once their outcome is known.
    Audit,
    /// Performance and capacity of the array, once a minute.
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

/// A notification destination. Certificates (`ca`) are PEM; without one the system's trust store is used.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Destination {
    /// JSON by HTTP POST, signed with the secret.
    Webhook {
        /// Address.
        #[serde(serialize_with = "mark::url")]
        url: String,
        /// Trusted certificate authority.
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "mark::pem")]
        ca: Option<String>,
    },
    /// RFC 5424 over TCP, each message with its length before it (RFC 5425, RFC 6587).
    Syslog {
        /// Name or address.
        host: String,
        /// Usually 6514 with TLS, 601 without.
        port: u16,
        /// Use TLS.
        tls: bool,
        /// Trusted certificate authority.
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "mark::pem")]
        ca: Option<String>,
    },
    /// E-mail. The secret is the password of the user.
    Email {
        /// Name or address of the mail server.
        host: String,
        /// Usually 587 with STARTTLS, 465 with TLS, 25 without.
        port: u16,
        /// Transport security.
        protection: Protection,
        /// User name for authentication; `None` without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// The sender's address.
        from: String,
        /// The recipients' addresses.
        to: Vec<String>,
        /// Trusted certificate authority.
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "mark::pem")]
        ca: Option<String>,
    },
    /// SNMP traps (RFC 3416). With a user, version 3, and the secret is the passphrase for authentication and privacy;
    /// without, version 2c, and the secret is the community, `public` by default.
    Snmp {
        /// Name or address.
        host: String,
        /// Usually 162.
        port: u16,
        /// The SNMPv3 user, as configured at the receivers.
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
