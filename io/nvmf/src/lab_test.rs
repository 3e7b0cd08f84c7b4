//! A small initiator for tests: a connection without a socket, as bytes in both directions.

use crate::connection::{Connection, ConnectionConfig};
use crate::subsystem::{HostSecurity, Subsystem, SubsystemIdentity};
use crate::worker::Worker;
use block::mem::{MemArray, MemDisk};
use block::{DiskId, Geometry};
use bytes::BufMut;
use export::{Clock, Exports, Sleep};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use transport::Portal;
use transport::{Budget, Control, LoginAttempts, LoginThrottle};

pub(crate) const SUBSYSTEM: &str = "nqn.2026-11.io.ashlar:test";
pub(crate) const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:host-a";
pub(crate) const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:host-b";
pub(crate) const STRANGER: &str = "nqn.2014-08.org.nvmexpress:uuid:stranger";
pub(crate) const BLOCK: usize = 512;
pub(crate) const BLOCKS: u64 = 1 << 20;

/// A clock that advances with each reading, until it is stopped.
#[derive(Default)]
struct FastClock {
    now: AtomicU64,
    stopped: AtomicBool,
}

impl Clock for FastClock {
    fn now(&self) -> u64 {
        let step = if self.stopped.load(Ordering::Relaxed) { 0 } else { 1000 };
        self.now.fetch_add(step, Ordering::Relaxed)
    }

    fn sleep_until(&self, _: u64) -> Sleep {
        match self.stopped.load(Ordering::Relaxed) {
            true => Box::pin(std::future::pending()),
            false => Box::pin(std::future::ready(())),
        }
    }
}

/// A subsystem over disks in memory: two hosts see disk 1 as namespace 1, the first also disk 2 as namespace 2.
pub(crate) struct World {
    pub(crate) exports: Arc<Exports>,
    pub(crate) subsystem: Arc<Subsystem>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) disks: Vec<MemDisk>,
    /// Address of the hosts, and the worker for their authentication.
    pub(crate) peer: std::net::SocketAddr,
    pub(crate) worker: Worker,
    throttle: Arc<LoginThrottle>,
    clock: Arc<FastClock>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::<FastClock>::default();
        let exports = Exports::new(clock.clone());
        let store = MemArray::new();
        let geometry = Geometry { block_bytes: BLOCK as u32, blocks: BLOCKS };
        let disks: Vec<MemDisk> = (1..4).map(|id| store.create(DiskId(id), geometry)).collect();
        disks.iter().for_each(|disk| exports.add_volume(Arc::new(disk.clone())));
        exports.set_mappings(HOST, BTreeMap::from([(0, DiskId(1)), (1, DiskId(2))]));
        exports.set_mappings(OTHER, BTreeMap::from([(0, DiskId(1))]));
        let identity = SubsystemIdentity {
            nqn: SUBSYSTEM.into(),
            serial: "0123456789ab".into(),
            model: "ALL-FLASH ARRAY".into(),
            revision: "1".into(),
        };
        let subsystem = Subsystem::new(identity, exports.clone());
        subsystem.set_hosts(hosts(&[HOST, OTHER]));
        let portal = |number, port| Portal::plain(number, ([127, 0, 0, 1], port).into());
        subsystem.set_portals(vec![portal(1, 4420), portal(2, 8009)]);
        let throttle = Arc::new(LoginThrottle::new(clock.clone()));
        Self {
            exports,
            subsystem,
            budget: Arc::new(Budget::new(64 << 20)),
            disks,
            peer: ([127, 0, 0, 1], 50_000).into(),
            worker: crate::at_once(),
            throttle,
            clock,
        }
    }

    /// Stops the clock: a task that waits for a time waits forever.
    pub(crate) fn stop_clock(&self) {
        self.clock.stopped.store(true, Ordering::Relaxed);
    }

    /// A connection before its first byte.
    pub(crate) fn open(&self) -> Host {
        let (control, receiver) = unbounded_channel();
        let connection = Connection::new(ConnectionConfig {
            subsystem: self.subsystem.clone(),
            budget: self.budget.clone(),
            portal: 1,
            local: ([127, 0, 0, 1], 4420).into(),
            peer: self.peer,
            control,
            seed: [7; 32],
            attempts: LoginAttempts::new(self.throttle.clone(), self.peer.ip()),
            worker: self.worker.clone(),
            tls: false,
        });
        let (stream, came) = (None, Vec::new());
        Host { connection, receiver, stream, digests: (false, false), came, next_cid: 1 }
    }

    /// A host that sends its bytes to a server by a stream, not to a connection of its own.
    pub(crate) fn open_over(&self, stream: Box<dyn Stream>) -> Host {
        Host { stream: Some(stream), ..self.open() }
    }

    /// A host with an enabled controller: the admin queue, and one I/O queue.
    pub(crate) fn connected(&self, nqn: &str) -> (Host, Host) {
        let mut admin = self.open();
        admin.initialize((false, false));
        let id = admin.connect(nqn, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
        assert_eq!(admin.run(property_set(0x14, 0x0046_0001)).status, 0);
        let mut io = self.open();
        io.initialize((false, false));
        io.connect(nqn, SUBSYSTEM, 1, id, 128).unwrap();
        (admin, io)
    }
}

