//! Devices and their paths to initiators in the kernel's target core, configured by folders, links and files of
//! `/sys/kernel/config/target`.
//!
//! All operations can be repeated: existing objects stay. Creating a link to the loopback fabric, and removing links of
//! any fabric, waits for commands, so the device must be served until they have ended.

use crate::plan::{DeviceName, Wanted};
use export::shown_wwpn;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Number of the adapter of all devices: arbitrary, but constant.
const ADAPTER: u32 = 1000;
/// Kernel memory for data of commands in flight of one device, in MiB, allocated on demand.
const DATA_AREA_MIB: u32 = 128;
/// Length of the ring in MiB, the minimum. It has room for a few thousand commands.
const RING_MIB: u32 = 1;
/// Maximum transfer in blocks; the array enforces the actual limit.
const MAX_TRANSFER_BLOCKS: u32 = 65_535;
/// Logical units of a target port in the kernel.
const MAX_UNITS: u32 = 65_536;
/// Initiators of a port of the loopback fabric.
const MAX_LOOPBACK_INITIATORS: u32 = 32;

/// A failed step of the set-up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// configfs is not mounted.
    #[error("{0} is no configfs: mount it with `mount -t configfs configfs /sys/kernel/config`")]
    NoConfigfs(PathBuf),
    /// The target core is not loaded.
    #[error("the kernel's target core is not loaded: load it with `modprobe target_core_user`")]
    NoTargetCore,
    /// The backend for devices in user space is missing.
    #[error("the kernel has no devices in user space ({0}): load them with `modprobe target_core_user`")]
    NoUserBackend(io::Error),
    /// A fabric is missing.
    #[error("the kernel has no fabric {fabric} ({source}): load it with `modprobe {module}`")]
    NoFabric {
        /// Name of the fabric.
        fabric: String,
        /// Kernel module of the fabric.
        module: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The system's error for a path.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// The failed operation.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel has no free number for another object.
    #[error("{} has no number left for another one", .0.display())]
    Full(PathBuf),
}

/// Transport that delivers commands of initiators to a target port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// QLogic adapters (qla2xxx).
    Qlogic,
    /// Emulex adapters (efct).
    Emulex,
    /// Fibre Channel over Ethernet (tcm_fc).
    Fcoe,
    /// Disks of this machine itself (tcm_loop), for trials and tests.
    Loopback,
}

/// All fabrics, with the name in the kernel and the kernel module.
const FABRICS: [(Fabric, &str, &str); 4] = [
    (Fabric::Qlogic, "qla2xxx", "tcm_qla2xxx"),
    (Fabric::Emulex, "efct", "efct"),
    (Fabric::Fcoe, "fc", "tcm_fc"),
    (Fabric::Loopback, "loopback", "tcm_loop"),
];

impl Fabric {
    /// All fabrics.
    pub fn all() -> [Fabric; 4] {
        FABRICS.map(|(fabric, ..)| fabric)
    }

    /// Name in the kernel.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The fabric with this name.
    pub fn named(name: &str) -> Option<Fabric> {
        FABRICS.iter().find(|(_, known, _)| *known == name).map(|(fabric, ..)| *fabric)
    }

    fn row(self) -> (&'static str, &'static str) {
        let row = FABRICS.iter().find(|(fabric, ..)| *fabric == self);
        row.map_or(("", ""), |(_, name, module)| (name, module))
    }
}

/// A target port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetPort {
    /// Fabric of the port.
    pub fabric: Fabric,
    /// N_Port name of the port.
    pub wwpn: u64,
}

/// The target core, for the devices of one array.
#[derive(Clone, Debug)]
pub struct Configfs {
    root: PathBuf,
    pub(crate) serial: String,
}

impl Configfs {
    /// The target core below a mounted configfs, for the array with this serial number.
    pub fn new(root: impl Into<PathBuf>, serial: impl Into<String>) -> Self {
        Self { root: root.into(), serial: serial.into() }
    }

    /// Checks that the target core is loaded, and opens target ports.
    ///
    /// # Errors
    /// [`SetupError`], which names the missing module.
    pub fn open(&self, ports: &[TargetPort]) -> Result<(), SetupError> {
        if !self.root.is_dir() {
            return Err(SetupError::NoConfigfs(self.root.clone()));
        }
        if !self.target().is_dir() {
            // Other file systems accept any new folder; configfs has only those of loaded modules.
            return Err(SetupError::NoTargetCore);
        }
        make(&self.adapter()).map_err(|error| match error {
            SetupError::Io { source, .. } => SetupError::NoUserBackend(source),
            error => error,
        })?;
        ports.iter().try_for_each(|port| self.open_port(*port))
    }

