//! Receiving end of synchronous replication: applies every change to the staging volumes.
//!
//! A record marks that the staging volumes have everything that the source has acknowledged. It exists from the
//! publication of the session's point until the staging volumes are used otherwise. Before that, or for a promotion,
//! they are *sealed*: their content becomes a point of this array alone, in the same step that deletes the record.

use super::{GROUP, GroupRecord, Session, Target, staging_name};
use crate::env::{Env, Stream, before};
use crate::inventory::MIRRORED;
use crate::limits::{MAX_CHANGES, MAX_SILENCE_NS};
use crate::points::{Point, Records, Volume, value};
use crate::wire::Message;
use crate::{Error, Result};
use block::DiskId;
use bytes::Bytes;
use engine::{Part, Tapped};
use parking_lot::Mutex;
use std::collections::BTreeSet;

impl<E: Env> Target<E> {
    /// Makes the newest state of a synchronously replicated group a point: everything that its source had acknowledged
    /// when both arrays were last connected. `None` if the newest point already has this state, or if the source has
    /// continued without this array and a transfer has begun since.
    ///
    /// # Errors
    /// [`Error::Busy`] while a connection is open; an error if a record can't be read.
    pub async fn seal(&self, replication: u128) -> Result<Option<Point>> {
        let _turn = self.turns.connect(replication)?;
        self.seal_staging(&Records::of_target(replication)).await
    }

    /// The session of which this array has everything that the source had acknowledged in it, for a request to a
    /// witness: the array still follows it, or has sealed its state and published nothing newer. `None` if there is
    /// none. No connection may be open or begin before the witness has answered.
    ///
    /// # Errors
    /// If a record can't be read, or if the engine has stopped.
    pub async fn claim(&self, replication: u128) -> Result<Option<u64>> {
        let records = Records::of_target(replication);
        let session = match records.get::<u64>(&self.engine, MIRRORED)? {
            Some(session) => Some(session),
            None => self.sealed_session(&records.points(&self.engine)?),
        };
        // The witness must not learn of a point that a crash could undo.
        self.engine.confirm_records().await?;
        Ok(session)
    }

    /// The session after which the newest point was sealed.
    fn sealed_session(&self, points: &[Point]) -> Option<u64> {
        let [.., base, newest] = points else { return None };
        let sealed = self.key.seal(base.digest()?, newest.number);
        (newest.number == base.number + 1 && newest.digest() == Some(sealed)).then_some(base.number)
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
        // The source has a point with this number and digest only if both arrays had everything when its volumes
        // stopped taking writes.
        let number = mirrored + 1;
        let digest = self.key.seal(base.digest().unwrap_or_default(), number);
        let now = self.env.timestamp();
        let point = Point { number, taken: now, digest: Some(digest.0), volumes, ..Point::default() };
        let group: GroupRecord = records.get(&self.engine, GROUP)?.unwrap_or_default();
        let put = [records.record(&point), (records.key(MIRRORED), None)];
        self.engine.snapshot(&pairs, &put, now, self.locked_until(&group)).await?;
        Ok(Some(point))
    }

    /// Whether every change of a group arrives here now.
    pub fn is_following(&self, replication: u128) -> bool {
        self.following.lock().contains(&replication)
    }

    /// End of the retention lock of a point that is published now; zero without a lock.
    pub(super) fn locked_until(&self, group: &GroupRecord) -> u64 {
        if group.lock > 0 { self.env.retention_begin().saturating_add(group.lock) } else { 0 }
    }
}

/// Guard while every change of a group arrives.
struct Following<'a>(&'a Mutex<BTreeSet<u128>>, u128);

impl<'a> Following<'a> {
    fn new(all: &'a Mutex<BTreeSet<u128>>, replication: u128) -> Self {
        all.lock().insert(replication);
        Self(all, replication)
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

/// The record that the staging volumes have all acknowledged writes.
pub(super) fn mirrored(records: &Records, point: Option<u64>) -> (String, Option<Bytes>) {
    (records.key(MIRRORED), point.map(|point| value(&point)))
}

impl<S: Stream, E: Env> Session<'_, S, E> {
    /// Applies changes until the connection ends, or is silent for too long. Changes that arrive together become
    /// durable together.
    pub(super) async fn follow(&mut self, replication: u128) -> Result<std::convert::Infallible> {
        let _following = Following::new(&self.target.following, replication);
        let mut next = 0;
        loop {
            let silence = self.target.env.timer(MAX_SILENCE_NS);
            let mut message = before(silence, self.connection.receive()).await.ok_or(Error::Silent)??;
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

    /// The changes, translated to the staging volumes.
    fn changes(&self, parts: Vec<(u32, Part)>) -> Result<Vec<Tapped>> {
        let tapped = |(volume, part): (u32, Part)| {
            let staging = self.staging.get(volume as usize).copied();
            let volume = staging.ok_or(Error::Malformed("a change of a volume that is not in the group"))?;
            Ok(Tapped { volume, part })
        };
        parts.into_iter().map(tapped).collect()
    }
}
