//! Connections from ICReq to their end: Connect, queues, commands, and protocol errors of hosts.

use crate::lab_test::*;
use block::{Disk, DiskId};
use std::collections::BTreeMap;

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|index| (index as u8).wrapping_mul(7).wrapping_add(seed)).collect()
}

#[test]
fn what_is_written_is_read_in_every_form_of_transfer() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    for (seed, bytes, in_capsule) in [(1, 512, true), (2, 8192, true), (3, 4096, false), (4, 1 << 20, false)]
    {
        let data = pattern(bytes, seed);
        assert_eq!(io.run(write(1, 100, data.clone(), in_capsule)).status, 0);
        let end = io.run(read(1, 100, (bytes / BLOCK) as u32));
        assert_eq!((end.status, end.data), (0, data));
    }
    assert_eq!(io.run(read(1, BLOCKS - 1, 2)).status, 0x080, "LBA Out of Range");
    assert_eq!(io.run(read(3, 0, 1)).status, 0x00B, "Invalid Namespace");
    assert_eq!(io.run(read(1, 0, 1).dword(8, 1024)).status, 0x00F, "Data SGL Length Invalid");
    assert_eq!(io.run(read(1, 0, 4096)).status, 0x002, "beyond MDTS");
}

#[test]
fn digests_protect_both_directions() {
    let world = World::new();
    for digests in [(true, true), (true, false), (false, true)] {
        let mut admin = world.open();
        admin.initialize(digests);
        let id = admin.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
        assert_eq!(admin.run(property_set(0x14, 1)).status, 0);
        let mut io = world.open();
        io.initialize(digests);
        io.connect(HOST, SUBSYSTEM, 1, id, 16).unwrap();
        let data = pattern(64 << 10, 9);
        assert_eq!(io.run(write(1, 0, data.clone(), false)).status, 0);
        assert_eq!(io.run(read(1, 0, 128)).data, data);
    }
    let (_admin, mut io) = {
        let mut admin = world.open();
        admin.initialize((false, true));
        let id = admin.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
        admin.run(property_set(0x14, 1));
        let mut io = world.open();
        io.initialize((false, true));
        io.connect(HOST, SUBSYSTEM, 1, id, 16).unwrap();
        (admin, io)
    };
    let cmd = write(1, 0, pattern(512, 1), true).cid(7);
    let mut pdu = io.pdu(4, &cmd.bytes, &cmd.data, 0);
    let last = pdu.len() - 5;
    pdu[last] ^= 1;
    io.send(&pdu);
    let end = io.end(&cmd);
    assert_eq!((end.cid, end.status, end.retry), (7, 0x022, true), "Transient Transport Error");
}

#[test]
fn a_host_sees_only_what_it_is_mapped_to() {
    let world = World::new();
    let active = |host: &mut Host| {
        let list = host.run(identify(2, 0)).data;
        let nsids: Vec<u32> = list.chunks(4).map(|raw| u32::from_le_bytes(raw.try_into().unwrap())).collect();
        nsids.into_iter().filter(|nsid| *nsid > 0).collect::<Vec<_>>()
    };
    let (mut admin, _io) = world.connected(HOST);
    let (mut other, _other_io) = world.connected(OTHER);
    assert_eq!(active(&mut admin), [1, 2]);
    assert_eq!(active(&mut other), [1]);
    assert_eq!(other.run(identify(3, 2)).status, 0x00B);
    assert_eq!(admin.run(identify(3, 1)).data, other.run(identify(3, 1)).data, "the same on every path");
    assert!(other.run(identify(0, 2)).data.iter().all(|byte| *byte == 0), "not active: zeros");
    let mut stranger = world.open();
    stranger.initialize((false, false));
    let refused = stranger.connect(STRANGER, SUBSYSTEM, 0, 0xFFFF, 32).unwrap_err();
    assert_eq!(refused.status, 0x184, "Connect Invalid Host");
    world.exports.set_mappings(OTHER, BTreeMap::<u16, DiskId>::new());
    assert_eq!(active(&mut other), Vec::<u32>::new());
}

