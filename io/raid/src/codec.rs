//! Encoding of the records on drives. `docs/format/shelf.md` draws them.

pub use media::codec::{ENVELOPES, Reader, Versions, Writer, checksum, crc32c, pages};

/// The format of the drives, as labels state it. Version 4 has no striped batches, and is the same otherwise.
pub const FORMAT: Versions = Versions { oldest: 4, current: 5 };

/// Superblocks, pages of the segment map, and journal records. Older releases left zeros where their version is.
pub const RECORDS: Versions = Versions { oldest: 0, current: 0 };

#[cfg(test)]
#[path = "format_test.rs"]
mod tests;
