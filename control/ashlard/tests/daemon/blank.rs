//! Drives that are not blank are not overwritten at a start or by adding them, and by force only within its limits.

use crate::process::{ashlard, fails, json, start};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The images of `tests/media`, and what is to be said of each.
const HELD: &[(&str, &[&str])] = &[
    ("btrfs", &["btrfs \"pool\"", "UUID 6c1e5a4e-3d52-4a57-9a3f-2d7f5f0f6b01", "at byte 65600"]),
    ("ext4", &["ext4 \"home\"", "UUID 6c1e5a4e-3d52-4a57-9a3f-2d7f5f0f6b02"]),
    ("xfs", &["xfs \"data\""]),
    ("f2fs", &["f2fs \"phone\""]),
    ("ntfs", &["ntfs \"windows\""]),
    ("iso9660", &["iso9660 \"CDROM\""]),
    ("swap", &["swap \"swap\""]),
    ("lvm", &["LVM2_member (UUID c0d5Pu-uQUD-4lcL-xANV-WYr2-4qr6-Uc437n)"]),
    ("md-1.2", &["linux_raid_member \"host:data\"", "at byte 4096"]),
    ("md-1.0", &["linux_raid_member \"host:data\""]),
    ("md-0.90", &["linux_raid_member"]),
    ("bcache", &["bcache (UUID d371c277-6d37-4ac4-9ff9-359d85c608e3)"]),
    ("luks1", &["crypto_LUKS"]),
    ("luks2", &["crypto_LUKS (UUID 6c1e5a4e-3d52-4a57-9a3f-2d7f5f0f6b06)"]),
    ("zfs", &["zfs_member"]),
    ("gpt", &["a partition table (gpt)"]),
    ("gpt-backup", &["a partition table (gpt)"]),
    ("mbr", &["a partition table (dos)"]),
];

/// Lays an image out.
fn image(folder: &Path, name: &str) -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media").join(format!("{name}.zst"));
    let bytes = zstd::decode_all(File::open(packed).unwrap()).unwrap();
    let (size, sectors) = bytes.split_first_chunk::<8>().unwrap();
    let path = folder.join(name);
    let file = File::create(&path).unwrap();
    file.set_len(u64::from_le_bytes(*size)).unwrap();
    for sector in sectors.chunks_exact(8 + 512) {
        let (at, data) = sector.split_first_chunk::<8>().unwrap();
        file.write_all_at(data, u64::from_le_bytes(*at)).unwrap();
    }
    path
}

fn empty(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    File::create(&path).unwrap().set_len(64 << 20).unwrap();
    path
}

/// Both ends of a drive, which is where everything is that these tests put there.
fn ends(path: &Path) -> Vec<u8> {
    let file = File::open(path).unwrap();
    let size = std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0)).unwrap();
    let mut bytes = vec![0; 2 << 20];
    file.read_exact_at(&mut bytes[..1 << 20], 0).unwrap();
    file.read_exact_at(&mut bytes[1 << 20..], size - (1 << 20)).unwrap();
    bytes
}

#[test]
fn drives_of_others_are_recognised_and_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let blank = empty(folder.path(), "blank");
    let images: Vec<PathBuf> = HELD.iter().map(|(name, _)| image(folder.path(), name)).collect();
    let before: Vec<_> = images.iter().map(|path| ends(path)).collect();
    // All of them are named at once.
    let mut words = vec!["--drive", blank.to_str().unwrap()];
    words.extend(images.iter().flat_map(|path| ["--drive", path.to_str().unwrap()]));
    let error = start(data, &words).err().unwrap();
    let format = format!("format --data {} {}", data.display(), words.join(" "));
    for said in [error, ashlard(&format)] {
        for ((name, held), path) in HELD.iter().zip(&images) {
            let begin = format!("{} is not blank: it holds ", path.display());
            let about = said.split_once(&begin).unwrap_or_else(|| panic!("{name}: {said}")).1;
            let about = about.split_once(';').unwrap().0;
            assert!(held.iter().all(|word| about.contains(word)), "{name}: {about}");
        }
        assert!(!said.contains("/blank is"), "{said}");
    }
    // The same for each that is added, or put in the place of another one.
    let _daemon = start(data, &["--drive", blank.to_str().unwrap()]).unwrap();
    for ((name, held), path) in HELD.iter().zip(&images) {
        let path = path.display();
        for verb in [format!("add {path}"), format!("replace 0 --with {path} --yes")] {
            let said = fails(data, &format!("drive {verb}"), 1);
            assert!(held.iter().all(|word| said.contains(word)), "{name}: {said}");
        }
        let said = fails(data, &format!("drive add {path} --force"), 1);
        assert!(said.contains("only block devices"), "{name}: {said}");
    }
    assert_eq!(json(data, "drive list").as_array().unwrap().len(), 1);
    let after: Vec<_> = images.iter().map(|path| ends(path)).collect();
    assert!(before == after, "nothing was written");
}

