//! The least of an iSCSI initiator: one Login Request (RFC 7143 11.12), and the status that it is answered with.

use std::io::{Read, Write};
use std::net::TcpStream;

/// Login Request, operational stage to full feature phase, immediate.
const LOGIN: [u8; 2] = [0x43, 0x87];
/// Length of a basic header segment, and where it says what.
const HEADER: usize = 48;
const DATA_LENGTH: std::ops::Range<usize> = 5..8;
const ISID: std::ops::Range<usize> = 8..14;
const STATUS: std::ops::Range<usize> = 36..38;

/// Logs in by name alone, without a security stage; the session, and status class and detail.
pub fn log_in(portal: &str, initiator: &str, target: &str) -> (TcpStream, u16) {
    let keys = [("InitiatorName", initiator), ("TargetName", target), ("SessionType", "Normal")];
    let mut text: Vec<u8> =
        keys.iter().flat_map(|(key, value)| format!("{key}={value}\0").into_bytes()).collect();
    let mut pdu = vec![0; HEADER];
    pdu[..2].copy_from_slice(&LOGIN);
    pdu[DATA_LENGTH].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
    pdu[ISID].copy_from_slice(&[0x80, 0, 0, 1, 0, 1]);
    text.resize(text.len().next_multiple_of(4), 0);
    pdu.extend(text);
    let mut stream = TcpStream::connect(portal).unwrap();
    stream.write_all(&pdu).unwrap();
    let mut answer = [0; HEADER];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[0], 0x23, "a Login Response");
    (stream, u16::from_be_bytes(answer[STATUS].try_into().unwrap()))
}
