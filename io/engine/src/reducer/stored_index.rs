//! The deduplication index in the log: written with checkpoints, read after a start.

use super::index_rebuild::IndexRebuild;
use crate::appender::Appender;
use crate::core::Core;
use crate::dedup::{self, ENTRY_BYTES, Entry, Index};
use crate::frame::{self, HEADER, ObjectKind};
use crate::root::INDEX_VERSION;
use crate::wake::pause;
use shelf::join;
use std::sync::Arc;

/// Bytes that a rewrite appends for each byte of new entries, at most: it ends long before the next one is due.
const REWRITTEN_PER_INSERTED_BYTE: u64 = 4;

/// A rewrite of the whole index, which replaces older objects when it ends.
struct Rewrite {
    /// The next bucket.
    bucket: usize,
    /// The objects with numbers below this one are dropped then.
    replaces_before: u64,
}

/// What is known of the index in the log.
pub struct StoredIndex {
    core: Arc<Core>,
    /// The objects with numbers below this one have not been read since the start.
    unread_before: u64,
    /// The objects, together with frames that [`IndexRebuild`] has not read, have all that is in memory.
    complete: bool,
    rewrite: Option<Rewrite>,
    /// It was dropped, and is not written before cleaning has as many free segments as it wants.
    held_back: bool,
}

impl StoredIndex {
    /// The index as a checkpoint left it.
    pub fn new(core: Arc<Core>) -> Self {
        let unread_before = core.state.read().maps.index_log.next_number();
        let complete = core.format.active() >= INDEX_VERSION;
        Self { unread_before, complete, rewrite: None, held_back: false, core }
    }

    /// Whether the index of the last checkpoint is in memory.
    pub fn is_loaded(&self) -> bool {
        let state = self.core.state.read();
        let first = state.maps.index_log.objects().first();
        first.is_none_or(|(number, _)| *number >= self.unread_before)
    }

    /// Reads some objects of the index, the newest first. If one can't be read, the frames are read again.
    pub async fn load_step(&mut self, index: &mut Index, rebuild: &mut IndexRebuild) {
        let wanted: Vec<_> = {
            let state = self.core.state.read();
            let objects = state.maps.index_log.objects();
            let end = objects.partition_point(|(number, _)| *number < self.unread_before);
            objects[end.saturating_sub(self.core.options.tunables.index_reads_in_flight)..end].to_vec()
        };
        let Some((first, _)) = wanted.first() else { return };
        self.unread_before = *first;
        let read = |(number, location)| self.core.read_metadata(ObjectKind::Index, number, location);
        for object in join(wanted.iter().copied().map(read)).await.into_iter().rev() {
            let entries =
                object.and_then(|bytes| dedup::decode_entries(&bytes).map_err(|why| why.to_string()));
            match entries {
                // Of two with the same fingerprint the later one is newer.
                Ok(entries) => entries.into_iter().rev().for_each(|entry| index.restore(entry)),
                Err(why) => {
                    tracing::warn!(%why, "a part of the deduplication index can't be read: it is rebuilt while the array is idle");
                    *rebuild = self.all_frames();
                    self.forget();
                    return;
                }
            }
        }
    }

    /// Drops the index from the log; returns whether there was one. What memory lacks of it is read from frames.
    pub fn discard(&mut self, rebuild: &mut IndexRebuild) -> bool {
        let had = !self.core.state.read().maps.index_log.objects().is_empty();
        if had {
            if !self.is_loaded() {
                *rebuild = self.all_frames();
            }
            self.forget();
        }
        had
    }

    fn all_frames(&self) -> IndexRebuild {
        IndexRebuild::of(self.core.state.read().maps.all_frame_pages())
    }

    fn forget(&mut self) {
        self.core.state.write().maps.drop_index_objects();
        (self.unread_before, self.complete, self.rewrite, self.held_back) = (0, false, None, true);
    }

