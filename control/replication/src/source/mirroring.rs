//! Sending end of synchronous replication: a point, and every later change, over one connection.
//!
//! Writes wait from before the point is taken. So the target has all acknowledged writes when it has published the
//! point, and records that together with the point in one step. Changes follow in the order of the journal.

use super::{Source, Transfer, common};
use crate::connection::Connection;
use crate::disk::{self, BLOCK_BYTES};
use crate::env::{Env, Stream, before};
use crate::inventory::ARMED;
use crate::limits::{
    HEARTBEAT_NS, MAX_CHANGE_BLOCKS, MAX_CHANGE_PARTS, MAX_CHANGES, MAX_JOIN_NS, MAX_SILENCE_NS,
};
use crate::mirror::{Mirror, Queued, Session};
use crate::points::{Point, Records, value};
use crate::wire::{MIRROR_VERSION, Message};
use crate::{Error, Result};
use block::{Disk, DiskId, Op, Provisioning, Reply};
use bytes::{Bytes, BytesMut};
use engine::{Engine, Part, Tap};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// Attempts to read blocks of a volume that shrinks during the read. An operator causes each change of size, so more
/// than a few within one read indicate a defect.
const MAX_READS: u32 = 8;

/// The next event of a session.
enum Event {
    Received(Message),
    Change(Queued),
    /// A heartbeat may be due, or the target may be silent.
    Time,
}

/// An outstanding message.
struct Sent {
    number: u64,
    /// The change that ends with this message.
    change: Option<u64>,
    ns: u64,
}

/// Changes in transit.
struct Outgoing<'a, S, E> {
    env: &'a E,
    connection: &'a mut Connection<S>,
    session: &'a Session<'a>,
    engine: &'a Engine,
    /// Identities of the volumes, by index.
    volumes: Vec<DiskId>,
    sent: VecDeque<Sent>,
    /// Time of the last sent message, and of the last received one.
    sent_ns: u64,
    heard_ns: u64,
    /// Number of the next message.
    number: u64,
    parts: Vec<(u32, Part)>,
    /// Blocks of data in these parts.
    blocks: u64,
}

impl<E: Env> Source<E> {
    /// Keeps a group in sync on both arrays until an error: takes a point and transfers it, then every later change.
    /// Writes of the group wait until the point is published, so the changes since the last common point should be few.
    /// After the end, also by dropping the future, the mirror applies [`OnLinkLoss`](crate::OnLinkLoss) to writes.
    /// `mirror` becomes the tap of the volumes, and stays their tap.
    ///
    /// # Errors
    /// The reason why both arrays are no longer in sync.
    pub async fn mirror<S: Stream>(
        &self,
        replication: u128,
        volumes: &[DiskId],
        mirror: &Arc<Mirror>,
        stream: S,
    ) -> Result<Infallible> {
        let _turn = self.turns.connect(replication)?;
        let records = Records::of_source(replication);
        records.finish_deletions(&self.engine, self.env.retention_now()).await?;
        let mut connection = Connection::open(stream, self.array).await?;
        if connection.version() < MIRROR_VERSION {
            return Err(Error::OldPeer);
        }
        connection.send(&Message::Open { replication }).await?;
        let Message::State { points: theirs, .. } = connection.receive().await? else {
            return Err(Error::Malformed("another message than its state"));
        };
        self.note_published(&records, &theirs).await?;
        let newest = records.points(&self.engine)?.last().map(|point| point.number);
        self.delete_abandoned(&records, newest.as_slice()).await?;
        // Writes that could not be acknowledged in any case may wait without a limit.
        let limit = match mirror.is_armed() {
            true => None,
            false => Some(self.env.timer(MAX_JOIN_NS)),
        };
        let session = mirror.begin();
        let tap: Arc<dyn Tap> = mirror.clone();
        self.engine.tap(volumes, Some(&tap));
        let snapshots: Vec<_> = volumes.iter().map(|id| (*id, *id)).collect();
        let expect = |point: Point| {
            session.expect(point.volumes.iter().map(|volume| DiskId(volume.snapshot)).collect());
            Point { mirrored: true, ..point }
        };
        let join = async {
            let point = self.take(replication, &snapshots, expect).await?;
            self.transfer_mirrored(&records, &point, &theirs, &mut connection).await?;
            Ok::<_, Error>(point)
        };
        let point = match limit {
            Some(limit) => before(limit, join).await.unwrap_or(Err(Error::SlowJoin))?,
            None => join.await?,
        };
        session.join();
        let now = self.env.now_ns();
        let outgoing = Outgoing {
            env: &*self.env,
            connection: &mut connection,
            session: &session,
            engine: &self.engine,
            volumes: point.volumes.iter().map(|volume| DiskId(volume.source)).collect(),
            sent: VecDeque::new(),
            sent_ns: now,
            heard_ns: now,
            number: 0,
            parts: Vec::new(),
            blocks: 0,
        };
        self.keep(outgoing, mirror, (&records, point.number)).await
    }

