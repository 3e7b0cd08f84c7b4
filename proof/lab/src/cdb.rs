//! SCSI commands of the clients as CDBs (SPC-5, SBC-4).

use crate::libiscsi::{Command, Transfer};

fn command(lun: u16, cdb: Vec<u8>, transfer: Transfer) -> Command {
    Command { lun, cdb, transfer }
}

/// Opcode, one byte of flags, a 64-bit LBA and a 32-bit length: the layout of most 16-byte commands.
fn cdb16(opcode: u8, flags: u8, lba: u64, length: u32) -> Vec<u8> {
    let mut cdb = vec![opcode, flags];
    cdb.extend(lba.to_be_bytes());
    cdb.extend(length.to_be_bytes());
    cdb.extend([0, 0]);
    cdb
}

/// TEST UNIT READY
pub fn test_unit_ready(lun: u16) -> Command {
    command(lun, vec![0; 6], Transfer::None)
}

/// READ (16)
pub fn read(lun: u16, lba: u64, blocks: u32, block_bytes: u32) -> Command {
    let bytes = blocks as usize * block_bytes as usize;
    command(lun, cdb16(0x88, 0, lba, blocks), Transfer::In(bytes))
}

/// WRITE (16), optionally with FUA.
pub fn write(lun: u16, lba: u64, blocks: u32, fua: bool, data: Vec<u8>) -> Command {
    command(lun, cdb16(0x8a, if fua { 8 } else { 0 }, lba, blocks), Transfer::Out(data))
}

/// WRITE SAME (16) with a data block, or with NDOB for zeros; `unmap` requests deallocation.
pub fn write_same(lun: u16, lba: u64, blocks: u32, unmap: bool, block: Option<Vec<u8>>) -> Command {
    let flags = if unmap { 8 } else { 0 } | if block.is_none() { 1 } else { 0 };
    let transfer = block.map_or(Transfer::None, Transfer::Out);
    command(lun, cdb16(0x93, flags, lba, blocks), transfer)
}

/// UNMAP of runs of (LBA, blocks).
pub fn unmap(lun: u16, runs: &[(u64, u32)]) -> Command {
    let descriptors = 16 * runs.len() as u16;
    let mut list = Vec::new();
    list.extend((descriptors + 6).to_be_bytes());
    list.extend(descriptors.to_be_bytes());
    list.extend([0; 4]);
    for (lba, blocks) in runs {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    let mut cdb = vec![0x42, 0, 0, 0, 0, 0, 0];
    cdb.extend((list.len() as u16).to_be_bytes());
    cdb.push(0);
    command(lun, cdb, Transfer::Out(list))
}

/// COMPARE AND WRITE of `blocks` blocks; `data` has the blocks to compare, then those to write.
pub fn compare_and_write(lun: u16, lba: u64, blocks: u8, data: Vec<u8>) -> Command {
    command(lun, cdb16(0x89, 0, lba, blocks.into()), Transfer::Out(data))
}

/// PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY; with APTPL it persists through a loss of power.
pub fn register(lun: u16, key: u64, aptpl: bool) -> Command {
    let list = [[0; 8], key.to_be_bytes(), [0, 0, 0, 0, u8::from(aptpl), 0, 0, 0]].concat();
    command(lun, vec![0x5F, 6, 0, 0, 0, 0, 0, 0, list.len() as u8, 0], Transfer::Out(list))
}

/// Reservation types shared by all paths of a host: the access that they exclude for unregistered hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusive {
    /// Write Exclusive, Registrants Only.
    Writes = 5,
    /// Exclusive Access, Registrants Only.
    Access = 6,
}

/// PERSISTENT RESERVE OUT, RESERVE, on a path that has registered this key.
pub fn reserve(lun: u16, key: u64, kind: Exclusive) -> Command {
    persistent_reserve_out(lun, 1, key, kind)
}

/// PERSISTENT RESERVE OUT, RELEASE, on a path that has registered this key.
pub fn release(lun: u16, key: u64, kind: Exclusive) -> Command {
    persistent_reserve_out(lun, 2, key, kind)
}

fn persistent_reserve_out(lun: u16, action: u8, key: u64, kind: Exclusive) -> Command {
    let list = [key.to_be_bytes(), [0; 8], [0; 8]].concat();
    command(lun, vec![0x5F, action, kind as u8, 0, 0, 0, 0, 0, list.len() as u8, 0], Transfer::Out(list))
}

/// PERSISTENT RESERVE IN, READ KEYS.
pub fn read_keys(lun: u16) -> Command {
    command(lun, vec![0x5E, 0, 0, 0, 0, 0, 0, 1, 0, 0], Transfer::In(256))
}