/// A command as a host builds it.
#[derive(Clone, Debug)]
pub(crate) struct Cmd {
    pub(crate) bytes: [u8; 64],
    pub(crate) data: Vec<u8>,
    pub(crate) in_capsule: bool,
}

impl Cmd {
    pub(crate) fn new(opcode: u8, nsid: u32) -> Self {
        let mut bytes = [0; 64];
        bytes[0] = opcode;
        bytes[1] = 0x40;
        bytes[4..8].copy_from_slice(&nsid.to_le_bytes());
        Self { bytes, data: Vec::new(), in_capsule: false }
    }

    pub(crate) fn dword(mut self, index: usize, value: u32) -> Self {
        self.bytes[4 * index..4 * index + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn run_of(self, lba: u64, blocks: u32) -> Self {
        self.dword(10, lba as u32).dword(11, (lba >> 32) as u32).dword(12, blocks - 1)
    }

    /// Data from the host: in the capsule, or by R2T.
    pub(crate) fn out(mut self, data: Vec<u8>, in_capsule: bool) -> Self {
        self.bytes[39] = if in_capsule { 0x01 } else { 0x5A };
        let length = data.len() as u32;
        (self.data, self.in_capsule) = (data, in_capsule);
        self.dword(8, length)
    }

    /// Data for the host.
    pub(crate) fn wants(mut self, bytes: u32) -> Self {
        self.bytes[39] = 0x5A;
        self.dword(8, bytes)
    }

    pub(crate) fn fuse(mut self, part: u8) -> Self {
        self.bytes[1] |= part;
        self
    }

    pub(crate) fn cid(mut self, cid: u16) -> Self {
        self.bytes[2..4].copy_from_slice(&cid.to_le_bytes());
        self
    }
}

pub(crate) fn read(nsid: u32, lba: u64, blocks: u32) -> Cmd {
    Cmd::new(0x02, nsid).run_of(lba, blocks).wants(blocks * BLOCK as u32)
}

pub(crate) fn write(nsid: u32, lba: u64, data: Vec<u8>, in_capsule: bool) -> Cmd {
    let blocks = (data.len() / BLOCK) as u32;
    Cmd::new(0x01, nsid).run_of(lba, blocks).out(data, in_capsule)
}

pub(crate) fn property_set(offset: u32, value: u32) -> Cmd {
    Cmd::new(0x7F, 0).dword(11, offset).dword(12, value)
}

pub(crate) fn property_get(offset: u32, eight: bool) -> Cmd {
    Cmd::new(0x7F, 4).dword(10, u32::from(eight)).dword(11, offset)
}

pub(crate) fn identify(cns: u8, nsid: u32) -> Cmd {
    Cmd::new(0x06, nsid).dword(10, cns.into()).wants(4096)
}

pub(crate) fn log_page(page: u8, bytes: u32, offset: u64) -> Cmd {
    let dwords = bytes / 4 - 1;
    Cmd::new(0x02, u32::MAX).dword(10, u32::from(page) | dwords << 16).dword(12, offset as u32).wants(bytes)
}

/// Completion of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) cid: u16,
    /// Status code type and code, without "do not retry": 0x285 is Compare Failure.
    pub(crate) status: u16,
    pub(crate) retry: bool,
    pub(crate) result: u64,
    pub(crate) data: Vec<u8>,
}

/// A PDU from the controller.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) header: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

/// A byte stream to a server.
pub(crate) trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// The host's side of one connection.
pub(crate) struct Host {
    pub(crate) connection: Connection,
    pub(crate) receiver: UnboundedReceiver<Control>,
    stream: Option<Box<dyn Stream>>,
    digests: (bool, bool),
    /// Received bytes that are not parsed yet.
    came: Vec<u8>,
    next_cid: u16,
}

impl Host {
    /// Puts bytes into the connection, and polls it until nothing happens.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) {
        if let Some(stream) = &mut self.stream {
            return stream.write_all(bytes).and_then(|()| stream.flush()).unwrap();
        }
        while !bytes.is_empty() && self.connection.wants_input() {
            let mut space = self.connection.space();
            let count = bytes.len().min(space.remaining_mut());
            assert_ne!(count, 0, "no room though it wants input");
            space.put_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.connection.received();
            self.turn();
        }
    }