    /// Sends changes until an error, and deletes older points.
    async fn keep<S: Stream>(
        &self,
        outgoing: Outgoing<'_, S, E>,
        mirror: &Mirror,
        (records, point): (&Records, u64),
    ) -> Result<Infallible> {
        let mut older = pin!(self.delete_older(records, point));
        let (mut run, mut deleted) = (pin!(outgoing.run(mirror)), false);
        poll_fn(|cx| {
            // Not before writes continue.
            if !deleted && let Poll::Ready(done) = older.as_mut().poll(cx) {
                deleted = true;
                done.unwrap_or_else(|error| {
                    tracing::warn!(%error, "older points go with the next session");
                });
            }
            run.as_mut().poll(cx)
        })
        .await
    }

    /// Makes the current state of a group a common point without a transfer, after a session: no write waits for the
    /// target, and the volumes have not changed since. The target makes the same point of its data
    /// ([`Target::seal`](crate::Target::seal)). `session`: the point with which the session began. `None` if another
    /// one was taken since.
    ///
    /// # Errors
    /// [`Error::Busy`] while a connection is open; otherwise as [`Source::take_point`].
    pub async fn seal(&self, replication: u128, session: u64, volumes: &[DiskId]) -> Result<Option<Point>> {
        let _turn = self.turns.connect(replication)?;
        let records = Records::of_source(replication);
        let base = records.points(&self.engine)?.pop().filter(|it| it.number == session && it.mirrored);
        let Some((number, digest)) = base.and_then(|it| Some((it.number + 1, it.digest()?))) else {
            return Ok(None);
        };
        let sealed = Some(self.key.seal(digest, number).0);
        let pairs: Vec<_> = volumes.iter().map(|id| (*id, *id)).collect();
        let point = self.take(replication, &pairs, |it| Point { number, digest: sealed, ..it }).await?;
        self.delete_older(&records, number).await?;
        Ok(Some(point))
    }

    /// Transfers the point of a session. On return, both arrays have a durable record that they are in sync.
    async fn transfer_mirrored<S: Stream>(
        &self,
        records: &Records,
        point: &Point,
        theirs: &[(u64, crate::Digest)],
        connection: &mut Connection<S>,
    ) -> Result<()> {
        let points = records.points(&self.engine)?;
        self.engine.confirm_records().await?;
        let mut transfer = Transfer {
            source: self,
            connection,
            under_way: VecDeque::new(),
            synced: super::Synced { point: point.number, ..super::Synced::default() },
            mirrors: true,
            urgent: true,
            begun_ns: 0,
        };
        let digest = transfer.run(point, common(&points, theirs), None).await?;
        let published = Point { digest: Some(digest.0), ..point.clone() };
        let armed = (records.key(ARMED), Some(value(&point.number)));
        Ok(self.engine.put_records(vec![records.record(&published), armed]).await?)
    }
}

