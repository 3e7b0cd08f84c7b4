//! Vital product data pages (SPC-5 7.7, SBC-4 6.6).

use crate::InitiatorPort;
use crate::encoding::identity::{TargetIdentity, naa_bytes, serial_number};
use crate::unit::Unit;
use crate::unit::path::Path;
use crate::{commands::copy, commands::provisioning, encoding::block_limits};
use block::DiskId;

type Page = fn(&Path) -> Vec<u8>;

/// The pages that say which unit it is.
pub(super) const SERIAL_NUMBER: u8 = 0x80;
pub(super) const IDENTIFICATION: u8 = 0x83;

/// Page codes in ascending order, as page 00h lists them.
const PAGES: [(u8, Page); 9] = [
    (0x00, supported_pages),
    (SERIAL_NUMBER, unit_serial_number),
    (IDENTIFICATION, device_identification),
    (0x86, extended_inquiry_data),
    (0x87, mode_page_policy),
    (0x8F, copy::third_party_copy_page),
    (0xB0, block_limits),
    (0xB1, block_device_characteristics),
    (0xB2, provisioning::provisioning_page),
];

/// The page with its header; `None` if there is no such page.
pub(super) fn page(code: u8, path: &Path) -> Option<Vec<u8>> {
    let (_, make) = PAGES.iter().find(|(known, _)| *known == code)?;
    let body = make(path);
    let mut out = vec![super::DISK, code];
    out.extend_from_slice(&(body.len() as u16).to_be_bytes());
    out.extend_from_slice(&body);
    Some(out)
}

fn supported_pages(_: &Path) -> Vec<u8> {
    PAGES.iter().map(|(code, _)| *code).collect()
}

fn unit_serial_number(path: &Path) -> Vec<u8> {
    serial_number(path.unit.id).into_bytes()
}

/// The vendor specific part of the T10 name. Some hosts compare its first 8 characters only, so these hold the
/// 40 lowest bits of the identity by themselves.
fn t10_name(identity: &TargetIdentity, id: DiskId) -> Vec<u8> {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut out = vec![0; 8];
    super::put_text(&mut out, &identity.vendor);
    out.extend((0..8).rev().map(|place| DIGITS[(id.0 >> (5 * place)) as usize & 31]));
    out.extend_from_slice(serial_number(id).as_bytes());
    out
}

/// Protocol identifiers of designators of ports (SPC-5 7.6.1).
const FIBRE_CHANNEL: u8 = 0x00;
const ISCSI: u8 = 0x50;

/// Designator association (SPC-5 7.7.6.1).
#[derive(Clone, Copy)]
enum Association {
    Unit = 0x00,
    Port = 0x10,
    Device = 0x20,
}

/// Page 83h: the names of the unit, of the port the command came by, and of the device.
fn device_identification(path: &Path) -> Vec<u8> {
    let (unit, name) = (&path.unit, &path.unit.identity.name);
    let port = path.port().to_be_bytes();
    let mut out = unit_designators(unit);
    let by_fibre_channel = matches!(path.nexus.initiator, InitiatorPort::FibreChannel { .. });
    let protocol = if by_fibre_channel { FIBRE_CHANNEL } else { ISCSI };
    designator(&mut out, protocol | 0x01, Association::Port, 0x04, &[0, 0, port[0], port[1]]);
    let group = unit.identity.ports.group_of(path.port()).to_be_bytes();
    designator(&mut out, protocol | 0x01, Association::Port, 0x05, &[0, 0, group[0], group[1]]);
    if by_fibre_channel {
        // An N_Port name is an NAA designator (FC-FS 14; SPC-5 7.7.6.6).
        if let Some(name) = unit.identity.ports.n_port_name(path.port()) {
            designator(&mut out, FIBRE_CHANNEL | 0x01, Association::Port, 0x03, &name.to_be_bytes());
        }
    } else {
        let port = terminated(format!("{name},t,0x{:04x}", path.port()));
        designator(&mut out, ISCSI | 0x03, Association::Port, 0x08, &port);
    }
    designator(&mut out, ISCSI | 0x03, Association::Device, 0x08, &terminated(name.clone()));
    out
}

/// The designators of the unit itself.
fn unit_designators(unit: &Unit) -> Vec<u8> {
    let (naa, name) = (naa_bytes(unit.id), format!("naa.{:032X}", u128::from_be_bytes(naa_bytes(unit.id))));
    let mut out = Vec::with_capacity(256);
    designator(&mut out, 0x01, Association::Unit, 0x03, &naa);
    designator(&mut out, 0x02, Association::Unit, 0x01, &t10_name(&unit.identity, unit.id));
    designator(&mut out, 0x03, Association::Unit, 0x08, &terminated(name));
    out
}

/// One designator: protocol and code set, PIV with the association where it is a port's, type, length, bytes.
fn designator(out: &mut Vec<u8>, set: u8, association: Association, kind: u8, bytes: &[u8]) {
    let piv = if matches!(association, Association::Unit) { 0 } else { 0x80 };
    out.extend_from_slice(&[set, piv | association as u8 | kind, 0, bytes.len() as u8]);
    out.extend_from_slice(bytes);
}

/// A SCSI name string: UTF-8 with at least one zero byte, a multiple of four long (SPC-5 7.7.6.11).
fn terminated(text: String) -> Vec<u8> {
    let mut out = text.into_bytes();
    out.truncate(248);
    out.resize((out.len() / 4 + 1) * 4, 0);
    out
}

/// Page 86h (SPC-5 7.7.7).
fn extended_inquiry_data(_: &Path) -> Vec<u8> {
    let mut out = vec![0; 60];
    out[1] = 0x07; // SIMPSUP, ORDSUP, HEADSUP
    out
}

/// Page 87h: every mode page is shared by all initiators (SPC-5 7.7.9).
fn mode_page_policy(_: &Path) -> Vec<u8> {
    vec![0x3F, 0xFF, 0x00, 0x00]
}

/// Page B0h (SBC-4 6.6.4).
fn block_limits(path: &Path) -> Vec<u8> {
    let limits = block_limits::BlockLimits::of(path.unit.block_bytes);
    let mut out = vec![0; 60];
    out[0] = 0x01; // WSNZ: WRITE SAME of zero blocks is refused
    out[1] = block_limits::COMPARE_AND_WRITE_BLOCKS;
    let mut put = |at: usize, value: u32| out[at - 4..at].copy_from_slice(&value.to_be_bytes());
    put(8, limits.transfer);
    put(12, limits.optimal_transfer);
    put(16, limits.transfer); // prefetch
    put(20, limits.unmap_blocks);
    put(24, block_limits::UNMAP_DESCRIPTORS);
    put(28, limits.granularity);
    put(32, 0x8000_0000); // UGAVALID, alignment 0
    put(44, limits.atomic_transfer);
    // Bytes 48 to 63: atomic writes have any alignment and granularity, and no boundaries.
    out[2..4].copy_from_slice(&(limits.granularity as u16).to_be_bytes());
    out[32..40].copy_from_slice(&limits.write_same.to_be_bytes());
    out
}

/// Page B1h (SBC-4 6.6.2): not rotating, form factor not reported.
fn block_device_characteristics(_: &Path) -> Vec<u8> {
    let mut out = vec![0; 60];
    out[0..2].copy_from_slice(&1u16.to_be_bytes()); // non-rotating medium
    out
}
