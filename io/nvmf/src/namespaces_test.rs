//! A freed namespace identifier that is reused for another volume: a host that may not know of the change cannot reach
//! that volume.

use crate::lab_test::*;
use block::DiskId;
use std::collections::BTreeMap;

const INVALID_NAMESPACE: u16 = 0x00B;
const NOT_READY: u16 = 0x082;
const NAMESPACE_EVENT: u64 = 0x0004_0002;

fn map(world: &World, numbers: &[(u16, u128)]) {
    let mappings: BTreeMap<u16, DiskId> = numbers.iter().map(|(number, id)| (*number, DiskId(*id))).collect();
    world.exports.set_mappings(HOST, mappings);
}

/// The first bytes of a disk, as another host reads them.
fn first_bytes(world: &World, disk: u128) -> Vec<u8> {
    world.exports.set_mappings(OTHER, BTreeMap::from([(0, DiskId(1)), (7, DiskId(disk))]));
    let (mut admin, mut io) = world.connected(OTHER);
    admin.run(identify(0, 8));
    io.run(read(8, 0, 1)).data[..4].to_vec()
}

fn listed(admin: &mut Host) -> Vec<u32> {
    let list = admin.run(identify(2, 0)).data;
    let ids = list.chunks_exact(4).map(|raw| u32::from_le_bytes(raw.try_into().unwrap()));
    ids.take_while(|id| *id != 0).collect()
}

/// Enables notices of changed namespaces, and waits for events.
fn watch(admin: &mut Host) {
    assert_eq!(admin.run(Cmd::new(0x09, 0).dword(10, 0x0B).dword(11, 1 << 8)).status, 0);
    (1..=4).for_each(|_| {
        admin.submit(&Cmd::new(0x0C, 0));
    });
}

/// The reaction of a notified host: it reads the changes, then the list of its namespaces.
fn scan(admin: &mut Host) -> Vec<u32> {
    assert_eq!(admin.completion().map(|event| event.result), Some(NAMESPACE_EVENT));
    admin.run(log_page(0x04, 4096, 0));
    listed(admin)
}

#[test]
fn a_freed_identifier_is_another_volume_only_after_the_host_has_dropped_it() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    watch(&mut admin);
    assert_eq!(listed(&mut admin), [1, 2]);
    map(&world, &[(0, 1), (1, 3)]);
    let stale = |io: &mut Host| io.run(write(2, 0, vec![0xEE; BLOCK], true)).status;
    assert_eq!(stale(&mut io), INVALID_NAMESPACE);
    assert_eq!(admin.run(identify(0, 2)).data[..8], [0; 8], "inactive");
    assert_eq!(scan(&mut admin), [1], "the host drops it");
    assert_eq!(stale(&mut io), INVALID_NAMESPACE, "a command that was on its way");
    assert_eq!(scan(&mut admin), [1, 2], "the host looks again, and finds another namespace");
    assert_eq!(first_bytes(&world, 3), [0; 4]);
    assert_eq!(io.run(write(2, 0, vec![0x33; BLOCK], true)).status, 0);
    assert_eq!((first_bytes(&world, 3), first_bytes(&world, 2)), (vec![0x33; 4], vec![0; 4]));
}

#[test]
fn a_freed_identifier_that_the_host_has_dropped_names_another_volume_at_its_next_scan() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    watch(&mut admin);
    map(&world, &[(0, 1)]);
    assert_eq!(scan(&mut admin), [1]);
    map(&world, &[(0, 1), (1, 3)]);
    assert_eq!(io.run(write(2, 0, vec![0xEE; BLOCK], true)).status, INVALID_NAMESPACE);
    assert_eq!(scan(&mut admin), [1, 2]);
    assert_eq!(io.run(write(2, 0, vec![0x33; BLOCK], true)).status, 0);
}