impl<S: Stream, E: Env> Outgoing<'_, S, E> {
    async fn run(mut self, mirror: &Mirror) -> Result<Infallible> {
        loop {
            match self.next(mirror).await? {
                Event::Received(message) => self.take(&message)?,
                Event::Change(queued) => self.send_change(queued).await?,
                Event::Time => self.beat().await?,
            }
        }
    }

    /// Waits for the target, for a change if another one may be outstanding, and for the next deadline.
    async fn next(&mut self, mirror: &Mirror) -> Result<Event> {
        let has_room = self.sent.len() < MAX_CHANGES;
        let wait = self.due_ns().saturating_sub(self.env.now_ns());
        let mut timer = pin!(self.env.timer(wait));
        let mut receive = pin!(self.connection.receive());
        poll_fn(|cx| {
            if let Poll::Ready(message) = receive.as_mut().poll(cx) {
                return Poll::Ready(message.map(Event::Received));
            }
            if has_room && let Poll::Ready(change) = mirror.poll_next(cx) {
                return Poll::Ready(change.map(Event::Change));
            }
            timer.as_mut().poll(cx).map(|()| Ok(Event::Time))
        })
        .await
    }

    /// Time at which the target counts as silent; without outstanding messages, time of the next heartbeat.
    fn due_ns(&self) -> u64 {
        match self.sent.front() {
            Some(oldest) => oldest.ns.max(self.heard_ns) + MAX_SILENCE_NS,
            None => self.sent_ns + HEARTBEAT_NS,
        }
    }

    /// Sends an empty change, or reports that the target is silent.
    async fn beat(&mut self) -> Result<()> {
        match (self.env.now_ns() >= self.due_ns(), self.sent.is_empty()) {
            (false, _) => Ok(()),
            (true, true) => self.flush(None).await,
            (true, false) => Err(Error::Silent),
        }
    }

    fn take(&mut self, message: &Message) -> Result<()> {
        let Message::Durable { number } = message else {
            return Err(Error::Malformed("another message than what is durable"));
        };
        if *number >= self.number {
            return Err(Error::Malformed("that it has what was not sent"));
        }
        self.heard_ns = self.env.now_ns();
        let known = self.sent.iter().take_while(|sent| sent.number <= *number).count();
        if let Some(newest) = known.checked_sub(1).and_then(|last| self.sent.get(last)) {
            self.session.note_round_trip(self.heard_ns.saturating_sub(newest.ns));
        }
        if let Some(change) = self.sent.drain(..known).filter_map(|sent| sent.change).next_back() {
            self.session.acknowledge(change);
        }
        Ok(())
    }

    /// Sends a change: in one message, which takes effect as a whole, unless the change is long or has to be read.
    async fn send_change(&mut self, Queued { number, parts }: Queued) -> Result<()> {
        for tapped in parts {
            let index = self.volumes.iter().position(|id| *id == tapped.volume);
            let Some(volume) = index.and_then(|index| u32::try_from(index).ok()) else {
                return Err(Error::Unmirrored("a volume has joined the group"));
            };
            match tapped.part {
                Part::Data { mut block, mut data } => {
                    while !data.is_empty() {
                        let len = data.len().min(MAX_CHANGE_BLOCKS as usize * BLOCK_BYTES);
                        let piece = Part::Data { block, data: data.split_to(len) };
                        self.add(volume, piece, (len / BLOCK_BYTES) as u64).await?;
                        block += (len / BLOCK_BYTES) as u64;
                    }
                }
                Part::Copied { block, count } => self.add_copied(volume, block, block + count).await?,
                part @ Part::Same { .. } => self.add(volume, part, 1).await?,
                part => self.add(volume, part, 0).await?,
            }
        }
        self.flush(Some(number)).await
    }

    async fn add(&mut self, volume: u32, part: Part, blocks: u64) -> Result<()> {
        if self.blocks + blocks > MAX_CHANGE_BLOCKS || self.parts.len() >= MAX_CHANGE_PARTS {
            self.flush(None).await?;
        }
        self.blocks += blocks;
        self.parts.push((volume, part));
        Ok(())
    }

    async fn flush(&mut self, change: Option<u64>) -> Result<()> {
        while self.sent.len() >= MAX_CHANGES {
            let silence = self.env.timer(MAX_SILENCE_NS);
            let message = before(silence, self.connection.receive()).await.ok_or(Error::Silent)??;
            self.take(&message)?;
        }
        let parts = std::mem::take(&mut self.parts);
        let message = Message::Change { number: self.number, parts };
        let silence = self.env.timer(MAX_SILENCE_NS);
        before(silence, self.connection.send(&message)).await.ok_or(Error::Silent)??;
        self.sent_ns = self.env.now_ns();
        self.sent.push_back(Sent { number: self.number, change, ns: self.sent_ns });
        (self.number, self.blocks) = (self.number + 1, 0);
        Ok(())
    }

    /// Reads blocks and sends their data, which may be newer than the change: the newer change follows, and was not
    /// acknowledged.
    async fn add_copied(&mut self, volume: u32, from: u64, to: u64) -> Result<()> {
        let disk = disk::find(self.engine, self.volumes[volume as usize])?;
        let mut at = from;
        while let Some((parts, count)) = read_next(&*disk, at, to).await? {
            for (part, blocks) in parts {
                self.add(volume, part, blocks).await?;
            }
            at += count;
        }
        Ok(())
    }
}

