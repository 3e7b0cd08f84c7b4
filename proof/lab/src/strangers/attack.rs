//! Attacks and their data. Each listener has its own bytes; the eight attacks are the same for all.

use crate::seed::Seed;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A listener, and the data for attacks on it, which authenticate no client.
pub struct Door {
    /// Its name.
    pub name: &'static str,
    /// Its address.
    pub address: SocketAddr,
    /// A complete first message, which is answered or refused.
    begin: Vec<u8>,
    /// A repeated message: an attempt to authenticate.
    attempt: Vec<u8>,
    /// Message headers with maximum lengths.
    claims: Vec<Vec<u8>>,
}

/// An attack on a listener.
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    /// Performs the attack, and returns its open connections.
    pub run: fn(&Door, u64) -> Vec<TcpStream>,
}

/// All attacks.
pub const ATTACKS: &[Attack] = &[
    Attack { name: "idle", run: |door, _| door.connections(IDLE) },
    Attack { name: "slow bytes", run: slow_bytes },
    Attack { name: "flood", run: flood },
    Attack { name: "huge claims", run: huge_claims },
    Attack { name: "half commands", run: half_commands },
    Attack { name: "repeated authentication", run: repeated_authentication },
    Attack { name: "reconnect storm", run: reconnect_storm },
    Attack { name: "malformed", run: malformed },
];

/// More connections than any listener accepts from unproven clients.
const IDLE: usize = 400;
/// Connections with one byte at a time.
const SLOW: usize = 64;
/// Missing bytes at the end of a message.
const MISSING_BYTES: usize = 8;
/// Messages of a flood, and its connections.
const FLOOD: usize = 2000;
const FLOOD_CONNECTIONS: usize = 20;
/// Attempts, and their connections.
const ATTEMPTS: usize = 600;
const ATTEMPT_CONNECTIONS: usize = 12;
/// Connections that are opened and closed.
const STORM: usize = 2000;
/// Malformed conversations, and maximum length of garbage.
const MALFORMED: usize = 400;
const MAX_GARBAGE_BYTES: u64 = 4096;

impl Door {
    fn connect(&self) -> Option<TcpStream> {
        let stream = TcpStream::connect(self.address).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(stream)
    }

    /// Opens connections until they are refused.
    fn connections(&self, count: usize) -> Vec<TcpStream> {
        (0..count).filter_map(|_| self.connect()).collect()
    }
}

/// Sends until the other end accepts no more. A closed connection is an expected result.
fn send(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).is_ok()
}

/// Sends the first message on every connection byte by byte, alternating, without the last byte.
fn slow_bytes(door: &Door, _: u64) -> Vec<TcpStream> {
    let mut open = door.connections(SLOW);
    let all_but_last = door.begin.len().saturating_sub(1);
    for byte in &door.begin[..all_but_last] {
        for stream in &mut open {
            send(stream, std::slice::from_ref(byte));
        }
    }
    open
}

/// Sends complete messages without reading responses.
fn flood(door: &Door, _: u64) -> Vec<TcpStream> {
    let mut open = door.connections(FLOOD_CONNECTIONS);
    for stream in &mut open {
        // Unread responses fill the buffers of both ends: then no more is accepted.
        let _bounded = stream.set_write_timeout(Some(std::time::Duration::from_millis(50)));
        for _ in 0..FLOOD / FLOOD_CONNECTIONS {
            if !send(stream, &door.begin) {
                break;
            }
        }
    }
    open
}

fn huge_claims(door: &Door, _: u64) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for mut stream in door.connections(IDLE) {
        let claim = &door.claims[open.len() % door.claims.len()];
        send(&mut stream, claim);
        send(&mut stream, &[0; 512]);
        open.push(stream);
    }
    open
}

/// Sends an attempt without the end of its data, the first half of the first message, and half of an attempt after a
/// complete message.
fn half_commands(door: &Door, _: u64) -> Vec<TcpStream> {
    let mut open = door.connections(IDLE);
    for (number, stream) in open.iter_mut().enumerate() {
        match number % 3 {
            0 => {
                send(stream, &door.attempt[..door.attempt.len() - MISSING_BYTES]);
            }
            1 => {
                send(stream, &door.begin[..door.begin.len() / 2]);
            }
            _ => {
                send(stream, &door.begin);
                send(stream, &door.attempt[..door.attempt.len() / 2]);
            }
        }
    }
    open
}

