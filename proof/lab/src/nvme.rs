//! A minimal NVMe/TCP host for measurements (NVMe TCP Transport 1.0, NVMe over Fabrics): one thread, as the iSCSI initiator
//! beside it. It supports what a healthy controller sends and fails on anything else.

use crate::channel::Channel;
use crate::load::{Answer, Command, Initiator, LOGICAL_BLOCK_BYTES, Source};
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// PDU types (TCP Transport 1.0, 3.6).
mod pdu {
    pub const IC_REQUEST: u8 = 0x00;
    pub const IC_RESPONSE: u8 = 0x01;
    pub const COMMAND: u8 = 0x04;
    pub const RESPONSE: u8 = 0x05;
    pub const H2C_DATA: u8 = 0x06;
    pub const C2H_DATA: u8 = 0x07;
    pub const R2T: u8 = 0x09;
    /// LAST_PDU of a data PDU.
    pub const LAST: u8 = 0x04;
    /// SUCCESS of a C2HData PDU: there will be no response.
    pub const SUCCESS: u8 = 0x08;
}

/// Opcodes of the admin and the NVM command set, and of Fabrics.
mod opcode {
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const IDENTIFY: u8 = 0x06;
    pub const SET_FEATURES: u8 = 0x09;
    pub const FABRICS: u8 = 0x7f;
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
}

const IC_BYTES: usize = 128;
/// Of what a controller sends: each of its headers has this length.
const HEADER: usize = 24;
/// Of a command capsule without data.
const CAPSULE: usize = 72;
const SQE: usize = 64;
const QUEUE_ENTRIES: u16 = 128;
/// CC: enabled, entries of 64 and 16 bytes.
const ENABLE: u32 = 0x0046_0001;
const OFFSET_CC: u32 = 0x14;
const OFFSET_CSTS: u32 = 0x1c;
const FEATURE_QUEUES: u32 = 0x07;
/// IOCCSZ in the controller's data structure.
const CAPSULE_SIZE_AT: usize = 1792;
/// SGL descriptors: data in the capsule at an offset, and data that the transport moves.
const IN_CAPSULE: u8 = 0x01;
const TRANSPORT: u8 = 0x5a;

/// A host, a subsystem, and where it is.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub portal: SocketAddr,
    pub host: &'a str,
    pub subsystem: &'a str,
}

/// A controller, kept by its admin queue.
pub(crate) struct Controller {
    _admin: Admin,
    id: u16,
    /// Data of a write that go with its command, in bytes.
    in_capsule: usize,
    /// The first namespace that the host sees.
    namespace: u32,
}

impl Controller {
    /// Connects the admin queue, enables the controller, and asks for `queues` I/O queues.
    pub fn connect(names: Names, queues: u16) -> Result<Self> {
        let mut admin = Admin::connect(names, 0, 0xffff)?;
        let id = admin.controller;
        admin.property_set(OFFSET_CC, ENABLE)?;
        while admin.property_get(OFFSET_CSTS)? & 1 == 0 {}
        let identity = admin.identify(0x01)?;
        let in_capsule = (get32(&identity, CAPSULE_SIZE_AT) as usize * 16).saturating_sub(SQE);
        let namespace = get32(&admin.identify(0x02)?, 0);
        ensure!(namespace != 0, "the controller shows no namespace");
        let wanted = u32::from(queues - 1);
        let mut features = sqe(opcode::SET_FEATURES);
        put32(&mut features, 40, FEATURE_QUEUES);
        put32(&mut features, 44, wanted << 16 | wanted);
        let granted = admin.command(features, &[])?.0;
        ensure!(granted & 0xffff >= wanted && granted >> 16 >= wanted, "fewer queues than {queues}");
        Ok(Self { _admin: admin, id, in_capsule, namespace })
    }

    /// Connects an I/O queue; `id` counts from one.
    pub fn queue(&self, names: Names, id: u16, payload: Arc<[u8]>) -> Result<Queue> {
        let admin = Admin::connect(names, id, self.id)?;
        let data_bytes = admin.data_bytes;
        let channel = Channel::new(admin.stream)?;
        let (in_capsule, namespace) = (self.in_capsule, self.namespace);
        let writes = vec![None; usize::from(QUEUE_ENTRIES)];
        Ok(Queue { channel, namespace, in_capsule, data_bytes, outstanding: 0, payload, writes })
    }
}

/// A queue that does one command at a time and waits for it.
struct Admin {
    stream: TcpStream,
    /// The controller's identifier.
    controller: u16,
    /// MAXH2CDATA.
    data_bytes: usize,
}

