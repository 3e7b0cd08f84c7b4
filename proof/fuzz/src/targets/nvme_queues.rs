//! Sequences of commands on two NVMe I/O queues and their admin queue, against a model of what a queue owes its host: each
//! command gets one answer or its connection ends, an R2T has a tag of its own, and when all commands are over, nothing is
//! held for them. Commands come whole and well formed; their order is the input.
//!
//! The first byte chooses: bit 0 header digests, bit 1 data digests, bit 2 a volume with a limit, on which commands wait. Then three
//! bytes are one step: the low bits of the first choose what happens, the high one on which queue; the others say how.

use super::nvme::{ENTRY_BYTES, World, put};
use block::DiskId;
use export::{QosLimits, Rate};
use nvmf::Connection;
use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Waker};

/// Entries of a queue, as [`World::connect`] asks for them.
const ENTRIES: usize = 16;
/// Command identifiers that are used; more than entries, so that queues overflow.
const CIDS: u8 = 20;
/// One more, for the half that ends an open one.
const LAST_CID: u16 = 100;
const BLOCK: u32 = 512;

const READ: u8 = 0x02;
const WRITE: u8 = 0x01;
const COMPARE: u8 = 0x05;
const FIRST: u8 = 1;
const SECOND: u8 = 2;
const COMMAND_ID_CONFLICT: u16 = 0x003;

/// An R2T as the host knows it.
struct Request {
    cid: u16,
    wanted: u32,
    sent: u32,
}

/// One queue with its model.
struct Queue {
    connection: Connection,
    qid: u16,
    /// Bytes that were received and not parsed.
    came: Vec<u8>,
    /// Commands without an answer, by command identifier.
    owed: BTreeMap<u16, usize>,
    requests: BTreeMap<u16, Request>,
    /// Tags of commands that ended before their data were sent, the oldest first.
    late: VecDeque<u16>,
    /// The host gave a reason to end the connection.
    may_end: bool,
    digests: u8,
}

impl Queue {
    fn new(connection: Connection, qid: u16, digests: u8) -> Self {
        let (owed, requests, late) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Self { connection, qid, came: Vec::new(), owed, requests, late, may_end: false, digests }
    }

    fn outstanding(&self) -> usize {
        self.owed.values().sum()
    }

    fn is_over(&self) -> bool {
        self.connection.ended().is_some()
    }

    /// Sends bytes; running commands do not proceed.
    fn send(&mut self, bytes: &[u8]) {
        put(&mut self.connection, bytes, |_| ());
        self.receive();
    }

    /// Lets everything happen that can.
    fn proceed(&mut self) {
        while self.connection.poll_tasks(&mut Context::from_waker(Waker::noop())).is_ready() {
            self.receive();
        }
        self.connection.proceed();
        self.receive();
    }

    fn submit(&mut self, world: &World, entry: [u8; ENTRY_BYTES], data: &[u8]) {
        self.may_end |= self.outstanding() >= ENTRIES;
        *self.owed.entry(u16::from_le_bytes([entry[2], entry[3]])).or_default() += 1;
        self.send(&world.capsule(&entry, data));
    }

    /// Takes what was sent to the host, and compares it with the model.
    fn receive(&mut self) {
        while self.connection.wants_output() {
            let bytes: Vec<u8> = self.connection.slices().iter().flat_map(|part| part.to_vec()).collect();
            self.connection.sent(bytes.len());
            self.came.extend(bytes);
        }
        let field = |came: &[u8], at: usize| u16::from_le_bytes([came[at], came[at + 1]]);
        while let Some(length) =
            self.came.first_chunk::<8>().map(|head| head[4..].try_into().unwrap_or([0; 4]))
        {
            let length = u32::from_le_bytes(length) as usize;
            assert!((8..=self.came.len()).contains(&length), "whole PDUs are sent");
            let pdu: Vec<u8> = self.came.drain(..length).collect();
            match pdu[0] {
                3 | 7 => {}
                5 => self.answered(field(&pdu, 20), field(&pdu, 22) >> 1 & 0x7FF),
                9 => {
                    let (cid, tag) = (field(&pdu, 8), field(&pdu, 10));
                    let wanted = u32::from(field(&pdu, 16)) | u32::from(field(&pdu, 18)) << 16;
                    let before = self.requests.insert(tag, Request { cid, wanted, sent: 0 });
                    assert!(before.is_none(), "a tag is unique");
                    assert!(self.owed.contains_key(&cid), "an R2T is of a command without an answer");
                }
                other => panic!("PDU type {other}"),
            }
        }
        self.compare();
    }

