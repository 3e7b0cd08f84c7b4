//! VPD page 8Fh, Third-Party Copy (SPC-5 7.7.18): what the copy manager supports, and its limits.

use super::{
    GRANULARITY, MAX_COPIES, MAX_CSCDS, MAX_DESCRIPTOR_BYTES, MAX_SEGMENT_BYTES, MAX_SEGMENTS, list,
};
use crate::commands::rod;
use crate::encoding::token::RodType;
use crate::unit::path::Path;

/// Descriptor types of the page.
mod kind {
    pub(super) const BLOCK_ROD_LIMITS: u16 = 0x0000;
    pub(super) const SUPPORTED_COMMANDS: u16 = 0x0001;
    pub(super) const PARAMETER_DATA: u16 = 0x0004;
    pub(super) const SUPPORTED_DESCRIPTORS: u16 = 0x0008;
    pub(super) const SUPPORTED_CSCD_IDS: u16 = 0x000C;
    pub(super) const ROD_TOKEN_FEATURES: u16 = 0x0106;
    pub(super) const SUPPORTED_ROD_TYPES: u16 = 0x0108;
    pub(super) const GENERAL_COPIES: u16 = 0x8001;
}

/// The third-party copy commands with their service actions, as the command table has them.
const COMMANDS: [(u8, &[u8]); 2] =
    [(0x83, &[0x00, 0x01, 0x10, 0x11, 0x1C]), (0x84, &[0x00, 0x03, 0x04, 0x05, 0x07, 0x08])];

/// The page.
pub(crate) fn third_party_copy_page(path: &Path) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut put = |kind: u16, body: &[u8]| descriptor(&mut out, kind, body);
    put(kind::BLOCK_ROD_LIMITS, &block_rod_limits(path.unit.block_bytes));
    let commands: Vec<u8> = COMMANDS
        .iter()
        .flat_map(|(opcode, actions)| {
            [*opcode, actions.len() as u8].into_iter().chain(actions.iter().copied())
        })
        .collect();
    put(kind::SUPPORTED_COMMANDS, &counted(&commands));
    let mut limits = vec![0; 28];
    limits[4..6].copy_from_slice(&(MAX_CSCDS as u16).to_be_bytes());
    limits[6..8].copy_from_slice(&(MAX_SEGMENTS as u16).to_be_bytes());
    limits[8..12].copy_from_slice(&(MAX_DESCRIPTOR_BYTES as u32).to_be_bytes());
    put(kind::PARAMETER_DATA, &limits);
    put(kind::SUPPORTED_DESCRIPTORS, &counted(&list::DESCRIPTORS));
    put(kind::SUPPORTED_CSCD_IDS, &[&[0, 2], &list::RECEIVER.to_be_bytes()[..]].concat());
    put(kind::ROD_TOKEN_FEATURES, &rod_token_features(path.unit.block_bytes));
    put(kind::SUPPORTED_ROD_TYPES, &rod_types());
    let mut general = vec![0; 32];
    general[..4].copy_from_slice(&u32::from(MAX_COPIES).to_be_bytes());
    general[4..8].copy_from_slice(&u32::from(MAX_COPIES).to_be_bytes());
    general[8..12].copy_from_slice(&(MAX_SEGMENT_BYTES as u32).to_be_bytes());
    general[12] = GRANULARITY;
    put(kind::GENERAL_COPIES, &general);
    out
}

/// Block Device ROD Token Limits (SBC-4 6.6.6)
fn block_rod_limits(block_bytes: u32) -> Vec<u8> {
    let mut out = vec![0; 32];
    out[6..8].copy_from_slice(&(rod::MAX_RANGES as u16).to_be_bytes());
    out[8..12].copy_from_slice(&rod::MAX_INACTIVITY_SECONDS.to_be_bytes());
    out[12..16].copy_from_slice(&rod::DEFAULT_INACTIVITY_SECONDS.to_be_bytes());
    out[16..24].copy_from_slice(&(rod::MAX_TOKEN_BYTES / u64::from(block_bytes)).to_be_bytes());
    out[24..32].copy_from_slice(&(rod::OPTIMAL_TOKEN_BYTES / u64::from(block_bytes)).to_be_bytes());
    out
}

/// ROD Token Features (SPC-5 7.7.18.8): tokens of other copy managers are not taken, and lifetimes are not limited but by
/// inactivity.
fn rod_token_features(block_bytes: u32) -> Vec<u8> {
    let mut out = vec![0; 44];
    out[12..16].copy_from_slice(&1u32.to_be_bytes()); // minimum lifetime
    out[16..20].copy_from_slice(&u32::MAX.to_be_bytes()); // maximum lifetime
    out[20..24].copy_from_slice(&rod::MAX_INACTIVITY_SECONDS.to_be_bytes());
    let mut block = vec![0; 48];
    block[3] = 44;
    let granularity = (export::PROVISIONING_BLOCK_BYTES / block_bytes).max(1);
    block[6..8].copy_from_slice(&(granularity as u16).to_be_bytes());
    block[8..16].copy_from_slice(&rod::MAX_TOKEN_BYTES.to_be_bytes());
    for at in [16, 24, 32] {
        block[at..at + 8].copy_from_slice(&rod::OPTIMAL_TOKEN_BYTES.to_be_bytes());
    }
    out[42..44].copy_from_slice(&(block.len() as u16).to_be_bytes());
    out.extend_from_slice(&block);
    out
}

/// Supported ROD Types (SPC-5 7.7.18.9)
fn rod_types() -> Vec<u8> {
    const TOKEN_IN: u8 = 0x02;
    const TOKEN_OUT: u8 = 0x01;
    let types = [(RodType::PointInTime, TOKEN_IN | TOKEN_OUT), (RodType::BlockZero, TOKEN_IN)];
    let mut out = vec![0, 0, 0, (64 * types.len()) as u8];
    for (kind, flags) in types {
        let mut one = [0; 64];
        one[..4].copy_from_slice(&(kind as u32).to_be_bytes());
        one[4] = flags;
        out.extend_from_slice(&one);
    }
    out
}

/// A list after the byte of its length.
fn counted(list: &[u8]) -> Vec<u8> {
    [&[list.len() as u8], list].concat()
}

/// One descriptor: type, length, body padded so that the whole is a multiple of four long.
fn descriptor(out: &mut Vec<u8>, kind: u16, body: &[u8]) {
    let length = body.len().next_multiple_of(4);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(length as u16).to_be_bytes());
    out.extend_from_slice(body);
    out.resize(out.len() + length - body.len(), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::opcode::TABLE;

    #[test]
    fn the_supported_commands_are_those_of_the_command_table() {
        for (opcode, actions) in COMMANDS {
            let rows = TABLE.iter().filter(|row| row.opcode == opcode);
            assert_eq!(rows.filter_map(|row| row.action).collect::<Vec<_>>(), actions);
        }
    }
}