#[test]
fn connect_names_the_parameter_that_is_wrong() {
    let world = World::new();
    let (_admin, _io) = world.connected(HOST);
    let mut host = world.open();
    host.initialize((false, false));
    let end = host.run(identify(1, 0));
    assert_eq!(end.status, 0x00C, "Command Sequence Error before Connect");
    let offset = |end: End| (end.status, end.result);
    let data = 1 << 16;
    let connect = |nqn, subsystem, qid, controller, entries| {
        let mut host = world.open();
        host.initialize((false, false));
        host.connect(nqn, subsystem, qid, controller, entries).map(|_| host)
    };
    let refused = |nqn, subsystem, qid, controller, entries| {
        connect(nqn, subsystem, qid, controller, entries).err().expect("it is refused")
    };
    let subsystem = refused(HOST, "nqn.2026-11.io.ashlar:none", 0, 0xFFFF, 32);
    assert_eq!(offset(subsystem), (0x182, data | 256));
    assert_eq!(offset(refused(HOST, SUBSYSTEM, 0, 5, 32)), (0x182, data | 16));
    assert_eq!(offset(refused(HOST, SUBSYSTEM, 1, 999, 32)), (0x182, data | 16));
    assert_eq!(offset(refused(HOST, SUBSYSTEM, 0, 0xFFFF, 2000)), (0x182, 44));
    assert_eq!(refused("host", SUBSYSTEM, 0, 0xFFFF, 32).status, 0x182, "no NQN");
    let id = world.subsystem.controllers()[0].id;
    let stolen = refused(OTHER, SUBSYSTEM, 2, id, 32);
    assert_eq!(offset(stolen), (0x182, data | 512), "a controller of another host");
    let second = refused(HOST, SUBSYSTEM, 1, id, 32);
    assert_eq!(second.status, 0x00C, "the queue exists");
    // The connection whose first command was refused may try again.
    host.connect(HOST, SUBSYSTEM, 2, id, 32).unwrap();
}

#[test]
fn a_controller_has_its_queues_until_it_ends() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    assert_eq!(admin.run(property_get(0x1C, false)).result, 1, "CSTS.RDY");
    assert_eq!(admin.run(property_get(0x08, false)).result, 0x2_0000);
    assert_eq!(admin.run(property_get(0, true)).result & 0xFFFF, 1023);
    assert_eq!(admin.run(property_get(0, false)).status, 0x002, "CAP has eight bytes");
    let queues = Cmd::new(0x09, 0).dword(10, 7).dword(11, 500 | 500 << 16);
    assert_eq!(admin.run(queues.clone()).status, 0x00C, "a queue is connected");
    admin.run(property_set(0x14, 0));
    io.turn();
    assert_eq!(io.connection.ended(), Some("the host resets its controller"));
    admin.run(property_set(0x14, 1));
    assert_eq!(admin.run(queues).result, 127 | 127 << 16);
    let id = world.subsystem.controllers()[0].id;
    let mut io = world.open();
    io.initialize((false, false));
    io.connect(HOST, SUBSYSTEM, 128, id, 1024).unwrap();
    assert_eq!(world.subsystem.controllers()[0].queues, 1);
    assert_eq!(io.run(Cmd::new(0x7F, 0x08)).status, 0, "Disconnect");
    assert_eq!(io.connection.ended(), Some("the host disconnected"));
    admin.connection.close("test");
    assert!(world.subsystem.controllers().is_empty());
}

#[test]
fn a_silent_host_is_disconnected_after_its_keep_alive_time() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    for _ in 0..11 {
        admin.connection.tick();
    }
    io.run(read(1, 0, 1));
    for _ in 0..12 {
        assert_eq!(admin.connection.ended(), None, "any command counts");
        admin.connection.tick();
    }
    admin.connection.tick();
    assert_eq!(admin.connection.ended(), Some("the keep alive timer has expired"));
    io.turn();
    assert!(io.connection.ended().is_some());
    let mut silent = world.open();
    (0..30).for_each(|_| silent.connection.tick());
    assert!(silent.connection.ended().is_some());
}

