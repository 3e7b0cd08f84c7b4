use super::*;
use crate::left_behind::FoundDevice;
use tempfile::TempDir;

const PORT: TargetPort = TargetPort { fabric: Fabric::Qlogic, wwpn: 0x2100_0024_FF00_0001 };
const LOOP: TargetPort = TargetPort { fabric: Fabric::Loopback, wwpn: 0x2100_0024_FF00_0002 };

fn name(initiator: u64, lun: u16) -> DeviceName {
    DeviceName { initiator, port: PORT.wwpn, lun, disk: 7 }
}

/// Folders as the kernel creates them, with devices.
fn rig(devices: &[DeviceName]) -> (TempDir, Configfs) {
    let folder = tempfile::tempdir().unwrap();
    let core = Configfs::new(folder.path(), "ab12");
    for device in devices {
        fs::create_dir_all(core.device(device)).unwrap();
    }
    for part in ["lun", "acls"] {
        fs::create_dir_all(core.port(PORT).join("tpgt_1").join(part)).unwrap();
    }
    for (group, initiator) in [("tpgt_0", "00000000000000a1"), ("tpgt_1", "00000000000000a2")] {
        fs::create_dir_all(core.port(LOOP).join(group).join("lun")).unwrap();
        fs::write(core.port(LOOP).join(group).join("nexus"), format!("{initiator}\n")).unwrap();
    }
    (folder, core)
}

fn tree(folder: &Path) -> Vec<String> {
    let mut out = entries(folder).unwrap();
    out.sort();
    out
}

#[test]
fn what_is_missing_is_named_with_what_brings_it() {
    let folder = tempfile::tempdir().unwrap();
    let absent = Configfs::new(folder.path().join("config"), "ab12").open(&[]).unwrap_err();
    assert!(absent.to_string().contains("mount -t configfs"), "{absent}");
    let core = Configfs::new(folder.path(), "ab12");
    assert!(core.open(&[]).unwrap_err().to_string().contains("modprobe target_core_user"));
    fs::create_dir(core.target()).unwrap();
    assert!(core.open(&[]).unwrap_err().to_string().contains("modprobe target_core_user"));
    fs::create_dir(core.target().join("core")).unwrap();
    core.open(&[]).unwrap();
    // A name that can't be a folder, like a fabric without its module.
    fs::write(core.target().join("fc"), "").unwrap();
    let port = TargetPort { fabric: Fabric::Fcoe, wwpn: 1 };
    core.open(&[port]).unwrap_err();
    for (fabric, name, module) in FABRICS {
        assert_eq!((Fabric::named(name), fabric.row()), (Some(fabric), (name, module)));
    }
    assert_eq!(Fabric::named("iscsi"), None);
}

#[test]
fn a_device_is_shown_to_its_initiator_alone_and_taken_away_without_a_trace() {
    let devices = [name(0xA1, 0), name(0xA2, 0), name(0xA1, 300)];
    let (_folder, core) = rig(&devices);
    for device in devices {
        core.expose(PORT, &device).unwrap();
        core.expose(PORT, &device).unwrap();
    }
    let group = core.port(PORT).join("tpgt_1");
    assert_eq!(tree(&group.join("lun")), ["lun_0", "lun_1", "lun_2"]);
    let acls = group.join("acls");
    assert_eq!(tree(&acls), ["00:00:00:00:00:00:00:a1", "00:00:00:00:00:00:00:a2"]);
    assert_eq!(tree(&acls.join("00:00:00:00:00:00:00:a1")), ["lun_0", "lun_300"]);
    let link = acls.join("00:00:00:00:00:00:00:a2/lun_0").join(devices[1].text("ab12"));
    assert_eq!(fs::read_link(&link).unwrap(), group.join("lun/lun_1"));
    core.conceal(PORT, &devices[0]).unwrap();
    assert_eq!(tree(&acls.join("00:00:00:00:00:00:00:a1")), ["lun_300"]);
    assert_eq!(tree(&group.join("lun")), ["lun_1", "lun_2"]);
    for device in devices {
        core.conceal(PORT, &device).unwrap();
        core.remove(&device).unwrap();
        core.remove(&device).unwrap();
    }
    assert_eq!((tree(&acls), tree(&group.join("lun"))), (Vec::new(), Vec::new()));
    assert!(core.devices().unwrap().is_empty());
}

