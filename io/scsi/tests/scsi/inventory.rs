//! What initiators find: units, names, unit attentions, supported commands.

use crate::host::{Array, BLOCK, Host, address, long, number};
use block::{DiskId, Geometry};
use export::Event;
use scsi::{Command, Data, Direction, Execution, InitiatorPort, Lun, Status, TaskAttribute};
use std::sync::Arc;

fn vpd(host: &Host, page: u8) -> Vec<u8> {
    host.command(&[0x12, 1, page, 4, 0, 0]).good().to_vec()
}

fn luns(host: &Host, select: u8) -> Vec<[u8; 8]> {
    let data = host.command(&[0xA0, 0, select, 0, 0, 0, 0, 1, 0, 0, 0, 0]).good();
    assert_eq!(data.len() - 8, number(&data[..4]) as usize);
    data[8..].chunks(8).map(|lun| lun.try_into().expect("eight bytes")).collect()
}

#[test]
fn an_initiator_sees_what_is_mapped_to_it_under_its_own_numbers() {
    let array = Array::new();
    (1..=3).for_each(|id| drop(array.disk(id)));
    array.map_luns("a", &[(0, 2), (255, 1), (256, 3), (16383, 1)]);
    let (a, stranger) = (array.connect("a", 1), array.connect("x", 1));
    let expected =
        [[0; 8], [0, 255, 0, 0, 0, 0, 0, 0], [0x41, 0, 0, 0, 0, 0, 0, 0], [0x7F, 0xFF, 0, 0, 0, 0, 0, 0]];
    for select in [0x00, 0x02, 0x11] {
        assert_eq!(luns(&a, select), expected);
    }
    for select in [0x01, 0x10, 0x12] {
        assert!(luns(&a, select).is_empty());
    }
    a.command(&[0xA0, 0, 3, 0, 0, 0, 0, 1, 0, 0, 0, 0]).fails(5, 0x24, 0);
    assert!(luns(&stranger, 0).is_empty());
    a.command_lun(256, &[0; 6]).fails(6, 0x29, 0);
    a.command_lun(256, &[0; 6]).good();
    assert_eq!(a.nexus.luns(), [0, 255, 256, 16383]);
}

/// The status of TEST UNIT READY to an address as it is.
fn status_at(host: &Host, lun: [u8; 8]) -> Status {
    let command = Command {
        tag: 1,
        lun: Lun(lun),
        cdb: vec![0; 16].into(),
        attribute: TaskAttribute::Simple,
        direction: Direction::None,
        data_out: Data::new(),
        data_in_limit: 0,
    };
    let Execution::Done(response) = host.nexus.execute(command) else { panic!("over at once") };
    response.status
}

