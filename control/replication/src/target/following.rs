//! The receiving end of synchronous replication: applies every change to the staging volumes.
//!
//! A record says that the staging volumes have everything which the source has acknowledged; it is there from the publication of the
//! session's point on, until something else is to happen to the staging volumes. Before that, or for a promotion, they are *sealed*:
//! their content becomes a point of this array alone, in the same step in which the record goes.

use super::{GROUP, GroupRecord, Session, Target, staging_name};
use crate::env::{Env, Stream};
use crate::inventory::MIRRORED;
use crate::limits::MAX_CHANGES;
use crate::points::{Point, Records, Volume, value};
use crate::wire::Message;
use crate::{Error, Result};
use block::DiskId;
use bytes::{BufMut, Bytes, BytesMut};
use engine::{Part, Tapped};

impl<E: Env> Target<E> {
    /// Makes the newest state of a group that was replicated synchronously a point: everything that its source had acknowledged when
    /// both arrays were last connected. `None` if the newest point has that already, or the source has gone on without this array and
    /// a transfer has begun since.
    ///
    /// # Errors
    /// [`Error::Busy`] while a connection is open, and if a record can't be read.
    pub async fn seal(&self, replication: u128) -> Result<Option<Point>> {
        let _turn = self.turns.connect(replication)?;
        self.seal_staging(&Records::of_target(replication)).await
    }

    pub(super) async fn seal_staging(&self, records: &Records) -> Result<Option<Point>> {
        let Some(mirrored) = records.get::<u64>(&self.engine, MIRRORED)? else { return Ok(None) };
        let points = records.points(&self.engine)?;
        let base = points.iter().find(|point| point.number == mirrored);
        let base = base.ok_or_else(|| Error::Record(records.key(MIRRORED)))?;
        let (mut pairs, mut volumes) = (Vec::new(), Vec::new());
        for Volume { source, .. } in &base.volumes {
            let name = staging_name(*source);
            let staging: Option<u128> = records.get(&self.engine, &name)?;
            let staging = staging.ok_or_else(|| Error::Record(records.key(&name)))?;
            let snapshot = self.env.fresh_id();
            pairs.push((DiskId(staging), snapshot));
            volumes.push(Volume { source: *source, snapshot: snapshot.0 });
        }
        // No point of the source has this number, nor this digest.
        let number = mirrored + 1;
        let mut sealed = BytesMut::from(&b"sealed"[..]);
        sealed.put_u64_le(number);
        let digest = self.key.chain(base.digest().unwrap_or_default(), &sealed);
        let now = self.env.timestamp();
        let point = Point { number, taken: now, digest: Some(digest.0), volumes, ..Point::default() };
        let group: GroupRecord = records.get(&self.engine, GROUP)?.unwrap_or_default();
        let put = [records.record(&point), (records.key(MIRRORED), None)];
        self.engine.snapshot(&pairs, &put, now, self.locked_until(&group)).await?;
        Ok(Some(point))
    }

    /// When the retention lock of a point ends that is published now; zero if it gets none.
    pub(super) fn locked_until(&self, group: &GroupRecord) -> u64 {
        if group.lock > 0 { self.env.retention_begin().saturating_add(group.lock) } else { 0 }
    }
}

/// The record that the staging volumes have everything that was acknowledged.
pub(super) fn mirrored(records: &Records, point: Option<u64>) -> (String, Option<Bytes>) {
    (records.key(MIRRORED), point.map(|point| value(&point)))
}

impl<S: Stream, E: Env> Session<'_, S, E> {
    /// Applies changes until the connection ends. What has arrived together is durable together.
    pub(super) async fn follow(&mut self) -> Result<std::convert::Infallible> {
        let mut next = 0;
        loop {
            let mut message = self.connection.receive().await?;
            let (first, mut applied) = (next, None);
            loop {
                let Message::Change { number, parts } = message else {
                    return Err(Error::Malformed("another message than a change"));
                };
                if number != next {
                    return Err(Error::Malformed("changes that are not in order"));
                }
                next += 1;
                let changes = self.changes(parts)?;
                if !changes.is_empty() {
                    applied = Some(self.target.engine.apply(&changes).await?);
                }
                if next - first >= MAX_CHANGES as u64 {
                    break;
                }
                let Some(more) = self.connection.arrived()? else { break };
                message = more;
            }
            if let Some(applied) = applied {
                self.target.engine.confirm(applied).await?;
            }
            self.connection.send(&Message::Durable { number: next - 1 }).await?;
        }
    }

    /// The same changes, of the staging volumes.
    fn changes(&self, parts: Vec<(u32, Part)>) -> Result<Vec<Tapped>> {
        let tapped = |(volume, part): (u32, Part)| {
            let staging = self.staging.get(volume as usize).copied();
            let volume = staging.ok_or(Error::Malformed("a change of a volume that is not in the group"))?;
            Ok(Tapped { volume, part })
        };
        parts.into_iter().map(tapped).collect()
    }
}
