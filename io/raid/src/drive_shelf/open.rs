//! Formatting and opening: labels, superblocks, the segment map, and the epoch of the new owner.
//!
//! Opening writes the new epoch to all labels before anything else, so that an older owner is fenced, and makes all
//! drives equal before it relies on any of them.

use super::backing::allocate_fixed;
use super::keys::{self, Opening};
use super::member::Member;
use super::{DriveShelf, read_bytes, slots};
use crate::codec::RECORDS;
use crate::encryption::{Envelope, Keyring};
use crate::geometry::{Geometry, JOURNAL_COPIES, LABEL_BYTES, MIN_DRIVE_BYTES, Profile, Sizes};
use crate::journal::JournalRing;
use crate::label::{self, Assembly, Candidate, Label, LabelPage, MAX_EPOCH, assemble};
use crate::limits::Limits;
use crate::segment_map::Page;
use crate::superblock::StoredSuperblock;
use crate::{ALIGN, AlignedBuf, Drive, Error, JournalPos, Result, Wait, wait};
use crate::{Consent, DriveContents, DriveState};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Options of [`DriveShelf::format`].
#[derive(Clone, Debug, Default)]
pub struct FormatOptions {
    /// The identity of the array; never reused.
    pub array: u128,
    /// Sizes; those left out are chosen by the size of the drives.
    pub sizes: Sizes,
    /// What may be overwritten.
    pub consent: Consent,
    /// The new owner; if it has a key, the drives are encrypted.
    pub opening: Opening,
    /// Internal limits.
    pub limits: Limits,
}

/// Bytes at both ends of a drive that must be zero on a blank one: file systems, volume managers and partition tables
/// have their signatures there.
const ENDS_BYTES: u64 = 1 << 20;

/// A drive's copy of the segment map: the age of the page at each index.
type MapCopy = (Arc<Member>, BTreeMap<u64, (u64, u64)>);

impl DriveShelf {
    /// True if these drives hold, or may hold, an array; false if formatting them destroys nothing.
    ///
    /// # Errors
    /// [`Error::Drive`] when no drive can be read.
    pub async fn is_formatted(drives: &[Arc<dyn Drive>]) -> Result<bool> {
        Ok(!read_candidates(drives).await?.iter().all(Candidate::is_fresh))
    }

    /// Examines what is on a drive. Only its labels and both ends are read: data in between go undetected.
    ///
    /// # Errors
    /// [`Error::Drive`] when it can't be read.
    pub async fn contents(drive: &dyn Drive) -> Result<DriveContents> {
        contents(drive).await
    }

    /// Makes a new, empty shelf of these drives, in this order, and opens it.
    ///
    /// # Errors
    /// [`Error::Unusable`] when a drive is too small or holds something that `consent` does not allow to overwrite;
    /// [`Error::Drive`].
    pub async fn format(drives: Vec<Arc<dyn Drive>>, options: FormatOptions) -> Result<Arc<Self>> {
        let candidates = read_candidates(&drives).await?;
        candidates.iter().try_for_each(|candidate| check_consent(candidate, &options.consent))?;
        let sizes: Vec<u64> = drives.iter().map(|drive| drive.bytes()).collect();
        let plan = Geometry::plan(&sizes, &options.sizes)?;
        for (drive, bytes) in drives.iter().zip(&sizes) {
            allocate_fixed(&**drive, &plan, *bytes).await?;
        }
        let copies = drives.len().min(JOURNAL_COPIES);
        let id = |slot: usize| options.array.wrapping_add(1 + slot as u128);
        let member = |(slot, bytes): (usize, &u64)| label::Member {
            drive: id(slot),
            bytes: *bytes,
            state: DriveState::Online,
            last_common_epoch: 0,
        };
        let table: Vec<_> = sizes.iter().enumerate().map(member).collect();
        let first = Label {
            optional_features: 0,
            array: options.array,
            drive: id(0),
            generation: 0,
            epoch: 1,
            bytes: sizes[0],
            journal: (1 << copies) - 1,
            slot: 0,
            sealed: options.opening.key.is_some(),
            shared: false,
            failures_to_tolerate: Some(Profile::of(drives.len()).parity),
            segments: 0,
            geometry: plan,
            members: Vec::new(),
        };
        for copy in 0..2 {
            let write = |(slot, drive): (usize, &Arc<dyn Drive>)| {
                let label = Label { drive: id(slot), bytes: sizes[slot], slot: slot as u16, ..first.clone() };
                write_page(&**drive, label_at(copy, sizes[slot]), label.encode())
            };
            all(drives.iter().enumerate().map(write).collect()).await?;
        }
        for (index, drive) in drives.iter().enumerate() {
            clear(&**drive, &plan, index < copies).await?;
        }
        let (key, envelope) = options.opening.key.unzip();
        let page = envelope.as_ref().map_or_else(keys::blank, Envelope::encode);
        keys::write_places(&drives, &page).await?;
        let members = drives.into_iter().enumerate();
        let members =
            members.map(|(slot, drive)| Some(Member::new(slot, id(slot), sizes[slot], drive))).collect();
        let label = Label { members: table, ..first };
        let ring = JournalRing::new(plan.journal_bytes, JournalPos(1), 0);
        let keyring = Keyring::new(options.array, key, options.opening.salt);
        let shelf = Self::new(members, &label, (keyring, options.opening.salt), Some(ring), options.limits);
        *shelf.envelope.lock() = envelope;
        shelf.count_members();
        shelf.refresh_backing();
        let failed = shelf.grow().await.err().or_else(|| shelf.first_failure());
        match failed {
            Some(cause) => Err(cause),
            None => Ok(shelf),
        }
    }

