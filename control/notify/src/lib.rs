//! Telling people and programs elsewhere about alerts: webhooks, syslog, electronic mail, SNMP traps.
//!
//! A notice goes to one destination in one call, which waits for the other side: it belongs on a thread where nobody
//! else waits. What is sent when, and again after a failure, is decided above.

mod mail;
mod snmp;
mod syslog;
mod usm;
mod webhook;

pub use trust::mark;

use history::{Alert, Severity, Turn};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long the other side may take to answer a connection, and each word.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most receivers of a mail.
const MOST_RECEIVERS: usize = 32;

/// Why a notice could not be sent, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    fn new(what: impl std::fmt::Display) -> Self {
        Self(what.to_string())
    }
}

impl From<trust::Error> for Error {
    fn from(error: trust::Error) -> Self {
        Self::new(error)
    }
}

/// The answer of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// How the way to a mail server is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protection {
    /// Not at all.
    None,
    /// By STARTTLS, or not at all goes anything there.
    Starttls,
    /// By TLS from the beginning.
    Tls,
}

/// Where notices go. Certificates (`ca`) are PEM; those that the system trusts when there is none.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Destination {
    /// JSON by POST. The secret signs it.
    Webhook {
        /// Where to.
        #[serde(serialize_with = "mark::url")]
        url: String,
        /// Whom to trust.
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "mark::pem")]
        ca: Option<String>,
    },
    /// RFC 5424 over TCP, each message with its length before it (RFC 5425, RFC 6587).
    Syslog {
        /// Name or address.
        host: String,
        /// Usually 6514 with TLS, 601 without.
        port: u16,
        /// Over TLS.
        tls: bool,
        /// Whom to trust.
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "mark::pem")]
        ca: Option<String>,
    },
    /// Electronic mail. The secret is the user's password.
    Email {
        /// Name or address of the mail server.
        host: String,
        /// Usually 587 with STARTTLS, 465 with TLS, 25 without.
        port: u16,
        /// How the way there is protected.
        protection: Protection,
        /// Who logs in there; nobody when none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// The sender's address.
        from: String,
        /// The receivers' addresses.
        to: Vec<String>,
        /// Whom to trust.
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "mark::pem")]
        ca: Option<String>,
    },
    /// SNMP traps (RFC 3416): version 3 with a user, and the secret is the passphrase of authentication and privacy; 2c
    /// without, and the secret is the community, `public` when there is none.
    Snmp {
        /// Name or address.
        host: String,
        /// Usually 162.
        port: u16,
        /// The user whom receivers know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
    },
}

/// For logs: the path of a webhook is often a secret.
impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Webhook { url, .. } => write!(f, "Webhook({})", webhook::site(url)),
            Destination::Syslog { host, port, .. } => write!(f, "Syslog({host}:{port})"),
            Destination::Email { host, port, to, .. } => write!(f, "Email({host}:{port} {to:?})"),
            Destination::Snmp { host, port, .. } => write!(f, "Snmp({host}:{port})"),
        }
    }
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What people call the array.
    pub array: String,
    /// Its sixteen hex digits.
    pub serial: String,
    /// For how long it has served, in seconds.
    pub uptime: u64,
    /// What became of the alert; none when this is a test.
    pub turn: Option<Turn>,
    /// The alert.
    pub alert: Alert,
}

impl Notice {
    /// What happened, for programs.
    pub fn event(&self) -> &'static str {
        match self.turn {
            Some(Turn::Opened) => "alert.opened",
            Some(Turn::Worse) => "alert.worse",
            Some(Turn::Changed) => "alert.changed",
            Some(Turn::Closed) => "alert.closed",
            None => "test",
        }
    }

    /// The time of what happened, as RFC 3339 has it.
    fn time(&self) -> String {
        utc(self.alert.changed)
    }
}

