//! Announced against actual transfer: every command of a real target, with every combination of the bits R and W, of
//! expected lengths and of immediate data. No command ends GOOD without its full effect.

use crate::lab_test::{Lab, setup, target_config};
use crate::pdu::{FINAL, Header, opcode};
use block::mem::MemArray;
use block::{DiskId, Geometry};
use export::{Exports, Mapping};
use scsi::{Clock, InitiatorPort, Nexus, Sleep, Target, TargetIdentity};
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCK: usize = 512;
const READ: u8 = 0x40;
const WRITE: u8 = 0x20;
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;
/// Blocks that all commands here use, and that the tests check.
const SEEN: u8 = 16;

struct FrozenClock;

impl Clock for FrozenClock {
    fn now(&self) -> u64 {
        1
    }

    fn sleep_until(&self, _: u64) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// Result of a command for its initiator.
#[derive(Debug, PartialEq, Eq)]
struct End {
    /// `None` for a command that was rejected as a PDU.
    status: Option<u8>,
    /// Residual flags and count.
    residual: (u8, u32),
    data: Vec<u8>,
}

/// A command with its CDB and all its Data-Out.
struct Sample {
    name: &'static str,
    cdb: Vec<u8>,
    data: Vec<u8>,
}

/// Effect of a valid command, and its announcement on the wire.
#[derive(Clone, Copy, Debug)]
struct Announced {
    flags: u8,
    length: u32,
    immediate: usize,
}

/// A session with a unit that holds a pattern; the unit attention is already reported.
fn lab(keys: &[(&str, &str)]) -> Lab {
    let store = MemArray::new();
    let identity = TargetIdentity {
        name: "iqn.2026-01.test:target".into(),
        vendor: "ASHLAR".into(),
        product: "ARRAY".into(),
        revision: "1".into(),
        ports: 3.into(),
    };
    let exports = Exports::new(Arc::new(FrozenClock));
    let target = Target::new(identity, exports.clone(), [7; 32]);
    let disk = store.create(DiskId(1), Geometry { block_bytes: BLOCK as u32, blocks: 1 << 12 });
    exports.add_volume(Arc::new(disk));
    exports.set_mappings("i", BTreeMap::from([(0, Mapping::from(DiskId(1)))]));
    let nexus: Nexus = target.attach(InitiatorPort::iscsi("i", [0; 6]), 1);
    let mut lab = Lab::new(setup(target_config()));
    lab.device = Some(Box::new(nexus));
    let mut lab = lab.logged_in(keys);
    ask(&mut lab, &[0; 16]);
    let old = old();
    let length = old.len() as u32;
    let end = send(&mut lab, &ten(0x2A, 0, 0, SEEN), &old, Announced { flags: WRITE, length, immediate: 0 });
    assert_eq!(end.status, Some(0));
    lab
}

/// Content of the blocks before a command.
fn old() -> Vec<u8> {
    (0..usize::from(SEEN) * BLOCK).map(|at| (at / BLOCK) as u8 ^ 0x5A).collect()
}

fn new(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 250) as u8 | 1).collect()
}

/// Sends a command as announced, with Data-Out as R2Ts request it, and returns its result.
fn send(lab: &mut Lab, cdb: &[u8], data: &[u8], announced: Announced) -> End {
    let Announced { flags, length, immediate } = announced;
    // An initiator that announces more data than it has pads it.
    let mut data = data.to_vec();
    data.resize(data.len().max(length as usize), 0xEE);
    let mut padded = [0; 16];
    padded[..cdb.len()].copy_from_slice(cdb);
    let header = lab.header(FINAL | flags, 0, 0, length).put(32, padded);
    lab.send(header, &data[..immediate]);
    let mut end = End { status: None, residual: (0, 0), data: Vec::new() };
    for _ in 0..100 {
        for pdu in lab.answers() {
            let header: Header = pdu.header;
            match header.opcode() {
                opcode::R2T => {
                    let (offset, bytes) = (header.u32::<40>() as usize, header.u32::<44>() as usize);
                    assert!(offset + bytes <= length as usize, "no more is asked for than was announced");
                    lab.data_out(header.ttt(), 0, offset, &data[offset..offset + bytes], true);
                }
                opcode::DATA_IN => {
                    end.data.extend_from_slice(&pdu.data);
                    if header.flags() & 1 != 0 {
                        end.residual = (header.flags() & 6, header.u32::<44>());
                        return End { status: Some(header.0[3]), ..end };
                    }
                }
                opcode::SCSI_RESPONSE => {
                    end.residual = (header.flags() & 6, header.u32::<44>());
                    return End { status: Some(header.0[3]), ..end };
                }
                opcode::REJECT => return end,
                other => panic!("opcode {other:#04x}"),
            }
        }
        lab.settle();
    }
    panic!("no end: {announced:?}");
}