    /// Opens the shelf on these drives, given in any order, and takes it from any older owner. As many drives may be
    /// missing, blank or stale as parity tolerates: the shelf continues without those that are missing.
    /// [`Shelf::recover`](crate::Shelf::recover) comes before the first append.
    ///
    /// # Errors
    /// [`Error::Unusable`] when a drive is foreign or duplicated, or too many are missing to read all data;
    /// the text says what to do.
    pub async fn open(drives: Vec<Arc<dyn Drive>>, opening: Opening) -> Result<Arc<Self>> {
        Self::open_with(drives, opening, Limits::default()).await
    }

    /// As [`DriveShelf::open`], with other internal limits than those of the product.
    ///
    /// # Errors
    /// As [`DriveShelf::open`].
    pub async fn open_with(
        drives: Vec<Arc<dyn Drive>>,
        opening: Opening,
        limits: Limits,
    ) -> Result<Arc<Self>> {
        Self::open_as(drives, opening, limits, None).await
    }

    /// As [`DriveShelf::open`], for the home of controllers that share the drives, which has taken them over
    /// ([`Party::take_over`](crate::shared::Party::take_over)). The owner's epoch is at least `epoch`. From here on the array
    /// can only be opened so.
    ///
    /// # Errors
    /// As [`DriveShelf::open`].
    pub async fn open_shared(
        drives: Vec<Arc<dyn Drive>>,
        opening: Opening,
        limits: Limits,
        epoch: u64,
    ) -> Result<Arc<Self>> {
        Self::open_as(drives, opening, limits, Some(epoch)).await
    }

