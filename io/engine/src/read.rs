//! Read path: one look-up says for each block whether it is a hole, in memory, or in a frame. Missing pages and
//! frames are read, and the look-up is repeated, so that the result is the state of one moment.

use crate::cache::Hit;
use crate::cell::{self, Blocks};
use crate::core::Core;
use crate::entry::{BLOCK, BlockId, Entry, Kind, decode_node};
use crate::frame::{self, Decoded, ObjectKind};
use crate::frame_table::{Frame, Placed, TablePage};
use crate::map::{Need, Seen};
use crate::page_index::PageInfo;
use crate::pages::NumberMap;
use crate::space::Location;
use crate::span::Span;
use crate::state::{Refusal, State};
use crate::validate;
use block::{Data, Error, Result};
use bytes::Bytes;
use shelf::join;
use smallvec::SmallVec;
use std::fmt::Display;

/// The entries of a run of blocks.
pub type Entries = SmallVec<[Entry; 4]>;

/// Frames that a read has fetched, so that it does not depend on the cache keeping them.
pub type Fetched = NumberMap<u64, Decoded>;

/// Why a look-up has no result yet.
pub enum Blocked {
    /// A metadata page has to be read.
    Need(Need),
    /// Frames have to be read; true if a mark of the read-ahead was met.
    Frames(SmallVec<[Missing; 4]>, bool),
    /// It fails.
    Error(Error),
}

/// A frame that has to be read.
#[derive(Clone, Copy, Debug)]
pub struct Missing {
    frame: u64,
    /// The first block of the volume that wants it.
    block: u64,
    /// Its own blocks that are wanted.
    wanted: Blocks,
}

/// A value as of one moment, and the journal batch that has to be durable before it is returned. Later changes need
/// not be: a reader does not wait for a row of writers.
pub struct Observed<T> {
    pub what: T,
    pub batch: u64,
    /// A mark of the read-ahead was met.
    pub marked: bool,
}

impl From<Error> for Blocked {
    fn from(error: Error) -> Self {
        Blocked::Error(error)
    }
}

impl From<Need> for Blocked {
    fn from(need: Need) -> Self {
        Blocked::Need(need)
    }
}

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Adds zeros to a payload.
pub fn push_zeros(data: &mut Data, mut bytes: u64) {
    while bytes > 0 {
        let len = bytes.min(ZEROS.len() as u64);
        data.push(Bytes::from_static(&ZEROS[..len as usize]));
        bytes -= len;
    }
}

/// Gathers the bytes of blocks in order; neighbours in a frame become one piece.
struct Gather<'a> {
    core: &'a Core,
    state: &'a State,
    fetched: &'a Fetched,
    data: Data,
    block: u64,
    run: Option<(BlockId, usize, Decoded)>,
    missing: SmallVec<[Missing; 4]>,
    /// The first block whose bytes are nowhere: see [`crate::slots::Slots::lose`].
    lost: Option<u64>,
    batch: u64,
    marked: bool,
}

