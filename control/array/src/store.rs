//! The store of the array: what it is made of, and whose it is.

use crate::array::Array;
use crate::membership::ControllerState;
use crate::request::verbs;
use serde::Serialize;
use shelf::pool::ObjectStore;

/// The store of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The identity of the array, as it is on the drives or in Ceph.
    pub array: u128,
    /// Failures that it survives now.
    pub tolerates: usize,
    /// Segments in use, and segments in all.
    pub segments: (u32, u32),
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// The controller that owns it.
    pub owner: Option<u16>,
    /// Number of drives.
    pub drives: usize,
    /// What it is in Ceph; `None` if it is on drives.
    pub objects: Option<ObjectStore>,
}

/// The store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowStore;

verbs! {
    ShowStore -> Store, Read "show" "store", Viewer
        => |tx, _| Ok(tx.array.store());
}

impl Array {
    fn store(&self) -> Store {
        let (pool, controllers) = (&self.parts.pool, self.parts.controllers.controllers());
        let (status, layout) = (pool.status(), pool.layout());
        let owner = controllers.iter().find(|it| it.state == ControllerState::Home);
        Store {
            array: pool.array(),
            tolerates: status.tolerates,
            segments: (status.segments, status.total_segments),
            segment_bytes: layout.segment_bytes.into(),
            journal_bytes: layout.journal_bytes,
            owner: owner.map(|it| it.number),
            drives: status.drives.len(),
            objects: status.objects,
        }
    }
}
