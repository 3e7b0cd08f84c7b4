//! Space usage of a volume or a volume group on the drives, with its snapshots.

use crate::Result;
use crate::array::Array;
use crate::request::verbs;
use crate::service::usage_meter::Usage;
use records::VolumeEntry;
use serde::Serialize;
use std::collections::BTreeSet;

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
        self.usage_meter.measure(&format!("volume {name:?}"), BTreeSet::from([volume])).await
    }

    /// Space of the volumes of a group together, with their snapshots.
    pub(crate) async fn group_usage(&self, name: &str) -> Result<Usage> {
        let volumes = {
            let config = self.config();
            let group = config.groups.named(name)?.id;
            config.members(group).map(|volume: &VolumeEntry| volume.id).collect()
        };
        self.usage_meter.measure(&format!("volume group {name:?}"), volumes).await
    }
}
