//! What the background writes to the log, by what it is for: where the media bytes for a host byte go.

use crate::engine::Engine;
use crate::frame::ObjectKind;

/// Bytes written to the log since the engine was opened, before the shelf adds its parity, and checkpoints made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogWrites {
    /// Frames with what hosts wrote.
    pub data: u64,
    /// Frames that cleaning moved, or that idle time made smaller.
    pub moved: u64,
    /// Pages of maps.
    pub maps: u64,
    /// Pages of the frame table.
    pub table: u64,
    /// Directories of both.
    pub directories: u64,
    /// Catalogs and roots.
    pub roots: u64,
    /// What fills up stripes that are written before they are full.
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
            ObjectKind::MapIndex | ObjectKind::TableIndex => &mut self.directories,
            ObjectKind::Catalog | ObjectKind::Root => &mut self.roots,
            ObjectKind::Frame => &mut self.moved,
        } += bytes;
    }

    /// Everything written.
    pub fn total(&self) -> u64 {
        let metadata = self.maps + self.table + self.directories + self.roots;
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
            directories: self.directories - before.directories,
            roots: self.roots - before.roots,
            padding: self.padding - before.padding,
            checkpoints: self.checkpoints - before.checkpoints,
        }
    }
}

impl Engine {
    /// What was written to the log since the engine was opened.
    pub fn log_writes(&self) -> LogWrites {
        *self.core.log_writes.lock()
    }
}