#[test]
fn compare_and_write_is_one_operation() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    let (old, new) = (vec![0; 512], pattern(512, 5));
    let compare =
        |data: &[u8], in_capsule| Cmd::new(0x05, 1).run_of(8, 1).out(data.to_vec(), in_capsule).fuse(1);
    let second = |data: &[u8], in_capsule| write(1, 8, data.to_vec(), in_capsule).fuse(2);
    for in_capsule in [true, false] {
        let (one, two) = (compare(&old, in_capsule).cid(1), second(&new, in_capsule).cid(2));
        io.submit(&one);
        if in_capsule {
            io.submit(&read(2, 0, 1).cid(9));
            assert_eq!(io.end(&one).cid, 9, "a command between the halves");
            io.submit(&two);
        } else {
            io.submit(&two);
            let (first, other) = (io.next().unwrap(), io.next().unwrap());
            io.data(&other, &two.data, 0, true);
            assert!(io.next().is_none(), "the first half has no data yet");
            io.data(&first, &one.data, 0, true);
        }
        let ends = [io.end(&one), io.end(&two)];
        assert_eq!(ends.map(|end| (end.cid, end.status)), [(1, 0), (2, 0)]);
        assert_eq!(io.run(read(1, 8, 1)).data, new);
        io.submit(&compare(&old, true).cid(3));
        io.submit(&second(&old, true).cid(4));
        let ends = [io.end(&one), io.end(&two)];
        let expected = [(3, 0x285), (4, 0x009)];
        assert_eq!(ends.map(|end| (end.cid, end.status)), expected, "Compare Failure, failed fused");
        assert_eq!(io.run(read(1, 8, 1)).data, new, "nothing was written");
        io.run(write(1, 8, old.clone(), true));
    }
}

#[test]
fn halves_without_a_counterpart_are_aborted() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    let compare = |lba| Cmd::new(0x05, 1).run_of(lba, 1).out(vec![0; 512], true).fuse(1);
    let second = |lba| write(1, lba, vec![1; 512], true).fuse(2);
    assert_eq!(io.run(second(0)).status, 0x00A, "no first half");
    io.submit(&compare(0).cid(1));
    io.submit(&compare(1).cid(2));
    let end = io.end(&compare(0));
    assert_eq!((end.cid, end.status), (1, 0x00A), "another first half came");
    io.submit(&second(7).cid(3));
    let ends = [io.end(&compare(0)), io.end(&compare(0))];
    assert_eq!(ends.map(|end| (end.cid, end.status)), [(2, 0x00A), (3, 0x00A)], "other blocks");
    // A half whose data was requested: the late data is discarded.
    let late = Cmd::new(0x05, 1).run_of(0, 1).out(vec![0; 512], false).fuse(1).cid(4);
    io.submit(&late);
    io.submit(&second(9).cid(5));
    let r2t = io.next().unwrap();
    assert_eq!(r2t.kind, 9);
    assert_eq!([io.end(&late), io.end(&late)].map(|end| end.cid), [4, 5]);
    io.data(&r2t, &late.data, 0, true);
    assert_eq!(io.completion(), None);
    assert_eq!(io.run(compare(0).fuse(2)).status, 0x002, "a reserved value");
    assert_eq!(admin.run(identify(1, 0).fuse(1)).status, 0x002, "not for admin commands");
    assert_eq!(io.run(read(1, 0, 1)).data, vec![0; 512]);
}

#[test]
fn blocks_are_compared_zeroed_deallocated_and_copied() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    let data = pattern(8192, 3);
    io.run(write(1, 0, data.clone(), true));
    assert_eq!(io.run(Cmd::new(0x05, 1).run_of(0, 16).out(data.clone(), false)).status, 0);
    assert_eq!(io.run(Cmd::new(0x05, 1).run_of(1, 16).out(data.clone(), false)).status, 0x285);
    let mapped = || world.disks[0].space().mapped;
    let before = mapped();
    assert_eq!(io.run(Cmd::new(0x08, 1).run_of(0, 8)).status, 0, "Write Zeroes");
    assert_eq!(mapped(), before);
    assert_eq!(io.run(Cmd::new(0x08, 1).run_of(0, 8).dword(12, 7 | 1 << 25)).status, 0, "with DEAC");
    assert!(mapped() < before);
    assert_eq!(io.run(read(1, 0, 16)).data[..4096], [0; 4096]);
    assert_eq!(io.run(Cmd::new(0x0C, 1).run_of(0, 16)).status, 0, "Verify");
    assert_eq!(io.run(Cmd::new(0x0C, 1).run_of(BLOCKS, 1)).status, 0x080);
    let mut source = vec![0; 64];
    source[8..16].copy_from_slice(&8_u64.to_le_bytes());
    source[16] = 7;
    source[40..48].copy_from_slice(&12_u64.to_le_bytes());
    let copy =
        |format: u32| Cmd::new(0x19, 1).dword(10, 1000).dword(12, 1 | format << 8).out(source.clone(), true);
    assert_eq!(io.run(copy(0)).status, 0);
    let copied = io.run(read(1, 1000, 9)).data;
    assert_eq!((&copied[..4096], &copied[4096..]), (&data[4096..], &data[6144..6656]));
    assert_eq!(io.run(copy(3)).status, 0x002, "a format that OCFS does not have");
    let mut ranges = vec![0; 4096];
    ranges[4..8].copy_from_slice(&16_u32.to_le_bytes());
    let deallocate = Cmd::new(0x09, 1).dword(10, 0).dword(11, 4).out(ranges, true);
    assert_eq!(io.run(deallocate).status, 0);
    assert_eq!(io.run(read(1, 0, 16)).data, vec![0; 8192]);
    assert_eq!(io.run(Cmd::new(0x00, u32::MAX)).status, 0, "Flush of all namespaces");
    assert_eq!(io.run(Cmd::new(0x04, 1).run_of(0, 1)).status, 0x001, "Write Uncorrectable is not supported");
}

