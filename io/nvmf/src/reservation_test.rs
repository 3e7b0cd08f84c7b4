//! Reservations of two hosts on one namespace, and their survival of a restart.

use crate::lab_test::*;
use block::{Disk, DiskId};
use export::{InitiatorPort, NexusName};

const CONFLICT: u16 = 0x083;

fn register(action: u32, current: u64, new: u64) -> Cmd {
    let mut data = current.to_le_bytes().to_vec();
    data.extend_from_slice(&new.to_le_bytes());
    Cmd::new(0x0D, 1).dword(10, action).out(data, true)
}

fn acquire(action: u32, kind: u32, current: u64, preempted: u64) -> Cmd {
    let mut data = current.to_le_bytes().to_vec();
    data.extend_from_slice(&preempted.to_le_bytes());
    Cmd::new(0x11, 1).dword(10, action | kind << 8).out(data, true)
}

fn release(action: u32, kind: u32, current: u64) -> Cmd {
    Cmd::new(0x15, 1).dword(10, action | kind << 8).out(current.to_le_bytes().to_vec(), true)
}

fn report() -> Cmd {
    Cmd::new(0x0E, 1).dword(10, 63).dword(11, 1).wants(256)
}

fn access(io: &mut Host) -> (u16, u16) {
    (io.run(read(1, 0, 1)).status, io.run(write(1, 0, vec![1; 512], true)).status)
}

#[test]
fn every_type_admits_whom_it_says() {
    let world = World::new();
    let (_a, mut one) = world.connected(HOST);
    let (_b, mut other) = world.connected(OTHER);
    assert_eq!(one.run(register(0, 0, 0xA)).status, 0);
    // Type, and the other host's access: not registered, and registered.
    let free = (0, 0);
    let (no_writes, nothing) = ((0, CONFLICT), (CONFLICT, CONFLICT));
    for (kind, stranger, registrant) in [
        (1, no_writes, no_writes),
        (2, nothing, nothing),
        (3, no_writes, free),
        (4, nothing, free),
        (5, no_writes, free),
        (6, nothing, free),
    ] {
        assert_eq!(one.run(acquire(0, kind, 0xA, 0)).status, 0, "type {kind}");
        assert_eq!(access(&mut one), free);
        assert_eq!(access(&mut other), stranger, "type {kind}");
        assert_eq!(other.run(register(0, 0, 0xB)).status, 0);
        assert_eq!(access(&mut other), registrant, "type {kind}, registered");
        let status = one.run(report()).data;
        assert_eq!((status[4], status[5]), (kind as u8, 2));
        assert_eq!(status[64 + 16..64 + 32], host_id(HOST));
        assert_eq!((status[64 + 2], status[128 + 2]), (1, u8::from(kind >= 5)), "holders of type {kind}");
        assert_eq!(other.run(acquire(0, kind, 0xB, 0)).status, if kind >= 5 { 0 } else { CONFLICT });
        assert_eq!(one.run(release(0, kind % 6 + 1, 0xA)).status, 0x002, "another type");
        assert_eq!(one.run(release(0, kind, 0xA)).status, 0);
        assert_eq!(access(&mut other), free);
        assert_eq!(other.run(register(1, 0xB, 0)).status, 0, "unregistered");
    }
    assert_eq!(one.run(Cmd::new(0x0E, 1).dword(10, 63).wants(256)).status, 0x018, "needs the extended form");
}

#[test]
fn registrations_follow_the_rules_of_keys() {
    let world = World::new();
    let (_a, mut one) = world.connected(HOST);
    assert_eq!(one.run(acquire(0, 1, 0xA, 0)).status, CONFLICT, "not registered");
    assert_eq!(one.run(register(2, 0xA, 0xB)).status, CONFLICT, "nothing to replace");
    assert_eq!(one.run(register(2 | 8, 0, 0xA)).status, 0, "unless existing keys are ignored");
    assert_eq!(one.run(register(0, 0, 0xA)).status, 0, "again with the same key");
    assert_eq!(one.run(register(0, 0, 0xC)).status, CONFLICT, "with another one");
    assert_eq!(one.run(register(2, 0xA, 0xC)).status, 0);
    assert_eq!(one.run(acquire(0, 1, 0xA, 0)).status, CONFLICT, "the old key");
    assert_eq!(one.run(acquire(0, 7, 0xC, 0)).status, 0x002, "no such type");
    assert_eq!(one.run(register(1, 0xA, 0)).status, CONFLICT);
    assert_eq!(one.run(register(1, 0xC, 0)).status, 0);
    assert_eq!(one.run(register(0, 0, 0)).status, 0x002, "zero is no key");
}

#[test]
fn a_preempted_host_is_fenced_and_notified() {
    let world = World::new();
    let (_a, mut one) = world.connected(HOST);
    let (mut admin, mut other) = world.connected(OTHER);
    (0..2).for_each(|_| {
        admin.submit(&Cmd::new(0x0C, 0));
    });
    one.run(register(0, 0, 0xA));
    other.run(register(0, 0, 0xB));
    assert_eq!(other.run(acquire(0, 3, 0xB, 0)).status, 0);
    assert_eq!(one.run(acquire(2, 3, 0xA, 0xB)).status, 0, "preempt and abort");
    assert_eq!(access(&mut other), (0, CONFLICT));
    assert_eq!(admin.completion().unwrap().result, 0x0080_0006);
    let notice = admin.run(log_page(0x80, 64, 0)).data;
    assert_eq!((notice[0], notice[8], notice[9], notice[12]), (1, 1, 0, 1), "registration preempted");
    assert_eq!(admin.run(log_page(0x80, 64, 0)).data[8], 0, "read once");
    assert_eq!(one.run(release(1, 0, 0xA)).status, 0, "cleared");
    assert_eq!(access(&mut other), (0, 0));
}

#[test]
fn reservations_persist_if_a_host_asks_for_it() {
    let world = World::new();
    let (mut admin, mut one) = world.connected(HOST);
    one.run(register(3 << 30, 0, 0xA));
    assert_eq!(one.run(acquire(0, 2, 0xA, 0)).status, 0);
    assert_eq!(admin.run(Cmd::new(0x0A, 1).dword(10, 0x83)).result, 1, "Reservation Persistence");
    let saved = world.disks[0].state();
    assert!(!saved.is_empty());
    // A restart: the volume is exported again, from its saved state.
    world.exports.remove_volume(DiskId(1));
    world.exports.add_volume(std::sync::Arc::new(world.disks[0].clone()));
    let (_b, mut other) = world.connected(OTHER);
    assert_eq!(access(&mut other), (CONFLICT, CONFLICT));
    let registrant = NexusName {
        initiator: InitiatorPort::Nvme { nqn: HOST.into(), host_id: host_id(HOST) },
        target_port: 0,
    };
    let key = world
        .exports
        .read(|registry| registry.volume(DiskId(1)).unwrap().state().registrations.key(&registrant));
    assert_eq!(key, Some(0xA));
    assert_eq!(admin.run(Cmd::new(0x09, 1).dword(10, 0x83).dword(11, 0)).status, 0);
    world.exports.remove_volume(DiskId(1));
    world.exports.add_volume(std::sync::Arc::new(world.disks[0].clone()));
    assert_eq!(access(&mut other), (0, 0), "it did not persist any more");
}
