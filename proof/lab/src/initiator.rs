//! A minimal iSCSI initiator for measurements: one thread, few copies and batched sends, so that the client's cost does
//! not hide the target's. It supports what a healthy target sends and fails on anything else.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

const HEADER: usize = 48;
const RECEIVE_BUFFER: usize = 4 << 20;
const DATA_SEGMENT_MAX: u32 = 262_144;

mod opcode {
    pub const NOP_OUT: u8 = 0x00;
    pub const COMMAND: u8 = 0x01;
    pub const LOGIN: u8 = 0x03;
    pub const DATA_OUT: u8 = 0x05;
    pub const NOP_IN: u8 = 0x20;
    pub const RESPONSE: u8 = 0x21;
    pub const LOGIN_RESPONSE: u8 = 0x23;
    pub const DATA_IN: u8 = 0x25;
    pub const R2T: u8 = 0x31;
    pub const IMMEDIATE: u8 = 0x40;
}

/// A session of one connection.
pub struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    sent: usize,
    buffer: Vec<u8>,
    filled: usize,
    parsed: usize,
    skip: usize,
    cmd_sn: u32,
    max_cmd_sn: u32,
    expected_stat_sn: u32,
    negotiated: Negotiated,
    payload: std::sync::Arc<[u8]>,
    writes: BTreeMap<u32, Source>,
}

/// Where the data of a write comes from.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Offset in the payload.
    pub at: usize,
    /// If not zero, written over the first bytes of every 4 KiB and incremented, so that all blocks differ.
    pub stamp: u64,
}

struct Negotiated {
    data_segment: usize,
    first_burst: usize,
    immediate: bool,
}

/// A command that ended.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The initiator task tag.
    pub tag: u32,
    /// SCSI status.
    pub status: u8,
}

impl Connection {
    /// Connects and logs in. `payload` is what writes take their data from.
    pub fn login(
        portal: SocketAddr,
        initiator: &str,
        target: &str,
        session: u16,
        payload: std::sync::Arc<[u8]>,
    ) -> Result<Self> {
        let stream = TcpStream::connect(portal).with_context(|| format!("can't connect to {portal}"))?;
        stream.set_nodelay(true)?;
        let mut connection = Self {
            stream,
            out: Vec::new(),
            sent: 0,
            buffer: vec![0; RECEIVE_BUFFER],
            filled: 0,
            parsed: 0,
            skip: 0,
            cmd_sn: 1,
            max_cmd_sn: 1,
            expected_stat_sn: 0,
            negotiated: Negotiated { data_segment: 8192, first_burst: 65536, immediate: true },
            payload,
            writes: BTreeMap::new(),
        };
        let security = [
            ("InitiatorName", initiator),
            ("TargetName", target),
            ("SessionType", "Normal"),
            ("AuthMethod", "None"),
        ];
        connection.login_stage(session, 0x81, &security)?;
        let segment = DATA_SEGMENT_MAX.to_string();
        let operational = [
            ("HeaderDigest", "None"),
            ("DataDigest", "None"),
            ("InitialR2T", "Yes"),
            ("ImmediateData", "Yes"),
            ("MaxRecvDataSegmentLength", &segment),
            ("MaxBurstLength", &segment),
            ("FirstBurstLength", "65536"),
            ("MaxConnections", "1"),
            ("ErrorRecoveryLevel", "0"),
            ("MaxOutstandingR2T", "1"),
            ("DefaultTime2Wait", "2"),
            ("DefaultTime2Retain", "0"),
            ("DataPDUInOrder", "Yes"),
            ("DataSequenceInOrder", "Yes"),
        ];
        connection.login_stage(session, 0x87, &operational)?;
        connection.stream.set_nonblocking(true)?;
        Ok(connection)
    }

