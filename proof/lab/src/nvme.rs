//! A minimal NVMe/TCP host for measurements and for the block checker (NVMe TCP Transport 1.0, NVMe over Fabrics): one
//! thread, like the iSCSI initiator. It supports the responses of a healthy controller and fails on anything else.

use crate::channel::Channel;
use crate::libiscsi::Transfer;
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
    /// SUCCESS of a C2HData PDU: no response follows.
    pub const SUCCESS: u8 = 0x08;
}

/// Opcodes of the admin and NVM command sets, and of Fabrics.
pub(crate) mod opcode {
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const COMPARE: u8 = 0x05;
    pub const WRITE_ZEROES: u8 = 0x08;
    pub const RESERVATION_REGISTER: u8 = 0x0d;
    pub const RESERVATION_ACQUIRE: u8 = 0x11;
    pub const RESERVATION_RELEASE: u8 = 0x15;
    pub const IDENTIFY: u8 = 0x06;
    pub const SET_FEATURES: u8 = 0x09;
    pub const FABRICS: u8 = 0x7f;
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
}

const IC_BYTES: usize = 128;
/// Length of every header from a controller.
const HEADER: usize = 24;
/// Length of a command capsule without data.
const CAPSULE: usize = 72;
const SQE: usize = 64;
/// Entries of a queue: one less can be outstanding.
pub(crate) const QUEUE_ENTRIES: u16 = 128;
/// CC: enabled, entries of 64 and 16 bytes.
const ENABLE: u32 = 0x0046_0001;
const OFFSET_CC: u32 = 0x14;
const OFFSET_CSTS: u32 = 0x1c;
const FEATURE_QUEUES: u32 = 0x07;
/// Offset of IOCCSZ in the controller's data structure.
const CAPSULE_SIZE_AT: usize = 1792;
/// SGL descriptors: data in the capsule at an offset, and data that the transport transfers.
const IN_CAPSULE: u8 = 0x01;
const TRANSPORT: u8 = 0x5a;

/// Names of a host and a subsystem, and the subsystem's address.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub portal: SocketAddr,
    pub host: &'a str,
    pub subsystem: &'a str,
}

/// A controller, which exists as long as its admin queue.
pub(crate) struct Controller {
    _admin: Admin,
    id: u16,
    /// Maximum in-capsule data of a write, in bytes.
    in_capsule: usize,
    /// The namespaces that the host sees.
    namespaces: Vec<u32>,
}

impl Controller {
    /// Connects the admin queue, enables the controller, and requests `queues` I/O queues.
    pub fn connect(names: Names, queues: u16) -> Result<Self> {
        let mut admin = Admin::connect(names, 0, 0xffff)?;
        let id = admin.controller;
        admin.property_set(OFFSET_CC, ENABLE)?;
        while admin.property_get(OFFSET_CSTS)? & 1 == 0 {}
        let identity = admin.identify(0x01)?;
        let in_capsule = (get32(&identity, CAPSULE_SIZE_AT) as usize * 16).saturating_sub(SQE);
        let list = admin.identify(0x02)?;
        let namespaces: Vec<u32> = list.chunks(4).map(|it| get32(it, 0)).take_while(|it| *it != 0).collect();
        ensure!(!namespaces.is_empty(), "the controller shows no namespace");
        let wanted = u32::from(queues - 1);
        let mut features = sqe(opcode::SET_FEATURES);
        put32(&mut features, 40, FEATURE_QUEUES);
        put32(&mut features, 44, wanted << 16 | wanted);
        let granted = admin.command(features, &[])?.0;
        ensure!(granted & 0xffff >= wanted && granted >> 16 >= wanted, "fewer queues than {queues}");
        Ok(Self { _admin: admin, id, in_capsule, namespaces })
    }

    /// The namespaces that the host sees, in the order of their identifiers.
    pub fn namespaces(&self) -> &[u32] {
        &self.namespaces
    }

    /// Connects an I/O queue; `id` counts from one.
    pub fn queue(&self, names: Names, id: u16, payload: Arc<[u8]>) -> Result<Queue> {
        let admin = Admin::connect(names, id, self.id)?;
        let data_bytes = admin.data_bytes;
        let channel = Channel::new(admin.stream)?;
        let namespace = *self.namespaces.first().context("no namespace")?;
        let slots = (0..QUEUE_ENTRIES).map(|_| Slot::default()).collect();
        let in_capsule = self.in_capsule;
        let (outstanding, arriving) = (0, None);
        Ok(Queue { channel, namespace, in_capsule, data_bytes, outstanding, payload, slots, arriving })
    }
}

/// A queue for one command at a time.
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
        data[..16].copy_from_slice(&host_id(names.host));
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

    /// Sends a command with in-capsule data; returns dword 0 of its completion, and the received data.
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
    /// Commands by identifier.
    slots: Vec<Slot>,
    /// The command whose data are arriving, the number of missing bytes, and whether they end it.
    arriving: Option<(u16, usize, bool)>,
}

/// State of an outstanding command.
#[derive(Default)]
struct Slot {
    out: Option<Outgoing>,
    /// Data received so far; `None` if they are discarded.
    received: Option<Vec<u8>>,
}

/// Data of a write, until its response.
enum Outgoing {
    Payload(Source),
    Bytes(Vec<u8>),
}

