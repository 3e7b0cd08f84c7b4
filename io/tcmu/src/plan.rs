//! Plan of the required TCMU devices: one for each volume that an initiator port sees, at each target port.

use export::{InitiatorPort, Mapping, Registry};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of devices: each has a ring of 1 MiB and a descriptor.
pub const MAX_DEVICES: usize = 1024;

/// A device, by everything that it depends on. Its text is the name of the device in the kernel, so that it is found again
/// after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceName {
    /// The N_Port name of the initiator.
    pub initiator: u64,
    /// The N_Port name of the target port.
    pub port: u64,
    /// Logical unit number.
    pub lun: u16,
    /// Identity of the volume.
    pub disk: u128,
}

impl DeviceName {
    /// The name of the device of an array, which is known by its serial number.
    pub fn text(&self, serial: &str) -> String {
        let Self { initiator, port, lun, disk } = self;
        format!("ashlar-{serial}-{initiator:016x}-{port:016x}-{lun}-{disk:032x}")
    }

    /// The device of a name. `None` if the array has no such device.
    pub fn parse(text: &str, serial: &str) -> Option<Self> {
        Self::parse_any(text).filter(|(of, _)| *of == serial).map(|(_, name)| name)
    }

    /// The serial number of the array that a name belongs to, and its device. `None` if the name is that of no array's device.
    pub fn parse_any(text: &str) -> Option<(&str, Self)> {
        let rest = text.strip_prefix("ashlar-")?;
        let mut fields = rest.rsplitn(5, '-');
        let disk = u128::from_str_radix(fields.next()?, 16).ok()?;
        let lun = fields.next()?.parse().ok()?;
        let mut hex = || u64::from_str_radix(fields.next()?, 16).ok();
        let (port, initiator) = (hex()?, hex()?);
        let serial = fields.next()?;
        let name = Self { initiator, port, lun, disk };
        (name.text(serial) == text).then_some((serial, name))
    }
}

/// Parameters of a new device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Its size in bytes, for tools that read it in the kernel. Hosts get it from the array.
    pub bytes: u64,
}

/// The devices that there are to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Devices by name.
    pub devices: BTreeMap<DeviceName, Wanted>,
    /// Devices that are more than [`MAX_DEVICES`], and are left out.
    pub left_out: usize,
}

impl Plan {
    /// The devices of all hosts with Fibre Channel ports, at these target ports. Mapped volumes that are not exported have
    /// none.
    pub fn of(registry: &Registry, ports: &[u64]) -> Plan {
        let mut plan = Plan::default();
        for host in registry.hosts() {
            let Some(initiator) = initiator_of(host) else { continue };
            for (lun, Mapping { disk, .. }) in registry.mappings(host) {
                let Some(volume) = registry.volume(disk) else { continue };
                let geometry = volume.geometry();
                let wanted = Wanted { block_bytes: geometry.block_bytes, bytes: geometry.bytes() };
                for port in ports {
                    let name = DeviceName { initiator, port: *port, lun, disk: disk.0 };
                    match plan.devices.len() < MAX_DEVICES {
                        true => drop(plan.devices.insert(name, wanted)),
                        false => plan.left_out += 1,
                    }
                }
            }
        }
        plan
    }

    /// Devices that are to be removed, of those that there are.
    pub fn superfluous(&self, existing: &BTreeSet<DeviceName>) -> Vec<DeviceName> {
        existing.iter().filter(|name| !self.devices.contains_key(name)).copied().collect()
    }
}

/// The N_Port name of a host as exports know it.
fn initiator_of(host: &str) -> Option<u64> {
    let wwpn = export::parse_wwpn(host)?;
    (InitiatorPort::FibreChannel { wwpn }.host_name() == host).then_some(wwpn)
}

#[cfg(test)]
#[path = "plan_test.rs"]
mod tests;
