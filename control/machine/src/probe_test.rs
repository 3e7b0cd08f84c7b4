use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};

fn wipefs(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("wipefs");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn a_drive_that_nobody_can_examine_is_not_blank() {
    let folder = tempfile::tempdir().unwrap();
    let drive = folder.path().join("drive");
    fs::write(&drive, [0; 4096]).unwrap();
    let none = folder.path().join("none");
    let said = signatures(&[&none], &drive).await.unwrap_err();
    assert!(said.contains("install wipefs"), "{said}");
    for (script, why) in [
        ("echo no such device >&2; exit 1", "no such device"),
        ("echo '{\"signatures\":[{\"type\":5}]}'", "can't be read"),
        ("echo nonsense", "can't be read"),
        ("kill -9 $$", "can't examine"),
    ] {
        let program = wipefs(folder.path(), script);
        let said = signatures(&[&none, &program], &drive).await.unwrap_err();
        assert!(said.contains(why), "{script}: {said}");
    }
    for script in ["true", "echo '{\"signatures\":[]}'"] {
        let program = wipefs(folder.path(), script);
        assert_eq!(signatures(&[&program], &drive).await.unwrap(), Vec::<String>::new());
    }
}

#[test]
fn each_signature_is_named_once_with_label_and_uuid() {
    let text = br#"{"signatures": [
        {"device":"x", "offset":"0x200", "type":"gpt", "uuid":null, "label":null},
        {"device":"x", "offset":"0x3fffe00", "type":"gpt", "uuid":null, "label":null},
        {"device":"x", "offset":"0x10040", "type":"btrfs", "uuid":"6c1e", "label":"po\"ol"}
    ]}"#;
    assert_eq!(
        read(text).unwrap(),
        ["a partition table (gpt) at byte 512", "btrfs \"po\\\"ol\" (UUID 6c1e) at byte 65600"]
    );
    assert_eq!(read(b" \n").unwrap(), Vec::<String>::new());
    assert_eq!(read(b"{}"), None);
}

#[test]
fn tables_of_the_kernel_are_read() {
    assert_eq!(unescaped("/mnt/my\\040disk\\134x"), "/mnt/my disk\\x");
    assert_eq!(unescaped("/plain\\9"), "/plain\\9");
    assert_eq!(number(0x0810), "8:16");
    assert_eq!(number((259 << 8) | 3 | (1 << 20)), "259:259");
}

/// A kernel that says what these folders say, about the device 8:16 with one partition.
fn kernel(folder: &Path, mountinfo: &str, swaps: &str) -> Kernel {
    let (sys, proc) = (folder.join("sys"), folder.join("proc"));
    let disk = sys.join("devices/sdb");
    fs::create_dir_all(disk.join("sdb1/holders")).unwrap();
    fs::create_dir_all(disk.join("holders")).unwrap();
    fs::create_dir_all(sys.join("dev/block")).unwrap();
    fs::create_dir_all(sys.join("block/dm-0/dm")).unwrap();
    fs::create_dir_all(proc.join("self")).unwrap();
    fs::write(disk.join("sdb1/partition"), "1\n").unwrap();
    fs::write(disk.join("sdb1/dev"), "8:17\n").unwrap();
    fs::write(sys.join("block/dm-0/dm/name"), "mpatha\n").unwrap();
    symlink(&disk, sys.join("dev/block/8:16")).unwrap();
    fs::write(proc.join("self/mountinfo"), mountinfo).unwrap();
    fs::write(proc.join("swaps"), swaps).unwrap();
    Kernel { sys, proc }
}

#[test]
fn mounts_and_holders_of_a_disk_and_its_partitions_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let table = "29 1 8:17 / /srv/my\\040data rw,relatime shared:1 - ext4 /dev/none rw\n\
                 30 1 0:5 / /proc rw - proc proc rw\n31 broken\n";
    let kernel = kernel(folder.path(), table, "Filename Type Size Used Priority\n");
    let nodes = kernel.partitions(kernel.node("8:16").unwrap());
    assert_eq!(nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["sdb", "sdb1"]);
    assert_eq!(kernel.mounts(&nodes).unwrap(), ["sdb1 is mounted at /srv/my data"]);
    assert_eq!(kernel.holders(&nodes[0]), Vec::<String>::new());
    fs::write(nodes[0].folder.join("holders/dm-0"), "").unwrap();
    fs::write(nodes[1].folder.join("holders/md0"), "").unwrap();
    assert_eq!(kernel.holders(&nodes[0]), ["sdb is held by dm-0 (mpatha)"]);
    assert_eq!(kernel.holders(&nodes[1]), ["sdb1 is held by md0"]);
    assert!(kernel.node("8:99").is_none());
}

#[test]
fn a_file_that_is_swap_or_a_loop_device_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a file");
    fs::write(&file, "").unwrap();
    let file = file.canonicalize().unwrap();
    let escaped = file.display().to_string().replace(' ', "\\040");
    let swaps = format!("Filename Type Size Used Priority\n{escaped} file 4 0 -2\n");
    let kernel = kernel(folder.path(), "40 1 7:3 / /mnt/iso rw - iso9660 /dev/none ro\n", &swaps);
    assert_eq!(kernel.users(&file).unwrap(), ["it is used as swap"]);
    let attached = kernel.sys.join("block/loop3");
    fs::create_dir_all(attached.join("loop")).unwrap();
    fs::write(attached.join("dev"), "7:3\n").unwrap();
    fs::write(attached.join("loop/backing_file"), format!("{}\n", file.display())).unwrap();
    assert_eq!(
        kernel.users(&file).unwrap(),
        ["it is attached as /dev/loop3", "loop3 is mounted at /mnt/iso", "it is used as swap"]
    );
    let other = folder.path().join("other");
    fs::write(&other, "").unwrap();
    assert_eq!(kernel.users(&other.canonicalize().unwrap()).unwrap(), Vec::<String>::new());
    fs::remove_file(kernel.proc.join("self/mountinfo")).unwrap();
    assert!(kernel.users(&file).unwrap_err().contains("mountinfo"));
}
