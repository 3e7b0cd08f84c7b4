//! Target: applies offers to staging volumes, and publishes points.
//!
//! After each offer the position is durable in a record, so the next connection begins with the following offer. An
//! offer that was applied without the record is offered again, and found in place.

use crate::apply::Offers;
use crate::connection::Connection;
use crate::disk;
use crate::env::{Env, Stream};
use crate::fingerprint::{Digest, Key};
use crate::index::Index;
use crate::known::Reader;
use crate::limits::{Limits, MAX_OFFERS, MAX_POINT_NUMBER, MAX_POINTS};
use crate::points::{Point, Records, Volume, value};
use crate::turns::{Connected, Turns};
use crate::wire::{MIRROR_VERSION, Message, NAMES_VERSION, Offer, Position, SourceVolume, first_digest};
use crate::{Error, Result};
use block::{Disk, DiskId, Geometry};
use engine::Engine;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

mod following;

/// The receiving end of replications from one other array.
pub struct Target<E> {
    engine: Arc<Engine>,
    env: Arc<E>,
    key: Key,
    reader: Reader,
    array: u128,
    index: Arc<Mutex<Index>>,
    turns: Turns,
    /// Replications with every change arriving.
    following: Mutex<BTreeSet<u128>>,
}

/// Record `group`: this array is the target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct GroupRecord {
    /// Retention lock of points in the unit of [`Env::timestamp`]; none if zero.
    lock: u64,
}

/// Record `transfer`: the transfer in progress. Its size depends on the group, and it is written once for each point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TransferRecord {
    point: u64,
    taken: u64,
    base: u64,
    /// Identity on the source, block length and number of logical blocks.
    volumes: Vec<(u128, u32, u64)>,
    /// Names of the point's source snapshots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    snapshots: Vec<String>,
}

/// Record `position`: the position at which a transfer is resumed. It exists once the staging volumes are ready, and is
/// written after each offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PositionRecord {
    next: u64,
    volume: u32,
    block: u64,
    digest: [u8; 32],
}

const GROUP: &str = "group";
const TRANSFER: &str = "transfer";
const POSITION: &str = "position";

fn staging_name(source: u128) -> String {
    format!("staging/{source:032x}")
}

impl TransferRecord {
    fn new(point: u64, taken: u64, base: u64, volumes: &[SourceVolume]) -> Self {
        let volume =
            |volume: &SourceVolume| (volume.id.0, volume.geometry.block_bytes, volume.geometry.blocks);
        Self { point, taken, base, volumes: volumes.iter().map(volume).collect(), snapshots: Vec::new() }
    }

    fn volumes(&self) -> Vec<SourceVolume> {
        let volume = |(id, block_bytes, blocks): &(u128, u32, u64)| SourceVolume {
            id: DiskId(*id),
            geometry: Geometry { block_bytes: *block_bytes, blocks: *blocks },
        };
        self.volumes.iter().map(volume).collect()
    }
}

/// One connection.
struct Session<'a, S, E> {
    target: &'a Target<E>,
    connection: &'a mut Connection<S>,
    records: Records,
    transfer: TransferRecord,
    /// The staging volume of each volume.
    staging: Vec<DiskId>,
    position: PositionRecord,
    offers: Offers,
    /// Position of the next offer: its number, volume, and block.
    next: (u64, u32, u64),
    /// Whether every change follows the point.
    mirrors: bool,
}

impl<E: Env> Target<E> {
    /// The target of an engine for one other array. `array`: the identity of this array.
    pub fn new(engine: Arc<Engine>, env: Arc<E>, key: Key, array: u128, limits: Limits) -> Self {
        let index = Arc::new(Mutex::new(Index::new(limits.index_entries)));
        let reader = Reader::new(engine.clone(), key.clone(), limits.known_blocks);
        Self { engine, env, key, reader, array, index, turns: Turns::default(), following: Mutex::default() }
    }

    /// Makes this array the target of a group. Its points get a retention lock of `lock`, in the unit of
    /// [`Env::timestamp`]; none if zero. May be called again to change the lock of later points.
    ///
    /// # Errors
    /// If the record can't be written.
    pub async fn accept(&self, replication: u128, lock: u64) -> Result<()> {
        let key = Records::of_target(replication).key(GROUP);
        Ok(self.engine.put_record(&key, Some(value(&GroupRecord { lock }))).await?)
    }

    /// Published points of a group, oldest first. Their snapshots can be cloned like any others.
    ///
    /// # Errors
    /// If a record can't be read.
    pub fn points(&self, replication: u128) -> Result<Vec<Point>> {
        Records::of_target(replication).points(&self.engine)
    }

