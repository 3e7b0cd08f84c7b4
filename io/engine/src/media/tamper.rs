//! Tampering: makes media inconsistent while their checksums hold, as input of tests and fuzzing of recovery, check
//! and repair. One object of the newest checkpoint, or one record of the journal, is changed; what refers to it is
//! rewritten, so that nothing else on the shelf differs.

use super::fields::{self, Field};
use crate::batch;
use crate::cell::indexes;
use crate::entry::BLOCK;
use crate::error::{failed, unusable};
use crate::frame::{self, ObjectKind};
use crate::frame_table::{FRAMES, TablePage};
use crate::log::Log;
use crate::page_index::{CHUNK, Chunk};
use crate::root::{Payload, Root};
use crate::space::Location;
use block::Result;
use bytes::Bytes;
use shelf::{AlignedBuf, Batch, JournalPos, SegmentId, Shelf, Superblock, wait};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Nothing: everything is rewritten unchanged.
    Nothing,
    /// The engine's part of the superblock.
    Superblock,
    /// The root of the checkpoint.
    Root,
    /// The catalog.
    Catalog,
    /// A chunk of the page index of the maps.
    MapIndex,
    /// A chunk of the page index of the frame table.
    TableIndex,
    /// A map page.
    Map,
    /// A page of the frame table.
    Table,
    /// The header of a frame.
    Frame,
    /// Entries of the deduplication index.
    Index,
    /// A record of the journal, which follows the others.
    Journal,
}

/// Every target but [`Target::Nothing`].
pub const TARGETS: [Target; 10] = [
    Target::Superblock,
    Target::Root,
    Target::Catalog,
    Target::MapIndex,
    Target::TableIndex,
    Target::Map,
    Target::Table,
    Target::Frame,
    Target::Index,
    Target::Journal,
];

/// Picks a number below the one given.
pub type Pick<'a> = &'a mut dyn FnMut(u64) -> u64;

/// Changes one field, or a few, of a target on a shelf that has no other user and whose journal has not been
/// recovered; returns a description.
///
/// # Errors
/// If the shelf fails or holds no valid checkpoint.
pub async fn tamper(shelf: Arc<dyn Shelf>, target: Target, pick: Pick<'_>) -> Result<String> {
    let mut media = Media::open(shelf).await?;
    let what = media.change(target, pick).await?;
    media.finish().await?;
    Ok(format!("{target:?}: {what}"))
}

/// The newest checkpoint, and the objects to be written.
struct Media {
    shelf: Arc<dyn Shelf>,
    log: Log,
    journal_from: JournalPos,
    batches: Vec<Batch>,
    payload: Payload,
    /// The superblock's payload, if it is to differ from [`Media::payload`].
    superblock: Option<Vec<u8>>,
    root: Root,
    maps: BTreeMap<u64, (Location, Chunk)>,
    tables: BTreeMap<u64, (Location, Chunk)>,
    scratch: u32,
    written: Vec<u8>,
}

impl Media {
    async fn open(shelf: Arc<dyn Shelf>) -> Result<Self> {
        let superblock = shelf.superblock().ok_or(block::Error::NotReady)?;
        let (done, batches) = wait();
        shelf.recover(superblock.journal_from, done);
        let batches = batches.await.map_err(failed)?;
        let payload = Payload::decode(&superblock.payload).map_err(unusable)?;
        let mut media = Self {
            log: Log::new(shelf.clone()),
            shelf,
            journal_from: superblock.journal_from,
            batches,
            payload,
            superblock: None,
            root: Root::default(),
            maps: BTreeMap::new(),
            tables: BTreeMap::new(),
            scratch: 0,
            written: Vec::new(),
        };
        let root = media.parts(ObjectKind::Root, &media.payload.root).await?;
        media.root = Root::decode(&root).map_err(unusable)?;
        for (kind, chunks) in [
            (ObjectKind::MapIndex, media.root.map_chunks.clone()),
            (ObjectKind::TableIndex, media.root.table_chunks.clone()),
        ] {
            for (number, location) in chunks {
                let chunk = Chunk::decode(&media.object(kind, number, location).await?).map_err(unusable)?;
                let chunks = if kind == ObjectKind::MapIndex { &mut media.maps } else { &mut media.tables };
                chunks.insert(number, (location, chunk));
            }
        }
        let used = |segment: u32| {
            media.root.segments.get(segment as usize).is_some_and(|live| live.total() > 0)
                || media.payload.root.iter().any(|location| location.segment == segment)
        };
        let free = (0..media.shelf.layout().segments).rev().find(|segment| !used(*segment));
        media.scratch = free.ok_or(block::Error::NoSpace)?;
        media.root.segments.resize(media.shelf.layout().segments as usize, Default::default());
        Ok(media)
    }

