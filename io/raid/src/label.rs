//! Drive labels: identify the members of an array, and name all other members.
//!
//! A label is one page with two copies: in the first page of the drive and in the last that belongs to the shelf. They
//! are rewritten one after the other, so that a torn write leaves one valid. Every label has the table of all members;
//! the newest label on any drive counts, so drives may be given in any order, and any two may be missing.

use crate::DriveState;
use crate::codec::{FORMAT, Reader, Writer, crc32c};
use crate::geometry::{Geometry, MAX_DRIVES};
use crate::striping::PARITY_COLUMNS;
use crate::{ALIGN, AlignedBuf, Error, Result};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"ASHLABEL";

/// Offset of the checksum of a label page; it covers everything before it.
const CHECKSUM_AT: usize = ALIGN - 4;

const REQUIRED_FEATURES_AT: usize = 12;

/// The required feature of an array that controllers share.
const SHARED: u16 = 1;

const GENERATION_AT: usize = 48;

/// Offset of the table of members.
const MEMBERS_AT: usize = 512;
const MEMBER_BYTES: usize = 32;

/// What a drive writes atomically, at least. All fields of a label of generation 0 lie in the first one.
const SECTOR: usize = 512;

/// Epochs are smaller: nonces and the ages of segments have no room for larger ones.
pub const MAX_EPOCH: u64 = 1 << 31;

/// Generations are smaller.
const MAX_GENERATION: u64 = 1 << 62;

/// Drive states as the table of members encodes them.
const DRIVE_STATES: [(u8, DriveState); 4] =
    [(0, DriveState::Empty), (1, DriveState::Online), (2, DriveState::Evacuating), (3, DriveState::Failed)];

/// An entry of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The drive's identity, unique for all time.
    pub drive: u128,
    /// Its bytes, rounded down to pages, when it joined.
    pub bytes: u64,
    /// Its state.
    pub state: DriveState,
    /// Of a failed member: the last owner that it can have served together with the others. 0 if unknown.
    pub last_common_epoch: u64,
}

/// The identity of a drive and of the array that it is part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Features that releases without them may ignore: unknown ones are kept.
    pub optional_features: u16,
    /// The array's identity, unique for all time.
    pub array: u128,
    /// The drive's identity, unique for all time.
    pub drive: u128,
    /// Version of the membership: 0 while formatting, then one more with every change of `journal` or `members`.
    pub generation: u64,
    /// Version of the owner: one more with every opening.
    pub epoch: u64,
    /// Bytes of this drive, rounded down to pages, when it joined.
    pub bytes: u64,
    /// The slots that carry a copy of the journal, as a set of bits.
    pub journal: u64,
    /// The slot of this drive, from 0.
    pub slot: u16,
    /// True if the data on the drives are encrypted; the wrapped key follows the label.
    pub sealed: bool,
    /// True if controllers share the drives: who writes them has a reservation.
    pub shared: bool,
    /// Drive failures that the array is specified to tolerate, 0 to 2; `None` in labels of older releases.
    pub failures_to_tolerate: Option<u8>,
    /// Number of segments.
    pub segments: u32,
    /// The geometry of the shelf.
    pub geometry: Geometry,
    /// All members by slot; empty in generation 0.
    pub members: Vec<Member>,
}

/// What a label page turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelPage {
    /// Nothing but zeros.
    Blank,
    /// What a power cut leaves of the very first label written to a blank drive.
    Unfinished,
    /// None of these.
    Other,
    /// A label of a format that this release can't read.
    Version(u32),
    /// A label with required features that this release does not know.
    Features(u16),
    /// A label.
    Label(Box<Label>),
}

impl Label {
    /// Encodes the page.
    pub fn encode(&self) -> Bytes {
        let mut page = AlignedBuf::zeroed(ALIGN);
        let mut out = Writer::new(&mut page);
        out.put(&MAGIC).put(&FORMAT.current.to_le_bytes());
        let required = if self.shared { SHARED } else { 0 };
        out.put(&required.to_le_bytes()).put(&self.optional_features.to_le_bytes());
        out.put(&self.array.to_le_bytes()).put(&self.drive.to_le_bytes());
        out.put(&self.generation.to_le_bytes()).put(&self.epoch.to_le_bytes());
        out.put(&self.bytes.to_le_bytes()).put(&self.journal.to_le_bytes());
        let failures_to_tolerate = self.failures_to_tolerate.map_or(0, |failures| failures + 1);
        out.put(&self.slot.to_le_bytes()).put(&[u8::from(self.sealed), failures_to_tolerate]);
        out.put(&self.segments.to_le_bytes());
        self.geometry.encode(&mut out);
        for (member, at) in self.members.iter().take(MAX_DRIVES).zip((MEMBERS_AT..).step_by(MEMBER_BYTES)) {
            let state = DRIVE_STATES.iter().find(|(_, known)| *known == member.state);
            Writer::new(&mut page[at..at + MEMBER_BYTES])
                .put(&member.drive.to_le_bytes())
                .put(&member.bytes.to_le_bytes())
                .put(
                    &(state.map_or(0, |(code, _)| u64::from(*code)) | member.last_common_epoch << 8)
                        .to_le_bytes(),
                );
        }
        let checksum = crc32c([&page[..CHECKSUM_AT]]);
        page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        Arc::new(page).share(0..ALIGN)
    }