    /// Deletes a published point, even during the transfer of a later one.
    ///
    /// # Errors
    /// [`Error::Newest`] for the newest one, [`Error::Busy`] if a transfer needs it as its base; an error if it has a
    /// retention lock. The point then stays.
    pub async fn delete_point(&self, replication: u128, number: u64) -> Result<()> {
        let _deleting = self.turns.delete(replication, number)?;
        let records = Records::of_target(replication);
        let points = records.points(&self.engine)?;
        if points.last().is_some_and(|newest| newest.number == number) {
            return Err(Error::Newest(number));
        }
        // A transfer in progress began with the content of its base, and may have to begin again.
        let transfer: Option<TransferRecord> = records.get(&self.engine, TRANSFER)?;
        if transfer.is_some_and(|transfer| transfer.base == number) {
            return Err(Error::Busy);
        }
        match points.into_iter().find(|point| point.number == number) {
            Some(point) => records.delete(&self.engine, point, self.env.retention_now()).await,
            None => Ok(()),
        }
    }

    /// Serves one connection of the source of this replication: at most one point. Returns its number, or `None` if the
    /// source had nothing to send. If the future is dropped, applied data stays, and the next connection resumes after it.
    ///
    /// # Errors
    /// The reason why the connection ended before the point was published; [`Error::Unknown`] if the source names another
    /// replication.
    pub async fn serve<S: Stream>(&self, replication: u128, stream: S) -> Result<Option<u64>> {
        let mut connection = Connection::open(stream, self.array).await?;
        let served = self.serve_connection(replication, &mut connection).await;
        if let Err(error) = &served {
            tracing::debug!(%error, "replication: a connection ended");
            if let Some(reason) = error.reason() {
                // The connection ends in any case.
                if connection.send(&Message::Refused { reason, text: error.to_string() }).await.is_ok() {
                    connection.drain().await;
                }
            }
        }
        served
    }

