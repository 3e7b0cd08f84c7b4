//! Devices that an array left in the kernel, for example after a crash without a restart: finds them, and removes them
//! without the array.

use crate::configfs::{Configfs, Fabric, SetupError, TargetPort, entries, open_attribute, read, write};
use crate::plan::DeviceName;
use crate::uio::Uio;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// A device of an array in the kernel, and whether a process serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// Name of the device.
    pub name: DeviceName,
    /// Whether a process serves the device.
    pub is_served: bool,
}

/// Reason why a device was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// A process serves the device.
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
    /// Another object uses the device.
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
    /// Devices that remain after others were removed, with the failed steps.
    #[error("{} of {count} devices are left: {}", left.len(), listed(left))]
    Left {
        /// Number of devices to remove.
        count: usize,
        /// The remaining devices.
        left: Vec<(DeviceName, SetupError)>,
    },
}

/// Files of a device that end its commands, in this order.
const ACTIONS: [&str; 2] = ["block_dev", "reset_ring"];

fn listed(left: &[(DeviceName, SetupError)]) -> String {
    let shown = |(name, error): &(DeviceName, SetupError)| {
        let (initiator, port) = (export::shown_wwpn(name.initiator), export::shown_wwpn(name.port));
        format!("LUN {} for {initiator} at {port} ({error})", name.lun)
    };
    left.iter().map(shown).collect::<Vec<_>>().join(", ")
}

impl Configfs {
    /// The devices of all arrays below a mounted configfs, by serial number. `system` is `/sys`, and `devices` `/dev`.
    /// Empty if the target core is not loaded. Devices of other software are excluded by their configuration.
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

    /// Whether this array created a device, according to its configuration. A device that was never configured has NULL
    /// there.
    fn is_own(&self, name: &DeviceName) -> Result<bool, SetupError> {
        // Format: "Status: … Config: ashlar/SERIAL Size: …".
        let info = read(&self.device(name).join("info"))?;
        let own = format!("ashlar/{}", self.serial);
        let mut words = info.split_whitespace().skip_while(|word| *word != "Config:").skip(1);
        Ok(words.next().is_some_and(|config| config == own || config == "NULL"))
    }

    /// Opens the memory of a device exclusively; `None` for a device that was never enabled.
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

    /// Removes devices that no process serves, and their paths to their initiators. Commands in their rings, and later
    /// ones, end with BUSY. All devices are checked and held first: a device that can't be removed leaves the others
    /// unchanged, and an array that starts at the same time can't open them.
    ///
    /// # Errors
    /// [`RemovalError`]. After [`RemovalError::Left`], the same call with the devices that [`Configfs::find_devices`]
    /// then returns removes the rest; after other errors nothing was changed.
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

    /// Makes all checks that are possible before the removal of a device; returns its memory.
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
            // Removing a path waits for its commands, which no process serves: new ones are refused, then waiting ones.
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
