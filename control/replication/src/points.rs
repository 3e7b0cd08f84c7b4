//! Points of a replicated group as records of the engine, with the same format on source and target.
//!
//! A point's record and its snapshots are created in one step. The deletion takes several: the record is marked first,
//! so an interrupted deletion is finished later, and an incomplete point is never used.

use crate::fingerprint::Digest;
use crate::{Error, Result};
use block::DiskId;
use bytes::Bytes;
use engine::Engine;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A volume of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Identity on the source.
    pub source: u128,
    /// The snapshot on this array.
    pub snapshot: u128,
}

/// The content of a group at one moment: a snapshot of each volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Number of the point, increasing in the group.
    pub number: u64,
    /// Time of the point, by the source's [`Env::timestamp`](crate::Env::timestamp).
    pub taken: u64,
    /// Digest of the point, once both arrays have it.
    pub digest: Option<[u8; 32]>,
    /// The volumes of the group.
    pub volumes: Vec<Volume>,
    /// Names of its source snapshots, in the order of the volumes; empty if it was taken from volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<String>,
    /// On the source: the engine's number of the newest of these snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<u32>,
    /// Whether the point is being deleted.
    #[serde(default)]
    pub deleting: bool,
    /// On the source: whether every later change went to the other array, which may have made a point of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mirrored: bool,
}

impl Point {
    /// The snapshot of a volume.
    pub fn snapshot(&self, source: DiskId) -> Option<DiskId> {
        let volume = self.volumes.iter().find(|volume| volume.source == source.0)?;
        Some(DiskId(volume.snapshot))
    }

    /// The engine's number of the newest disk in the point's content: disks that were created later are newer. `None`
    /// if unknown.
    pub fn watermark(&self, engine: &Engine) -> Option<u32> {
        let numbers =
            || self.volumes.iter().filter_map(|volume| Some(engine.disk(DiskId(volume.snapshot))?.number));
        self.through.or_else(|| numbers().max())
    }

    /// Number of the next point on its source.
    pub fn next_number(&self) -> u64 {
        self.number + 1 + u64::from(self.mirrored)
    }

    /// The next session after this newest point, or the one that is beginning with it.
    pub fn next_session(&self) -> u64 {
        // The source may still be informed that the target has the point, and be in that session.
        if self.mirrored && self.digest.is_none() { self.number } else { self.next_number() }
    }

    /// Digest of the point, once both arrays have it.
    pub fn digest(&self) -> Option<Digest> {
        self.digest.map(Digest)
    }
}

/// Record keys of one end of a replication.
#[derive(Clone, Debug)]
pub struct Records {
    prefix: String,
}

impl Records {
    /// Record keys of the source.
    pub fn of_source(replication: u128) -> Self {
        Self { prefix: format!("replication-source/{replication:032x}/") }
    }

    /// Record keys of the target.
    pub fn of_target(replication: u128) -> Self {
        Self { prefix: format!("replication-target/{replication:032x}/") }
    }

    /// The key of a record.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The key of a point; keys are ordered by number.
    pub fn point(&self, number: u64) -> String {
        self.key(&format!("point/{number:016x}"))
    }

    /// Reads a record, if it exists.
    pub fn get<T: DeserializeOwned>(&self, engine: &Engine, name: &str) -> Result<Option<T>> {
        let key = self.key(name);
        let found = engine.records(&key).into_iter().find(|(known, _)| *known == key);
        found.map(|(key, value)| parse(&key, &value)).transpose()
    }

    /// Reads all records with this name prefix, in order: the rest of the name, and the value.
    pub fn list<T: DeserializeOwned>(&self, engine: &Engine, name: &str) -> Result<Vec<(String, T)>> {
        let prefix = self.key(name);
        let records = engine.records(&prefix).into_iter();
        records.map(|(key, value)| Ok((key[prefix.len()..].to_owned(), parse(&key, &value)?))).collect()
    }

    /// All points, oldest first, including those being deleted.
    pub fn all_points(&self, engine: &Engine) -> Result<Vec<Point>> {
        Ok(self.list(engine, "point/")?.into_iter().map(|(_, point)| point).collect())
    }

    /// The points, oldest first.
    pub fn points(&self, engine: &Engine) -> Result<Vec<Point>> {
        let mut points = self.all_points(engine)?;
        points.retain(|point| !point.deleting);
        Ok(points)
    }

    /// The record of a point for writing.
    pub fn record(&self, point: &Point) -> (String, Option<Bytes>) {
        (self.point(point.number), Some(value(point)))
    }

    /// Deletes a point. If a snapshot has a retention lock that ends after `now`, this is an error, and nothing is
    /// deleted.
    pub async fn delete(&self, engine: &Engine, mut point: Point, now: u64) -> Result<()> {
        if !point.deleting {
            let disks = point.volumes.iter().filter_map(|volume| engine.disk(DiskId(volume.snapshot)));
            if let Some(until) = disks.map(|disk| disk.kept_until).max().filter(|until| *until > now) {
                return Err(block::Error::RetentionLocked { until }.into());
            }
            point.deleting = true;
            engine.put_records(vec![self.record(&point)]).await?;
        }
        for volume in &point.volumes {
            match engine.delete_volume(DiskId(volume.snapshot), now).await {
                Ok(()) | Err(block::Error::Deleted) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(engine.put_record(&self.point(point.number), None).await?)
    }

    /// Finishes interrupted deletions.
    pub async fn finish_deletions(&self, engine: &Engine, now: u64) -> Result<()> {
        for point in self.all_points(engine)?.into_iter().filter(|point| point.deleting) {
            self.delete(engine, point, now).await?;
        }
        Ok(())
    }
}

/// A record's value.
pub fn value(record: &impl Serialize) -> Bytes {
    serde_json::to_vec(record).expect("numbers, text and lists").into()
}

fn parse<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T> {
    serde_json::from_slice(value).map_err(|_| Error::Record(key.to_owned()))
}
