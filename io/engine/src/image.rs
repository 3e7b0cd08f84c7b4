//! Images of volumes ([`block::Op::Image`]): hidden read-only clones that live as long as a holder refers to them.
//!
//! Everything that asks while the volume does not change shares one image, so that a copy by many tokens makes one clone
//! and takes one volume number.

use crate::change::{Change, Made};
use crate::core::Core;
use crate::handle::Handle;
use crate::record::Mutation;
use crate::staged_copy::CloneIds;
use block::{Disk, DiskId, Image, Reply, Result};
use std::sync::Arc;

/// Makes an image of a volume, durable when this returns, or returns its newest one if that is the same. `disk` makes
/// the disk of a clone from its number and its identity, which is taken until that is dropped.
pub async fn make(source: Handle, disk: impl FnOnce(u32, CloneIds) -> Arc<dyn Disk>) -> Result {
    let core = &source.core;
    if let Some(image) = current(core, source.number) {
        // That it was made may not be durable yet.
        core.confirm_catalog().await?;
        return Ok(Reply::Image(Image(image)));
    }
    let ids = CloneIds::take(core, 1);
    let (number, made) = clone(core, source.number, ids.ids()[0]).await?;
    core.acknowledge(made).await?;
    let image = disk(number, ids);
    core.images.add(source.number, number, &image);
    Ok(Reply::Image(Image(image)))
}

/// The newest image of a volume, if its content is still the volume's.
fn current(core: &Core, volume: u32) -> Option<Arc<dyn Disk>> {
    let (clone, image) = core.images.newest(volume)?;
    let state = core.state.read();
    let (now, then) = (state.volume(volume).ok()?, state.volume(clone).ok()?);
    // A change of a tree that two volumes share begins with a copy of its root.
    (now.tree == then.tree && now.geometry == then.geometry).then_some(image)
}

/// Clones a volume; returns the number of the clone.
async fn clone(core: &Core, source: u32, id: DiskId) -> Result<(u32, Made)> {
    loop {
        let volume = core.state.read().catalog.next;
        let (snapshot, created, kept_until) = (true, 0, 0);
        let mutation = Mutation::Clone { volume, id, source, created, snapshot, kept_until };
        match core.make_when_possible(&Change::of(mutation)).await {
            Ok(Some(made)) => return Ok((volume, made)),
            Ok(None) => {}
            // Another volume that began at the same time took the number.
            Err(_) if core.state.read().catalog.next != volume => {}
            Err(error) => return Err(error),
        }
    }
}
