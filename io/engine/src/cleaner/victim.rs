//! Moving what is live out of a victim of cleaning: frames at once, metadata by marking it for the next checkpoint.

use super::Cleaner;
use super::window::{Object, Windows};
use crate::appender::Appender;
use crate::cell::{Blocks, indexes};
use crate::checkpoint::page_index;
use crate::error::failed;
use crate::frame::{self, Fingerprint, Header, ObjectKind, Packer};
use crate::frame_table::{Absent, Placed};
use crate::map::Need;
use crate::space::Location;
use crate::wake::pause;
use bytes::Bytes;
use std::collections::BTreeSet;

/// A frame that is moved.
struct Moved {
    object: Object,
    /// The blocks that were live when it was looked up, one bit each.
    live: u8,
}

impl Moved {
    /// Leaves only the live blocks; `None` if it can't be decoded.
    fn packed(self, packer: &mut Option<Packer>, has_cells: bool) -> Option<Self> {
        let Object { location, header, bytes } = self.object;
        let bytes = match self.live == header.stored {
            true => bytes,
            false => frame::keep_cells(&bytes, &header, self.live).or_else(|| {
                let packer = packer.get_or_insert_with(|| Packer::new(has_cells));
                without_dead(packer, &bytes, &header, self.live)
            })?,
        };
        Some(Self { object: Object { location, header, bytes }, live: self.live })
    }
}

impl Cleaner {
    /// Moves what is live out of a segment, as long as there is room.
    pub(super) async fn move_segment(
        &mut self,
        appender: &mut Appender,
        catalog: &[Location],
        segment: u32,
    ) -> block::Result<()> {
        self.marked.insert(segment);
        let mut windows = Windows::of(&self.core, segment);
        while let Some(window) = windows.next().await.map_err(failed)? {
            let (mut frames, others): (Vec<_>, Vec<_>) =
                window.objects.into_iter().partition(|object| object.header.kind == ObjectKind::Frame);
            while !frames.is_empty() {
                let rest = frames.split_off(frames.len().min(self.core.options.tunables.flush_frames));
                if !self.move_frames(appender, std::mem::replace(&mut frames, rest)).await? {
                    return Ok(());
                }
                appender.grant_credit();
                pause().await;
            }
            for object in others {
                if !self.move_metadata(appender, catalog, object).await? {
                    return Ok(());
                }
                appender.grant_credit();
                pause().await;
            }
            if self.core.state.read().maps.usage.of(segment).total() == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Marks an object of metadata if it is live. False if there is no room.
    async fn move_metadata(
        &mut self,
        appender: &mut Appender,
        catalog: &[Location],
        object: Object,
    ) -> block::Result<bool> {
        let Object { location, header: Header { kind, number, .. }, bytes } = object;
        match kind {
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
            ObjectKind::MapIndex | ObjectKind::TableIndex => {
                let mut state = self.core.state.write();
                let page_index = page_index(kind, &mut state.maps);
                if page_index.locations.get(&number) == Some(&location) {
                    page_index.mark(number);
                }
            }
            ObjectKind::Catalog => {
                if catalog.contains(&location) {
                    self.core.state.write().catalog.dirty = true;
                }
            }
            ObjectKind::Index => {
                if self.core.state.read().maps.index_log.holds(number, location) {
                    let Some(new) = appender.append_index(bytes).await? else { return Ok(false) };
                    self.core.state.write().maps.move_index_object(number, new);
                }
            }
            ObjectKind::Frame | ObjectKind::Root => {}
        }
        Ok(true)
    }

    /// Moves those of these frames that are live. False if there is no room for all.
    async fn move_frames(&mut self, appender: &mut Appender, objects: Vec<Object>) -> block::Result<bool> {
        let has_cells = self.core.format.has_cells();
        let parts = self.live(objects).await;
        let jobs = self.core.options.workers.compute_all(parts, move |part: Vec<Moved>| {
            let mut packer = None;
            let packed = part.into_iter().filter_map(|moved| moved.packed(&mut packer, has_cells));
            packed.collect::<Vec<_>>()
        });
        let (mut copied, mut has_room) = (Vec::new(), true);
        'jobs: for job in jobs {
            for Moved { object: Object { location, header, bytes }, live } in job.await.map_err(failed)? {
                let cells = frame::cells_of(&bytes);
                let Some(new) = appender.append_moved(bytes).await? else {
                    has_room = false;
                    break 'jobs;
                };
                copied.push((header.number, location, Placed { location: new, stored: live, cells }));
            }
        }
        let maps = &mut self.core.state.write().maps;
        for (number, old, new) in copied {
            // It may have died while it was written; then the copy is dead too.
            if maps.table.get(number).ok().flatten().is_some_and(|frame| frame.location == old) {
                maps.table.relocate(number, new, &mut maps.usage);
            }
        }
        Ok(has_room)
    }

    /// The live ones of some frames in order, divided into jobs: what counts are the blocks of those that have dead ones, as these
    /// are packed again.
    async fn live(&self, objects: Vec<Object>) -> Vec<Vec<Moved>> {
        let absent: BTreeSet<u64> = {
            let table = &self.core.state.read().maps.table;
            let page = |object: &Object| table.get(object.header.number).err().map(|Absent(page)| page);
            objects.iter().filter_map(page).collect()
        };
        for page in absent {
            // What can't be read stays.
            let _ = self.core.load(Need::Table(page)).await;
        }
        let mut parts: Vec<Vec<Moved>> = Vec::new();
        let mut blocks = usize::MAX;
        let state = self.core.state.read();
        for object in objects {
            let Object { location, header: Header { number, stored, .. }, .. } = object;
            let found = state.maps.table.get(number).ok().flatten();
            let Some(frame) = found.filter(|frame| frame.location == location) else { continue };
            let live = frame.live();
            if frame.stored != stored || live & !stored != 0 {
                let known = frame.stored;
                self.core.inconsistencies.note(format_args!(
                    "frame {number} at {location} holds blocks {stored:#b}, not {known:#b}"
                ));
                continue;
            }
            if blocks >= self.core.options.tunables.job_blocks {
                parts.push(Vec::new());
                blocks = 0;
            }
            blocks += if live == stored { 0 } else { stored.count_ones() as usize };
            parts.last_mut().expect("a job was begun").push(Moved { object, live });
        }
        parts
    }
}

/// A verified frame with only its live blocks; `None` if it can't be decoded.
fn without_dead(packer: &mut Packer, object: &Bytes, header: &Header, live: Blocks) -> Option<Bytes> {
    let decoded = frame::unpack(object, header.number, live).ok()?;
    let known = frame::fingerprints(object, header).ok()?;
    let (mut blocks, mut fingerprints) = (Vec::<Bytes>::new(), Vec::<Fingerprint>::new());
    for (index, fingerprint) in indexes(header.stored).zip(known).filter(|(index, _)| live >> index & 1 == 1)
    {
        blocks.extend(decoded.blocks(index, 1));
        fingerprints.push(fingerprint);
    }
    let blocks = blocks.iter().map(|block| &block[..]);
    Some(packer.pack(header.number, live, blocks, &fingerprints, header.method(), header.skipped))
}