    /// Decodes a page.
    pub fn decode(page: &[u8]) -> LabelPage {
        if page.iter().all(|byte| *byte == 0) {
            return LabelPage::Blank;
        }
        let (Some(covered), Some(mut checksum)) =
            (page.get(..CHECKSUM_AT), page.get(CHECKSUM_AT..).map(Reader))
        else {
            return LabelPage::Other;
        };
        let mut from = Reader(covered);
        if from.take() != Some(MAGIC) || checksum.u32() != Some(crc32c([covered])) {
            return if Self::is_unfinished(covered) { LabelPage::Unfinished } else { LabelPage::Other };
        }
        // Every version keeps magic, version and checksum where they are.
        match from.u32() {
            Some(version) if !FORMAT.reads(version) => return LabelPage::Version(version),
            _ => {}
        }
        match from.take().map(u16::from_le_bytes) {
            Some(features) if features & !SHARED != 0 => LabelPage::Features(features & !SHARED),
            _ => Self::fields(covered).map_or(LabelPage::Other, |label| LabelPage::Label(Box::new(label))),
        }
    }

    /// True for fields of generation 0 without their checksum, or the checksum without its fields, with zeros
    /// otherwise.
    fn is_unfinished(covered: &[u8]) -> bool {
        let (fields, rest) = covered.split_at(SECTOR.min(covered.len()));
        let generation = fields.get(GENERATION_AT..GENERATION_AT + 8);
        let begun = fields.starts_with(&MAGIC) && generation.is_some_and(|bytes| bytes == [0; 8]);
        (begun || fields.iter().all(|byte| *byte == 0)) && rest.iter().all(|byte| *byte == 0)
    }

    fn fields(covered: &[u8]) -> Option<Self> {
        let mut from = Reader(covered.get(REQUIRED_FEATURES_AT..)?);
        let shared = from.take().map(u16::from_le_bytes)? & SHARED != 0;
        let optional_features = from.take().map(u16::from_le_bytes)?;
        let (array, drive) = (from.u128()?, from.u128()?);
        let (generation, epoch) = (from.u64()?, from.u64()?);
        let (bytes, journal) = (from.u64()?, from.u64()?);
        let slot = from.take().map(u16::from_le_bytes)?;
        let [sealed, failures_to_tolerate] = from.take()?;
        let segments = from.u32()?;
        let geometry = Geometry::decode(&mut from)?;
        let mut table = Reader(covered.get(MEMBERS_AT..)?);
        let mut members = Vec::new();
        for _ in 0..MAX_DRIVES {
            let (drive, bytes) = (table.u128()?, table.u64()?);
            let word = table.u64()?;
            let (code, last_common_epoch) = (word as u8, word >> 8);
            let (_, state) = *DRIVE_STATES.iter().find(|(known, _)| *known == code)?;
            if last_common_epoch > 0 && state != DriveState::Failed {
                return None;
            }
            members.push(Member { drive, bytes, state, last_common_epoch });
        }
        let used = members.iter().rposition(|member| member.state != DriveState::Empty);
        members.truncate(used.map_or(0, |last| last + 1));
        let known = members.get(usize::from(slot)).is_some_and(|member| member.bytes == bytes);
        let is_member = |slot: usize| members.get(slot).is_some_and(|one| one.state != DriveState::Empty);
        let copies = (0..MAX_DRIVES).filter(|slot| journal >> slot & 1 == 1);
        let sound = usize::from(slot) < MAX_DRIVES
            && epoch < MAX_EPOCH
            && generation < MAX_GENERATION
            && (generation == 0 || known && copies.clone().all(is_member))
            && segments <= geometry.max_segments
            && geometry.check(bytes).is_ok()
            && members
                .iter()
                .all(|member| member.state == DriveState::Empty || geometry.check(member.bytes).is_ok());
        let sealed = sealed != 0;
        let failures_to_tolerate =
            failures_to_tolerate.checked_sub(1).filter(|failures| *failures <= PARITY_COLUMNS as u8);
        let label = Self {
            optional_features,
            array,
            drive,
            generation,
            epoch,
            bytes,
            journal,
            slot,
            sealed,
            shared,
            failures_to_tolerate,
            segments,
            geometry,
            members,
        };
        sound.then_some(label)
    }