    fn answered(&mut self, cid: u16, status: u16) {
        let owed = self.owed.get_mut(&cid).expect("an answer is to a command");
        *owed -= 1;
        if *owed == 0 {
            self.owed.remove(&cid);
        }
        if status == COMMAND_ID_CONFLICT {
            return;
        }
        // The data of a command that has ended may come all the same, as long as there are not too many such commands.
        let late = self.requests.iter().find(|(tag, it)| it.cid == cid && !self.late.contains(tag));
        if let Some((tag, _)) = late {
            self.late.push_back(*tag);
        }
        if self.late.len() > ENTRIES
            && let Some(oldest) = self.late.pop_front()
        {
            self.requests.remove(&oldest);
        }
    }

    fn compare(&mut self) {
        if self.is_over() {
            assert!(self.may_end, "queue {} ended: {:?}", self.qid, self.connection.ended());
            return;
        }
        assert!(self.outstanding() <= ENTRIES, "a queue has no more commands than entries");
        let held = self.connection.audit();
        assert_eq!(held.commands, self.outstanding(), "commands without an answer, and no others, are held");
        assert_eq!(held.requests, self.requests.len(), "R2Ts are as the host knows them");
    }

    /// Sends a part of what an R2T asked for, or something wrong.
    fn data(&mut self, choice: u8, how: u8) {
        let index = usize::from(choice) % self.requests.len().max(1);
        let Some((&tag, request)) = self.requests.iter_mut().nth(index) else { return };
        let left = request.wanted - request.sent;
        let bytes = match how & 3 {
            0 => left,
            1 => left.div_ceil(2),
            2 => left.min(1),
            _ => left.min(u32::from(how) * 8 + 1),
        };
        let (cid, offset, is_last) = (request.cid, request.sent, bytes == left);
        request.sent += bytes;
        let (mut sent_tag, mut sent_offset) = (tag, offset);
        match how {
            0xFE => sent_tag = tag.wrapping_add(0x4000),
            0xFF => sent_offset += 1,
            _ => {}
        }
        self.may_end |= how >= 0xFE;
        if is_last {
            self.requests.remove(&tag);
            self.late.retain(|late| *late != tag);
        }
        let pdu = self.h2c_data((cid, sent_tag), (sent_offset, is_last), &vec![how; bytes as usize]);
        self.send(&pdu);
    }

    fn h2c_data(&self, (cid, tag): (u16, u16), (offset, is_last): (u32, bool), data: &[u8]) -> Vec<u8> {
        let (head, tail) = (4 * usize::from(self.digests & 1), 4 * usize::from(self.digests >> 1 & 1));
        let mut out = vec![6, self.digests | u8::from(is_last) << 2, 24, 24 + head as u8];
        out.extend(((24 + head + data.len() + tail) as u32).to_le_bytes());
        out.extend([cid.to_le_bytes(), tag.to_le_bytes()].concat());
        out.extend([offset.to_le_bytes(), (data.len() as u32).to_le_bytes(), [0; 4]].concat());
        if head > 0 {
            out.extend(transport::digest(&out));
        }
        out.extend(data);
        if tail > 0 {
            out.extend(transport::digest(data));
        }
        out
    }

    /// Answers what is asked for until every command is over.
    fn finish(&mut self, world: &World) {
        for _ in 0..2 {
            while !self.requests.is_empty() && !self.is_over() {
                self.data(0, 0);
            }
            self.proceed();
            // A first half without its second is over with the next command that is none.
            if !self.is_over() && self.outstanding() < ENTRIES {
                self.submit(world, entry(WRITE, SECOND, LAST_CID, (60, 1)), &[0; BLOCK as usize]);
            }
        }
        self.proceed();
        if self.is_over() {
            return;
        }
        assert_eq!(self.outstanding(), 0, "every command has an answer: {:?}", self.owed);
        assert_eq!(self.connection.audit(), Default::default(), "nothing is held");
    }
}

/// A command of I/O without data yet: opcode, fused part, identifier, and the run of blocks.
fn entry(opcode: u8, part: u8, cid: u16, (lba, blocks): (u8, u8)) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    (entry[0], entry[1], entry[4], entry[39]) = (opcode, 0x40 | part, 1, 0x01);
    entry[2..4].copy_from_slice(&cid.to_le_bytes());
    entry[32..36].copy_from_slice(&(u32::from(blocks) * BLOCK).to_le_bytes());
    (entry[40], entry[48]) = (lba, blocks - 1);
    entry
}

/// An admin command.
fn admin_entry(opcode: u8, cid: u16, dwords: &[(usize, u32)]) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    (entry[0], entry[1]) = (opcode, 0x40);
    entry[2..4].copy_from_slice(&cid.to_le_bytes());
    for (index, value) in dwords {
        entry[4 * index..4 * index + 4].copy_from_slice(&value.to_le_bytes());
    }
    entry
}

