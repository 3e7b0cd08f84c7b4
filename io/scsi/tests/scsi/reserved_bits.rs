//! Bits of a CDB that a command does not have, and combinations that contradict each other: refused at the bit, and nothing
//! has happened.

use crate::host::{Array, BLOCK, Host, long, pattern, ten};
use block::{DiskId, Extent};

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