#[test]
fn data_that_nobody_knows_are_not_blank() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    for at in [100, 4096, (1 << 20) - 1, (64 << 20) - (1 << 20), (64 << 20) - 1] {
        let path = empty(folder.path(), "drive");
        OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"x", at).unwrap();
        let said = start(data, &["--drive", path.to_str().unwrap()]).err().unwrap();
        assert!(said.contains(&format!("unknown data at byte {at}")), "{said}");
    }
}

fn made(data: &Path, drives: &[PathBuf]) -> String {
    let paths: Vec<&str> = drives.iter().map(|path| path.to_str().unwrap()).collect();
    assert!(start(data, &["--drive", &paths.join(",")]).unwrap().stop().success());
    let said = ashlard(&format!("format --data {} --drive {} --force", data.display(), paths[0]));
    said.split("--take-from-array` ").nth(1).unwrap()[..32].to_owned()
}

#[test]
fn force_takes_no_drive_of_an_array_of_ours_and_says_which_drive_is_whose() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let drives = |array: &str| -> Vec<PathBuf> {
        (0..5).map(|number| empty(folder.path(), &format!("{array}{number}"))).collect()
    };
    let (one, two) = (drives("one"), drives("two"));
    let names = [made(&at("data1"), &one), made(&at("data2"), &two)];
    assert_ne!(names[0], names[1]);
    let list =
        |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(",");
    let before: Vec<_> = one.iter().chain(&two).map(|path| ends(path)).collect();
    let blank = empty(folder.path(), "blank");
    // Two of five of one array, with a blank one and one of another array.
    let mixed = [&one[..2], &[blank], &two[4..]].concat();
    let new = at("data3");
    let said = start(&new, &["--drive", &list(&mixed)]).err().unwrap();
    for (drives, name) in [(&one[..2], &names[0]), (&two[4..], &names[1])] {
        let whose = format!("{} of array {name}", list(drives).replace(',', ", "));
        assert!(said.contains(&whose), "{said}");
    }
    for more in ["--force".to_owned(), format!("--force --take-from-array {}", names[0])] {
        let said = ashlard(&format!("format --data {} --drive {} {more}", new.display(), list(&mixed)));
        assert!(
            said.contains(&format!("{} belongs to the Ashlar array {}", two[4].display(), names[1])),
            "{said}"
        );
    }
    let said = ashlard(&format!(
        "format --data {} --drive {} --take-from-array {:032x}",
        new.display(),
        list(&mixed),
        7
    ));
    assert!(said.contains("none of the drives belongs"), "{said}");
    let after: Vec<_> = one.iter().chain(&two).map(|path| ends(path)).collect();
    assert!(before == after, "nothing was written");
    // Named in full, they are taken, and only they.
    let both = format!("{},{}", names[0], names[1]);
    let said = ashlard(&format!(
        "format --data {} --drive {} --take-from-array {both}",
        new.display(),
        list(&mixed)
    ));
    assert!(!said.contains("ERROR"), "{said}");
    assert!(start(&new, &["--drive", &list(&mixed)]).unwrap().stop().success());
    assert!(
        start(&at("data1"), &["--drive", &list(&one[2..])]).unwrap().stop().success(),
        "it does without two"
    );
}