impl Outgoing {
    fn append(&self, payload: &[u8], offset: usize, bytes: usize, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Payload(source) => source.append(payload, offset, bytes, out),
            Self::Bytes(data) => {
                out.extend_from_slice(data.get(offset..offset + bytes).context("an R2T beyond the data")?);
            }
        }
        Ok(())
    }
}

impl Queue {
    /// Queues any command with its data; `id`, its identifier, must be unused and less than [`QUEUE_ENTRIES`].
    pub fn send(&mut self, id: u16, mut entry: [u8; SQE], transfer: Transfer) -> Result<()> {
        entry[2..4].copy_from_slice(&id.to_le_bytes());
        let (out, bytes) = match transfer {
            Transfer::None => (None, 0),
            Transfer::In(bytes) => (None, bytes),
            Transfer::Out(data) => (Some(data), 0),
        };
        let received = (bytes > 0).then(Vec::new);
        let bytes = out.as_ref().map_or(bytes, Vec::len);
        let in_capsule = out.is_some() && bytes <= self.in_capsule;
        if bytes > 0 {
            put32(&mut entry, 32, u32::try_from(bytes)?);
            entry[39] = if in_capsule { IN_CAPSULE } else { TRANSPORT };
        }
        self.outstanding += 1;
        self.channel.out.extend(capsule(&entry, if in_capsule { bytes } else { 0 }));
        if let Some(data) = out.as_ref().filter(|_| in_capsule) {
            self.channel.out.extend_from_slice(data);
        }
        let slot = self.slots.get_mut(usize::from(id)).context("no such command identifier")?;
        *slot = Slot { out: out.map(Outgoing::Bytes), received };
        Ok(())
    }

    /// Data read by a completed command.
    pub fn take_data(&mut self, id: u16) -> Vec<u8> {
        self.slots.get_mut(usize::from(id)).and_then(|slot| slot.received.take()).unwrap_or_default()
    }

    /// Takes arrived data of a command; true if they are complete.
    fn arrive(&mut self, answers: &mut Vec<Answer>) -> Result<bool> {
        let Some((id, left, ends)) = &mut self.arriving else { return Ok(true) };
        let slot = self.slots.get_mut(usize::from(*id)).context("data for an unknown command")?;
        *left -= self.channel.take(*left, slot.received.as_mut().context("data that nothing asked for")?);
        if *left > 0 {
            return Ok(false);
        }
        let (id, ends) = (*id, *ends);
        self.arriving = None;
        if ends {
            self.end(&[0; HEADER], id, 0, answers)?;
        }
        Ok(true)
    }

    fn end(&mut self, header: &[u8; HEADER], tag: u16, status: u16, answers: &mut Vec<Answer>) -> Result<()> {
        let slot = self.slots.get_mut(usize::from(tag));
        slot.with_context(|| format!("an answer to an unknown command: {header:?}"))?.out = None;
        self.outstanding -= 1;
        answers.push(Answer { tag: tag.into(), status });
        Ok(())
    }

    fn send_data(&mut self, r2t: &[u8; HEADER]) -> Result<()> {
        let tag = get16(r2t, 8);
        let source = self.slots.get(usize::from(tag)).and_then(|slot| slot.out.as_ref());
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
            source.append(&self.payload, offset, bytes, &mut self.channel.out)?;
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
        if let Some(slot) = self.slots.get_mut(tag as usize) {
            *slot = Slot { out: source.map(Outgoing::Payload), received: None };
        }
    }

    fn flush(&mut self) -> Result<bool> {
        self.channel.flush()
    }

    fn receive(&mut self, answers: &mut Vec<Answer>) -> Result<()> {
        self.channel.fill()?;
        while self.arrive(answers)?
            && let Some(header) = self.channel.header::<HEADER>()
        {
            let length = get32(&header, 4) as usize;
            let rest = length.checked_sub(HEADER).context("a PDU shorter than its header")?;
            let tag = get16(&header, 8);
            let is_kept = header[0] == pdu::C2H_DATA
                && self.slots.get(usize::from(tag)).is_some_and(|slot| slot.received.is_some());
            if is_kept {
                ensure!(usize::from(header[3]) == HEADER, "the data begin at {}", header[3]);
                self.arriving = Some((tag, rest, header[1] & pdu::SUCCESS != 0));
                continue;
            }
            self.channel.skip(rest);
            match header[0] {
                pdu::C2H_DATA if header[1] & pdu::SUCCESS == 0 => {}
                pdu::C2H_DATA => self.end(&header, tag, 0, answers)?,
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

/// Host identifier derived from the host's name: reservations use it.
fn host_id(name: &str) -> [u8; 16] {
    let seed = name.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(257).wrapping_add(byte.into()));
    let mut seed = crate::seed::Seed::new(seed);
    (u128::from(seed.bits()) << 64 | u128::from(seed.bits())).to_le_bytes()
}

/// A submission queue entry with data described by an SGL (PSDT 01b).
pub(crate) fn sqe(opcode: u8) -> [u8; SQE] {
    let mut entry = [0; SQE];
    (entry[0], entry[1]) = (opcode, 0x40);
    entry
}

/// Header of a command capsule with this entry and data length.
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

pub(crate) fn put32(to: &mut [u8], at: usize, value: u32) {
    to[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get32(from: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]])
}

fn get16(from: &[u8; HEADER], at: usize) -> u16 {
    u16::from_le_bytes([from[at], from[at + 1]])
}
