//! Life-cycle stages of volumes and snapshots.

use serde::{Deserialize, Serialize};

/// Life-cycle stage of a volume or snapshot. Creation and deletion take several steps; the record determines what a
/// restart after a crash finishes or rolls back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Being created; a restart rolls it back.
    Creating,
    /// In use.
    Ready,
    /// In the recycle bin.
    Binned,
    /// Being eradicated; a restart finishes it.
    Deleting,
}
