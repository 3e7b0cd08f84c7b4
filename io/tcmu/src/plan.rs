//! Plan of the required TCMU devices: one for each volume that an initiator port sees, at each target port.

use export::{InitiatorPort, Mapping, Registry};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of devices: each has a ring of 1 MiB and a descriptor.
pub const MAX_DEVICES: usize = 1024;

/// Identity of a device: everything that it depends on. Its text is the device's name in the kernel, which identifies
/// it after a restart.
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
    /// Name of the device, with the serial number of its array.
    pub fn text(&self, serial: &str) -> String {
        let Self { initiator, port, lun, disk } = self;
        format!("ashlar-{serial}-{initiator:016x}-{port:016x}-{lun}-{disk:032x}")
    }

    /// Parses a device name of this array; `None` for other names.
    pub fn parse(text: &str, serial: &str) -> Option<Self> {
        Self::parse_any(text).filter(|(of, _)| *of == serial).map(|(_, name)| name)
    }

    /// Parses a device name of any array: its serial number, and the device. `None` for other names.
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
    /// Size in bytes, for tools that read it in the kernel. The array reports the size to hosts.
    pub bytes: u64,
}

/// The required devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Devices by name.
    pub devices: BTreeMap<DeviceName, Wanted>,
    /// Number of devices beyond [`MAX_DEVICES`], which are left out.
    pub left_out: usize,
}

impl Plan {
    /// The devices of all hosts with Fibre Channel ports, at these target ports. Mapped volumes that are not exported
    /// are left out.
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

    /// Existing devices that are no longer required.
    pub fn superfluous(&self, existing: &BTreeSet<DeviceName>) -> Vec<DeviceName> {
        existing.iter().filter(|name| !self.devices.contains_key(name)).copied().collect()
    }
}

/// The N_Port name in a host's name.
fn initiator_of(host: &str) -> Option<u64> {
    let wwpn = export::parse_wwpn(host)?;
    (InitiatorPort::FibreChannel { wwpn }.host_name() == host).then_some(wwpn)
}

#[cfg(test)]
#[path = "plan_test.rs"]
mod tests;
