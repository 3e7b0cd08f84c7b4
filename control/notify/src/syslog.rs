//! Syslog: RFC 5424 messages with octet counting, over TCP (RFC 6587 3.4.1) or TLS (RFC 5425).
//!
//! All messages are built here, so each has the same header and the same structured data element that identifies the
//! array.

use crate::{Error, Notification, Result, connect, severity_name};
use history::utc;
use history::{AlertChange, Severity};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, StreamOwned};
use std::fmt::Write as _;
use std::io::Write;
use std::net::Shutdown;

/// Facilities of RFC 5424 table 1: system daemons, and log audit.
const FACILITY_DAEMON: u8 = 3;
const FACILITY_AUDIT: u8 = 13;
/// Severities of RFC 5424 table 2.
const LEVEL_CRITICAL: u8 = 2;
const LEVEL_WARNING: u8 = 4;
const LEVEL_NOTICE: u8 = 5;
const LEVEL_INFO: u8 = 6;
/// Longest MSGID, in bytes (RFC 5424 6).
pub const MAX_ID_BYTES: usize = 32;
/// Longest HOSTNAME, in bytes (RFC 5424 6).
const MAX_HOST_BYTES: usize = 255;
/// The private enterprise number of structured data: that for documentation (RFC 5612).
const ENTERPRISE: &str = "32473";

/// Class of a log message, which names the structured data element with the message's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogClass {
    /// A change of an alert.
    Alert,
    /// An event.
    Event,
    /// An entry of the audit log.
    Audit,
    /// Performance of a period.
    Performance,
    /// Use of space.
    Capacity,
}

impl LogClass {
    /// All classes.
    pub const ALL: [LogClass; 5] =
        [LogClass::Alert, LogClass::Event, LogClass::Audit, LogClass::Performance, LogClass::Capacity];

    /// Name in messages.
    pub fn name(self) -> &'static str {
        match self {
            LogClass::Alert => "alert",
            LogClass::Event => "event",
            LogClass::Audit => "audit",
            LogClass::Performance => "performance",
            LogClass::Capacity => "capacity",
        }
    }

    /// SD-ID of the element with the parameters (RFC 5424 6.3.2).
    pub fn sd_id(self) -> String {
        format!("{}@{ENTERPRISE}", self.name())
    }

    fn facility(self) -> u8 {
        match self {
            LogClass::Audit => FACILITY_AUDIT,
            _ => FACILITY_DAEMON,
        }
    }
}

/// A log message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMessage {
    /// Name of the array: the HOSTNAME.
    pub array: String,
    /// Serial number of the array, sixteen hex digits.
    pub serial: String,
    /// Time of the event, in seconds since 1970.
    pub time: u64,
    /// Class of the message.
    pub class: LogClass,
    /// Severity of RFC 5424 table 2.
    pub level: u8,
    /// Identifier of the message's kind: the MSGID.
    pub id: String,
    /// Parameters, by their names in structured data.
    pub parameters: Vec<(&'static str, String)>,
    /// Text for operators.
    pub text: String,
}

impl LogMessage {
    /// An alert notification.
    pub fn of(notification: &Notification) -> Self {
        let (alert, condition) = (&notification.alert, &notification.alert.condition);
        let mut parameters = vec![
            ("id", alert.id.to_string()),
            ("event", notification.event().to_owned()),
            ("kind", condition.kind.clone()),
            ("severity", severity_name(condition.severity).to_owned()),
            ("serial", notification.serial.clone()),
        ];
        parameters.extend(subject(&condition.noun, &condition.name));
        Self {
            array: notification.array.clone(),
            serial: notification.serial.clone(),
            time: alert.changed,
            class: LogClass::Alert,
            level: match notification.change {
                None | Some(AlertChange::Closed) => LEVEL_NOTICE,
                _ => level(condition.severity),
            },
            id: condition.kind.clone(),
            parameters,
            text: condition.message.clone(),
        }
    }

    /// An event, of an array with this name and serial number.
    pub fn of_event((array, serial): (&str, &str), event: &history::Event) -> Self {
        let history::Event { id, event } = event;
        let mut parameters = vec![
            ("id", id.to_string()),
            ("kind", event.kind.clone()),
            ("severity", severity_name(event.severity).to_owned()),
        ];
        parameters.extend(subject(&event.noun, &event.name));
        Self {
            array: array.into(),
            serial: serial.into(),
            time: event.time,
            class: LogClass::Event,
            level: level(event.severity),
            id: event.kind.clone(),
            parameters,
            text: event.message.clone(),
        }
    }

    /// An entry of the audit log with a known outcome.
    pub fn of_audit((array, serial): (&str, &str), entry: &AuditMessage) -> Self {
        let mut parameters = vec![
            ("id", entry.id.to_string()),
            ("outcome", entry.outcome().to_owned()),
            ("user", entry.user.clone()),
            ("origin", entry.origin.clone()),
            ("action", entry.action.clone()),
            ("noun", entry.noun.clone()),
        ];
        parameters.extend(entry.object.clone().map(|name| ("name", name)));
        let text = match &entry.refusal {
            None => entry.request.clone(),
            Some(why) => format!("{}: {why}", entry.request),
        };
        Self {
            array: array.into(),
            serial: serial.into(),
            time: entry.time,
            class: LogClass::Audit,
            level: if entry.refusal.is_some() { LEVEL_WARNING } else { LEVEL_NOTICE },
            id: format!("audit.{}", entry.outcome()),
            parameters,
            text,
        }
    }