fn ask(lab: &mut Lab, cdb: &[u8]) -> End {
    send(lab, cdb, &[], Announced { flags: READ, length: 65_536, immediate: 0 })
}

/// All state that a command can change.
fn state(lab: &mut Lab) -> Vec<Vec<u8>> {
    let asked = [
        &ten(0x28, 0, 0, SEEN)[..],
        &[0x5A, 0x08, 0x3F, 0xFF, 0, 0, 0, 4, 0, 0],
        &[0x5A, 0x08, 0xFF, 0xFF, 0, 0, 0, 4, 0, 0],
        &[0x5E, 3, 0, 0, 0, 0, 0, 4, 0, 0],
        &[0x5E, 1, 0, 0, 0, 0, 0, 4, 0, 0],
    ];
    let good = |cdb| {
        let end = ask(lab, cdb);
        assert_eq!(end.status, Some(0));
        end.data
    };
    asked.into_iter().map(good).collect()
}

fn ten(opcode: u8, flags: u8, lba: u8, blocks: u8) -> Vec<u8> {
    vec![opcode, flags, 0, 0, 0, lba, 0, 0, blocks, 0]
}

fn twelve(opcode: u8, flags: u8, blocks: u8) -> Vec<u8> {
    vec![opcode, flags, 0, 0, 0, 2, 0, 0, 0, blocks, 0, 0]
}

fn sixteen(opcode: u8, flags: u8, blocks: u8) -> Vec<u8> {
    vec![opcode, flags, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, blocks, 0, 0]
}

fn reserve_out(action: u8, new: u8, kind: u8) -> (Vec<u8>, Vec<u8>) {
    let mut list = vec![0; 24];
    list[15] = new;
    (vec![0x5F, action, kind, 0, 0, 0, 0, 0, 24, 0], list)
}

