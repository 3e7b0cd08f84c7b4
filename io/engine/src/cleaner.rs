//! Cleaning: a segment with little left in it is read, and what is live moves on: frames through the frame table,
//! metadata by being marked for the next checkpoint, after which the segment is free.

use crate::background::Worker;
use crate::checkpoint::page_index;
use crate::error::failed;
use crate::frame::{self, Fingerprint, HEADER, Header, ObjectKind, Packer};
use crate::map::Need;
use crate::space::{Live, Location};
use crate::wake::pause;
use bytes::{Bytes, BytesMut};
use shelf::{SegmentId, wait};

/// A segment is not cleaned when more of it than this is live, in 16ths.
const MAX_LIVE_16THS: u64 = 15;

impl Worker {
    /// Cleans the segment where it pays most. False when there is none, or no room to move things to.
    pub async fn clean(&mut self) -> block::Result<bool> {
        let Some(victim) = self.victim(|_| true) else { return Ok(false) };
        let before = self.core.state.read().maps.usage.of(victim);
        self.move_segment(victim).await?;
        self.cleaned += 1;
        let after = self.core.state.read().maps.usage.of(victim);
        if after.data > 0 {
            // Something in it can't be read, or there was no room: not again before it has changed.
            self.stuck.insert(victim, after.total());
        }
        Ok(after.data < before.data || before.meta > 0)
    }

    /// Marks metadata in segments that hold little else, as much as a checkpoint may well write, so that it makes more
    /// segments free than it fills.
    pub async fn mark_metadata(&mut self) -> block::Result<()> {
        while self.core.dirty_bytes() < self.core.dirty_limit() {
            let Some(victim) = self.victim(|live| live.data == 0) else { break };
            self.move_segment(victim).await?;
            self.cleaned += 1;
        }
        Ok(())
    }

    /// The segment with the best ratio of what is won, weighted with how long it has been quiet, to what is moved.
    fn victim(&self, fits: impl Fn(Live) -> bool) -> Option<u32> {
        let open = self.open_segments();
        let size = u64::from(self.core.layout.segment_bytes);
        let state = self.core.state.read();
        let newest = self.space.taken.iter().max().copied().unwrap_or(0);
        let worth = |segment: u32, live: u64| {
            let age = newest - self.space.taken[segment as usize] + 1;
            (size - live.min(size)) * age * 1024 / (size + live)
        };
        (0..)
            .zip(state.maps.usage.segments())
            .filter(|(_, live)| fits(**live))
            .map(|(segment, live)| (segment, live.total()))
            .filter(|(segment, live)| {
                (1..size * MAX_LIVE_16THS / 16).contains(live)
                    && !self.space.free.contains(segment)
                    && !open.contains(segment)
                    && self.stuck.get(segment) != Some(live)
                    && !self.marked.contains(segment)
            })
            .max_by_key(|(segment, live)| worth(*segment, *live))
            .map(|(segment, _)| segment)
    }

    async fn move_segment(&mut self, segment: u32) -> block::Result<()> {
        self.marked.insert(segment);
        let (size, stripe) = (self.core.layout.segment_bytes, self.core.layout.stripe_bytes);
        let mut window = Window { base: 0, bytes: Bytes::new() };
        let mut at = 0;
        while at < size {
            let live = self.core.state.read().maps.usage.of(segment);
            if live.data == 0 && live.meta == 0 {
                break;
            }
            let next_stripe = (at / stripe + 1) * stripe;
            let Some(header) = self.header_at(&mut window, segment, at).await? else {
                at = next_stripe;
                continue;
            };
            let len = header.len() as u32;
            let Some(object) = self.object_at(&mut window, segment, at, len).await? else {
                at = next_stripe;
                continue;
            };
            let location = Location { segment, offset: at, len };
            if !self.move_object(location, &header, object).await? {
                return Ok(());
            }
            at += len;
            self.grant_credit();
            pause().await;
        }
        Ok(())
    }

    async fn header_at(&self, window: &mut Window, segment: u32, at: u32) -> block::Result<Option<Header>> {
        let bytes = self.bytes_at(window, segment, at, HEADER as u32).await?;
        Ok(bytes.and_then(|bytes| Header::decode(&bytes).ok()))
    }

    async fn object_at(
        &self,
        window: &mut Window,
        segment: u32,
        at: u32,
        len: u32,
    ) -> block::Result<Option<Bytes>> {
        let bytes = self.bytes_at(window, segment, at, len).await?;
        Ok(bytes.filter(|bytes| frame::verify(bytes).is_ok()))
    }

