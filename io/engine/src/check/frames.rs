//! Check of all frames in the order of their places: each segment is read once, by a scrub of the store if it has one, which also
//! verifies the parity. Threads take segments in turn.

use crate::core::Core;
use crate::frame_table::Frame;
use crate::space::Location;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use shelf::join;
use shelf::pool::{Pool, ScrubReport, ScrubbedSegment};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The frames of an engine, to be checked.
pub struct FrameCheck {
    core: Arc<Core>,
    /// By place.
    frames: Vec<(u64, Frame)>,
    segments: u32,
    next: AtomicU32,
    done: AtomicU64,
    findings: Mutex<FrameFindings>,
}

/// What a check of frames found.
#[derive(Clone, Debug, Default)]
pub struct FrameFindings {
    /// Defects of frames, by segment.
    pub defects: Vec<String>,
    /// What the store found below them.
    pub scrubbed: ScrubReport,
    by_segment: Vec<(u32, String)>,
}

impl FrameCheck {
    pub(super) fn new(core: Arc<Core>, mut frames: Vec<(u64, Frame)>) -> Self {
        frames.sort_unstable_by_key(|(_, frame)| frame.location);
        let segments = core.segments.total();
        let (next, done) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { core, frames, segments, next, done, findings: Mutex::default() }
    }

    /// How many steps there are: one for each segment, and one for frames that lie outside of the log.
    pub fn total(&self) -> u64 {
        u64::from(self.segments) + 1
    }

    /// How many of them were done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Checks the next segment; returns how many have been checked, or `None` if all have been begun. `pool` is the store that the
    /// engine was opened on, or none if it is not to be scrubbed.
    pub async fn step(&self, pool: Option<&dyn Pool>) -> Option<u64> {
        let segment = self.next.fetch_add(1, Ordering::Relaxed);
        if segment > self.segments {
            return None;
        }
        let is_inside = segment < self.segments;
        let first = self.frames.partition_point(|(_, frame)| frame.location.segment < segment);
        let end = match is_inside {
            true => self.frames.partition_point(|(_, frame)| frame.location.segment <= segment),
            false => self.frames.len(),
        };
        let frames = &self.frames[first..end];
        let scrubbed = match pool {
            Some(pool) if is_inside => pool.scrub_segment(segment).await,
            _ => ScrubbedSegment::default(),
        };
        let mut defects = Vec::new();
        for group in frames.chunks(self.core.options.tunables.reads_in_flight) {
            let stripes = scrubbed.stripes.as_deref();
            let checks = group.iter().map(|(number, frame)| self.check(*number, frame, stripes));
            for (outcome, (number, frame)) in join(checks).await.into_iter().zip(group) {
                if let Err(why) = outcome {
                    defects.push((segment, format!("frame {number} at {}: {why}", frame.location)));
                }
            }
        }
        let mut findings = self.findings.lock();
        findings.by_segment.append(&mut defects);
        add(&mut findings.scrubbed, scrubbed.report);
        Some(1 + self.done.fetch_add(1, Ordering::Relaxed))
    }

    async fn check(&self, number: u64, frame: &Frame, stripes: Option<&[Bytes]>) -> Result<(), String> {
        let location = frame.location;
        let is_scrubbed =
            stripes.filter(|_| self.core.is_inside(location) && !self.core.log.is_in_memory(location));
        let Some(stripes) = is_scrubbed else { return self.core.check_frame(number, frame).await };
        let object = object_of(stripes, location, self.core.layout.stripe_bytes)
            .ok_or_else(|| "a page of it can't be read or reconstructed".to_owned())?;
        self.core.check_object(number, frame, &object)
    }

    /// What was found, by segment.
    pub fn end(&self) -> FrameFindings {
        let mut findings = self.findings.lock().clone();
        findings.by_segment.sort();
        findings.defects =
            std::mem::take(&mut findings.by_segment).into_iter().map(|(_, what)| what).collect();
        findings
    }
}

/// The bytes of an object in the stripes of its segment; `None` if some of them are missing.
fn object_of(stripes: &[Bytes], location: Location, stripe_bytes: u32) -> Option<Bytes> {
    let (mut next, end) = (location.offset, location.offset.checked_add(location.len)?);
    let within = (next % stripe_bytes) as usize;
    let first = stripes.get((next / stripe_bytes) as usize)?;
    if within + location.len as usize <= stripe_bytes as usize {
        return (first.len() >= within + location.len as usize)
            .then(|| first.slice(within..within + location.len as usize));
    }
    let mut object = BytesMut::with_capacity(location.len as usize);
    while next < end {
        let within = next % stripe_bytes;
        let part = (stripe_bytes - within).min(end - next);
        let stripe = stripes.get((next / stripe_bytes) as usize)?;
        object.extend_from_slice(stripe.get(within as usize..(within + part) as usize)?);
        next += part;
    }
    Some(object.freeze())
}

fn add(sum: &mut ScrubReport, more: ScrubReport) {
    let ScrubReport { segments, bytes, errors, repaired, lost } = more;
    sum.segments += segments;
    sum.bytes += bytes;
    sum.errors += errors;
    sum.repaired += repaired;
    sum.lost += lost;
}
