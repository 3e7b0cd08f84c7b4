//! Who belongs to the shelf: changes of membership, written to the labels of all drives that are there.

use super::member::Member;
use super::{DriveShelf, slots};
use crate::DriveState;
use crate::geometry::Form;
use crate::label::{self, Found, Label};
use crate::{ALIGN, Done, Error, Result, wait};
use std::sync::Arc;

/// The table of members, and how much of it is on the labels.
pub struct Roster {
    pub generation: u64,
    pub members: Vec<label::Member>,
    /// Copies of the journal that the labels name, as a set of slots: after a crash no other is looked for.
    pub journal: u64,
    /// Drives that the array promises to do without.
    pub failures_to_tolerate: u8,
    /// Grows with every change.
    version: u64,
    recorded: u64,
    recording: bool,
    waiting: Vec<(u64, Done<()>)>,
}

impl Roster {
    pub fn new(label: &Label) -> Self {
        Self {
            generation: label.generation,
            members: label.members.clone(),
            journal: label.journal,
            failures_to_tolerate: label.failures_to_tolerate.unwrap_or_else(|| {
                let members = label.members.iter().filter(|it| it.state != DriveState::Empty);
                Form::of(members.count()).parity
            }),
            version: 0,
            recorded: 0,
            recording: false,
            waiting: Vec::new(),
        }
    }
}

impl DriveShelf {
    /// Goes on without a drive.
    pub(super) fn put_out(&self, slot: usize, cause: &Error) {
        let member = self.members.read().get(slot).cloned().flatten();
        let Some(member) = member.filter(|member| !member.is_out()) else { return };
        if matches!(cause, Error::NoSpace { .. }) {
            // What there should always be space for was not written. The drive is sound, and others may share its file
            // system: putting out one after the other would leave none. The next opening finds all of them as they are.
            return self.stop(cause);
        }
        // First the journal goes on without it and answers nothing, then the change is noted: a label that is written
        // from now on does not name it.
        let none_left = {
            let mut journal = self.journal.lock();
            let bit = 1 << slot;
            if journal.joining == Some(slot) {
                journal.joining = None;
            }
            journal.members &= !bit;
            // Whether or not it has a copy: batches under way may be striped over it.
            journal.hold = Some(u64::MAX);
            journal.members == 0
        };
        if !member.put_out() {
            // Somebody else has just done it, and what it held up may have been answered already.
            self.changed();
            return;
        }
        tracing::error!(drive = member.name(), slot, %cause, "a drive is out");
        if let Some(entry) = self.roster.lock().members.get_mut(slot) {
            (entry.state, entry.knows) = (DriveState::Failed, self.epoch);
        }
        self.choose_lanes();
        self.count_members();
        self.segments.lock().lose(slot);
        if none_left || self.present().is_empty() {
            self.stop(cause);
            return member.give_up_all();
        }
        self.changed();
        self.background.wake();
        // Whoever waits for it waits no longer, and only now: it is known that it lacks what it was asked for.
        member.give_up_all();
    }

    /// Tells the segments how many members there are, and how many of them are out.
    pub(super) fn count_members(&self) {
        let (members, out) = {
            let roster = self.roster.lock();
            let count = |wanted: &[DriveState]| {
                roster.members.iter().filter(|member| wanted.contains(&member.state)).count()
            };
            (count(&[DriveState::InUse, DriveState::Failed]), count(&[DriveState::Failed]))
        };
        self.segments.lock().set_members(members, out);
    }

    /// Notes that members or journal copies have changed: the labels follow. The answer is the change's version.
    pub(super) fn changed(&self) -> u64 {
        let (version, start) = {
            let mut roster = self.roster.lock();
            roster.version += 1;
            (roster.version, !std::mem::replace(&mut roster.recording, true))
        };
        {
            let mut journal = self.journal.lock();
            if journal.hold == Some(u64::MAX) {
                journal.hold = Some(version);
            }
        }
        if start {
            self.spawn(|shelf| shelf.record_all());
        }
        version
    }

    /// Notes a change and waits until it is on the labels.
    pub(super) async fn record(&self) -> Result {
        let version = self.changed();
        let (done, recorded) = wait();
        {
            let mut roster = self.roster.lock();
            if roster.recorded >= version {
                return self.check_running();
            }
            roster.waiting.push((version, done));
        }
        recorded.await
    }

    async fn record_all(self: Arc<Self>) {
        loop {
            let version = {
                let mut roster = self.roster.lock();
                if roster.version == roster.recorded {
                    roster.recording = false;
                    break;
                }
                roster.generation += 1;
                roster.version
            };
            if let Err(cause) = self.write_roster().await {
                self.stop(&cause);
                let waiting = std::mem::take(&mut self.roster.lock().waiting);
                return waiting.into_iter().for_each(|(_, done)| done(Err(cause.clone())));
            }
            let told: Vec<_> = {
                let mut roster = self.roster.lock();
                roster.recorded = version;
                roster.waiting.extract_if(.., |(wanted, _)| *wanted <= version).collect()
            };
            told.into_iter().for_each(|(_, done)| done(Ok(())));
            self.release_appends(version);
        }
        let recorded = self.roster.lock().recorded;
        self.release_appends(recorded);
    }

