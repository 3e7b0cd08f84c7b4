use super::*;
use crate::MemDrive;
use crate::drive_shelf::tests::now;

const MIB: usize = 1 << 20;

fn mem(name: &str) -> Arc<MemDrive> {
    MemDrive::new(name, 16 << 20)
}

fn contents_of(drive: &Arc<MemDrive>) -> DriveContents {
    now(DriveShelf::contents(&**drive)).unwrap()
}

fn format(mem: &[Arc<MemDrive>], array: u128, consent: Consent) -> Result<Arc<DriveShelf>> {
    let drives = mem.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect();
    now(DriveShelf::format(drives, FormatOptions { array, consent, ..FormatOptions::default() }))
}

fn force(arrays: &[u128]) -> Consent {
    Consent { foreign: true, arrays: arrays.to_vec() }
}

#[test]
fn a_drive_is_blank_when_both_of_its_ends_are_zero() {
    let drive = mem("drive");
    assert_eq!(contents_of(&drive), DriveContents::Blank);
    for at in [0, 511, 4096, 65_600, MIB - 1, 15 * MIB, 16 * MIB - (64 << 10), 16 * MIB - 1] {
        drive.with(|bytes| bytes[at] = 1);
        assert_eq!(contents_of(&drive), DriveContents::Foreign { at: at as u64 });
        drive.with(|bytes| bytes[at] = 0);
    }
    drive.with(|bytes| bytes[8 * MIB] = 1);
    assert_eq!(contents_of(&drive), DriveContents::Blank, "only the ends are read");
    let small = MemDrive::new("small", 1 << 20);
    small.with(|bytes| bytes[700_000] = 1);
    assert_eq!(contents_of(&small), DriveContents::Foreign { at: 700_000 });
    assert_eq!(contents_of(&MemDrive::new("none", 0)), DriveContents::Blank);
}

#[test]
fn either_label_identifies_a_drive_even_if_damaged_or_of_another_release() {
    let mem = [mem("a"), mem("b"), mem("c")];
    drop(format(&mem, 7, Consent::default()).unwrap());
    let whole = DriveContents::Array { array: 7, slot: Some((1, 3)) };
    assert_eq!(contents_of(&mem[1]), whole);
    // A partition table replaced the first label; the one at the end remains.
    mem[1].with(|bytes| bytes[..4096].fill(0xee));
    assert_eq!(contents_of(&mem[1]), whole);
    mem[1].with(|bytes| bytes[16 * MIB - 1] ^= 1);
    assert_eq!(contents_of(&mem[1]), DriveContents::Array { array: 7, slot: None }, "its checksum is wrong");
    mem[2].with(|bytes| {
        for at in [0, 16 * MIB - 4096] {
            bytes[at + 8] = 99;
            let checksum = crate::codec::crc32c([&bytes[at..at + 4092]]);
            bytes[at + 4092..at + 4096].copy_from_slice(&checksum.to_le_bytes());
        }
    });
    assert_eq!(contents_of(&mem[2]), DriveContents::Array { array: 7, slot: None }, "another release's");
    mem[0].with(|bytes| bytes[..4096].fill(0));
    assert_eq!(contents_of(&mem[0]), DriveContents::Array { array: 7, slot: Some((0, 3)) });
}

#[test]
fn force_does_not_overwrite_drives_of_arrays_that_are_not_named() {
    let mem = [mem("a"), mem("b"), mem("c")];
    drop(format(&mem, 7, Consent::default()).unwrap());
    // A drive whose first label is damaged is protected as well.
    mem[1].with(|bytes| bytes[..8192].fill(0xee));
    let before: Vec<_> = mem.iter().map(|drive| drive.with(|bytes| bytes.to_vec())).collect();
    for consent in [Consent::default(), force(&[]), force(&[8, 9])] {
        for drive in &mem {
            let refused = format(std::slice::from_ref(drive), 10, consent.clone()).err().unwrap();
            assert!(refused.to_string().contains(&format!("belongs to array {:032x}", 7)), "{refused}");
        }
        assert!(format(&mem, 10, consent).is_err());
    }
    let after: Vec<_> = mem.iter().map(|drive| drive.with(|bytes| bytes.to_vec())).collect();
    assert!(after == before, "nothing was written");
    format(&mem, 10, Consent { arrays: vec![7], ..Consent::default() }).unwrap();
    assert_eq!(contents_of(&mem[1]), DriveContents::Array { array: 10, slot: Some((1, 3)) });
}

#[test]
fn remains_of_an_incomplete_format_are_blank_unless_there_are_other_data() {
    let drive = mem("drive");
    let unfinished = |drive: &Arc<MemDrive>| {
        let mut page = vec![0; 4096];
        page[..8].copy_from_slice(b"ASHLABEL");
        page[16] = 9;
        drive.with(|bytes| bytes[..4096].copy_from_slice(&page));
    };
    drive.with(|bytes| bytes[4093] = 5);
    assert_eq!(contents_of(&drive), DriveContents::Blank, "the last sector of the first label");
    unfinished(&drive);
    drive.with(|bytes| bytes[8192] = 5);
    assert_eq!(contents_of(&drive), DriveContents::Blank, "an envelope comes before the format ends");
    drive.with(|bytes| bytes[70_000] = 5);
    assert_eq!(contents_of(&drive), DriveContents::Foreign { at: 70_000 });
    // After an interrupted format the drive was used for something else.
    let drive = mem("other");
    drop(format(std::slice::from_ref(&drive), 7, Consent::default()).unwrap());
    drive.with(|bytes| {
        for at in [0, 16 * MIB - 4096] {
            bytes[at + 48..at + 56].fill(0);
            bytes[at + 512..at + 4092].fill(0);
            let checksum = crate::codec::crc32c([&bytes[at..at + 4092]]);
            bytes[at + 4092..at + 4096].copy_from_slice(&checksum.to_le_bytes());
        }
        bytes[4096..].iter_mut().take(MIB).for_each(|byte| *byte = 0);
    });
    assert_eq!(contents_of(&drive), DriveContents::Blank);
    drive.with(|bytes| bytes[1024..2048].fill(0xef));
    drive.with(|bytes| bytes[..8].fill(0));
    assert_eq!(
        contents_of(&drive),
        DriveContents::Foreign { at: 8 },
        "the remaining label no longer identifies the drive"
    );
    assert!(format(std::slice::from_ref(&drive), 8, Consent::default()).is_err());
}
