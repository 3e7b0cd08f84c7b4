//! EXTENDED COPY and RECEIVE COPY RESULTS.

use crate::host::{Array, BLOCK, BLOCKS, End, Host, long, number, pattern};
use block::DiskId;
use export::QuotaRefusals;

/// A list with CSCD descriptors for disks and segments of blocks: source, target, blocks, source and target address.
fn list(id: u8, disks: &[u128], segments: &[(u16, u16, u16, u64, u64)]) -> Vec<u8> {
    let mut out = vec![id, 0];
    out.extend_from_slice(&((disks.len() * 32) as u16).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&((segments.len() * 28) as u32).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    for disk in disks {
        let name = scsi::naa(DiskId(*disk));
        let name = u128::from_str_radix(&name["naa.".len()..], 16).expect("digits").to_be_bytes();
        out.extend_from_slice(&[0xE4, 0, 0, 0, 0x01, 0x03, 0, 16]);
        out.extend_from_slice(&name);
        out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 2, 0]);
    }
    for (source, target, blocks, from, to) in segments {
        out.extend_from_slice(&[0x02, 0, 0, 24]);
        out.extend_from_slice(&[source.to_be_bytes(), target.to_be_bytes()].concat());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&blocks.to_be_bytes());
        out.extend_from_slice(&[from.to_be_bytes(), to.to_be_bytes()].concat());
    }
    out
}

fn copy(host: &Host, list: &[u8]) -> End {
    host.send(&long(0x83, 0, 0, list.len() as u32), list)
}

fn results(host: &Host, action: u8, id: u8) -> End {
    let mut cdb = long(0x84, action, 0, 1024);
    cdb[2] = id;
    host.command(&cdb)
}

/// Two disks that host "a" sees as LUN 0 and 1, and a third that it does not see.
fn array() -> (Array, Host) {
    let array = Array::new();
    (1..=3).for_each(|id| drop(array.disk(id)));
    array.map_luns("a", &[(0, 1), (1, 2)]);
    array.map_luns("b", &[(0, 1), (1, 2)]);
    let host = array.connect("a", 1);
    host.take_unit_attentions();
    host.command_lun(1, &[0; 6]).fails(6, 0x29, 0);
    (array, host)
}

#[test]
fn segments_are_copied_in_order_between_the_disks_that_the_host_sees() {
    let (_array, host) = array();
    host.write(0, &pattern(16, 1)).good();
    copy(&host, &list(1, &[1, 2], &[(0, 1, 8, 0, 100), (1, 1, 4, 100, 200), (0, 0, 8, 0, 4)])).good();
    assert_eq!(host.command_lun(1, &long(0x88, 0, 100, 8)).good(), pattern(16, 1)[..8 * 512]);
    assert_eq!(host.command_lun(1, &long(0x88, 0, 200, 4)).good(), pattern(16, 1)[..4 * 512]);
    assert_eq!(host.read(4, 8).good(), pattern(16, 1)[..8 * 512], "an overlap");
    let status = results(&host, 0, 1).good();
    assert_eq!(&status[..], [0, 0, 0, 8, 1, 0, 3, 1, 0, 0, 0, 10], "three segments, 10 KiB");
    results(&host, 0, 2).fails(5, 0x24, 0);
}

#[test]
fn a_copy_to_a_disk_that_the_host_does_not_see_is_refused() {
    let (_array, host) = array();
    let end = copy(&host, &list(1, &[1, 3], &[(0, 0, 8, 0, 100), (0, 1, 8, 0, 0)])).fails(0x0A, 0x08, 0x04);
    assert_eq!(end.sense[3..7], [0, 0, 0, 1], "INFORMATION is the number of the segment");
    assert_eq!(end.sense[15..18], [0xA0, 0, 6], "and the field pointer is at the CSCD of the destination");
    copy(&host, &list(1, &[3, 1], &[(0, 1, 8, 0, 0)])).fails(0x0A, 0x08, 0x04);
    copy(&host, &list(1, &[1], &[(0, 7, 8, 0, 0)])).fails(0x0A, 0x08, 0x04);
    assert_eq!(results(&host, 0, 1).good()[4], 2, "completed with errors");
    let details = results(&host, 4, 1).good();
    assert_eq!((details[56], details[62]), (0x02, 0x0A), "CHECK CONDITION, COPY ABORTED");
}