    /// Bytes of a segment through the window; none behind its end or where nothing can be read.
    async fn bytes_at(
        &self,
        window: &mut Window,
        segment: u32,
        at: u32,
        len: u32,
    ) -> block::Result<Option<Bytes>> {
        let size = self.core.layout.segment_bytes;
        if u64::from(at) + u64::from(len) > u64::from(size) {
            return Ok(None);
        }
        if window.get(at, len).is_none() {
            // Stripe by stripe: a segment may end early, and reading behind that fails.
            let stripe = self.core.layout.stripe_bytes;
            let mut bytes = BytesMut::new();
            let base = at / stripe * stripe;
            let mut next = base;
            while next < size
                && (next < at + len || next - base < self.core.options.tunables.clean_window_bytes)
            {
                let (done, read) = wait();
                self.core.log.shelf().read(SegmentId(segment), next, stripe, done);
                let Ok(read) = read.await else { break };
                bytes.extend_from_slice(&read);
                next += stripe;
            }
            *window = Window { base, bytes: bytes.freeze() };
        }
        Ok(window.get(at, len))
    }

    /// Moves an object if it is still what it was. False when there is no room.
    async fn move_object(
        &mut self,
        location: Location,
        header: &Header,
        object: Bytes,
    ) -> block::Result<bool> {
        let number = header.number;
        match header.kind {
            ObjectKind::Frame => return self.move_frame(location, header, object).await,
            ObjectKind::Map => {
                if self.core.state.read().maps.page_index.get(number).location == location
                    && self.core.load(Need::Map(number)).await.is_ok()
                {
                    self.core.state.write().maps.mark(number);
                }
            }
            ObjectKind::Table => {
                if self.core.state.read().maps.table.page_index.get(number).location == location
                    && self.core.load(Need::Table(number)).await.is_ok()
                {
                    self.core.state.write().maps.table.mark(number);
                }
            }
            kind @ (ObjectKind::MapIndex | ObjectKind::TableIndex) => {
                let mut state = self.core.state.write();
                let page_index = page_index(kind, &mut state.maps);
                if page_index.locations.get(&number) == Some(&location) {
                    page_index.mark(number);
                }
            }
            ObjectKind::Catalog => {
                if self.catalog.contains(&location) {
                    self.core.state.write().catalog.dirty = true;
                }
            }
            ObjectKind::Root => {}
        }
        Ok(true)
    }

    async fn move_frame(
        &mut self,
        location: Location,
        header: &Header,
        object: Bytes,
    ) -> block::Result<bool> {
        let number = header.number;
        let found = self.core.state.read().maps.table.get(number).map(|frame| frame.cloned());
        let found = match found {
            Ok(found) => found,
            Err(absent) => {
                if self.core.load(absent.into()).await.is_err() {
                    return Ok(true);
                }
                self.core.state.read().maps.table.get(number).ok().flatten().cloned()
            }
        };
        let Some(frame) = found.filter(|frame| frame.location == location) else { return Ok(true) };
        let live = frame.live();
        if frame.stored != header.stored || live & !header.stored != 0 {
            let (has, stored) = (header.stored, frame.stored);
            let what = format!("frame {number} at {location} holds blocks {has:#b}, not {stored:#b}");
            self.core.inconsistencies.note(what);
            return Ok(true);
        }
        let object = if live == header.stored {
            object
        } else {
            match without_dead(&mut self.packer, &object, header, live) {
                Some(object) => object,
                None => return Ok(true),
            }
        };
        let placed = self.writer.location(&mut self.streams.moved, &mut self.space, object).await;
        let Ok(new) = placed.map_err(failed)? else { return Ok(false) };
        self.log_writes.moved += u64::from(new.len);
        let maps = &mut self.core.state.write().maps;
        // It may have died while it was written; then the copy is dead too.
        let current = maps.table.get(number).ok().flatten().is_some_and(|frame| frame.location == location);
        if current {
            maps.table.relocate(number, new, live, &mut maps.usage);
        }
        Ok(true)
    }
}

/// A verified frame with only its live blocks; none when it can't be decoded.
fn without_dead(packer: &mut Packer, object: &Bytes, header: &Header, live: u8) -> Option<Bytes> {
    let decoded = frame::unpack(object, header.number).ok()?;
    let known = frame::fingerprints(object, header).ok()?;
    let stored = (0..8u8).filter(|index| header.stored >> index & 1 == 1);
    let (mut blocks, mut fingerprints) = (Vec::<Bytes>::new(), Vec::<Fingerprint>::new());
    for (index, fingerprint) in stored.zip(known).filter(|(index, _)| live >> index & 1 == 1) {
        blocks.extend(decoded.blocks(index, 1));
        fingerprints.push(fingerprint);
    }
    let blocks = blocks.iter().map(|block| &block[..]);
    Some(packer.pack(header.number, live, blocks, &fingerprints, header.method(), header.skipped))
}

struct Window {
    base: u32,
    bytes: Bytes,
}

impl Window {
    fn get(&self, at: u32, len: u32) -> Option<Bytes> {
        let from = at.checked_sub(self.base)? as usize;
        let to = from + len as usize;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }
}
