//! Upper bounds on the data of a command by its CDB, before it begins. A transport requests no more Data-Out than that,
//! and reserves memory for it.

use crate::commands::verify::CHUNK_BYTES;
use crate::encoding::block_limits::BlockLimits;
use crate::encoding::cdb::Cdb;
use crate::server::opcode;
use crate::unit::row::Transfer;
use crate::{Lun, Nexus};
use bytes::Bytes;

/// Maximum Data-In bytes of a command other than READ: every possible logical unit in REPORT LUNS takes half of it.
const MAX_PARAMETER_BYTES: u64 = 256 << 10;
/// The block length for the bound of a command to a unit that does not exist.
const ABSENT_BLOCK_BYTES: u32 = 512;

/// Upper bounds on the data of a command in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferBound {
    /// Data-Out that the command uses. If more than the CDB asks for is an error, this is a block more, so that the
    /// device server detects it.
    pub data_out: u64,
    /// Data-In that the command produces, or data that it reads for itself.
    pub data_in: u64,
}

impl Nexus {
    /// The bounds of a command by its CDB. They are zero for a command that will be refused.
    pub fn transfer_bound(&self, lun: Lun, cdb: &Bytes) -> TransferBound {
        transfer_bound(&Cdb::new(cdb.clone()), self.block_bytes(lun))
    }
}

/// Block lengths of units.
const BLOCK_BYTES: [u32; 2] = [512, 4096];

impl TransferBound {
    /// The bounds of a command to a unit that another controller has, whatever its block length is.
    pub fn of_any_unit(cdb: &Bytes) -> Self {
        let cdb = Cdb::new(cdb.clone());
        let bounds = BLOCK_BYTES.map(|length| transfer_bound(&cdb, Some(length)));
        bounds.into_iter().fold(Self::default(), |most, it| Self {
            data_out: most.data_out.max(it.data_out),
            data_in: most.data_in.max(it.data_in),
        })
    }
}

fn transfer_bound(cdb: &Cdb, block_bytes: Option<u32>) -> TransferBound {
    let Some(row) = opcode::find(cdb) else { return TransferBound::default() };
    if let Some(allocation) = row.allocation(cdb) {
        return TransferBound { data_out: 0, data_in: allocation.min(MAX_PARAMETER_BYTES) };
    }
    let length = block_bytes.unwrap_or(ABSENT_BLOCK_BYTES);
    let fits = row.extent(cdb).blocks <= BlockLimits::of(length).transfer.into();
    match (row.transfer, block_bytes) {
        (Transfer::BlocksIn(_), Some(length)) if fits => {
            TransferBound { data_out: 0, data_in: row.extent(cdb).blocks * u64::from(length) }
        }
        (Transfer::BlocksIn(_), _) | (_, None) => TransferBound::default(),
        (Transfer::BlocksOut(_), _) if !fits => TransferBound::default(),
        (Transfer::None, _) => TransferBound { data_out: 0, data_in: 64 },
        _ => {
            let excess = if row.exact() { u64::from(length) } else { 0 };
            // A comparison reads and copies a chunk at a time.
            let compared = match row.opcode {
                0x2E | 0x2F | 0x8E | 0x8F | 0xAE | 0xAF => row.extent(cdb).blocks * u64::from(length),
                _ => 0,
            };
            TransferBound {
                data_out: row.data_out(cdb, length) + excess,
                data_in: 2 * compared.min(CHUNK_BYTES),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> TransferBound {
        transfer_bound(&Cdb::new(Bytes::copy_from_slice(bytes)), Some(512))
    }

    fn rw(opcode: u8, blocks: u32) -> TransferBound {
        let [a, b, c, d] = blocks.to_be_bytes();
        of(&[opcode, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d, 0, 0])
    }

    #[test]
    fn reads_and_writes_take_their_blocks() {
        assert_eq!(rw(0x88, 9), TransferBound { data_out: 0, data_in: 9 * 512 });
        assert_eq!(rw(0x8a, 9), TransferBound { data_out: 9 * 512, data_in: 0 });
        assert_eq!(rw(0x8a, 65_536), TransferBound { data_out: 32 << 20, data_in: 0 });
    }

    #[test]
    fn what_will_be_refused_takes_nothing() {
        for demand in [rw(0x88, 65_537), rw(0x8a, u32::MAX), of(&[0xff; 16]), of(&[0; 0])] {
            assert_eq!(demand.data_out, 0);
            assert!(demand.data_in <= 64);
        }
        let write = Bytes::from_static(&[0x2a, 0, 0, 0, 0, 0, 0, 0, 9, 0]);
        assert_eq!(transfer_bound(&Cdb::new(write), None), TransferBound::default());
    }

    #[test]
    fn a_unit_elsewhere_may_have_either_block_length() {
        let bound = |bytes: &[u8]| TransferBound::of_any_unit(&Bytes::copy_from_slice(bytes));
        let write = |blocks: u32| {
            let [a, b, c, d] = blocks.to_be_bytes();
            bound(&[0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d, 0, 0])
        };
        assert_eq!(write(9).data_out, 9 * 4096);
        assert_eq!(write(65_536).data_out, 32 << 20, "as many blocks of 4096 bytes are too many");
        assert_eq!(write(u32::MAX).data_out, 0);
    }

    #[test]
    fn an_allocation_length_is_no_amount_of_memory() {
        let report_luns = [0xa0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0];
        assert_eq!(of(&report_luns).data_in, MAX_PARAMETER_BYTES);
        assert_eq!(of(&[0x12, 0, 0, 0, 96, 0]).data_in, 96);
    }

    #[test]
    fn too_much_data_is_seen_where_that_is_an_error() {
        let compare = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0];
        assert_eq!(of(&compare).data_out, 5 * 512);
    }
}