impl Gather<'_> {
    fn add(&mut self, entry: Entry) {
        match self.state.maps.resolve(entry).kind() {
            Kind::Unmapped | Kind::Zero => {
                self.end_run();
                push_zeros(&mut self.data, BLOCK as u64);
            }
            Kind::Slot(slot) => {
                self.end_run();
                self.batch = self.batch.max(slot.batch);
                match self.state.maps.slots.get(slot) {
                    Some(slot) => self.data.push(slot.contents.page.clone()),
                    None => _ = self.lost.get_or_insert(self.block),
                }
            }
            Kind::Block(block) => self.add_block(block),
        }
        self.block += 1;
    }

    fn add_block(&mut self, block: BlockId) {
        if let Some((first, count, frame)) = &mut self.run
            && first.frame == block.frame
            && usize::from(first.index) + *count == usize::from(block.index)
            && frame.has(block.index)
        {
            *count += 1;
            return;
        }
        self.end_run();
        // What this read has fetched first: that it is there is no further use of the cache.
        let fetched = self.fetched.get(&block.frame).filter(|frame| frame.has(block.index)).cloned();
        let known = fetched.or_else(|| {
            let Hit { frame, marked } = self.core.cache.get(block.frame, block.index)?;
            self.marked |= marked;
            Some(frame)
        });
        match known {
            Some(frame) => self.run = Some((block, 1, frame)),
            None if !self.may_be_fetched(block) => {
                validate::note_lost(&self.core.inconsistencies, block);
                self.lost.get_or_insert(self.block);
            }
            None => match self.missing.last_mut().filter(|missing| missing.frame == block.frame) {
                Some(missing) => missing.wanted |= 1 << block.index,
                None => {
                    let (frame, wanted) = (block.frame, 1 << block.index);
                    self.missing.push(Missing { frame, block: self.block, wanted });
                }
            },
        }
    }

    /// Whether reading its frame can find a block: not if all of the frame was read and does not have it, or it is not in
    /// the table.
    fn may_be_fetched(&self, block: BlockId) -> bool {
        let known = self.state.maps.table.get(block.frame);
        let is_there =
            |frame: Option<&Frame>| frame.is_some_and(|frame| frame.stored >> block.index & 1 == 1);
        !self.fetched.get(&block.frame).is_some_and(Decoded::is_whole) && known.map_or(true, is_there)
    }

    fn end_run(&mut self) {
        if let Some((first, count, frame)) = self.run.take() {
            match frame.blocks(first.index, count) {
                Some(bytes) => self.data.push(bytes),
                None => _ = self.lost.get_or_insert(self.block - count as u64),
            }
        }
    }
}

impl Core {
    /// The bytes of all blocks that a span touches in this state; their entries too, if `entries` is given.
    pub fn look_in(
        &self,
        state: &State,
        volume: u32,
        span: Span,
        fetched: &Fetched,
        mut entries: Option<&mut Entries>,
    ) -> std::result::Result<Observed<Data>, Blocked> {
        let found = state.volume(volume)?;
        span.check(found.geometry)?;
        let (from, count) = span.blocks();
        let mut gather = Gather {
            core: self,
            state,
            fetched,
            data: Data::new(),
            block: from,
            run: None,
            missing: SmallVec::new(),
            lost: None,
            batch: found.changed,
            marked: false,
        };
        let resolve = |entry: &Entry| state.maps.resolve(*entry);
        state.maps.scan(found.tree, from, from + count, &mut |seen| match seen {
            Seen::Hole(hole, count) => {
                gather.end_run();
                push_zeros(&mut gather.data, count * BLOCK as u64);
                gather.block += count;
                if let Some(entries) = &mut entries {
                    entries.extend(std::iter::repeat_n(hole, count as usize));
                }
            }
            Seen::Blocks(blocks) => {
                blocks.iter().for_each(|entry| gather.add(*entry));
                if let Some(entries) = &mut entries {
                    entries.extend(blocks.iter().map(resolve));
                }
            }
        })?;
        gather.end_run();
        if let Some(lba) = gather.lost {
            return Err(Error::Medium { lba }.into());
        }
        if !gather.missing.is_empty() {
            return Err(Blocked::Frames(gather.missing, gather.marked));
        }
        Ok(Observed { what: gather.data, batch: gather.batch, marked: gather.marked })
    }

    /// The bytes of all blocks that a span touches, with their entries. Waits for what has to be read.
    pub async fn view(&self, volume: u32, span: Span) -> Result<(Data, Entries)> {
        let mut fetched = Fetched::default();
        loop {
            let mut entries = Entries::new();
            let seen = self.look_in(&self.state.read(), volume, span, &fetched, Some(&mut entries));
            match seen {
                Ok(moment) => return Ok((self.durable(moment).await?, entries)),
                Err(blocked) => self.unblock(blocked, &mut fetched).await?,
            }
        }
    }

    /// The value, as soon as it is durable.
    pub async fn durable<T>(&self, moment: Observed<T>) -> Result<T> {
        self.journal.until(moment.batch).await.map(|()| moment.what)
    }