    async fn object(&self, kind: ObjectKind, number: u64, location: Location) -> Result<Bytes> {
        let object = self.log.read(location).await.map_err(failed)?;
        frame::payload(&object, kind, number).map_err(unusable)
    }

    async fn parts(&self, kind: ObjectKind, locations: &[Location]) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (number, location) in (0..).zip(locations) {
            bytes.extend_from_slice(&self.object(kind, number, *location).await?);
        }
        Ok(bytes)
    }

    fn put_object(&mut self, object: &[u8]) -> Location {
        let location =
            Location { segment: self.scratch, offset: self.written.len() as u32, len: object.len() as u32 };
        self.written.extend_from_slice(object);
        location
    }

    /// Replaces an object; the caller updates what refers to it.
    fn replace(&mut self, before: &[Location], kind: ObjectKind, number: u64, payload: &[u8]) -> Location {
        let object = frame::metadata(kind, number, |out| out.extend_from_slice(payload));
        let location = self.put_object(&object);
        let segments = &mut self.root.segments;
        for old in before {
            segments[old.segment as usize].meta -= u64::from(old.len);
        }
        segments[location.segment as usize].meta += u64::from(location.len);
        location
    }

    fn replace_chunk(&mut self, kind: ObjectKind, number: u64, payload: &[u8]) {
        let chunks = if kind == ObjectKind::MapIndex { &self.maps } else { &self.tables };
        let before = chunks.get(&number).map_or(Location::default(), |(location, _)| *location);
        let location = self.replace(&[before], kind, number, payload);
        let listed = match kind {
            ObjectKind::MapIndex => &mut self.root.map_chunks,
            _ => &mut self.root.table_chunks,
        };
        listed.iter_mut().filter(|(one, _)| *one == number).for_each(|(_, old)| *old = location);
    }

    fn replace_page(&mut self, kind: ObjectKind, number: u64, payload: &[u8]) {
        let (chunks, page_index) = match kind {
            ObjectKind::Map => (&self.maps, ObjectKind::MapIndex),
            _ => (&self.tables, ObjectKind::TableIndex),
        };
        let Some((_, chunk)) = chunks.get(&(number / CHUNK)) else { return };
        let (mut chunk, mut info) = (chunk.clone(), chunk.get(number % CHUNK));
        info.location = self.replace(&[info.location], kind, number, payload);
        chunk.set(number % CHUNK, info);
        let mut bytes = Vec::new();
        chunk.encode(&mut bytes);
        self.replace_chunk(page_index, number / CHUNK, &bytes);
    }

    fn pages(&self, kind: ObjectKind) -> Vec<(u64, Location)> {
        let chunks = if kind == ObjectKind::Map { &self.maps } else { &self.tables };
        let pages = chunks.iter().flat_map(|(number, (_, chunk))| {
            chunk.iter().map(move |(index, info)| (number * CHUNK + index, info.location))
        });
        pages.filter(|(_, location)| !location.is_none()).collect()
    }

    async fn change(&mut self, target: Target, pick: Pick<'_>) -> Result<String> {
        match target {
            Target::Nothing => Ok("as it was".into()),
            Target::Superblock => {
                let whole = self.payload.encode();
                let (front, rest) = whole.split_at(44);
                let mut changed = fields::of_superblock(rest).map_err(unusable)?;
                let what = change_fields(&mut changed, &[self.journal_from.0], pick);
                self.superblock = Some([front, &fields::bytes_of(&changed)].concat());
                Ok(what)
            }
            Target::Root => {
                let (what, bytes) = self.changed(ObjectKind::Root, self.root.encode(), pick)?;
                let object = frame::metadata(ObjectKind::Root, 0, |out| out.extend_from_slice(&bytes));
                self.payload.root = vec![self.put_object(&object)];
                self.superblock = Some(self.payload.encode());
                Ok(what)
            }
            Target::Catalog => {
                let before = self.root.catalog.clone();
                let bytes = self.parts(ObjectKind::Catalog, &before).await?;
                let (what, bytes) = self.changed(ObjectKind::Catalog, bytes, pick)?;
                let location = self.replace(&before, ObjectKind::Catalog, 0, &bytes);
                self.root.catalog = vec![location];
                Ok(what)
            }
            Target::MapIndex => self.change_chunk(ObjectKind::MapIndex, pick),
            Target::TableIndex => self.change_chunk(ObjectKind::TableIndex, pick),
            Target::Map => self.change_page(ObjectKind::Map, pick).await,
            Target::Table => self.change_page(ObjectKind::Table, pick).await,
            Target::Frame => self.change_frame(pick).await,
            Target::Index => self.change_index(pick).await,
            Target::Journal => self.change_journal(pick).await,
        }
    }

    /// Numbers of other objects.
    fn pool(&self) -> Vec<u64> {
        let mut pool = vec![self.root.next_frame, self.root.next_page, self.payload.replay_from];
        pool.extend(self.pages(ObjectKind::Map).into_iter().map(|(page, _)| page));
        pool.extend(self.pages(ObjectKind::Table).into_iter().map(|(page, _)| page * FRAMES));
        pool.extend(self.batches.iter().map(|batch| batch.pos.0));
        pool.extend(self.root.segments.iter().map(|live| live.total()));
        pool
    }

    fn changed(&self, kind: ObjectKind, payload: Vec<u8>, pick: Pick<'_>) -> Result<(String, Vec<u8>)> {
        let mut changed = fields::of_object(kind, &payload).map_err(unusable)?;
        let what = change_fields(&mut changed, &self.pool(), pick);
        Ok((what, fields::bytes_of(&changed)))
    }

    fn change_chunk(&mut self, kind: ObjectKind, pick: Pick<'_>) -> Result<String> {
        let chunks = if kind == ObjectKind::MapIndex { &self.maps } else { &self.tables };
        let Some((number, (_, chunk))) = chunks.iter().nth(pick(chunks.len().max(1) as u64) as usize) else {
            return Ok("there is none".into());
        };
        let (number, mut bytes) = (*number, Vec::new());
        chunk.encode(&mut bytes);
        let (what, bytes) = self.changed(kind, bytes, pick)?;
        self.replace_chunk(kind, number, &bytes);
        Ok(format!("{number}, {what}"))
    }

    async fn change_index(&mut self, pick: Pick<'_>) -> Result<String> {
        let objects = self.root.index.as_ref().map_or(&[][..], |index| index.objects());
        let Some((number, before)) = objects.get(pick(objects.len().max(1) as u64) as usize).copied() else {
            return Ok("there is none".into());
        };
        let payload = self.object(ObjectKind::Index, number, before).await?;
        let (what, bytes) = self.changed(ObjectKind::Index, payload.to_vec(), pick)?;
        let location = self.replace(&[before], ObjectKind::Index, number, &bytes);
        self.root.index.as_mut().map(|index| index.relocate(number, location));
        Ok(format!("{number}, {what}"))
    }

    async fn change_page(&mut self, kind: ObjectKind, pick: Pick<'_>) -> Result<String> {
        let pages = self.pages(kind);
        if pages.is_empty() {
            return Ok("there is none".into());
        }
        let (number, location) = pages[pick(pages.len() as u64) as usize];
        if pick(12) == 0 {
            let (other, location) = pages[pick(pages.len() as u64) as usize];
            let payload = self.object(kind, other, location).await?;
            self.replace_page(kind, number, &payload);
            return Ok(format!("{number} has the content of {other}"));
        }
        let payload = self.object(kind, number, location).await?;
        let (what, bytes) = self.changed(kind, payload.to_vec(), pick)?;
        self.replace_page(kind, number, &bytes);
        Ok(format!("{number}, {what}"))
    }

    async fn change_frame(&mut self, pick: Pick<'_>) -> Result<String> {
        let pages = self.pages(ObjectKind::Table);
        if pages.is_empty() {
            return Ok("there is none".into());
        }
        let (number, location) = pages[pick(pages.len() as u64) as usize];
        let payload = self.object(ObjectKind::Table, number, location).await?;
        let mut page = TablePage::decode(&payload).map_err(unusable)?;
        let frames: Vec<_> = page.iter().map(|(index, frame)| (index, frame.clone())).collect();
        if frames.is_empty() {
            return Ok("there is none".into());
        }
        let (index, mut frame) = frames[pick(frames.len() as u64) as usize].clone();
        let object = self.log.read(frame.location).await.map_err(failed)?;
        let header = frame::verify(&object).map_err(unusable)?;
        let (mut how, mut name) = ([object[9], object[10], object[11]], header.number);
        let at = pick(4);
        match at {
            3 => name = name.wrapping_add(pick(5)).wrapping_sub(2),
            at => how[at as usize] = pick(256) as u8,
        }
        let share = |frame: &crate::frame_table::Frame| -> u64 {
            let live = indexes(frame.live());
            live.map(|index| frame.share(index)).sum()
        };
        self.root.segments[frame.location.segment as usize].data -= share(&frame);
        frame.location = self.put_object(&frame::sealed_again(&object, how, name));
        self.root.segments[frame.location.segment as usize].data += share(&frame);
        *page.slot(index) = Some(frame);
        let mut bytes = Vec::new();
        page.encode(&mut bytes);
        self.replace_page(ObjectKind::Table, number, &bytes);
        Ok(format!("{}, header {how:?}, number {name}", number * FRAMES + index))
    }

    async fn change_journal(&mut self, pick: Pick<'_>) -> Result<String> {
        if self.batches.is_empty() {
            return Ok("it is empty".into());
        }
        let batch = self.batches[pick(self.batches.len() as u64) as usize].clone();
        let last = self.batches.last().map_or(0, |batch| batch.pos.0);
        let layout = batch::layout(&batch.head, batch.pos.0, batch.body.len()).map_err(unusable)?;
        let mut records = fields::of_records(layout.records).map_err(unusable)?;
        let mut listed = layout.listed.to_vec();
        let what = if listed.is_empty() || pick(4) > 0 {
            change_fields(&mut records, &self.pool(), pick)
        } else {
            let at = pick(listed.len() as u64) as usize;
            listed[at] ^= 1 << pick(8);
            format!("byte {at} of the list of its blocks")
        };
        let head = batch::sealed_again(&batch.head, last + 1, &fields::bytes_of(&records), &listed);
        let mut body = AlignedBuf::with_capacity(batch.body.len().max(BLOCK));
        body.push(&batch.body);
        let body = Arc::new(body).share(0..batch.body.len());
        let (done, appended) = wait();
        self.shelf.append(head.into(), if !body.is_empty() { vec![body] } else { Vec::new() }, done);
        appended.await.map_err(failed)?;
        Ok(format!("batch {} again as {}, {what}", batch.pos.0, last + 1))
    }

    /// Writes everything.
    async fn finish(mut self) -> Result<()> {
        let payload = match self.superblock.take() {
            Some(payload) => payload,
            None => {
                let root = self.root.encode();
                let object = frame::metadata(ObjectKind::Root, 0, |out| out.extend_from_slice(&root));
                self.payload.root = vec![self.put_object(&object)];
                self.payload.encode()
            }
        };
        let layout = self.shelf.layout();
        let len = self.written.len().next_multiple_of(layout.stripe_bytes as usize);
        if len > layout.segment_bytes as usize {
            return Err(block::Error::NoSpace);
        }
        self.shelf.discard(SegmentId(self.scratch));
        if len > 0 {
            let mut stripes = AlignedBuf::with_capacity(len);
            stripes.push(&self.written);
            stripes.set_len(len);
            let (done, written) = wait();
            self.shelf.write(SegmentId(self.scratch), 0, Arc::new(stripes), done);
            written.await.map_err(failed)?;
        }
        let (done, synced) = wait();
        self.shelf.sync(done);
        synced.await.map_err(failed)?;
        let superblock =
            Superblock { journal_from: self.journal_from, payload: Payload::sealed(payload).into() };
        let (done, written) = wait();
        self.shelf.write_superblock(superblock, done);
        written.await.map_err(failed)
    }
}