#[test]
fn an_array_whose_drives_or_keys_are_missing_is_never_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    assert!(start(data, &["--encrypt"]).unwrap().stop().success());
    std::fs::remove_file(data.join("drives.key")).unwrap();
    let said = start(data, &["--encrypt"]).err().unwrap();
    assert!(said.contains("locked with a key file") && said.contains("drives.key"), "{said}");
    let said = ashlard(&format!("format --data {} --force --encrypt", data.display()));
    assert!(said.contains("belongs to the Ashlar array"), "{said}");
    assert!(!data.join("drives.key").exists(), "no key is made for drives that are not taken");
    // Blank drives in the place of those that the array had.
    let blank = empty(folder.path(), "blank");
    let said = start(data, &["--drive", blank.to_str().unwrap()]).err().unwrap();
    assert!(said.contains("an array that was started before"), "{said}");
    assert!(ends(&blank).iter().all(|byte| *byte == 0));
}

#[test]
fn the_drives_that_were_added_hold_the_array_when_those_that_are_named_were_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let old = empty(folder.path(), "old");
    let daemon = start(data, &["--drive", old.to_str().unwrap()]).unwrap();
    json(data, "volume create db1 --size 1GiB");
    for name in ["new1", "new2", "new3"] {
        json(data, &format!("drive add {}", empty(folder.path(), name).display()));
    }
    json(data, "drive evacuate 0 --yes --wait");
    assert!(daemon.stop().success());
    assert!(ends(&old).iter().all(|byte| *byte == 0), "it is blank");
    let _daemon = start(data, &["--drive", old.to_str().unwrap()]).unwrap();
    assert_eq!(json(data, "volume list")[0]["name"], "db1");
}

/// A loop device over a file; none where the system has none to give.
struct Attached(String);

impl Attached {
    fn new(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        match output {
            Ok(output) if output.status.success() => {
                Some(Self(String::from_utf8(output.stdout).unwrap().trim().into()))
            }
            other => {
                eprintln!("left out, for there is no loop device to be had: {other:?}");
                None
            }
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn block_devices_that_are_not_blank_or_in_use_are_left_as_they_are_and_force_is_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let (btrfs, file) = (image(folder.path(), "btrfs"), empty(folder.path(), "file"));
    let Some(device) = Attached::new(&btrfs) else { return };
    let said = start(data, &["--drive", &device.0]).err().unwrap();
    assert!(said.contains("btrfs \"pool\"") && said.contains(&device.0), "{said}");
    // A file that is attached is in use, even though it is blank.
    let Some(used) = Attached::new(&file) else { return };
    let said = start(data, &["--drive", file.to_str().unwrap()]).err().unwrap();
    assert!(said.contains(&format!("it is attached as {}", used.0)), "{said}");
    let _daemon = start(data, &["--drive", &used.0]).unwrap();
    let said = fails(data, &format!("drive add {}", device.0), 1);
    assert!(said.contains("btrfs \"pool\"") && said.contains("force"), "{said}");
    assert_eq!(json(data, &format!("drive add {} --force", device.0))["slot"], 1);
}

#[test]
fn a_mounted_device_is_named_with_its_mount_point() {
    let folder = tempfile::tempdir().unwrap();
    let data = &folder.path().join("array");
    let file = empty(folder.path(), "file");
    let made = Command::new("mkfs.ext4").arg("-q").arg(&file).status();
    let Some(device) = Attached::new(&file).filter(|_| made.is_ok_and(|made| made.success())) else { return };
    let point = folder.path().join("a mount point");
    std::fs::create_dir(&point).unwrap();
    let mounted = Command::new("mount").arg(&device.0).arg(&point).status();
    if !mounted.is_ok_and(|mounted| mounted.success()) {
        return eprintln!("left out, for nothing can be mounted here");
    }
    let said = [
        start(data, &["--drive", &device.0]).err().unwrap(),
        ashlard(&format!("format --data {} --drive {} --force", data.display(), device.0)),
        ashlard(&format!("format --data {} --drive {} --force", data.display(), file.display())),
    ];
    let _ = Command::new("umount").arg(&point).status();
    for said in said {
        assert!(said.contains(&format!("is mounted at {}", point.display())), "{said}");
    }
}
