//! Making and opening a shelf: labels, superblocks and the new owner's epoch.

use super::{DriveShelf, all, read_bytes, slots, write_page};
use crate::geometry::{Geometry, JOURNAL_COPIES, SMALLEST_DRIVE, Sizes};
use crate::journal::Ring;
use crate::label::{Candidate, Found, Label, assemble};
use crate::superblock::Root;
use crate::{ALIGN, AlignedBuf, Drive, Error, JournalPos, Result, wait};
use std::sync::Arc;

/// What [`DriveShelf::format`] is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct FormatOptions {
    /// The identity of the array, unique for all time.
    pub array: u128,
    /// Sizes, chosen by the drives where left out.
    pub sizes: Sizes,
    /// Takes drives that belong to an array already, and destroys it.
    pub force: bool,
}

impl DriveShelf {
    /// True when these drives hold, or may hold, an array; false when formatting them destroys nothing.
    ///
    /// # Errors
    /// [`Error::Drive`] when the labels of a drive can't be read.
    pub async fn is_formatted(drives: &[Arc<dyn Drive>]) -> Result<bool> {
        Ok(!read_candidates(drives).await?.iter().all(Candidate::is_fresh))
    }

    /// Makes a new, empty shelf of these drives, in this order, and opens it.
    ///
    /// # Errors
    /// [`Error::Unusable`] when a drive is too small or, without `force`, not blank; [`Error::Drive`].
    pub async fn format(drives: Vec<Arc<dyn Drive>>, options: FormatOptions) -> Result<Arc<Self>> {
        let candidates = read_candidates(&drives).await?;
        if let Some(used) = candidates.iter().find(|candidate| !candidate.is_fresh() && !options.force) {
            let holds = match used.label() {
                Ok(label) => format!("belongs to array {:032x}", label.array),
                Err(_) => "holds data that is not Ashlar's".into(),
            };
            return Err(Error::Unusable(format!("{} {holds}; formatting would destroy it", used.name)));
        }
        let smallest = drives.iter().map(|drive| drive.bytes()).min().unwrap_or(0);
        let plan = Geometry::plan(drives.len(), smallest, &options.sizes)?;
        let copies = drives.len().min(JOURNAL_COPIES);
        let label = |generation| {
            let of = move |(slot, drive): (usize, &Arc<dyn Drive>)| Label {
                array: options.array,
                drive: options.array.wrapping_add(1 + slot as u128),
                generation,
                epoch: 1,
                bytes: drive.bytes(),
                journal: (1 << copies) - 1,
                slot: slot as u16,
                geometry: plan,
            };
            drives.iter().enumerate().map(of).collect::<Vec<_>>()
        };
        write_labels(&drives, &label(0)).await.into_iter().collect::<Result<()>>()?;
        clear(&drives, &plan, copies).await?;
        let labels = label(1);
        write_labels(&drives, &labels).await.into_iter().collect::<Result<()>>()?;
        let ring = Ring::new(plan.journal_bytes, JournalPos(1), 0);
        Ok(Self::new(drives, &labels, None, Some(ring)))
    }

    /// Opens the shelf that these drives, given in any order, hold, and takes it from any older owner.
    /// [`Shelf::recover`] comes before the first append.
    ///
    /// # Errors
    /// [`Error::Unusable`] when a drive is foreign, stale, duplicated, missing or unlabelled, with what to do.
    pub async fn open(drives: Vec<Arc<dyn Drive>>) -> Result<Arc<Self>> {
        let candidates = read_candidates(&drives).await?;
        let (order, newest) = assemble(&candidates)?;
        let drives: Vec<_> = order.iter().map(|index| drives[*index].clone()).collect();
        let found: Vec<_> = order.iter().map(|index| candidates[*index].label()).collect::<Result<_>>()?;
        let (root, lacking) = newest_root(&drives, &newest).await?;
        // A superblock is written after all labels carry its epoch: a drive behind it was not there.
        let behind =
            found.iter().position(|label| root.as_ref().is_some_and(|root| label.epoch < root.epoch));
        if let Some(slot) = behind {
            return Err(Error::Unusable(format!(
                "{} is stale: it was last part of the array in epoch {}, the others are at {}: an old copy, or \
                 away meanwhile; give the drive that took its place in slot {slot}",
                drives[slot].name(),
                found[slot].epoch,
                newest.epoch
            )));
        }
        let epoch = 1 + found.iter().map(|label| label.epoch).max().unwrap_or(0);
        let (generation, journal) = (newest.generation, newest.journal);
        let labels: Vec<_> =
            found.into_iter().map(|label| Label { generation, epoch, journal, ..label }).collect();
        write_labels(&drives, &labels).await.into_iter().collect::<Result<()>>()?;
        if let Some(root) = &root {
            // The newest may be on few drives only; what is done from here on must not depend on those.
            write_root(&drives, &newest.geometry, root, &lacking).await?;
        }
        tracing::info!(
            array = format_args!("{:032x}", newest.array),
            epoch,
            drives = drives.len(),
            "shelf opened"
        );
        Ok(Self::new(drives, &labels, root, None))
    }
}