#[test]
fn a_read_only_host_changes_nothing() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    let mapping = export::Mapping { read_only: true, ..DiskId(1).into() };
    world.exports.set_mappings(HOST, BTreeMap::from([(0, mapping)]));
    assert_eq!(io.run(write(1, 0, vec![1; 512], true)).status, 0x020, "Namespace is Write Protected");
    assert_eq!(io.run(Cmd::new(0x08, 1).run_of(0, 1)).status, 0x020);
    assert_eq!(io.run(Cmd::new(0x0D, 1).dword(10, 0).out(vec![1; 16], true)).status, 0x020);
    assert_eq!(io.run(read(1, 0, 1)).status, 0);
    assert_eq!(admin.run(identify(0, 1)).data[99], 1, "NSATTR");
}

#[test]
fn namespaces_that_change_are_notified() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    let enable = Cmd::new(0x09, 0).dword(10, 0x0B).dword(11, 1 << 8 | 1 << 11);
    assert_eq!(admin.run(enable).status, 0);
    (1..=3).for_each(|_| {
        admin.submit(&Cmd::new(0x0C, 0));
    });
    assert_eq!(admin.completion(), None);
    world.exports.set_mappings(HOST, BTreeMap::from([(0, DiskId(1)), (4, DiskId(3))]));
    assert_eq!(admin.completion().unwrap().result, 0x0004_0002, "namespace attributes");
    assert_eq!(admin.completion().unwrap().result, 0x000C_0302, "asymmetric access");
    let changed = admin.run(log_page(0x04, 4096, 0)).data;
    assert_eq!(changed[..12], [2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    let access = admin.run(log_page(0x0C, 64, 0)).data;
    assert_eq!((access[8], access[16], access[20], access[32]), (1, 1, 2, 1), "one group, optimized");
    assert_eq!((access[48], access[52]), (1, 5), "its namespaces");
    assert_eq!(io.run(read(5, 0, 1)).status, 0);
    assert_eq!(io.run(read(2, 0, 1)).status, 0x00B);
    world.exports.notify(DiskId(3), export::Event::CapacityChanged);
    assert_eq!(admin.completion().unwrap().result, 0x0004_0002);
}

#[test]
fn discovery_shows_what_the_host_may_use() {
    let world = World::new();
    let mut host = world.open();
    host.initialize((false, false));
    host.connect(STRANGER, "nqn.2014-08.org.nvmexpress.discovery", 0, 0xFFFF, 32).unwrap();
    host.run(property_set(0x14, 1));
    let records = |host: &mut Host| {
        let header = host.run(log_page(0x70, 1024, 0)).data;
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
        let entries: Vec<(u8, String, u8)> = (1..=number(8))
            .map(|index| {
                let entry = host.run(log_page(0x70, 1024, index * 1024)).data;
                let port = String::from_utf8(entry[32..64].to_vec()).unwrap();
                (entry[2], port.trim_end().to_owned(), entry[0])
            })
            .collect();
        (number(0), entries)
    };
    assert_eq!(host.run(Cmd::new(0x09, 0).dword(10, 0x0B).dword(11, 1 << 31)).status, 0);
    host.submit(&Cmd::new(0x0C, 0));
    let (before, nothing) = records(&mut host);
    assert_eq!(nothing, [(3, "4420".to_owned(), 3)], "only the discovery subsystem itself");
    world.subsystem.set_hosts(hosts(&[HOST, OTHER, STRANGER]));
    assert_eq!(host.completion().unwrap().result, 0x0070_F002, "the discovery log page changed");
    let (after, all) = records(&mut host);
    assert!(after > before, "GENCTR");
    assert_eq!(all[1..], [(2, "4420".to_owned(), 3)], "8009 is for discovery only");
    assert_eq!(host.run(identify(1, 0)).data[111], 2);
    assert_eq!(host.run(identify(2, 0)).status, 0x002, "no namespaces");
    assert_eq!(host.run(log_page(0x02, 512, 0)).status, 0x109);
}

/// Abort of a command of a queue, on the admin queue; `io` gets to perform it.
fn abort(admin: &mut Host, io: &mut Host, qid: u16, cid: u16) -> u64 {
    admin.submit(&Cmd::new(0x08, 0).dword(10, u32::from(cid) << 16 | u32::from(qid)));
    io.turn();
    let end = admin.completion().expect("the abort has ended");
    assert_eq!(end.status, 0);
    end.result
}

#[test]
fn a_command_that_has_not_ended_can_be_aborted() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    let late = write(1, 0, vec![1; 512], false).cid(7);
    io.submit(&late);
    let r2t = io.next().unwrap();
    assert_eq!(r2t.kind, 9, "its data is requested");
    assert_eq!(abort(&mut admin, &mut io, 1, 7), 0, "aborted");
    assert_eq!(io.completion().map(|end| (end.cid, end.status)), Some((7, 0x007)));
    io.data(&r2t, &late.data, 0, true);
    assert_eq!(io.completion(), None);
    assert_eq!(io.run(read(1, 0, 1)).data, vec![0; 512], "nothing was written");
    assert_eq!(abort(&mut admin, &mut io, 1, 7), 1, "it has ended");
    assert_eq!(abort(&mut admin, &mut io, 2, 7), 1, "no such queue");
    admin.submit(&Cmd::new(0x0C, 0).cid(30));
    admin.submit(&Cmd::new(0x08, 0).dword(10, 30 << 16).cid(31));
    let ends = [admin.completion(), admin.completion()].map(|end| end.expect("both have ended"));
    assert_eq!(ends.map(|end| (end.cid, end.status, end.result)), [(30, 0x007, 0), (31, 0, 0)]);
    // If the connection of the queue has ended, no command is aborted, and the Abort completes nevertheless.
    for cid in 40..44 {
        admin.submit(&Cmd::new(0x08, 0).dword(10, 1).cid(cid));
    }
    admin.submit(&Cmd::new(0x08, 0).dword(10, 1).cid(44));
    assert_eq!(admin.completion().map(|end| (end.cid, end.status)), Some((44, 0x103)), "too many");
    drop(io);
    let ends = (40..44).map(|_| admin.completion().expect("ended"));
    assert!(ends.map(|end| end.result).all(|result| result == 1));
}