    async fn serve_connection<S: Stream>(
        &self,
        replication: u128,
        connection: &mut Connection<S>,
    ) -> Result<Option<u64>> {
        let Message::Open { replication: named } = connection.receive().await? else {
            return Err(Error::Malformed("another message than which group it replicates"));
        };
        // The source was admitted for one replication, and every number is one of some array.
        if named != replication {
            return Err(Error::Unknown(named));
        }
        let records = Records::of_target(replication);
        let Some(_) = records.get::<GroupRecord>(&self.engine, GROUP)? else {
            return Err(Error::Unknown(replication));
        };
        let turn = self.turns.connect(replication)?;
        self.finish_deletions(&records, &turn).await?;
        let mut points = records.points(&self.engine)?;
        points.retain(|point| !turn.is_deleted(point.number));
        let known = points.iter().rev().take(MAX_POINTS);
        let known = known.map(|point| (point.number, point.digest().unwrap_or_default())).collect();
        let position = self.position(&records)?;
        // The result of an earlier connection may not be durable yet, and the source deletes data that it relies on.
        self.engine.confirm_records().await?;
        connection.send(&Message::State { points: known, position }).await?;
        let mut first = connection.receive().await;
        let mut snapshots = Vec::new();
        if let Ok(Message::Snapshots { names }) = first {
            if connection.version() < NAMES_VERSION {
                return Err(Error::Malformed("a message of a newer version than was agreed on"));
            }
            snapshots = names;
            first = connection.receive().await;
        }
        let mirrors = matches!(first, Ok(Message::Mirror));
        if mirrors {
            if connection.version() < MIRROR_VERSION {
                return Err(Error::Malformed("a message of a newer version than was agreed on"));
            }
            first = connection.receive().await;
        }
        let (begin, resume) = match first {
            Ok(Message::Begin { point, taken, base, resume, volumes }) => {
                if !snapshots.is_empty() && snapshots.len() != volumes.len() {
                    return Err(Error::Malformed("another number of snapshots than of volumes"));
                }
                (TransferRecord { snapshots, ..TransferRecord::new(point, taken, base, &volumes) }, resume)
            }
            Ok(_) => return Err(Error::Malformed("another message than the beginning of a point")),
            Err(Error::Stream(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        turn.keep(begin.base);
        if !resume {
            self.begin(&records, &begin).await?;
        }
        let mut session = Session { mirrors, ..self.session(connection, records, &begin)? };
        session.connection.send(&Message::Ready).await?;
        let point = session.receive_offers().await?;
        if mirrors {
            match session.follow(replication).await? {}
        }
        Ok(Some(point))
    }

    /// Finishes deletions that a crash interrupted.
    async fn finish_deletions(&self, records: &Records, turn: &Connected<'_>) -> Result<()> {
        let mut points = records.all_points(&self.engine)?;
        points.retain(|point| point.deleting && !turn.is_deleted(point.number));
        for point in points {
            records.delete(&self.engine, point, self.env.retention_now()).await?;
        }
        Ok(())
    }

    /// Position at which an interrupted transfer is resumed.
    fn position(&self, records: &Records) -> Result<Option<Position>> {
        let transfer: Option<TransferRecord> = records.get(&self.engine, TRANSFER)?;
        let position: Option<PositionRecord> = records.get(&self.engine, POSITION)?;
        Ok(transfer.zip(position).map(|(transfer, position)| Position {
            point: transfer.point,
            base: transfer.base,
            next: position.next,
            volume: position.volume,
            block: position.block,
            digest: Digest(position.digest),
        }))
    }

    /// Begins a transfer: gives the staging volumes the content of the base. Without a base they keep their content,
    /// and the source offers everything.
    async fn begin(&self, records: &Records, transfer: &TransferRecord) -> Result<()> {
        let volumes = transfer.volumes();
        let distinct: BTreeSet<DiskId> = volumes.iter().map(|volume| volume.id).collect();
        if volumes.is_empty() || distinct.len() < volumes.len() {
            return Err(Error::Malformed("a point of no volumes, or with one of them twice"));
        }
        self.seal_staging(records).await?;
        let points = records.points(&self.engine)?;
        if points.last().is_some_and(|newest| newest.number >= transfer.point) || transfer.point == 0 {
            return Err(Error::Malformed("a point that is not newer than the newest one here"));
        }
        if transfer.point > MAX_POINT_NUMBER {
            return Err(Error::Malformed("a point with a number that leaves none for later ones"));
        }
        let base = points.iter().find(|point| point.number == transfer.base);
        if transfer.base != 0 && base.is_none() {
            return Err(Error::Malformed("the changes since a point that is not here any more"));
        }
        let (transfer_key, position_key) = (records.key(TRANSFER), records.key(POSITION));
        let begun = vec![(transfer_key, Some(value(transfer))), (position_key.clone(), None)];
        self.engine.put_records(begun).await?;
        for volume in &volumes {
            let staging = self.make_staging(records, volume).await?;
            if let Some(snapshot) = base.and_then(|base| base.snapshot(volume.id)) {
                self.engine.restore_volume(staging, snapshot).await?;
            }
            if disk::find(&self.engine, staging)?.geometry() != volume.geometry {
                self.engine.resize_volume(staging, volume.geometry.blocks).await?;
            }
        }
        let digest = base.and_then(Point::digest).unwrap_or_default();
        let digest = first_digest(&self.key, digest, transfer.point, &volumes).0;
        let position = PositionRecord { next: 0, volume: 0, block: 0, digest };
        Ok(self.engine.put_record(&position_key, Some(value(&position))).await?)
    }

    /// The staging volume of a volume, created if it does not exist.
    async fn make_staging(&self, records: &Records, volume: &SourceVolume) -> Result<DiskId> {
        let name = staging_name(volume.id.0);
        let known: Option<u128> = records.get(&self.engine, &name)?;
        if let Some(staging) = known.and_then(|id| self.engine.volume(DiskId(id))) {
            if staging.geometry().block_bytes != volume.geometry.block_bytes {
                return Err(Error::Malformed("a volume with another block length than before"));
            }
            return Ok(staging.id());
        }
        let (id, now) = (self.env.fresh_id(), self.env.timestamp());
        let record = (records.key(&name), Some(value(&id.0)));
        self.engine.create_volume_with(id, volume.geometry, None, now, &[record]).await?;
        Ok(id)
    }

    fn session<'a, S>(
        &'a self,
        connection: &'a mut Connection<S>,
        records: Records,
        begin: &TransferRecord,
    ) -> Result<Session<'a, S, E>> {
        let transfer: Option<TransferRecord> = records.get(&self.engine, TRANSFER)?;
        let position: Option<PositionRecord> = records.get(&self.engine, POSITION)?;
        // An older version of the other array sent no names.
        let same = |known: &TransferRecord| {
            *known == TransferRecord { snapshots: known.snapshots.clone(), ..begin.clone() }
        };
        let known = transfer.zip(position).filter(|(transfer, _)| same(transfer));
        let Some((transfer, position)) = known else {
            return Err(Error::Malformed("that it resumes what was not begun"));
        };
        let staging = |(id, ..): &(u128, u32, u64)| {
            let name = staging_name(*id);
            let found: Option<u128> = records.get(&self.engine, &name)?;
            found.map(DiskId).ok_or_else(|| Error::Record(records.key(&name)))
        };
        let staging = transfer.volumes.iter().map(staging).collect::<Result<Vec<_>>>()?;
        let next = (position.next, position.volume, position.block);
        let offers = Offers::new(self.key.clone(), self.reader.clone(), self.index.clone());
        let mirrors = false;
        Ok(Session { target: self, connection, records, transfer, staging, position, offers, next, mirrors })
    }
}

impl<S: Stream, E: Env> Session<'_, S, E> {
    /// Applies offers until the point is published; returns its number.
    async fn receive_offers(&mut self) -> Result<u64> {
        loop {
            match self.connection.receive().await? {
                Message::Offer(offer) => self.receive_offer(offer).await?,
                Message::Blocks { number, method, packed } => self.offers.take(number, method, &packed)?,
                Message::End { digest } => return self.publish(digest).await,
                _ => return Err(Error::Malformed("another message than an offer")),
            }
            while let Some(offer) =
                self.offers.apply_first(self.transfer.point, Digest(self.position.digest)).await?
            {
                self.note(&offer).await?;
            }
        }
    }

