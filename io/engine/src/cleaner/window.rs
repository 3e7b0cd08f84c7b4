//! Windows of a segment that is cleaned: they are read and their objects verified on workers, one window ahead of what is
//! moved.

use crate::core::Core;
use crate::frame::{self, HEADER, Header};
use crate::space::Location;
use bytes::{Bytes, BytesMut};
use shelf::{SegmentId, Wait, join, wait};
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
    objects(segment, (base, bytes.freeze()), wanted, (size, stripe))
}

/// Finds the objects in the bytes at `base` of a segment, from `wanted` on. `sizes` are those of a segment and a stripe.
fn objects(segment: u32, (base, bytes): (u32, Bytes), wanted: Range<u32>, sizes: (u32, u32)) -> Window {
    let (size, stripe) = sizes;
    let get = |at: u32, len: u32| {
        let from = (at - base) as usize;
        let to = from + len as usize;
        (to <= bytes.len()).then(|| bytes.slice(from..to))
    };
    let mut window = Window { objects: Vec::new(), next: None };
    let (mut at, mut last) = (wanted.start, wanted.clone());
    while at < size {
        let mut len = HEADER as u32;
        let mut found = get(at, len);
        let header = found.as_ref().and_then(|bytes| Header::decode(bytes).ok());
        if let Some(header) = &header {
            len = u32::try_from(header.len()).unwrap_or(u32::MAX);
            found = if len > size - at { None } else { get(at, len) };
        }
        let (is_beyond, is_missing) = (len > size - at, found.is_none());
        let verified = found.filter(|bytes| frame::verify(bytes).is_ok());
        if let (Some(header), Some(bytes)) = (header, verified) {
            window.objects.push(Object { location: Location { segment, offset: at, len }, header, bytes });
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
