//! Bits of a CDB that a command does not have, and combinations that contradict each other: refused at the bit, and nothing
//! has happened.

use crate::host::{Array, BLOCK, Host, long, pattern, ten};
use block::{DiskId, Extent, Geometry};
use scsi::Status;
use std::ops::Range;

/// Operation code, service action if it has one, and the bits that each command uses.
fn commands(host: &Host) -> Vec<(u8, Option<u8>, Vec<u8>)> {
    let all = host.command(&[0xA3, 0x0C, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0]).good();
    let command = |entry: &[u8]| {
        let (opcode, action) = (entry[0], (entry[5] & 1 != 0).then_some(entry[3]));
        let options = if action.is_some() { 2 } else { 1 };
        let cdb = [0xA3, 0x0C, options, opcode, 0, entry[3], 0, 0, 4, 0, 0, 0];
        let mut usage = host.command(&cdb).good()[4..].to_vec();
        if action.is_some() {
            usage[1] |= 0x1F;
        }
        (opcode, action, usage)
    };
    all[4..].chunks(8).map(command).collect()
}

#[test]
fn no_command_ignores_a_reserved_bit() {
    let (array, _, host) = Array::with_host();
    host.write(0, &pattern(64, 1)).good();
    let before = array.store.peek(DiskId(1), Extent::new(0, 128)).to_bytes();
    let mut tried = 0;
    for (opcode, action, usage) in commands(&host) {
        for (at, bit) in (1..usage.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            // The LUN of SCSI-2 in INQUIRY, which Linux sets.
            let ignored = opcode == 0x12 && at == 1 && bit >= 5;
            if usage[at] & 1 << bit != 0 || ignored {
                continue;
            }
            let mut cdb = vec![0; usage.len()];
            (cdb[0], cdb[1]) = (opcode, action.unwrap_or(0));
            cdb[at] |= 1 << bit;
            let end = host.command(&cdb).fails(5, 0x24, 0);
            assert_eq!(end.sense[15..18], [0xC8 | bit, 0, at as u8], "{cdb:02x?}");
            tried += 1;
        }
    }
    assert!(tried > 1000, "{tried}");
    assert_eq!(array.store.peek(DiskId(1), Extent::new(0, 128)).to_bytes(), before);
}

#[test]
fn contradictions_are_refused_and_nothing_is_written() {
    let (array, _, host) = Array::with_host();
    host.write(0, &pattern(64, 1)).good();
    let before = array.store.peek(DiskId(1), Extent::new(0, 128)).to_bytes();
    let block = pattern(1, 9);
    let contradictions: [(&str, Vec<u8>, &[u8]); 15] = [
        ("an anchor without UNMAP", long(0x93, 0x10, 0, 8), &block),
        ("an anchor, which is not supported", long(0x93, 0x18, 0, 8), &block),
        ("an anchor, which is not supported", ten(0x41, 0x18, 0, 8), &block),
        ("NDOB with data", long(0x93, 0x01, 0, 8), &block),
        ("UNMAP with an anchor", vec![0x42, 1, 0, 0, 0, 0, 0, 0, 0, 0], &[]),
        ("BYTCHK 2", long(0x8F, 0x04, 0, 1), &[]),
        ("BYTCHK 2", ten(0x2F, 0x04, 0, 1), &[]),
        ("BYTCHK 2 of WRITE AND VERIFY", long(0x8E, 0x04, 0, 1), &block),
        ("BYTCHK 3 of WRITE AND VERIFY", ten(0x2E, 0x06, 0, 1), &block),
        ("a page code without EVPD", vec![0x12, 0, 0x83, 0, 96, 0], &[]),
        ("pages of no standard format", vec![0x15, 0, 0, 0, 4, 0], &[0; 4]),
        ("log parameters to be saved", vec![0x4D, 1, 0x4C, 0, 0, 0, 0, 0, 96, 0], &[]),
        ("a medium to be ejected", vec![0x1B, 0, 0, 0, 2, 0], &[]),
        ("a unit to be stopped", vec![0x1B, 0, 0, 0, 0, 0], &[]),
        ("a self-test in the background", vec![0x1D, 0x20, 0, 0, 0, 0], &[]),
    ];
    for (what, cdb, data) in contradictions {
        let end = host.send(&cdb, data);
        assert_eq!(end.code(), Some((5, 0x24, 0)), "{what}");
    }
    assert_eq!(before.len(), 128 * BLOCK);
    assert_eq!(array.store.peek(DiskId(1), Extent::new(0, 128)).to_bytes(), before);
}

/// A command that changes blocks 8 to 15: its CDB, its data, where the CDB has an address and a length, and what is in the blocks
/// afterwards.
struct Change {
    cdb: Vec<u8>,
    data: Vec<u8>,
    address: Range<usize>,
    length: Range<usize>,
    content: Vec<u8>,
}

/// The content of blocks 8 to 15 before.
fn old() -> Vec<u8> {
    pattern(16, 1)[8 * BLOCK..].to_vec()
}