    async fn open_as(
        drives: Vec<Arc<dyn Drive>>,
        opening: Opening,
        limits: Limits,
        shared: Option<u64>,
    ) -> Result<Arc<Self>> {
        let candidates = read_candidates(&drives).await?;
        let assembly = assemble(&candidates)?;
        check_shared(&assembly, shared)?;
        check_superblock_versions(&candidates, &assembly)?;
        let stale = stale_members(&candidates, &assembly);
        let Assembly { newest, order, others } = assembly;
        let epochs = candidates.iter().filter_map(|candidate| candidate.label().ok());
        let epoch = (1 + epochs.map(|label| label.epoch).max().unwrap_or(0)).max(shared.unwrap_or(0));
        let mut label = Label { epoch, shared: shared.is_some(), ..newest };
        let mut members: Vec<Option<Arc<Member>>> = Vec::new();
        let mut returning = 0;
        for (slot, (entry, found)) in label.members.iter_mut().zip(&order).enumerate() {
            let drive = found.map(|index| drives[index].clone());
            let returns = drive.is_some() && (entry.state == DriveState::Failed || stale >> slot & 1 == 1);
            match (&drive, entry.state) {
                (_, DriveState::Empty) | (None, DriveState::Failed) => {}
                (None, _) => {
                    tracing::error!(slot, "a drive is missing: its slot is marked as failed");
                    (entry.state, entry.last_common_epoch) = (DriveState::Failed, epoch - 1);
                }
                (Some(drive), _) if returns => {
                    // Only those of its sectors are used that the map refers to and that verify. It stays failed until
                    // it has the current superblock and map.
                    tracing::warn!(slot, drive = drive.name(), "a missing drive is back");
                    (entry.state, entry.last_common_epoch) = (DriveState::Failed, epoch);
                    returning |= 1 << slot;
                }
                _ => {}
            }
            if drive.is_none() || returns {
                label.journal &= !(1 << slot);
            }
            let first = found.map_or(0, |index| candidates[index].older_copy());
            let member = |drive| Member::with_labels(slot, entry.drive, entry.bytes, drive, first);
            members.push(drive.map(member));
        }
        if label.journal == 0 {
            return Err(Error::Unusable(
                "all drives with a copy of the journal are missing, and without them the last acknowledged writes \
                 would be lost: add their paths"
                    .into(),
            ));
        }
        check_key(label.sealed, opening.key.is_some())?;
        let (key, envelope) = opening.key.unzip();
        let keyring = Keyring::new(label.array, key, opening.salt);
        let shelf = Self::new(members, &label, (keyring, opening.salt), None, limits);
        *shelf.former_drives.lock() = former_drives(&candidates, &others);
        shelf.check_readable(&order, returning).await?;
        let lacking = match &envelope {
            Some(envelope) => shelf.check_envelope(envelope).await?,
            None => Vec::new(),
        };
        // From here on an older owner is fenced.
        shelf.persist_membership().await?;
        shelf.spread_envelope(&lacking).await?;
        shelf.load_superblocks(returning).await?;
        shelf.load_map(returning).await?;
        shelf.readmit(returning).await?;
        shelf.count_members();
        shelf.allocate_members().await;
        tracing::info!(
            array = format_args!("{:032x}", label.array),
            epoch,
            drives = shelf.present().len(),
            "shelf opened"
        );
        Ok(shelf)
    }

    /// Makes drives that were missing members again, after they have the current superblock and map.
    async fn readmit(&self, returning: u64) -> Result {
        if returning == 0 {
            return Ok(());
        }
        self.journal.lock().returned = returning;
        for slot in slots(returning).filter(|slot| self.member(*slot).is_some()) {
            let entry = &mut self.membership.lock().members[slot];
            (entry.state, entry.last_common_epoch) = (DriveState::Online, 0);
        }
        self.persist_membership().await
    }

    /// Loads the newest superblock and writes it to every drive. Drives in `returning` don't count: theirs may be one
    /// that was never acknowledged, and that an owner without them continued without.
    async fn load_superblocks(&self, returning: u64) -> Result {
        let mut found = Vec::new();
        // A power loss while slot 1 was written may have torn it on all drives: then only slot 0 is valid.
        let mut last = 0;
        for member in self.present().iter().filter(|member| returning >> member.slot & 1 == 0) {
            let mut writer = [None, None];
            for (copy, stored) in writer.iter_mut().enumerate() {
                let at = self.plan.superblock_at(copy);
                let read = member.read_with_write_timeout(at, self.plan.superblock_bytes).await;
                // A copy that can't be read is treated like a torn one.
                *stored = read.ok().and_then(|bytes| StoredSuperblock::decode(&bytes, &self.keyring));
            }
            let ages = writer.each_ref().map(|stored| stored.as_ref().map(StoredSuperblock::age));
            last |= u64::from(ages[0] > ages[1]) << member.slot;
            found.extend(writer.into_iter().flatten());
        }
        let Some(mut newest) =
            found.into_iter().filter(|stored| stored.epoch < self.epoch).max_by_key(StoredSuperblock::age)
        else {
            let (map, _) = self.read_map(returning).await?;
            if map.values().any(|(page, _)| page.entries.iter().flatten().any(|entry| entry.filled > 0)) {
                return Err(Error::Unusable(format!(
                    "array {:032x} has data, but no readable superblock: it is not opened because it would look like a \
                     new array",
                    self.array
                )));
            }
            return self.write_slots(&keys::blank(), returning, 0).await;
        };
        // Rewritten as this owner's on every drive. From here on nothing may depend on a few copies, and a missing drive
        // may have a newer one of the same owner, which was never acknowledged and must never be used.
        (newest.epoch, newest.salt, newest.sequence) = (self.epoch, self.salt, newest.sequence + 1);
        self.write_to_slots(&newest, last).await?;
        self.superblocks.lock().newest = Some(newest);
        Ok(())
    }

