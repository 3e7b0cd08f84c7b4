//! The management interface of the shelf: what [`Pool`] asks for, by the methods of the other modules.

use super::DriveShelf;
use crate::codec::FORMAT;
use crate::{Consent, Drive, DriveContents, Result};
use shelf::pool::{
    BoxFuture, Drives, KEY_BYTES, KeySource, Keys, Pool, PoolStatus, ScrubReport, ScrubStep, ScrubbedSegment,
    WrappedKey,
};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

impl Pool for DriveShelf {
    fn array(&self) -> u128 {
        self.array
    }

    fn format(&self) -> (u32, RangeInclusive<u32>) {
        // The opening wrote every label.
        (FORMAT.current, FORMAT.oldest..=FORMAT.current)
    }

    fn status(&self) -> PoolStatus {
        DriveShelf::status(self)
    }

    fn tick(&self, now: Duration) {
        DriveShelf::tick(self, now);
    }

    fn background(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(DriveShelf::background(&self))
    }

    fn scrub<'a>(&'a self, from: u32, step: ScrubStep<'a>) -> BoxFuture<'a, ScrubReport> {
        Box::pin(self.scrub_from(from, step))
    }

    fn scrub_segment(&self, segment: u32) -> BoxFuture<'_, ScrubbedSegment> {
        Box::pin(DriveShelf::scrub_segment(self, segment, true))
    }

    fn drives(&self) -> Option<&dyn Drives> {
        Some(self)
    }

    fn keys(&self) -> Option<&dyn Keys> {
        Some(self)
    }
}

impl Drives for DriveShelf {
    fn contents<'a>(&'a self, drive: &'a dyn Drive) -> BoxFuture<'a, Result<DriveContents>> {
        Box::pin(DriveShelf::contents(drive))
    }

    fn add<'a>(&'a self, drive: Arc<dyn Drive>, consent: &'a Consent) -> BoxFuture<'a, Result<usize>> {
        Box::pin(self.add_drive(drive, consent))
    }

    fn evacuate(&self, slot: usize, min_tolerates: usize) -> BoxFuture<'_, Result> {
        Box::pin(DriveShelf::evacuate(self, slot, min_tolerates))
    }

    fn cancel_evacuation(&self, slot: usize) -> BoxFuture<'_, Result> {
        Box::pin(DriveShelf::cancel_evacuation(self, slot))
    }

    fn min_tolerates_after_evacuation(&self) -> usize {
        DriveShelf::min_tolerates_after_evacuation(self)
    }
}

impl Keys for DriveShelf {
    fn wrapped(&self) -> Option<Arc<dyn WrappedKey>> {
        self.envelope().map(|envelope| Arc::new(envelope) as Arc<dyn WrappedKey>)
    }

    fn rewrap<'a>(
        &'a self,
        source: KeySource,
        key: &'a [u8; KEY_BYTES],
        nonce: [u8; 12],
    ) -> BoxFuture<'a, Result<Vec<usize>>> {
        Box::pin(DriveShelf::rewrap(self, source, key, nonce))
    }
}
