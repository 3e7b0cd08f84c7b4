//! Drive labels: what tells a member of this array from every other drive.
//!
//! A label is one page, kept twice: in the first page of the drive and in the last that belongs to the shelf. Both
//! are rewritten one after the other, so that a torn write leaves one whole.

use crate::geometry::{Geometry, WIDEST};
use crate::media::{FORMAT_VERSION, Reader, Writer, crc32c};
use crate::{ALIGN, AlignedBuf, Error, Result};
use bytes::Bytes;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"ASHLABEL";

/// Where the checksum of a label page lies; it covers everything before.
const CHECKSUM_AT: usize = ALIGN - 4;

const GENERATION_AT: usize = 48;

/// What a drive writes whole, at least. All fields of a label lie in its first one.
const SECTOR: usize = 512;

/// The identity of a drive and of the shelf that it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The array, unique for all time.
    pub array: u128,
    /// This drive, unique for all time.
    pub drive: u128,
    /// Version of the membership: 0 while formatting, then one more with every change of `journal`.
    pub generation: u64,
    /// Version of the owner: one more with every opening.
    pub epoch: u64,
    /// Bytes of this drive, rounded down to pages, when it joined.
    pub bytes: u64,
    /// The slots that carry a copy of the journal, as a set of bits.
    pub journal: u64,
    /// The place of this drive in the shelf, from 0.
    pub slot: u16,
    /// The plan of the shelf.
    pub geometry: Geometry,
}

/// What a page that should be a label turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing but zeros.
    Blank,
    /// What a power cut leaves of the very first label written to a blank drive.
    Unfinished,
    /// None of these.
    Other,
    /// A label of a format that this program does not know.
    Newer(u32),
    /// A label.
    Label(Box<Label>),
}

impl Label {
    /// The page as it is written.
    pub fn encode(&self) -> Bytes {
        let mut page = AlignedBuf::zeroed(ALIGN);
        let mut out = Writer::new(&mut page);
        out.put(&MAGIC).put(&FORMAT_VERSION.to_le_bytes()).put(&[0; 4]);
        out.put(&self.array.to_le_bytes()).put(&self.drive.to_le_bytes());
        out.put(&self.generation.to_le_bytes()).put(&self.epoch.to_le_bytes());
        out.put(&self.bytes.to_le_bytes()).put(&self.journal.to_le_bytes());
        out.put(&self.slot.to_le_bytes()).put(&[0; 6]);
        self.geometry.encode(&mut out);
        let checksum = crc32c([&page[..CHECKSUM_AT]]);
        page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        Arc::new(page).share(0..ALIGN)
    }

    /// What a page holds.
    pub fn decode(page: &[u8]) -> Found {
        if page.iter().all(|byte| *byte == 0) {
            return Found::Blank;
        }
        let (Some(covered), Some(mut checksum)) =
            (page.get(..CHECKSUM_AT), page.get(CHECKSUM_AT..).map(Reader))
        else {
            return Found::Other;
        };
        let mut from = Reader(covered);
        if from.take() != Some(MAGIC) || checksum.u32() != Some(crc32c([covered])) {
            return if Self::is_unfinished(covered) { Found::Unfinished } else { Found::Other };
        }
        // Every version keeps magic, version and checksum where they are.
        match from.u32() {
            Some(version) if version > FORMAT_VERSION => Found::Newer(version),
            _ => Self::fields(&mut from).map_or(Found::Other, |label| Found::Label(Box::new(label))),
        }
    }

    /// Fields of generation 0 without their checksum, or the checksum without its fields; zeros otherwise.
    fn is_unfinished(covered: &[u8]) -> bool {
        let (fields, rest) = covered.split_at(SECTOR.min(covered.len()));
        let generation = fields.get(GENERATION_AT..GENERATION_AT + 8);
        let begun = fields.starts_with(&MAGIC) && generation.is_some_and(|bytes| bytes == [0; 8]);
        (begun || fields.iter().all(|byte| *byte == 0)) && rest.iter().all(|byte| *byte == 0)
    }

    fn fields(from: &mut Reader<'_>) -> Option<Self> {
        from.take::<4>()?;
        let (array, drive) = (from.u128()?, from.u128()?);
        let (generation, epoch) = (from.u64()?, from.u64()?);
        let (bytes, journal) = (from.u64()?, from.u64()?);
        let slot = from.take().map(u16::from_le_bytes)?;
        from.take::<6>()?;
        let geometry = Geometry::decode(from)?;
        let label = Self { array, drive, generation, epoch, bytes, journal, slot, geometry };
        (slot < geometry.width && geometry.check(bytes).is_ok()).then_some(label)
    }

