//! Space usage of a volume or a volume group on the drives, with its snapshots.

use crate::Result;
use crate::array::Array;
use crate::request::verbs;
use crate::service::usage_meter::Usage;
use records::VolumeEntry;
use std::collections::BTreeSet;

verbs! {
    #![tag = "volumes"]

    /// Get the space usage of a volume and its snapshots
    ///
    /// Scans all of their maps. What took long is not repeated at once: the answer may be as old as about fifty times what it took.
    ShowVolumeSpace { name } -> Usage, Read "show usage of" "volume", Viewer, about name,
        at GET "/volumes/{name}/space" says "The space usage"
        => |tx, it| tx.array.volume_usage(&it.name).await;
    /// Get the space usage of the volumes of a group and their snapshots
    ///
    /// Scans all of their maps. What took long is not repeated at once: the answer may be as old as about fifty times what it took.
    ShowGroupSpace { name } -> Usage, Read "show usage of" "volume group", Viewer, about name,
        at GET "/groups/{name}/space" in "groups" says "The space usage"
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