impl Admin {
    fn connect(names: Names, queue: u16, controller: u16) -> Result<Self> {
        let portal = names.portal;
        let mut stream = TcpStream::connect(portal).with_context(|| format!("can't connect to {portal}"))?;
        stream.set_nodelay(true)?;
        let mut request = [0; IC_BYTES];
        request[0] = pdu::IC_REQUEST;
        request[2] = IC_BYTES as u8;
        put32(&mut request, 4, IC_BYTES as u32);
        stream.write_all(&request)?;
        let mut answer = [0; IC_BYTES];
        stream.read_exact(&mut answer).context("the target does not initialize the connection")?;
        ensure!(answer[0] == pdu::IC_RESPONSE, "no ICResp: {:#x}", answer[0]);
        ensure!(answer[10] == 0 && answer[11] == 0, "the target wants padding or digests");
        let mut queue_of = Self { stream, controller, data_bytes: get32(&answer, 12) as usize };
        let mut connect = sqe(opcode::FABRICS);
        connect[4] = opcode::CONNECT;
        connect[42..44].copy_from_slice(&queue.to_le_bytes());
        connect[44..46].copy_from_slice(&(QUEUE_ENTRIES - 1).to_le_bytes());
        let mut data = [0; 1024];
        data[..16].copy_from_slice(b"load of the lab.");
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        data[256..256 + names.subsystem.len()].copy_from_slice(names.subsystem.as_bytes());
        data[512..512 + names.host.len()].copy_from_slice(names.host.as_bytes());
        let (id, _) = queue_of.command(connect, &data).context("the connection is refused")?;
        queue_of.controller = id as u16;
        Ok(queue_of)
    }

    fn property_set(&mut self, offset: u32, value: u32) -> Result<()> {
        let mut set = sqe(opcode::FABRICS);
        set[4] = opcode::PROPERTY_SET;
        put32(&mut set, 44, offset);
        put32(&mut set, 48, value);
        self.command(set, &[]).map(drop)
    }

    fn property_get(&mut self, offset: u32) -> Result<u32> {
        let mut get = sqe(opcode::FABRICS);
        get[4] = opcode::PROPERTY_GET;
        put32(&mut get, 44, offset);
        self.command(get, &[]).map(|(value, _)| value)
    }

    fn identify(&mut self, structure: u32) -> Result<Vec<u8>> {
        let mut identify = sqe(opcode::IDENTIFY);
        put32(&mut identify, 40, structure);
        put32(&mut identify, 32, 4096);
        identify[39] = TRANSPORT;
        let (_, data) = self.command(identify, &[])?;
        ensure!(data.len() == 4096, "Identify {structure} has {} bytes", data.len());
        Ok(data)
    }

    /// Sends a command with data in its capsule; the first word of its completion, and the data that came.
    fn command(&mut self, mut entry: [u8; SQE], data: &[u8]) -> Result<(u32, Vec<u8>)> {
        if !data.is_empty() {
            put32(&mut entry, 32, data.len() as u32);
            entry[39] = IN_CAPSULE;
        }
        self.stream.write_all(&capsule(&entry, data.len()))?;
        self.stream.write_all(data)?;
        let mut received = Vec::new();
        loop {
            let mut header = [0; HEADER];
            self.stream.read_exact(&mut header).context("the target closed the connection")?;
            let mut rest = vec![0; (get32(&header, 4) as usize).saturating_sub(HEADER)];
            self.stream.read_exact(&mut rest)?;
            match header[0] {
                pdu::RESPONSE => {
                    let status = completion_status(&header);
                    ensure!(status == 0, "opcode {:#x}: status {status:#x}", entry[0]);
                    return Ok((get32(&header, 8), received));
                }
                pdu::C2H_DATA => {
                    received
                        .extend_from_slice(rest.get(usize::from(header[3]) - HEADER..).context("no data")?);
                    if header[1] & pdu::SUCCESS != 0 {
                        return Ok((0, received));
                    }
                }
                other => bail!("unexpected PDU {other:#x}"),
            }
        }
    }
}

/// An I/O queue.
pub(crate) struct Queue {
    channel: Channel,
    namespace: u32,
    in_capsule: usize,
    data_bytes: usize,
    outstanding: u16,
    payload: Arc<[u8]>,
    /// Writes whose data are asked for, by command identifier.
    writes: Vec<Option<Source>>,
}

impl Queue {
    fn end(&mut self, header: &[u8; HEADER], tag: u16, status: u16, answers: &mut Vec<Answer>) -> Result<()> {
        let write = self.writes.get_mut(usize::from(tag));
        let write = write.with_context(|| format!("an answer to an unknown command: {header:?}"))?;
        *write = None;
        self.outstanding -= 1;
        answers.push(Answer { tag: tag.into(), status });
        Ok(())
    }