    async fn receive_offer(&mut self, offer: Offer) -> Result<()> {
        let (number, volume, block) = self.next;
        if offer.number != number || self.offers.len() >= MAX_OFFERS {
            return Err(Error::Malformed("offers that are not in order, or too many"));
        }
        let known =
            self.staging.get(offer.volume as usize).zip(self.transfer.volumes.get(offer.volume as usize));
        let Some((staging, (_, block_bytes, blocks))) = known.filter(|_| offer.volume >= volume) else {
            return Err(Error::Malformed("an offer for a volume that is not its turn"));
        };
        let from = if offer.volume == volume { block } else { 0 };
        offer.check(Geometry { block_bytes: *block_bytes, blocks: *blocks }, from)?;
        let engine = &self.target.engine;
        let staging = disk::find(engine, *staging)?;
        self.next = (number + 1, offer.volume, offer.end());
        let wanted = self.offers.add(engine, staging, offer).await?;
        self.connection.send(&Message::Want { number, wanted }).await
    }

    /// Makes the position after an offer durable.
    async fn note(&mut self, offer: &Offer) -> Result<()> {
        self.position = PositionRecord {
            next: offer.number + 1,
            volume: offer.volume,
            block: offer.end(),
            digest: offer.digest.0,
        };
        let key = self.records.key(POSITION);
        self.target.engine.put_record(&key, Some(value(&self.position))).await?;
        self.connection.send(&Message::Applied { number: offer.number }).await
    }

    /// Publishes the point: the snapshots of all staging volumes and its record are created in one step.
    async fn publish(&mut self, digest: Digest) -> Result<u64> {
        let (target, transfer) = (self.target, &self.transfer);
        if self.offers.len() > 0 || digest.0 != self.position.digest {
            // The next transfer begins again, and compares existing content.
            let forget = vec![(self.records.key(TRANSFER), None), (self.records.key(POSITION), None)];
            target.engine.put_records(forget).await?;
            let (volume, block) = (self.position.volume, self.position.block);
            return Err(Error::Differs { point: transfer.point, volume, block });
        }
        let now = target.env.timestamp();
        let group: GroupRecord = self.records.get(&target.engine, GROUP)?.unwrap_or_default();
        let pairs: Vec<_> = self.staging.iter().map(|staging| (*staging, target.env.fresh_id())).collect();
        let volume = |((source, ..), (_, snapshot)): (&(u128, u32, u64), &(DiskId, DiskId))| Volume {
            source: *source,
            snapshot: snapshot.0,
        };
        let point = Point {
            number: transfer.point,
            taken: transfer.taken,
            digest: Some(digest.0),
            volumes: transfer.volumes.iter().zip(&pairs).map(volume).collect(),
            snapshots: transfer.snapshots.clone(),
            ..Point::default()
        };
        let records = [
            self.records.record(&point),
            (self.records.key(TRANSFER), None),
            (self.records.key(POSITION), None),
            following::mirrored(&self.records, self.mirrors.then_some(transfer.point)),
        ];
        target.engine.snapshot(&pairs, &records, now, target.locked_until(&group)).await?;
        self.connection.send(&Message::Published).await?;
        self.delete_unused_staging(now).await?;
        Ok(point.number)
    }

    /// Deletes the staging volumes of volumes that have left the group. Older points keep their snapshots.
    async fn delete_unused_staging(&self, now: u64) -> Result<()> {
        let engine = &self.target.engine;
        for (source, staging) in self.records.list::<u128>(engine, "staging/")? {
            let known = self.transfer.volumes.iter().any(|(id, ..)| format!("{id:032x}") == source);
            if !known {
                let record = (self.records.key(&format!("staging/{source}")), None);
                engine.delete_volume_with(DiskId(staging), now, vec![record]).await?;
            }
        }
        Ok(())
    }
}