    fn open_port(&self, port: TargetPort) -> Result<(), SetupError> {
        let (fabric, module) = port.fabric.row();
        make(&self.target().join(fabric)).map_err(|error| match error {
            SetupError::Io { source, .. } => SetupError::NoFabric { fabric: fabric.into(), module, source },
            error => error,
        })?;
        let target = self.port(port);
        make(&target)?;
        if port.fabric == Fabric::Loopback {
            return Ok(());
        }
        let group = target.join("tpgt_1");
        make(&group)?;
        match group.join("enable") {
            enable if enable.exists() => write(&enable, "1"),
            _ => Ok(()),
        }
    }

    fn target(&self) -> PathBuf {
        self.root.join("target")
    }

    pub(crate) fn adapter(&self) -> PathBuf {
        self.target().join(format!("core/user_{ADAPTER}"))
    }

    pub(crate) fn device(&self, name: &DeviceName) -> PathBuf {
        self.adapter().join(name.text(&self.serial))
    }

    fn port(&self, TargetPort { fabric, wwpn }: TargetPort) -> PathBuf {
        let name = match fabric {
            Fabric::Loopback => format!("fc.{wwpn:016x}"),
            _ => shown_wwpn(wwpn),
        };
        self.target().join(fabric.row().0).join(name)
    }

    /// Prefix of the UIO device name of a device's memory.
    pub fn uio_name(&self, name: &DeviceName) -> String {
        format!("tcm-user/{ADAPTER}/{}/", name.text(&self.serial))
    }

    /// Existing devices of the array, created by an earlier process or by this one.
    ///
    /// # Errors
    /// [`SetupError`]
    pub fn devices(&self) -> Result<BTreeSet<DeviceName>, SetupError> {
        let names = entries(&self.adapter())?;
        Ok(names.iter().filter_map(|name| DeviceName::parse(name, &self.serial)).collect())
    }

    /// Creates a device unless it exists, and enables it.
    ///
    /// # Errors
    /// [`SetupError`]
    pub fn create(&self, name: &DeviceName, wanted: Wanted) -> Result<(), SetupError> {
        let device = self.device(name);
        make(&device)?;
        if read(&device.join("enable"))? == "1" {
            return Ok(());
        }
        let Wanted { block_bytes, bytes } = wanted;
        // Otherwise this process would have to reply to netlink messages before the kernel continues.
        write(
            &device.join("control"),
            &format!(
                "dev_config=ashlar/{},dev_size={bytes},hw_block_size={block_bytes},\
                 hw_max_sectors={MAX_TRANSFER_BLOCKS},max_data_area_mb={DATA_AREA_MIB},\
                 cmd_ring_size_mb={RING_MIB},nl_reply_supported=-1",
                self.serial
            ),
        )?;
        for (attribute, value) in [
            // The host's time-out limits a command, even while this process restarts.
            ("cmd_time_out", "0"),
            ("tmr_notification", "1"),
            // The array implements reservations and target port groups.
            ("pgr_support", "0"),
            ("alua_support", "0"),
        ] {
            write(&device.join("attrib").join(attribute), value)?;
        }
        write(&device.join("enable"), "1")
    }

    /// Ends every command in the ring of a device with BUSY, and empties the ring. For a device without a server: the
    /// progress of its commands in an earlier process is unknown.
    ///
    /// # Errors
    /// [`SetupError`]
    pub fn reset_ring(&self, name: &DeviceName) -> Result<(), SetupError> {
        write(&self.device(name).join("action/reset_ring"), "1")
    }

    /// Exposes a device to its initiator at its target port.
    ///
    /// # Errors
    /// [`SetupError`]
    pub fn expose(&self, port: TargetPort, name: &DeviceName) -> Result<(), SetupError> {
        let (device, link) = (self.device(name), name.text(&self.serial));
        if port.fabric == Fabric::Loopback {
            let group = self.make_loopback_group(port, name.initiator)?;
            let unit = group.join(format!("lun/lun_{}", name.lun));
            make(&unit)?;
            return connect(&device, &unit.join(link));
        }
        let group = self.port(port).join("tpgt_1");
        let units = group.join("lun");
        let unit = match find_unit(&units, &link)? {
            Some(unit) => unit,
            None => free_number(&units, "lun_", MAX_UNITS)?,
        };
        make(&unit)?;
        connect(&device, &unit.join(&link))?;
        let initiator = group.join("acls").join(shown_wwpn(name.initiator));
        make(&initiator)?;
        let mapped = initiator.join(format!("lun_{}", name.lun));
        make(&mapped)?;
        connect(&unit, &mapped.join(link))
    }

