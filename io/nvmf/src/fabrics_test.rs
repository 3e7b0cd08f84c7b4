//! Fabrics commands and ICReq with values that the standards reserve or refuse: each is answered with the status that they
//! name.

use crate::lab_test::*;
use crate::spec::DISCOVERY_NQN;

const INVALID_FIELD: u16 = 0x002;
const SEQUENCE: u16 = 0x00C;
const SGL_LENGTH: u16 = 0x00F;
const SGL_TYPE: u16 = 0x011;
const SGL_OFFSET: u16 = 0x016;
const FORMAT: u16 = 0x180;
const PARAMETERS: u16 = 0x182;
const INVALID_HOST: u16 = 0x184;
const QUEUE_TYPE: u16 = 0x185;
const IN_DATA: u64 = 1 << 16;

fn admin() -> Cmd {
    connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32)
}

/// The command with this byte of its entry, or of its data.
fn command(at: usize, value: u8) -> Cmd {
    let mut cmd = admin();
    cmd.bytes[at] = value;
    cmd
}

fn data(at: usize, value: u8) -> Cmd {
    let mut cmd = admin();
    cmd.data[at] = value;
    cmd
}

#[test]
fn reserved_values_of_connect_are_refused() {
    let name_end = |at: usize, name: &str| at + name.len();
    let long = || {
        let mut cmd = admin();
        cmd.data.push(0);
        let (in_capsule, data) = (cmd.in_capsule, cmd.data.clone());
        cmd.out(data, in_capsule)
    };
    let refusals: &[(Cmd, u16, u64)] = &[
        // CATTR: each reserved bit, and a priority class of the admin queue.
        (command(46, 0x10), PARAMETERS, 46),
        (command(46, 0x20), PARAMETERS, 46),
        (command(46, 0x40), PARAMETERS, 46),
        (command(46, 0x84), PARAMETERS, 46),
        (command(46, 0x01), PARAMETERS, 46),
        // Fused, PRPs, metadata, and the reserved value of PSDT.
        (command(1, 0x41), PARAMETERS, 1),
        (command(1, 0x00), PARAMETERS, 1),
        (command(1, 0x80), PARAMETERS, 1),
        (command(1, 0xC0), PARAMETERS, 1),
        // SGL descriptors: by address, bit buckets, segments, keyed, data by R2T; another place, other lengths.
        (command(39, 0x00), SGL_TYPE, 0),
        (command(39, 0x10), SGL_TYPE, 0),
        (command(39, 0x20), SGL_TYPE, 0),
        (command(39, 0x40), SGL_TYPE, 0),
        (command(39, 0x5A), SGL_TYPE, 0),
        (admin().dword(7, 1), SGL_OFFSET, 0),
        (admin().dword(6, 1025), SGL_OFFSET, 0),
        (admin().dword(6, 1), SGL_LENGTH, 0),
        (admin().dword(8, 1023), SGL_LENGTH, 0),
        (admin().dword(8, u32::MAX), SGL_LENGTH, 0),
        (long(), SGL_LENGTH, 0),
        (command(40, 1), FORMAT, 0),
        // Names: bytes after their NUL, other characters, nothing, no prefix.
        (data(name_end(256, SUBSYSTEM) + 1, b'x'), PARAMETERS, IN_DATA | 256),
        (data(511, b'x'), PARAMETERS, IN_DATA | 256),
        (data(name_end(512, HOST) + 1, b'x'), PARAMETERS, IN_DATA | 512),
        (data(767, 1), PARAMETERS, IN_DATA | 512),
        (data(name_end(512, HOST), b'\n'), PARAMETERS, IN_DATA | 512),
        (data(512, 0), PARAMETERS, IN_DATA | 512),
        (data(513, 0xFF), PARAMETERS, IN_DATA | 512),
        (connect("", SUBSYSTEM, 0, 0xFFFF, 32), PARAMETERS, IN_DATA | 512),
        // The name of a subsystem is not that of a host.
        (connect(SUBSYSTEM, SUBSYSTEM, 0, 0xFFFF, 32), INVALID_HOST, 0),
        (connect(SUBSYSTEM, DISCOVERY_NQN, 0, 0xFFFF, 32), INVALID_HOST, 0),
        (connect(DISCOVERY_NQN, DISCOVERY_NQN, 0, 0xFFFF, 32), INVALID_HOST, 0),
        (connect(HOST, DISCOVERY_NQN, 1, 1, 32), PARAMETERS, 42),
    ];
    let world = World::new();
    let mut everybody = hosts(&[HOST, SUBSYSTEM, DISCOVERY_NQN]);
    everybody.extend(hosts(&[OTHER]));
    world.subsystem.set_hosts(everybody);
    for (number, (cmd, status, result)) in refusals.iter().enumerate() {
        let mut host = world.open();
        host.initialize((false, false));
        let end = host.run(cmd.clone());
        assert_eq!((end.status, end.result), (*status, *result), "row {number}: {cmd:?}");
        assert!(!end.retry, "row {number}");
        assert_eq!(host.run(admin()).status, 0, "row {number}: the next Connect is understood");
    }
}

