//! Any messages on the link of forwarded commands: to a home over disks in memory, or to a front end with requests under way.
//!
//! The first byte chooses the end. Then each message is a byte of its kind, a byte of its number, a byte of its length, and its
//! payload; the home also gets commands and functions whose other fields are well-formed (kinds from 128 on).

use crate::initiator::array_with_store;
use block::{Ledger, Resolver, Sequence};
use bytes::Bytes;
use engine::Reader;
use forward::{Event, Front, Service};
use peer::message::{Command, Hello, Manage, Message};
use peer::{Channel, Received, frame};
use scsi::{Data, Direction, Lun, ManagementFunction, TaskAttribute};
use shelf::{Done, SegmentId, SegmentReader, Writing};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const ARRAY: u128 = 1;
const FRONT: u64 = 5;
const NOW: u64 = 1 << 40;
const MS: u64 = 1_000_000;

/// Takes one input.
pub fn run(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    match choice & 1 {
        0 => home(rest),
        _ => front(rest),
    }
}

/// Both ends of a connection that have said hello; the second is the home's.
fn connection() -> [(Channel, Hello); 2] {
    let (mut one, mut other) = (Channel::new(1, ARRAY, FRONT), Channel::new(2, ARRAY, 6));
    one.take_output().iter().for_each(|bytes| other.receive(bytes.clone()));
    other.take_output().iter().for_each(|bytes| one.receive(bytes.clone()));
    [one, other].map(|mut channel| match channel.next_message() {
        Ok(Some(Received::Hello(hello))) => (channel, hello),
        other => panic!("no hello: {other:?}"),
    })
}

/// The next message of the input.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u8, u64, &'a [u8])> {
    let [kind, number, len, more @ ..] = *rest else { return None };
    let (payload, more) = more.split_at(more.len().min(usize::from(*len)));
    *rest = more;
    Some((*kind, u64::from(*number), payload))
}

fn bytes(kind: u16, number: u64, payload: &[Bytes]) -> Vec<u8> {
    [&frame::header(kind, 0, number, payload)[..], &payload.concat()].concat()
}

fn home(mut rest: &[u8]) {
    let (target, store, _initiators) = array_with_store();
    let ledger: Arc<dyn Ledger> = Arc::new(store);
    let mut service = Service::new((target, Some(ledger)), 0, FRONT, 1);
    let [_, (channel, hello)] = connection();
    service.connect(channel, &hello, NOW);
    let mut now = NOW;
    while let Some((kind, number, payload)) = next(&mut rest) {
        now += MS;
        let sent = match kind {
            ..128 => bytes(u16::from(kind), number, &[Bytes::copy_from_slice(payload)]),
            _ => {
                let message = well_formed(kind, number, payload, now);
                bytes(message.kind(), number, &message.encode())
            }
        };
        if service.receive(sent.into(), now).is_err() {
            service.disconnect(now);
            let [_, (channel, hello)] = connection();
            service.connect(channel, &hello, now);
        }
        while service.poll(&mut Context::from_waker(Waker::noop())).is_ready() {}
        _ = service.tick(now);
        _ = service.take_output();
    }
}

/// A request whose CDB and data, or LUN and tag, are any.
fn well_formed(kind: u8, number: u64, payload: &[u8], now: u64) -> Message {
    let sequence = Sequence { front: FRONT, number, lowest: number.saturating_sub(u64::from(kind & 3)) };
    let nexus = u32::from(kind >> 2 & 1);
    let (cdb, data) = payload.split_at(payload.len().min(16));
    let lun = u64::from(kind >> 3 & 1) << 48;
    match kind {
        ..192 => Message::Command(Command {
            sequence,
            read_ns: now,
            nexus,
            attribute: 1 + (kind >> 4 & 1),
            direction: if data.is_empty() { 1 } else { 2 },
            lun,
            tag: number,
            data_in_limit: 4096,
            cdb: Bytes::copy_from_slice(cdb),
            data: Bytes::copy_from_slice(data),
            locates: kind >> 5 & 1 == 1,
        }),
        _ => Message::Manage(Manage { sequence, nexus, function: kind & 7, lun, tag: number }),
    }
}

/// A store in which every place has the same bytes.
struct Uniform;

impl SegmentReader for Uniform {
    fn read(&self, _: SegmentId, _: Writing, (offset, len): (u32, u32), done: Done<Bytes>) {
        done(Ok(vec![offset as u8; len.min(1 << 16) as usize].into()));
    }
}

fn front(mut rest: &[u8]) {
    let mut front = Front::new(0, FRONT);
    let reader = Reader::new(Arc::new(Uniform), 1 << 20);
    front.locate(true);
    let [(channel, hello), _] = connection();
    front.connect(channel, &hello, NOW);
    let nexus = front.attach(1, [0; 6], "iqn.2026-01.test:a");
    for _ in 0..2 {
        let command = scsi::Command {
            tag: 1,
            lun: Lun([0; 8]),
            cdb: Bytes::from_static(&[0; 16]),
            attribute: TaskAttribute::Simple,
            direction: Direction::None,
            data_out: Data::new(),
            data_in_limit: 1 << 16,
        };
        front.execute(nexus, command, NOW);
    }
    front.manage(nexus, Lun([0; 8]), ManagementFunction::LogicalUnitReset, NOW);
    let mut now = NOW;
    while let Some((kind, number, payload)) = next(&mut rest) {
        now += 100 * MS;
        let payload = Bytes::copy_from_slice(payload);
        if front.receive(bytes(u16::from(kind & 15), number, &[payload]).into(), now).is_err() {
            front.disconnect(now);
            let [(channel, hello), _] = connection();
            front.connect(channel, &hello, now);
        }
        _ = front.tick(now);
        for event in front.events() {
            if let Event::Located(command, recipe) = event {
                let mut data = reader.resolve(recipe);
                let data = data.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(data.is_ready(), "the store answers at once");
                let Poll::Ready(data) = data else { continue };
                _ = front.fetched(command, data);
            }
        }
        _ = front.take_output();
    }
}
