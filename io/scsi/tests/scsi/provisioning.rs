//! Thin provisioning and VAAI's block zero: UNMAP, WRITE SAME, GET LBA STATUS, thresholds; and VERIFY.

use crate::host::{Array, BLOCK, BLOCKS, Host, long, number, pattern, ten};

fn unmap(host: &Host, runs: &[(u64, u32)]) -> crate::host::End {
    let length = (runs.len() * 16) as u16;
    let mut list = [(length + 6).to_be_bytes(), length.to_be_bytes(), [0; 2], [0; 2]].concat();
    for (lba, blocks) in runs {
        list.extend_from_slice(&lba.to_be_bytes());
        list.extend_from_slice(&blocks.to_be_bytes());
        list.extend_from_slice(&[0; 4]);
    }
    host.send(&ten(0x42, 0, 0, list.len() as u16), &list)
}

/// First block, number and state of every descriptor.
fn status(host: &Host, lba: u64, allocation: u32) -> Vec<(u64, u32, u8)> {
    let data = host.command(&long(0x9E, 0x12, lba, allocation)).good();
    data[8..].chunks_exact(16).map(|one| (number(&one[..8]), number(&one[8..12]) as u32, one[12])).collect()
}

#[test]
fn unmapped_blocks_read_as_zeros_and_are_reported() {
    let (_array, _disk, host) = Array::with_host();
    host.write(0, &pattern(64, 1)).good();
    unmap(&host, &[(8, 8), (32, 16)]).good();
    assert_eq!(host.read(8, 8).good(), vec![0; 8 * BLOCK]);
    assert_eq!(host.read(16, 16).good(), pattern(64, 1)[16 * BLOCK..32 * BLOCK]);
    let expected = [(0, 8, 0), (8, 8, 1), (16, 16, 0), (32, 16, 1), (48, 16, 0), (64, BLOCKS as u32 - 64, 1)];
    assert_eq!(status(&host, 0, 4096), expected);
    assert_eq!(status(&host, 40, 24), [(40, 8, 1)]);
    assert_eq!(status(&host, 40, 8), [], "only the header fits");
    host.command(&long(0x9E, 0x12, BLOCKS, 24)).fails(5, 0x21, 0);
}

