//! Hosts that try to consume more memory or work than they are charged. The tests count; nothing depends on time.

use crate::connection::UNKNOWN_GUARANTEE_BYTES;
use crate::lab_test::*;
use crate::worker::Work;
use bytes::BufMut;
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use transport::MAX_TURN_PDUS;

const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Compare of one block, as the first half of a fused operation.
fn first_half(in_capsule: bool) -> Cmd {
    Cmd::new(0x05, 1).run_of(0, 1).out(vec![0; 512], in_capsule).fuse(1)
}

/// More commands than there are tags.
const MANY: u32 = 66_000;

#[test]
fn commands_that_arrive_at_once_are_taken_in_turns() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    let count = MAX_TURN_PDUS + 44;
    // An opcode that does not exist completes at once.
    let bytes: Vec<u8> = (0..count).flat_map(|_| io.capsule(&Cmd::new(0x7e, 1)).1).collect();
    io.connection.space().put_slice(&bytes);
    let responses = |io: &Host| io.connection.slices().iter().map(|slice| slice.len()).sum::<usize>() / 24;
    io.connection.received();
    assert_eq!((responses(&io), io.connection.wants_input()), (MAX_TURN_PDUS, false));
    assert!(!io.connection.proceed());
    assert_eq!((responses(&io), io.connection.wants_input()), (count, true));
}

#[test]
fn a_first_half_that_is_superseded_leaves_nothing() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    let (before, mut r2ts) = (world.budget.used(), Vec::new());
    for number in 0..MANY {
        io.submit(&first_half(false));
        while let Some(came) = io.next() {
            match came.kind {
                9 => r2ts.push(came),
                _ => assert_eq!(came.kind, 5, "the half before it is refused"),
            }
        }
        // Data for halves that were superseded are discarded as they come.
        if number % 1000 == 0 && r2ts.len() > 1 {
            let late = r2ts.swap_remove(r2ts.len() - 2);
            io.data(&late, &[9; 512], 0, true);
        }
        r2ts.drain(..r2ts.len().saturating_sub(4));
        let held = io.connection.audit();
        assert_eq!((held.commands, held.charge), (1, 1024 + 2 * 512), "the last half alone");
        assert!(held.requests <= 1 + 128, "{} R2Ts", held.requests);
    }
    assert_eq!(io.connection.ended(), None);
    assert_eq!(io.run(read(1, 0, 1)).status, 0);
    assert_eq!(world.budget.used(), before);
}

#[test]
fn data_for_a_command_that_ended_long_ago_end_the_connection() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    let mut oldest = None;
    for cid in 1..=130 {
        io.submit(&write(1, 0, vec![1; 512], false).cid(cid));
        let r2t = io.next().expect("an R2T");
        admin.submit(&Cmd::new(0x08, 0).dword(10, u32::from(cid) << 16 | 1));
        assert_eq!(io.completion().map(|end| end.status), Some(0x007));
        assert_eq!(admin.completion().map(|end| end.result), Some(0));
        oldest = oldest.or(Some(r2t));
    }
    let held = io.connection.audit();
    assert_eq!((held.commands, held.requests, held.charge), (0, 128, 0));
    io.data(&oldest.unwrap(), &[9; 512], 0, true);
    assert!(io.connection.ended().is_some(), "no R2T with this tag");
}

#[test]
fn data_in_tiny_pieces_are_charged_what_they_take() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    let data: Vec<u8> = (0..8192_u32).map(|index| (index / 7) as u8).collect();
    io.submit(&write(1, 0, data.clone(), false));
    let r2t = io.next().expect("an R2T");
    for (offset, byte) in data.iter().enumerate() {
        io.data(&r2t, &[*byte], offset as u32, offset + 1 == data.len());
    }
    assert_eq!(io.completion().map(|end| end.status), Some(0));
    assert_eq!(io.run(read(1, 0, 16)).data, data);
}

