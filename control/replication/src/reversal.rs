//! Reversal: source and target change roles. Afterwards the replication has another number on both arrays.
//!
//! The last common point becomes the first one under the new number, with its existing snapshots: it is the base of the
//! first transfer in the other direction, which sends only differences. All other records under the old number are no
//! longer needed. Both arrays write the records created here in the same step as their configuration.

use crate::inventory::unneeded_record;
use crate::points::{Point, Records, Volume};
use crate::{Digest, Error, Result};
use block::DiskId;
use bytes::Bytes;
use engine::Engine;

/// A volume of both arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counterpart {
    /// Identity on the array that becomes the source.
    pub source: DiskId,
    /// Identity on the array that becomes the target.
    pub target: DiskId,
}

/// A replication whose roles change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reversal {
    /// The old number.
    pub old: u128,
    /// The new number.
    pub new: u128,
    /// The volumes that both arrays have.
    pub volumes: Vec<Counterpart>,
}

/// Records to be written in one step.
pub type Written = Vec<(String, Option<Bytes>)>;

impl Reversal {
    /// For the array that becomes the source: the base, and the records to write.
    ///
    /// # Errors
    /// [`Error::NoPoint`] if this array has no point; an error if a record can't be read.
    pub fn to_source(&self, engine: &Engine) -> Result<(Point, Written)> {
        let mut written = self.written(engine)?;
        let old = Records::of_target(self.old);
        let point = old.points(engine)?.pop().ok_or(Error::NoPoint)?;
        let carried = self.carry(&point, point.digest());
        written.extend([(old.point(point.number), None), Records::of_source(self.new).record(&carried)]);
        Ok((carried, written))
    }

    /// For the array that becomes the target: the records to write, for the base of the other array. Without this base
    /// here, the first transfer offers everything.
    ///
    /// # Errors
    /// If a record can't be read.
    pub fn to_target(&self, engine: &Engine, base: u64, digest: Digest) -> Result<Written> {
        let mut written = self.written(engine)?;
        // The other array has published the point, even if this one was not informed.
        let same = |point: &Point| point.number == base && point.digest().is_none_or(|known| known == digest);
        for old in [Records::of_source(self.old), Records::of_target(self.old)] {
            if let Some(point) = old.points(engine)?.into_iter().find(same) {
                let carried = self.carry(&point, Some(digest));
                written.extend([(old.point(base), None), Records::of_target(self.new).record(&carried)]);
                break;
            }
        }
        Ok(written)
    }

    /// The records for both arrays. Reusing a number would mix two histories.
    fn written(&self, engine: &Engine) -> Result<Written> {
        for records in [Records::of_source(self.new), Records::of_target(self.new)] {
            if !engine.records(&records.key("")).is_empty() {
                return Err(Error::Used(self.new));
            }
        }
        Ok(vec![unneeded_record(self.old)])
    }

    fn carry(&self, point: &Point, digest: Option<Digest>) -> Point {
        let volume = |volume: &Volume| {
            // The points of a target may already have the identities of the array that becomes the source.
            let known = self.volumes.iter().find(|it| it.target.0 == volume.source);
            Volume { source: known.map_or(volume.source, |it| it.source.0), snapshot: volume.snapshot }
        };
        let volumes = point.volumes.iter().map(volume).collect();
        Point { digest: digest.map(|digest| digest.0), volumes, ..point.clone() }
    }
}
