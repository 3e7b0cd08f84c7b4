//! Membership: changes of the table of members, written to the labels of all drives that are present.
//!
//! A failed drive is removed from the journal first, and no append completes until the labels of the others record that:
//! a drive that comes back later can be distinguished from one that has everything.

use super::member::Member;
use super::{DriveShelf, slots};
use crate::DriveState;
use crate::geometry::Profile;
use crate::label::{self, Label, LabelPage};
use crate::{ALIGN, Done, Error, Result, wait};
use std::sync::Arc;

/// The table of members, and the version of it that the labels have.
pub struct Membership {
    pub generation: u64,
    /// Of the label, to be kept.
    optional_features: u16,
    shared: bool,
    pub members: Vec<label::Member>,
    /// Journal copies that the labels name, as a set of slots: recovery reads no others.
    pub journal: u64,
    /// Drive failures that the array is specified to tolerate.
    pub failures_to_tolerate: u8,
    /// Incremented by every change.
    version: u64,
    recorded: u64,
    recording: bool,
    waiting: Vec<(u64, Done<()>)>,
}

impl Membership {
    pub fn new(label: &Label) -> Self {
        Self {
            generation: label.generation,
            optional_features: label.optional_features,
            shared: label.shared,
            members: label.members.clone(),
            journal: label.journal,
            failures_to_tolerate: label.failures_to_tolerate.unwrap_or_else(|| {
                let members = label.members.iter().filter(|it| it.state != DriveState::Empty);
                Profile::of(members.count()).parity
            }),
            version: 0,
            recorded: 0,
            recording: false,
            waiting: Vec::new(),
        }
    }
}

impl DriveShelf {
    /// Fails a drive: the array works without it from then on.
    pub(super) fn fail_drive(&self, slot: usize, cause: &Error) {
        let member = self.members.read().get(slot).cloned().flatten();
        let Some(member) = member.filter(|member| !member.is_failed()) else { return };
        if matches!(cause, Error::NoSpace { .. }) {
            // A write that had its space reserved found none. The drive is sound, and others may share its file system:
            // failing one after the other would leave none. The next opening finds all of them as they are.
            return self.stop(cause);
        }
        if let Error::Fenced { epoch } = cause {
            // A newer owner has ended this one's reservation. All drives belong to it.
            return self.stop(&Error::Fenced { epoch: (*epoch).max(self.epoch + 1) });
        }
        // First the journal continues without it and completes nothing, then the change is noted: labels written from
        // now on do not name it.
        let none_left = {
            let mut journal = self.journal.lock();
            let bit = 1 << slot;
            if journal.joining == Some(slot) {
                journal.joining = None;
            }
            journal.members &= !bit;
            // Whether or not it has a copy: batches in flight may be striped over it.
            journal.hold = Some(u64::MAX);
            journal.members == 0
        };
        if !member.mark_failed() {
            // Another thread has just failed it, and what it held up may have completed already.
            self.note_change();
            return;
        }
        tracing::error!(drive = member.name(), slot, %cause, "a drive has failed");
        if let Some(entry) = self.membership.lock().members.get_mut(slot) {
            (entry.state, entry.last_common_epoch) = (DriveState::Failed, self.epoch);
        }
        self.update_stripe_candidates();
        self.count_members();
        self.segments.lock().drop_drive(slot);
        if none_left || self.present().is_empty() {
            self.stop(cause);
            return member.abort_all();
        }
        if self.lacks_quorum() {
            self.stop(&Error::Drive {
                what: "half of the drives have failed, and two controllers share them: the other one may see them".into(),
            });
            return member.abort_all();
        }
        self.note_change();
        self.background.wake();
        // Requests to it are aborted only now that its columns are marked as stale.
        member.abort_all();
    }

    /// Of drives that controllers share more than half are written by every owner and read by the next one, which therefore
    /// knows which ones an owner continued without. True if too few are left for that.
    fn lacks_quorum(&self) -> bool {
        let membership = self.membership.lock();
        let members = membership.members.iter().filter(|member| member.state != DriveState::Empty).count();
        membership.shared && 2 * self.present().len() <= members
    }

    /// Updates the number of members, and of failed ones, from which the parity of new segments follows.
    pub(super) fn count_members(&self) {
        let (members, out) = {
            let membership = self.membership.lock();
            let count = |wanted: &[DriveState]| {
                membership.members.iter().filter(|member| wanted.contains(&member.state)).count()
            };
            (count(&[DriveState::Online, DriveState::Failed]), count(&[DriveState::Failed]))
        };
        self.segments.lock().set_members(members, out);
    }

    /// Notes that members or journal copies have changed and writes the labels; returns the version of the change.
    pub(super) fn note_change(&self) -> u64 {
        let (version, start) = {
            let mut membership = self.membership.lock();
            membership.version += 1;
            (membership.version, !std::mem::replace(&mut membership.recording, true))
        };
        {
            let mut journal = self.journal.lock();
            if journal.hold == Some(u64::MAX) {
                journal.hold = Some(version);
            }
        }
        if start {
            self.spawn(|shelf| shelf.persist_all());
        }
        version
    }