fn utc(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.unwrap_or(jiff::Timestamp::MAX).to_string()
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

impl Destination {
    /// What kind it is: `webhook`, `syslog`, `email` or `snmp`.
    pub fn kind(&self) -> &'static str {
        match self {
            Destination::Webhook { .. } => "webhook",
            Destination::Syslog { .. } => "syslog",
            Destination::Email { .. } => "email",
            Destination::Snmp { .. } => "snmp",
        }
    }

    /// Refuses what nothing could be sent to. `secret`: there is one.
    ///
    /// # Errors
    /// What is wrong, in words for people.
    pub fn check(&self, secret: bool) -> Result<()> {
        match self {
            Destination::Webhook { url, ca } => {
                webhook::check(url)?;
                Ok(trust::check(ca.as_deref())?)
            }
            Destination::Syslog { host, port, ca, tls } => {
                address(host, *port)?;
                if secret {
                    return Err(Error::new("syslog knows no secret"));
                }
                if !tls && ca.is_some() {
                    return Err(Error::new("without TLS no certificate is looked at"));
                }
                Ok(trust::check(ca.as_deref())?)
            }
            Destination::Email { host, port, user, from, to, ca, protection } => {
                address(host, *port)?;
                mail::check(from, to)?;
                if secret != user.is_some() {
                    return Err(Error::new("a user of a mail server and a password belong together"));
                }
                if user.is_some() && *protection == Protection::None {
                    return Err(Error::new("a password goes to a mail server over TLS or STARTTLS only"));
                }
                Ok(trust::check(ca.as_deref())?)
            }
            Destination::Snmp { host, port, user } => {
                address(host, *port)?;
                let Some(user) = user else { return Ok(()) };
                if user.is_empty() || user.len() > usm::LONGEST_NAME {
                    return Err(Error::new(format!(
                        "the name of an SNMP user has 1 to {} bytes",
                        usm::LONGEST_NAME
                    )));
                }
                match secret {
                    true => Ok(()),
                    false => Err(Error::new("an SNMP user and a passphrase belong together")),
                }
            }
        }
    }

    /// Refuses a secret that can't be one.
    ///
    /// # Errors
    /// What is wrong, in words for people. The secret is not among them.
    pub fn check_secret(&self, secret: &str) -> Result<()> {
        match self {
            Destination::Snmp { user: Some(_), .. } => usm::check(secret),
            _ => Ok(()),
        }
    }

    /// Sends a notice, and waits until it is there as far as the way tells: at most a few times ten seconds. `now`: in
    /// seconds since 1970.
    ///
    /// # Errors
    /// Why it is not there, in words for people. The secret is not among them.
    pub fn send(&self, secret: Option<&str>, notice: &Notice, now: u64) -> Result<()> {
        match self {
            Destination::Webhook { url, ca } => webhook::send(url, ca.as_deref(), secret, notice, now),
            Destination::Syslog { host, port, tls, ca } => {
                let trusted = tls.then(|| trust::roots(ca.as_deref())).transpose()?;
                syslog::send(host, *port, trusted, notice)
            }
            Destination::Email { host, port, protection, user, from, to, ca } => {
                let login = user.as_deref().zip(secret);
                let server =
                    mail::Server { host, port: *port, protection: *protection, login, ca: ca.as_deref() };
                mail::send(&server, from, to, notice)
            }
            Destination::Snmp { host, port, user } => {
                let login = match user {
                    Some(user) => snmp::Login::User(user, secret.unwrap_or_default()),
                    None => snmp::Login::Community(secret.unwrap_or("public")),
                };
                snmp::send(host, *port, &login, notice, now)
            }
        }
    }
}

/// Refuses what is no name or address of a machine, and no port.
fn address(host: &str, port: u16) -> Result<()> {
    let fine = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | ':');
    if host.is_empty() || host.len() > 253 || !host.chars().all(fine) || port == 0 {
        return Err(Error::new(format!("{host:?} port {port} is no place in a network")));
    }
    Ok(())
}

/// A connection that does not wait for ever.
fn connect(host: &str, port: u16) -> Result<TcpStream> {
    let failed = |error: io::Error| Error::new(format!("{host} port {port} can't be reached: {error}"));
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs().map_err(failed)? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
                stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}
