//! Durability of segments: a sync of the drives, then the changed pages of the segment map.

use super::DriveShelf;
use crate::geometry::Geometry;
use crate::segment_map::Page;
use crate::{ALIGN, Done, Error, Result, wait};
use bytes::Bytes;
use std::sync::Arc;

/// Group commit of the map: one at a time, for all waiters.
pub struct Commits {
    running: bool,
    waiting: Vec<Done<()>>,
    sequence: u64,
    /// Which of the two places of each page holds its newest version.
    pub places: Vec<u8>,
}

impl Commits {
    pub fn new(plan: Geometry) -> Self {
        let pages = plan.map_bytes(plan.max_segments) / (2 * ALIGN as u64);
        Self { running: false, waiting: Vec::new(), sequence: 0, places: vec![0; pages as usize] }
    }
}

impl DriveShelf {
    /// Makes durable what was written before the call and is known to the map.
    pub(super) async fn sync_all(&self) -> Result {
        self.check_running()?;
        let covered = self.segments.lock().unsynced();
        self.sync_drives().await?;
        let lost = self.segments.lock().synced(&covered);
        if let Some(segment) = lost {
            let lost =
                Error::Drive { what: format!("too few drives hold what was written to segment {segment}") };
            self.stop(&lost);
            return Err(lost);
        }
        self.commit().await
    }

    /// Syncs every drive. It is unknown what a failed sync lost: that drive is failed, and its unsynced columns are
    /// stale.
    pub(super) async fn sync_drives(&self) -> Result {
        let present = self.present();
        let waits: Vec<_> = {
            let sync = |member: &Arc<super::Member>| {
                let (done, synced) = wait();
                member.sync(done);
                synced
            };
            present.iter().map(sync).collect()
        };
        for (member, synced) in present.iter().zip(waits) {
            if let Err(cause) = synced.await {
                self.fail_drive(member.slot, &cause);
            }
        }
        self.check_running()
    }

    /// Makes all changes of the map durable that were made before the call.
    pub(super) async fn commit(&self) -> Result {
        let (done, committed) = wait();
        let start = {
            let mut commits = self.commits.lock();
            commits.waiting.push(done);
            !std::mem::replace(&mut commits.running, true)
        };
        if start {
            self.spawn(|shelf| shelf.commit_all());
        }
        committed.await
    }

    async fn commit_all(self: Arc<Self>) {
        loop {
            let waiting = {
                let mut commits = self.commits.lock();
                commits.running = !commits.waiting.is_empty();
                std::mem::take(&mut commits.waiting)
            };
            if waiting.is_empty() {
                return;
            }
            let outcome = self.write_map().await;
            waiting.into_iter().for_each(|done| done(outcome.clone()));
        }
    }

    async fn write_map(&self) -> Result {
        let sequence = {
            let mut commits = self.commits.lock();
            commits.sequence += 1;
            commits.sequence
        };
        let dirty = self.segments.lock().take_dirty();
        let encode = |(number, entries)| {
            let page = Page { number, epoch: self.epoch, sequence, entries };
            (number, page.encode(self.array))
        };
        let pages: Vec<(u32, Bytes)> = dirty.into_iter().map(encode).collect();
        if pages.is_empty() {
            return self.check_running();
        }
        let numbers: Vec<u32> = pages.iter().map(|(number, _)| *number).collect();
        let places: Vec<u8> = {
            let commits = self.commits.lock();
            numbers.iter().map(|number| 1 - commits.places[*number as usize]).collect()
        };
        let present = self.present();
        let mut waits = Vec::new();
        {
            for member in &present {
                for ((number, page), place) in pages.iter().zip(&places) {
                    let at = self.plan.map_at() + (u64::from(*number) * 2 + u64::from(*place)) * ALIGN as u64;
                    let (done, written) = wait();
                    member.write(
                        at,
                        vec![page.clone()],
                        pages.len() <= self.limits.durable_map_pages_max,
                        done,
                    );
                    waits.push((member.slot, written));
                }
            }
        }
        for (slot, written) in waits {
            if let Err(cause) = written.await {
                self.fail_drive(slot, &cause);
            }
        }
        if pages.len() > self.limits.durable_map_pages_max {
            self.sync_drives().await?;
        }
        self.check_running()?;
        let mut commits = self.commits.lock();
        for (number, place) in numbers.iter().zip(places) {
            commits.places[*number as usize] = place;
        }
        drop(commits);
        self.segments.lock().committed(&numbers);
        Ok(())
    }
}