    /// Refuses to open if a segment needs drives that are missing. Nothing has been written yet.
    async fn check_readable(&self, order: &[Option<usize>], returning: u64) -> Result {
        let (newest, _) = self.read_map(returning).await?;
        let present = self.present().iter().fold(0, |set, member| set | 1 << member.slot);
        let entries = newest.values().flat_map(|(page, _)| page.entries.iter().flatten());
        let unreadable = entries
            .filter(|entry| {
                entry.filled > 0 && entry.lost(present).count() > usize::from(entry.profile.parity)
            })
            .count();
        let missing: Vec<_> = (0..order.len()).filter(|slot| order[*slot].is_none()).collect();
        if unreadable == 0 || missing.is_empty() {
            return Ok(());
        }
        Err(Error::Unusable(format!(
            "array {:032x} had {} drives; slots {missing:?} are missing, and without them {unreadable} segments can't \
             be read: add their paths",
            self.array,
            order.len()
        )))
    }

    /// The newest version of every page of the map with its place, from drives that are not in `returning`, and what
    /// each drive has.
    async fn read_map(&self, returning: u64) -> Result<(BTreeMap<u32, (Page, u8)>, Vec<MapCopy>)> {
        let bytes = self.plan.map_bytes(self.segments.lock().list.len() as u32);
        let members = self.present();
        let mut newest = BTreeMap::<u32, (Page, u8)>::new();
        let mut held = Vec::new();
        for member in &members {
            let mut ages = BTreeMap::new();
            let step = self.limits.map_read_pages * ALIGN as u64;
            for from in (0..bytes).step_by(step as usize) {
                let len = step.min(bytes - from);
                // Pages that can't be read here are read from other drives.
                let Ok(pages) = member.read_with_write_timeout(self.plan.map_at() + from, len as u32).await
                else {
                    continue;
                };
                for (place, page) in (from / ALIGN as u64..).zip(pages.chunks_exact(ALIGN)) {
                    if let Some(version) = Page::unknown_version(page, self.array) {
                        return Err(RECORDS.refusal("the segment map", version));
                    }
                    let page = Page::decode(page, self.array);
                    // A page of a future owner would win over everything that is written from now on.
                    let fits = |page: &Page| u64::from(page.number) == place / 2 && page.epoch < self.epoch;
                    let Some(page) = page.filter(fits) else {
                        continue;
                    };
                    ages.insert(place, page.age());
                    if returning >> member.slot & 1 == 1 {
                        continue;
                    }
                    let known = newest.get(&page.number);
                    if known.is_none_or(|(known, _)| known.age() < page.age()) {
                        newest.insert(page.number, (page, (place % 2) as u8));
                    }
                }
            }
            held.push((member.clone(), ages));
        }
        Ok((newest, held))
    }

