//! Points of replications as operators see them, and their retention locks, which nothing that is done with a replication
//! shortens.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::request::verbs;
use crate::service::point_retention::{Received, received};
use crate::shape::{shapes, some_time, time};
use crate::{Error, Result};
use block::DiskId;
use records::{Config, Edit, Labels, Named, Record, ReplicaVolume, ReplicationEntry, SnapshotEntry, Stage};
use replication::{Point, Written};
use serde::Serialize;
use utoipa::ToSchema;

/// A point of a replication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReplicationPoint {
    /// Number, the same on both arrays.
    pub number: u64,
    /// Time at which it was taken, by the clock of the source.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub taken: u64,
    /// Time since which this array has it.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub received: u64,
    /// Time until which it can't be deleted; `null`: no retention lock.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub retain_until: Option<u64>,
    /// Whether both arrays have it.
    pub complete: bool,
    /// Snapshots of the source that it was taken from; empty if it was taken of the volumes.
    pub snapshots: Vec<String>,
}

shapes! {
    ReplicationPoint: "ReplicationPoints" "Points of a replication." "Sorted by number";
}

verbs! {
    #![tag = "replications"]

    /// List points of a replication
    ///
    /// Those on this array. Any complete one of a target can be tested or promoted.
    ListReplicationPoints { name } -> Vec<ReplicationPoint>, Read "list" "replication point", Viewer, about name,
        at GET "/replications/{name}/points" says "The points"
        => |tx, it| {
            let config = tx.array.config();
            config.replications.named(&it.name).map(|found| tx.array.replication_points(found))
        };
}

impl Array {
    fn replication_points(&self, entry: &ReplicationEntry) -> Vec<ReplicationPoint> {
        let shown = |point: Point| {
            let Received { number, time, kept_until, .. } = received(&self.parts.engine, &point);
            ReplicationPoint {
                number,
                taken: point.taken,
                received: time,
                retain_until: Some(kept_until).filter(|until| *until > self.clock.retention_now()),
                complete: point.digest.is_some(),
                snapshots: point.snapshots,
            }
        };
        self.replicas.points(entry).into_iter().map(shown).collect()
    }

    /// Until when points on this array are locked, the latest of them; `None` if none is.
    fn locked_until(&self, points: &[Point]) -> Option<u64> {
        let until = points.iter().map(|point| received(&self.parts.engine, point).kept_until).max();
        until.filter(|until| *until > self.clock.retention_now())
    }
}

impl Transaction<'_> {
    /// The point of a number, or the newest one: complete, and on this array.
    pub(crate) fn point_of(&self, entry: &ReplicationEntry, number: Option<u64>) -> Result<Point> {
        let mut points = self.array.replicas.points(entry);
        points.retain(|point| point.digest.is_some());
        match number {
            None => points.pop().ok_or_else(|| {
                Error::precondition("there is no complete point yet: wait for the first transfer")
            }),
            Some(number) => points.into_iter().find(|point| point.number == number).ok_or_else(|| {
                let message =
                    format!("replication {:?} has no complete point {number} on this array", entry.name);
                Error::not_found(message)
            }),
        }
    }

    /// Refuses to delete points whose retention lock has not ended.
    pub(crate) fn refuse_locked_points(&self, entry: &ReplicationEntry) -> Result<()> {
        match self.array.locked_until(&self.array.replicas.points(entry)) {
            None => Ok(()),
            Some(until) => {
                let what = format!("replication {:?} can't be deleted with its points", entry.name);
                Err(Error::refused(&what, block::Error::RetentionLocked { until }))
            }
        }
    }

    /// Before the points of a target are not needed any more: what makes snapshots of volumes of those with a retention lock, so
    /// that they are kept, and can be used. `base`: the point that is needed on.
    pub(crate) fn keep_locked_points(&self, entry: &ReplicationEntry, base: u64) -> (Vec<Edit>, Written) {
        let (mut edits, mut written) = (Vec::new(), Written::new());
        let points = replication::target_points(&self.array.parts.engine, entry.number()).unwrap_or_default();
        let locked = |point: &Point| self.array.locked_until(std::slice::from_ref(point)).is_some();
        let config = self.array.config();
        for point in points.into_iter().filter(|point| point.number != base && locked(point)) {
            edits.extend(self.snapshots_of(&config, entry, &point).into_iter().map(Edit::Put));
            written.push(replication::detach_target_point(entry.number(), point.number));
        }
        (edits, written)
    }

    fn snapshots_of(&self, config: &Config, entry: &ReplicationEntry, point: &Point) -> Vec<Record> {
        let set = self.id64();
        let made = entry.promotion.as_ref().map(|it| it.volumes.as_slice()).unwrap_or_default();
        let snapshot = |(at, volume): (usize, &replication::Volume)| {
            let source = DiskId(volume.source);
            let is_of = |it: &&ReplicaVolume| it.source == source;
            let of = made.iter().chain(&entry.replicas).find(is_of).map_or(source, |it| it.volume);
            let described = || entry.volumes.iter().find(|it| it.id == source).map(|it| it.name.as_str());
            let name = config.disk_name(of).or_else(described).unwrap_or("volume");
            let named = point.snapshots.get(at).filter(|name| check::snapshot_name(name).is_ok());
            let wanted = named.cloned().unwrap_or_else(|| format!("{name}.point-{}", point.number));
            let id = DiskId(volume.snapshot);
            let taken = match config.disk_name_free(&wanted) {
                Ok(()) => wanted,
                Err(_) => format!("{wanted}-{:032x}", id.0),
            };
            Record::Snapshot(SnapshotEntry {
                id,
                name: taken,
                source: of,
                created: point.taken,
                stage: Stage::Ready,
                set,
                binned: None,
                schedule: None,
                rules: Vec::new(),
                order: 0,
                labels: Labels::default(),
            })
        };
        point.volumes.iter().enumerate().map(snapshot).collect()
    }

    /// Logs that points have become snapshots.
    pub(crate) fn note_kept_points(&self, entry: &ReplicationEntry, edits: &[Edit]) {
        if !edits.is_empty() {
            let what = format!("has {} snapshots of points with a retention lock now", edits.len());
            self.done("replication.points-kept", ReplicationEntry::NOUN, &entry.name, &what);
        }
    }
}