#[test]
fn a_capsule_is_charged_all_that_it_brings() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    // The SGL describes 512 bytes of the 8192 that arrive.
    let mut half = first_half(true);
    half.data = vec![0; 8192];
    io.submit(&half);
    let charge = io.connection.audit().charge;
    assert!(charge >= 1024 + 8192, "{charge}");
}

#[test]
fn a_reset_ends_the_event_requests_of_the_time_before() {
    let world = World::new();
    let (mut admin, _io) = world.connected(HOST);
    for _ in 0..3 {
        (0..8).for_each(|_| {
            admin.submit(&Cmd::new(0x0C, 0));
        });
        assert_eq!(admin.completion(), None, "they wait");
        assert_eq!(admin.connection.audit().commands, 8);
        assert_eq!(admin.run(property_set(0x14, 0)).status, 0);
        assert_eq!(admin.connection.audit().commands, 0);
        assert_eq!(admin.run(property_set(0x14, 0x0046_0001)).status, 0);
    }
}

#[test]
fn a_reset_ends_after_the_last_command_of_before() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    let id = world.subsystem.controllers()[0].id;
    let is_ready = |admin: &mut Host| admin.run(property_get(0x1C, false)).result & 1 == 1;
    assert_eq!(admin.run(property_set(0x14, 0x0046_0000)).status, 0);
    // The connection of the queue, on another shard, does not know it yet, and may execute what it has received.
    assert!(is_ready(&mut admin), "the reset has not ended");
    // A host that does not wait gets no queue beside that one.
    assert_eq!(admin.run(property_set(0x14, 0x0046_0001)).status, 0);
    let mut next = world.open();
    next.initialize((false, false));
    assert_eq!(next.connect(HOST, SUBSYSTEM, 1, id, 32).unwrap_err().status, 0x181, "Controller Busy");
    assert_eq!(admin.run(property_set(0x14, 0x0046_0000)).status, 0);
    io.turn();
    assert_eq!(io.connection.ended(), Some("the host resets its controller"));
    assert!(!is_ready(&mut admin), "now it has");
    assert_eq!(admin.run(property_set(0x14, 0x0046_0001)).status, 0);
    next.connect(HOST, SUBSYSTEM, 1, id, 32).unwrap();
    assert_eq!(next.run(read(1, 0, 1)).status, 0);
}

#[test]
fn discovery_never_takes_memory_of_the_pool() {
    let world = World::new();
    let mut strangers = Vec::new();
    for _ in 0..40 {
        let mut host = world.open();
        host.initialize((false, false));
        // Connections under the name of a host.
        host.connect(HOST, DISCOVERY, 0, 0xFFFF, 128).unwrap();
        host.run(property_set(0x14, 1));
        strangers.push(host);
    }
    let before = world.budget.used();
    for host in &mut strangers {
        let large = host.run(log_page(0x70, 1 << 20, 0));
        assert_eq!((large.status, large.data.len()), (0x002, 0), "more than MDTS");
        assert_eq!(host.run(identify(1, 0)).data[77], 3, "MDTS");
        // Requested data that never arrives.
        for _ in 0..100 {
            let data = Cmd::new(0x09, 0).dword(10, 0x0B).out(vec![0; 32 << 10], false);
            host.submit(&data);
        }
        assert_eq!(host.connection.ended(), None);
        assert!(host.connection.audit().charge <= 64 << 10);
    }
    assert_eq!(world.budget.used(), before, "nothing is drawn");
    assert!(!world.budget.is_contended(), "and nothing waits");
    let (_admin, mut io) = world.connected(HOST);
    assert_eq!(io.run(write(1, 0, vec![1; 1 << 20], false)).status, 0);
}

