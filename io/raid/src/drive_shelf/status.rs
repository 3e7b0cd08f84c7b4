//! What an operator sees of the drives.

use super::DriveShelf;
use crate::geometry::Form;
use crate::segment_map::Entry;
use crate::striping::PARITY;
use shelf::pool::{DriveState, DriveStatus, PoolStatus};
use std::sync::atomic::Ordering;

impl DriveShelf {
    /// The state now.
    pub fn status(&self) -> PoolStatus {
        let members = self.members.read().clone();
        let table = self.roster.lock().members.clone();
        let journal = self.journal.lock().members;
        let floor = self.min_tolerates_after_drain();
        let (tolerates, degraded_segments) = self.protection();
        let segments = self.segments.lock();
        let mut used = vec![0; table.len()];
        for entry in segments.current() {
            let bytes = u64::from(self.plan.chunk_pages(entry.form)) * self.plan.granule_bytes();
            let columns = entry.columns.iter().flatten();
            columns.for_each(|column| used[usize::from(column.slot)] += bytes);
        }
        let count = segments.used();
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
                slow: member.is_some_and(|member| !member.is_out() && member.is_slow()),
                reduces_to: Some(self.tolerates_without(slot))
                    .filter(|left| entry.state == DriveState::InUse && *left < floor),
            }
        });
        PoolStatus {
            drives: drives.collect(),
            tolerates,
            failures_to_tolerate: self.failures_to_tolerate(),
            segments: count,
            degraded_segments,
            rebuilt_segments: self.counters.healed.load(Ordering::Relaxed),
            repaired_pages: self.counters.repaired.load(Ordering::Relaxed),
            lost_pages: self.counters.lost.load(Ordering::Relaxed),
            former_drives: self.strays.lock().clone(),
            unwiped_drives: self.unwiped.lock().clone(),
            file_systems: self.file_systems(),
            starved: self.waits_for_space(),
        }
    }

    /// True when nothing is lost with these drives that is not lost already, and the journal has a copy on another, and
    /// enough of what is striped.
    /// How many are out does not matter: what they held may have been placed elsewhere since, or, while they were out,
    /// something may have been placed with less parity than there is now.
    pub(super) fn can_spare(&self, slots: u64) -> bool {
        let there = self.present().iter().fold(0, |set, member| set | 1 << member.slot);
        let left = there & !slots;
        let most = u32::from(Form::of(there.count_ones() as usize).parity);
        if (there & slots).count_ones() > most {
            return false;
        }
        {
            let journal = self.journal.lock();
            let mut striped = journal.striped();
            let lost = striped.any(|lanes| lanes.lost(there) <= PARITY && lanes.lost(left) > PARITY);
            if journal.members & left == 0 || lost {
                return false;
            }
        }
        let segments = self.segments.lock();
        let mut entries = segments.needed();
        let readable = |entry: &Entry, drives| entry.lost(drives).count() <= usize::from(entry.form.parity);
        entries.all(|entry| readable(entry, left) || !readable(entry, there))
    }

    /// Copies of the journal that have everything, and would be found after a crash.
    fn recorded_copies(&self) -> u64 {
        let recorded = self.roster.lock().journal;
        self.journal.lock().members & recorded
    }

    /// Drives that may still fail, and segments of which something is to be placed elsewhere.
    fn protection(&self) -> (usize, u32) {
        let there = self.present().iter().fold(0, |set, member| set | 1 << member.slot);
        let staying = self.staying();
        let copies = (self.recorded_copies() & there).count_ones() as usize;
        let forms = usize::from(Form::of(there.count_ones() as usize).parity);
        let striped = self.striped_tolerates(there);
        let mut tolerates = forms.min(copies.saturating_sub(1)).min(striped);
        let segments = self.segments.lock();
        let left = |entry: &Entry| usize::from(entry.form.parity).saturating_sub(entry.lost(there).count());
        tolerates = segments.needed().map(left).fold(tolerates, usize::min);
        let at_risk = segments.current().filter(|entry| entry.lost(staying).next().is_some()).count();
        (tolerates, at_risk as u32)
    }

    /// Drives that may still fail before a batch that is striped can't be read any more, with these there.
    fn striped_tolerates(&self, there: u64) -> usize {
        let journal = self.journal.lock();
        journal.striped().map(|lanes| PARITY.saturating_sub(lanes.lost(there))).min().unwrap_or(PARITY)
    }

    /// True when batches are striped over drives that are not there, or are to go. Nothing makes such a column anew: what
    /// mends it is the next checkpoint, which trims them.
    pub(super) fn lacks_columns(&self) -> bool {
        let staying = self.staying();
        self.journal.lock().striped().any(|lanes| lanes.lost(staying) > 0)
    }
}
