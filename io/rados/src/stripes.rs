//! Where the bytes of a segment are in its objects, and how pages that were read are verified: for the owner and for others.

use crate::objects::{Name, ObjectError, Objects, Pool};
use bytes::Bytes;
use media::encryption::Keyring;
use media::sector::{PAYLOAD_BYTES, Position};
use shelf::{ALIGN, Error, Result, Writing};
use std::ops::Range;

/// Objects of a segment.
pub const PARTS: usize = 4;

/// How the segments of a domain are laid out.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// The domain.
    pub domain: u16,
    /// Bytes of payload of a stripe.
    pub stripe_bytes: u32,
}

impl Geometry {
    /// Pages of a stripe.
    pub fn stripe_pages(&self) -> u32 {
        self.stripe_bytes / PAYLOAD_BYTES as u32
    }

    /// The object of a part of a segment.
    pub fn name(&self, segment: u32, part: usize) -> Name {
        Name { pool: Pool::Data, name: format!("seg.{:04x}.{segment:08x}.{part}", self.domain) }
    }

    /// The stripes that some bytes inside of a segment lie in, each with the range of its own bytes.
    pub fn stripes(&self, offset: u32, len: u32) -> impl Iterator<Item = (u32, Range<u32>)> + use<> {
        let (each, end) = (self.stripe_bytes, offset + len);
        (offset / each..end.div_ceil(each)).map(move |stripe| {
            (stripe, offset.max(stripe * each) - stripe * each..end.min((stripe + 1) * each) - stripe * each)
        })
    }
}

/// The pages of one stripe that some bytes lie in.
pub struct Pages {
    /// The part of the segment that has the stripe, and its object.
    pub part: usize,
    /// The object.
    pub name: Name,
    /// Numbers of the pages within the segment.
    numbers: Range<u32>,
    /// Their location in the object.
    at: u64,
    /// Location of the bytes in the payload of the pages.
    payload: Range<usize>,
}

impl Pages {
    /// Those of a range of bytes of a stripe.
    pub fn of(geometry: &Geometry, segment: u32, stripe: u32, range: Range<u32>) -> Self {
        let (part, row) = (stripe as usize % PARTS, u64::from(stripe) / PARTS as u64);
        let pages = range.start / PAYLOAD_BYTES as u32..range.end.div_ceil(PAYLOAD_BYTES as u32);
        let first = stripe * geometry.stripe_pages();
        let skip = (range.start - pages.start * PAYLOAD_BYTES as u32) as usize;
        Self {
            part,
            name: geometry.name(segment, part),
            numbers: first + pages.start..first + pages.end,
            at: (row * u64::from(geometry.stripe_pages()) + u64::from(pages.start)) * ALIGN as u64,
            payload: skip..skip + range.len(),
        }
    }

    /// Reads them; fewer if the object ends before.
    pub async fn fetch(&self, objects: &dyn Objects) -> std::result::Result<Bytes, ObjectError> {
        objects.read(&self.name, self.at, self.numbers.len() as u64 * ALIGN as u64).await
    }

    /// The bytes, if each page is what was written there in this writing of the segment.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn decode(&self, stored: &[u8], writing: Writing, keyring: &Keyring) -> Result<Bytes> {
        let sectors = keyring.sectors(writing.salt);
        let mut payload = vec![0; self.numbers.len() * PAYLOAD_BYTES];
        let mut read = stored.chunks_exact(ALIGN);
        for (page, out) in self.numbers.clone().zip(payload.chunks_exact_mut(PAYLOAD_BYTES)) {
            let position = Position { generation: writing.generation, page };
            if !read.next().is_some_and(|stored| sectors.read(position, stored, out)) {
                let what = format!("page {page} of {} is not what was written", self.name.name);
                return Err(Error::Corrupt { what });
            }
        }
        Ok(Bytes::from(payload).slice(self.payload.clone()))
    }
}

/// The bytes of several stripes in one piece.
pub fn gather(stripes: Vec<Result<Bytes>>) -> Result<Bytes> {
    let mut found = stripes.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(if found.len() == 1 { found.remove(0) } else { found.concat().into() })
}
