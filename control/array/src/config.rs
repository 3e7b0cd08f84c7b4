//! The configuration in memory: what the records say, in the shape that questions are asked in.

use crate::{Error, Result};
use block::DiskId;
use std::collections::BTreeMap;
use std::fmt;

/// Who this array is; random when it was formatted, the same for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What people call it.
    pub name: String,
    /// Sixteen hex digits.
    pub serial: String,
}

impl Identity {
    /// The iSCSI name of the array's one target.
    pub fn target_iqn(&self) -> String {
        format!("iqn.2026-11.io.ashlar:{}", self.serial)
    }
}

/// A secret that no log or error repeats.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// One direction of CHAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chap {
    /// The CHAP name.
    pub user: String,
    /// The shared secret.
    pub secret: Secret,
}

impl Chap {
    /// A CHAP name with its secret.
    pub fn new(user: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { user: user.into(), secret: Secret::new(secret) }
    }
}

/// Stable identity of a host; its name may change one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub u64);

/// A volume as configured; size and contents are the engine's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeEntry {
    /// Its identity in the engine.
    pub id: DiskId,
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
}

/// A host as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEntry {
    /// Its identity in the records.
    pub id: HostId,
    /// Its name.
    pub name: String,
    /// Its initiator names, normalised.
    pub initiators: Vec<String>,
    /// CHAP that the host must pass.
    pub chap: Option<Chap>,
    /// CHAP that the array passes to the host.
    pub mutual: Option<Chap>,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// What it sees, by LUN.
    pub luns: BTreeMap<u16, DiskId>,
}

/// Volumes and hosts by name.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Volumes by name.
    pub volumes: BTreeMap<String, VolumeEntry>,
    /// Hosts by name.
    pub hosts: BTreeMap<String, HostEntry>,
}

impl Config {
    /// The volume of that name.
    pub fn volume(&self, name: &str) -> Result<&VolumeEntry> {
        self.volumes.get(name).ok_or_else(|| Error::not_found(format!("there is no volume {name:?}")))
    }

    /// The host of that name.
    pub fn host(&self, name: &str) -> Result<&HostEntry> {
        self.hosts.get(name).ok_or_else(|| Error::not_found(format!("there is no host {name:?}")))
    }

    /// Refuses a volume name that is taken.
    pub fn volume_name_free(&self, name: &str) -> Result<()> {
        match self.volumes.contains_key(name) {
            true => Err(Error::conflict(format!("a volume {name:?} exists already: choose another name"))),
            false => Ok(()),
        }
    }

    /// Refuses a host name that is taken, or initiators that belong to another host.
    pub fn host_free(&self, name: &str, initiators: &[String]) -> Result<()> {
        if self.hosts.contains_key(name) {
            return Err(Error::conflict(format!("a host {name:?} exists already: choose another name")));
        }
        for host in self.hosts.values() {
            if let Some(taken) = initiators.iter().find(|name| host.initiators.contains(name)) {
                return Err(Error::conflict(format!(
                    "initiator {taken} belongs to host {:?}: use that host, or delete it first",
                    host.name
                )));
            }
        }
        Ok(())
    }

    /// Who sees which volume: for every connected volume its hosts' names and LUNs, in order of hosts.
    pub fn connections(&self) -> BTreeMap<DiskId, Vec<(&str, u16)>> {
        let mut out: BTreeMap<DiskId, Vec<(&str, u16)>> = BTreeMap::new();
        for host in self.hosts.values() {
            for (lun, id) in &host.luns {
                out.entry(*id).or_default().push((&host.name, *lun));
            }
        }
        out
    }

    /// The hosts that see one volume, with the LUN each has given it.
    pub fn connections_of(&self, id: DiskId) -> Vec<(&str, u16)> {
        let lun = |host: &HostEntry| host.luns.iter().find(|(_, disk)| **disk == id).map(|(lun, _)| *lun);
        self.hosts.values().filter_map(|host| Some((host.name.as_str(), lun(host)?))).collect()
    }
}

impl HostEntry {
    /// The lowest LUN that is free.
    pub fn free_lun(&self) -> Option<u16> {
        (0..=crate::check::MAX_LUN).find(|lun| !self.luns.contains_key(lun))
    }

    /// The LUN under which this host sees a volume.
    pub fn lun_of(&self, id: DiskId) -> Option<u16> {
        self.luns.iter().find(|(_, disk)| **disk == id).map(|(lun, _)| *lun)
    }
}