#[test]
fn a_unit_number_that_another_device_has_by_now_stays() {
    let (old, new) = (name(0xA1, 0), DeviceName { disk: 8, ..name(0xA1, 0) });
    let (_folder, core) = rig(&[old, new]);
    core.expose(PORT, &new).unwrap();
    core.conceal(PORT, &old).unwrap();
    let mapped = core.port(PORT).join("tpgt_1/acls/00:00:00:00:00:00:00:a1/lun_0");
    assert_eq!(tree(&mapped), [new.text("ab12")]);
}

#[test]
fn initiators_of_a_loopback_port_have_a_group_each() {
    let device = DeviceName { port: LOOP.wwpn, ..name(0xA2, 5) };
    let (_folder, core) = rig(&[device]);
    core.expose(LOOP, &device).unwrap();
    assert_eq!(tree(&core.port(LOOP).join("tpgt_1/lun")), ["lun_5"]);
    assert!(tree(&core.port(LOOP).join("tpgt_0/lun")).is_empty());
    assert!(core.port(LOOP).ends_with("loopback/fc.21000024ff000002"));
    assert!(core.port(PORT).ends_with("qla2xxx/21:00:00:24:ff:00:00:01"));
}

#[test]
fn only_devices_of_the_own_array_are_found() {
    let (_folder, core) = rig(&[name(0xA1, 0)]);
    fs::create_dir(core.adapter().join("ashlar-ab1-00000000000000a1-2100000000000001-0-7")).unwrap();
    fs::create_dir(core.adapter().join("disk")).unwrap();
    assert_eq!(core.devices().unwrap(), [name(0xA1, 0)].into());
}

/// `/sys` and `/dev` with the memory of a device as UIO device `number`.
fn memory(folder: &Path, number: u32, core: &Configfs, device: &DeviceName) -> (PathBuf, PathBuf) {
    let (system, devices) = (folder.join("sys"), folder.join("dev"));
    let entry = system.join(format!("class/uio/uio{number}"));
    fs::create_dir_all(entry.join("maps/map0")).unwrap();
    fs::create_dir_all(&devices).unwrap();
    fs::write(entry.join("name"), core.uio_name(device)).unwrap();
    fs::write(entry.join("maps/map0/size"), "0x2000\n").unwrap();
    fs::write(devices.join(format!("uio{number}")), vec![0; 8192]).unwrap();
    (system, devices)
}

/// The file in which the kernel shows the configuration of a device.
fn configure(core: &Configfs, device: &DeviceName, config: &str) {
    let text = format!(
        "Status: ACTIVATED  Max Queue Depth: 0\n        Config: {config} Size: 512 MaxDataAreaMB: 128\n"
    );
    fs::write(core.device(device).join("info"), text).unwrap();
}

#[test]
fn devices_of_every_array_are_found_and_those_of_others_are_not() {
    let [one, two, stranger] = [name(0xA1, 0), name(0xA2, 7), name(0xA3, 0)];
    let (folder, core) = rig(&[one, two, stranger]);
    let (system, devices) = memory(folder.path(), 3, &core, &one);
    configure(&core, &one, "ashlar/ab12");
    configure(&core, &two, "NULL");
    // A device of another program, with a similar name.
    configure(&core, &stranger, "rbd/ab12");
    let other = Configfs::new(folder.path(), "cd-34");
    fs::create_dir_all(other.device(&one)).unwrap();
    configure(&other, &one, "ashlar/cd-34");
    fs::create_dir(core.adapter().join("disk")).unwrap();
    let found = Configfs::find_devices(folder.path(), (&system, &devices)).unwrap();
    let unserved = |name| FoundDevice { name, is_served: false };
    assert_eq!(found["ab12"], [unserved(one), unserved(two)]);
    assert_eq!(found["cd-34"], [unserved(one)]);
    assert_eq!(found.len(), 2);
    let nowhere = Configfs::find_devices(folder.path().join("none"), (&system, &devices)).unwrap();
    assert!(nowhere.is_empty());
}