    /// Appends what the next checkpoint is to say about the index. Nothing may be flushed between this and its cut.
    pub async fn write(
        &mut self,
        appender: &mut Appender,
        index: &mut Index,
        rebuild: &mut IndexRebuild,
    ) -> block::Result<()> {
        if self.core.format.active() < INDEX_VERSION {
            return Ok(());
        }
        // What was inserted before is in no list.
        self.complete &= index.record();
        if self.core.needs_room_of_index() {
            self.discard(rebuild);
        }
        appender.begin_cleaning();
        self.held_back &= appender.protected_free_count() < self.core.clean_below();
        let inserted = match index.take_recorded() {
            Some(entries) if !self.held_back && self.append_entries(appender, &entries).await? => {
                entries.len()
            }
            _ => {
                (self.complete, self.rewrite) = (false, None);
                0
            }
        };
        self.append_rewritten(appender, index, (inserted * ENTRY_BYTES) as u64).await?;
        let loaded = self.is_loaded();
        let maps = &mut self.core.state.write().maps;
        let unread = if self.complete { rebuild.unread() } else { maps.all_frame_pages() };
        let log = &mut maps.index_log;
        log.insertions = index.insertions();
        log.partial = index.is_partial() || !loaded && log.partial;
        log.unread = unread;
        Ok(())
    }

    /// Appends a part of the whole index, if a rewrite is due or under way.
    async fn append_rewritten(
        &mut self,
        appender: &mut Appender,
        index: &Index,
        inserted: u64,
    ) -> block::Result<()> {
        if self.held_back || !self.is_loaded() {
            return Ok(());
        }
        let (stored, next) = {
            let log = &self.core.state.read().maps.index_log;
            (log.bytes(), log.next_number())
        };
        let whole = (index.taken() * ENTRY_BYTES) as u64;
        let spare = (whole / 2).max(self.core.options.tunables.index_spare_bytes);
        let due = !self.complete || stored > whole + spare;
        if self.rewrite.is_none() {
            if !due || !self.core.has_room_for_index(whole + spare) {
                return Ok(());
            }
            self.rewrite = Some(Rewrite { bucket: 0, replaces_before: next });
        }
        let min = self.core.options.tunables.index_rewrite_min_bytes;
        let mut budget = (REWRITTEN_PER_INSERTED_BYTE * inserted).max(min);
        while let Some(Rewrite { bucket, replaces_before }) = self.rewrite {
            let (mut entries, mut end) = (Vec::new(), bucket);
            while end < index.bucket_count() && entries.len() < self.entries_of_an_object() {
                entries.extend(index.entries_of(end));
                end += 1;
            }
            if !self.append_entries(appender, &entries).await? {
                break;
            }
            let ends = end == index.bucket_count();
            self.rewrite = (!ends).then_some(Rewrite { bucket: end, replaces_before });
            if ends {
                self.core.state.write().maps.drop_index_objects_before(replaces_before);
                self.complete = true;
            }
            let bytes = (entries.len() * ENTRY_BYTES) as u64;
            match budget.checked_sub(bytes.max(1)) {
                Some(left) => budget = left,
                None => break,
            }
        }
        Ok(())
    }

    fn entries_of_an_object(&self) -> usize {
        let bytes =
            self.core.options.tunables.object_part_bytes.min(self.core.layout.segment_bytes as usize / 4);
        (bytes.saturating_sub(HEADER) / ENTRY_BYTES).max(1)
    }

    /// Appends entries; false if the log has no room for all of them.
    async fn append_entries(&self, appender: &mut Appender, entries: &[Entry]) -> block::Result<bool> {
        if !entries.is_empty() && !self.core.has_room_for_index(size_of_val(entries) as u64) {
            return Ok(false);
        }
        for part in entries.chunks(self.entries_of_an_object()) {
            let number = self.core.state.read().maps.index_log.next_number();
            let object = frame::metadata(ObjectKind::Index, number, |out| dedup::encode_entries(part, out));
            let Some(location) = appender.append_index(object).await? else { return Ok(false) };
            self.core.state.write().maps.add_index_object(location);
            appender.grant_credit();
            pause().await;
        }
        Ok(true)
    }
}
