//! Alert notifications by webhook, syslog, e-mail and SNMP trap, and log messages by syslog.
//!
//! One call sends to one destination and blocks until the receiver has responded, so it needs a separate thread. The
//! caller decides on content, time and retries.

mod mail;
mod snmp;
mod syslog;
mod usm;
mod webhook;

pub use records::{Content, Destination, Protection};
pub use syslog::{AuditMessage, LogClass, LogMessage, MAX_ID_BYTES};

use history::{Alert, AlertChange};
use records::Severity;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Time-out of a connection attempt and of each read and write.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of recipients of an e-mail target.
const MAX_RECIPIENTS: usize = 32;

/// Reason why a notification could not be sent, as text for operators.
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

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An alert notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Name of the array.
    pub array: String,
    /// Serial number of the array, sixteen hex digits.
    pub serial: String,
    /// Uptime of the array in seconds.
    pub uptime: u64,
    /// Change of the alert; `None` for a test.
    pub change: Option<AlertChange>,
    /// The alert.
    pub alert: Alert,
}

impl Notification {
    /// Name of the change, for programs.
    pub fn event(&self) -> &'static str {
        match self.change {
            Some(AlertChange::Opened) => "alert.opened",
            Some(AlertChange::Escalated) => "alert.worse",
            Some(AlertChange::Updated) => "alert.changed",
            Some(AlertChange::Closed) => "alert.closed",
            None => "test",
        }
    }
}

fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

/// Delivery to a destination.
pub trait Deliver {
    /// Refuses invalid settings. `secret`: whether there is one.
    ///
    /// # Errors
    /// The problem, as text for operators.
    fn check(&self, secret: bool) -> Result<()>;

    /// Refuses an unsuitable secret.
    ///
    /// # Errors
    /// The problem, as text for operators, without the secret.
    fn check_secret(&self, secret: &str) -> Result<()>;

    /// Sends a notification and waits until the receiver has it, as far as the protocol reports that: at most a few times
    /// [`TIMEOUT`]. `now` in seconds since 1970.
    ///
    /// # Errors
    /// Why it was not sent, as text for operators, without the secret.
    fn send(&self, secret: Option<&str>, notification: &Notification, now: u64) -> Result<()>;

    /// Sends log messages in their order over one connection. Syslog has no acknowledgement: success means that the receiver's
    /// machine was reached and closed nothing until then (RFC 6587 4.1, RFC 5425 4.4). After an error the receiver may have
    /// some of them.
    ///
    /// # Errors
    /// Why they were not sent, as text for operators.
    fn send_log(&self, messages: &[LogMessage]) -> Result<()>;
}

impl Deliver for Destination {
    fn check(&self, secret: bool) -> Result<()> {
        match self {
            Destination::Webhook { url, ca } => {
                webhook::check(url)?;
                Ok(trust::check(ca.as_deref())?)
            }
            Destination::Syslog { host, port, ca, tls } => {
                address(host, *port)?;
                if secret {
                    return Err(Error::new("a syslog target has no secret"));
                }
                if !tls && ca.is_some() {
                    return Err(Error::new("a CA certificate needs TLS"));
                }
                Ok(trust::check(ca.as_deref())?)
            }
            Destination::Email { host, port, user, from, to, ca, protection } => {
                address(host, *port)?;
                mail::check(from, to)?;
                if secret != user.is_some() {
                    return Err(Error::new(
                        "give both a user and a password for the mail server, or neither",
                    ));
                }
                if user.is_some() && *protection == Protection::None {
                    return Err(Error::new("a password is sent to a mail server only over TLS or STARTTLS"));
                }
                Ok(trust::check(ca.as_deref())?)
            }
            Destination::Snmp { host, port, user } => {
                address(host, *port)?;
                let Some(user) = user else { return Ok(()) };
                if user.is_empty() || user.len() > usm::MAX_USER_NAME_BYTES {
                    return Err(Error::new(format!(
                        "the name of an SNMP user has 1 to {} bytes",
                        usm::MAX_USER_NAME_BYTES
                    )));
                }
                match secret {
                    true => Ok(()),
                    false => Err(Error::new("an SNMP user needs a passphrase")),
                }
            }
        }
    }

    fn check_secret(&self, secret: &str) -> Result<()> {
        match self {
            Destination::Snmp { user: Some(_), .. } => usm::check(secret),
            _ => Ok(()),
        }
    }

    fn send(&self, secret: Option<&str>, notification: &Notification, now: u64) -> Result<()> {
        match self {
            Destination::Webhook { url, ca } => webhook::send(url, ca.as_deref(), secret, notification, now),
            Destination::Syslog { .. } => self.send_log(&[LogMessage::of(notification)]),
            Destination::Email { host, port, protection, user, from, to, ca } => {
                let login = user.as_deref().zip(secret);
                let server =
                    mail::Server { host, port: *port, protection: *protection, login, ca: ca.as_deref() };
                mail::send(&server, from, to, notification)
            }
            Destination::Snmp { host, port, user } => {
                let login = match user {
                    Some(user) => snmp::Login::User(user, secret.unwrap_or_default()),
                    None => snmp::Login::Community(secret.unwrap_or("public")),
                };
                snmp::send(host, *port, &login, notification, now)
            }
        }
    }

    fn send_log(&self, messages: &[LogMessage]) -> Result<()> {
        let Destination::Syslog { host, port, tls, ca } = self else {
            return Err(Error::new(format!("a target of kind {} takes no log messages", self.kind())));
        };
        let trusted = tls.then(|| trust::roots(ca.as_deref())).transpose()?;
        syslog::send(host, *port, trusted, messages)
    }
}

/// Checks a host name or address, and a port.
fn address(host: &str, port: u16) -> Result<()> {
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | ':');
    if host.is_empty() || host.len() > 253 || !host.chars().all(is_valid) || port == 0 {
        return Err(Error::new(format!("{host:?} port {port} is not a host and port")));
    }
    Ok(())
}

/// Connects with a time-out.
fn connect(host: &str, port: u16) -> Result<TcpStream> {
    let failed = |error: io::Error| Error::new(format!("{host} port {port} can't be reached: {error}"));
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs().map_err(failed)? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
                stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}
