//! Copies by tokens (ODX): what a token stands for, who may use it and for how long, and what the commands report.

use crate::host::{Array, BLOCK, BLOCKS, End, Host, Task, long, number, pattern};
use block::{Disk, DiskId, Geometry};
use bytes::Bytes;
use export::{Operation, QuotaRefusals};
use scsi::{Execution, ManagementFunction, Target};
use std::time::Duration;

/// The list of POPULATE TOKEN, with ranges as address and number of blocks.
fn populate_list(flags: u8, seconds: u32, kind: u32, ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut out = vec![0, 0, flags, 0];
    out.extend_from_slice(&seconds.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    put_ranges(&mut out, ranges);
    out
}

fn write_list(flags: u8, offset: u64, token: &[u8], ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut out = vec![0, 0, flags, 0, 0, 0, 0, 0];
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(token);
    out.extend_from_slice(&[0; 6]);
    put_ranges(&mut out, ranges);
    out
}

fn put_ranges(out: &mut Vec<u8>, ranges: &[(u64, u32)]) {
    out.extend_from_slice(&((ranges.len() * 16) as u16).to_be_bytes());
    for (lba, blocks) in ranges {
        out.extend_from_slice(&lba.to_be_bytes());
        out.extend_from_slice(&blocks.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
    }
    let length = out.len() as u16 - 2;
    out[..2].copy_from_slice(&length.to_be_bytes());
}

fn cdb(action: u8, id: u32, list: &[u8]) -> Vec<u8> {
    let mut cdb = long(0x83, action, 0, list.len() as u32);
    cdb[6..10].copy_from_slice(&id.to_be_bytes());
    cdb
}

fn send(host: &Host, lun: u16, action: u8, id: u32, list: &[u8]) -> End {
    End::of(host.start(lun, &cdb(action, id, list), list))
}

fn populate(host: &Host, lun: u16, ranges: &[(u64, u32)]) -> End {
    send(host, lun, 0x10, 1, &populate_list(0, 0, 0, ranges))
}

fn write_using(host: &Host, lun: u16, token: &[u8], ranges: &[(u64, u32)]) -> End {
    send(host, lun, 0x11, 2, &write_list(0, 0, token, ranges))
}

/// RECEIVE ROD TOKEN INFORMATION
fn information(host: &Host, lun: u16, id: u32) -> End {
    let mut cdb = long(0x84, 0x07, 0, 2048);
    cdb[2..6].copy_from_slice(&id.to_be_bytes());
    host.command_lun(lun, &cdb)
}

/// Copy operation status and transfer count.
fn outcome(information: &[u8]) -> (u8, u64) {
    assert_eq!(number(&information[..4]) as usize, information.len() - 4);
    assert_eq!(information[15], 0xF1, "in logical blocks");
    (information[5], number(&information[16..24]))
}

/// The token for ranges of a unit.
fn token(host: &Host, lun: u16, ranges: &[(u64, u32)]) -> Bytes {
    populate(host, lun, ranges).good();
    token_of(&information(host, lun, 1).good())
}

fn token_of(information: &Bytes) -> Bytes {
    assert_eq!(information[32..38], [0, 0, 2, 2, 0, 0], "one descriptor");
    information.slice(38..)
}

/// Two disks that hosts "a" and "b" see as LUN 0 and 1, and a third that only "b" sees, as LUN 2.
fn array() -> (Array, Host, Host) {
    let array = Array::new();
    (1..=3).for_each(|id| drop(array.disk(id)));
    array.map_luns("a", &[(0, 1), (1, 2)]);
    array.map_luns("b", &[(0, 1), (1, 2), (2, 3)]);
    let hosts = ["a", "b"].map(|name| {
        let host = array.connect(name, 1);
        (0..3).for_each(|lun| drop(host.command_lun(lun, &[0; 6])));
        host
    });
    let [a, b] = hosts;
    (array, a, b)
}

#[test]
fn a_token_stands_for_its_ranges_as_they_were() {
    let (_array, host, _) = array();
    host.write(0, &pattern(64, 1)).good();
    let it = token(&host, 0, &[(8, 16), (32, 8), (60, 0)]);
    assert_eq!(it.len(), 512);
    assert_eq!((number(&it[..4]), number(&it[6..8])), (0x0080_0000, 504));
    assert_eq!(number(&it[48..64]), 24 * 512, "bytes represented");
    assert_eq!(outcome(&information(&host, 0, 1).good()), (1, 24));
    host.write(0, &pattern(64, 9)).good();
    write_using(&host, 1, &it, &[(100, 20), (200, 4)]).good();
    assert_eq!(outcome(&information(&host, 1, 2).good()), (1, 24));
    let (before, block) = (pattern(64, 1), BLOCK);
    let expected = [&before[8 * block..24 * block], &before[32 * block..40 * block]].concat();
    let read = |lba, blocks| host.command_lun(1, &long(0x88, 0, lba, blocks)).good();
    assert_eq!([read(100, 20), read(200, 4)].concat(), expected);
    // From an offset, and to the unit that it is from.
    send(&host, 0, 0x11, 3, &write_list(0, 14, &it, &[(0, 6)])).good();
    assert_eq!(host.read(0, 6).good(), expected[14 * block..20 * block]);
    send(&host, 0, 0x11, 3, &write_list(0, 19, &it, &[(0, 6)])).fails(5, 0x26, 0);
    send(&host, 0, 0x11, 3, &write_list(0, u64::MAX, &it, &[(0, 6)])).fails(5, 0x26, 0);
}

#[test]
fn the_block_zero_token_writes_zeros() {
    let (_array, host, _) = array();
    host.write(0, &pattern(64, 1)).good();
    let mut zeros = vec![0; 512];
    zeros[..8].copy_from_slice(&[0xFF, 0xFF, 0, 1, 0, 0, 1, 0xF8]);
    write_using(&host, 0, &zeros, &[(3, 10), (40, 8)]).good();
    assert_eq!(outcome(&information(&host, 0, 2).good()), (1, 18));
    assert_eq!(host.read(3, 10).good(), vec![0; 10 * BLOCK]);
    assert_eq!(host.read(0, 3).good(), pattern(64, 1)[..3 * BLOCK]);
    zeros[7] = 0xF0;
    write_using(&host, 0, &zeros, &[(3, 10)]).fails(5, 0x23, 0x0A);
    zeros[..8].copy_from_slice(&[0, 0x80, 0, 2, 0, 0, 1, 0xF8]);
    write_using(&host, 0, &zeros, &[(3, 10)]).fails(5, 0x23, 0x01);
}

#[test]
fn no_bit_of_a_token_can_be_changed() {
    let (_array, host, _) = array();
    let it = token(&host, 0, &[(0, 8)]);
    for bit in 0..it.len() * 8 {
        let mut forged = it.to_vec();
        forged[bit / 8] ^= 1 << (bit % 8);
        let code = write_using(&host, 1, &forged, &[(0, 8)]).code();
        assert!(matches!(code, Some((5, 0x23, 0x01 | 0x02 | 0x04 | 0x0A))), "bit {bit}: {code:?}");
    }
    write_using(&host, 1, &it, &[(0, 8)]).good();
    assert_eq!(information(&host, 1, 9).code(), Some((5, 0x24, 0)));
}

#[test]
fn a_token_is_of_no_use_to_another_host() {
    let (_array, a, b) = array();
    b.command_lun(2, &[0; 6]).good();
    End::of(b.start(2, &long(0x8A, 0, 0, 8), &pattern(8, 5))).good();
    let secret = token(&b, 2, &[(0, 8)]);
    write_using(&a, 1, &secret, &[(0, 8)]).fails(5, 0x23, 0x04);
    assert_eq!(a.command_lun(1, &long(0x88, 0, 0, 8)).good(), vec![0; 8 * BLOCK]);
    // Both see disk 1, and still a token is its host's.
    let shared = token(&b, 0, &[(0, 8)]);
    write_using(&a, 1, &shared, &[(0, 8)]).fails(5, 0x23, 0x04);
    write_using(&b, 1, &shared, &[(0, 8)]).good();
    assert!(report(&a).is_empty());
    assert_eq!(report(&b).len(), 2 * 96);
}

/// The tokens that REPORT ALL ROD TOKENS returns to a host.
fn report(host: &Host) -> Bytes {
    let data = host.command_lun(0, &long(0x84, 0x08, 0, 65_536)).good();
    assert_eq!(number(&data[..4]) as usize, data.len() - 4);
    data.slice(8..)
}

#[test]
fn a_token_goes_by_every_path_of_its_host() {
    let (array, a, _) = array();
    let it = token(&a, 0, &[(0, 8)]);
    let other_path = array.connect("a", 2);
    drop(a);
    (0..2).for_each(|lun| drop(other_path.command_lun(lun, &[0; 6])));
    write_using(&other_path, 1, &it, &[(0, 8)]).good();
    assert_eq!(report(&other_path)[..], it[..96]);
}

#[test]
fn a_token_ends_when_its_host_no_longer_sees_the_source() {
    let (array, a, _) = array();
    let (gone, there) = (token(&a, 0, &[(0, 8)]), token(&a, 1, &[(0, 8)]));
    array.map_luns("a", &[(1, 2)]);
    a.command_lun(1, &[0; 6]).fails(6, 0x3F, 0x0E);
    write_using(&a, 1, &gone, &[(0, 8)]).fails(5, 0x23, 0x06);
    write_using(&a, 1, &there, &[(0, 8)]).good();
    array.map_luns("a", &[(0, 1), (1, 2)]);
    (0..2).for_each(|lun| drop(a.command_lun(lun, &[0; 6])));
    write_using(&a, 1, &gone, &[(0, 8)]).fails(5, 0x23, 0x06);
    array.exports.remove_volume(DiskId(2));
    a.take_unit_attentions();
    write_using(&a, 0, &there, &[(0, 8)]).fails(5, 0x23, 0x06);
}

#[test]
fn a_token_expires_by_the_time_since_its_last_use() {
    let (array, host, _) = array();
    let seconds = |count| array.clock.advance(Duration::from_secs(count));
    let default = token(&host, 0, &[(0, 8)]);
    seconds(29);
    write_using(&host, 1, &default, &[(0, 8)]).good();
    seconds(29);
    write_using(&host, 1, &default, &[(0, 8)]).good();
    seconds(31);
    write_using(&host, 1, &default, &[(0, 8)]).fails(5, 0x23, 0x07);
    send(&host, 0, 0x10, 1, &populate_list(0, 300, 0, &[(0, 8)])).good();
    let long_lived = token_of(&information(&host, 0, 1).good());
    seconds(299);
    write_using(&host, 1, &long_lived, &[(0, 8)]).good();
    seconds(301);
    array.target.expire_tokens();
    assert!(report(&host).is_empty());
    write_using(&host, 1, &long_lived, &[(0, 8)]).fails(5, 0x23, 0x07);
    send(&host, 0, 0x10, 1, &populate_list(0, 301, 0, &[(0, 8)])).fails(5, 0x26, 0);
}

#[test]
fn a_deleted_token_can_not_be_used_again() {
    let (_array, host, _) = array();
    let it = token(&host, 0, &[(0, 8)]);
    write_using(&host, 1, &it, &[(0, 8)]).good();
    send(&host, 1, 0x11, 2, &write_list(2, 0, &it, &[(8, 8)])).good();
    write_using(&host, 1, &it, &[(0, 8)]).fails(5, 0x23, 0x09);
}

#[test]
fn tokens_of_another_array_and_of_another_process_are_refused() {
    let (array, host, _) = array();
    let it = token(&host, 0, &[(0, 8)]);
    // The same array after a restart: another key.
    let again = Target::new(crate::host::identity(), array.exports.clone(), [8; 32]);
    let restarted = host.on(&again);
    (0..2).for_each(|lun| drop(restarted.command_lun(lun, &[0; 6])));
    write_using(&restarted, 1, &it, &[(0, 8)]).fails(5, 0x23, 0x04);
    // Another array, even with the same key.
    let identity =
        scsi::TargetIdentity { name: "iqn.2025-01.org.example:other".into(), ..crate::host::identity() };
    let other = host.on(&Target::new(identity, array.exports.clone(), [7; 32]));
    (0..2).for_each(|lun| drop(other.command_lun(lun, &[0; 6])));
    write_using(&other, 1, &it, &[(0, 8)]).fails(5, 0x23, 0x02);
}

#[test]
fn lists_are_checked() {
    let (_array, host, _) = array();
    let good = populate_list(0, 0, 0, &[(0, 8)]);
    send(&host, 0, 0x10, 1, &[]).good();
    send(&host, 0, 0x10, 1, &good[..10]).fails(5, 0x1A, 0);
    send(&host, 0, 0x10, 1, &good[..20]).fails(5, 0x1A, 0);
    let changed = |at: usize, value: u8| {
        let mut list = good.clone();
        list[at] = value;
        send(&host, 0, 0x10, 1, &list)
    };
    changed(1, 20).fails(5, 0x26, 0);
    changed(2, 4).fails(5, 0x26, 0);
    changed(15, 0).fails(5, 0x26, 0);
    changed(15, 8).fails(5, 0x26, 0);
    changed(16, 1).fails(5, 0x21, 0);
    for (kind, fails) in
        [(0x0080_0000, false), (0x0080_FFFF, false), (0x0001_0000, true), (0xFFFF_0001, true)]
    {
        let end = send(&host, 0, 0x10, 1, &populate_list(2, 0, kind, &[(0, 8)]));
        assert_eq!(end.code().is_some(), fails, "{kind:#x}");
    }
    populate(&host, 0, &[(0, 8), (7, 1)]).fails(5, 0x26, 0);
    populate(&host, 0, &[(0, 1); 257]).fails(5, 0x26, 0x08);
    populate(&host, 0, &[(BLOCKS, 1)]).fails(5, 0x21, 0);
    populate(&host, 0, &[(u64::MAX, 2)]).fails(5, 0x21, 0);
    let it = token(&host, 0, &[(0, 8)]);
    let good = write_list(0, 0, &it, &[(0, 8)]);
    send(&host, 1, 0x11, 1, &good[..530]).fails(5, 0x1A, 0);
    send(&host, 1, 0x11, 1, &good[..540]).fails(5, 0x1A, 0);
    write_using(&host, 1, &it, &[(0, 4), (3, 4)]).fails(5, 0x26, 0);
    write_using(&host, 1, &it, &[(BLOCKS - 4, 8)]).fails(5, 0x21, 0);
    write_using(&host, 1, &it, &[(0, 9)]).fails(5, 0x26, 0);
}

#[test]
fn an_error_of_an_immediate_command_is_reported_by_its_status() {
    let (array, host, _) = array();
    array.set_quota(&[2], Some(0));
    host.write(0, &pattern(8, 1)).good();
    let it = token(&host, 0, &[(0, 8)]);
    write_using(&host, 1, &it, &[(0, 8)]).fails(7, 0x27, 0x07);
    assert_eq!(array.exports.refresh_quota(7), QuotaRefusals { operations: 1, bytes: 4096 });
    send(&host, 1, 0x11, 5, &write_list(1, 0, &it, &[(0, 8)])).good();
    let status = information(&host, 1, 5).good();
    assert_eq!(outcome(&status), (2, 0));
    assert_eq!((status[12], status[13], status[14]), (0x02, 20, 18), "CHECK CONDITION with sense data");
    assert_eq!((status[34], status[44], status[45]), (7, 0x27, 0x07));
}

#[test]
fn reservations_and_write_protection_hold_for_tokens() {
    let (array, a, b) = array();
    let it = token(&a, 0, &[(0, 8)]);
    b.command_lun(1, &[0x16, 0, 0, 0, 0, 0]).good();
    write_using(&a, 1, &it, &[(0, 8)]).conflicts();
    populate(&a, 1, &[(0, 8)]).conflicts();
    b.command_lun(1, &[0x17, 0, 0, 0, 0, 0]).good();
    array.store.disk(DiskId(2)).expect("there").set_read_only(true);
    array.map_luns("a", &[(0, 1), (1, 2)]);
    array.exports.set_limits(DiskId(2), Default::default());
    write_using(&a, 1, &it, &[(0, 8)]).fails(7, 0x27, 0);
    token(&a, 1, &[(0, 8)]);
}

#[test]
fn data_that_can_not_be_shared_is_moved_and_the_command_is_truncated() {
    let array = Array::new();
    let blocks = 400_000;
    for id in [1, 2] {
        let disk = array.store.create(DiskId(id), Geometry { block_bytes: BLOCK as u32, blocks });
        array.exports.add_volume(std::sync::Arc::new(disk));
    }
    array.map_luns("a", &[(0, 1), (1, 2)]);
    let host = array.connect("a", 1);
    (0..2).for_each(|lun| drop(host.command_lun(lun, &[0; 6])));
    host.write(131_070, &pattern(4, 1)).good();
    let it = token(&host, 0, &[(0, 200_000)]);
    write_using(&host, 1, &it, &[(1, 200_000)]).good();
    // 64 MiB; Windows takes status 3 and the count for what was done, and continues there.
    assert_eq!(outcome(&information(&host, 1, 2).good()), (3, 131_072));
    let read = |lba| host.command_lun(1, &long(0x88, 0, lba, 2)).good();
    assert_eq!(read(131_071), pattern(4, 1)[..2 * BLOCK]);
    assert_eq!(read(131_073), vec![0; 2 * BLOCK]);
    send(&host, 1, 0x11, 2, &write_list(0, 131_072, &it, &[(131_073, 68_928)])).good();
    assert_eq!(outcome(&information(&host, 1, 2).good()), (1, 68_928));
    assert_eq!(read(131_073), pattern(4, 1)[2 * BLOCK..]);
    let counters = array.exports.statistics()[&DiskId(2)].values().next().expect("a path").clone();
    assert_eq!(counters.of(Operation::TokenCopy).operations(), 2);
    assert_eq!((counters.copied_by_sharing, counters.copied_by_moving), (0, 200_000 * 512));
}

#[test]
fn disks_that_cannot_reach_each_other_are_copied_through_the_target() {
    let array = Array::new();
    array.disk(1);
    let other_array = Array::new();
    array.exports.add_volume(std::sync::Arc::new(other_array.disk(2)));
    array.map_luns("a", &[(0, 1), (1, 2)]);
    let host = array.connect("a", 1);
    (0..2).for_each(|lun| drop(host.command_lun(lun, &[0; 6])));
    host.write(0, &pattern(5000, 3)).good();
    let it = token(&host, 0, &[(0, 5000)]);
    write_using(&host, 1, &it, &[(8, 5000)]).good();
    assert!(host.command_lun(1, &long(0x88, 0, 8, 5000)).good() == pattern(5000, 3)[..]);
}

#[test]
fn units_of_different_block_lengths_exchange_no_tokens() {
    let array = Array::new();
    array.disk(1);
    let disk = array.store.create(DiskId(2), Geometry { block_bytes: 4096, blocks: 1000 });
    array.exports.add_volume(std::sync::Arc::new(disk));
    array.map_luns("a", &[(0, 1), (1, 2)]);
    let host = array.connect("a", 1);
    (0..2).for_each(|lun| drop(host.command_lun(lun, &[0; 6])));
    let it = token(&host, 0, &[(0, 8)]);
    write_using(&host, 1, &it, &[(0, 1)]).fails(0x0A, 0x0D, 0x03);
}

/// COPY OPERATION ABORT
fn abort(host: &Host, id: u32) -> End {
    let mut cdb = long(0x83, 0x1C, 0, 0);
    cdb[2..6].copy_from_slice(&id.to_be_bytes());
    host.command(&cdb)
}

fn begin_write(host: &Host, id: u32, token: &[u8]) -> Execution {
    let list = write_list(0, 0, token, &[(16, 8)]);
    host.start(0, &cdb(0x11, id, &list), &list)
}

#[test]
fn a_copy_operation_can_be_aborted() {
    let (array, disk) = Array::with_held_disk();
    let host = array.host("a", 1);
    disk.release();
    host.write(0, &pattern(8, 1)).good();
    let it = token(&host, 0, &[(0, 8)]);
    disk.hold();
    let mut task = Task::begin(begin_write(&host, 7, &it));
    assert_eq!(information(&host, 0, 7).good()[5], 0x11, "in progress");
    begin(&host, 7, &it).fails(5, 0x00, 0x16);
    abort(&host, 8).fails(5, 0x24, 0);
    abort(&host, 7).good();
    assert!(task.poll().is_ready());
    disk.release();
    assert_eq!(information(&host, 0, 7).good()[5], 0x60, "terminated");
    assert_eq!(host.read(16, 8).good(), vec![0; 8 * BLOCK]);
    abort(&host, 7).fails(5, 0x24, 0);
    // The identifier is free again, and so is that of a task which the host aborts.
    disk.hold();
    let task = Task::begin(begin_write(&host, 7, &it));
    host.manage(ManagementFunction::AbortTask { tag: host.last_tag() });
    assert!(task.end().is_none());
    disk.release();
    assert_eq!(information(&host, 0, 7).good()[5], 0x02);
    begin(&host, 7, &it).good();
    assert_eq!(host.read(16, 8).good(), pattern(8, 1));
}

fn begin(host: &Host, id: u32, token: &[u8]) -> End {
    End::of(begin_write(host, id, token))
}

#[test]
fn a_host_with_too_many_tokens_loses_the_one_that_it_used_longest_ago() {
    let (array, a, b) = array();
    let tokens: Vec<Bytes> = (0..1024).map(|_| token(&a, 0, &[(0, 8)])).collect();
    let of_b = token(&b, 0, &[(0, 8)]);
    array.clock.advance(Duration::from_secs(1));
    write_using(&a, 0, &tokens[0], &[(16, 8)]).good();
    token(&a, 0, &[(0, 8)]);
    write_using(&a, 0, &tokens[1], &[(16, 8)]).fails(5, 0x23, 0x08);
    for kept in [&tokens[0], &tokens[2], &tokens[1023]] {
        write_using(&a, 0, kept, &[(16, 8)]).good();
    }
    write_using(&b, 0, &of_b, &[(16, 8)]).good();
}

#[test]
fn a_host_takes_no_tokens_away_from_others() {
    let array = Array::new();
    drop(array.disk(1));
    let hosts = ["a", "b", "c", "d", "e"].map(|name| {
        array.map_luns(name, &[(0, 1)]);
        let host = array.connect(name, 1);
        drop(host.command_lun(0, &[0; 6]));
        host
    });
    let [others @ .., last] = hosts;
    let first = others.each_ref().map(|host| token(host, 0, &[(0, 8)]));
    others.iter().for_each(|host| (1..1024).for_each(|_| drop(token(host, 0, &[(0, 8)]))));
    populate(&last, 0, &[(0, 8)]).fails(5, 0x55, 0x0D);
    others.iter().zip(&first).for_each(|(host, token)| drop(write_using(host, 0, token, &[(16, 8)]).good()));
}

#[test]
fn the_page_has_the_limits_that_are_enforced() {
    let (array, host, _) = array();
    let page = host.command(&[0x12, 1, 0x8F, 4, 0, 0]).good();
    let limits = &page[4..40];
    assert_eq!((number(&limits[..2]), number(&limits[2..4])), (0, 32));
    assert_eq!(number(&limits[10..12]), 256, "ranges");
    assert_eq!((number(&limits[12..16]), number(&limits[16..20])), (300, 30), "seconds");
    assert_eq!(number(&limits[20..28]), (16 << 30) / 512);
    assert_eq!(number(&limits[28..36]), (256 << 20) / 512, "64 MiB to 256 MiB for Windows");
    let disk = array.store.disk(DiskId(1)).expect("there");
    disk.resize((16 << 30) / 512 + 1);
    assert_eq!(disk.geometry().blocks, 33_554_433);
    host.take_unit_attentions();
    populate(&host, 0, &[(0, 33_554_432)]).good();
    populate(&host, 0, &[(0, 33_554_433)]).fails(5, 0x26, 0);
}
