//! Write amplification: bytes that the background writes to the log, by purpose.

use crate::frame::ObjectKind;

/// Bytes written to the log since the engine was opened, before the shelf adds its parity, and checkpoints made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogWrites {
    /// Frames with new data.
    pub data: u64,
    /// Frames that cleaning moved, or that recompression wrote.
    pub moved: u64,
    /// Pages of maps.
    pub maps: u64,
    /// Pages of the frame table.
    pub table: u64,
    /// Page indexes of both.
    pub indexes: u64,
    /// The deduplication index.
    pub fingerprints: u64,
    /// Catalogs and roots.
    pub roots: u64,
    /// Padding of stripes that were written before they were full.
    pub padding: u64,
    /// Checkpoints.
    pub checkpoints: u64,
}

impl LogWrites {
    /// Counts an object that a checkpoint wrote.
    pub(crate) fn metadata(&mut self, kind: ObjectKind, bytes: u64) {
        *match kind {
            ObjectKind::Map => &mut self.maps,
            ObjectKind::Table => &mut self.table,
            ObjectKind::MapIndex | ObjectKind::TableIndex => &mut self.indexes,
            ObjectKind::Index => &mut self.fingerprints,
            ObjectKind::Catalog | ObjectKind::Root => &mut self.roots,
            ObjectKind::Frame => &mut self.moved,
        } += bytes;
    }

    /// Everything written.
    pub fn total(&self) -> u64 {
        let metadata = self.maps + self.table + self.indexes + self.fingerprints + self.roots;
        self.data + self.moved + metadata + self.padding
    }
}

impl std::ops::Sub for LogWrites {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            data: self.data - before.data,
            moved: self.moved - before.moved,
            maps: self.maps - before.maps,
            table: self.table - before.table,
            indexes: self.indexes - before.indexes,
            fingerprints: self.fingerprints - before.fingerprints,
            roots: self.roots - before.roots,
            padding: self.padding - before.padding,
            checkpoints: self.checkpoints - before.checkpoints,
        }
    }
}
