//! Alert notification targets.

use super::outcome::{choice, each};
use super::policy::Switch;
use crate::ask;
use crate::client::{Client, host_and_port};
use crate::file;
use crate::show::{self, Shown};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use client::api;
use client::schemas::{
    Destination, MailProtection, NewNotificationTarget, NotificationContent, NotificationTargetChange,
    Severity,
};
use serde_json::json;
use std::path::PathBuf;

#[derive(Clone, Subcommand)]
pub enum NotificationVerb {
    /// Create an alert notification target
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        #[command(flatten)]
        destination: Box<DestinationOptions>,
        /// Signature key of a webhook, password of the mail user, or SNMP community or passphrase
        #[arg(long, env = "ASHLAR_NOTIFICATION_SECRET", hide_env_values = true)]
        secret: Option<String>,
        /// Minimum severity of alerts and events to send [default: warning]
        #[arg(long, value_parser = choice::<Severity>())]
        severity: Option<Severity>,
        /// What is sent; all but alerts by syslog only [default: alerts]
        #[arg(long, value_name = "CONTENT", value_delimiter = ',', value_parser = choice::<NotificationContent>())]
        content: Vec<NotificationContent>,
    },
    /// List alert notification targets
    List,
    /// Show an alert notification target
    Show {
        /// Target
        name: String,
    },
    /// Change an alert notification target
    Set {
        /// Target
        name: String,
        /// Minimum severity of alerts and events to send
        #[arg(long, value_parser = choice::<Severity>())]
        severity: Option<Severity>,
        /// What is sent; all but alerts by syslog only
        #[arg(long, value_name = "CONTENT", value_delimiter = ',', value_parser = choice::<NotificationContent>())]
        content: Vec<NotificationContent>,
        /// Whether notifications are sent
        #[arg(long, value_enum)]
        enabled: Option<Switch>,
    },
    /// Send a test notification
    Test {
        /// Target
        name: String,
    },
    /// Delete an alert notification target
    Delete {
        /// Target; several may be given
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

/// Destination of notifications: exactly one.
#[derive(Clone, Args)]
pub struct DestinationOptions {
    /// URL of a webhook (JSON by POST)
    #[arg(long, value_name = "URL", group = "way")]
    webhook: Option<String>,
    /// Syslog receiver (RFC 5424 over TCP) [default port: 601, with --tls 6514]
    #[arg(long, value_name = "HOST[:PORT]", group = "way")]
    syslog: Option<String>,
    /// Syslog over TLS
    #[arg(long, requires = "syslog")]
    tls: bool,
    /// SNMP trap receiver: version 3 with --user, otherwise 2c [default port: 162]
    #[arg(long, value_name = "HOST[:PORT]", group = "way")]
    snmp: Option<String>,
    /// E-mail recipient; repeatable
    #[arg(long, value_name = "ADDRESS", group = "way", requires_all = ["server", "from"])]
    email: Vec<String>,
    /// Mail server [default port: 587; with --protection tls 465, none 25]
    #[arg(long, value_name = "HOST[:PORT]")]
    server: Option<String>,
    /// Sender of e-mails
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// Transport security of the mail server
    #[arg(long, value_parser = choice::<MailProtection>(), default_value = "starttls")]
    protection: MailProtection,
    /// User of the mail server, or SNMPv3 user (authentication SHA-256, privacy AES-128)
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// File with trusted certificates in PEM [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// A host name or address with its port; with the usual port if there is none. An IPv6 address with a port is in brackets.
fn endpoint(text: &str, usual: u32) -> Result<(String, u32)> {
    let (host, port) = host_and_port(text);
    let port = match port {
        Some(port) => {
            let port = port.parse::<u16>().ok().filter(|port| *port > 0);
            port.with_context(|| format!("{text:?} is not HOST or HOST:PORT"))?.into()
        }
        None => usual,
    };
    Ok((host.trim_matches(['[', ']']).to_owned(), port))
}

/// The port on which mail servers take messages with a kind of protection.
fn mail_port(protection: MailProtection) -> u32 {
    match protection {
        MailProtection::None => 25,
        MailProtection::Starttls => 587,
        MailProtection::Tls => 465,
    }
}

impl DestinationOptions {
    fn read(self) -> Result<Destination> {
        let ca = self.ca.as_deref().map(file::read).transpose()?;
        if let Some(url) = self.webhook {
            return Ok(Destination::Webhook { url, ca });
        }
        if let Some(syslog) = self.syslog {
            let (host, port) = endpoint(&syslog, if self.tls { 6514 } else { 601 })?;
            return Ok(Destination::Syslog { host, port, tls: self.tls, ca });
        }
        if let Some(snmp) = self.snmp {
            let (host, port) = endpoint(&snmp, 162)?;
            return Ok(Destination::Snmp { host, port, user: self.user });
        }
        let (Some(server), Some(from), false) = (self.server, self.from, self.email.is_empty()) else {
            bail!("give a destination: --webhook, --syslog, --snmp, or --email with --server and --from");
        };
        let (host, port) = endpoint(&server, mail_port(self.protection))?;
        let (protection, user, to) = (self.protection, self.user, self.email);
        Ok(Destination::Email { host, port, protection, user, from, to, ca })
    }
}

impl NotificationVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use NotificationVerb::*;
        Ok(match self {
            Create { name, destination, secret, severity, content } => {
                let user = destination.user.clone();
                let destination = destination.read()?;
                let ask = || user.map(|user| ask::secret(&format!("password of {user}"))).transpose();
                let secret = secret.map_or_else(ask, |secret| Ok(Some(secret)))?;
                let content = (!content.is_empty()).then_some(content);
                let enabled = None;
                let new = NewNotificationTarget { name, destination, secret, severity, content, enabled };
                client.call(api::create_notification_target(&new))?.into()
            }
            List => {
                client.call(api::list_notification_targets(&api::ListNotificationTargets::default()))?.into()
            }
            Show { name } => client.call(api::show_notification_target(&name))?.into(),
            Set { name, severity, content, enabled } => {
                let change = NotificationTargetChange {
                    severity: severity.map(Some),
                    content: (!content.is_empty()).then_some(Some(content)),
                    enabled: enabled.map(|it| Some(it.on())),
                    ..NotificationTargetChange::default()
                };
                client.call(api::change_notification_target(&name, &change))?.into()
            }
            Test { name } => {
                client.call(api::test_notification_target(&name))?;
                let text = |it: &_| {
                    format!("The test notification was delivered to {}.\n", show::text(it, "tested"))
                };
                Shown::text(json!({ "tested": name }), text)
            }
            Delete { names } => each(names, |name| {
                client.call(api::delete_notification_target(&name))?;
                Ok(show::deleted(name))
            })?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_has_the_usual_port_unless_another_is_given() {
        for (text, host, port) in [
            ("log.example.com", "log.example.com", 601),
            ("log.example.com:7000", "log.example.com", 7000),
            ("10.0.0.9", "10.0.0.9", 601),
            ("2001:db8::1", "2001:db8::1", 601),
            ("[2001:db8::1]", "2001:db8::1", 601),
            ("[2001:db8::1]:7000", "2001:db8::1", 7000),
        ] {
            assert_eq!(endpoint(text, 601).expect(text), (host.to_owned(), port), "{text}");
        }
        for wrong in ["log:", "log:0", "log:70000", "log:x"] {
            assert!(endpoint(wrong, 601).is_err(), "{wrong}");
        }
    }
}
