//! Devices that an array left in the kernel, such as after a crash that it did not come back from: what there is, and how it
//! is removed without the array.

use crate::configfs::{Configfs, Fabric, SetupError, TargetPort, entries, open_attribute, read, write};
use crate::plan::DeviceName;
use crate::uio::Uio;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// A device of an array in the kernel, and whether a process serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// Its name.
    pub name: DeviceName,
    /// A process serves it.
    pub is_served: bool,
}

/// A device that was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// A process serves it.
    #[error("a process serves the device of LUN {lun} for {initiator}: stop the array first", lun = .0.lun, initiator = export::shown_wwpn(.0.initiator))]
    Served(DeviceName),
    /// The memory of the device can't be opened.
    #[error("can't open the memory of the device of LUN {lun} for {initiator}: {source}", lun = .name.lun, initiator = export::shown_wwpn(.name.initiator))]
    Memory {
        /// The device.
        name: DeviceName,
        /// The system's error.
        source: io::Error,
    },
    /// Something else uses it.
    #[error("the device of LUN {lun} for {initiator} is used by {path}, which the array has not made: remove that first", lun = .name.lun, initiator = export::shown_wwpn(.name.initiator), path = .path.display())]
    Linked {
        /// The device.
        name: DeviceName,
        /// The link to it.
        path: PathBuf,
    },
    /// A step failed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Devices that are left after others were removed, and the steps that failed.
    #[error("{} of {count} devices are left: {}", left.len(), listed(left))]
    Left {
        /// Number of devices that were to be removed.
        count: usize,
        /// Those that are left.
        left: Vec<(DeviceName, SetupError)>,
    },
}

/// The files of a device by which the kernel ends its commands, in this order.
const ACTIONS: [&str; 2] = ["block_dev", "reset_ring"];

fn listed(left: &[(DeviceName, SetupError)]) -> String {
    let shown = |(name, error): &(DeviceName, SetupError)| {
        let (initiator, port) = (export::shown_wwpn(name.initiator), export::shown_wwpn(name.port));
        format!("LUN {} for {initiator} at {port} ({error})", name.lun)
    };
    left.iter().map(shown).collect::<Vec<_>>().join(", ")
}

impl Configfs {
    /// The devices of all arrays below a mounted configfs, by serial number. `system` is `/sys`, and `devices` `/dev`. Nothing
    /// is found where the target core is not loaded. Devices of other software are left out, whatever their names.
    ///
    /// # Errors
    /// [`RemovalError::Memory`] or [`RemovalError::Setup`]
    pub fn find_devices(
        root: impl Into<PathBuf>,
        (system, devices): (&Path, &Path),
    ) -> Result<BTreeMap<String, Vec<FoundDevice>>, RemovalError> {
        let root = root.into();
        let mut found = BTreeMap::<String, Vec<FoundDevice>>::new();
        let adapter = Configfs::new(&root, "").adapter();
        if !adapter.is_dir() {
            return Ok(found);
        }
        let mut names = entries(&adapter)?;
        names.sort();
        for text in names {
            let Some((serial, name)) = DeviceName::parse_any(&text) else { continue };
            let core = Configfs::new(&root, serial);
            if !core.is_own(&name)? {
                continue;
            }
            let is_served = matches!(core.hold(&name, (system, devices)), Err(RemovalError::Served(_)));
            found.entry(serial.to_owned()).or_default().push(FoundDevice { name, is_served });
        }
        Ok(found)
    }

    /// Whether a device was made by this array, which its configuration says, beside its name. One that was never configured
    /// says NULL.
    fn is_own(&self, name: &DeviceName) -> Result<bool, SetupError> {
        // Of the form "Status: … Config: ashlar/SERIAL Size: …".
        let info = read(&self.device(name).join("info"))?;
        let own = format!("ashlar/{}", self.serial);
        let mut words = info.split_whitespace().skip_while(|word| *word != "Config:").skip(1);
        Ok(words.next().is_some_and(|config| config == own || config == "NULL"))
    }

    /// The memory of a device, which no other process has or can get at the same time; `None` of one that was never enabled.
    fn hold(
        &self,
        name: &DeviceName,
        (system, devices): (&Path, &Path),
    ) -> Result<Option<Uio>, RemovalError> {
        match Uio::open(system, devices, &self.uio_name(name)) {
            Ok(uio) => Ok(Some(uio)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(RemovalError::Served(*name)),
            Err(source) => Err(RemovalError::Memory { name: *name, source }),
        }
    }

    /// Removes devices that no process serves, and their paths to their initiators. Commands in their rings, and
    /// those that come until then, end with BUSY. All of them are checked and held first: one that can't be removed
    /// keeps the others as they are, and an array that is started at the same time gets none.
    ///
    /// # Errors
    /// [`RemovalError`]. After [`RemovalError::Left`] what is left can be removed by the same call with the devices that
    /// [`Configfs::find_devices`] finds then; after the others nothing was changed.
    pub fn remove_unserved(&self, names: &[DeviceName], folders: (&Path, &Path)) -> Result<(), RemovalError> {
        let links = self.links()?;
        let check = |name| self.check(name, &links, folders);
        let held = names.iter().map(check).collect::<Result<Vec<_>, _>>()?;
        let mut left = Vec::new();
        for (name, held) in names.iter().zip(held) {
            match self.remove_held(name, held) {
                Ok(()) => tracing::info!(device = name.text(&self.serial), "removed"),
                Err(error) => left.push((*name, error)),
            }
        }
        match left.is_empty() {
            true => Ok(()),
            false => Err(RemovalError::Left { count: names.len(), left }),
        }
    }

    /// Checks everything about the removal of a device that can be known before; returns its memory.
    fn check(
        &self,
        name: &DeviceName,
        links: &BTreeMap<PathBuf, Vec<PathBuf>>,
        folders: (&Path, &Path),
    ) -> Result<Option<Uio>, RemovalError> {
        let held = self.hold(name, folders)?;
        if held.is_some() {
            for action in ACTIONS {
                open_attribute(&self.device(name).join("action").join(action))?;
            }
        }
        match self.strange_link(name, links)? {
            Some(path) => Err(RemovalError::Linked { name: *name, path }),
            None => Ok(held),
        }
    }

    fn remove_held(&self, name: &DeviceName, held: Option<Uio>) -> Result<(), SetupError> {
        if held.is_some() {
            // Removing a path waits for its commands, which are not served: new ones are refused, and then those that wait.
            for action in ACTIONS {
                write(&self.device(name).join("action").join(action), "1")?;
            }
        }
        for fabric in Fabric::all() {
            self.conceal(TargetPort { fabric, wwpn: name.port }, name)?;
        }
        drop(held);
        self.remove(name)
    }
}