/// Sends refused attempts, as many on a connection as it accepts.
fn repeated_authentication(door: &Door, _: u64) -> Vec<TcpStream> {
    let (mut open, mut made) = (Vec::new(), 0);
    while made < ATTEMPTS {
        let Some(mut stream) = door.connect() else { break };
        let _bounded = stream.set_read_timeout(Some(std::time::Duration::from_millis(500)));
        for _ in 0..ATTEMPTS / ATTEMPT_CONNECTIONS {
            made += 1;
            let answered = send(&mut stream, &door.attempt) && matches!(stream.read(&mut [0; 4096]), Ok(1..));
            if !answered {
                break;
            }
        }
        open.push(stream);
    }
    open
}

fn reconnect_storm(door: &Door, _: u64) -> Vec<TcpStream> {
    for number in 0..STORM {
        let Some(mut stream) = door.connect() else { continue };
        if number % 2 == 0 {
            send(&mut stream, &door.begin);
        }
    }
    Vec::new()
}

/// Sends valid messages with flipped bits, truncated, repeated, and followed by garbage.
fn malformed(door: &Door, seed: u64) -> Vec<TcpStream> {
    let (mut open, mut seed) = (Vec::new(), Seed::new(seed));
    for _ in 0..MALFORMED {
        let Some(mut stream) = door.connect() else { continue };
        let mut bytes = match seed.range(0, 3) {
            0 => door.begin.clone(),
            1 => [&door.begin[..], &door.attempt[..]].concat(),
            _ => door.claims[seed.range(0, door.claims.len() as u64) as usize].clone(),
        };
        for _ in 0..seed.range(0, 8) {
            let at = seed.range(0, bytes.len() as u64) as usize;
            bytes[at] ^= 1 << seed.range(0, 8);
        }
        if seed.one_in(3) {
            bytes.truncate(seed.range(1, bytes.len() as u64) as usize);
        }
        let garbage = seed.range(0, MAX_GARBAGE_BYTES);
        bytes.extend((0..garbage).map(|_| seed.bits() as u8));
        send(&mut stream, &bytes);
        if seed.one_in(2) {
            open.push(stream);
        }
    }
    open
}

/// iSCSI portals (RFC 7143): discovery logins, and target logins of an unknown initiator.
pub fn iscsi(address: SocketAddr, target: &str) -> Door {
    let log_in = |keys: &[(&str, &str)]| {
        let mut text: Vec<u8> =
            keys.iter().flat_map(|(key, value)| format!("{key}={value}\0").into_bytes()).collect();
        let mut bytes = vec![0; 48];
        (bytes[0], bytes[1], bytes[8]) = (0x43, 0x87, 0x80);
        bytes[5..8].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
        text.resize(text.len().next_multiple_of(4), 0);
        bytes.extend(text);
        bytes
    };
    let name = ("InitiatorName", "iqn.2026-01.test:stranger");
    let begin = log_in(&[name, ("SessionType", "Discovery"), ("AuthMethod", "None")]);
    let attempt = log_in(&[name, ("TargetName", target), ("SessionType", "Normal"), ("AuthMethod", "None")]);
    // DataSegmentLength and TotalAHSLength of a login, a text, data and a command.
    let claim = |opcode: u8| {
        let mut header = vec![0; 48];
        header[0] = opcode;
        header[1] = 0x80;
        header[4..8].copy_from_slice(&[0xff; 4]);
        header
    };
    let claims = [0x43, 0x44, 0x05, 0x01].map(claim).to_vec();
    Door { name: "iSCSI", address, begin, attempt, claims }
}

