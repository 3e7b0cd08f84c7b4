//! Notifications by syslog: RFC 5424 messages with octet counting, over TCP (RFC 6587 3.4.1) or TLS (RFC 5425).

use crate::{Error, Notification, Result, connect, severity_name};
use history::{AlertChange, Severity};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, StreamOwned};
use std::io::Write;
use std::net::Shutdown;

/// System daemons (RFC 5424 table 1).
const FACILITY: u8 = 3;

/// SD-ID of the structured data, under the enterprise number for documentation (RFC 5612).
const STRUCTURED: &str = "alert@32473";

/// Severity of RFC 5424 table 2.
fn level(notification: &Notification) -> u8 {
    match (notification.change, notification.alert.condition.severity) {
        (None | Some(AlertChange::Closed), _) => 5,
        (_, Severity::Critical) => 2,
        (_, Severity::Warning) => 4,
        (_, Severity::Info) => 6,
    }
}

/// A header field: printable ASCII of bounded length; `-` if it is empty.
fn header(text: &str, max_len: usize) -> String {
    let field: String = text.chars().filter(char::is_ascii_graphic).take(max_len).collect();
    if field.is_empty() { "-".into() } else { field }
}

/// Escapes a parameter value of structured data (RFC 5424 6.3.3).
fn value(text: &str) -> String {
    text.chars()
        .flat_map(|letter| matches!(letter, '"' | '\\' | ']').then_some('\\').into_iter().chain([letter]))
        .collect()
}

pub fn message(notification: &Notification) -> String {
    let (alert, condition) = (&notification.alert, &notification.alert.condition);
    let mut data = format!(
        "[{STRUCTURED} id=\"{}\" event=\"{}\" kind=\"{}\" severity=\"{}\" serial=\"{}\"",
        alert.id,
        notification.event(),
        value(&condition.kind),
        severity_name(condition.severity),
        value(&notification.serial)
    );
    for (name, text) in [("noun", &condition.noun), ("name", &condition.name)] {
        if let Some(text) = text {
            data.push_str(&format!(" {name}=\"{}\"", value(text)));
        }
    }
    // Text that is not ASCII begins with a byte order mark (RFC 5424 6.4).
    let mark = if condition.message.is_ascii() { "" } else { "\u{feff}" };
    format!(
        "<{}>1 {} {} ashlar - {} {data}] {mark}{}",
        FACILITY * 8 + level(notification),
        notification.time(),
        header(&notification.array, 255),
        header(&condition.kind, 32),
        condition.message
    )
}

pub fn send(
    host: &str,
    port: u16,
    roots: Option<Vec<CertificateDer<'static>>>,
    notification: &Notification,
) -> Result<()> {
    let message = message(notification);
    let frame = format!("{} {message}", message.len());
    let failed = |error: std::io::Error| {
        Error::new(format!("the syslog receiver {host} closed the connection: {error}"))
    };
    let mut socket = connect(host, port)?;
    let Some(roots) = roots else {
        socket.write_all(frame.as_bytes()).map_err(failed)?;
        return socket.shutdown(Shutdown::Write).map_err(failed);
    };
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| Error::new(format!("{host:?} can't be in a certificate")))?;
    let connection = ClientConnection::new(trust::config(roots)?, name);
    let connection = connection.map_err(|error| Error::new(format!("TLS can't be used: {error}")))?;
    let mut stream = StreamOwned::new(connection, socket);
    stream.write_all(frame.as_bytes()).map_err(failed)?;
    stream.conn.send_close_notify();
    stream.flush().map_err(failed)?;
    stream.sock.shutdown(Shutdown::Write).map_err(failed)
}