    /// The array that a page names which begins like a label, even if it is damaged or of another release.
    pub fn named(page: &[u8]) -> Option<u128> {
        let mut from = Reader(page);
        (from.take() == Some(MAGIC)).then(|| Reader(page.get(16..)?).u128())?
    }

    /// Offset of the second copy.
    pub fn second_at(bytes: u64) -> u64 {
        bytes - ALIGN as u64
    }

    /// Order of writing of two labels of one drive.
    pub fn age(&self) -> (u64, u64) {
        (self.epoch, self.generation)
    }
}

/// A drive that was given, with its labels.
pub struct Candidate {
    /// Its path.
    pub name: String,
    /// Its size now.
    pub bytes: u64,
    /// Both copies.
    pub copies: [LabelPage; 2],
    /// The owner that wrote its newest superblock; every owner writes it again, after the labels.
    pub superblock_epoch: Option<u64>,
    /// The version of a superblock on it that this release can't read.
    pub unknown_superblock: Option<u32>,
    /// The array that each copy names, even if it is damaged or of another release.
    pub named: [Option<u128>; 2],
}

impl Candidate {
    /// The label to be written first: the older one. A power loss while it is written, like the one that may have torn
    /// it the last time, must leave the other.
    pub fn older_copy(&self) -> usize {
        let age = |copy: &LabelPage| match copy {
            LabelPage::Label(label) => Some(label.age()),
            _ => None,
        };
        usize::from(age(&self.copies[1]) < age(&self.copies[0]))
    }

    /// The newest label, or the reason why there is none.
    ///
    /// # Errors
    /// [`Error::Unusable`]; the text says what to do.
    pub fn label(&self) -> Result<Label> {
        let name = &self.name;
        let labels = self.copies.iter().filter_map(|copy| match copy {
            LabelPage::Label(label) => Some((**label).clone()),
            _ => None,
        });
        if let Some(label) = labels.max_by_key(|label| label.age()) {
            if self.bytes < label.bytes {
                return Err(Error::Unusable(format!(
                    "{name} has {} bytes but was labelled with {}: it was truncated; restore its full size",
                    self.bytes, label.bytes
                )));
            }
            return Ok(label);
        }
        Err(Error::Unusable(match (&self.copies[0], &self.copies[1]) {
            (LabelPage::Version(version), _) | (_, LabelPage::Version(version)) => {
                return Err(FORMAT.refusal(name, *version));
            }
            (LabelPage::Features(features), _) | (_, LabelPage::Features(features)) => format!(
                "{name} needs features that this release of Ashlar does not know (bits {features:#06x}): use the release \
                 that wrote it, the drive is left as it is"
            ),
            (LabelPage::Blank | LabelPage::Unfinished, LabelPage::Blank | LabelPage::Unfinished) => {
                format!("{name} is blank: not yet part of an array; leave it out, or format it")
            }
            _ => format!(
                "{name} carries no Ashlar label: another drive, or both its labels are destroyed; check the path"
            ),
        }))
    }

    /// The table of the newest owner counts. If an opening was interrupted and the next one did not see its labels,
    /// two owners have the same epoch, and the one that wrote a superblock continued.
    fn age(&self, label: &Label) -> (u64, bool, u64) {
        (label.epoch, self.superblock_epoch == Some(label.epoch), label.generation)
    }

    /// True if the label pages hold nothing of value: zeros, or an incomplete format.
    pub fn is_fresh(&self) -> bool {
        let empty = |copy: &LabelPage| matches!(copy, LabelPage::Blank | LabelPage::Unfinished);
        match self.label() {
            // The first label after that may be torn.
            Ok(label) if label.generation == 0 => {
                (self.copies.iter().zip(&self.named)).all(|(copy, named)| {
                    empty(copy)
                        || named.is_some() && !matches!(copy, LabelPage::Version(_) | LabelPage::Features(_))
                })
            }
            Ok(_) => false,
            Err(_) => self.copies.iter().all(empty),
        }
    }

    /// True if a format was begun on it: one of its labels, valid or torn, shows that.
    pub fn is_begun(&self) -> bool {
        self.is_fresh() && self.named.iter().any(Option::is_some)
    }

    /// The array whose label it has, even if the label is damaged or of another release.
    pub fn owner(&self) -> Option<u128> {
        if self.is_fresh() {
            return None;
        }
        let whole = self.copies.iter().filter_map(|copy| match copy {
            LabelPage::Label(label) if label.generation > 0 => Some((label.age(), label.array)),
            _ => None,
        });
        let newest = whole.max_by_key(|(age, _)| *age).map(|(_, array)| array);
        let other = |(copy, named): (&LabelPage, &Option<u128>)| {
            named
                .filter(|_| matches!(copy, LabelPage::Other | LabelPage::Version(_) | LabelPage::Features(_)))
        };
        newest.or_else(|| self.copies.iter().zip(&self.named).find_map(other))
    }
}