    /// Polls tasks and takes the bytes to send; with a stream, waits for some bytes.
    pub(crate) fn turn(&mut self) {
        if let Some(stream) = &mut self.stream {
            let mut space = vec![0; 1 << 16];
            let bytes = stream.read(&mut space).unwrap();
            assert_ne!(bytes, 0, "the server has ended the connection");
            return self.came.extend(&space[..bytes]);
        }
        let mut context = Context::from_waker(Waker::noop());
        self.connection.proceed();
        for _ in 0..1000 {
            while let Ok(Control::Close(reason)) = self.receiver.try_recv() {
                self.connection.close(reason);
            }
            let mut progress = self.connection.poll_tasks(&mut context).is_ready();
            while self.connection.wants_output() {
                let part: Vec<u8> =
                    self.connection.slices().iter().flat_map(|slice| slice.to_vec()).collect();
                self.connection.sent(part.len());
                self.came.extend(part);
                progress = true;
            }
            if !progress {
                return;
            }
            self.connection.proceed();
        }
        panic!("the connection never rests");
    }

    /// Waits until the server has ended the stream.
    pub(crate) fn wait_for_end(&mut self) {
        let stream = self.stream.as_mut().expect("a host with a stream");
        while stream.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {}
    }

    /// The next whole PDU that came.
    pub(crate) fn next(&mut self) -> Option<Came> {
        let length = u32::from_le_bytes(self.came.get(4..8)?.try_into().unwrap()) as usize;
        self.came.get(..length)?;
        let bytes: Vec<u8> = self.came.drain(..length).collect();
        let (kind, flags, header, offset) =
            (bytes[0], bytes[1], usize::from(bytes[2]), usize::from(bytes[3]));
        if flags & 1 != 0 {
            assert_eq!(bytes[header..header + 4], transport::digest(&bytes[..header]), "header digest");
        }
        let end = length - if flags & 2 != 0 { 4 } else { 0 };
        let data = match kind {
            7 => bytes[offset..end].to_vec(),
            3 => bytes[header..].to_vec(),
            _ => Vec::new(),
        };
        if flags & 2 != 0 {
            assert_eq!(bytes[end..], transport::digest(&data), "data digest");
        }
        Some(Came { kind, flags, header: bytes[..header].to_vec(), data })
    }