/// Every command that changes blocks, in the forms that it has.
fn changes() -> Vec<Change> {
    let new = pattern(8, 0x5A);
    let same = [&new[..BLOCK]; 8].concat();
    let change = |cdb: Vec<u8>, data: &[u8], content: &[u8]| {
        let (address, length) = match cdb.len() {
            6 => (1..4, 4..5),
            10 => (2..6, 7..9),
            12 => (2..6, 6..10),
            _ => (2..10, 10..14),
        };
        Change { cdb, data: data.to_vec(), address, length, content: content.to_vec() }
    };
    let twelve = |opcode, flags| vec![opcode, flags, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0];
    let either: Vec<u8> = old().iter().zip(&new).map(|(old, new)| old | new).collect();
    let (mut compared, zeros) = (old(), vec![0; 8 * BLOCK]);
    compared.extend_from_slice(&new);
    let mut unmapped = vec![0, 22, 0, 16, 0, 0, 0, 0];
    unmapped.extend_from_slice(&8_u64.to_be_bytes());
    unmapped.extend_from_slice(&[0, 0, 0, 8, 0, 0, 0, 0]);
    let atomic = vec![0x9C, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0];
    let list = vec![0x42, 0, 0, 0, 0, 0, 0, 0, unmapped.len() as u8, 0];
    let mut changes = vec![
        change(vec![0x0A, 0, 0, 8, 8, 0], &new, &new),
        change(ten(0x2A, 0, 8, 8), &new, &new),
        change(twelve(0xAA, 0), &new, &new),
        change(long(0x8A, 0, 8, 8), &new, &new),
        change(ten(0x2E, 0, 8, 8), &new, &new),
        change(ten(0x2E, 2, 8, 8), &new, &new),
        change(twelve(0xAE, 0), &new, &new),
        change(long(0x8E, 0, 8, 8), &new, &new),
        change(long(0x8B, 0, 8, 8), &new, &either),
        change(ten(0x41, 0, 8, 8), &new[..BLOCK], &same),
        change(long(0x93, 0, 8, 8), &new[..BLOCK], &same),
        change(long(0x93, 0x01, 8, 8), &[], &zeros),
        change(long(0x93, 0x09, 8, 8), &[], &zeros),
        change(long(0x89, 0, 8, 8), &compared, &new),
        change(atomic, &new, &new),
        change(list, &unmapped, &zeros),
    ];
    for change in &mut changes {
        match change.cdb[0] {
            0x89 => change.length = 13..14,
            0x9C => change.length = 12..14,
            // Its addresses are in the list.
            0x42 => change.address = 0..0,
            _ => {}
        }
    }
    changes
}

/// One disk of 256 blocks, and a host.
fn small() -> (Array, Host) {
    let array = Array::new();
    let disk = array.store.create(DiskId(1), Geometry { block_bytes: BLOCK as u32, blocks: 256 });
    array.exports.add_volume(std::sync::Arc::new(disk));
    let host = array.host("a", 1);
    (array, host)
}

#[test]
fn whatever_bit_is_set_a_write_that_ends_good_was_made() {
    let (array, host) = small();
    let before = pattern(256, 1);
    let content = || array.store.peek(DiskId(1), Extent::new(0, 256)).to_bytes();
    let expect = |change: &Change| {
        let mut expected = before.clone();
        expected[8 * BLOCK..16 * BLOCK].copy_from_slice(&change.content);
        expected
    };
    let (mut made, mut refused) = (0, 0);
    for change in changes() {
        let bits: Vec<(usize, u8)> =
            (1..change.cdb.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))).collect();
        // Each bit alone, and each two of the flags.
        let flags = |one: (usize, u8)| (one.1 + 1..8).map(move |bit| vec![one, (1, bit)]);
        let single = bits.iter().map(|bit| vec![*bit]);
        let pairs = bits.iter().copied().filter(|(at, _)| *at == 1 && change.cdb.len() > 6).flat_map(flags);
        for flipped in std::iter::once(Vec::new()).chain(single).chain(pairs) {
            host.write(0, &before).good();
            let mut cdb = change.cdb.clone();
            flipped.iter().for_each(|(at, bit)| cdb[*at] ^= 1 << bit);
            let end = host.send(&cdb, &change.data);
            let after = content();
            if end.status != Status::Good {
                refused += 1;
                assert!(!flipped.is_empty(), "{cdb:02x?}: {:?}", end.code());
                assert!(after == before[..], "{cdb:02x?} failed and changed blocks");
                continue;
            }
            made += 1;
            let is_empty = cdb[change.length.clone()].iter().all(|byte| *byte == 0);
            let elsewhere = |at: &usize| change.address.contains(at) || change.length.contains(at);
            match flipped.iter().any(|(at, _)| elsewhere(at)) {
                // WRITE (6) has no empty form.
                true => {
                    assert!(is_empty && cdb.len() > 6 || after != before[..], "{cdb:02x?} changed nothing")
                }
                false => assert!(after == expect(&change)[..], "{cdb:02x?} wrote something else"),
            }
        }
    }
    assert!(made > 150 && refused > 1000, "{made} made, {refused} refused");
}