#[test]
fn a_half_of_a_fused_operation_is_not_aborted_alone() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    let cid = io.submit(&Cmd::new(0x05, 1).run_of(0, 1).out(vec![0; 512], true).fuse(1));
    assert_eq!(abort(&mut admin, &mut io, 1, cid), 1);
    assert_eq!(io.completion(), None, "it waits for the other half");
}

#[test]
fn the_last_data_of_a_command_say_that_they_are_the_last() {
    for (bytes, last) in [(512, false), (256, true)] {
        let world = World::new();
        let (_admin, mut io) = world.connected(HOST);
        let cmd = write(1, 0, vec![1; 512], false);
        io.submit(&cmd);
        let r2t = io.next().unwrap();
        io.data(&r2t, &cmd.data[..bytes], 0, last);
        assert!(io.connection.ended().is_some(), "{bytes} bytes, {last}");
    }
}

#[test]
fn a_queue_has_no_more_commands_than_entries() {
    let world = World::new();
    let (mut host, _) = world.connected(HOST);
    let mut io = world.open();
    io.initialize((false, false));
    let controller = world.subsystem.controllers()[0].id;
    assert_eq!(io.run(connect(HOST, SUBSYSTEM, 2, controller, 4)).status, 0);
    for cid in 1..=4 {
        io.submit(&write(1, 0, vec![1; 512], false).cid(cid));
        assert_eq!(io.next().map(|came| came.kind), Some(9));
    }
    io.submit(&write(1, 0, vec![1; 512], false).cid(5));
    assert!(io.connection.ended().is_some());
    assert_eq!(host.run(property_get(0x00, true)).status, 0, "the controller is there");
}

