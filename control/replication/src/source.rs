//! Source: takes points of a group, and transfers them to the other array.
//!
//! The source records only its points. The target knows the position at which a transfer is resumed.

use crate::changes::{Block, Changes, Pair, Part};
use crate::connection::{Connection, Encoded};
use crate::disk;
use crate::env::{Env, Stream};
use crate::fingerprint::{Digest, Key};
use crate::known::Reader;
use crate::limits::{Limits, MAX_TRANSFER_OFFERS, MAX_VOLUMES};
use crate::points::{Point, Records, Volume};
use crate::throttle::{MAX_WAIT_NS, Throttle};
use crate::turns::Turns;
use crate::wire::{Message, NAMES_VERSION, Offer, Position, SourceVolume, first_digest, pack};
use crate::{Error, Result};
use block::{Disk, DiskId};
use bytes::Bytes;
use engine::Engine;
use std::collections::VecDeque;
use std::sync::Arc;

mod mirroring;

/// The sending end of replications to one other array.
pub struct Source<E> {
    engine: Arc<Engine>,
    env: Arc<E>,
    key: Key,
    reader: Reader,
    array: u128,
    limits: Limits,
    throttle: Throttle,
    turns: Turns,
}

/// A snapshot of a volume that a user or a schedule has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSnapshot {
    /// The volume.
    pub volume: DiskId,
    /// Its snapshot.
    pub snapshot: DiskId,
    /// Name of the snapshot.
    pub name: String,
}

/// Result of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// The point that the target has published.
    pub point: u64,
    /// Blocks with data that differ from the base, since the connection was opened.
    pub offered_blocks: u64,
    /// Number of these blocks that the target did not have.
    pub sent_blocks: u64,
    /// Number of blocks that were read: those with an unknown fingerprint, and others that the target did not have.
    pub read_blocks: u64,
    /// Total bytes sent.
    pub sent_bytes: u64,
}

/// An offer whose blocks the target may still request.
struct UnderWay {
    number: u64,
    snapshot: DiskId,
    blocks: Vec<Block>,
    /// Number of its blocks, including sent ones.
    count: usize,
    answered: bool,
}

/// A transfer of one point.
struct Transfer<'a, S, E> {
    source: &'a Source<E>,
    connection: &'a mut Connection<S>,
    under_way: VecDeque<UnderWay>,
    synced: Synced,
    /// Whether every later change follows.
    mirrors: bool,
    /// Whether hosts wait for the transfer: it runs at full speed.
    urgent: bool,
    /// Start of the only outstanding offer.
    begun_ns: u64,
}

impl<E: Env> Source<E> {
    /// The source of an engine for one other array. `array`: the identity of this array.
    pub fn new(engine: Arc<Engine>, env: Arc<E>, key: Key, array: u128, limits: Limits) -> Self {
        let (limits, throttle) = (limits.bounded(), Throttle::default());
        let reader = Reader::new(engine.clone(), key.clone(), limits.known_blocks);
        Self { engine, env, key, reader, array, limits, throttle, turns: Turns::default() }
    }

    /// Limit of the traffic to the other array, for all groups.
    pub fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// Points of a group, oldest first. Points with a digest are also on the other array.
    ///
    /// # Errors
    /// If a record can't be read.
    pub fn points(&self, replication: u128) -> Result<Vec<Point>> {
        Records::of_source(replication).points(&self.engine)
    }

    /// Takes a point of a group: all volumes at one moment. The point is durable on return.
    ///
    /// # Errors
    /// If a volume does not exist, if there are no volumes or too many, or if a record can't be read.
    pub async fn take_point(&self, replication: u128, volumes: &[DiskId]) -> Result<Point> {
        let snapshots: Vec<_> = volumes.iter().map(|id| (*id, *id)).collect();
        self.take(replication, &snapshots, |point| point).await
    }