    /// A PDU with the digests of the connection.
    pub(crate) fn pdu(&self, kind: u8, fields: &[u8], data: &[u8], flags: u8) -> Vec<u8> {
        let header = 8 + fields.len();
        let mut out = vec![kind, flags | u8::from(self.digests.0), header as u8, 0, 0, 0, 0, 0];
        out.extend_from_slice(fields);
        let offset = header + if self.digests.0 { 4 } else { 0 };
        let mut length = offset + data.len();
        if !data.is_empty() {
            out[3] = offset as u8;
            if self.digests.1 {
                out[1] |= 2;
                length += 4;
            }
        }
        out[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        if self.digests.0 {
            let digest = transport::digest(&out);
            out.extend_from_slice(&digest);
        }
        out.extend_from_slice(data);
        if self.digests.1 && !data.is_empty() {
            out.extend_from_slice(&transport::digest(data));
        }
        out
    }

    pub(crate) fn initialize(&mut self, digests: (bool, bool)) {
        let mut fields = [0; 120];
        fields[3] = u8::from(digests.0) | u8::from(digests.1) << 1;
        let pdu = self.pdu(0, &fields, &[], 0);
        self.send(&pdu);
        while self.stream.is_some() && self.came.len() < 128 {
            self.turn();
        }
        let response = self.next().expect("ICResp");
        assert_eq!((response.kind, response.header[11]), (1, fields[3]));
        self.digests = digests;
    }

    /// Sends a command capsule, with in-capsule data if the command has any; returns its command identifier.
    pub(crate) fn submit(&mut self, cmd: &Cmd) -> u16 {
        let (cid, pdu) = self.capsule(cmd);
        self.send(&pdu);
        cid
    }

    /// A command capsule, with in-capsule data if the command has any, and its command identifier.
    pub(crate) fn capsule(&mut self, cmd: &Cmd) -> (u16, Vec<u8>) {
        let mut bytes = cmd.bytes;
        let mut cid = u16::from_le_bytes([bytes[2], bytes[3]]);
        if cid == 0 {
            cid = self.next_cid;
            self.next_cid = self.next_cid.wrapping_add(1).max(1);
            bytes[2..4].copy_from_slice(&cid.to_le_bytes());
        }
        (cid, self.pdu(4, &bytes, if cmd.in_capsule { &cmd.data } else { &[] }, 0))
    }

    /// Sends a part of the data of an R2T.
    pub(crate) fn data(&mut self, r2t: &Came, data: &[u8], offset: u32, last: bool) {
        let mut fields = r2t.header[8..12].to_vec();
        fields.extend_from_slice(&offset.to_le_bytes());
        fields.extend_from_slice(&(data.len() as u32).to_le_bytes());
        fields.extend_from_slice(&[0; 4]);
        let pdu = self.pdu(6, &fields, data, if last { 4 } else { 0 });
        self.send(&pdu);
    }

    /// Sends a command and waits for its end.
    pub(crate) fn run(&mut self, cmd: Cmd) -> End {
        let cid = self.submit(&cmd);
        let end = self.end(&cmd);
        assert_eq!(end.cid, cid);
        end
    }

    /// Waits for the next completion; sends data when they are requested.
    pub(crate) fn end(&mut self, cmd: &Cmd) -> End {
        let mut data = Vec::new();
        for _ in 0..10_000 {
            let Some(came) = self.next() else {
                self.turn();
                continue;
            };
            match came.kind {
                9 => {
                    let part = cmd.data.len().div_ceil(2).min(256 << 10);
                    for (index, piece) in cmd.data.chunks(part).enumerate() {
                        let offset = index * part;
                        self.data(&came, piece, offset as u32, offset + piece.len() == cmd.data.len());
                    }
                }
                7 => {
                    let offset = u32::from_le_bytes(came.header[12..16].try_into().unwrap()) as usize;
                    assert_eq!(offset, data.len(), "data in order");
                    data.extend(came.data);
                    if came.flags & 8 != 0 {
                        let cid = u16::from_le_bytes([came.header[8], came.header[9]]);
                        return End { cid, data, ..End::default() };
                    }
                }
                5 => return End { data, ..completion(&came) },
                other => panic!("PDU type {other}: {came:?}, {:?}", self.connection.ended()),
            }
        }
        panic!("no end of {cmd:?}: {:?}", self.connection.ended());
    }

    /// The completion that has arrived, if there is one.
    pub(crate) fn completion(&mut self) -> Option<End> {
        self.turn();
        self.next().map(|came| {
            assert_eq!(came.kind, 5, "{came:?}");
            completion(&came)
        })
    }

    pub(crate) fn connect(
        &mut self,
        nqn: &str,
        subsystem: &str,
        qid: u16,
        controller: u16,
        entries: u16,
    ) -> Result<u16, End> {
        let end = self.run(connect(nqn, subsystem, qid, controller, entries));
        if end.status == 0 { Ok(end.result as u16) } else { Err(end) }
    }
}

/// A Connect.
pub(crate) fn connect(nqn: &str, subsystem: &str, qid: u16, controller: u16, entries: u16) -> Cmd {
    let mut data = vec![0; 1024];
    data[..16].copy_from_slice(&host_id(nqn));
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    data[512..512 + nqn.len()].copy_from_slice(nqn.as_bytes());
    Cmd::new(0x7F, 1)
        .dword(10, u32::from(qid) << 16)
        .dword(11, u32::from(entries - 1))
        .dword(12, if qid == 0 { 5000 } else { 0 })
        .out(data, true)
}

/// The host identifier of a host.
pub(crate) fn host_id(nqn: &str) -> [u8; 16] {
    let mut id = [0x11; 16];
    id[15] = nqn.bytes().last().unwrap_or(0);
    id
}

fn completion(came: &Came) -> End {
    let entry = &came.header[8..];
    let status = u16::from_le_bytes([entry[14], entry[15]]) >> 1;
    End {
        cid: u16::from_le_bytes([entry[12], entry[13]]),
        status: status & 0x7FF,
        retry: status & 1 << 14 == 0,
        result: u64::from_le_bytes(entry[..8].try_into().unwrap()),
        data: Vec::new(),
    }
}

/// Hosts by name, for the access list.
pub(crate) fn hosts(names: &[&str]) -> BTreeMap<String, HostSecurity> {
    names.iter().map(|name| ((*name).to_owned(), HostSecurity::default())).collect()
}