#[test]
fn an_unmap_list_is_atomic() {
    let (_array, _disk, host) = Array::with_host();
    host.write(0, &pattern(8, 1)).good();
    unmap(&host, &[(0, 8), (BLOCKS, 1)]).fails(5, 0x21, 0);
    assert_eq!(host.read(0, 8).good(), pattern(8, 1));
    unmap(&host, &[]).good();
    unmap(&host, &[(0, 0)]).good();
    unmap(&host, &[(0, 1); 257]).fails(5, 0x26, 0);
    host.send(&ten(0x42, 0, 0, 4), &[0; 4]).fails(5, 0x1A, 0);
    host.send(&ten(0x42, 1, 0, 0), &[]).fails(5, 0x24, 0);
    host.send(&ten(0x42, 0, 0, 8), &[0, 22, 0, 16, 0, 0, 0, 0]).fails(5, 0x1A, 0);
    // An incomplete last descriptor is ignored.
    let mut list = vec![0, 30, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    list.extend_from_slice(&[0xFF; 8]);
    host.send(&ten(0x42, 0, 0, list.len() as u16), &list).good();
    assert_eq!(host.read(0, 2).good(), [&[0; BLOCK], &pattern(2, 1)[BLOCK..]].concat());
}

#[test]
fn write_same_fills_maps_and_unmaps() {
    let (_array, _disk, host) = Array::with_host();
    let one = pattern(1, 5);
    host.send(&ten(0x41, 0, 10, 4), &one).good();
    assert_eq!(host.read(10, 4).good(), one.repeat(4));
    // UNMAP with data other than zeros: unmapped blocks would not return it, so it is written.
    host.send(&long(0x93, 0x08, 16, 8), &one).good();
    assert_eq!(host.read(16, 8).good(), one.repeat(8));
    host.send(&long(0x93, 0x08, 16, 8), &vec![0; BLOCK]).good();
    assert_eq!(status(&host, 16, 24)[0].2, 1);
    host.command(&long(0x93, 0x01, 16, 8)).good();
    assert_eq!(status(&host, 16, 24)[0], (16, 8, 0), "NDOB writes zeros, which maps");
    host.command(&long(0x93, 0x09, 16, 8)).good();
    assert_eq!(status(&host, 16, 24)[0].2, 1);
    host.send(&long(0x93, 0x18, 0, 8), &one).fails(5, 0x24, 0);
    host.send(&long(0x93, 0, 0, 0), &one).fails(5, 0x24, 0);
    host.send(&long(0x93, 0, BLOCKS - 1, 2), &one).fails(5, 0x21, 0);
}

/// MODE SELECT (10) of the provisioning page: thresholds of available and used space in units of 1 MiB.
fn set_thresholds(host: &Host, available: Option<u32>, used: Option<u32>, single: bool) {
    let mut page = vec![0, 0, 0, 0, 0, 0, 0, 0, 0x5C, 0x02, 0, 28, u8::from(single)];
    page.resize(24, 0);
    for (threshold, arming, resource) in [(available, 0, 1), (used, 1, 2)] {
        page.extend_from_slice(&[arming | if threshold.is_some() { 0x80 } else { 0 }, resource, 0, 0]);
        page.extend_from_slice(&threshold.unwrap_or(0).to_be_bytes());
    }
    host.send(&ten(0x55, 0x10, 0, page.len() as u16), &page).good();
}

#[test]
fn a_crossed_threshold_is_reported_once() {
    let array = Array::new();
    array.disk(1);
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    set_thresholds(&a, None, Some(2), true);
    assert_eq!(b.take_unit_attentions(), [(0x2A, 0x01)]);
    let mib = pattern(2048, 1);
    (0..2).for_each(|index| drop(a.write(index * 2048, &mib).good()));
    assert_eq!(
        (a.take_unit_attentions(), b.take_unit_attentions()),
        (vec![(0x38, 0x07)], vec![]),
        "SITUA: one initiator"
    );
    assert_eq!(a.take_unit_attentions(), []);
    unmap(&a, &[(0, 4096)]).good();
    assert_eq!(a.take_unit_attentions(), []);
    set_thresholds(&a, Some(31), None, false);
    b.take_unit_attentions();
    a.write(0, &mib).good();
    assert_eq!(
        (a.take_unit_attentions(), b.take_unit_attentions()),
        (vec![(0x38, 0x07)], vec![(0x38, 0x07)])
    );
    // LOG SENSE reports the same counts.
    let log = a.command(&ten(0x4D, 0, 0x4C00_0000, 64)).good();
    assert_eq!(&log[..4], [0x0C, 0, 0, 24]);
    assert_eq!((log[11], log[23]), (31, 1), "available and used");
}

#[test]
fn verify_obeys_bytchk() {
    let (_array, _disk, host) = Array::with_host();
    let data = pattern(4, 8);
    host.send(&ten(0x2E, 0x02, 20, 4), &data).good();
    host.command(&ten(0x2F, 0, 20, 4)).good();
    host.send(&ten(0x2F, 0x02, 20, 4), &data).good();
    let mut other = data.clone();
    other[3 * BLOCK + 5] ^= 0x80;
    let end = host.send(&long(0x8F, 0x02, 20, 4), &other).fails(0x0E, 0x1D, 0);
    assert_eq!(end.sense[3..7], (3 * BLOCK as u32 + 5).to_be_bytes());
    host.send(&long(0x8F, 0x06, 20, 4), &data[..BLOCK]).fails(0x0E, 0x1D, 0);
    host.send(&ten(0x41, 0, 20, 4), &data[..BLOCK]).good();
    host.send(&long(0x8F, 0x06, 20, 4), &data[..BLOCK]).good();
    host.command(&long(0x8F, 0x04, 20, 4)).fails(5, 0x24, 0);
    host.command(&ten(0x2F, 0, BLOCKS as u32 - 1, 2)).fails(5, 0x21, 0);
}

#[test]
fn or_write_and_atomic_writes_are_one_operation() {
    let (_array, _disk, host) = Array::with_host();
    host.write(0, &vec![0x0F; 2 * BLOCK]).good();
    host.send(&long(0x8B, 0, 0, 2), &vec![0xA0; 2 * BLOCK]).good();
    assert_eq!(host.read(0, 2).good(), vec![0xAF; 2 * BLOCK]);
    let mut atomic = long(0x9C, 0, 4, 0);
    atomic[13] = 2;
    host.send(&atomic, &pattern(2, 1)).good();
    assert_eq!(host.read(4, 2).good(), pattern(2, 1));
    atomic[12] = 0xFF;
    host.send(&atomic, &vec![0; 0xFF02 * BLOCK]).fails(5, 0x24, 0);
    atomic[11] = 1;
    host.send(&atomic, &[]).fails(5, 0x24, 0);
}

#[test]
fn lba_status_begins_at_the_requested_address_wherever_that_is_in_a_physical_block() {
    let (_array, _disk, host) = Array::with_host();
    host.write(0, &pattern(32, 1)).good();
    unmap(&host, &[(8, 8)]).good();
    host.write(BLOCKS - 8, &pattern(8, 1)).good();
    let runs = [(0, 8, 0), (8, 8, 1), (16, 16, 0), (32, BLOCKS as u32 - 40, 1), (BLOCKS - 8, 8, 0)];
    for lba in (0..40).chain(BLOCKS - 12..BLOCKS) {
        let run = runs.iter().find(|(begin, blocks, _)| (*begin..*begin + u64::from(*blocks)).contains(&lba));
        let (begin, blocks, state) = *run.unwrap();
        let first = status(&host, lba, 24)[0];
        assert_eq!((first.0, first.2), (lba, state), "at {lba}");
        assert!(first.1 > 0 && lba + u64::from(first.1) <= begin + u64::from(blocks), "at {lba}: {first:?}");
    }
    assert_eq!(status(&host, 3, 24), [(3, 5, 0)]);
}
