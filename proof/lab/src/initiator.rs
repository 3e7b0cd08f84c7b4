//! A minimal iSCSI initiator for measurements: one thread, few copies and batched sends, so that the client's cost does
//! not dominate the target's. It supports the responses of a healthy target and fails on anything else.

use crate::channel::Channel;
use crate::libiscsi::wait;
use crate::load::{Answer, Command, Initiator, LOGICAL_BLOCK_BYTES, STALL_TIMEOUT_MS, Source};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

const HEADER: usize = 48;
const READ_16: u8 = 0x88;
const WRITE_16: u8 = 0x8a;
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

/// A session with one connection, for commands to one logical unit.
pub(crate) struct Connection {
    channel: Channel,
    lun: u16,
    sequence: Sequence,
    negotiated: Negotiated,
    payload: Arc<[u8]>,
    writes: BTreeMap<u32, Source>,
}

/// Names of the initiator and target, and the portal.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub portal: SocketAddr,
    pub initiator: &'a str,
    pub target: &'a str,
}

struct Sequence {
    cmd_sn: u32,
    max_cmd_sn: u32,
    expected_stat_sn: u32,
}

struct Negotiated {
    data_segment: usize,
    first_burst: usize,
    immediate: bool,
}

/// The login, during which the connection still blocks.
struct Login {
    stream: TcpStream,
    session: u16,
    sequence: Sequence,
    negotiated: Negotiated,
}

impl Login {
    fn run(&mut self, names: Names) -> Result<()> {
        let security = [
            ("InitiatorName", names.initiator),
            ("TargetName", names.target),
            ("SessionType", "Normal"),
            ("AuthMethod", "None"),
        ];
        self.stage(0x81, &security)?;
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
        self.stage(0x87, &operational)
    }