    /// Takes a point of existing snapshots: one of each volume of the group, of the same moment. They must be newer
    /// than the last point ([`Point::watermark`]).
    ///
    /// # Errors
    /// As [`Source::take_point`], and if a snapshot was deleted or is older.
    pub async fn take_point_of(&self, replication: u128, snapshots: &[UserSnapshot]) -> Result<Point> {
        let mut found = Vec::with_capacity(snapshots.len());
        for snapshot in snapshots {
            found.push(self.engine.disk(snapshot.snapshot).ok_or(block::Error::Deleted)?);
        }
        let last = Records::of_source(replication).all_points(&self.engine)?.pop();
        let watermark = last.and_then(|point| point.watermark(&self.engine)).unwrap_or(0);
        if found.iter().any(|disk| disk.number <= watermark) {
            return Err(block::Error::Malformed("a snapshot that is older than the last point").into());
        }
        let names = snapshots.iter().map(|it| it.name.clone()).collect();
        let taken = found.iter().map(|disk| disk.created).max().unwrap_or_default();
        let through = found.iter().map(|disk| disk.number).max();
        let pairs: Vec<_> = snapshots.iter().map(|it| (it.volume, it.snapshot)).collect();
        self.take(replication, &pairs, |point| Point { taken, snapshots: names, through, ..point }).await
    }

    /// Takes a point of volumes from the disks with their contents.
    async fn take(
        &self,
        replication: u128,
        volumes: &[(DiskId, DiskId)],
        describe: impl FnOnce(Point) -> Point,
    ) -> Result<Point> {
        if volumes.is_empty() || volumes.len() > MAX_VOLUMES {
            return Err(block::Error::Malformed("a replicated group has 1 to 1024 volumes").into());
        }
        let records = Records::of_source(replication);
        let next = records.all_points(&self.engine)?.last().map_or(1, Point::next_number);
        let taken = self.env.timestamp();
        let pairs: Vec<_> = volumes.iter().map(|(_, content)| (*content, self.env.fresh_id())).collect();
        let volume = |((source, _), (_, snapshot)): (&(DiskId, DiskId), &(DiskId, DiskId))| Volume {
            source: source.0,
            snapshot: snapshot.0,
        };
        let volumes = volumes.iter().zip(&pairs).map(volume).collect();
        let point = describe(Point { number: next, taken, volumes, ..Point::default() });
        self.engine.snapshot(&pairs, &[records.record(&point)], taken, 0).await?;
        Ok(point)
    }

    /// Transfers a point to the other array: the one of an interrupted transfer, or the newest. If the future is
    /// dropped, the next call resumes the transfer. Deletes older points here afterwards. Gives way to hosts
    /// ([`Env::host_throttle`]).
    ///
    /// # Errors
    /// The reason why the point is not published yet.
    pub async fn sync<S: Stream>(&self, replication: u128, stream: S) -> Result<Synced> {
        self.transfer(replication, stream, false).await
    }

    /// Like [`Source::sync`], for a group to be mirrored: only the first point gives way to hosts. Later ones would
    /// never become small enough if hosts write more than a slow transfer sends.
    ///
    /// # Errors
    /// As [`Source::sync`].
    pub async fn catch_up<S: Stream>(&self, replication: u128, stream: S) -> Result<Synced> {
        self.transfer(replication, stream, true).await
    }

