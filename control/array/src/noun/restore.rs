//! Restoring a volume: its contents, and its size if wanted, become those of a snapshot or of another volume.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::noun::snapshot::Wanted;
use crate::noun::volume::Volume;
use crate::request::verbs;
use crate::shape::view::some_of;
use crate::{Error, Result};
use block::{Disk, DiskId, Geometry};
use records::{Labels, Topic};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The source of a volume restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Overwrite {
    /// Snapshot or volume whose contents and size the volume takes.
    pub source: String,
    /// First take a snapshot of the current contents whose name has this suffix. A snapshot of the volume that has the name
    /// already is kept instead, so that a repeated request does not save what was restored.
    pub safety_snapshot: Option<String>,
    /// Refuse the restore if the volume has snapshots that are newer than the source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_if_latest: bool,
    /// Keep the size of the volume: what is beyond the end of a smaller source reads as zeros; a larger source is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_size: bool,
}

verbs! {
    #![tag = "volumes"]

    /// Restore a volume from a snapshot or another volume
    ///
    /// The current contents are lost. Connected hosts are notified by a unit attention condition.
    RestoreVolume { name; body change: Overwrite } -> Volume, Exchange "restore" "volume", Operator, about name,
        at POST "/volumes/{name}/restore"
        => |tx, it| tx.restore_volume(&it.name, it.change).await;
}

impl Transaction<'_> {
    pub async fn restore_volume(&mut self, volume: &str, wanted: Overwrite) -> Result<Volume> {
        let Overwrite { source, safety_snapshot, only_if_latest, keep_size } = wanted;
        let (entry, from, source) = {
            let config = self.array.config();
            let from = config.disk_named(&source)?;
            (
                config.volumes.named(volume)?.clone(),
                from,
                config.disk_name(from).unwrap_or_default().to_owned(),
            )
        };
        let (id, name) = (entry.id, entry.name.clone());
        if id == from {
            return Err(
                Error::invalid("a volume is not restored from itself: name a snapshot").about("source")
            );
        }
        let safety_snapshot = safety_snapshot.map(|suffix| (format!("{name}.{suffix}"), suffix));
        let safety = safety_snapshot.as_ref().map(|(safety, _)| safety.clone());
        let array = self.array;
        let check = || match only_if_latest {
            true => array.refuse_newer_snapshots((id, &name), (from, &source), safety.as_deref()),
            false => Ok(()),
        };
        array.restored_geometries((id, &name), (from, &source), keep_size)?;
        check()?;
        if let Some((safety, suffix)) = safety_snapshot {
            check::snapshot_suffix(&suffix)?;
            let wanted = Wanted { source: entry, name: Some(safety), labels: Labels::default() };
            if self.find_taken("safety_snapshot", std::slice::from_ref(&wanted), None)?.is_none() {
                self.take(vec![wanted], 0, None).await?;
            }
        }
        let refused = |error| Error::refused(&format!("volume {name:?} can't be restored"), error);
        let _apart = self.part_from_mirrors(id, "a volume of the group was restored").await?;
        // A witness may have been waited for, and other changes have come first.
        let (before, other) = array.restored_geometries((id, &name), (from, &source), keep_size)?;
        check()?;
        let engine = &self.array.parts.engine;
        engine.restore_volume(id, from).await.map_err(refused)?;
        if keep_size && before != other {
            engine.resize_volume(id, before.blocks).await.map_err(refused)?;
        }
        self.announce(id, before, if keep_size { before } else { other });
        self.done("volume.overwritten", "volume", &name, &format!("was restored from {source:?}"));
        self.array.publish_change(Topic::Volumes);
        self.volume_now(id)
    }

    /// Notifies hosts that the contents, and perhaps the size, are others now.
    pub(crate) fn announce(&self, id: DiskId, before: Geometry, now: Geometry) {
        if before != now {
            self.array.parts.exports.notify(id, export::Event::CapacityChanged);
        }
        self.array.parts.exports.notify(id, export::Event::ContentReplaced);
    }
}

impl Array {
    /// The geometries of a volume and of what it is to be restored from.
    ///
    /// # Errors
    /// If it can't be restored from that.
    fn restored_geometries(
        &self,
        (id, name): (DiskId, &str),
        (from, source): (DiskId, &str),
        keep_size: bool,
    ) -> Result<(Geometry, Geometry)> {
        let before = self.disk(id, name)?.geometry();
        let other = self.disk(from, source)?.geometry();
        if before.block_bytes != other.block_bytes {
            let message = format!(
                "{name:?} has blocks of {} bytes and {source:?} of {}: clone {source:?} instead",
                before.block_bytes, other.block_bytes
            );
            return Err(Error::invalid(message).about("source"));
        }
        if keep_size && other.blocks > before.blocks {
            let message =
                format!("{source:?} has {} bytes, more than {name:?}: resize {name:?} first", other.bytes());
            return Err(Error::precondition(message).about("keep_size"));
        }
        Ok((before, other))
    }

    /// Refuses to restore a volume that has newer snapshots. `safety`: one that does not count, as a request that is repeated has
    /// taken it.
    fn refuse_newer_snapshots(
        &self,
        (id, name): (DiskId, &str),
        (from, source): (DiskId, &str),
        safety: Option<&str>,
    ) -> Result<()> {
        let mut newer = self.newer_snapshots(id, from);
        newer.retain(|it| safety != Some(it.as_str()));
        if newer.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{name:?} has newer snapshots than {source:?}: {}; delete them first, or restore it without that condition",
            some_of(&newer)
        );
        Err(Error::precondition(message).about("only_if_latest"))
    }

    /// Names of the snapshots of a volume that are newer than one of them; of all if that is none of its snapshots.
    fn newer_snapshots(&self, volume: DiskId, than: DiskId) -> Vec<String> {
        let config = self.config();
        let engine = &self.parts.engine;
        let number = |id| engine.disk(id).map_or(0, |disk| disk.number);
        let own = config.snapshots.get(than).is_some_and(|it| it.source == volume);
        let bound = if own { number(than) } else { 0 };
        let newer = config
            .snapshots
            .iter()
            .filter(|it| it.source == volume && it.id != than && number(it.id) > bound);
        newer.map(|it| it.name.clone()).collect()
    }
}