    /// Measured values at a time, in seconds since 1970.
    pub fn of_values(
        (array, serial): (&str, &str),
        (class, id, time): (LogClass, &str, u64),
        values: Vec<(&'static str, u64)>,
        text: String,
    ) -> Self {
        Self {
            array: array.into(),
            serial: serial.into(),
            time,
            class,
            level: LEVEL_INFO,
            id: id.into(),
            parameters: values.into_iter().map(|(name, value)| (name, value.to_string())).collect(),
            text,
        }
    }

    /// The message without its length prefix.
    pub fn line(&self) -> String {
        let mut data = format!(
            "[ashlar@{ENTERPRISE} class=\"{}\" serial=\"{}\"][{}",
            self.class.name(),
            value(&self.serial),
            self.class.sd_id()
        );
        for (name, text) in &self.parameters {
            // Writing to a string can't fail.
            let _ = write!(data, " {name}=\"{}\"", value(text));
        }
        // Non-ASCII text begins with a byte order mark (RFC 5424 6.4).
        let mark = if self.text.is_ascii() { "" } else { "\u{feff}" };
        format!(
            "<{}>1 {} {} ashlar - {} {data}] {mark}{}",
            self.class.facility() * 8 + self.level,
            utc(self.time),
            header(&self.array, MAX_HOST_BYTES),
            header(&self.id, MAX_ID_BYTES),
            printable(&self.text)
        )
    }
}

/// An entry of the audit log for a log message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditMessage {
    /// Number of the entry.
    pub id: i64,
    /// Time of the request, in seconds since 1970.
    pub time: u64,
    /// The user.
    pub user: String,
    /// Origin of the request: an address, or `local`.
    pub origin: String,
    /// Name of the verb.
    pub action: String,
    /// Kind of object.
    pub noun: String,
    /// The object; `None` if the kind implies it.
    pub object: Option<String>,
    /// The request as a sentence, without secrets.
    pub request: String,
    /// Reason of the refusal or failure; `None` if the request was performed.
    pub refusal: Option<String>,
}

impl AuditMessage {
    /// `done` or `refused`.
    fn outcome(&self) -> &'static str {
        if self.refusal.is_some() { "refused" } else { "done" }
    }
}

/// Severity of RFC 5424 table 2.
fn level(severity: Severity) -> u8 {
    match severity {
        Severity::Critical => LEVEL_CRITICAL,
        Severity::Warning => LEVEL_WARNING,
        Severity::Info => LEVEL_INFO,
    }
}

/// Parameters with the object concerned.
fn subject(noun: &Option<String>, name: &Option<String>) -> impl Iterator<Item = (&'static str, String)> {
    let given = |key, text: &Option<String>| text.clone().map(|text| (key, text));
    given("noun", noun).into_iter().chain(given("name", name))
}

/// A header field: printable ASCII of bounded length; `-` if it is empty.
fn header(text: &str, max_len: usize) -> String {
    let field: String = text.chars().filter(char::is_ascii_graphic).take(max_len).collect();
    if field.is_empty() { "-".into() } else { field }
}

/// Text without control characters: receivers that split their input at line ends must not see a second message in a name.
fn printable(text: &str) -> String {
    text::shown(text, usize::MAX, " ")
}

/// Escapes a parameter value of structured data (RFC 5424 6.3.3).
fn value(text: &str) -> String {
    printable(text)
        .chars()
        .flat_map(|letter| matches!(letter, '"' | '\\' | ']').then_some('\\').into_iter().chain([letter]))
        .collect()
}

pub fn send(
    host: &str,
    port: u16,
    roots: Option<Vec<CertificateDer<'static>>>,
    messages: &[LogMessage],
) -> Result<()> {
    let mut frames = String::new();
    for message in messages {
        let line = message.line();
        // Writing to a string can't fail.
        let _ = write!(frames, "{} {line}", line.len());
    }
    let failed = |error: std::io::Error| {
        Error::new(format!("the syslog receiver {host} closed the connection: {error}"))
    };
    let mut socket = connect(host, port)?;
    let Some(roots) = roots else {
        socket.write_all(frames.as_bytes()).map_err(failed)?;
        return socket.shutdown(Shutdown::Write).map_err(failed);
    };
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| Error::new(format!("{host:?} can't be in a certificate")))?;
    let connection = ClientConnection::new(trust::config(roots)?, name);
    let connection = connection.map_err(|error| Error::new(format!("TLS can't be used: {error}")))?;
    let mut stream = StreamOwned::new(connection, socket);
    stream.write_all(frames.as_bytes()).map_err(failed)?;
    stream.conn.send_close_notify();
    stream.flush().map_err(failed)?;
    stream.sock.shutdown(Shutdown::Write).map_err(failed)
}