#[test]
fn a_device_is_removed_with_its_paths_after_its_commands_have_ended() {
    let [gone, kept] = [name(0xA1, 0), name(0xA1, 5)];
    let (folder, core) = rig(&[gone, kept]);
    let (system, devices) = memory(folder.path(), 0, &core, &gone);
    for device in [&gone, &kept] {
        core.expose(PORT, device).unwrap();
    }
    let actions = core.device(&gone).join("action");
    fs::create_dir(&actions).unwrap();
    for action in ["block_dev", "reset_ring"] {
        fs::write(actions.join(action), "").unwrap();
    }
    // The kernel removes a device with its files; other file systems do not: the last step fails here until the files
    // are removed.
    let error = core.remove_unserved(&[gone], (&system, &devices)).unwrap_err();
    let error = error.to_string();
    let left =
        "1 of 1 devices are left: LUN 0 for 00:00:00:00:00:00:00:a1 at 21:00:00:24:ff:00:00:01 (can't remove";
    assert!(error.starts_with(left), "{error}");
    for action in ["block_dev", "reset_ring"] {
        assert_eq!(fs::read_to_string(actions.join(action)).unwrap(), "1", "{action}");
    }
    let acls = core.port(PORT).join("tpgt_1/acls/00:00:00:00:00:00:00:a1");
    assert_eq!(tree(&acls), ["lun_5"]);
    fs::remove_dir_all(&actions).unwrap();
    fs::remove_dir_all(system.join("class/uio/uio0")).unwrap();
    core.remove_unserved(&[gone], (&system, &devices)).unwrap();
    // A device that was never enabled has no memory.
    core.remove_unserved(&[kept], (&system, &devices)).unwrap();
    assert!(core.devices().unwrap().is_empty());
    assert_eq!(tree(&core.port(PORT).join("tpgt_1/acls")), Vec::<String>::new());
}

/// Two devices with their paths; the first could be removed.
fn two_devices(folder: &Path, core: &Configfs) -> ([DeviceName; 2], (PathBuf, PathBuf)) {
    let names = [name(0xA1, 0), name(0xA2, 0)];
    for (number, device) in names.iter().enumerate() {
        memory(folder, number as u32, core, device);
        fs::create_dir_all(core.device(device).join("action")).unwrap();
        for action in ["block_dev", "reset_ring"] {
            fs::write(core.device(device).join("action").join(action), "").unwrap();
        }
        core.expose(PORT, device).unwrap();
    }
    (names, (folder.join("sys"), folder.join("dev")))
}

/// Checks that [`two_devices`] are unchanged.
fn assert_untouched(core: &Configfs, names: [DeviceName; 2]) {
    assert_eq!(core.devices().unwrap(), names.into());
    let group = core.port(PORT).join("tpgt_1");
    let acls = ["00:00:00:00:00:00:00:a1", "00:00:00:00:00:00:00:a2"];
    assert_eq!(tree(&group.join("acls")), acls);
    for initiator in acls {
        assert_eq!(tree(&group.join("acls").join(initiator)), ["lun_0"]);
    }
    let action = fs::read_to_string(core.device(&names[0]).join("action/block_dev")).unwrap();
    assert_eq!(action, "", "its commands go on");
}

#[test]
fn nothing_is_removed_if_the_memory_of_one_device_can_not_be_opened() {
    let (folder, core) = rig(&[]);
    let (names, (system, devices)) = two_devices(folder.path(), &core);
    fs::remove_file(devices.join("uio1")).unwrap();
    fs::create_dir(devices.join("uio1")).unwrap();
    let error = core.remove_unserved(&names, (&system, &devices)).unwrap_err();
    assert!(error.to_string().contains("00:00:00:00:00:00:00:a2"), "{error}");
    assert_untouched(&core, names);
}

