//! Segments as processes read them that do not own the store: a page proves itself by the writing that it is asked for.

use crate::envelope;
use crate::objects::Objects;
use crate::owned::failure;
use crate::stripes::{Geometry, Pages, gather};
use crate::takeover::Takeover;
use bytes::Bytes;
use media::encryption::{DataKey, Keyring};
use shelf::{Done, Error, Result, SegmentId, SegmentReader, Writing, join, spawn};
use std::sync::Arc;

/// Reads the segments of a store that another process owns. It writes nothing, and takes nothing over.
pub struct Reader(Arc<Parts>);

struct Parts {
    objects: Arc<dyn Objects>,
    keyring: Keyring,
    geometry: Geometry,
    segment_bytes: u32,
}

impl Reader {
    /// Of a domain of an array, whose data key is given if it is encrypted.
    ///
    /// # Errors
    /// [`Error::Unusable`] when there is no such store, it is of another release, or the key does not fit; [`Error::Corrupt`]
    /// when its superblocks are not whole; [`Error::Drive`] when RADOS fails.
    pub async fn open(
        objects: Arc<dyn Objects>,
        (array, domain): (u128, u16),
        key: Option<DataKey>,
    ) -> Result<Self> {
        let keyring = match key {
            Some(key) => Keyring::sealed(array, key),
            None => Keyring::clear(array),
        };
        envelope::check(&*objects, &keyring).await?;
        let newest =
            Takeover { objects: &objects, domain, epoch: 0, keyring: &keyring }.newest_superblock().await?;
        // Only the number of segments changes later.
        let layout = newest.layout;
        let geometry = Geometry { domain, stripe_bytes: layout.stripe_bytes };
        Ok(Self(Arc::new(Parts { objects, keyring, geometry, segment_bytes: layout.segment_bytes })))
    }
}

impl Parts {
    async fn read(&self, segment: SegmentId, writing: Writing, (offset, len): (u32, u32)) -> Result<Bytes> {
        if offset.checked_add(len).is_none_or(|end| end > self.segment_bytes) || len == 0 {
            return Err(Error::Corrupt { what: format!("{len} bytes at {offset} of a segment") });
        }
        let stripes = self.geometry.stripes(offset, len).map(|(stripe, range)| async move {
            let pages = Pages::of(&self.geometry, segment.0, stripe, range);
            let stored = pages.fetch(&*self.objects).await;
            let stored = stored.map_err(|error| failure(&pages.name, &error, 0))?;
            pages.decode(&stored, writing, &self.keyring)
        });
        gather(join(stripes).await)
    }
}

impl SegmentReader for Reader {
    fn read(&self, segment: SegmentId, writing: Writing, range: (u32, u32), done: Done<Bytes>) {
        let parts = self.0.clone();
        spawn(async move { done(parts.read(segment, writing, range).await) });
    }
}
