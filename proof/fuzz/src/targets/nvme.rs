//! Arbitrary bytes against NVMe/TCP connections without sockets: before Connect, on an admin queue and on an I/O queue, as
//! they come or as commands in well-formed capsules.
//!
//! The first byte chooses: bits 0 and 1 the stage, bit 2 header digests, bit 3 data digests, bit 4 capsules; the rest is
//! the stream, in portions whose sizes come from it too.

use crate::initiator::FastClock;
use block::mem::MemArray;
use block::{DiskId, Geometry};
use bytes::BufMut;
use export::Exports;
use nvmf::{Connection, ConnectionConfig, HostSecurity, Subsystem, SubsystemIdentity};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Waker};
use tokio::sync::mpsc::unbounded_channel;
use transport::{Budget, LoginAttempts, LoginThrottle};

const HOST: &str = "nqn.2026-01.test:host";
const SUBSYSTEM: &str = "nqn.2026-01.test:subsystem";
/// Small, since the model keeps a map entry for each block written.
const BLOCKS: u64 = 1 << 12;
/// Bytes of a submission queue entry.
pub(super) const ENTRY_BYTES: usize = 64;

pub(super) struct World {
    pub(super) subsystem: Arc<Subsystem>,
    pub(super) budget: Arc<Budget>,
    pub(super) exports: Arc<Exports>,
    throttle: Arc<LoginThrottle>,
    digests: u8,
}

impl World {
    pub(super) fn new(digests: u8) -> Self {
        let exports = Exports::new(Arc::new(FastClock::default()));
        let store = MemArray::new();
        for id in [1, 2] {
            let disk = store.create(DiskId(id), Geometry { block_bytes: 512, blocks: BLOCKS });
            exports.add_volume(Arc::new(disk));
        }
        exports.set_mappings(HOST, BTreeMap::from([(0, DiskId(1)), (1, DiskId(2))]));
        let identity = SubsystemIdentity {
            nqn: SUBSYSTEM.into(),
            serial: "1".into(),
            model: "TEST".into(),
            revision: "1".into(),
        };
        let subsystem = Subsystem::new(identity, exports.clone());
        subsystem.set_hosts([(HOST.to_owned(), HostSecurity::default())].into());
        let throttle = Arc::new(LoginThrottle::new(exports.clock().clone()));
        Self { subsystem, budget: Arc::default(), exports, throttle, digests }
    }

    pub(super) fn open(&self) -> Connection {
        let mut connection = Connection::new(ConnectionConfig {
            subsystem: self.subsystem.clone(),
            budget: self.budget.clone(),
            portal: 1,
            local: ([127, 0, 0, 1], 4420).into(),
            peer: ([127, 0, 0, 1], 50_000).into(),
            control: unbounded_channel().0,
            seed: [3; 32],
            attempts: LoginAttempts::new(self.throttle.clone(), [127, 0, 0, 1].into()),
            worker: nvmf::at_once(),
            tls: false,
        });
        let mut request = vec![0; 128];
        (request[2], request[4], request[11]) = (128, 128, self.digests);
        deliver(&mut connection, &request);
        connection
    }

    /// A capsule with the digests of the connection.
    pub(super) fn capsule(&self, entry: &[u8], data: &[u8]) -> Vec<u8> {
        let digest = |bit: u8| if self.digests & bit != 0 { 4 } else { 0 };
        let offset = 8 + ENTRY_BYTES + digest(1);
        let has_digest = !data.is_empty() && digest(2) > 0;
        let length = offset + data.len() + if has_digest { 4 } else { 0 };
        let mut out = vec![4, self.digests & 1 | u8::from(has_digest) << 1, 72, 0];
        if !data.is_empty() {
            out[3] = offset as u8;
        }
        out.extend_from_slice(&(length as u32).to_le_bytes());
        out.extend_from_slice(entry);
        out.resize(8 + ENTRY_BYTES, 0);
        if self.digests & 1 != 0 {
            let digest = transport::digest(&out);
            out.extend_from_slice(&digest);
        }
        out.extend_from_slice(data);
        if has_digest {
            out.extend_from_slice(&transport::digest(data));
        }
        out
    }

    pub(super) fn connect(&self, connection: &mut Connection, qid: u16, controller: u16) {
        let mut entry = [0; ENTRY_BYTES];
        (entry[0], entry[1], entry[4], entry[39]) = (0x7F, 0x40, 1, 1);
        entry[32..36].copy_from_slice(&1024_u32.to_le_bytes());
        entry[42..44].copy_from_slice(&qid.to_le_bytes());
        entry[44] = 15;
        let mut data = [0; 1024];
        data[0] = 1;
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        data[256..256 + SUBSYSTEM.len()].copy_from_slice(SUBSYSTEM.as_bytes());
        data[512..512 + HOST.len()].copy_from_slice(HOST.as_bytes());
        deliver(connection, &self.capsule(&entry, &data));
        assert_eq!(connection.ended(), None, "Connect is accepted");
    }
}

/// Puts bytes into a connection as long as it takes them; `between` runs after each portion.
pub(super) fn put(connection: &mut Connection, mut bytes: &[u8], between: impl Fn(&mut Connection)) {
    while !bytes.is_empty() && connection.wants_input() {
        let mut space = connection.space();
        let count = bytes.len().min(space.remaining_mut());
        space.put_slice(&bytes[..count]);
        bytes = &bytes[count..];
        connection.received();
        between(connection);
    }
}

/// Delivers bytes and lets everything happen that can.
fn deliver(connection: &mut Connection, bytes: &[u8]) {
    put(connection, bytes, |connection| {
        while connection.poll_tasks(&mut Context::from_waker(Waker::noop())).is_ready() {}
        while connection.wants_output() {
            let count = connection.slices().iter().map(|slice| slice.len()).sum();
            connection.sent(count);
        }
        connection.proceed();
    });
}

/// One input.
pub fn run(input: &[u8]) {
    let Some((choice, mut stream)) = input.split_first() else { return };
    let world = World::new(choice >> 2 & 3);
    let mut admin = world.open();
    let mut io = world.open();
    let stage = choice & 3;
    if stage > 0 {
        world.connect(&mut admin, 0, 0xFFFF);
        let mut enable = [0; ENTRY_BYTES];
        (enable[0], enable[1], enable[44], enable[48]) = (0x7F, 0x40, 0x14, 1);
        deliver(&mut admin, &world.capsule(&enable, &[]));
    }
    if stage > 1 {
        world.connect(&mut io, 1, world.subsystem.controllers()[0].id);
    }
    let connection = if stage == 1 { &mut admin } else { &mut io };
    while let [size, rest @ ..] = stream {
        if choice & 16 == 0 {
            let (portion, rest) = stream.split_at(stream.len().min(1 + usize::from(*size) * 8));
            deliver(connection, portion);
            stream = rest;
        } else {
            let (entry, rest) = rest.split_at(rest.len().min(ENTRY_BYTES));
            let (data, rest) = rest.split_at(rest.len().min(usize::from(*size) * 16));
            deliver(connection, &world.capsule(entry, data));
            stream = rest;
        }
        connection.tick();
    }
    assert!(world.budget.used() < 64 << 20, "memory is bounded");
}