/// Changes one field, or two, or the list of them; returns a description.
fn change_fields(fields: &mut Vec<Field>, pool: &[u64], pick: Pick<'_>) -> String {
    let mut done = Vec::new();
    for _ in 0..=pick(4) / 3 {
        if fields.is_empty() {
            break;
        }
        let (at, other) = (pick(fields.len() as u64) as usize, pick(fields.len() as u64) as usize);
        match pick(16) {
            0 => {
                fields.truncate(at);
                done.push(format!("cut off before field {at}"));
            }
            1 => {
                fields.swap(at, other);
                done.push(format!("fields {at} and {other} swapped"));
            }
            2 => {
                fields.remove(at);
                done.push(format!("field {at} left out"));
            }
            3 => {
                let copy = fields[other].clone();
                fields.insert(at, copy);
                done.push(format!("field {other} again before {at}"));
            }
            way => {
                let (before, there) = (fields[at].number().unwrap_or(0), fields[other].number().unwrap_or(0));
                let number = match way {
                    4 | 5 => before.wrapping_add(1),
                    6 | 7 => before.wrapping_sub(1),
                    8 => 0,
                    9 => u64::MAX >> pick(64),
                    10 | 11 => there,
                    12 => before ^ 1 << pick(64),
                    13 => pick(16),
                    _ => pool.get(pick(pool.len().max(1) as u64) as usize).copied().unwrap_or(0),
                };
                fields[at].set(number);
                done.push(format!("field {at} from {before} to {number}"));
            }
        }
    }
    done.join(", ")
}
