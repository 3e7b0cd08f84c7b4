//! The sending end of synchronous replication: a point, and every change after it, over one connection.
//!
//! Writes wait from before the point is taken. So the target has everything that is acknowledged as soon as it has published the
//! point, and notes that with the point in one step. Changes follow in the order of the journal.

use super::{Source, Transfer, common};
use crate::connection::Connection;
use crate::disk::{self, BLOCK_BYTES};
use crate::env::{Env, Stream};
use crate::inventory::ARMED;
use crate::limits::{MAX_CHANGE_BLOCKS, MAX_CHANGE_PARTS, MAX_CHANGES};
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

/// What comes next in a session.
enum Event {
    Received(Message),
    Change(Queued),
}

/// Changes on their way.
struct Outgoing<'a, S> {
    connection: &'a mut Connection<S>,
    session: &'a Session<'a>,
    engine: &'a Engine,
    /// Identities of the volumes, by their index.
    volumes: Vec<DiskId>,
    /// Messages under way, with the change of which each is the last.
    sent: VecDeque<(u64, Option<u64>)>,
    /// Number of the next message.
    number: u64,
    parts: Vec<(u32, Part)>,
    /// Blocks of data in these parts.
    blocks: u64,
}

impl<E: Env> Source<E> {
    /// Keeps a group the same on both arrays, until something fails: it takes a point and transfers it, and then every change.
    /// Writes of the group wait meanwhile, so what has changed since the last point that both arrays have should be little. When
    /// this ends, also because the future is dropped, the mirror does with writes as [`OnLinkLoss`](crate::OnLinkLoss) says.
    /// `mirror` becomes the tap of the volumes, and stays it.
    ///
    /// # Errors
    /// Why both arrays are not the same any more.
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
        let session = mirror.begin();
        let tap: Arc<dyn Tap> = mirror.clone();
        self.engine.tap(volumes, Some(&tap));
        let snapshots: Vec<_> = volumes.iter().map(|id| (*id, *id)).collect();
        let expect = |point: Point| {
            session.expect(point.volumes.iter().map(|volume| DiskId(volume.snapshot)).collect());
            Point { mirrored: true, ..point }
        };
        let point = self.take(replication, &snapshots, expect).await?;
        self.transfer_mirrored(&records, &point, &theirs, &mut connection).await?;
        session.join();
        let outgoing = Outgoing {
            connection: &mut connection,
            session: &session,
            engine: &self.engine,
            volumes: point.volumes.iter().map(|volume| DiskId(volume.source)).collect(),
            sent: VecDeque::new(),
            number: 0,
            parts: Vec::new(),
            blocks: 0,
        };
        outgoing.run(mirror).await
    }

    /// Transfers the point of a session. When this returns both arrays know durably that they are the same.
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
        };
        let digest = transfer.run(point, common(&points, theirs), None).await?;
        let published = Point { digest: Some(digest.0), ..point.clone() };
        let armed = (records.key(ARMED), Some(value(&point.number)));
        self.engine.put_records(vec![records.record(&published), armed]).await?;
        self.delete_older(records, point.number).await
    }
}

impl<S: Stream> Outgoing<'_, S> {
    async fn run(mut self, mirror: &Mirror) -> Result<Infallible> {
        loop {
            match self.next(mirror).await? {
                Event::Received(message) => self.take(&message)?,
                Event::Change(queued) => self.send_change(queued).await?,
            }
        }
    }

    /// Waits for the target, and for a change if another one may be under way.
    async fn next(&mut self, mirror: &Mirror) -> Result<Event> {
        let has_room = self.sent.len() < MAX_CHANGES;
        let mut receive = pin!(self.connection.receive());
        poll_fn(|cx| {
            if let Poll::Ready(message) = receive.as_mut().poll(cx) {
                return Poll::Ready(message.map(Event::Received));
            }
            match has_room {
                true => mirror.poll_next(cx).map_ok(Event::Change),
                false => Poll::Pending,
            }
        })
        .await
    }

    fn take(&mut self, message: &Message) -> Result<()> {
        let Message::Durable { number } = message else {
            return Err(Error::Malformed("another message than what is durable"));
        };
        if *number >= self.number {
            return Err(Error::Malformed("that it has what was not sent"));
        }
        let known = self.sent.iter().take_while(|(sent, _)| sent <= number).count();
        if let Some(change) = self.sent.drain(..known).filter_map(|(_, change)| change).next_back() {
            self.session.acknowledge(change);
        }
        Ok(())
    }

    /// Sends a change: in one message, which takes effect as a whole, unless it is long or has to be read.
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
            let message = self.connection.receive().await?;
            self.take(&message)?;
        }
        let parts = std::mem::take(&mut self.parts);
        self.connection.send(&Message::Change { number: self.number, parts }).await?;
        self.sent.push_back((self.number, change));
        (self.number, self.blocks) = (self.number + 1, 0);
        Ok(())
    }

    /// Reads blocks and sends what they have. That may be newer than the change: what made it so follows, and was not acknowledged.
    async fn add_copied(&mut self, volume: u32, from: u64, to: u64) -> Result<()> {
        let disk = disk::find(self.engine, self.volumes[volume as usize])?;
        let mut at = from;
        while at < to.min(disk::blocks(disk.geometry())) {
            let count = (to.min(disk::blocks(disk.geometry())) - at).min(MAX_CHANGE_BLOCKS);
            match read(&*disk, at, count).await {
                Ok(parts) => {
                    for (part, blocks) in parts {
                        self.add(volume, part, blocks).await?;
                    }
                    at += count;
                }
                // It has another size by now.
                Err(Error::Disk(block::Error::OutOfRange { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What blocks of a disk have, as parts with their numbers of blocks of data.
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
