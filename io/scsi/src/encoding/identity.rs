//! The names by which hosts know the target device and its logical units.

use crate::PortGroups;
use block::DiskId;

/// Names by which the target identifies itself.
#[derive(Clone, Debug)]
pub struct TargetIdentity {
    /// The target's iSCSI name.
    pub name: String,
    /// T10 vendor identification, at most 8 ASCII characters.
    pub vendor: String,
    /// Product identification, at most 16 ASCII characters; the same for every unit (ESXi compares it before it
    /// copies between units).
    pub product: String,
    /// Product revision level, at most 4 ASCII characters.
    pub revision: String,
    /// The target ports, in groups.
    pub ports: PortGroups,
}

/// The name by which hosts know the unit of a disk: "naa." and the 32 hexadecimal digits of VPD page 83h.
pub fn naa(id: DiskId) -> String {
    format!("naa.{:032x}", u128::from_be_bytes(naa_bytes(id)))
}

/// The serial number by which hosts know the unit of a disk (VPD page 80h): 25 hexadecimal digits.
pub fn serial_number(id: DiskId) -> String {
    format!("{:025x}", id.0 & VENDOR_PART)
}

/// The 100 bits that NAA 6 leaves to the vendor.
const VENDOR_PART: u128 = (1 << 100) - 1;

/// The company identifier in the names. It is locally administered (IEEE 802), so no vendor has it.
const COMPANY: u128 = 0x02_A5_1A;

/// The unit's NAA IEEE Registered Extended name (SPC-5 7.7.6.6.5).
pub(crate) fn naa_bytes(id: DiskId) -> [u8; 16] {
    (0x6 << 124 | COMPANY << 100 | id.0 & VENDOR_PART).to_be_bytes()
}