    /// One stage of the login; keys may need several responses before the target proceeds.
    fn stage(&mut self, flags: u8, keys: &[(&str, &str)]) -> Result<()> {
        let mut text: Vec<u8> =
            keys.iter().flat_map(|(key, value)| format!("{key}={value}\0").into_bytes()).collect();
        for _ in 0..8 {
            let mut header = [0; HEADER];
            header[0] = opcode::IMMEDIATE | opcode::LOGIN;
            header[1] = flags;
            put24(&mut header, 5, text.len());
            header[8] = 0x80;
            header[12..14].copy_from_slice(&self.session.to_be_bytes());
            put32(&mut header, 24, self.sequence.cmd_sn);
            put32(&mut header, 28, self.sequence.expected_stat_sn);
            text.resize(text.len().next_multiple_of(4), 0);
            self.stream.write_all(&header)?;
            self.stream.write_all(&text)?;
            let mut answer = [0; HEADER];
            self.stream.read_exact(&mut answer).context("the target closed the connection at log-in")?;
            let mut data = vec![0; get24(&answer, 5).next_multiple_of(4)];
            self.stream.read_exact(&mut data)?;
            ensure!(answer[0] & 0x3f == opcode::LOGIN_RESPONSE, "no log-in response: {:#x}", answer[0]);
            ensure!(answer[36] == 0, "log-in refused: class {} detail {}", answer[36], answer[37]);
            self.sequence.expected_stat_sn = get32(&answer, 24).wrapping_add(1);
            self.sequence.max_cmd_sn = get32(&answer, 32);
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
}

impl Connection {
    /// Connects, logs in, and clears unit attentions. `payload` supplies the data of writes.
    pub fn login(names: Names, session: u16, lun: u16, payload: Arc<[u8]>) -> Result<Self> {
        let portal = names.portal;
        let stream = TcpStream::connect(portal).with_context(|| format!("can't connect to {portal}"))?;
        stream.set_nodelay(true)?;
        let sequence = Sequence { cmd_sn: 1, max_cmd_sn: 1, expected_stat_sn: 0 };
        let negotiated = Negotiated { data_segment: 8192, first_burst: 65536, immediate: true };
        let mut login = Login { stream, session, sequence, negotiated };
        login.run(names)?;
        let Login { stream, sequence, negotiated, .. } = login;
        let (channel, writes) = (Channel::new(stream)?, BTreeMap::new());
        let mut connection = Self { channel, lun, sequence, negotiated, payload, writes };
        connection.make_ready()?;
        Ok(connection)
    }

    /// A new session may first get unit attentions.
    fn make_ready(&mut self) -> Result<()> {
        let mut answers = Vec::new();
        for _ in 0..10 {
            self.command(0, &[0; 16], 0, None);
            self.flush()?;
            while answers.is_empty() {
                let mut poll = [self.pollfd()];
                wait(&mut poll, STALL_TIMEOUT_MS)?;
                ensure!(poll[0].revents != 0, "the target does not answer TEST UNIT READY");
                self.receive(&mut answers)?;
            }
            if answers.drain(..).all(|answer| answer.status == 0) {
                return Ok(());
            }
        }
        bail!("LUN {} does not get ready", self.lun)
    }

    /// Queues a command with `bytes` of data; a write has a data source.
    fn command(&mut self, tag: u32, cdb: &[u8; 16], bytes: u32, source: Option<Source>) {
        let mut header = [0; HEADER];
        header[0] = opcode::COMMAND;
        header[1] = 0x81 | if source.is_some() { 0x20 } else { 0x40 };
        if bytes == 0 {
            header[1] = 0x81;
        }
        let lun = self.lun;
        header[8..10].copy_from_slice(&(if lun < 256 { lun } else { 0x4000 | lun }).to_be_bytes());
        put32(&mut header, 16, tag);
        put32(&mut header, 20, bytes);
        put32(&mut header, 24, self.sequence.cmd_sn);
        put32(&mut header, 28, self.sequence.expected_stat_sn);
        header[32..].copy_from_slice(cdb);
        self.sequence.cmd_sn = self.sequence.cmd_sn.wrapping_add(1);
        let Some(source) = source else { return self.channel.out.extend(header) };
        let limit = self.negotiated.first_burst.min(self.negotiated.data_segment);
        let immediate = if self.negotiated.immediate { limit.min(bytes as usize) } else { 0 };
        put24(&mut header, 5, immediate);
        self.channel.out.extend(header);
        source.append(&self.payload, 0, immediate, &mut self.channel.out);
        self.writes.insert(tag, source);
    }

    fn take(&mut self, header: &[u8; HEADER], answers: &mut Vec<Answer>) -> Result<()> {
        let (tag, max_cmd_sn) = (get32(header, 16), get32(header, 32));
        if max_cmd_sn.wrapping_sub(self.sequence.max_cmd_sn) < 1 << 31 {
            self.sequence.max_cmd_sn = max_cmd_sn;
        }
        match header[0] & 0x3f {
            opcode::DATA_IN if header[1] & 1 == 0 => {}
            opcode::DATA_IN | opcode::RESPONSE => {
                self.sequence.expected_stat_sn = get32(header, 24).wrapping_add(1);
                self.writes.remove(&tag);
                answers.push(Answer { tag, status: u16::from(header[3]) });
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
            put32(&mut header, 28, self.sequence.expected_stat_sn);
            put32(&mut header, 36, data_sn);
            put32(&mut header, 40, offset as u32);
            self.channel.out.extend(header);
            source.append(&self.payload, offset, bytes, &mut self.channel.out);
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
        put32(&mut header, 24, self.sequence.cmd_sn);
        put32(&mut header, 28, self.sequence.expected_stat_sn);
        self.channel.out.extend(header);
    }
}

impl Initiator for Connection {
    fn may_send(&self) -> bool {
        self.sequence.max_cmd_sn.wrapping_sub(self.sequence.cmd_sn) < 1 << 31
    }

    fn queue(&mut self, command: Command) {
        let Command { tag, at, bytes, source } = command;
        let mut cdb = [0; 16];
        cdb[0] = if source.is_some() { WRITE_16 } else { READ_16 };
        cdb[2..10].copy_from_slice(&(at / u64::from(LOGICAL_BLOCK_BYTES)).to_be_bytes());
        cdb[10..14].copy_from_slice(&(bytes / LOGICAL_BLOCK_BYTES).to_be_bytes());
        self.command(tag, &cdb, bytes, source);
    }

    fn flush(&mut self) -> Result<bool> {
        self.channel.flush()
    }

    fn receive(&mut self, answers: &mut Vec<Answer>) -> Result<()> {
        self.channel.fill()?;
        while let Some(header) = self.channel.header::<HEADER>() {
            self.channel.skip(get24(&header, 5).next_multiple_of(4));
            self.take(&header, answers)?;
        }
        Ok(())
    }

    fn pollfd(&self) -> libc::pollfd {
        self.channel.pollfd()
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