    /// Where the second copy lies.
    pub fn second_at(bytes: u64) -> u64 {
        bytes - ALIGN as u64
    }

    /// Which of two labels of one drive was written later.
    pub fn age(&self) -> (u64, u64) {
        (self.generation, self.epoch)
    }
}

/// A drive as it was given, with what its label pages hold.
pub struct Candidate {
    /// Its path.
    pub name: String,
    /// Its size now.
    pub bytes: u64,
    /// Both copies.
    pub copies: [Found; 2],
}

impl Candidate {
    /// The newest label, or why there is none.
    ///
    /// # Errors
    /// [`Error::Unusable`] with what to do.
    pub fn label(&self) -> Result<Label> {
        let name = &self.name;
        let labels = self.copies.iter().filter_map(|copy| match copy {
            Found::Label(label) => Some(**label),
            _ => None,
        });
        if let Some(label) = labels.max_by_key(Label::age) {
            if self.bytes < label.bytes {
                return Err(Error::Unusable(format!(
                    "{name} has {} bytes but was labelled with {}: it has been cut short; restore its full size",
                    self.bytes, label.bytes
                )));
            }
            return Ok(label);
        }
        Err(Error::Unusable(match (&self.copies[0], &self.copies[1]) {
            (Found::Newer(version), _) | (_, Found::Newer(version)) => format!(
                "{name} was written by a newer Ashlar (format {version}, this one reads up to {FORMAT_VERSION}); \
                 upgrade, the drive is left as it is"
            ),
            (Found::Blank | Found::Unfinished, Found::Blank | Found::Unfinished) => {
                format!("{name} is blank: not yet part of an array; leave it out, or format it")
            }
            _ => format!(
                "{name} carries no Ashlar label: another drive, or both its labels are destroyed; check the path"
            ),
        }))
    }

    /// True when nothing of value can be on it: no label, or one of a format that never ended.
    pub fn is_fresh(&self) -> bool {
        let empty = |copy: &Found| matches!(copy, Found::Blank | Found::Unfinished);
        self.label().map_or_else(|_| self.copies.iter().all(empty), |label| label.generation == 0)
    }
}

/// Puts the candidates in the order of their slots and says what they have in common: the newest label.
///
/// # Errors
/// [`Error::Unusable`]: a drive is foreign, duplicated, missing or unlabelled.
pub fn assemble(candidates: &[Candidate]) -> Result<(Vec<usize>, Label)> {
    let labels = candidates.iter().map(Candidate::label).collect::<Result<Vec<_>>>()?;
    let newest = *labels
        .iter()
        .max_by_key(|label| label.age())
        .ok_or_else(|| Error::Unusable("no drives were given".into()))?;
    if newest.generation == 0 {
        return Err(Error::Unusable(
            "formatting was interrupted: nothing is stored yet; format again".into(),
        ));
    }
    let mut order: Vec<Option<usize>> = vec![None; usize::from(newest.geometry.width).min(WIDEST)];
    for (index, label) in labels.iter().enumerate() {
        let name = &candidates[index].name;
        if label.array != newest.array {
            let other = labels.iter().position(|label| label.array == newest.array).unwrap_or(0);
            return Err(Error::Unusable(format!(
                "{name} belongs to array {:032x}, {} to array {:032x}: give only the drives of one array",
                label.array, candidates[other].name, newest.array
            )));
        }
        if label.geometry != newest.geometry {
            return Err(Error::Unusable(format!(
                "{name} disagrees about the layout of the array: it is not opened"
            )));
        }
        let place = &mut order[usize::from(label.slot)];
        if let Some(first) = place.replace(index) {
            let (old, kept) = if labels[first].age() < label.age() { (first, index) } else { (index, first) };
            return Err(Error::Unusable(format!(
                "{} and {} both claim slot {}: one is a copy of the other, most likely {0}, which is not newer; \
                 take it away",
                candidates[old].name, candidates[kept].name, label.slot
            )));
        }
    }
    let missing: Vec<_> = (0..order.len()).filter(|slot| order[*slot].is_none()).collect();
    if !missing.is_empty() {
        return Err(Error::Unusable(format!(
            "array {:032x} has {} drives; slot {missing:?} is missing: give its path too",
            newest.array,
            order.len()
        )));
    }
    Ok((order.into_iter().flatten().collect(), newest))
}
