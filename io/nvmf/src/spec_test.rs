//! The tables compared with the text of the standards.

use crate::lab_test::*;
use crate::spec::{FEATURES, LogPage};
use crate::status::NAMES;
use crate::{admin, execute, pdu};
use std::collections::BTreeSet;

#[test]
fn the_tables_are_those_of_the_standards() {
    let mut text = String::new();
    for row in pdu::FROM_HOST {
        text += &format!("pdu {:02x} {} {} {}\n", row.kind, row.name, row.header_bytes, row.clause);
    }
    for row in admin::ROWS {
        text += &format!("admin {:02x} {} {}\n", row.opcode, row.name, row.clause);
    }
    for row in execute::ROWS {
        text += &format!("nvm {:02x} {} {}\n", row.opcode, row.name, row.clause);
    }
    for row in FEATURES {
        text += &format!("feature {:02x} {} {}\n", row.feature as u8, row.name, row.clause);
    }
    for (status, name) in NAMES {
        let field = status.field() >> 1;
        text += &format!("status {:x}/{:02x} {name}\n", field >> 8 & 7, field & 0xFF);
    }
    assert_eq!(text, include_str!("spec_test.txt"));
}

#[test]
fn no_code_is_used_twice() {
    let unique = |codes: Vec<u16>| codes.len() == codes.iter().collect::<BTreeSet<_>>().len();
    assert!(unique(execute::ROWS.iter().map(|row| row.opcode.into()).collect()));
    assert!(unique(admin::ROWS.iter().map(|row| row.opcode.into()).collect()));
    assert!(unique(FEATURES.iter().map(|row| row.feature as u16).collect()));
    assert!(unique(NAMES.iter().map(|(status, _)| status.field() >> 1 & 0x7FF).collect()));
}

/// The requirements of Linux 6.12 on Identify Controller; a golden copy covers the rest.
#[test]
fn identify_controller_says_what_hosts_need() {
    let world = World::new();
    let (mut admin, _io) = world.connected(HOST);
    let data = admin.run(identify(1, 0)).data;
    let u16_at = |at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
    let u32_at = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
    assert_eq!(&data[4..24], b"0123456789ab        ");
    assert_eq!(data[24..39], *b"ALL-FLASH ARRAY");
    assert_eq!(u16_at(78), world.subsystem.controllers()[0].id);
    assert_eq!((data[77], data[111], data[76]), (8, 1, 0b1011), "MDTS, type, CMIC");
    assert_eq!(u32_at(80), 0x2_0000);
    assert!(u16_at(320) > 0, "KAS");
    assert!(u16_at(514) > 0, "MAXCMD");
    assert!(u32_at(1792) >= 4 && u32_at(1796) >= 1, "IOCCSZ and IORCSZ");
    assert!(u32_at(540) <= u32_at(516) && u32_at(540) > 0, "MNAN and NN");
    assert!(
        16 + u32_at(348) * 32 + u32_at(540) * 4 <= 4096 << data[77],
        "the ANA log page fits in a transfer"
    );
    assert_eq!(u16_at(522) & 1, 1, "FUSES");
    assert_eq!(data[512..514], [0x66, 0x44]);
    assert_eq!(&data[768..768 + SUBSYSTEM.len()], SUBSYSTEM.as_bytes());
}

#[test]
fn identify_namespace_describes_the_volume() {
    let world = World::new();
    let (mut admin, _io) = world.connected(HOST);
    let data = admin.run(identify(0, 1)).data;
    assert_eq!(u64::from_le_bytes(data[..8].try_into().unwrap()), BLOCKS);
    assert_eq!((data[25], data[26], data[130]), (0, 0, 9), "one format of 512 bytes");
    assert_eq!((data[30], data[31], data[33]), (1, 0xFF, 9), "shared, reservations, deallocation");
    assert_eq!(data[92], 1, "ANA group");
    let descriptors = admin.run(identify(3, 1)).data;
    assert_eq!((descriptors[0], descriptors[1]), (2, 16), "NGUID");
    assert_eq!(descriptors[4..20], data[104..120]);
    assert_eq!((descriptors[20], descriptors[40], descriptors[44]), (3, 4, 0), "UUID, command set");
    for cns in [0, 5, 6, 7, 8, 0x10, 0x11, 0x12, 0x13, 0x1C] {
        assert_eq!(admin.run(identify(cns, 1)).status, 0, "CNS {cns:02x}");
    }
    for (cns, nsid) in [(0, 0), (0, u32::MAX), (8, 0), (2, u32::MAX)] {
        assert_eq!(admin.run(identify(cns, nsid)).status, 0x00B, "CNS {cns:02x} of {nsid:x}");
    }
    assert_eq!(admin.run(identify(0x14, 0)).status, 0x002);
}

#[test]
fn features_are_kept_and_log_pages_are_read_in_parts() {
    let world = World::new();
    let (mut admin, _io) = world.connected(HOST);
    let get = |feature: u32| Cmd::new(0x0A, 0).dword(10, feature);
    let set = |feature: u32, value: u32| Cmd::new(0x09, 0).dword(10, feature).dword(11, value);
    assert_eq!(admin.run(get(0x0F)).result, 5000, "KATO of Connect");
    assert_eq!(admin.run(set(0x0F, 120_000)).status, 0);
    assert_eq!(admin.run(get(0x0F)).result, 120_000);
    assert_eq!(admin.run(set(0x01, 3)).status, 0);
    assert_eq!(admin.run(get(0x01)).result, 3);
    assert_eq!(admin.run(get(0x01 | 3 << 8)).result, 4, "changeable, not saveable");
    assert_eq!(admin.run(set(0x01 | 1 << 31, 3)).status, 0x10D, "not saveable");
    assert_eq!(admin.run(set(0x06, 1)).status, 0x10E, "there is no write cache to switch on");
    assert_eq!(admin.run(get(0x06)).result, 0);
    assert_eq!(admin.run(get(0x81).dword(11, 1).wants(16)).data, host_id(HOST));
    assert_eq!(admin.run(get(0xC0)).status, 0x002);
    let effects = admin.run(log_page(5, 4096, 0)).data;
    assert_eq!(effects[1024 + 4], 3, "Write changes blocks");
    assert_eq!(admin.run(log_page(5, 64, 1024)).data, effects[1024..1088]);
    assert_eq!(admin.run(log_page(5, 64, 4100)).status, 0x002, "beyond its end");
    for page in LogPage::supported(false) {
        assert_eq!(admin.run(log_page(*page as u8, 64, 0)).status, 0, "{page:?}");
    }
    assert_eq!(admin.run(log_page(0x0D, 64, 0)).status, 0x109, "Invalid Log Page");
}