/// Reads the next blocks before `to`, as many as fit in a message; returns them with their number. `None` after the
/// current end of the disk.
async fn read_next(disk: &dyn Disk, at: u64, to: u64) -> Result<Option<(Vec<(Part, u64)>, u64)>> {
    for _ in 0..MAX_READS {
        let end = to.min(disk::blocks(disk.geometry()));
        if at >= end {
            return Ok(None);
        }
        let count = (end - at).min(MAX_CHANGE_BLOCKS);
        match read(disk, at, count).await {
            Ok(parts) => return Ok(Some((parts, count))),
            // The volume has become smaller.
            Err(Error::Disk(block::Error::OutOfRange { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Unmirrored("the size of a volume does not stay the same while a copy to it is read"))
}

/// The content of blocks of a disk, as parts with their numbers of data blocks.
async fn read(disk: &dyn Disk, first: u64, count: u64) -> Result<Vec<(Part, u64)>> {
    let geometry = disk.geometry();
    let extent = disk::extent(geometry, first, count);
    let replies = disk::perform(disk, vec![Op::Status(extent), Op::Read(extent)]).await?;
    let (mut regions, mut data) = (Vec::new(), Bytes::new());
    for reply in replies {
        match reply {
            Reply::Status(found) => regions = found,
            Reply::Data(found) => data = found.to_bytes(),
            _ => return Err(Error::Malformed("no data for a read")),
        }
    }
    let mut parts: Vec<(Part, u64)> = Vec::new();
    let each = u64::from(geometry.block_bytes);
    for (block, bytes) in (first..).zip(data.chunks(BLOCK_BYTES)) {
        let lba = block * (BLOCK_BYTES as u64 / each);
        let is_mapped = |region: &&block::Region| region.state == Provisioning::Mapped;
        let region =
            regions.iter().find(|region| region.extent.lba <= lba && Some(lba) < region.extent.end());
        let is_zero = bytes.iter().all(|byte| *byte == 0);
        match parts.last_mut() {
            _ if !is_zero => {
                let mut whole = BytesMut::from(bytes);
                whole.resize(BLOCK_BYTES, 0);
                parts.push((Part::Data { block, data: whole.freeze() }, 1));
            }
            Some((Part::Hole { block: from, count, mapped }, _))
                if *from + *count == block && *mapped == region.filter(is_mapped).is_some() =>
            {
                *count += 1;
            }
            _ => parts.push((Part::Hole { block, count: 1, mapped: region.filter(is_mapped).is_some() }, 0)),
        }
    }
    Ok(parts)
}

#[cfg(test)]
#[path = "mirroring_test.rs"]
mod tests;
