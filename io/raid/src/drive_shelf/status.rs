//! What an operator sees of the drives.

use super::{DriveShelf, FileSystem};
use crate::geometry::Form;
use crate::label::Standing;
use crate::lanes::PARITY;
use crate::map::Entry;
use std::sync::atomic::Ordering;

/// A slot of the shelf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveStatus {
    /// The slot, from 0.
    pub slot: usize,
    /// The path of the drive; none when it is not there.
    pub name: Option<String>,
    /// The drive's identity.
    pub drive: u128,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes that segments take of it.
    pub used_bytes: u64,
    /// What it is to the shelf.
    pub standing: Standing,
    /// True when it carries a copy of the journal.
    pub journal: bool,
    /// Bytes read since the opening.
    pub read_bytes: u64,
    /// Bytes written since the opening.
    pub written_bytes: u64,
    /// Reads that failed, since the opening.
    pub read_errors: u64,
    /// Reads that were answered by others because it took too long.
    pub slow_reads: u64,
    /// Pages that were not what had been written to it.
    pub bad_pages: u64,
    /// True while it persistently takes much longer than the others: they are asked in its place where they can be.
    pub slow: bool,
    /// Drives that may still fail without loss once this one is emptied; none when that is no less than now.
    pub reduces_to: Option<usize>,
}

/// The state of a shelf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The slots that have, or had, a drive.
    pub drives: Vec<DriveStatus>,
    /// Drives that may still fail, whichever they are, without loss.
    pub tolerates: usize,
    /// Drives that the array promises to do without: what it could lose at best, since it was made.
    pub promises: usize,
    /// Segments in use.
    pub segments: u32,
    /// Segments of which something is to be placed elsewhere.
    pub at_risk: u32,
    /// Segments placed elsewhere since the opening.
    pub healed: u64,
    /// Pages that were wrong and have been written again, since the opening.
    pub repaired: u64,
    /// Pages that could not be given back, since the opening.
    pub lost: u64,
    /// Paths of drives that were given at the opening and have a label of this array, and are not members: they were
    /// replaced, or used without the others. Nothing of them is read.
    pub strays: Vec<String>,
    /// Drives that were members since the opening, and keep a wrapped key of the array because they could not be wiped.
    pub unwiped: Vec<String>,
    /// File systems that drives get their space from as they are written.
    pub file_systems: Vec<FileSystem>,
    /// Writes wait because one of those has no space for them.
    pub starved: bool,
}

impl DriveShelf {
    /// The state now.
    pub fn status(&self) -> Status {
        let members = self.members.read().clone();
        let table = self.roster.lock().members.clone();
        let journal = self.journal.lock().members;
        let floor = self.protection_floor();
        let (tolerates, at_risk) = self.protection();
        let segments = self.segments.lock();
        let mut used = vec![0; table.len()];
        for entry in segments.current() {
            let bytes = u64::from(self.plan.chunk_pages(entry.form)) * self.plan.granule_bytes();
            let columns = entry.columns.iter().flatten();
            columns.for_each(|column| used[usize::from(column.slot)] += bytes);
        }
        let count = segments.used();
        drop(segments);
        let drives = table.iter().enumerate().filter(|(_, entry)| entry.standing != Standing::Empty);
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
                standing: entry.standing,
                journal: journal >> slot & 1 == 1,
                read_bytes: count(|counters| &counters.read_bytes),
                written_bytes: count(|counters| &counters.written_bytes),
                read_errors: count(|counters| &counters.read_errors),
                slow_reads: count(|counters| &counters.slow_reads),
                bad_pages: count(|counters| &counters.bad_pages),
                slow: member.is_some_and(|member| !member.is_out() && member.is_slow()),
                reduces_to: Some(self.tolerates_without(slot))
                    .filter(|left| entry.standing == Standing::InUse && *left < floor),
            }
        });
        Status {
            drives: drives.collect(),
            tolerates,
            promises: self.promises(),
            segments: count,
            at_risk,
            healed: self.counters.healed.load(Ordering::Relaxed),
            repaired: self.counters.repaired.load(Ordering::Relaxed),
            lost: self.counters.lost.load(Ordering::Relaxed),
            strays: self.strays.lock().clone(),
            unwiped: self.unwiped.lock().clone(),
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