#[test]
fn descriptors_are_checked() {
    let (_array, host) = array();
    let good = list(1, &[1], &[(0, 0, 8, 0, 100)]);
    copy(&host, &[]).good();
    copy(&host, &good[..good.len() - 1]).fails(5, 0x1A, 0);
    copy(&host, &good[..10]).fails(5, 0x1A, 0);
    let changed = |at: usize, value: u8| {
        let mut list = good.clone();
        list[at] = value;
        list
    };
    copy(&host, &changed(16, 0xE0)).fails(5, 0x26, 0x07);
    copy(&host, &changed(48, 0x03)).fails(5, 0x26, 0x09);
    copy(&host, &changed(15, 1)).fails(5, 0x26, 0x0B);
    copy(&host, &changed(51, 20)).fails(5, 0x26, 0);
    copy(&host, &changed(1, 0x18)).fails(5, 0x26, 0);
    copy(&host, &list(1, &[1; 129], &[(0, 0, 8, 0, 100)])).fails(5, 0x26, 0x06);
    copy(&host, &list(1, &[1], &[(0, 0, 8, 0, 100); 257])).fails(5, 0x26, 0x08);
    copy(&host, &list(1, &[1; 129], &[(0, 0, 8, 0, 100); 257])).fails(5, 0x1A, 0);
    copy(&host, &list(1, &[1; 128], &[(0, 127, 8, 0, 100); 256])).good();
    copy(&host, &list(1, &[1], &[(0, 0, 8, 0, BLOCKS - 7)])).fails(0x0A, 0, 0);
    copy(&host, &list(1, &[1], &[(0, 0, 8, BLOCKS, 0)])).fails(0x0A, 0, 0);
    copy(&host, &list(1, &[1], &[(0, 0xFFFF, 8, 0, 100)])).good();
}

#[test]
fn segments_can_be_counted_in_bytes() {
    let (_array, host) = array();
    host.write(0, &pattern(4, 3)).good();
    let mut bytes = list(1, &[1], &[]);
    bytes[11] = 32;
    bytes.extend_from_slice(&[0x0A, 0, 0, 28, 0, 0, 0, 0, 0, 0, 8, 0]);
    bytes.extend_from_slice(&[0u64.to_be_bytes(), 50u64.to_be_bytes()].concat());
    bytes.extend_from_slice(&[0; 4]);
    copy(&host, &bytes).good();
    assert_eq!(host.read(50, 4).good(), pattern(4, 3));
    let at = bytes.len() - 21;
    bytes[at] = 1;
    copy(&host, &bytes).fails(0x0A, 0, 0);
}

#[test]
fn a_copy_respects_the_reservations_of_every_unit_in_it() {
    let (array, a) = array();
    let b = array.connect("b", 1);
    b.take_unit_attentions();
    b.command_lun(1, &[0; 6]).fails(6, 0x29, 0);
    b.command_lun(1, &[0x16, 0, 0, 0, 0, 0]).good();
    copy(&a, &list(1, &[1, 2], &[(0, 1, 8, 0, 0)])).fails(0x0A, 0x0D, 0x01);
    copy(&a, &list(1, &[1, 2], &[(1, 0, 8, 0, 0)])).fails(0x0A, 0x0D, 0x01);
    b.command_lun(1, &[0x17, 0, 0, 0, 0, 0]).good();
    copy(&a, &list(1, &[1, 2], &[(0, 1, 8, 0, 0)])).good();
}

#[test]
fn disks_that_cannot_reach_each_other_are_copied_through_the_target() {
    let array = Array::new();
    array.disk(1);
    let other_array = Array::new();
    let foreign = other_array.disk(2);
    array.exports.add_volume(std::sync::Arc::new(foreign));
    array.map_luns("a", &[(0, 1), (1, 2)]);
    let host = array.connect("a", 1);
    host.take_unit_attentions();
    host.command_lun(1, &[0; 6]).fails(6, 0x29, 0);
    let data = pattern(5000, 3);
    host.write(0, &data).good();
    copy(&host, &list(1, &[1, 2], &[(0, 1, 5000, 0, 7), (1, 1, 4000, 7, 9)])).good();
    let read = host.command_lun(1, &long(0x88, 0, 9, 4000)).good();
    assert!(read == data[..4000 * 512], "an overlap is copied as a whole");
}

#[test]
fn operating_parameters_match_the_third_party_copy_page() {
    let (_array, host) = array();
    let data = results(&host, 3, 0).good();
    assert_eq!(usize::from(data[3]), data.len() - 4);
    assert_eq!(data[8..12], [0, 128, 1, 0]);
    assert_eq!(data[16..20], (256u32 << 20).to_be_bytes());
    assert_eq!(data[43..], [3, 0x02, 0x0A, 0xE4]);
    let page = host.command(&[0x12, 1, 0x8F, 4, 0, 0]).good();
    let (mut at, mut kinds) = (4, Vec::new());
    while at < page.len() {
        kinds.push(u16::from_be_bytes([page[at], page[at + 1]]));
        if kinds == [1, 4] {
            assert_eq!(page[at + 8..at + 16], data[8..16]);
        }
        at += 4 + usize::from(u16::from_be_bytes([page[at + 2], page[at + 3]]));
        assert_eq!(at % 4, 0);
    }
    let expected = vec![0, 1, 4, 8, 12, 0x0106, 0x0108, 0x8001];
    assert_eq!((kinds, at), (expected, page.len()));
}