    /// Answers what waited for the labels to have this version.
    fn release_appends(&self, version: u64) {
        {
            let mut journal = self.journal.lock();
            if journal.hold.is_some_and(|hold| hold <= version) {
                journal.hold = None;
            }
        }
        self.answer_appends();
    }

    /// Writes the table as it is now to every label: one copy of each drive, then the other.
    async fn write_roster(&self) -> Result {
        self.check_fence().await?;
        let present = self.present();
        let (generation, table, failures_to_tolerate) = {
            let roster = self.roster.lock();
            (roster.generation, roster.members.clone(), roster.failures_to_tolerate)
        };
        // Behind the table: who is out there has left the journal before.
        let journal = self.journal.lock().members;
        if journal == 0 {
            // The shelf stops. The labels go on naming the copy that went last: it has everything, when it is back.
            return Err(Error::Drive { what: "no drive is left that carries the journal".into() });
        }
        let segments = self.segments.lock().list.len() as u32;
        let label = |member: &Arc<Member>| Label {
            array: self.array,
            drive: member.id,
            generation,
            epoch: self.epoch,
            bytes: member.bytes,
            journal,
            slot: member.slot as u16,
            sealed: self.vault.is_sealed(),
            failures_to_tolerate: Some(failures_to_tolerate),
            segments,
            geometry: self.plan,
            members: table.clone(),
        };
        let mut failed = Vec::new();
        for turn in 0..2 {
            let write = |member: &Arc<Member>| {
                let at = [0, Label::second_at(member.bytes)][(member.first_label + turn) % 2];
                member.write_page(at, label(member).encode())
            };
            let waits: Vec<_> = present.iter().map(write).collect();
            for (member, written) in present.iter().zip(waits) {
                if let Err(cause) = written.await {
                    failed.push((member.slot, cause));
                }
            }
        }
        self.roster.lock().journal = journal;
        let in_use = (0..table.len()).filter(|slot| table[*slot].state == DriveState::InUse);
        self.journal.lock().in_use = in_use.fold(0, |set, slot| set | 1 << slot);
        self.choose_lanes();
        for (slot, cause) in &failed {
            self.put_out(*slot, cause);
        }
        self.check_running()
    }

    /// Reads the labels again: a higher epoch in one means that somebody else owns the shelf now.
    pub(super) async fn check_fence(&self) -> Result {
        self.check_running()?;
        let reads: Vec<_> =
            self.present().iter().map(|member| member.read_patiently(0, ALIGN as u32)).collect();
        for read in reads {
            // A label that can't be read is no proof of a newer owner; one that can is enough.
            if let Ok(Found::Label(label)) = read.await.map(|page| Label::decode(&page))
                && (label.epoch > self.epoch || label.array != self.array)
            {
                let fenced = Error::Fenced { epoch: label.epoch };
                self.stop(&fenced);
                return Err(fenced);
            }
        }
        Ok(())
    }

    /// Large batches are striped over the members that the labels name, that are there and prompt: all would have to wait
    /// for one that is not.
    pub(super) fn choose_lanes(&self) {
        let mut journal = self.journal.lock();
        let present = self.present();
        let prompt = present.iter().filter(|member| !member.is_lagging());
        journal.lanes = prompt.fold(0, |set, member| set | 1 << member.slot) & journal.in_use;
    }

    /// A slot with the members that may get a journal copy, in order.
    pub(super) fn without_copy(&self) -> Option<usize> {
        let members = self.journal.lock().members;
        let in_use = |slot: &usize| {
            self.roster.lock().members.get(*slot).is_some_and(|member| member.state == DriveState::InUse)
        };
        let present = self.present();
        let prompt = present.iter().filter(|member| !member.is_lagging());
        let free = prompt.map(|member| member.slot);
        free.filter(|slot| members >> slot & 1 == 0).find(in_use)
    }

    /// Journal copies on drives that lag, when another drive can have them.
    pub(super) fn lagging_copies(&self) -> Vec<usize> {
        let members = self.journal.lock().members;
        let lags = |slot: &usize| self.member(*slot).is_some_and(|member| member.is_lagging());
        slots(members).filter(lags).collect()
    }

    /// Journal copies on drives that are being emptied, or that are not there.
    pub(super) fn misplaced_copies(&self) -> Vec<usize> {
        let members = self.journal.lock().members;
        let roster = self.roster.lock();
        let state = |slot: usize| roster.members.get(slot).map(|member| member.state);
        slots(members).filter(|slot| state(*slot) != Some(DriveState::InUse)).collect()
    }
}