    /// Notes a change and waits until the labels have it.
    pub(super) async fn persist_membership(&self) -> Result {
        let version = self.note_change();
        let (done, recorded) = wait();
        {
            let mut membership = self.membership.lock();
            if membership.recorded >= version {
                return self.check_running();
            }
            membership.waiting.push((version, done));
        }
        recorded.await
    }

    async fn persist_all(self: Arc<Self>) {
        loop {
            let version = {
                let mut membership = self.membership.lock();
                if membership.version == membership.recorded {
                    membership.recording = false;
                    break;
                }
                membership.generation += 1;
                membership.version
            };
            if let Err(cause) = self.write_labels().await {
                self.stop(&cause);
                let waiting = std::mem::take(&mut self.membership.lock().waiting);
                return waiting.into_iter().for_each(|(_, done)| done(Err(cause.clone())));
            }
            let waiters: Vec<_> = {
                let mut membership = self.membership.lock();
                membership.recorded = version;
                membership.waiting.extract_if(.., |(wanted, _)| *wanted <= version).collect()
            };
            waiters.into_iter().for_each(|(_, done)| done(Ok(())));
            self.release_appends(version);
        }
        let recorded = self.membership.lock().recorded;
        self.release_appends(recorded);
    }

    /// Completes appends that waited for the labels to have this version.
    fn release_appends(&self, version: u64) {
        {
            let mut journal = self.journal.lock();
            if journal.hold.is_some_and(|hold| hold <= version) {
                journal.hold = None;
            }
        }
        self.answer_appends();
    }

    /// Writes the current table to every label: first one copy on each drive, then the other.
    async fn write_labels(&self) -> Result {
        self.check_fence().await?;
        let present = self.present();
        let (generation, features, table, failures_to_tolerate) = {
            let membership = self.membership.lock();
            (
                membership.generation,
                (membership.optional_features, membership.shared),
                membership.members.clone(),
                membership.failures_to_tolerate,
            )
        };
        // Read after the table: a drive that is failed there has left the journal before.
        let journal = self.journal.lock().members;
        if journal == 0 {
            // The shelf stops. The labels keep naming the copy that failed last: it has everything once it is back.
            return Err(Error::Drive { what: "no drive is left that carries the journal".into() });
        }
        let segments = self.segments.lock().list.len() as u32;
        let label = |member: &Arc<Member>| Label {
            optional_features: features.0,
            shared: features.1,
            array: self.array,
            drive: member.id,
            generation,
            epoch: self.epoch,
            bytes: member.bytes,
            journal,
            slot: member.slot as u16,
            sealed: self.keyring.is_sealed(),
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
        self.membership.lock().journal = journal;
        let in_use = (0..table.len()).filter(|slot| table[*slot].state == DriveState::Online);
        self.journal.lock().in_use = in_use.fold(0, |set, slot| set | 1 << slot);
        self.update_stripe_candidates();
        for (slot, cause) in &failed {
            self.fail_drive(*slot, cause);
        }
        self.check_running()
    }

    /// Fencing check: reads the labels again; a higher epoch means that there is a newer owner.
    pub(super) async fn check_fence(&self) -> Result {
        self.check_running()?;
        let reads: Vec<_> =
            self.present().iter().map(|member| member.read_with_write_timeout(0, ALIGN as u32)).collect();
        for read in reads {
            // A label that can't be read is no proof of a newer owner; one with a higher epoch is enough.
            if let Ok(LabelPage::Label(label)) = read.await.map(|page| Label::decode(&page))
                && (label.epoch > self.epoch || label.array != self.array)
            {
                let fenced = Error::Fenced { epoch: label.epoch };
                self.stop(&fenced);
                return Err(fenced);
            }
        }
        Ok(())
    }

    /// Large batches are striped over the members that the labels name, that are present and not slow: an append waits for
    /// the slowest.
    pub(super) fn update_stripe_candidates(&self) {
        let mut journal = self.journal.lock();
        let present = self.present();
        let prompt = present.iter().filter(|member| !member.is_placement_avoided());
        journal.stripe_candidates = prompt.fold(0, |set, member| set | 1 << member.slot) & journal.in_use;
    }

    /// A slot that may get a journal copy.
    pub(super) fn journal_copy_candidate(&self) -> Option<usize> {
        let members = self.journal.lock().members;
        let in_use = |slot: &usize| {
            self.membership.lock().members.get(*slot).is_some_and(|member| member.state == DriveState::Online)
        };
        let present = self.present();
        let prompt = present.iter().filter(|member| !member.is_placement_avoided());
        let free = prompt.map(|member| member.slot);
        free.filter(|slot| members >> slot & 1 == 0).find(in_use)
    }

    /// Journal copies on slow drives.
    pub(super) fn slow_journal_copies(&self) -> Vec<usize> {
        let members = self.journal.lock().members;
        let is_slow = |slot: &usize| self.member(*slot).is_some_and(|member| member.is_placement_avoided());
        slots(members).filter(is_slow).collect()
    }

    /// Journal copies on drives that are being evacuated or missing.
    pub(super) fn misplaced_copies(&self) -> Vec<usize> {
        let members = self.journal.lock().members;
        let membership = self.membership.lock();
        let state = |slot: usize| membership.members.get(slot).map(|member| member.state);
        slots(members).filter(|slot| state(*slot) != Some(DriveState::Online)).collect()
    }
}