/// Writes one label to each drive: all first copies, then all second ones. The outcome of each drive.
pub(super) async fn write_labels(drives: &[Arc<dyn Drive>], labels: &[Label]) -> Vec<Result> {
    let mut outcomes = vec![Ok(()); drives.len()];
    for copy in 0..2 {
        let at = |label: &Label| [0, Label::second_at(label.bytes)][copy];
        let pairs = drives.iter().zip(labels);
        let waits: Vec<_> =
            pairs.map(|(drive, label)| write_page(&**drive, at(label), label.encode())).collect();
        for (outcome, written) in outcomes.iter_mut().zip(waits) {
            let written = written.await;
            if outcome.is_ok() {
                *outcome = written;
            }
        }
    }
    outcomes
}

async fn read_candidate(drive: &dyn Drive) -> Result<Candidate> {
    let bytes = drive.bytes();
    let (name, blank) = (drive.name().to_owned(), [Found::Blank, Found::Blank]);
    if bytes < SMALLEST_DRIVE {
        return Ok(Candidate { name, bytes, copies: blank });
    }
    let first = read_bytes(drive, 0, ALIGN as u32).await.map(|page| Label::decode(&page));
    let second_at = match &first {
        Ok(Found::Label(label)) if label.bytes <= bytes => Label::second_at(label.bytes),
        _ => Label::second_at(bytes),
    };
    let second = read_bytes(drive, second_at, ALIGN as u32).await.map(|page| Label::decode(&page));
    match (first, second) {
        (Err(cause), Err(_)) => Err(cause),
        (first, second) => {
            let copies = [first.unwrap_or(Found::Other), second.unwrap_or(Found::Other)];
            Ok(Candidate { name, bytes, copies })
        }
    }
}

async fn read_candidates(drives: &[Arc<dyn Drive>]) -> Result<Vec<Candidate>> {
    let mut candidates = Vec::with_capacity(drives.len());
    for drive in drives {
        candidates.push(read_candidate(&**drive).await?);
    }
    Ok(candidates)
}

/// Overwrites what an older shelf may have left where this one looks for superblocks and records. The journal is
/// filled with zeros all over: space that is there already is written faster, and can't turn out to be missing.
async fn clear(drives: &[Arc<dyn Drive>], plan: &Geometry, copies: usize) -> Result {
    const STEP: u64 = 1 << 20;
    let zeros = Arc::new(AlignedBuf::zeroed(STEP as usize));
    let mut waits = Vec::new();
    for drive in drives {
        for copy in 0..2 {
            waits.push(write_page(&**drive, plan.superblock_at(copy), zeros.share(0..ALIGN)));
        }
        let (done, discarded) = wait();
        drive.discard(plan.segments_at(), u64::from(plan.segments) * plan.rows_bytes(), done);
        waits.push(discarded);
    }
    all(waits).await?;
    let mut at = 0;
    while at < plan.journal_bytes {
        let mut waits = Vec::new();
        for _ in 0..4 {
            let len = STEP.min(plan.journal_bytes - at);
            for drive in drives.iter().take(copies).filter(|_| len > 0) {
                let (done, written) = wait();
                drive.write(plan.journal_at() + at, vec![zeros.share(0..len as usize)], false, done);
                waits.push(written);
            }
            at += len;
        }
        all(waits).await?;
    }
    let syncs = drives.iter().map(|drive| {
        let (done, synced) = wait();
        drive.sync(done);
        synced
    });
    all(syncs.collect()).await
}

/// Writes a root to the drives in `slots[0]`, slot 0, then to those in `slots[1]`, slot 1.
pub(super) async fn write_root(
    drives: &[Arc<dyn Drive>],
    plan: &Geometry,
    root: &Root,
    sets: &[u64; 2],
) -> Result {
    let bytes = root.encode();
    for (copy, set) in sets.iter().enumerate() {
        let chosen = slots(*set).take_while(|slot| *slot < drives.len());
        let waits = chosen.map(|slot| write_page(&*drives[slot], plan.superblock_at(copy), bytes.clone()));
        all(waits.collect()).await?;
    }
    Ok(())
}

/// The newest root on any drive, and for each of the two slots the drives that lack it.
async fn newest_root(drives: &[Arc<dyn Drive>], label: &Label) -> Result<(Option<Root>, [u64; 2])> {
    let plan = &label.geometry;
    let mut found = Vec::new();
    for (slot, drive) in drives.iter().enumerate() {
        for copy in 0..2 {
            let read = read_bytes(&**drive, plan.superblock_at(copy), plan.superblock_bytes).await;
            // One copy that can't be read is as good as one that is torn: others decide.
            let root = read.ok().and_then(|bytes| Root::decode(&bytes, label.array));
            found.push((slot, copy, root));
        }
    }
    let newest = found.iter().filter_map(|(_, _, root)| root.as_ref()).max_by_key(|root| root.age()).cloned();
    let mut lacking = [0; 2];
    for (slot, copy, root) in &found {
        if root != &newest {
            lacking[*copy] |= 1 << slot;
        }
    }
    Ok((newest, lacking))
}