    /// Loads the newest version of every page of the map, writes it to every drive, and clears everything else on
    /// drives in `returning`.
    async fn load_map(&self, returning: u64) -> Result {
        let (newest, held) = self.read_map(returning).await?;
        let mut waits = Vec::new();
        for (member, ages) in &held {
            let returns = returning >> member.slot & 1 == 1;
            let mut write = |index: u64, page: Bytes| {
                let at = self.plan.map_at() + index * ALIGN as u64;
                waits.push((member.slot, member.write_page(at, page)));
            };
            for (number, (page, place)) in &newest {
                let index = u64::from(*number) * 2 + u64::from(*place);
                if returns || ages.get(&index) != Some(&page.age()) {
                    write(index, page.encode(self.array));
                }
                if returns && ages.contains_key(&(index ^ 1)) {
                    write(index ^ 1, page.encode(self.array));
                }
            }
            let unknown = |index: &&u64| u32::try_from(*index / 2).is_ok_and(|it| !newest.contains_key(&it));
            ages.keys().filter(unknown).for_each(|index| write(*index, keys::blank()));
        }
        for (slot, written) in waits {
            if let Err(cause) = written.await {
                self.fail_drive(slot, &cause);
            }
        }
        self.check_running()?;
        {
            let mut commits = self.commits.lock();
            newest.values().for_each(|(page, place)| commits.places[page.number as usize] = *place);
        }
        let sizes: Vec<Option<u64>> = {
            let membership = self.membership.lock();
            let known = |member: &label::Member| (member.state != DriveState::Empty).then_some(member.bytes);
            membership.members.iter().map(known).collect()
        };
        let evacuating: Vec<usize> = {
            let membership = self.membership.lock();
            let is_evacuating =
                |(_, member): &(usize, &label::Member)| member.state == DriveState::Evacuating;
            membership.members.iter().enumerate().filter(is_evacuating).map(|(slot, _)| slot).collect()
        };
        let present = self.present();
        let mut segments = self.segments.lock();
        let pages: Vec<Page> = newest.into_values().map(|(page, _)| page).collect();
        segments.load(&pages, &sizes);
        present.iter().for_each(|member| segments.add_space(member.slot, member.bytes));
        evacuating.into_iter().for_each(|slot| segments.set_closed(slot, true));
        Ok(())
    }

    /// Makes as many segments as there is room for, never fewer than before, and announces them once the labels have
    /// the number.
    pub(super) async fn grow(&self) -> Result {
        let count = {
            let mut segments = self.segments.lock();
            let count =
                segments.used() + segments.lasting_room().saturating_sub(super::PLACEMENT_RESERVE_SEGMENTS);
            segments.set_count(count.min(self.plan.max_segments));
            segments.list.len() as u32
        };
        self.persist_membership().await?;
        let mut segments = self.segments.lock();
        segments.announced = segments.announced.max(count);
        Ok(())
    }

    fn first_failure(&self) -> Option<Error> {
        let members = self.members.read();
        let failed = members.iter().flatten().find(|member| member.is_failed())?;
        Some(Error::Drive { what: format!("{} failed while it was formatted", failed.name()) })
    }
}

/// Refuses a drive with labels that may not be overwritten.
pub(super) fn check_consent(candidate: &Candidate, consent: &Consent) -> Result {
    let name = &candidate.name;
    match candidate.owner() {
        Some(array) if !consent.arrays.contains(&array) => {
            Err(Error::Unusable(format!("{name} belongs to array {array:032x}; formatting would destroy it")))
        }
        None if !candidate.is_fresh() && !consent.foreign => Err(Error::Unusable(format!(
            "{name} holds data that is not Ashlar's; formatting would destroy it"
        ))),
        _ => Ok(()),
    }
}

async fn contents(drive: &dyn Drive) -> Result<DriveContents> {
    let (candidate, failure) = read_candidate(drive).await;
    failure.map_or(Ok(()), Err)?;
    if let Some(array) = candidate.owner() {
        let label = candidate.label().ok().filter(|label| label.array == array);
        let slot = label.map(|label| (usize::from(label.slot), label.members.len()));
        return Ok(DriveContents::Array { array, slot });
    }
    let bytes = drive.bytes();
    // An incomplete format leaves labels and the envelope, or only the end of the very first label.
    let (front, end) = match (candidate.is_begun(), &candidate.copies[0]) {
        (true, _) => (LABEL_BYTES, Label::second_at(bytes)),
        (false, LabelPage::Unfinished) => (ALIGN as u64, bytes),
        (false, _) => (0, bytes),
    };
    let middle = ENDS_BYTES.clamp(front, end);
    for (from, to) in [(front, middle), (bytes.saturating_sub(ENDS_BYTES).clamp(middle, end), end)] {
        let len = (to - from) as u32;
        if len == 0 {
            continue;
        }
        let found = read_bytes(drive, from, len).await?;
        if let Some(at) = found.iter().position(|byte| *byte != 0) {
            return Ok(DriveContents::Foreign { at: from + at as u64 });
        }
    }
    Ok(DriveContents::Blank)
}