#[test]
fn small_numbers_are_found_by_flat_addresses_too() {
    let (_array, _disk, host) = Array::with_host();
    assert_eq!(status_at(&host, [0x40, 0, 0, 0, 0, 0, 0, 0]), Status::Good);
    for wrong in [[0, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0, 0], [0xC1, 1, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(status_at(&host, wrong), Status::CheckCondition);
    }
}

#[test]
fn numbers_above_255_are_found_as_they_are_and_by_flat_addresses() {
    let array = Array::new();
    array.disk(1);
    array.map_luns("a", &[(300, 1), (0x3FFF, 1)]);
    let a = array.connect("a", 1);
    assert_eq!(luns(&a, 0), [[0x41, 0x2C, 0, 0, 0, 0, 0, 0], [0x7F, 0xFF, 0, 0, 0, 0, 0, 0]]);
    for lun in [300, 0x3FFF] {
        assert_eq!(a.command_lun(lun, &[0; 6]).code(), Some((6, 0x29, 0)));
    }
    for lun in [[0x01, 0x2C], [0x41, 0x2C], [0x3F, 0xFF], [0x7F, 0xFF]] {
        let address = |rest: u8| [lun[0], lun[1], rest, 0, 0, 0, 0, 0];
        assert_eq!(status_at(&a, address(0)), Status::Good, "{lun:x?}");
        assert_eq!(status_at(&a, address(1)), Status::CheckCondition, "a second level");
    }
    for other in [[0x01, 0x2D], [0x00, 0x2C], [0x81, 0x2C], [0xC1, 0x2C]] {
        assert_eq!(status_at(&a, [other[0], other[1], 0, 0, 0, 0, 0, 0]), Status::CheckCondition);
    }
}

#[test]
fn where_nothing_is_mapped_it_can_be_found_out() {
    let array = Array::new();
    array.disk(1);
    array.map_luns("a", &[(5, 1)]);
    let a = array.connect("a", 1);
    let inquiry = a.command(&[0x12, 0, 0, 0, 96, 0]).good();
    assert_eq!((inquiry[0], inquiry.len()), (0x7F, 96));
    assert_eq!(luns(&a, 0), [[0, 5, 0, 0, 0, 0, 0, 0]]);
    a.command(&[0; 6]).fails(5, 0x25, 0);
    a.command(&[0x12, 1, 0x83, 0, 96, 0]).fails(5, 0x24, 0);
    let sense = a.command(&[0x03, 0, 0, 0, 18, 0]).good();
    assert_eq!((sense[2], sense[12]), (5, 0x25));
}

#[test]
fn power_on_is_reported_once_and_not_to_inquiries() {
    let array = Array::new();
    array.disk(1);
    array.map_luns("a", &[(0, 1)]);
    let a = array.connect("a", 1);
    a.command(&[0x12, 0, 0, 0, 36, 0]).good();
    luns(&a, 0);
    a.read(0, 1).fails(6, 0x29, 0);
    a.read(0, 1).good();
    let other_port = array.connect("a", 2);
    let sense = other_port.command(&[0x03, 0, 0, 0, 252, 0]).good();
    assert_eq!((sense[2], sense[12], sense[13]), (6, 0x29, 0), "REQUEST SENSE takes it");
    other_port.read(0, 1).good();
    assert_eq!(a.take_unit_attentions(), []);
}

#[test]
fn changes_of_mappings_are_reported_and_take_effect_at_once() {
    let array = Array::new();
    (1..=2).for_each(|id| drop(array.disk(id)));
    let a = array.host("a", 1);
    array.map_luns("a", &[(0, 1), (1, 2)]);
    assert_eq!(a.take_unit_attentions(), [(0x3F, 0x0E)]);
    a.command_lun(1, &[0; 6]).fails(6, 0x29, 0);
    // REPORT LUNS reports it as well.
    array.map_luns("a", &[(0, 1)]);
    luns(&a, 0);
    assert_eq!(a.take_unit_attentions(), []);
    a.command_lun(1, &[0; 6]).fails(5, 0x25, 0);
    array.map_luns("a", &[(0, 1)]);
    assert_eq!(a.take_unit_attentions(), [], "nothing changed");
    array.exports.remove_volume(DiskId(1));
    a.read(0, 1).fails(5, 0x25, 0);
    array.exports.remove_mappings("a");
    assert!(luns(&a, 0).is_empty());
}

#[test]
fn each_change_of_mappings_is_reported_by_every_path_that_has_reported_the_one_before() {
    const CHANGED: Option<(u8, u8, u8)> = Some((6, 0x3F, 0x0E));
    let array = Array::new();
    (1..=4).for_each(|id| drop(array.disk(id)));
    array.map_luns("a", &[(0, 1), (1, 2)]);
    let a = array.connect("a", 1);
    let code = |lun: u16| a.command_lun(lun, &[0; 6]).code();
    (0..2).for_each(|lun| while code(lun).is_some() {});
    array.map_luns("a", &[(0, 1), (1, 2), (2, 3)]);
    assert_eq!((code(0), code(0)), (CHANGED, None));
    array.map_luns("a", &[(0, 1), (1, 2), (2, 3), (3, 4)]);
    assert_eq!((code(0), code(0)), (CHANGED, None), "it has reported the first");
    assert_eq!((code(1), code(1)), (CHANGED, None), "both at once");
    // The host has read the numbers: nothing is to be reported, until the next change.
    luns(&a, 0);
    (2..4).for_each(|lun| while code(lun) == Some((6, 0x29, 0)) {});
    assert_eq!((code(2), code(3)), (None, None));
    array.map_luns("a", &[(0, 1), (1, 2), (2, 3)]);
    assert_eq!((code(0), code(1), code(2)), (CHANGED, CHANGED, CHANGED));
}

#[test]
fn commands_for_a_number_that_is_another_unit_now_wait_until_it_is_identified() {
    let array = Array::new();
    (1..=2).for_each(|id| drop(array.disk(id)));
    let a = array.host("a", 1);
    array.map_luns("a", &[(0, 1), (1, 1)]);
    array.map_luns("a", &[(0, 1)]);
    array.map_luns("a", &[(0, 1), (1, 2)]);
    // An initiator repeats what a unit attention has refused.
    let write = [0x2A, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    for (key, code, qualifier) in [(6, 0x29, 0), (6, 0x3F, 0x0E), (5, 0x25, 0), (5, 0x25, 0)] {
        a.command_lun(1, &write).fails(key, code, qualifier);
    }
    assert_eq!(luns(&a, 0).len(), 2, "it can be found");
    a.command_lun(1, &[0; 6]).fails(5, 0x25, 0);
    a.command_lun(1, &[0x12, 0, 0, 0, 36, 0]).good();
    a.command_lun(1, &[0; 6]).fails(5, 0x25, 0);
    a.command_lun(1, &[0x12, 1, 0x83, 1, 0, 0]).good();
    a.command_lun(1, &[0; 6]).good();
    // A number that named nothing before is used at once, and so is the same unit again.
    array.map_luns("a", &[(0, 1), (5, 2)]);
    array.map_luns("a", &[(0, 1), (1, 2), (5, 2)]);
    for lun in [1, 5] {
        while a.command_lun(lun, &[0; 6]).code().is_some_and(|(key, ..)| key == 6) {}
        a.command_lun(lun, &[0; 6]).good();
    }
}

#[test]
fn growth_raises_a_unit_attention() {
    let (array, disk, host) = Array::with_host();
    disk.resize(crate::host::BLOCKS + 8);
    array.exports.notify(DiskId(1), Event::CapacityChanged);
    assert_eq!(host.take_unit_attentions(), [(0x2A, 0x09)]);
    assert_eq!(host.command(&long(0x9E, 0x10, 0, 32)).good()[..8], (crate::host::BLOCKS + 7).to_be_bytes());
}

/// The designators of page 83h: first byte, second byte, and what they name.
fn designators(page: &[u8]) -> Vec<(u8, u8, Vec<u8>)> {
    assert_eq!(page[..4], [0, 0x83, 0, (page.len() - 4) as u8]);
    let (mut found, mut at) = (Vec::new(), 4);
    while at < page.len() {
        let end = at + 4 + usize::from(page[at + 3]);
        found.push((page[at], page[at + 1], page[at + 4..end].to_vec()));
        at = end;
    }
    found
}

#[test]
fn a_fibre_channel_port_is_named_by_its_n_port_name() {
    let array = Array::new();
    array.disk(1);
    let initiator = InitiatorPort::FibreChannel { wwpn: 0x2100_0024_FF00_00A1 };
    array.map_luns(&initiator.host_name(), &[(0, 1)]);
    let name = 0x2100_0024_FF00_0002_u64;
    array.target.set_n_port_names([(2, name)].into());
    let ports = |port| {
        let host = array.connect_port(initiator.clone(), port);
        let of_port = |found: &(u8, u8, Vec<u8>)| found.1 & 0x30 == 0x10;
        designators(&vpd(&host, 0x83)).into_iter().filter(of_port).collect::<Vec<_>>()
    };
    let named = ports(2);
    assert_eq!(named[0], (0x01, 0x94, vec![0, 0, 0, 2]), "relative target port");
    assert_eq!(named[2], (0x01, 0x93, name.to_be_bytes().to_vec()), "NAA, of the port, with its protocol");
    assert_eq!((named.len(), ports(1).len()), (3, 2), "a port without a name has none");
}

#[test]
fn designators_name_the_unit_the_port_and_the_device() {
    let array = Array::new();
    let id = 0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF;
    array.disk(id);
    array.map_luns("a", &[(0, id)]);
    let (one, two) = (array.connect("a", 1), array.connect("a", 2));
    let page = vpd(&one, 0x83);
    let found = designators(&page);
    let naa = [0x60, 0x2A, 0x51, 0xA7, 0x89, 0xAB, 0xCD, 0xEF, 1, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF];
    assert_eq!(found[0], (0x01, 0x03, naa.to_vec()));
    assert_eq!(scsi::naa(DiskId(id)), "naa.602a51a789abcdef0123456789abcdef");
    assert_eq!(&found[1].2[..], b"ASHLAR  cy4tqkff789abcdef0123456789abcdef");
    assert_eq!(found[2].2, b"naa.602A51A789ABCDEF0123456789ABCDEF\0\0\0\0");
    assert_eq!(found[3], (0x51, 0x94, vec![0, 0, 0, 1]), "relative target port");
    assert_eq!(found[4], (0x51, 0x95, vec![0, 0, 0, 1]), "target port group");
    assert_eq!(found[5].2, b"iqn.2025-01.org.example:array,t,0x0001\0\0");
    assert_eq!((found[6].1, found[6].2.len() % 4), (0xA8, 0));
    // The unit has the same names on both ports.
    assert_eq!(vpd(&two, 0x83)[..80], page[..80]);
    assert_eq!(vpd(&one, 0x80)[4..], b"789abcdef0123456789abcdef"[..]);
}

#[test]
fn the_first_characters_of_t10_names_differ() {
    let array = Array::new();
    let names = (1..=64u128).map(|id| {
        array.disk(id << 8 | 1);
        array.map_luns("a", &[(0, id << 8 | 1)]);
        vpd(&array.connect("a", 1), 0x83)[36..44].to_vec()
    });
    let different: std::collections::BTreeSet<_> = names.collect();
    assert_eq!(different.len(), 64);
}

#[test]
fn supported_pages_are_listed_in_order_and_there() {
    let (_array, _disk, host) = Array::with_host();
    let pages = vpd(&host, 0x00)[4..].to_vec();
    assert_eq!(pages, [0x00, 0x80, 0x83, 0x86, 0x87, 0x8F, 0xB0, 0xB1, 0xB2]);
    for page in pages {
        let data = vpd(&host, page);
        assert_eq!(usize::from(u16::from_be_bytes([data[2], data[3]])), data.len() - 4);
    }
    host.command(&[0x12, 1, 0xB9, 0, 255, 0]).fails(5, 0x24, 0);
    host.command(&[0x12, 0, 0x80, 0, 255, 0]).fails(5, 0x24, 0);
}

#[test]
fn limits_are_those_that_hosts_count_on() {
    let array = Array::new();
    for (id, block_bytes) in [(1, 512), (2, 4096)] {
        let disk = array.store.create(DiskId(id), Geometry { block_bytes, blocks: 1 << 20 });
        array.exports.add_volume(Arc::new(disk));
        array.map_luns("a", &[(0, id)]);
        let host = array.connect("a", 1);
        let page = vpd(&host, 0xB0);
        let field = |at: usize| number(&page[at..at + 4]) as u32;
        assert_eq!((page.len(), page[4], page[5]), (64, 1, 8));
        assert_eq!(field(8) * block_bytes, 32 << 20);
        assert_eq!(field(28) * block_bytes, 4096, "unmap granularity divides 1 MiB");
        assert_eq!(field(32), 0x8000_0000);
        assert!(field(20) >= field(28) && field(24) > 0);
        assert!(field(44) <= field(8), "an atomic write is a transfer");
    }
}

#[test]
fn all_ports_are_one_group_of_optimized_paths() {
    let (_array, _disk, host) = Array::with_host();
    let data = host.command(&[0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]).good();
    assert_eq!(&data[..], [0, 0, 0, 16, 0, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]);
    let extended = host.command(&[0xA3, 0x2A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]).good();
    assert_eq!(&extended[..8], [0, 0, 0, 20, 0x10, 0, 0, 0]);
    let inquiry = host.command(&[0x12, 0, 0, 0, 96, 0]).good();
    assert_eq!(inquiry[5] & 0x30, 0x10, "TPGS says the same");
}

#[test]
fn the_ports_of_each_controller_are_a_group() {
    let (array, _disk, host) = Array::with_host();
    let elsewhere = |is_active| scsi::PortGroup { id: 2, ports: vec![33, 34], is_active };
    let here = scsi::PortGroup { id: 1, ports: vec![1], is_active: true };
    let report = || host.command(&[0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]).good();
    array.target.set_port_groups(vec![here.clone(), elsewhere(true)]);
    let [own, other] =
        [&[0, 9, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1][..], &[0, 9, 0, 2, 0, 0, 0, 2, 0, 0, 0, 33, 0, 0, 0, 34]];
    host.command(&[0; 6]).fails(6, 0x2A, 0x06);
    assert_eq!(report()[..], [&[0, 0, 0, 28], own, other].concat());
    array.target.set_port_groups(vec![here, elsewhere(false)]);
    host.command(&[0; 6]).fails(6, 0x2A, 0x06);
    assert_eq!(report()[16..20], [3, 9, 0, 2], "unavailable");
    let group = |host: &Host| {
        let names = host.command(&[0x12, 1, 0x83, 1, 0, 0]).good();
        let at = names.windows(4).position(|it| it == [0x51, 0x95, 0, 4]).expect("a target port group");
        [names[at + 6], names[at + 7]]
    };
    assert_eq!(group(&host), [0, 1]);
    assert_eq!(group(&array.host("a", 33)), [0, 2]);
}

#[test]
fn one_command_is_reported_with_its_usage_and_timeouts() {
    let (_array, _disk, host) = Array::with_host();
    let command =
        |options, opcode, action| host.command(&[0xA3, 0x0C, options, opcode, 0, action, 0, 0, 1, 0, 0, 0]);
    let read = command(1, 0x28, 0).good();
    assert_eq!(&read[..], [0, 3, 0, 10, 0x28, 0x1A, 0xFF, 0xFF, 0xFF, 0xFF, 0x3F, 0xFF, 0xFF, 0]);
    assert_eq!(&command(1, 0x48, 0).good()[..], [0, 1, 0, 0], "SANITIZE is not there");
    let capacity = command(2, 0x9E, 0x10).good();
    assert_eq!((capacity[1], capacity[5]), (3, 0x10));
    assert_eq!(command(2, 0x9E, 0x11).good()[1], 1);
    assert_eq!(command(3, 0x28, 0).good()[1], 3);
    assert_eq!(command(3, 0x28, 1).good()[1], 1);
    command(1, 0x9E, 0).fails(5, 0x24, 0);
    command(2, 0x28, 0).fails(5, 0x24, 0);
    command(4, 0x28, 0).fails(5, 0x24, 0);
    let timed = command(0x81, 0x28, 0).good();
    assert_eq!((timed[1], timed.len(), timed[15]), (0x83, 14 + 12, 0x0A));
}

#[test]
fn unknown_commands_are_refused_quietly() {
    let (_array, _disk, host) = Array::with_host();
    host.command(&[0x48, 1, 0, 0, 0, 0, 0, 0, 0, 0]).fails(5, 0x20, 0);
    host.command(&[0x04, 0, 0, 0, 0, 0]).fails(5, 0x20, 0);
    host.command(&long(0x9E, 0x1F, 0, 32)).fails(5, 0x24, 0);
    // NACA is a bit that must not be set.
    host.command(&[0, 0, 0, 0, 0, 0x04]).fails(5, 0x24, 0);
    assert_eq!(host.command(&[0x28]).good().len(), 0);
    assert_eq!(address(300).0[..2], [0x41, 0x2C]);
    assert_eq!(BLOCK, 512);
}
