//! Status: redundancy and the state of each drive.

use super::DriveShelf;
use crate::geometry::Profile;
use crate::segment_map::Entry;
use crate::striping::PARITY_COLUMNS;
use shelf::pool::{DriveState, DriveStatus, PoolStatus};
use std::sync::atomic::Ordering;

impl DriveShelf {
    /// The current status.
    pub fn status(&self) -> PoolStatus {
        let members = self.members.read().clone();
        let table = self.membership.lock().members.clone();
        let journal = self.journal.lock().members;
        let floor = self.min_tolerates_after_evacuation();
        let (tolerates, degraded_segments) = self.protection();
        let mut segments = self.segments.lock();
        let mut used = vec![0; table.len()];
        for entry in segments.current() {
            let bytes = u64::from(self.plan.chunk_pages(entry.profile)) * self.plan.granule_bytes();
            let columns = entry.columns.iter().flatten();
            columns.for_each(|column| used[usize::from(column.slot)] += bytes);
        }
        let (count, capacity) = (segments.used(), segments.capacity());
        drop(segments);
        let drives = table.iter().enumerate().filter(|(_, entry)| entry.state != DriveState::Empty);
        let drives = drives.map(|(slot, entry)| {
            let member = members.get(slot).and_then(Option::as_ref);
            let count = |of: fn(&super::member::Counters) -> &std::sync::atomic::AtomicU64| {
                member.map_or(0, |member| of(&member.counters).load(Ordering::Relaxed))
            };
            DriveStatus {
                slot,
                name: member.map(|member| member.name().to_owned()),
                drive: entry.drive,
                bytes: entry.bytes,
                used_bytes: used[slot],
                state: entry.state,
                journal: journal >> slot & 1 == 1,
                read_bytes: count(|counters| &counters.read_bytes),
                written_bytes: count(|counters| &counters.written_bytes),
                read_errors: count(|counters| &counters.read_errors),
                slow_reads: count(|counters| &counters.slow_reads),
                bad_pages: count(|counters| &counters.bad_pages),
                slow: member.is_some_and(|member| !member.is_failed() && member.is_slow()),
                lags: member.is_some_and(|member| !member.is_failed()) && self.slow_drives.lock().lags(slot),
                reduces_to: Some(self.tolerates_without(slot))
                    .filter(|left| entry.state == DriveState::Online && *left < floor),
            }
        });
        PoolStatus {
            drives: drives.collect(),
            tolerates,
            failures_to_tolerate: self.failures_to_tolerate(),
            segments: count,
            total_segments: capacity.segments,
            parity_bytes: Some(capacity.parity_bytes),
            degraded_segments,
            rebuilt_segments: self.counters.rebuilt.load(Ordering::Relaxed),
            repaired_pages: self.counters.repaired.load(Ordering::Relaxed),
            lost_pages: self.counters.lost.load(Ordering::Relaxed),
            former_drives: self.former_drives.lock().clone(),
            unwiped_drives: self.unwiped_drives.lock().clone(),
            file_systems: self.file_systems(),
            starved: self.waits_for_space(),
            objects: None,
        }
    }

    /// True if the array can do without these drives: no segment loses data that it has now, and the journal keeps a
    /// copy and enough columns of striped batches. The number of failed drives alone does not decide: what they held
    /// may have been rebuilt since, or something may have been placed with less parity.
    pub(super) fn can_spare(&self, slots: u64) -> bool {
        let there = self.present().iter().fold(0, |set, member| set | 1 << member.slot);
        let left = there & !slots;
        let most = u32::from(Profile::of(there.count_ones() as usize).parity);
        if (there & slots).count_ones() > most {
            return false;
        }
        {
            let journal = self.journal.lock();
            let mut striped = journal.striped();
            let lost = striped.any(|stripe_set| {
                stripe_set.lost(there) <= PARITY_COLUMNS && stripe_set.lost(left) > PARITY_COLUMNS
            });
            if journal.members & left == 0 || lost {
                return false;
            }
        }
        let segments = self.segments.lock();
        let mut entries = segments.needed();
        let readable =
            |entry: &Entry, drives| entry.lost(drives).count() <= usize::from(entry.profile.parity);
        entries.all(|entry| readable(entry, left) || !readable(entry, there))
    }

    /// Complete copies of the journal that the labels name: recovery would find them.
    fn recorded_copies(&self) -> u64 {
        let recorded = self.membership.lock().journal;
        self.journal.lock().members & recorded
    }

    /// Failures that are tolerated, and the number of degraded segments.
    fn protection(&self) -> (usize, u32) {
        let there = self.present().iter().fold(0, |set, member| set | 1 << member.slot);
        let in_use_drives = self.in_use_drives();
        let copies = (self.recorded_copies() & there).count_ones() as usize;
        let profiles = usize::from(Profile::of(there.count_ones() as usize).parity);
        let striped = self.striped_tolerates(there);
        let mut tolerates = profiles.min(copies.saturating_sub(1)).min(striped);
        let segments = self.segments.lock();
        let left =
            |entry: &Entry| usize::from(entry.profile.parity).saturating_sub(entry.lost(there).count());
        tolerates = segments.needed().map(left).fold(tolerates, usize::min);
        let at_risk = segments.current().filter(|entry| entry.lost(in_use_drives).next().is_some()).count();
        (tolerates, at_risk as u32)
    }

    /// Failures that striped batches tolerate with these drives.
    fn striped_tolerates(&self, there: u64) -> usize {
        let journal = self.journal.lock();
        journal
            .striped()
            .map(|stripe_set| PARITY_COLUMNS.saturating_sub(stripe_set.lost(there)))
            .min()
            .unwrap_or(PARITY_COLUMNS)
    }

    /// True if batches are striped over drives that are missing or being evacuated. Such columns are not rebuilt: the
    /// next checkpoint trims the batches.
    pub(super) fn lacks_columns(&self) -> bool {
        let in_use_drives = self.in_use_drives();
        self.journal.lock().striped().any(|stripe_set| stripe_set.lost(in_use_drives) > 0)
    }
}