/// The array that the candidates make up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// The newest label of any of them.
    pub newest: Label,
    /// The candidate in each slot.
    pub order: Vec<Option<usize>>,
    /// Candidates that are not members: blank ones, and ones that have been replaced.
    pub others: Vec<usize>,
}

/// Assigns candidates to slots by the newest label.
///
/// # Errors
/// [`Error::Unusable`]: a drive is foreign or duplicated, was used without the others, or none has a label.
pub fn assemble(candidates: &[Candidate]) -> Result<Assembly> {
    let mut labels = Vec::new();
    let mut others = Vec::new();
    let mut reason = None;
    for (index, candidate) in candidates.iter().enumerate() {
        match candidate.label() {
            Ok(label) => labels.push((index, label)),
            Err(why) => {
                others.push(index);
                reason.get_or_insert(why);
            }
        }
    }
    let name = |index: usize| &candidates[index].name;
    let Some((_, newest)) = labels.iter().max_by_key(|(index, label)| candidates[*index].age(label)) else {
        return Err(reason.unwrap_or_else(|| Error::Unusable("no drives were given".into())));
    };
    let newest = newest.clone();
    if newest.generation == 0 {
        return Err(Error::Unusable(
            "formatting was interrupted: nothing is stored yet; format again".into(),
        ));
    }
    check_one_array(candidates, &labels)?;
    let mut order: Vec<Option<usize>> = vec![None; newest.members.len()];
    for (index, label) in &labels {
        let member = newest.members.get(usize::from(label.slot));
        if !member.is_some_and(|member| member.drive == label.drive && member.state != DriveState::Empty) {
            tracing::warn!(
                drive = name(*index),
                slot = label.slot,
                "not a member any more: replaced or removed"
            );
            others.push(*index);
            continue;
        }
        if label.geometry != newest.geometry {
            return Err(Error::Unusable(format!(
                "{} disagrees about the layout of the array: it is not opened",
                name(*index)
            )));
        }
        if let Some(other) = order[usize::from(label.slot)].replace(*index) {
            return Err(Error::Unusable(format!(
                "{} and {} both claim slot {}: one is a copy of the other; take away the one that is not newer",
                name(other),
                name(*index),
                label.slot
            )));
        }
    }
    check_together(candidates, &newest, &order)?;
    Ok(Assembly { newest, order, others })
}

/// Refuses drives of different arrays, and lists which drive belongs to which.
fn check_one_array(candidates: &[Candidate], labels: &[(usize, Label)]) -> Result<()> {
    let mut arrays = BTreeMap::<u128, Vec<&str>>::new();
    for (index, label) in labels {
        arrays.entry(label.array).or_default().push(&candidates[*index].name);
    }
    if arrays.len() <= 1 {
        return Ok(());
    }
    let whose = |(array, drives): (&u128, &Vec<&str>)| format!("{} of array {array:032x}", drives.join(", "));
    let whose: Vec<String> = arrays.iter().map(whose).collect();
    Err(Error::Unusable(format!(
        "the drives are of different arrays: {}; give only the drives of one array",
        whose.join("; ")
    )))
}

/// Refuses drives that the newest label calls failed and that have the superblock of an owner unknown to its writers:
/// they were opened without the others, and hold what was acknowledged then. Whichever side were taken, the data of
/// the other would be lost silently.
fn check_together(candidates: &[Candidate], newest: &Label, order: &[Option<usize>]) -> Result<()> {
    let went_on = |slot: usize, index: usize| {
        let member = newest.members[slot];
        let out = member.state == DriveState::Failed && member.last_common_epoch > 0;
        out && candidates[index].superblock_epoch.is_some_and(|epoch| epoch > member.last_common_epoch)
    };
    let (mut apart, mut others) = (Vec::new(), Vec::new());
    for (slot, found) in order.iter().enumerate() {
        let Some(index) = *found else { continue };
        let side = if went_on(slot, index) { &mut apart } else { &mut others };
        side.push(candidates[index].name.as_str());
    }
    if apart.is_empty() {
        return Ok(());
    }
    Err(Error::Unusable(format!(
        "array {:032x} was used twice, each time with some of its drives: {} without {}, and the other way round; what was \
         written then is different. Give only the drives whose data are to be kept; the others can be added to them again, \
         with --take-from-array {0:032x}",
        newest.array,
        apart.join(", "),
        others.join(", ")
    )))
}

#[cfg(test)]
#[path = "label_test.rs"]
mod tests;
