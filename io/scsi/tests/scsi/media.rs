//! Commands to the medium, from the host's side.

use crate::host::{Array, BLOCK, BLOCKS, long, pattern, ten};
use block::{DiskId, Geometry};
use scsi::Status;
use std::sync::Arc;

#[test]
fn what_is_written_is_read_by_every_length_of_cdb() {
    let (_array, _disk, host) = Array::with_host();
    let data = pattern(3, 7);
    host.send(&[0x0A, 0, 0, 8, 3, 0], &data).good();
    assert_eq!(host.command(&[0x08, 0, 0, 8, 3, 0]).good(), data);
    assert_eq!(host.command(&ten(0x28, 0, 8, 3)).good(), data);
    assert_eq!(host.command(&[0xA8, 0, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0]).good(), data);
    assert_eq!(host.read(8, 3).good(), data);
    host.send(&ten(0x2A, 0, 100, 3), &data).good();
    host.send(&[0xAA, 0, 0, 0, 0, 103, 0, 0, 0, 3, 0, 0], &data).good();
    assert_eq!(host.read(100, 6).good(), [&data[..], &data[..]].concat());
}

#[test]
fn a_run_must_lie_on_the_medium() {
    let (_array, _disk, host) = Array::with_host();
    host.read(BLOCKS - 1, 1).good();
    host.read(BLOCKS, 0).good();
    host.read(BLOCKS, 1).fails(5, 0x21, 0);
    host.read(BLOCKS + 1, 0).fails(5, 0x21, 0);
    host.read(u64::MAX, 0).fails(5, 0x21, 0);
    host.read(u64::MAX, 2).fails(5, 0x21, 0);
    host.write(BLOCKS - 1, &pattern(2, 0)).fails(5, 0x21, 0);
}

#[test]
fn less_data_than_announced_by_the_cdb_is_written_as_far_as_it_goes() {
    let (_array, _disk, host) = Array::with_host();
    let (old, new) = (pattern(3, 1), pattern(2, 9));
    host.write(0, &old).good();
    let end = host.send(&long(0x8A, 0, 0, 3), &new[..BLOCK + 200]);
    assert_eq!((end.status, end.wanted), (Status::Good, 3 * BLOCK as u64));
    let expected = [&new[..BLOCK + 200], &old[BLOCK + 200..]].concat();
    assert_eq!(host.read(0, 3).good(), expected);
    host.send(&long(0x8A, 0, 0, 1), &new).good();
    assert_eq!(host.read(1, 2).good(), expected[BLOCK..], "more than the CDB asks for is left over");
}

#[test]
fn commands_that_need_all_their_data_do_nothing_without() {
    let (_array, _disk, host) = Array::with_host();
    let end = host.send(&long(0x8B, 0, 0, 2), &pattern(1, 9)).fails(5, 0x0E, 3);
    assert_eq!(end.wanted, 2 * BLOCK as u64);
    host.send(&long(0x93, 0, 0, 2), &pattern(2, 9)).fails(5, 0x24, 0);
    assert_eq!(host.read(0, 1).good(), vec![0; BLOCK]);
}

#[test]
fn long_transfers_become_several_operations() {
    let (_array, _disk, host) = Array::with_host();
    let data = pattern(3 << 13, 3);
    host.write(100, &data[..(1 << 14) * BLOCK + BLOCK]).good();
    assert_eq!(host.read(100, (1 << 14) + 1).good(), data[..(1 << 14) * BLOCK + BLOCK]);
    let blocks = (1 << 14) + 1;
    host.send(&long(0x8B, 0, 100, blocks), &vec![0xFF; blocks as usize * BLOCK]).good();
    assert_eq!(host.read(100, blocks).good(), vec![0xFF; blocks as usize * BLOCK]);
}

#[test]
fn every_command_that_names_blocks_takes_as_many_as_the_block_limits_say() {
    let array = Array::new();
    let geometry = Geometry { block_bytes: BLOCK as u32, blocks: 2 * BLOCKS };
    array.exports.add_volume(Arc::new(array.store.create(DiskId(1), geometry)));
    let host = array.host("a", 1);
    let page = host.command(&[0x12, 1, 0xB0, 0, 64, 0]).good();
    let limit = u32::from_be_bytes(page[8..12].try_into().unwrap());
    assert_eq!(page[16..20], page[8..12], "prefetch");
    let data = vec![1; (limit as usize + 1) * BLOCK];
    for (opcode, flags) in [(0x88, 0), (0x8A, 0), (0x8B, 0), (0x8E, 0), (0x8F, 2), (0x90, 0)] {
        let send = |blocks: u32| {
            let takes = !matches!(opcode, 0x88 | 0x90);
            let data = if takes { &data[..blocks as usize * BLOCK] } else { &[] };
            host.send(&long(opcode, flags, 0, blocks), data)
        };
        let end = send(limit);
        assert!(matches!(end.status, Status::Good | Status::ConditionMet), "{opcode:#x}: {:?}", end.code());
        send(limit + 1).fails(5, 0x24, 0);
    }
}

#[test]
fn protection_information_is_not_offered() {
    let (_array, _disk, host) = Array::with_host();
    let end = host.command(&long(0x88, 0x20, 0, 1)).fails(5, 0x24, 0);
    assert_eq!(&end.sense[15..18], [0xCD, 0, 1], "the field pointer is at byte 1 bit 5");
}

#[test]
fn capacity_is_reported_in_both_forms() {
    let (_array, _disk, host) = Array::with_host();
    let short = host.command(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]).good();
    assert_eq!(&short[..], [0, 0, 0xFF, 0xFF, 0, 0, 2, 0]);
    let mut cdb = long(0x9E, 0x10, 0, 32);
    let long = host.command(&cdb).good();
    assert_eq!(&long[..16], [0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 2, 0, 0, 3, 0xC0, 0]);
    cdb[13] = 12;
    assert_eq!(host.command(&cdb).good().len(), 12);
}

#[test]
fn compare_and_write_reports_the_first_difference() {
    let (_array, _disk, host) = Array::with_host();
    let (old, new) = (pattern(2, 1), pattern(2, 2));
    host.write(5, &old).good();
    let mut cdb = long(0x89, 0, 5, 0);
    cdb[13] = 2;
    host.send(&cdb, &[&old[..], &new[..]].concat()).good();
    let mut wrong = new.clone();
    wrong[700] ^= 1;
    let end = host.send(&cdb, &[&wrong[..], &old[..]].concat()).fails(0x0E, 0x1D, 0);
    assert_eq!(&end.sense[..7], [0xF0, 0, 0x0E, 0, 0, 2, 0xBC], "INFORMATION is 700");
    assert_eq!(host.read(5, 2).good(), new);
    cdb[13] = 9;
    host.send(&cdb, &vec![0; 18 * BLOCK]).fails(5, 0x24, 0);
    cdb[13] = 1;
    assert_eq!(host.send(&cdb, &vec![0; 4 * BLOCK]).status, Status::CheckCondition);
}