#[test]
fn a_running_command_can_be_aborted() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    // The second command waits for the limit, as this clock never advances.
    world.stop_clock();
    let operations = Some(export::Rate { per_second: 1, burst: 1 });
    world.exports.set_limits(DiskId(1), export::QosLimits { operations, bytes: None });
    let cids: Vec<u16> = (50..60).collect();
    for cid in &cids {
        io.submit(&write(1, u64::from(*cid), vec![1; 512], true).cid(*cid));
    }
    let ended = std::iter::from_fn(|| io.completion()).map(|end| end.cid).collect::<Vec<_>>();
    let waits = *cids.iter().find(|cid| !ended.contains(cid)).expect("one waits");
    assert_eq!(abort(&mut admin, &mut io, 1, waits), 0);
    assert_eq!(io.completion().map(|end| (end.cid, end.status)), Some((waits, 0x007)));
    world.exports.set_limits(DiskId(1), Default::default());
    assert_eq!(io.run(read(1, waits.into(), 1)).data, vec![0; 512]);
}

#[test]
fn a_host_can_have_256_namespaces() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    let array = block::mem::MemArray::new();
    let disks = (100..356).map(|id| {
        let disk = array.create(DiskId(id), block::Geometry { block_bytes: 512, blocks: 1000 });
        world.exports.add_volume(std::sync::Arc::new(disk));
        DiskId(id)
    });
    // The disks follow those of the other namespaces.
    let mappings: BTreeMap<u16, DiskId> = (2..).zip(disks).collect();
    world.exports.set_mappings(HOST, mappings);
    let list = admin.run(identify(2, 0)).data;
    let ids: Vec<u32> = list.chunks(4).map(|id| u32::from_le_bytes(id.try_into().unwrap())).collect();
    let expected: Vec<u32> = (3..=258).collect();
    assert_eq!((&ids[..256], ids[256]), (&expected[..], 0));
    let access = admin.run(log_page(0x0C, 16 + 32 + 256 * 4, 0)).data;
    assert_eq!(u32::from_le_bytes(access[20..24].try_into().unwrap()), 256, "namespaces of the group");
    for nsid in [3, 4, 128, 255, 258] {
        assert_eq!(io.run(write(nsid, 3, vec![nsid as u8; 512], true)).status, 0);
    }
    for nsid in [3, 4, 128, 255, 258] {
        assert_eq!(io.run(read(nsid, 3, 1)).data, vec![nsid as u8; 512]);
    }
    assert_eq!(io.run(read(259, 0, 1)).status, 0x00B);
}

/// Records the reported events.
#[derive(Default)]
struct Seen(parking_lot::Mutex<Vec<String>>);

impl crate::ConnectObserver for Seen {
    fn connected(&self, host: &str, _: std::net::SocketAddr, portal: u16) {
        self.0.lock().push(format!("{host} connected at {portal}"));
    }

    fn disconnected(&self, host: &str, _: std::net::SocketAddr, _: u16, reason: &str) {
        self.0.lock().push(format!("{host} ended: {reason}"));
    }

    fn refused(&self, refused: &crate::RefusedConnect) {
        let host = refused.host.as_deref().unwrap_or("no host");
        self.0.lock().push(format!("{host} refused: {}", refused.cause.kind()));
    }
}

#[test]
fn connects_ends_and_refusals_are_reported() {
    let world = World::new();
    let seen = std::sync::Arc::<Seen>::default();
    world.subsystem.observe(seen.clone());
    let mut host = world.open();
    host.initialize((false, false));
    host.connect(STRANGER, SUBSYSTEM, 0, 0xFFFF, 32).unwrap_err();
    host.connect(HOST, "nqn.2026-01.test:another", 0, 0xFFFF, 32).unwrap_err();
    host.connect(HOST, SUBSYSTEM, 0, 1, 32).unwrap_err();
    host.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
    drop(host);
    let expected = [
        format!("{STRANGER} refused: unknown-initiator"),
        format!("{HOST} refused: unknown-target"),
        format!("{HOST} refused: protocol-error"),
        format!("{HOST} connected at 1"),
        format!("{HOST} ended: dropped"),
    ];
    assert_eq!(*seen.0.lock(), expected);
}
