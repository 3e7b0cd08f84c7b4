//! Reduction ratios, computed from space figures.
//!
//! The API, the metrics, the CLI, the GUI and the reduction report use these ratios and compute none themselves. The terms are in
//! `docs/glossary.md`.

use crate::space::SpaceReport;

/// The figures of which ratios are computed, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Sizes of the volumes, and the logical data of snapshots.
    pub provisioned: u64,
    /// Logical data of volumes and snapshots, each counted separately, without zeros.
    pub logical: u64,
    /// Distinct data: each block shared by deduplication, clones and snapshots counts once.
    pub unique: u64,
    /// Space of the distinct data on the drives, after compression.
    pub physical: u64,
}

/// Reduction ratios; `None` while the divisor is zero.
///
/// `data = deduplication × compression` and `total = thin_provisioning × data`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// Logical to physical: the data reduction ratio.
    pub data: Option<f64>,
    /// Logical to unique.
    pub deduplication: Option<f64>,
    /// Unique to physical.
    pub compression: Option<f64>,
    /// Provisioned to logical.
    pub thin_provisioning: Option<f64>,
    /// Provisioned to physical: total efficiency.
    pub total: Option<f64>,
}

impl Amounts {
    /// The ratios. Data of something that was deleted are unique until they have been released, but no longer logical:
    /// they count as logical until then, so that no ratio falls below that of the remaining data.
    pub fn ratios(self) -> Ratios {
        let logical = self.logical.max(self.unique);
        let provisioned = self.provisioned.max(logical);
        let ratio = |above: u64, below: u64| (below > 0).then(|| above as f64 / below as f64);
        Ratios {
            data: ratio(logical, self.physical),
            deduplication: ratio(logical, self.unique),
            compression: ratio(self.unique, self.physical),
            thin_provisioning: ratio(provisioned, logical),
            total: ratio(provisioned, self.physical),
        }
    }
}

impl SpaceReport {
    /// Logical data of volumes and snapshots, each counted separately, without zeros.
    pub fn logical(&self) -> u64 {
        self.mapped.saturating_sub(self.zero) + self.snapshot
    }

    /// What the array's ratios are computed from. Snapshots count on both sides: what they alone hold is in `unique` and
    /// `physical`, too.
    pub fn amounts(&self) -> Amounts {
        let (provisioned, logical) = (self.provisioned + self.snapshot, self.logical());
        Amounts { provisioned, logical, unique: self.unique, physical: self.physical }
    }

    /// The array's ratios.
    pub fn ratios(&self) -> Ratios {
        self.amounts().ratios()
    }

    /// Makes the figures consistent. If drives are missing, or file systems below them are full, the array has less space
    /// than it uses: then the used space is reported as its size, and nothing is free.
    pub(crate) fn consistent(mut self) -> Self {
        let held = self.physical + self.metadata;
        self.total = self.total.max(held);
        self.free = self.free.min(self.total - held);
        self.reclaimable = self.reclaimable.min(self.total - held);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A volume of 100 blocks was overwritten five times, with a snapshot before each: data that compress to 10:17.
    #[test]
    fn data_of_snapshots_alone_counts_on_both_sides() {
        let space = SpaceReport {
            provisioned: 1000,
            mapped: 100,
            snapshot: 500,
            unique: 600,
            physical: 353,
            ..SpaceReport::default()
        };
        let ratios = space.ratios();
        assert_eq!(ratios.deduplication, Some(1.0));
        assert!((1.69..1.71).contains(&ratios.data.unwrap()), "{ratios:?}");
        assert_eq!(ratios.data, ratios.compression);
        assert_eq!(ratios.thin_provisioning, Some(2.5));
    }

    #[test]
    fn zeros_count_as_thin_provisioning() {
        let space = SpaceReport {
            provisioned: 100,
            mapped: 100,
            zero: 80,
            unique: 20,
            physical: 10,
            ..Default::default()
        };
        let Ratios { data, deduplication, compression, thin_provisioning, total } = space.ratios();
        assert_eq!((data, deduplication, compression), (Some(2.0), Some(1.0), Some(2.0)));
        assert_eq!((thin_provisioning, total), (Some(5.0), Some(10.0)));
    }

    #[test]
    fn an_empty_array_has_no_ratios_and_pending_releases_lower_none() {
        let none = Ratios {
            data: None,
            deduplication: None,
            compression: None,
            thin_provisioning: None,
            total: None,
        };
        assert_eq!(SpaceReport::default().ratios(), none);
        let deleted = Amounts { provisioned: 0, logical: 0, unique: 50, physical: 25 };
        let Ratios { data, deduplication, total, .. } = deleted.ratios();
        assert_eq!((data, deduplication, total), (Some(2.0), Some(1.0), Some(2.0)));
    }

    #[test]
    fn no_part_exceeds_the_total() {
        let shrunk = SpaceReport {
            physical: 90,
            metadata: 5,
            reclaimable: 300,
            free: 7,
            total: 60,
            ..Default::default()
        };
        let shown = shrunk.consistent();
        assert_eq!((shown.total, shown.free, shown.reclaimable), (95, 0, 0));
        let roomy = SpaceReport {
            physical: 10,
            metadata: 5,
            reclaimable: 300,
            free: 70,
            total: 100,
            ..Default::default()
        };
        let shown = roomy.consistent();
        assert_eq!((shown.total, shown.free, shown.reclaimable), (100, 70, 85));
    }
}