    /// Does what a look-up waits for. A frame that can't be read is [`Error::Medium`] with the 4 KiB block's number.
    pub async fn unblock(&self, blocked: Blocked, fetched: &mut Fetched) -> Result<()> {
        match blocked {
            Blocked::Error(error) => Err(error),
            Blocked::Need(need) => self.load(need).await,
            Blocked::Frames(frames, _) => {
                self.activity.note_fetch();
                let reads = frames.iter().map(|missing| self.fetch_for_host(missing.frame, missing.wanted));
                for (outcome, missing) in join(reads).await.into_iter().zip(&frames) {
                    match outcome {
                        Ok(Some(frame)) => {
                            let known = fetched.get(&missing.frame);
                            let both = known.map_or_else(|| frame.clone(), |known| known.with(&frame));
                            fetched.insert(missing.frame, both);
                        }
                        Ok(None) => {}
                        Err(Error::Medium { .. }) => return Err(Error::Medium { lba: missing.block }),
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
        }
    }

    /// Reads blocks of a frame for a host; `None` if nothing refers to it any more, or they are in the cache by now.
    async fn fetch_for_host(&self, number: u64, wanted: Blocks) -> Result<Option<Decoded>> {
        self.streams.in_flight.wait_until_read(number).await;
        // Also without a wait: they may have been read ahead since the look-up.
        if self.cache.has(number, wanted) {
            return Ok(None);
        }
        self.fetch(number, wanted).await
    }

    /// Reads blocks of a frame into the cache; `None` if nothing refers to the frame any more.
    pub async fn fetch(&self, number: u64, wanted: Blocks) -> Result<Option<Decoded>> {
        let mut tried = None;
        while let Some(found) = self.find_frame(number, &mut tried).await? {
            if let Some(frame) = self.read_blocks(number, found, wanted).await {
                self.cache.insert(number, frame.clone());
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// Reads a frame from the log: the object and all blocks.
    pub async fn fetch_object(&self, number: u64) -> Result<Option<(Bytes, Decoded)>> {
        let mut tried = None;
        while let Some(found) = self.find_frame(number, &mut tried).await? {
            if let Ok(object) = self.log.read(found.location).await
                && let Ok(frame) = frame::unpack(&object, number, cell::ALL)
                && frame.stored == found.stored
            {
                return Ok(Some((object, frame)));
            }
        }
        Ok(None)
    }

    /// Blocks of a frame from its cells alone, if it has them.
    async fn read_blocks(&self, number: u64, found: Placed, wanted: Blocks) -> Option<Decoded> {
        let Placed { location, stored, cells } = found;
        if let Some(range) = frame::range_of_cells(&cells, wanted) {
            let bytes = self.log.read_part(location, range).await.ok()?;
            return frame::unpack_cells(&bytes, number, &cells, wanted).ok();
        }
        let object = self.log.read(location).await.ok()?;
        frame::unpack(&object, number, wanted).ok().filter(|frame| frame.stored == stored)
    }

    /// Where the table says that a frame is; `None` if there is none. It fails if a read there, which `tried` names, has failed
    /// and the frame was not moved since.
    async fn find_frame(&self, number: u64, tried: &mut Option<Location>) -> Result<Option<Placed>> {
        loop {
            let found = self.state.read().maps.table.get(number).map(|frame| frame.map(Frame::placed));
            match found {
                Err(absent) => self.load(absent.into()).await?,
                Ok(Some(Placed { location, .. })) if tried.replace(location) == Some(location) => {
                    self.inconsistencies.note(format_args!("frame {number} at {location} can't be read"));
                    return Err(Error::Medium { lba: 0 });
                }
                Ok(found) => return Ok(found),
            }
        }
    }

    /// Reads a metadata page into memory. A page that can't be read is noted, and [`Error::Medium`].
    pub async fn load(&self, need: Need) -> Result<()> {
        match self.try_load(need).await {
            Ok(()) => Ok(()),
            Err(why) => {
                self.inconsistencies.note(why);
                Err(Error::Medium { lba: 0 })
            }
        }
    }

    /// Reads a metadata page into memory, or returns why that is not possible.
    pub async fn try_load(&self, need: Need) -> std::result::Result<(), String> {
        if let Need::Lost(page) = need {
            return Err(format!("map page {page} is named, but does not exist"));
        }
        let mut tried = None;
        loop {
            let Some(location) = self.info(need) else { return Ok(()) };
            let why = match self.log.read(location).await {
                Ok(object) => match self.install(need, location, &object) {
                    Ok(()) => return Ok(()),
                    Err(why) => why,
                },
                Err(why) => why.to_string(),
            };
            if tried == Some(location) {
                let what = match need {
                    Need::Map(page) | Need::Lost(page) => format!("map page {page}"),
                    Need::Table(page) => format!("frame table page {page}"),
                };
                return Err(format!("{what} at {location}: {why}"));
            }
            tried = Some(location);
        }
    }

    /// Reads metadata pages into memory, many at the same time, and pages that lie near each other in one piece.
    /// Pages that this can't read are left to [`Core::load`].
    pub async fn load_many(&self, needs: impl Iterator<Item = Need>) {
        let mut wanted: Vec<(Location, Need)> =
            needs.filter_map(|need| Some((self.info(need)?, need))).collect();
        wanted.sort_unstable();
        let tunables = &self.options.tunables;
        let near = |one: &(Location, Need), next: &(Location, Need)| {
            let end = one.0.offset.saturating_add(one.0.len);
            one.0.segment == next.0.segment && next.0.offset <= end.saturating_add(tunables.read_gap_bytes)
        };
        let pieces: Vec<&[(Location, Need)]> =
            wanted.chunk_by(near).flat_map(|run| run.chunks(tunables.read_pages)).collect();
        for group in pieces.chunks(tunables.reads_in_flight) {
            join(group.iter().map(|piece| self.load_piece(piece))).await;
        }
    }

    async fn load_piece(&self, piece: &[(Location, Need)]) {
        let end = piece.iter().map(|(location, _)| location.offset.saturating_add(location.len)).max();
        let (Some((first, _)), Some(end)) = (piece.first(), end) else { return };
        let whole = Location { len: end - first.offset, ..*first };
        let Ok(bytes) = self.log.read(whole).await else { return };
        for (location, need) in piece {
            let from = (location.offset - first.offset) as usize;
            let to = from + location.len as usize;
            if to <= bytes.len() {
                // A page that is wrong is read again, and reported, when it is needed.
                let _ = self.install(*need, *location, &bytes.slice(from..to));
            }
        }
    }

    /// Adds a metadata page from the bytes at its location.
    fn install(&self, need: Need, location: Location, object: &Bytes) -> std::result::Result<(), String> {
        let text = |why: &dyn Display| why.to_string();
        match need {
            Need::Map(page) | Need::Lost(page) => {
                let payload = frame::payload(object, ObjectKind::Map, page).map_err(|why| text(&why))?;
                let node = decode_node(&payload).map_err(|why| text(&why))?;
                let maps = &mut self.state.write().maps;
                if maps.page_index.get(page).location == location && maps.nodes.get(page).is_none() {
                    maps.load_validated(page, node)?;
                }
            }
            Need::Table(page) => {
                let payload = frame::payload(object, ObjectKind::Table, page).map_err(|why| text(&why))?;
                let body = TablePage::decode(&payload).map_err(|why| text(&why))?;
                let maps = &mut self.state.write().maps;
                if maps.table.page_index.get(page).location == location
                    && maps.table.pages.get(page).is_none()
                {
                    maps.table.load_validated(page, body, &mut maps.usage, self.layout.segment_bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Location of a page that is not in memory.
    fn info(&self, need: Need) -> Option<crate::space::Location> {
        let state = self.state.read();
        let maps = &state.maps;
        let (held, PageInfo { location, .. }) = match need {
            Need::Map(page) | Need::Lost(page) => (maps.nodes.get(page).is_some(), maps.page_index.get(page)),
            Need::Table(page) => (maps.table.pages.get(page).is_some(), maps.table.page_index.get(page)),
        };
        (!held && !location.is_none()).then_some(location)
    }
}

impl From<Refusal> for Blocked {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Need(need) => Blocked::Need(need),
            Refusal::Error(error) => Blocked::Error(error),
            Refusal::Changed | Refusal::Backpressure => unreachable!("a read refuses nothing"),
        }
    }
}
