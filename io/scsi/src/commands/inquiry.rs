//! INQUIRY (SPC-5 6.7): the standard data and the vital product data pages.

mod vpd;

use crate::encoding::identity::TargetIdentity;
use crate::encoding::sense::Fault;
use crate::unit::command::{Flow, Request};
use crate::unit::gate;

/// Peripheral qualifier and device type of a direct access block device.
pub(crate) const DISK: u8 = 0x00;

/// The same of an address that has no device: qualifier 011b, type 1Fh.
pub(crate) const NO_DEVICE: u8 = 0x7F;

/// Version descriptors of the standards that the target conforms to (SPC-5 6.7.2).
const VERSIONS: [u16; 4] = [
    0x00A0, // SAM-5
    0x0960, // iSCSI
    0x0460, // SPC-4
    0x04C0, // SBC-3
];

/// INQUIRY
pub(crate) fn inquiry(request: Request<'_>) -> Result<Flow, Fault> {
    let (vital, page) = (request.cdb.bit(1, 0x01), request.cdb.u8(2));
    match (vital, page) {
        (true, page) => {
            let data = vpd::page(page, request.path).ok_or(Fault::cdb_byte(2))?;
            if [vpd::SERIAL_NUMBER, vpd::IDENTIFICATION].contains(&page) {
                request.path.gate.set(gate::REPLACED, false);
            }
            Ok(Flow::data(data))
        }
        (false, 0) => Ok(Flow::data(standard(&request.path.unit.identity, DISK))),
        (false, _) => Err(Fault::cdb_byte(2)),
    }
}

/// Standard INQUIRY data of 96 bytes.
pub(crate) fn standard(identity: &TargetIdentity, peripheral: u8) -> Vec<u8> {
    let mut out = vec![0; 96];
    out[0] = peripheral;
    out[2] = 0x06; // SPC-4
    out[3] = 0x12; // hierarchical addressing (HISUP), response data format 2
    out[4] = 96 - 5;
    out[5] = 0x18; // TPGS: implicit; third-party copy (3PC)
    out[6] = 0x10; // MULTIP
    out[7] = 0x02; // CMDQUE
    put_text(&mut out[8..16], &identity.vendor);
    put_text(&mut out[16..32], &identity.product);
    put_text(&mut out[32..36], &identity.revision);
    for (slot, version) in out[58..74].chunks_exact_mut(2).zip(VERSIONS) {
        slot.copy_from_slice(&version.to_be_bytes());
    }
    out
}

/// Left-aligned ASCII, padded with spaces.
fn put_text(out: &mut [u8], text: &str) {
    let bytes = text.bytes().map(|byte| if byte.is_ascii_graphic() { byte } else { b' ' });
    out.iter_mut().zip(bytes.chain(std::iter::repeat(b' '))).for_each(|(slot, byte)| *slot = byte);
}

#[cfg(test)]
#[path = "inquiry_test.rs"]
mod tests;
