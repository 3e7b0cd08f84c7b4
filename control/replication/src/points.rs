//! Points of a replicated group as records of the engine: the same on source and target.
//!
//! A point's record and its snapshots come in one step. It goes in several: the record says so first, so that a deletion
//! which a crash interrupts is finished later, and is never half a point.

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
    /// Its identity on the source.
    pub source: u128,
    /// The snapshot on this array.
    pub snapshot: u128,
}

/// The content of a group at one moment: a snapshot of each volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Grows with every point of the group.
    pub number: u64,
    /// When it was taken, by the source's [`Env::timestamp`](crate::Env::timestamp).
    pub taken: u64,
    /// Its digest, once both arrays have it.
    pub digest: Option<[u8; 32]>,
    /// The volumes of the group.
    pub volumes: Vec<Volume>,
    /// Names of the snapshots that it was taken from, in the order of the volumes; none if it was taken of the volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<String>,
    /// On the source: the engine's number of the newest of these snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<u32>,
    /// It is being deleted.
    #[serde(default)]
    pub deleting: bool,
    /// On the source: every change after it went to the other array, which may have made a point of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mirrored: bool,
}

impl Point {
    /// The snapshot of a volume.
    pub fn snapshot(&self, source: DiskId) -> Option<DiskId> {
        let volume = self.volumes.iter().find(|volume| volume.source == source.0)?;
        Some(DiskId(volume.snapshot))
    }

    /// The engine's number of the newest disk that it has the content of: what was made later is newer. `None` if that is not
    /// known.
    pub fn watermark(&self, engine: &Engine) -> Option<u32> {
        let numbers =
            || self.volumes.iter().filter_map(|volume| Some(engine.disk(DiskId(volume.snapshot))?.number));
        self.through.or_else(|| numbers().max())
    }

    /// The number of the point that its source takes next.
    pub fn next_number(&self) -> u64 {
        self.number + 1 + u64::from(self.mirrored)
    }

    /// The session that begins next after this newest point, or that is beginning with it.
    pub fn next_session(&self) -> u64 {
        // Its source may hear yet that the target has it, and be in that session.
        if self.mirrored && self.digest.is_none() { self.number } else { self.next_number() }
    }

    /// Its digest, once both arrays have it.
    pub fn digest(&self) -> Option<Digest> {
        self.digest.map(Digest)
    }
}

/// Keys of the records of one end of a replication.
#[derive(Clone, Debug)]
pub struct Records {
    prefix: String,
}

impl Records {
    /// Those of the source.
    pub fn of_source(replication: u128) -> Self {
        Self { prefix: format!("replication-source/{replication:032x}/") }
    }

    /// Those of the target.
    pub fn of_target(replication: u128) -> Self {
        Self { prefix: format!("replication-target/{replication:032x}/") }
    }

    /// The key of a record.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The key of a point: they are in order.
    pub fn point(&self, number: u64) -> String {
        self.key(&format!("point/{number:016x}"))
    }

    /// A record, if there is one.
    pub fn get<T: DeserializeOwned>(&self, engine: &Engine, name: &str) -> Result<Option<T>> {
        let key = self.key(name);
        let found = engine.records(&key).into_iter().find(|(known, _)| *known == key);
        found.map(|(key, value)| parse(&key, &value)).transpose()
    }

    /// All records whose names begin so, in order: what follows in the name, and the value.
    pub fn list<T: DeserializeOwned>(&self, engine: &Engine, name: &str) -> Result<Vec<(String, T)>> {
        let prefix = self.key(name);
        let records = engine.records(&prefix).into_iter();
        records.map(|(key, value)| Ok((key[prefix.len()..].to_owned(), parse(&key, &value)?))).collect()
    }

    /// All points, the oldest first, and those that are being deleted as well.
    pub fn all_points(&self, engine: &Engine) -> Result<Vec<Point>> {
        Ok(self.list(engine, "point/")?.into_iter().map(|(_, point)| point).collect())
    }

    /// The points, the oldest first.
    pub fn points(&self, engine: &Engine) -> Result<Vec<Point>> {
        let mut points = self.all_points(engine)?;
        points.retain(|point| !point.deleting);
        Ok(points)
    }

    /// The record of a point as it is written.
    pub fn record(&self, point: &Point) -> (String, Option<Bytes>) {
        (self.point(point.number), Some(value(point)))
    }

    /// Deletes a point. A retention lock of its snapshots that ends after `now` is an error, and nothing is deleted.
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

    /// Ends deletions that were interrupted.
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