    /// The group of a loopback port for an initiator, if there is one: each nexus has a group.
    fn loopback_group(&self, port: TargetPort, initiator: u64) -> Result<Option<PathBuf>, SetupError> {
        let port = self.port(port);
        let groups = entries(&port)?.into_iter().filter(|name| name.starts_with("tpgt_"));
        let own = format!("{initiator:016x}");
        // The file is unreadable without a nexus.
        let is_own = |group: &PathBuf| read(&group.join("nexus")).is_ok_and(|nexus| nexus == own);
        Ok(groups.map(|name| port.join(name)).find(is_own))
    }

    fn make_loopback_group(&self, port: TargetPort, initiator: u64) -> Result<PathBuf, SetupError> {
        if let Some(group) = self.loopback_group(port, initiator)? {
            return Ok(group);
        }
        let group = free_number(&self.port(port), "tpgt_", MAX_LOOPBACK_INITIATORS)?;
        make(&group)?;
        write(&group.join("nexus"), &format!("fc.{initiator:016x}"))?;
        Ok(group)
    }

    /// Whether the initiator of a device is logged in at its target port, according to the kernel.
    pub fn is_logged_in(&self, port: TargetPort, name: &DeviceName) -> bool {
        if port.fabric == Fabric::Loopback {
            return self.loopback_group(port, name.initiator).is_ok_and(|group| group.is_some());
        }
        let initiator = self.port(port).join("tpgt_1/acls").join(shown_wwpn(name.initiator));
        // The kernel has no such text for an initiator without a session.
        let session = format!("lun_{}/statistics/scsi_att_intr_port/port_ident", name.lun);
        read(&initiator.join(session)).is_ok()
    }

    /// Removes a device from its initiator at a target port. Its commands complete first.
    ///
    /// # Errors
    /// [`SetupError`]
    pub fn conceal(&self, port: TargetPort, name: &DeviceName) -> Result<(), SetupError> {
        let link = name.text(&self.serial);
        let port_folder = self.port(port);
        if !port_folder.is_dir() {
            return Ok(());
        }
        if port.fabric == Fabric::Loopback {
            let Some(group) = self.loopback_group(port, name.initiator)? else { return Ok(()) };
            disconnect(&group.join(format!("lun/lun_{}", name.lun)), &link)?;
            if entries(&group.join("lun"))?.is_empty() {
                write(&group.join("nexus"), "NULL")?;
                remove(&group)?;
            }
            return Ok(());
        }
        let group = port_folder.join("tpgt_1");
        let initiator = group.join("acls").join(shown_wwpn(name.initiator));
        if initiator.is_dir() {
            disconnect(&initiator.join(format!("lun_{}", name.lun)), &link)?;
            if !entries(&initiator)?.iter().any(|entry| entry.starts_with("lun_")) {
                remove(&initiator)?;
            }
        }
        match find_unit(&group.join("lun"), &link)? {
            Some(unit) => disconnect(&unit, &link),
            None => Ok(()),
        }
    }

    /// Links to devices, and to units of target ports, of all fabrics, by their targets.
    pub(crate) fn links(&self) -> Result<BTreeMap<PathBuf, Vec<PathBuf>>, SetupError> {
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for fabric in folders(&self.target())?.into_iter().filter(|it| !it.ends_with("core")) {
            for port in folders(&fabric)? {
                for group in folders(&port)? {
                    let initiators = folders(&group.join("acls"))?;
                    for units in initiators.into_iter().chain([group.join("lun")]) {
                        for link in links_in(&units)? {
                            // In configfs, the text of a link is not the path it was created with.
                            let Ok(to) = link.canonicalize() else { continue };
                            found.entry(to).or_default().push(link);
                        }
                    }
                }
            }
        }
        Ok(found)
    }