    /// One stage of the log-in; keys may need several responses before the target proceeds.
    fn login_stage(&mut self, session: u16, flags: u8, keys: &[(&str, &str)]) -> Result<()> {
        let mut text: Vec<u8> =
            keys.iter().flat_map(|(key, value)| format!("{key}={value}\0").into_bytes()).collect();
        for _ in 0..8 {
            let mut header = [0; HEADER];
            header[0] = opcode::IMMEDIATE | opcode::LOGIN;
            header[1] = flags;
            put24(&mut header, 5, text.len());
            header[8] = 0x80;
            header[12..14].copy_from_slice(&session.to_be_bytes());
            put32(&mut header, 24, self.cmd_sn);
            put32(&mut header, 28, self.expected_stat_sn);
            text.resize(text.len().next_multiple_of(4), 0);
            self.stream.write_all(&header)?;
            self.stream.write_all(&text)?;
            let mut answer = [0; HEADER];
            self.stream.read_exact(&mut answer).context("the target closed the connection at log-in")?;
            let mut data = vec![0; get24(&answer, 5).next_multiple_of(4)];
            self.stream.read_exact(&mut data)?;
            ensure!(answer[0] & 0x3f == opcode::LOGIN_RESPONSE, "no log-in response: {:#x}", answer[0]);
            ensure!(answer[36] == 0, "log-in refused: class {} detail {}", answer[36], answer[37]);
            self.expected_stat_sn = get32(&answer, 24).wrapping_add(1);
            self.max_cmd_sn = get32(&answer, 32);
            String::from_utf8_lossy(&data).split('\0').for_each(|pair| self.apply_key(pair));
            if answer[1] & 0x80 != 0 {
                return Ok(());
            }
            text.clear();
        }
        bail!("the log-in does not complete")
    }

    fn apply_key(&mut self, pair: &str) {
        let Some((key, value)) = pair.split_once('=') else { return };
        match key {
            "MaxRecvDataSegmentLength" => self.negotiated.data_segment = value.parse().unwrap_or(8192),
            "FirstBurstLength" => self.negotiated.first_burst = value.parse().unwrap_or(512),
            "ImmediateData" => self.negotiated.immediate = value == "Yes",
            _ => {}
        }
    }

    /// True when the target's command window has room.
    pub fn may_send(&self) -> bool {
        self.max_cmd_sn.wrapping_sub(self.cmd_sn) < 1 << 31
    }

    /// Queues a command of `bytes` transferred; a write has a source of data.
    pub fn queue(&mut self, tag: u32, lun: u16, cdb: &[u8; 16], bytes: u32, source: Option<Source>) {
        let mut header = [0; HEADER];
        header[0] = opcode::COMMAND;
        header[1] = 0x81 | if source.is_some() { 0x20 } else { 0x40 };
        if bytes == 0 {
            header[1] = 0x81;
        }
        header[8..10].copy_from_slice(&(if lun < 256 { lun } else { 0x4000 | lun }).to_be_bytes());
        put32(&mut header, 16, tag);
        put32(&mut header, 20, bytes);
        put32(&mut header, 24, self.cmd_sn);
        put32(&mut header, 28, self.expected_stat_sn);
        header[32..].copy_from_slice(cdb);
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        let Some(source) = source else { return self.out.extend(header) };
        let limit = self.negotiated.first_burst.min(self.negotiated.data_segment);
        let immediate = if self.negotiated.immediate { limit.min(bytes as usize) } else { 0 };
        put24(&mut header, 5, immediate);
        self.out.extend(header);
        self.append(source, 0, immediate);
        self.writes.insert(tag, source);
    }

    /// Adds a part of a write's data to what is sent.
    fn append(&mut self, source: Source, offset: usize, bytes: usize) {
        let (from, begin) = (source.at + offset, self.out.len());
        self.out.extend_from_slice(&self.payload[from..from + bytes]);
        if source.stamp == 0 {
            return;
        }
        for at in (offset.next_multiple_of(4096)..offset + bytes).step_by(4096) {
            let stamp = source.stamp.wrapping_add(at as u64 / 4096);
            if let Some(head) = self.out.get_mut(begin + at - offset..begin + at - offset + 8) {
                head.copy_from_slice(&stamp.to_le_bytes());
            }
        }
    }