#[test]
fn the_same_volume_has_its_identifier_back_at_once() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    map(&world, &[(0, 1)]);
    map(&world, &[(0, 1), (1, 2), (4, 3)]);
    assert_eq!(io.run(write(2, 0, vec![1; BLOCK], true)).status, 0);
    assert_eq!(io.run(write(5, 0, vec![1; BLOCK], true)).status, 0, "an identifier that named nothing");
}

#[test]
fn a_list_read_beside_the_driver_proves_nothing() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    watch(&mut admin);
    map(&world, &[(0, 1), (1, 3)]);
    assert_eq!(admin.completion().map(|event| event.result), Some(NAMESPACE_EVENT));
    for _ in 0..3 {
        assert_eq!(listed(&mut admin), [1]);
    }
    assert_eq!(io.run(write(2, 0, vec![0xEE; BLOCK], true)).status, INVALID_NAMESPACE);
    // Without notifications, the host only has the lists.
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    map(&world, &[(0, 1), (1, 3)]);
    assert_eq!((listed(&mut admin), listed(&mut admin)), (vec![1], vec![1, 2]));
    assert_eq!(io.run(write(2, 0, vec![0x33; BLOCK], true)).status, 0);
}

#[test]
fn a_command_whose_data_come_late_does_not_reach_a_later_namespace() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    let data = vec![0xEE; BLOCK];
    io.submit(&write(2, 0, data.clone(), false));
    io.turn();
    let request = io.next().expect("an R2T");
    assert_eq!(request.kind, 9);
    map(&world, &[(0, 1), (1, 3)]);
    assert_eq!((listed(&mut admin), listed(&mut admin)), (vec![1], vec![1, 2]));
    io.data(&request, &data, 0, true);
    assert_eq!(io.completion().map(|end| end.status), Some(INVALID_NAMESPACE));
    assert_eq!(first_bytes(&world, 3), [0; 4]);
    assert_eq!(io.run(write(2, 0, vec![0x33; BLOCK], true)).status, 0);
}

#[test]
fn a_host_that_comes_back_identifies_a_reused_identifier_first() {
    let world = World::new();
    drop(world.connected(HOST));
    map(&world, &[(0, 1)]);
    map(&world, &[(0, 1), (1, 3)]);
    let (mut admin, mut io) = world.connected(HOST);
    let refused = io.run(write(2, 0, vec![0xEE; BLOCK], true));
    assert_eq!((refused.status, refused.retry), (NOT_READY, true));
    assert_eq!(io.run(read(2, 0, 1)).status, NOT_READY);
    assert_eq!(io.run(write(1, 0, vec![1; BLOCK], true)).status, 0, "it was never another's");
    assert_eq!(listed(&mut admin), [1, 2]);
    assert_eq!(io.run(read(2, 0, 1)).status, NOT_READY, "a list says nothing of what it is");
    assert_eq!(admin.run(identify(3, 2)).status, 0);
    assert_eq!(io.run(write(2, 0, vec![0x33; BLOCK], true)).status, 0);
    // The same if the controller existed before the volume.
    map(&world, &[(0, 1)]);
    drop((admin, io));
    let (mut admin, mut io) = world.connected(HOST);
    map(&world, &[(0, 1), (1, 2)]);
    assert_eq!(io.run(read(2, 0, 1)).status, NOT_READY);
    assert_eq!(admin.run(identify(0, 2)).status, 0);
    assert_eq!(io.run(read(2, 0, 1)).status, 0);
}

#[test]
fn a_controller_identifier_is_not_soon_another_controllers() {
    let world = World::new();
    let mut known = std::collections::BTreeSet::new();
    for _ in 0..4 {
        let mut admin = world.open();
        admin.initialize((false, false));
        let id = admin.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
        assert!(known.insert(id), "{id} again");
        drop(admin);
        let mut late = world.open();
        late.initialize((false, false));
        assert!(late.connect(HOST, SUBSYSTEM, 1, id, 128).is_err(), "a queue that comes late");
    }
}
