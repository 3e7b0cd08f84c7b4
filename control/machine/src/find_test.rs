use super::*;
use std::os::unix::fs::symlink;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tree(name: &str) -> (Folder, Tree) {
    let root = std::env::temp_dir().join(format!("ashlar-find-{}-{name}", std::process::id()));
    let tree = Tree { sys: root.join("sys"), dev: root.join("dev") };
    fs::create_dir_all(tree.dev.join("disk/by-id")).unwrap();
    (Folder(root), tree)
}

fn device(tree: &Tree, name: &str, sectors: &str, model: &str) {
    let folder = tree.sys.join(name);
    fs::create_dir_all(folder.join("device")).unwrap();
    fs::write(folder.join("size"), sectors).unwrap();
    fs::write(folder.join("device/model"), model).unwrap();
    fs::write(folder.join("device/serial"), "S1\n").unwrap();
    fs::write(tree.dev.join(name), "").unwrap();
}

#[test]
fn drives_have_their_size_model_serial_and_a_path_that_stays() {
    let (_folder, tree) = tree("path");
    device(&tree, "nvme0n1", "2048\n", "FAST 1000   \n");
    for link in ["wwn-0x5000", "nvme-FAST_1000_S1", "nvme-FAST_1000_S1_1", "usb-other"] {
        symlink("../../nvme0n1", tree.dev.join("disk/by-id").join(link)).unwrap();
    }
    let found = tree.candidates();
    let [drive] = &found[..] else { panic!("{found:?}") };
    assert!(drive.path.ends_with("disk/by-id/nvme-FAST_1000_S1"), "{}", drive.path);
    assert_eq!((drive.size, drive.model.as_deref()), (1 << 20, Some("FAST 1000")));
    assert_eq!(drive.serial.as_deref(), Some("S1"));
}

#[test]
fn devices_that_are_no_drives_are_left_out() {
    let (_folder, tree) = tree("none");
    for name in ["loop0", "ram1", "zram0", "sr0", "dm-0", "md127", "nbd3"] {
        device(&tree, name, "2048", "no drive");
    }
    device(&tree, "sda", "0", "empty slot");
    device(&tree, "sdb", "no number", "broken");
    device(&tree, "sdc", "18446744073709551615", "too large to be true");
    device(&tree, "sdd", "8", "small");
    let paths: Vec<_> = tree.candidates().into_iter().map(|it| it.path).collect();
    assert_eq!(paths, [tree.dev.join("sdd").to_str().unwrap()]);
}
