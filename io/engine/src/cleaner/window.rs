//! Windows of a segment that is cleaned: they are read and their objects verified on workers, one window ahead of what is
//! moved.

use crate::core::Core;
use crate::frame::{self, HEADER, Header};
use crate::space::Location;
use bytes::{Bytes, BytesMut};
use shelf::{Layout, SegmentId, Wait, join, wait};
use std::ops::Range;
use std::sync::Arc;

/// An object of the segment, verified.
pub struct Object {
    pub location: Location,
    pub header: Header,
    pub bytes: Bytes,
}

/// The objects that begin in a window, in order, and where the next one begins.
pub struct Window {
    pub objects: Vec<Object>,
    next: Option<Range<u32>>,
}

/// Reads the windows of a segment in order.
pub struct Windows {
    core: Arc<Core>,
    segment: u32,
    ahead: Option<Wait<Window>>,
}

impl Windows {
    /// Begins to read a segment.
    pub fn of(core: &Arc<Core>, segment: u32) -> Self {
        let mut windows = Self { core: core.clone(), segment, ahead: None };
        windows.begin(0..HEADER as u32);
        windows
    }

    fn begin(&mut self, wanted: Range<u32>) {
        let (core, segment) = (self.core.clone(), self.segment);
        let reading = async move { read(&core, segment, wanted).await };
        self.ahead = Some(self.core.options.workers.spawn(reading));
    }

    /// The next window; `None` after the last one.
    pub async fn next(&mut self) -> shelf::Result<Option<Window>> {
        let Some(ahead) = self.ahead.take() else { return Ok(None) };
        let mut window = ahead.await?;
        if let Some(wanted) = window.next.take() {
            self.begin(wanted);
        }
        Ok(Some(window))
    }
}

/// Reads a window from the stripe on in which `wanted` begins, with all of that if possible, and finds its objects.
async fn read(core: &Core, segment: u32, wanted: Range<u32>) -> Window {
    let (size, stripe) = (core.layout.segment_bytes, core.layout.stripe_bytes);
    let base = wanted.start / stripe * stripe;
    let end = wanted.end.max(base.saturating_add(core.options.tunables.clean_window_bytes)).min(size);
    // Stripe by stripe: a segment may end early, and reading beyond its end fails.
    let reads = (base..end).step_by(stripe as usize).map(|at| {
        let (done, read) = wait();
        core.log.shelf().read_in_background(SegmentId(segment), at, stripe, done);
        read
    });
    let mut bytes = BytesMut::new();
    for read in join(reads).await {
        let Ok(read) = read else { break };
        bytes.extend_from_slice(&read);
    }
    Part { segment, base, bytes: bytes.freeze() }.objects(wanted, &core.layout)
}

/// Bytes of a segment, from `base` on.
struct Part {
    segment: u32,
    base: u32,
    bytes: Bytes,
}

impl Part {
    fn get(&self, at: u32, len: u32) -> Option<Bytes> {
        let from = (at - self.base) as usize;
        let to = from + len as usize;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }

    /// Finds the objects from `wanted` on.
    fn objects(&self, wanted: Range<u32>, layout: &Layout) -> Window {
        let (size, stripe) = (layout.segment_bytes, layout.stripe_bytes);
        let mut window = Window { objects: Vec::new(), next: None };
        let (mut at, mut last) = (wanted.start, wanted.clone());
        while at < size {
            let mut len = HEADER as u32;
            let mut found = self.get(at, len);
            let header = found.as_ref().and_then(|bytes| Header::decode(bytes).ok());
            if let Some(header) = &header {
                len = u32::try_from(header.len()).unwrap_or(u32::MAX);
                found = if len > size - at { None } else { self.get(at, len) };
            }
            let (is_beyond, is_missing) = (len > size - at, found.is_none());
            let verified = found.filter(|bytes| frame::verify(bytes).is_ok());
            if let (Some(header), Some(bytes)) = (header, verified) {
                window.objects.push(Object {
                    location: Location { segment: self.segment, offset: at, len },
                    header,
                    bytes,
                });
                at += len;
            } else if is_missing && !is_beyond && last != (at..at + len) {
                window.next = Some(at..at + len);
                break;
            } else {
                at = (at / stripe + 1) * stripe;
            }
            last = 0..0;
        }
        window
    }
}