/// Every command of the target with Data-Out, with data that change state where possible.
fn data_out() -> Vec<Sample> {
    let old = old();
    let mut all = Vec::new();
    let mut add = |name, cdb: Vec<u8>, data: Vec<u8>| all.push(Sample { name, cdb, data });
    let two = || new(2 * BLOCK);
    add("WRITE (6)", vec![0x0A, 0, 0, 2, 2, 0], two());
    add("WRITE (10)", ten(0x2A, 0, 2, 2), two());
    add("WRITE (10) FUA DPO", ten(0x2A, 0x18, 2, 2), two());
    add("WRITE (12)", twelve(0xAA, 0, 2), two());
    add("WRITE (16)", sixteen(0x8A, 0, 2), two());
    add("WRITE AND VERIFY (10)", ten(0x2E, 0, 2, 2), two());
    add("WRITE AND VERIFY (10) BYTCHK", ten(0x2E, 2, 2, 2), two());
    add("WRITE AND VERIFY (12)", twelve(0xAE, 2, 2), two());
    add("WRITE AND VERIFY (16)", sixteen(0x8E, 2, 2), two());
    add("WRITE ATOMIC (16)", sixteen(0x9C, 0, 2), two());
    add("ORWRITE (16)", sixteen(0x8B, 0, 2), two());
    add("COMPARE AND WRITE", sixteen(0x89, 0, 1), [&old[2 * BLOCK..3 * BLOCK], &new(BLOCK)].concat());
    add("WRITE SAME (10)", ten(0x41, 0, 2, 3), new(BLOCK));
    add("WRITE SAME (16)", sixteen(0x93, 0, 3), new(BLOCK));
    add("WRITE SAME (16) UNMAP", sixteen(0x93, 8, 8), vec![0; BLOCK]);
    let unmap = [&[0, 22, 0, 16, 0, 0, 0, 0][..], &[0; 8], &[0, 0, 0, 8, 0, 0, 0, 0]].concat();
    add("UNMAP", vec![0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], unmap);
    let swp = [0x0A, 10, 0, 0x10, 0x08, 0, 0, 0, 0xFF, 0xFF, 0, 0];
    add("MODE SELECT (6)", vec![0x15, 0x11, 0, 0, 16, 0], [&[0; 4], &swp[..]].concat());
    add("MODE SELECT (10)", vec![0x55, 0x11, 0, 0, 0, 0, 0, 0, 20, 0], [&[0; 8], &swp[..]].concat());
    for (name, action) in [("REGISTER", 0), ("REGISTER AND IGNORE EXISTING KEY", 6)] {
        let (cdb, list) = reserve_out(action, 7, 0);
        add(name, cdb, list);
    }
    add("VERIFY (10)", ten(0x2F, 2, 2, 2), old[2 * BLOCK..4 * BLOCK].to_vec());
    add("VERIFY (12)", twelve(0xAF, 2, 2), old[2 * BLOCK..4 * BLOCK].to_vec());
    add("VERIFY (16)", sixteen(0x8F, 2, 2), old[2 * BLOCK..4 * BLOCK].to_vec());
    let name = scsi::naa(DiskId(1));
    let name = u128::from_str_radix(&name["naa.".len()..], 16).expect("digits").to_be_bytes();
    let copy = [
        &[1, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0, 0xE4, 0, 0, 0, 1, 3, 0, 16][..],
        &name,
        &[0, 0, 0, 0, 0, 0, 2, 0, 2, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 2],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8],
    ]
    .concat();
    add("EXTENDED COPY", vec![0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, copy.len() as u8, 0, 0], copy);
    all
}

/// Commands with Data-In, and their length.
fn data_in() -> Vec<Sample> {
    let add = |(name, cdb)| Sample { name, cdb, data: Vec::new() };
    [
        ("READ (6)", vec![0x08, 0, 0, 2, 2, 0]),
        ("READ (10)", ten(0x28, 0, 2, 2)),
        ("READ (12)", twelve(0xA8, 0, 2)),
        ("READ (16)", sixteen(0x88, 0, 2)),
        ("INQUIRY", vec![0x12, 0, 0, 0, 96, 0]),
        ("READ CAPACITY (10)", ten(0x25, 0, 0, 0)),
        (
            "READ CAPACITY (16)",
            sixteen(0x9E, 0x10, 32)[..2].iter().copied().chain([0; 11]).chain([32, 0, 0]).collect(),
        ),
        ("MODE SENSE (6)", vec![0x1A, 0, 0x3F, 0, 64, 0]),
        ("REPORT LUNS", vec![0xA0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0]),
    ]
    .into_iter()
    .map(add)
    .collect()
}

/// The expected lengths for a command that moves `exact` bytes.
fn lengths(exact: usize) -> [u32; 5] {
    [0, exact as u32 / 2, exact as u32 - 1, exact as u32, exact as u32 + 700]
}