    async fn transfer<S: Stream>(&self, replication: u128, stream: S, catches_up: bool) -> Result<Synced> {
        let _turn = self.turns.connect(replication)?;
        let records = Records::of_source(replication);
        records.finish_deletions(&self.engine, self.env.retention_now()).await?;
        let mut connection = Connection::open(stream, self.array).await?;
        connection.send(&Message::Open { replication }).await?;
        let Message::State { points: theirs, position } = connection.receive().await? else {
            return Err(Error::Malformed("another message than its state"));
        };
        self.note_published(&records, &theirs).await?;
        let points = records.points(&self.engine)?;
        // A point from an abandoned call may exist before it is durable. If the target began it and a crash removed it
        // here, the next point would have the same number.
        self.engine.confirm_records().await?;
        let resumed = position.and_then(|position| resumable(&points, position));
        let newest = points.last().ok_or(Error::NoPoint)?;
        if newest.digest.is_some() && resumed.is_none() {
            self.delete_older(&records, newest.number).await?;
            return Ok(Synced { point: newest.number, ..Synced::default() });
        }
        let (point, position) = match resumed {
            Some((point, position)) => (point, Some(position)),
            None => (newest, None),
        };
        self.delete_abandoned(&records, &[point.number, newest.number]).await?;
        let base = match position {
            Some(position) => points.iter().find(|known| known.number == position.base),
            None => common(&points, &theirs),
        };
        let mut transfer = Transfer {
            source: self,
            connection: &mut connection,
            under_way: VecDeque::new(),
            synced: Synced { point: point.number, ..Synced::default() },
            mirrors: false,
            urgent: catches_up && base.is_some(),
            begun_ns: 0,
        };
        let digest = transfer.run(point, base, position).await?;
        let synced = transfer.synced;
        let published = Point { digest: Some(digest.0), ..point.clone() };
        self.engine.put_records(vec![records.record(&published)]).await?;
        self.delete_older(&records, point.number).await?;
        Ok(synced)
    }

    /// Records points that were published without this array being informed.
    async fn note_published(&self, records: &Records, theirs: &[(u64, Digest)]) -> Result<()> {
        for mut point in records.points(&self.engine)?.into_iter().filter(|point| point.digest.is_none()) {
            if let Some((_, digest)) = theirs.iter().find(|(number, _)| *number == point.number) {
                point.digest = Some(digest.0);
                self.engine.put_records(vec![records.record(&point)]).await?;
            }
        }
        Ok(())
    }

    async fn delete_older(&self, records: &Records, number: u64) -> Result<()> {
        self.delete_points(records, |point| point.number < number).await
    }

    /// Deletes points whose transfer was abandoned: otherwise repeated connection failures would accumulate points. The
    /// newest one is kept, so its number is not reused.
    async fn delete_abandoned(&self, records: &Records, kept: &[u64]) -> Result<()> {
        self.delete_points(records, |point| point.digest.is_none() && !kept.contains(&point.number)).await
    }

    async fn delete_points(&self, records: &Records, choose: impl Fn(&Point) -> bool) -> Result<()> {
        for point in records.points(&self.engine)?.into_iter().filter(choose) {
            match records.delete(&self.engine, point, self.env.retention_now()).await {
                // An operator has locked a snapshot: a later transfer deletes the point.
                Err(Error::Disk(block::Error::RetentionLocked { .. })) => {}
                result => result?,
            }
        }
        Ok(())
    }
}

/// The point of an interrupted transfer, if the point and its base still exist, and numbers for further offers.
fn resumable(points: &[Point], position: Position) -> Option<(&Point, Position)> {
    position.next.checked_add(MAX_TRANSFER_OFFERS)?;
    let point = points.iter().find(|point| point.number == position.point && point.digest.is_none())?;
    let base = position.base == 0 || points.iter().any(|known| known.number == position.base);
    base.then_some((point, position))
}

/// Waits until `wait_ns` returns zero for the current time, starting at `now`. It is called repeatedly, as its result
/// may change.
async fn wait_while<E: Env>(env: &E, mut now: u64, wait_ns: impl Fn(u64) -> u64) {
    loop {
        match wait_ns(now) {
            0 => return,
            wait => env.sleep(wait.min(MAX_WAIT_NS)).await,
        }
        now = env.now_ns();
    }
}

/// The newest point that both arrays have.
fn common<'a>(ours: &'a [Point], theirs: &[(u64, Digest)]) -> Option<&'a Point> {
    let same = |point: &&Point| point.digest().is_some_and(|digest| theirs.contains(&(point.number, digest)));
    ours.iter().rev().find(same)
}