/// The list of LID1 as one of LID4.
fn long_list(id: u32, flags: u8, disks: &[u128], segments: &[(u16, u16, u16, u64, u64)]) -> Vec<u8> {
    let short = list(0, disks, segments);
    let mut out = vec![0; 48];
    (out[0], out[3], out[15], out[16]) = (1, 0x20, flags, 0xFF);
    out[20..24].copy_from_slice(&id.to_be_bytes());
    out[42..44].copy_from_slice(&short[2..4]);
    out[44..46].copy_from_slice(&short[10..12]);
    out.extend_from_slice(&short[16..]);
    out
}

fn long_copy(host: &Host, list: &[u8]) -> End {
    host.send(&long(0x83, 1, 0, list.len() as u32), list)
}

/// RECEIVE COPY STATUS (LID4)
fn status(host: &Host, id: u32) -> End {
    let mut cdb = long(0x84, 0x05, 0, 1024);
    cdb[2..6].copy_from_slice(&id.to_be_bytes());
    host.command(&cdb)
}

#[test]
fn a_copy_can_have_an_identifier_of_four_bytes() {
    let (_array, host) = array();
    host.write(0, &pattern(8, 1)).good();
    let id = 0x0102_0304;
    long_copy(&host, &long_list(id, 0, &[1, 2], &[(0, 1, 8, 0, 100)])).good();
    assert_eq!(host.command_lun(1, &long(0x88, 0, 100, 8)).good(), pattern(8, 1));
    let done = status(&host, id).good();
    assert_eq!((done.len(), done[3], done[4], done[5], done[15]), (32, 28, 1, 1, 0));
    assert_eq!(number(&done[16..24]), 4096);
    assert_eq!(done[24..26], [0, 1], "segments");
    status(&host, id + 1).fails(5, 0x24, 0);
    long_copy(&host, &long_list(id, 0, &[1, 3], &[(0, 1, 8, 0, 100)])).fails(0x0A, 0x08, 0x04);
    let failed = status(&host, id).good();
    assert_eq!((failed[5], failed[12], failed[14], failed[34]), (2, 2, 18, 0x0A));
    // With IMMED the status alone reports the error.
    long_copy(&host, &long_list(7, 1, &[1, 3], &[(0, 1, 8, 0, 100)])).good();
    assert_eq!(status(&host, 7).good()[5], 2);
    assert_eq!(results(&host, 0, 7).good()[4], 2, "the same identifier in one byte");
    let good = long_list(id, 0, &[1], &[(0, 0, 8, 0, 100)]);
    for (at, value) in [(0, 0), (3, 0x10), (16, 0xFE), (1, 0x08)] {
        let mut list = good.clone();
        list[at] = value;
        long_copy(&host, &list).fails(5, 0x26, 0);
    }
    long_copy(&host, &good[..40]).fails(5, 0x1A, 0);
    long_copy(&host, &good[..good.len() - 1]).fails(5, 0x1A, 0);
}

#[test]
fn a_copy_is_charged_to_a_hard_quota_by_the_blocks_it_maps() {
    let (array, host) = array();
    host.write(0, &pattern(8, 1)).good();
    host.write(24, &pattern(8, 2)).good();
    let part = |from, to, blocks| copy(&host, &list(1, &[1, 2], &[(0, 1, blocks, from, to)]));
    // Half of the source's 16 KiB is mapped, and only that half is mapped on the target.
    array.set_quota(&[1, 2], Some(16_384));
    part(0, 0, 32).good();
    assert_eq!(host.command_lun(1, &long(0x88, 0, 24, 8)).good(), pattern(8, 2));
    part(0, 0, 32).good();
    part(0, 32, 32).fails(7, 0x27, 0x07);
    assert_eq!(array.exports.refresh_quota(7), QuotaRefusals { operations: 1, bytes: 8192 });
    assert_eq!(host.command_lun(1, &long(0x88, 0, 32, 8)).good(), vec![0; 8 * BLOCK]);
    part(8, 32, 16).good();
    array.set_quota(&[1, 2], None);
    array.set_quota(&[2], Some(12_288));
    part(0, 32, 8).good();
    part(0, 40, 8).fails(7, 0x27, 0x07);
}