#[test]
fn who_claims_the_name_of_a_host_does_not_use_up_its_part_of_the_pool() {
    let mut world = World::new();
    let (_admin, mut victim) = world.connected(HOST);
    world.peer = ([10, 9, 9, 9], 50_000).into();
    let (_stranger_admin, mut stranger) = world.connected(HOST);
    let mut requested = 0;
    for _ in 0..120 {
        stranger.submit(&write(1, 0, vec![0; 1 << 20], false));
        requested += std::iter::from_fn(|| stranger.next()).count();
    }
    assert!(requested >= 16, "half of the pool: {requested}");
    // The host finds as much memory as is left, as any new initiator does.
    let mut own = 0;
    for _ in 0..40 {
        victim.submit(&write(1, 0, vec![0; 1 << 20], false));
        own += std::iter::from_fn(|| victim.next()).count();
    }
    assert!(own >= 8, "{own} of the host's writes are taken");
    // The attacker's connection makes no progress while others wait.
    for _ in 0..30 {
        assert_eq!(stranger.connection.ended(), None);
        stranger.connection.tick();
    }
    let reason = "it holds memory that others wait for and makes no progress";
    assert_eq!(stranger.connection.ended(), Some(reason));
}

#[test]
fn a_connection_ends_after_a_few_refused_connects() {
    let world = World::new();
    let mut host = world.open();
    host.initialize((false, false));
    let refused = (0..1000).take_while(|_| {
        host.connection.ended().is_none() && host.connect(STRANGER, SUBSYSTEM, 0, 0xFFFF, 32).is_err()
    });
    assert_eq!(refused.count(), 4);
}

/// Counts the lines of the log.
struct Lines(Arc<Mutex<usize>>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        *self.0.lock() += 1;
    }

    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn refusals_are_a_few_lines_of_the_log() {
    let world = World::new();
    world.stop_clock();
    let lines = Arc::<Mutex<usize>>::default();
    tracing::subscriber::with_default(Lines(lines.clone()), || {
        for _ in 0..500 {
            let mut host = world.open();
            host.initialize((false, false));
            host.connect(STRANGER, SUBSYSTEM, 0, 0xFFFF, 32).unwrap_err();
            host.connect(HOST, "nqn.2026-01.test:another", 0, 0xFFFF, 32).unwrap_err();
            let mut discovery = world.open();
            discovery.initialize((false, false));
            discovery.connect(STRANGER, DISCOVERY, 0, 0xFFFF, 32).unwrap();
        }
    });
    assert_eq!(*lines.lock(), 8, "at one moment");
}

/// A worker that only queues its work.
pub(crate) type Queued = Arc<Mutex<Vec<(IpAddr, Work)>>>;

/// Makes a world queue finite-field work instead of doing it.
pub(crate) fn queue_work(world: &mut World) -> Queued {
    let queued = Queued::default();
    let waiting = queued.clone();
    world.worker = Arc::new(move |from, work| waiting.lock().push((from, work)));
    queued
}

#[test]
fn before_the_authentication_a_queue_holds_what_every_connection_does() {
    let (mut world, _) = crate::authentication_test::world(crate::authentication_test::OF_HOST, None);
    world.worker = crate::at_once();
    let before = world.budget.used();
    let (mut host, _) = crate::authentication_test::admin(&world);
    assert_eq!(world.budget.used() - before, UNKNOWN_GUARANTEE_BYTES);
    for _ in 0..20 {
        host.submit(&write(1, 0, vec![0; 1 << 20], false));
        host.submit(&log_page(0x02, 1 << 20, 0));
    }
    let ends = std::iter::from_fn(|| host.completion()).collect::<Vec<_>>();
    assert_eq!(ends.len(), 40);
    assert!(ends.iter().all(|end| end.status == 0x191), "Authentication Required: {ends:?}");
    assert_eq!(world.budget.used() - before, UNKNOWN_GUARANTEE_BYTES);
    for _ in 0..30 {
        host.submit(&identify(1, 0));
    }
    assert_eq!(host.connection.ended(), Some("the authentication failed"), "too many");
}