impl<S: Stream, E: Env> Transfer<'_, S, E> {
    /// Sends all changes; returns the digest of the published point.
    async fn run(
        &mut self,
        point: &Point,
        base: Option<&Point>,
        position: Option<Position>,
    ) -> Result<Digest> {
        let (engine, key) = (&self.source.engine, &self.source.key);
        let mut volumes = Vec::with_capacity(point.volumes.len());
        let mut pairs = Vec::with_capacity(point.volumes.len());
        for volume in &point.volumes {
            let (id, new) = (DiskId(volume.source), DiskId(volume.snapshot));
            volumes.push(SourceVolume { id, geometry: disk::find(engine, new)?.geometry() });
            pairs.push(Pair { old: base.and_then(|base| base.snapshot(id)), new });
        }
        let number = base.map_or(0, |base| base.number);
        let digest = base.and_then(Point::digest).unwrap_or_default();
        let start = Position {
            point: point.number,
            base: number,
            next: 0,
            volume: 0,
            block: 0,
            digest: first_digest(key, digest, point.number, &volumes),
        };
        let (taken, resume) = (point.taken, position.is_some());
        if !point.snapshots.is_empty() && self.connection.version() >= NAMES_VERSION {
            self.send(&Message::Snapshots { names: point.snapshots.clone() }).await?;
        }
        if self.mirrors {
            self.send(&Message::Mirror).await?;
        }
        self.send(&Message::Begin { point: point.number, taken, base: number, resume, volumes }).await?;
        let Message::Ready = self.connection.receive().await? else {
            return Err(Error::Malformed("another message than that it is ready"));
        };
        let position = position.unwrap_or(start);
        let changes =
            Changes::new(engine.clone(), self.source.reader.clone(), pairs, position.volume, position.block);
        let digest = self.offer_all(changes, position).await?;
        self.send(&Message::End { digest }).await?;
        match self.connection.receive().await? {
            Message::Published => Ok(digest),
            _ => Err(Error::Malformed("another message than that the point is published")),
        }
    }

    async fn offer_all(&mut self, mut changes: Changes, position: Position) -> Result<Digest> {
        let (mut number, mut digest, mut ended) = (position.next, position.digest, false);
        let limits = self.source.limits;
        loop {
            while !ended && let Some(blocks) = self.admit(limits).await {
                let Some(part) = changes.next(blocks).await? else {
                    ended = true;
                    break;
                };
                digest = self.offer(number, digest, part).await?;
                number += 1;
            }
            if self.under_way.is_empty() {
                return Ok(digest);
            }
            match self.connection.receive().await? {
                Message::Want { number, wanted } => self.answer(number, &wanted).await?,
                Message::Applied { number } => {
                    let front = self.under_way.pop_front();
                    if !front.is_some_and(|front| front.number == number && front.answered) {
                        return Err(Error::Malformed("that it applied what is not under way"));
                    }
                }
                _ => return Err(Error::Malformed("another message than the response to an offer")),
            }
        }
    }

    /// Maximum number of blocks in the next offer; `None` until outstanding offers were applied.
    async fn admit(&mut self, limits: Limits) -> Option<usize> {
        let env = &self.source.env;
        if self.under_way.len() >= limits.offers {
            return None;
        }
        let Some(throttle) = env.host_throttle().filter(|_| !self.urgent) else {
            return Some(limits.offer_blocks);
        };
        let is_alone = self.under_way.is_empty() && self.begun_ns > 0;
        let busy = if is_alone { env.now_ns().saturating_sub(self.begun_ns) } else { 0 };
        let begun = env.now_ns();
        let wait_ns = |now: u64| throttle.wait_ns(now, now.saturating_sub(begun), busy, || env.host_io());
        wait_while(&**env, begun, wait_ns).await;
        let most = throttle.blocks(limits.offers * limits.offer_blocks);
        let under_way: usize = self.under_way.iter().map(|offer| offer.count).sum();
        if under_way == 0 {
            self.begun_ns = env.now_ns();
        }
        Some(limits.offer_blocks.min(most.saturating_sub(under_way))).filter(|blocks| *blocks > 0)
    }

    /// Offers a part; returns the digest after it.
    async fn offer(&mut self, number: u64, before: Digest, part: Part) -> Result<Digest> {
        let (volume, extents, fingerprints) = (part.volume, part.extents, part.fingerprints);
        let mut offer = Offer { number, volume, extents, fingerprints, digest: before };
        offer.digest = self.source.key.chain(before, &offer.chained());
        let digest = offer.digest;
        let read = part.blocks.iter().filter(|block| matches!(block, Block::Read(_)));
        self.synced.read_blocks += read.count() as u64;
        self.synced.offered_blocks += part.blocks.len() as u64;
        self.under_way.push_back(UnderWay {
            number,
            snapshot: part.snapshot,
            count: part.blocks.len(),
            blocks: part.blocks,
            answered: false,
        });
        self.send(&Message::Offer(offer)).await?;
        Ok(digest)
    }

    /// Sends the wanted blocks of an offer.
    async fn answer(&mut self, number: u64, wanted: &Bytes) -> Result<()> {
        let open = self.under_way.iter_mut().find(|offer| !offer.answered);
        let Some(offer) = open.filter(|offer| offer.number == number) else {
            return Err(Error::Malformed("that it wants blocks which were not offered"));
        };
        if wanted.len() != offer.blocks.len().div_ceil(8) {
            return Err(Error::Malformed("that it wants another number of blocks than were offered"));
        }
        offer.answered = true;
        let bit = |index: usize| wanted.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 != 0);
        let (snapshot, blocks) = (offer.snapshot, std::mem::take(&mut offer.blocks));
        let blocks: Vec<Block> =
            blocks.into_iter().enumerate().filter_map(|(index, block)| bit(index).then_some(block)).collect();
        if blocks.is_empty() {
            return Ok(());
        }
        let blocks = self.bytes_of(snapshot, blocks).await?;
        self.synced.sent_blocks += blocks.len() as u64;
        let (method, packed) = pack(&blocks);
        self.send(&Message::Blocks { number, method, packed }).await
    }

    /// The data of blocks; blocks without data are read from the snapshot.
    async fn bytes_of(&mut self, snapshot: DiskId, blocks: Vec<Block>) -> Result<Vec<Bytes>> {
        let mut runs = Vec::new();
        for block in &blocks {
            if let Block::At(block) = block {
                disk::extend(&mut runs, *block);
            }
        }
        let read = match runs.is_empty() {
            true => Vec::new(),
            false => disk::read(&*disk::find(&self.source.engine, snapshot)?, runs).await?,
        };
        self.synced.read_blocks += read.len() as u64;
        let mut read = read.into_iter();
        let bytes = |block| match block {
            Block::Read(bytes) => Some(bytes),
            Block::At(_) => read.next(),
        };
        let bytes: Option<Vec<Bytes>> = blocks.into_iter().map(bytes).collect();
        bytes.ok_or(Error::Malformed("a read of another length"))
    }

    /// Sends a message at the permitted rate; at once if writes of hosts wait for it.
    async fn send(&mut self, message: &Message) -> Result<()> {
        let (message, env) = (Encoded::new(message), &self.source.env);
        self.synced.sent_bytes += message.len() as u64;
        if self.mirrors {
            return self.connection.send_encoded(message).await;
        }
        let throttle = &self.source.throttle;
        let now = env.now_ns();
        let place = throttle.count(now, message.len());
        wait_while(&**env, now, |now| throttle.wait_ns(now, place)).await;
        self.connection.send_encoded(message).await
    }
}