    /// A link to a device, or to its unit at its target port, that [`Configfs::conceal`] does not remove, such as one
    /// that an administrator created by hand: the kernel does not remove linked objects.
    pub(crate) fn strange_link(
        &self,
        name: &DeviceName,
        links: &BTreeMap<PathBuf, Vec<PathBuf>>,
    ) -> Result<Option<PathBuf>, SetupError> {
        let to = |path: &Path| -> Result<&[PathBuf], SetupError> {
            let path = path.canonicalize().map_err(failed("can't read", path))?;
            Ok(links.get(&path).map_or(&[], Vec::as_slice))
        };
        let text = name.text(&self.serial);
        let mut rest: Vec<_> = to(&self.device(name))?.to_vec();
        for fabric in Fabric::all() {
            let port = TargetPort { fabric, wwpn: name.port };
            if !self.port(port).is_dir() {
                continue;
            }
            if fabric == Fabric::Loopback {
                let group = self.loopback_group(port, name.initiator)?;
                let own = group.map(|group| group.join(format!("lun/lun_{}", name.lun)).join(&text));
                rest.retain(|link| Some(link) != own.as_ref());
                continue;
            }
            let group = self.port(port).join("tpgt_1");
            let Some(unit) = find_unit(&group.join("lun"), &text)? else { continue };
            rest.retain(|link| *link != unit.join(&text));
            let initiator = group.join("acls").join(shown_wwpn(name.initiator));
            let own = initiator.join(format!("lun_{}", name.lun)).join(&text);
            rest.extend(to(&unit)?.iter().filter(|link| **link != own).cloned());
        }
        Ok(rest.into_iter().next())
    }

    /// Removes a device that is exposed to no host.
    ///
    /// # Errors
    /// [`SetupError`]; also if something else links to it.
    pub fn remove(&self, name: &DeviceName) -> Result<(), SetupError> {
        remove(&self.device(name))
    }
}

/// The unit of a target port with this link.
fn find_unit(units: &Path, link: &str) -> Result<Option<PathBuf>, SetupError> {
    let units = entries(units)?.into_iter().map(|name| units.join(name));
    Ok(units.into_iter().find(|unit| unit.join(link).symlink_metadata().is_ok()))
}

/// The first numbered folder name that does not exist.
fn free_number(folder: &Path, prefix: &str, end: u32) -> Result<PathBuf, SetupError> {
    let taken: BTreeSet<_> = entries(folder)?.into_iter().collect();
    let free = (0..end).map(|number| format!("{prefix}{number}")).find(|name| !taken.contains(name));
    free.map(|name| folder.join(name)).ok_or_else(|| SetupError::Full(folder.to_owned()))
}

fn failed<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> SetupError + 'a {
    move |source| SetupError::Io { doing, path: path.to_owned(), source }
}

fn make(folder: &Path) -> Result<(), SetupError> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(failed("can't make", folder)),
    }
}

fn remove(folder: &Path) -> Result<(), SetupError> {
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(failed("can't remove", folder)),
    }
}

fn connect(to: &Path, link: &Path) -> Result<(), SetupError> {
    match symlink(to, link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(failed("can't link", link)),
    }
}

/// Removes a folder that contains the link, or an empty one of an earlier attempt; a folder with another link stays.
fn disconnect(folder: &Path, link: &str) -> Result<(), SetupError> {
    let link = folder.join(link);
    match fs::remove_file(&link) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if !folder.is_dir() || has_link(folder)? {
                return Ok(());
            }
        }
        removed => removed.map_err(failed("can't unlink", &link))?,
    }
    remove(folder)
}

fn has_link(folder: &Path) -> Result<bool, SetupError> {
    Ok(entries(folder)?.iter().any(|name| folder.join(name).is_symlink()))
}

/// The folders in a folder; none if it does not exist.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, SetupError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let found = entries(folder)?.into_iter().map(|name| folder.join(name));
    Ok(found.filter(|path| path.is_dir() && !path.is_symlink()).collect())
}

/// The links in the units of a folder.
fn links_in(units: &Path) -> Result<Vec<PathBuf>, SetupError> {
    let mut found = Vec::new();
    for unit in folders(units)? {
        let links = entries(&unit)?.into_iter().map(|name| unit.join(name));
        found.extend(links.filter(|link| link.is_symlink()));
    }
    Ok(found)
}

pub(crate) fn entries(folder: &Path) -> Result<Vec<String>, SetupError> {
    let list = || -> io::Result<Vec<String>> {
        let names =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
        names.collect()
    };
    list().map_err(failed("can't list", folder))
}

pub(crate) fn read(file: &Path) -> Result<String, SetupError> {
    let text = fs::read_to_string(file).map_err(failed("can't read", file))?;
    Ok(text.trim().to_owned())
}

/// Writes an attribute, which must exist and accept the whole text.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), SetupError> {
    use io::Write;
    let written = open_attribute(file)?.write_all(text.as_bytes());
    written.map_err(failed("can't write", file))
}

/// Opens an attribute for writing, which changes nothing.
pub(crate) fn open_attribute(file: &Path) -> Result<fs::File, SetupError> {
    fs::OpenOptions::new().write(true).open(file).map_err(failed("can't write", file))
}

#[cfg(test)]
#[path = "configfs_test.rs"]
mod tests;
