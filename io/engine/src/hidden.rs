//! Hidden clones: volumes that only the engine sees, which live as long as an operation that prepares a copy on them, or
//! as the holders of an image.
//!
//! They have a range of identities of their own, so that clones which a crash or an abort left can be recognized and
//! deleted.

use block::{Disk, DiskId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

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

/// The number of an image's clone, and the disk that its holders share.
type Shared = (u32, Weak<dyn Disk>);

/// The newest image of each volume, by the number of the volume.
#[derive(Default)]
pub struct Images(Mutex<BTreeMap<u32, Shared>>);

impl Images {
    /// The newest image of a volume, if it is held: the number of its clone, and the disk.
    pub fn newest(&self, volume: u32) -> Option<(u32, Arc<dyn Disk>)> {
        let images = self.0.lock();
        let (number, image) = images.get(&volume)?;
        Some((*number, image.upgrade()?))
    }

    /// Adds the newest image of a volume.
    pub fn add(&self, volume: u32, clone: u32, image: &Arc<dyn Disk>) {
        let mut images = self.0.lock();
        images.retain(|_, (_, image)| image.strong_count() > 0);
        images.insert(volume, (clone, Arc::downgrade(image)));
    }
}