/// The queues of one host.
struct Queues {
    world: World,
    admin: Queue,
    io: [Queue; 2],
    digests: u8,
}

impl Queues {
    fn new(digests: u8, limited: bool) -> Self {
        let world = World::new(digests);
        if limited {
            let operations = Some(Rate { per_second: 1, burst: 1 });
            world.exports.set_limits(DiskId(1), QosLimits { operations, bytes: None });
        }
        let mut admin = world.open();
        world.connect(&mut admin, 0, 0xFFFF);
        let mut admin = Queue::new(admin, 0, digests);
        admin.submit(&world, admin_entry(0x7F, 1, &[(11, 0x14), (12, 1)]), &[]);
        let io = [1, 2].map(|qid| Self::io_queue(&world, qid, digests));
        Self { world, admin, io, digests }
    }

    fn io_queue(world: &World, qid: u16, digests: u8) -> Queue {
        let mut connection = world.open();
        world.connect(&mut connection, qid, world.subsystem.controllers()[0].id);
        Queue::new(connection, qid, digests)
    }

    /// A queue that has ended is connected again.
    fn reconnect(&mut self) {
        for index in 0..2 {
            if self.io[index].is_over() {
                self.io[index] = Self::io_queue(&self.world, index as u16 + 1, self.digests);
            }
        }
    }

    fn step(&mut self, [what, one, other]: [u8; 3]) {
        let Self { world, admin, io, .. } = self;
        let queue = &mut io[usize::from(what >> 7)];
        let (cid, run) = (u16::from(one % CIDS) + 1, (other & 7, 1 + (other >> 3 & 3)));
        let is_requested = other & 0x80 != 0;
        let mut submit = |opcode, part, data: bool| {
            let mut entry = entry(opcode, part, cid, run);
            if is_requested || !data {
                entry[39] = 0x5A;
            }
            let bytes = usize::from(run.1) * BLOCK as usize;
            queue.submit(world, entry, &vec![one; if data && !is_requested { bytes } else { 0 }]);
        };
        match what & 15 {
            0 => submit(READ, 0, false),
            1 => submit(WRITE, 0, true),
            2 | 3 => submit(COMPARE, FIRST, true),
            4 => submit(WRITE, SECOND, true),
            5 => submit(COMPARE, 0, true),
            6..=9 => queue.data(one, other),
            10 => {
                let command = u32::from(cid) << 16 | u32::from(queue.qid);
                admin.submit(world, admin_entry(0x08, 200 + cid, &[(10, command)]), &[]);
                queue.proceed();
                admin.proceed();
            }
            11 => admin.submit(world, admin_entry(0x0C, 300 + cid, &[]), &[]),
            12 => admin.submit(world, admin_entry(0x08, 200 + cid, &[(10, u32::from(300 + cid) << 16)]), &[]),
            13 if one < 64 => {
                queue.may_end = true;
                queue.submit(world, admin_entry(0x7F, 400, &[(1, 8)]), &[]);
            }
            13 if one < 80 => self.reset(),
            _ => queue.proceed(),
        }
    }

    /// A reset of the controller, which ends its commands without answers.
    fn reset(&mut self) {
        self.admin.owed.clear();
        self.admin.submit(&self.world, admin_entry(0x7F, 500, &[(11, 0x14), (12, 0)]), &[]);
        self.admin.submit(&self.world, admin_entry(0x7F, 500, &[(11, 0x14), (12, 1)]), &[]);
        for queue in &mut self.io {
            // The controller has sent them the end; this harness does not receive it.
            queue.may_end = true;
            queue.connection.close("the controller was reset");
        }
    }
}

/// One input.
pub fn run(input: &[u8]) {
    let Some((choice, steps)) = input.split_first() else { return };
    let mut queues = Queues::new(choice & 3, choice & 4 != 0);
    for step in steps.as_chunks::<3>().0 {
        queues.step(*step);
        queues.reconnect();
        if queues.admin.is_over() {
            return;
        }
    }
    let Queues { world, mut admin, mut io, .. } = queues;
    io.iter_mut().for_each(|queue| queue.finish(&world));
    admin.proceed();
    let before = world.budget.used();
    for queue in &mut io {
        queue.connection.tick();
        assert_eq!(queue.connection.audit(), Default::default(), "a tick changes nothing");
    }
    assert!(world.budget.used() <= before, "draws are given back");
    drop((io, admin));
    assert_eq!(world.budget.used(), 0, "nothing outlives the connections");
}
