//! A notice as a message of RFC 5424, over TCP with its length before it (RFC 6587 3.4.1), or over TLS (RFC 5425).

use crate::{Error, Notice, Result, connect, word};
use history::{Severity, Turn};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, StreamOwned};
use std::io::Write;
use std::net::Shutdown;

/// System daemons (RFC 5424 table 1).
const FACILITY: u8 = 3;

/// The identity of structured data needs a number of an enterprise; this one is for those that have none (RFC 5612).
const STRUCTURED: &str = "alert@32473";

/// Numbers of RFC 5424 table 2.
fn level(notice: &Notice) -> u8 {
    match (notice.turn, notice.alert.condition.severity) {
        (None | Some(Turn::Closed), _) => 5,
        (_, Severity::Critical) => 2,
        (_, Severity::Warning) => 4,
        (_, Severity::Info) => 6,
    }
}

/// A word of the header: printable ASCII, of bounded length, `-` when there is none.
fn header(text: &str, most: usize) -> String {
    let word: String = text.chars().filter(char::is_ascii_graphic).take(most).collect();
    if word.is_empty() { "-".into() } else { word }
}

/// A value of structured data (RFC 5424 6.3.3).
fn value(text: &str) -> String {
    text.chars()
        .flat_map(|letter| matches!(letter, '"' | '\\' | ']').then_some('\\').into_iter().chain([letter]))
        .collect()
}

pub fn message(notice: &Notice) -> String {
    let (alert, condition) = (&notice.alert, &notice.alert.condition);
    let mut data = format!(
        "[{STRUCTURED} id=\"{}\" event=\"{}\" kind=\"{}\" severity=\"{}\" serial=\"{}\"",
        alert.id,
        notice.event(),
        value(&condition.kind),
        word(condition.severity),
        value(&notice.serial)
    );
    for (name, text) in [("noun", &condition.noun), ("name", &condition.name)] {
        if let Some(text) = text {
            data.push_str(&format!(" {name}=\"{}\"", value(text)));
        }
    }
    // What is not ASCII is announced (RFC 5424 6.4).
    let mark = if condition.message.is_ascii() { "" } else { "\u{feff}" };
    format!(
        "<{}>1 {} {} ashlar - {} {data}] {mark}{}",
        FACILITY * 8 + level(notice),
        notice.time(),
        header(&notice.array, 255),
        header(&condition.kind, 32),
        condition.message
    )
}

pub fn send(
    host: &str,
    port: u16,
    roots: Option<Vec<CertificateDer<'static>>>,
    notice: &Notice,
) -> Result<()> {
    let message = message(notice);
    let frame = format!("{} {message}", message.len());
    let failed = |error: std::io::Error| Error::new(format!("the syslog receiver {host} broke off: {error}"));
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