#[test]
fn io_queues_are_connected_to_an_enabled_controller_of_the_host() {
    let world = World::new();
    let mut admin = world.open();
    admin.initialize((false, false));
    let id = admin.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
    let run = |cmd: Cmd| {
        let mut io = world.open();
        io.initialize((false, false));
        let end = io.run(cmd);
        (end.status, end.result, io)
    };
    let (status, result, _) = run(connect(HOST, SUBSYSTEM, 1, id, 32));
    assert_eq!((status, result), (PARAMETERS, 42), "before the controller is enabled");
    assert_eq!(admin.run(property_set(0x14, 0x0046_0001)).status, 0);
    let (status, result, _) = run(connect(HOST, SUBSYSTEM, 129, id, 32));
    assert_eq!((status, result), (PARAMETERS, 42), "more queues than granted");
    for reserved in [0xFFF0, 0xFFFD, 0xFFFE, 0xFFFF] {
        let (status, result, _) = run(connect(HOST, SUBSYSTEM, 1, reserved, 32));
        assert_eq!((status, result), (PARAMETERS, IN_DATA | 16));
    }
    let mut cmd = connect(HOST, SUBSYSTEM, 1, id, 32);
    cmd.data[..16].fill(9);
    assert_eq!(run(cmd.clone()).1, IN_DATA, "another host identifier");
    // A host need not repeat its identifier, and may name a priority class.
    cmd.data[..16].fill(0);
    cmd.bytes[46] = 0x0B;
    let (status, _, mut io) = run(cmd);
    assert_eq!(status, 0);
    assert_eq!(io.run(read(1, 0, 1)).status, 0);
}

#[test]
fn fabrics_commands_on_the_wrong_queue_or_with_reserved_values_are_refused() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    let disconnect = || Cmd::new(0x7F, 8);
    assert_eq!(admin.run(disconnect()).status, QUEUE_TYPE);
    assert_eq!(admin.run(connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32)).status, SEQUENCE);
    assert_eq!(io.run(connect(HOST, SUBSYSTEM, 1, 1, 32)).status, SEQUENCE);
    assert_eq!(io.run(property_get(0x1C, false)).status, INVALID_FIELD);
    assert_eq!(io.run(property_set(0x14, 0)).status, INVALID_FIELD);
    assert_eq!(io.run(disconnect().dword(10, 1)).status, FORMAT);
    for size in 2..8 {
        assert_eq!(admin.run(property_get(0x1C, false).dword(10, size)).status, INVALID_FIELD, "size {size}");
        assert_eq!(admin.run(property_set(0x14, 0).dword(10, size)).status, INVALID_FIELD, "size {size}");
    }
    assert_eq!(admin.run(property_get(0x1C, true)).status, INVALID_FIELD, "CSTS has four bytes");
    assert_eq!(admin.run(property_get(0x00, false)).status, INVALID_FIELD, "CAP has eight");
    assert_eq!(admin.run(property_get(0x1C, false)).result, 1, "still enabled");
    let mut flush = Cmd::new(0x00, 1);
    flush.bytes[1] = 0xC0;
    assert_eq!(io.run(flush).status, INVALID_FIELD, "the reserved value of PSDT, without data");
    assert_eq!(io.run(disconnect()).status, 0);
    assert!(io.connection.ended().is_some());
}

#[test]
fn icreq_with_reserved_values_is_terminated() {
    let world = World::new();
    // PFV, HPDA beyond 31 dwords, and each unknown digest; with the offset of the field.
    let rows: [(usize, u8, u16, u32); 6] =
        [(8, 1, 6, 8), (9, 1, 6, 8), (10, 32, 1, 10), (11, 4, 1, 11), (11, 0x83, 1, 11), (11, 0x40, 1, 11)];
    for (at, value, error, offset) in rows {
        let mut host = world.open();
        let mut fields = [0; 120];
        fields[at - 8] = value;
        let pdu = host.pdu(0, &fields, &[], 0);
        host.send(&pdu);
        let came = host.next().expect("a termination request");
        let found = (
            u16::from_le_bytes([came.header[8], came.header[9]]),
            u32::from_le_bytes(came.header[10..14].try_into().unwrap()),
        );
        assert_eq!((came.kind, found), (3, (error, offset)), "byte {at}: {value:#x}");
        assert!(host.connection.ended().is_some());
    }
}