    /// Sends queued bytes as far as the socket accepts them. True if any remain.
    pub fn flush(&mut self) -> Result<bool> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error).context("sending"),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(false)
    }

    /// Processes received bytes and adds completed commands.
    pub fn receive(&mut self, answers: &mut Vec<Answer>) -> Result<()> {
        match self.stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => bail!("the target closed the connection"),
            Ok(bytes) => self.filled += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("receiving"),
        }
        loop {
            let skipped = self.skip.min(self.filled - self.parsed);
            self.parsed += skipped;
            self.skip -= skipped;
            if self.skip > 0 || self.filled - self.parsed < HEADER {
                break;
            }
            let mut header = [0; HEADER];
            header.copy_from_slice(&self.buffer[self.parsed..self.parsed + HEADER]);
            self.parsed += HEADER;
            self.skip = get24(&header, 5).next_multiple_of(4);
            self.take(&header, answers)?;
        }
        self.buffer.copy_within(self.parsed..self.filled, 0);
        self.filled -= self.parsed;
        self.parsed = 0;
        Ok(())
    }

    fn take(&mut self, header: &[u8; HEADER], answers: &mut Vec<Answer>) -> Result<()> {
        let (tag, max_cmd_sn) = (get32(header, 16), get32(header, 32));
        if max_cmd_sn.wrapping_sub(self.max_cmd_sn) < 1 << 31 {
            self.max_cmd_sn = max_cmd_sn;
        }
        match header[0] & 0x3f {
            opcode::DATA_IN if header[1] & 1 == 0 => {}
            opcode::DATA_IN | opcode::RESPONSE => {
                self.expected_stat_sn = get32(header, 24).wrapping_add(1);
                self.writes.remove(&tag);
                answers.push(Answer { tag, status: header[3] });
            }
            opcode::R2T => self.data_out(header, tag)?,
            opcode::NOP_IN => self.nop(header),
            other => bail!("unexpected PDU {other:#x}"),
        }
        Ok(())
    }

    fn data_out(&mut self, r2t: &[u8; HEADER], tag: u32) -> Result<()> {
        let source = *self.writes.get(&tag).context("an R2T for an unknown task")?;
        let (mut offset, mut left) = (get32(r2t, 40) as usize, get32(r2t, 44) as usize);
        let mut data_sn = 0;
        while left > 0 {
            let bytes = left.min(self.negotiated.data_segment);
            let mut header = [0; HEADER];
            header[0] = opcode::DATA_OUT;
            header[1] = if bytes == left { 0x80 } else { 0 };
            put24(&mut header, 5, bytes);
            header[8..16].copy_from_slice(&r2t[8..16]);
            header[16..24].copy_from_slice(&r2t[16..24]);
            put32(&mut header, 28, self.expected_stat_sn);
            put32(&mut header, 36, data_sn);
            put32(&mut header, 40, offset as u32);
            self.out.extend(header);
            self.append(source, offset, bytes);
            (offset, left, data_sn) = (offset + bytes, left - bytes, data_sn + 1);
        }
        Ok(())
    }

    fn nop(&mut self, ping: &[u8; HEADER]) {
        if get32(ping, 20) == u32::MAX {
            return;
        }
        let mut header = [0; HEADER];
        header[0] = opcode::IMMEDIATE | opcode::NOP_OUT;
        header[1] = 0x80;
        header[8..16].copy_from_slice(&ping[8..16]);
        put32(&mut header, 16, u32::MAX);
        header[20..24].copy_from_slice(&ping[20..24]);
        put32(&mut header, 24, self.cmd_sn);
        put32(&mut header, 28, self.expected_stat_sn);
        self.out.extend(header);
    }

    /// Descriptor and events for poll(2).
    pub fn pollfd(&self) -> libc::pollfd {
        let write = if self.sent < self.out.len() { libc::POLLOUT } else { 0 };
        libc::pollfd { fd: self.stream.as_raw_fd(), events: libc::POLLIN | write, revents: 0 }
    }
}

fn put24(header: &mut [u8; HEADER], at: usize, value: usize) {
    header[at..at + 3].copy_from_slice(&(value as u32).to_be_bytes()[1..]);
}

fn put32(header: &mut [u8; HEADER], at: usize, value: u32) {
    header[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn get24(header: &[u8; HEADER], at: usize) -> usize {
    usize::from(header[at]) << 16 | usize::from(header[at + 1]) << 8 | usize::from(header[at + 2])
}

fn get32(header: &[u8; HEADER], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}
