//! Limits of one command in blocks. VPD page B0h reports them and the handlers enforce them.

use export::PROVISIONING_BLOCK_BYTES;

/// Blocks in one COMPARE AND WRITE.
pub(crate) const COMPARE_AND_WRITE_BLOCKS: u8 = 8;

/// Block descriptors in one UNMAP.
pub(crate) const UNMAP_DESCRIPTORS: u32 = 256;

/// Bytes in one READ, WRITE or VERIFY.
const TRANSFER_BYTES: u32 = 32 << 20;

/// Bytes in one operation of the disk that carries data; longer commands become several.
const OPERATION_BYTES: u32 = 8 << 20;

/// Optimal transfer length in bytes.
const OPTIMAL_BYTES: u32 = 1 << 20;

/// Bytes in one WRITE ATOMIC.
const ATOMIC_BYTES: u32 = 1 << 20;

/// Bytes in one WRITE SAME, and blocks: on 4 KiB blocks no more than WRITE SAME (10) can name.
const WRITE_SAME_BYTES: u64 = 4 << 30;
const WRITE_SAME_BLOCKS_4K: u64 = 65_535;

/// Blocks in one UNMAP, all descriptors together.
const UNMAP_BLOCKS: u32 = 1 << 20;

/// The limits in logical blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLimits {
    /// READ, WRITE, VERIFY and similar commands.
    pub(crate) transfer: u32,
    /// One operation of the disk that carries data.
    pub(crate) operation: u64,
    /// Optimal transfer length.
    pub(crate) optimal_transfer: u32,
    /// Optimal transfer length granularity and optimal unmap granularity.
    pub(crate) granularity: u32,
    /// WRITE ATOMIC.
    pub(crate) atomic_transfer: u32,
    /// UNMAP, all descriptors together.
    pub(crate) unmap_blocks: u32,
    /// WRITE SAME.
    pub(crate) write_same: u64,
}

impl BlockLimits {
    /// The limits of a unit with this block length.
    pub(crate) fn of(block_bytes: u32) -> BlockLimits {
        BlockLimits {
            transfer: TRANSFER_BYTES / block_bytes,
            operation: u64::from(OPERATION_BYTES / block_bytes),
            optimal_transfer: OPTIMAL_BYTES / block_bytes,
            granularity: (PROVISIONING_BLOCK_BYTES / block_bytes).max(1),
            atomic_transfer: ATOMIC_BYTES / block_bytes,
            unmap_blocks: UNMAP_BLOCKS,
            write_same: match block_bytes {
                4096 => WRITE_SAME_BLOCKS_4K,
                _ => WRITE_SAME_BYTES / u64::from(block_bytes),
            },
        }
    }
}