/// NVMe/TCP portals (TCP Transport 1.0): the initialization, and Connect of an unknown host.
pub fn nvme(address: SocketAddr, subsystem: &str) -> Door {
    let header = |kind: u8, header_bytes: u8, data_at: u8, bytes: u32| {
        let mut header = vec![kind, 0, header_bytes, data_at];
        header.extend(bytes.to_le_bytes());
        header
    };
    let mut begin = header(0x00, 128, 0, 128);
    begin.resize(128, 0);
    let mut attempt = header(0x04, 72, 72, 72 + 1024);
    attempt.resize(72 + 1024, 0);
    // A Fabrics command, Connect, for an admin queue with 32 entries; its data are in the capsule.
    (attempt[8], attempt[9], attempt[12]) = (0x7f, 0x40, 0x01);
    attempt[8 + 32..8 + 36].copy_from_slice(&1024_u32.to_le_bytes());
    attempt[8 + 39] = 0x01;
    attempt[8 + 44] = 31;
    let data = &mut attempt[72..];
    data[..16].copy_from_slice(b"strangers' host.");
    data[16..18].copy_from_slice(&[0xff; 2]);
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    let host = b"nqn.2026-01.test:stranger";
    data[512..512 + host.len()].copy_from_slice(host);
    let claims = vec![
        header(0x00, 255, 255, u32::MAX),
        [&begin[..], &header(0x04, 72, 72, u32::MAX)[..]].concat(),
        [&begin[..], &header(0x06, 24, 24, u32::MAX)[..]].concat(),
    ];
    let attempt = [&begin[..], &attempt[..]].concat();
    Door { name: "NVMe/TCP", address, begin, attempt, claims }
}

/// The API: requests without credentials, and logins with wrong ones.
pub fn api(address: SocketAddr) -> Door {
    let post = |length: u64, body: &str| {
        let head = "POST /api/v1/session HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
        format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
    };
    let begin = b"GET /api/v1/array HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ashlar-0\r\n\r\n".to_vec();
    let body = r#"{"user":"admin","password":"not this one"}"#;
    let attempt = post(body.len() as u64, body);
    let chunked = "POST /api/v1/session HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
                   transfer-encoding: chunked\r\n\r\nfffffff0\r\n";
    let head = format!("GET /healthz HTTP/1.1\r\nhost: a\r\nx: {:60000}", "");
    let claims = vec![post(u64::MAX, "{"), chunked.into(), head.into_bytes(), vec![22, 3, 1, 0xff, 0xff]];
    Door { name: "API", address, begin, attempt, claims }
}

/// A link between arrays or controllers, TLS 1.3: a ClientHello that makes the server sign, without a continuation.
pub fn links(name: &'static str, address: SocketAddr) -> Door {
    tls(name, address, [b"ashlar-link", b"ashlar-other"])
}

/// A server of HTTPS: as a link, with the protocol of HTTP.
pub fn https(name: &'static str, address: SocketAddr) -> Door {
    tls(name, address, [b"http/1.1", b"h2"])
}

fn tls(name: &'static str, address: SocketAddr, [begin, attempt]: [&[u8]; 2]) -> Door {
    let (begin, attempt) = (client_hello(begin), client_hello(attempt));
    // A record, and a handshake message within one.
    let claims = vec![vec![22, 3, 1, 0xff, 0xff, 1], vec![22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff, 3, 3]];
    Door { name, address, begin, attempt, claims }
}

/// A ClientHello (RFC 8446 4.1.2) for an application protocol.
fn client_hello(protocol: &[u8]) -> Vec<u8> {
    let with_length = |bytes: usize, content: &[u8]| {
        let length = (content.len() as u32).to_be_bytes();
        [&length[4 - bytes..], content].concat()
    };
    let extension = |kind: u16, content: &[u8]| [&kind.to_be_bytes()[..], &with_length(2, content)].concat();
    let key = [&[0, 0x1d][..], &with_length(2, &[9; 32])].concat();
    let extensions = [
        // TLS 1.3; ECDSA, EdDSA and RSA-PSS; X25519 with a key share; the protocol.
        extension(43, &with_length(1, &[3, 4])),
        extension(13, &with_length(2, &[4, 3, 5, 3, 8, 7, 8, 4])),
        extension(10, &with_length(2, &[0, 0x1d])),
        extension(51, &with_length(2, &key)),
        extension(16, &with_length(2, &with_length(1, protocol))),
    ];
    let hello = [
        &[3, 3][..],
        &[7; 32],
        &with_length(1, &[]),
        &with_length(2, &[0x13, 1, 0x13, 2]),
        &with_length(1, &[0]),
        &with_length(2, &extensions.concat()),
    ];
    let message = [&[1][..], &with_length(3, &hello.concat())].concat();
    [&[22, 3, 1][..], &with_length(2, &message)].concat()
}