#[test]
fn no_command_with_data_out_ends_good_without_having_done_it() {
    let mut shortened = 0;
    for Sample { name, cdb, data } in data_out() {
        let exact = data.len() as u32;
        let right = Announced { flags: WRITE, length: exact, immediate: 0 };
        let mut lab_of_right = lab(&[]);
        let before = state(&mut lab_of_right);
        let end = send(&mut lab_of_right, &cdb, &data, right);
        assert_eq!((end.status, end.residual), (Some(0), (0, 0)), "{name}");
        let done = state(&mut lab_of_right);
        assert_eq!(done == before, name.starts_with("VERIFY"), "{name}: the sample changes something");
        for flags in [0, READ, WRITE, READ | WRITE] {
            for length in lengths(data.len()) {
                for immediate in [0, 1, length.min(exact) as usize / 2, length as usize] {
                    let announced = Announced { flags, length, immediate: immediate.min(length as usize) };
                    let what = format!("{name}: {announced:?}");
                    let mut lab = lab(&[]);
                    let end = send(&mut lab, &cdb, &data, announced);
                    let after = state(&mut lab);
                    if end.status != Some(0) {
                        assert_eq!(after, before, "{what}: {end:?}");
                        continue;
                    }
                    assert_eq!(flags, WRITE, "{what}: nothing was announced to be written");
                    if length >= exact {
                        let more = length - exact;
                        let residual = if more == 0 { (0, 0) } else { (UNDERFLOW, more) };
                        assert_eq!((end.residual, &after), (residual, &done), "{what}");
                        continue;
                    }
                    // The announced part is written, and the initiator is informed of the rest.
                    let mut blocks = old();
                    blocks[2 * BLOCK..][..length as usize].copy_from_slice(&data[..length as usize]);
                    assert_eq!(end.residual, (OVERFLOW, exact - length), "{what}");
                    assert_eq!((&after[0], &after[1..]), (&blocks, &before[1..]), "{what}");
                    shortened += 1;
                }
            }
        }
    }
    assert!(shortened > 0);
}

#[test]
fn no_command_with_data_in_ends_good_without_a_word_about_what_is_missing() {
    for Sample { name, cdb, .. } in data_in() {
        let mut lab = lab(&[]);
        let whole = ask(&mut lab, &cdb).data;
        assert!(whole.len() > 4, "{name}");
        for flags in [0, READ, WRITE, READ | WRITE] {
            for length in lengths(whole.len()) {
                let announced = Announced { flags, length, immediate: 0 };
                let what = format!("{name}: {announced:?}");
                let end = send(&mut lab, &cdb, &[], announced);
                if end.status != Some(0) {
                    assert_eq!(flags, READ | WRITE, "{what}: {end:?}");
                    continue;
                }
                let (have, room) = (whole.len() as u32, if flags == READ { length } else { 0 });
                assert_eq!(end.data, whole[..have.min(room) as usize], "{what}");
                let residual = match flags {
                    // Everything announced for writing is left over.
                    WRITE if length > 0 => (UNDERFLOW, length),
                    WRITE => (0, 0),
                    _ if have > room => (OVERFLOW, have - room),
                    _ if have < room => (UNDERFLOW, room - have),
                    _ => (0, 0),
                };
                assert_eq!(end.residual, residual, "{what}");
            }
        }
    }
}

#[test]
fn every_command_that_takes_data_out_is_among_the_samples() {
    let mut lab = lab(&[]);
    let end = ask(&mut lab, &[0xA3, 0x0C, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0]);
    let samples: Vec<u8> = data_out().iter().map(|sample| sample.cdb[0]).collect();
    // By the operation codes of SPC and SBC: those without Data-Out, and SEND DIAGNOSTIC, which takes none here.
    let without = [
        0x00, 0x03, 0x08, 0x12, 0x16, 0x17, 0x1A, 0x1B, 0x1D, 0x1E, 0x25, 0x28, 0x34, 0x35, 0x37, 0x4D, 0x56,
        0x57, 0x5A, 0x5E, 0x84, 0x88, 0x90, 0x91, 0x9E, 0xA0, 0xA3, 0xA8, 0xB7,
    ];
    for command in end.data[4..].chunks(8) {
        let opcode = command[0];
        assert!(samples.contains(&opcode) != without.contains(&opcode), "{opcode:#04x}");
    }
}