/// SYNCHRONIZE CACHE (16) of the whole unit.
pub fn synchronize(lun: u16) -> Command {
    command(lun, cdb16(0x91, 0, 0, 0), Transfer::None)
}

/// READ CAPACITY (16), SBC-4 5.21.
pub fn read_capacity(lun: u16) -> Command {
    command(lun, cdb16(0x9e, 0x10, 0, 32), Transfer::In(32))
}

/// REPORT TARGET PORT GROUPS, SPC-5 6.36.
pub fn target_port_groups(lun: u16) -> Command {
    let cdb = vec![0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
    command(lun, cdb, Transfer::In(1024))
}

/// Asymmetric access states of the groups in a response; zero is active/optimized.
pub fn access_states(answer: &[u8]) -> Vec<u8> {
    let mut rest = answer.get(4..).unwrap_or_default();
    if let Some(length) = answer.first_chunk() {
        rest = &rest[..rest.len().min(u32::from_be_bytes(*length) as usize)];
    }
    let mut states = Vec::new();
    while let [state, _, _, _, _, _, _, ports, more @ ..] = rest {
        states.push(state & 0x0f);
        rest = more.get(4 * usize::from(*ports)..).unwrap_or_default();
    }
    states
}

/// Number of blocks, and block length in bytes, in a response.
pub fn capacity(answer: &[u8]) -> Option<(u64, u32)> {
    let last = u64::from_be_bytes(*answer.first_chunk()?);
    let block_bytes = u32::from_be_bytes(*answer.get(8..)?.first_chunk()?);
    Some((last.checked_add(1)?, block_bytes))
}

/// INQUIRY of VPD page 83.
pub fn inquiry_identification(lun: u16) -> Command {
    command(lun, vec![0x12, 1, 0x83, 4, 0, 0], Transfer::In(1024))
}

/// The NAA designator in VPD page 83, which identifies the unit in EXTENDED COPY.
pub fn naa(page: &[u8]) -> Option<Vec<u8>> {
    let mut rest = page.get(4..)?;
    while let [set, kind, _, len, ..] = *rest {
        let designator = rest.get(4..4 + usize::from(len))?;
        // Code set binary, associated with the logical unit, type NAA.
        if set & 0x0f == 1 && kind & 0x3f == 3 {
            return Some(designator.to_vec());
        }
        rest = rest.get(4 + usize::from(len)..)?;
    }
    None
}

/// One segment of an EXTENDED COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Index of the source unit.
    pub source: u16,
    /// First source block.
    pub source_lba: u64,
    /// Index of the target unit.
    pub target: u16,
    /// First target block.
    pub target_lba: u64,
    /// Number of blocks.
    pub blocks: u16,
}

/// EXTENDED COPY (LID1) between units identified by NAA designators, with block-to-block segments. Concurrent copies in
/// one session need different list identifiers.
pub fn extended_copy(
    lun: u16,
    list_id: u8,
    units: &[&[u8]],
    block_bytes: u32,
    segments: &[Segment],
) -> Command {
    let mut list = vec![list_id, 0];
    list.extend((32 * units.len() as u16).to_be_bytes());
    list.extend([0; 4]);
    list.extend((28 * segments.len() as u32).to_be_bytes());
    list.extend([0; 4]);
    for naa in units {
        let mut descriptor = vec![0xe4, 0, 0, 0, 1, 3, 0, naa.len() as u8];
        descriptor.extend(*naa);
        descriptor.resize(28, 0);
        descriptor.extend(block_bytes.to_be_bytes());
        list.append(&mut descriptor);
    }
    for segment in segments {
        list.extend([0x02, 0x02, 0, 0x18]);
        list.extend(segment.source.to_be_bytes());
        list.extend(segment.target.to_be_bytes());
        list.extend([0, 0]);
        list.extend(segment.blocks.to_be_bytes());
        list.extend(segment.source_lba.to_be_bytes());
        list.extend(segment.target_lba.to_be_bytes());
    }
    let mut cdb = vec![0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb.extend((list.len() as u32).to_be_bytes());
    cdb.extend([0, 0]);
    command(lun, cdb, Transfer::Out(list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_is_the_last_block_and_one_more() {
        let mut answer = [0; 32];
        (answer[7], answer[10]) = (9, 2);
        assert_eq!(capacity(&answer), Some((10, 512)));
        answer[..8].fill(0xff);
        assert_eq!(capacity(&answer), None, "no unit has this many");
        assert_eq!(capacity(&answer[..11]), None);
    }
}