pub(super) fn label_at(copy: usize, bytes: u64) -> u64 {
    [0, Label::second_at(bytes)][copy]
}

/// The names of candidates that have a label and are not members.
fn former_drives(candidates: &[Candidate], others: &[usize]) -> Vec<String> {
    let others = others.iter().map(|index| &candidates[*index]);
    let named = others.inspect(|other| tracing::warn!(drive = other.name, "not a member: left as it is"));
    named.filter(|other| other.label().is_ok()).map(|other| other.name.clone()).collect()
}

/// Slots whose drives were missing when the newest superblock was written: its owner had written its epoch to all labels
/// before, so a label with a lower epoch is an old copy or of a drive that was missing.
fn stale_members(candidates: &[Candidate], assembly: &Assembly) -> u64 {
    let found =
        || assembly.order.iter().enumerate().filter_map(|(slot, it)| Some((slot, &candidates[(*it)?])));
    let newest = found().filter_map(|(_, candidate)| candidate.superblock_epoch).max().unwrap_or(0);
    let old = found().filter(|(_, candidate)| candidate.label().is_ok_and(|label| label.epoch < newest));
    old.fold(0, |set, (slot, _)| set | 1 << slot)
}

/// Refuses superblocks of members that only another release can read: they would look as if they were torn.
fn check_superblock_versions(candidates: &[Candidate], assembly: &Assembly) -> Result {
    let members = assembly.order.iter().flatten().map(|index| &candidates[*index]);
    match members.filter_map(|member| Some((member, member.unknown_superblock?))).next() {
        Some((member, version)) => {
            Err(RECORDS.refusal(&format!("the superblock of {}", member.name), version))
        }
        None => Ok(()),
    }
}

/// Awaits all of them; the first error if there is one.
pub(super) async fn all(waits: Vec<Wait<()>>) -> Result {
    let mut outcome = Ok(());
    for each in waits {
        outcome = outcome.and(each.await);
    }
    outcome
}

pub(super) fn write_page(drive: &dyn Drive, at: u64, page: Bytes) -> Wait<()> {
    let (done, written) = wait();
    drive.write(at, vec![page], true, done);
    written
}

/// The labels on a drive; unusable ones if they can't be read.
pub(super) async fn read_candidate(drive: &dyn Drive) -> (Candidate, Option<Error>) {
    let bytes = drive.bytes();
    let name = drive.name().to_owned();
    if bytes < MIN_DRIVE_BYTES {
        let copies = [LabelPage::Blank, LabelPage::Blank];
        return (
            Candidate {
                name,
                bytes,
                copies,
                superblock_epoch: None,
                unknown_superblock: None,
                named: [None, None],
            },
            None,
        );
    }
    let decode = |page: Bytes| (Label::decode(&page), Label::named(&page));
    let first = read_bytes(drive, 0, ALIGN as u32).await.map(decode);
    let second_at = match &first {
        Ok((LabelPage::Label(label), _)) if label.bytes <= bytes => Label::second_at(label.bytes),
        _ => Label::second_at(bytes),
    };
    let second = read_bytes(drive, second_at, ALIGN as u32).await.map(decode);
    let failure = match (&first, &second) {
        (Err(cause), Err(_)) => Some(cause.clone()),
        _ => None,
    };
    let (first, second) =
        (first.unwrap_or((LabelPage::Other, None)), second.unwrap_or((LabelPage::Other, None)));
    let (copies, named) = ([first.0, second.0], [first.1, second.1]);
    let mut candidate =
        Candidate { name, bytes, copies, superblock_epoch: None, unknown_superblock: None, named };
    if let Ok(Label { geometry, array, .. }) = candidate.label() {
        for copy in 0..2 {
            let page = read_bytes(drive, geometry.superblock_at(copy), ALIGN as u32).await;
            let Ok(page) = page else { continue };
            let epoch = StoredSuperblock::epoch_of(&page, array);
            candidate.superblock_epoch = candidate.superblock_epoch.max(epoch);
            let unknown = StoredSuperblock::unknown_version(&page, array);
            candidate.unknown_superblock = candidate.unknown_superblock.max(unknown);
        }
    }
    (candidate, failure)
}