#[test]
fn nothing_is_removed_if_the_kernel_can_not_end_the_commands_of_one_device() {
    let (folder, core) = rig(&[]);
    let (names, (system, devices)) = two_devices(folder.path(), &core);
    let action = core.device(&names[1]).join("action/block_dev");
    fs::remove_file(&action).unwrap();
    let error = core.remove_unserved(&names, (&system, &devices)).unwrap_err().to_string();
    assert!(error.contains(&action.display().to_string()), "{error}");
    fs::write(&action, "").unwrap();
    assert_untouched(&core, names);
}

#[test]
fn nothing_is_removed_if_something_else_uses_a_device_or_its_unit() {
    let (folder, core) = rig(&[]);
    let (names, (system, devices)) = two_devices(folder.path(), &core);
    let group = core.port(PORT).join("tpgt_1");
    let iscsi = core.target().join("iscsi/iqn.2001-04.com.example/tpgt_1/lun/lun_0");
    let same_port = group.join("lun/lun_9");
    let other_initiator = group.join("acls/00:00:00:00:00:00:00:a1/lun_4");
    let second = core.device(&names[1]);
    for (place, to) in [(iscsi, &second), (same_port, &second), (other_initiator, &group.join("lun/lun_1"))] {
        fs::create_dir_all(&place).unwrap();
        symlink(to, place.join("mine")).unwrap();
        let error = core.remove_unserved(&names, (&system, &devices)).unwrap_err().to_string();
        assert!(error.contains(&place.join("mine").display().to_string()), "{error}");
        fs::remove_dir_all(&place).unwrap();
        assert_untouched(&core, names);
    }
}

#[test]
fn a_removal_that_was_interrupted_goes_on_where_it_was() {
    let (folder, core) = rig(&[]);
    let (names, (system, devices)) = two_devices(folder.path(), &core);
    // As after a crash between the creation of the folder and of its link.
    let mapped = core.port(PORT).join("tpgt_1/acls/00:00:00:00:00:00:00:a1/lun_0");
    fs::remove_file(mapped.join(names[0].text("ab12"))).unwrap();
    // The last step of each fails here: see above.
    let error = core.remove_unserved(&names, (&system, &devices)).unwrap_err().to_string();
    assert!(error.starts_with("2 of 2 devices are left: LUN 0 for 00:00:00:00:00:00:00:a1"), "{error}");
    assert_eq!(tree(&core.port(PORT).join("tpgt_1/acls")), Vec::<String>::new());
    for (number, device) in names.iter().enumerate() {
        fs::remove_dir_all(core.device(device).join("action")).unwrap();
        fs::remove_dir_all(system.join(format!("class/uio/uio{number}"))).unwrap();
    }
    core.remove_unserved(&names, (&system, &devices)).unwrap();
    assert!(core.devices().unwrap().is_empty());
}

#[test]
fn an_initiator_is_logged_in_while_the_kernel_has_a_session_of_it() {
    let device = name(0xA1, 0);
    let (_folder, core) = rig(&[device]);
    core.expose(PORT, &device).unwrap();
    assert!(!core.is_logged_in(PORT, &device));
    let session =
        core.port(PORT).join("tpgt_1/acls/00:00:00:00:00:00:00:a1/lun_0/statistics/scsi_att_intr_port");
    fs::create_dir_all(&session).unwrap();
    fs::write(session.join("port_ident"), "00:00:00:00:00:00:00:a1+i+\n").unwrap();
    assert!(core.is_logged_in(PORT, &device));
    assert!(!core.is_logged_in(PORT, &name(0xA2, 0)));
    assert!(core.is_logged_in(LOOP, &DeviceName { port: LOOP.wwpn, ..device }));
    assert!(!core.is_logged_in(LOOP, &DeviceName { port: LOOP.wwpn, ..name(0xA9, 0) }));
}
