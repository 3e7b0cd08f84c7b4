//! Hidden clones: volumes that only the engine sees, which live as long as one operation that prepares a copy on
//! them.
//!
//! They have a range of identities of their own, so that clones which a crash or an abort left can be recognized and
//! deleted.

use block::DiskId;
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// The first identity of hidden clones. No volume of a host has one as high.
pub const FIRST_HIDDEN: DiskId = DiskId(!(u32::MAX as u128));

/// Whether the identity is that of a hidden clone.
pub fn is_hidden(id: DiskId) -> bool {
    id >= FIRST_HIDDEN
}

/// Identities of the hidden clones of operations under way.
#[derive(Default)]
pub struct HiddenIds(Mutex<InUse>);

#[derive(Default)]
struct InUse {
    ids: BTreeSet<DiskId>,
    last: u32,
}

impl HiddenIds {
    /// Takes `count` identities that neither an operation nor, by `exists`, a volume has.
    pub fn take(&self, count: usize, exists: impl Fn(DiskId) -> bool) -> Vec<DiskId> {
        let in_use = &mut *self.0.lock();
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            in_use.last = in_use.last.wrapping_add(1);
            let id = DiskId(FIRST_HIDDEN.0 | u128::from(in_use.last));
            if !exists(id) && in_use.ids.insert(id) {
                ids.push(id);
            }
        }
        ids
    }

    /// Gives identities back; clones that still have one are abandoned.
    pub fn release(&self, ids: &[DiskId]) {
        self.0.lock().ids.retain(|id| !ids.contains(id));
    }

    /// Keeps those of `ids` that no operation uses.
    pub fn abandoned(&self, ids: impl Iterator<Item = (DiskId, u32)>) -> Vec<u32> {
        let in_use = self.0.lock();
        ids.filter(|(id, _)| !in_use.ids.contains(id)).map(|(_, number)| number).collect()
    }
}