pub(crate) async fn read_candidates(drives: &[Arc<dyn Drive>]) -> Result<Vec<Candidate>> {
    let mut candidates = Vec::with_capacity(drives.len());
    let mut failures = Vec::new();
    for drive in drives {
        let (candidate, failure) = read_candidate(&**drive).await;
        candidates.push(candidate);
        failures.extend(failure);
    }
    match failures.into_iter().next_back() {
        Some(cause) if candidates.iter().all(|candidate| candidate.label().is_err()) => Err(cause),
        Some(cause) => {
            tracing::error!(%cause, "a drive can't be read");
            Ok(candidates)
        }
        None => Ok(candidates),
    }
}

/// Refuses to open encrypted drives without a key, and others with one.
fn check_key(sealed: bool, given: bool) -> Result {
    match (sealed, given) {
        (true, false) => Err(Error::Unusable("the drives are encrypted: open them with their key".into())),
        (false, true) => Err(Error::Unusable("the drives are not encrypted: open them without a key".into())),
        _ => Ok(()),
    }
}

/// Refuses drives that controllers share to who does not open them as one of these.
fn check_shared(Assembly { newest, order, .. }: &Assembly, shared: Option<u64>) -> Result {
    let members = newest.members.iter().filter(|member| member.state != DriveState::Empty).count();
    let present = order.iter().flatten().count();
    match shared {
        None if newest.shared => Err(Error::Unusable(format!(
            "two controllers share the drives of array {:032x}: start ashlard with --controller N, where N is the number of \
             this controller",
            newest.array
        ))),
        Some(epoch) if epoch >= MAX_EPOCH => {
            Err(Error::Unusable(format!("epoch {epoch} is larger than drives can have")))
        }
        // See `lacks_quorum`.
        Some(_) if 2 * present <= members => Err(Error::Unusable(format!(
            "array {:032x} has {members} drives, and {present} of them can be used here: the other controller may have \
             continued with the others. More than half are needed: add their paths",
            newest.array
        ))),
        _ => Ok(()),
    }
}

/// Overwrites both ends of a drive that was removed from the store, so that it is blank. A failed drive may still
/// accept these writes.
pub(super) async fn clear_ends(member: &Member) -> Result {
    let zeros = Arc::new(AlignedBuf::zeroed(ENDS_BYTES as usize));
    for at in [0, member.bytes.saturating_sub(ENDS_BYTES)] {
        let len = ENDS_BYTES.min(member.bytes - at) as usize;
        member.write_page_anyway(at, zeros.share(0..len)).await?;
    }
    Ok(())
}

/// Clears remains of an older array where this one expects superblocks, map and records. A journal is filled
/// with zeros completely: allocated space is written faster and can't run out.
pub(super) async fn clear(drive: &dyn Drive, plan: &Geometry, journal: bool) -> Result {
    const STEP: u64 = 1 << 20;
    let zeros = Arc::new(AlignedBuf::zeroed(STEP as usize));
    let (done, discarded) = wait();
    let segments_at = plan.granules_at();
    drive.discard(segments_at, Label::second_at(drive.bytes()) - segments_at, done);
    let mut waits = vec![discarded];
    for copy in 0..2 {
        waits.push(write_page(drive, plan.superblock_at(copy), zeros.share(0..ALIGN)));
    }
    all(waits).await?;
    let end = if journal { plan.journal_at() + plan.journal_bytes } else { plan.journal_at() };
    let mut at = plan.map_at();
    while at < end {
        let mut waits = Vec::new();
        for _ in 0..4 {
            let len = STEP.min(end - at);
            if len > 0 {
                let (done, written) = wait();
                drive.write(at, vec![zeros.share(0..len as usize)], false, done);
                waits.push(written);
            }
            at += len;
        }
        all(waits).await?;
    }
    let (done, synced) = wait();
    drive.sync(done);
    synced.await
}

#[cfg(test)]
#[path = "open_test.rs"]
mod tests;
