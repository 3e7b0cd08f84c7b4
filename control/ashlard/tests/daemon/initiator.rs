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
    drop(read_segment(&mut stream, &answer));
    (stream, u16::from_be_bytes(answer[STATUS].try_into().unwrap()))
}

/// Reads the data segment of a PDU.
fn read_segment(stream: &mut TcpStream, header: &[u8; HEADER]) -> Vec<u8> {
    let length = header[DATA_LENGTH].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    let mut segment = vec![0; length.next_multiple_of(4)];
    stream.read_exact(&mut segment).unwrap();
    segment.truncate(length);
    segment
}

/// What one READ(16) asks for.
const READ_BYTES: usize = 64 << 10;

/// A session with one command at a time.
pub struct Session {
    stream: TcpStream,
    cmd_sn: u32,
}

impl Session {
    /// Logs in with a name that the array knows.
    pub fn open(portal: &str, initiator: &str, target: &str) -> Self {
        let (stream, status) = log_in(portal, initiator, target);
        assert_eq!(status, 0, "a log-in that is accepted");
        let mut session = Self { stream, cmd_sn: 0 };
        // The first unit attentions.
        while session.command(&[0; 16], &[]) != 0 {}
        session
    }

    /// WRITE(16) to LUN 0, with the data in the command (at most 8 KiB).
    pub fn write(&mut self, lba: u64, block_bytes: usize, data: &[u8]) {
        let mut cdb = [0; 16];
        cdb[0] = 0x8A;
        cdb[2..10].copy_from_slice(&lba.to_be_bytes());
        cdb[10..14].copy_from_slice(&((data.len() / block_bytes) as u32).to_be_bytes());
        assert_eq!(self.command(&cdb, data), 0, "GOOD");
    }

    /// READ(16) of LUN 0.
    pub fn read(&mut self, lba: u64, block_bytes: usize, bytes: usize) -> Vec<u8> {
        let mut found = Vec::with_capacity(bytes);
        for from in (0..bytes).step_by(READ_BYTES) {
            let count = READ_BYTES.min(bytes - from);
            let mut cdb = [0; 16];
            cdb[0] = 0x88;
            cdb[2..10].copy_from_slice(&(lba + (from / block_bytes) as u64).to_be_bytes());
            cdb[10..14].copy_from_slice(&((count / block_bytes) as u32).to_be_bytes());
            self.send(&cdb, 0x40, count, &[]);
            let (status, data) = self.response();
            assert_eq!((status, data.len()), (0, count), "GOOD");
            found.extend(data);
        }
        found
    }

    /// SCSI Command with immediate data; the status of its SCSI Response.
    fn command(&mut self, cdb: &[u8; 16], data: &[u8]) -> u8 {
        self.send(cdb, if data.is_empty() { 0 } else { 0x20 }, data.len(), data);
        self.response().0
    }

    /// SCSI Command (RFC 7143 11.3) with immediate data. `direction`: the flag R or W; `bytes`: what is expected.
    fn send(&mut self, cdb: &[u8; 16], direction: u8, bytes: usize, data: &[u8]) {
        let mut pdu = vec![0; HEADER];
        pdu[..2].copy_from_slice(&[0x01, 0x80 | direction]);
        pdu[DATA_LENGTH].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        pdu[16..20].copy_from_slice(&self.cmd_sn.to_be_bytes());
        pdu[20..24].copy_from_slice(&(bytes as u32).to_be_bytes());
        pdu[24..28].copy_from_slice(&self.cmd_sn.to_be_bytes());
        pdu[32..48].copy_from_slice(cdb);
        pdu.extend(data);
        self.stream.write_all(&pdu).unwrap();
        self.cmd_sn += 1;
    }

    /// The status of a command, and its data.
    fn response(&mut self) -> (u8, Vec<u8>) {
        let mut found = Vec::new();
        loop {
            let mut header = [0; HEADER];
            self.stream.read_exact(&mut header).unwrap();
            let segment = read_segment(&mut self.stream, &header);
            match header[0] {
                0x21 => return (header[3], found),
                // Data-In, whose last PDU may have the status (RFC 7143 11.7.3).
                0x25 => {
                    found.extend(segment);
                    if header[1] & 1 != 0 {
                        return (header[3], found);
                    }
                }
                _ => {}
            }
        }
    }
}