    fn send_data(&mut self, r2t: &[u8; HEADER]) -> Result<()> {
        let tag = get16(r2t, 8);
        let source = self.writes.get(usize::from(tag)).copied().flatten();
        let source = source.context("an R2T for an unknown command")?;
        let (mut offset, mut left) = (get32(r2t, 12) as usize, get32(r2t, 16) as usize);
        while left > 0 {
            let bytes = left.min(self.data_bytes);
            let mut header = [0; HEADER];
            header[0] = pdu::H2C_DATA;
            header[1] = if bytes == left { pdu::LAST } else { 0 };
            header[2] = HEADER as u8;
            header[3] = HEADER as u8;
            put32(&mut header, 4, (HEADER + bytes) as u32);
            header[8..12].copy_from_slice(&r2t[8..12]);
            put32(&mut header, 12, offset as u32);
            put32(&mut header, 16, bytes as u32);
            self.channel.out.extend(header);
            source.append(&self.payload, offset, bytes, &mut self.channel.out);
            (offset, left) = (offset + bytes, left - bytes);
        }
        Ok(())
    }
}

impl Initiator for Queue {
    fn may_send(&self) -> bool {
        self.outstanding < QUEUE_ENTRIES - 1
    }

    fn queue(&mut self, command: Command) {
        let Command { tag, at, bytes, source } = command;
        let mut entry = sqe(if source.is_some() { opcode::WRITE } else { opcode::READ });
        entry[2..4].copy_from_slice(&(tag as u16).to_le_bytes());
        put32(&mut entry, 4, self.namespace);
        put32(&mut entry, 32, bytes);
        let in_capsule = source.filter(|_| bytes as usize <= self.in_capsule);
        entry[39] = if in_capsule.is_some() { IN_CAPSULE } else { TRANSPORT };
        entry[40..48].copy_from_slice(&(at / u64::from(LOGICAL_BLOCK_BYTES)).to_le_bytes());
        put32(&mut entry, 48, bytes / LOGICAL_BLOCK_BYTES - 1);
        self.outstanding += 1;
        let data = if in_capsule.is_some() { bytes as usize } else { 0 };
        self.channel.out.extend(capsule(&entry, data));
        if let Some(source) = in_capsule {
            source.append(&self.payload, 0, data, &mut self.channel.out);
        }
        if let Some(write) = self.writes.get_mut(tag as usize) {
            *write = source;
        }
    }

    fn flush(&mut self) -> Result<bool> {
        self.channel.flush()
    }

    fn receive(&mut self, answers: &mut Vec<Answer>) -> Result<()> {
        self.channel.fill()?;
        while let Some(header) = self.channel.header::<HEADER>() {
            let length = get32(&header, 4) as usize;
            self.channel.skip(length.checked_sub(HEADER).context("a PDU shorter than its header")?);
            match header[0] {
                pdu::C2H_DATA if header[1] & pdu::SUCCESS == 0 => {}
                pdu::C2H_DATA => self.end(&header, get16(&header, 8), 0, answers)?,
                pdu::RESPONSE => {
                    self.end(&header, get16(&header, 20), completion_status(&header), answers)?;
                }
                pdu::R2T => self.send_data(&header)?,
                other => bail!("unexpected PDU {other:#x}"),
            }
        }
        Ok(())
    }

    fn pollfd(&self) -> libc::pollfd {
        self.channel.pollfd()
    }
}

/// A submission queue entry whose data are described by an SGL (PSDT 01b).
fn sqe(opcode: u8) -> [u8; SQE] {
    let mut entry = [0; SQE];
    (entry[0], entry[1]) = (opcode, 0x40);
    entry
}

/// The header of a command capsule with that entry and this many bytes of data after it.
fn capsule(entry: &[u8; SQE], data: usize) -> [u8; CAPSULE] {
    let mut capsule = [0; CAPSULE];
    (capsule[0], capsule[2]) = (pdu::COMMAND, CAPSULE as u8);
    if data > 0 {
        capsule[3] = CAPSULE as u8;
    }
    put32(&mut capsule, 4, (CAPSULE + data) as u32);
    capsule[8..].copy_from_slice(entry);
    capsule
}

/// The status field of a response without its phase bit.
fn completion_status(header: &[u8; HEADER]) -> u16 {
    get16(header, 22) >> 1
}

fn put32(to: &mut [u8], at: usize, value: u32) {
    to[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get32(from: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]])
}

fn get16(from: &[u8; HEADER], at: usize) -> u16 {
    u16::from_le_bytes([from[at], from[at + 1]])
}
