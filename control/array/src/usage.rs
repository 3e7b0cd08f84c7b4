//! Space usage of a volume or a volume group on the drives, with its snapshots.

use crate::array::Array;
use crate::request::verbs;
use crate::{Error, Result};
use block::DiskId;
use records::{Config, VolumeEntry};
use serde::Serialize;
use std::collections::BTreeSet;

/// Space of some volumes with their snapshots, in bytes. What others hold as well is in none of the exclusive figures,
/// the recycle bin and clones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Sum of the volumes' sizes.
    pub provisioned: u64,
    /// Mapped by hosts on the volumes.
    pub mapped: u64,
    /// Of that, zeros: they are mapped and stored nowhere.
    pub zero: u64,
    /// How many snapshots they have.
    pub snapshots: usize,
    /// Mapped on the snapshots and not zeros; most of it is shared with the volumes.
    pub snapshot: u64,
    /// Distinct data that only they hold.
    pub unique: u64,
    /// What they hold beyond that: it repeats, or others hold it as well.
    pub shared: u64,
    /// What the distinct data take on the drives, after compression: it comes back when all of them are eradicated.
    pub physical: u64,
    /// What maps of theirs take on the drives, which comes back as well.
    pub metadata: u64,
}

fn snapshots_of(config: &Config, volumes: &BTreeSet<DiskId>) -> Vec<DiskId> {
    config.snapshots.iter().filter(|it| volumes.contains(&it.source)).map(|it| it.id).collect()
}

/// Space usage of a volume and its snapshots on the drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowVolumeSpace {
    /// The volume.
    pub name: String,
}

/// Space usage of the volumes of a group and their snapshots on the drives together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowGroupSpace {
    /// The volume group.
    pub name: String,
}

verbs! {
    ShowVolumeSpace -> Usage, Read "show usage of" "volume", Viewer, about name
        => |tx, it| tx.array.volume_usage(&it.name).await;
    ShowGroupSpace -> Usage, Read "show usage of" "volume group", Viewer, about name
        => |tx, it| tx.array.group_usage(&it.name).await;
}

impl Array {
    /// Space of one volume with its snapshots.
    pub(crate) async fn volume_usage(&self, name: &str) -> Result<Usage> {
        let volume = self.config().volumes.named(name)?.id;
        self.usage(&format!("volume {name:?}"), BTreeSet::from([volume])).await
    }

    /// Space of the volumes of a group together, with their snapshots.
    pub(crate) async fn group_usage(&self, name: &str) -> Result<Usage> {
        let volumes = {
            let config = self.config();
            let group = config.groups.named(name)?.id;
            config.members(group).map(|volume: &VolumeEntry| volume.id).collect()
        };
        self.usage(&format!("volume group {name:?}"), volumes).await
    }

    /// Looks at every map of theirs, so one is measured at a time.
    async fn usage(&self, what: &str, volumes: BTreeSet<DiskId>) -> Result<Usage> {
        let _one_at_a_time = self.measuring.lock().await;
        let snapshots = snapshots_of(&self.config(), &volumes);
        let volumes: Vec<DiskId> = volumes.into_iter().collect();
        let all = [&volumes[..], &snapshots[..]].concat();
        let engine = &self.parts.engine;
        let measured = engine.exclusive_of(&all).await;
        let exclusive =
            measured.map_err(|error| Error::refused(&format!("{what} can't be measured"), error))?;
        let (own, kept) = (engine.space_of(&volumes), engine.space_of(&snapshots));
        Ok(Usage {
            provisioned: own.provisioned,
            mapped: own.mapped,
            zero: own.zero,
            snapshots: snapshots.len(),
            snapshot: kept.data(),
            unique: exclusive.unique,
            // Hosts may have written since it was looked at.
            shared: (own.data() + kept.data()).saturating_sub(exclusive.unique),
            physical: exclusive.physical,
            metadata: exclusive.metadata,
        })
    }
}
