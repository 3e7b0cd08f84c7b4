//! The spine: drives under a plan become a [`Shelf`].
//!
//! Down: [`Shelf::append`] gives a batch its place in the ring and writes it to every journal copy at once; stripes
//! are cut into chunks and go to their drives; a superblock goes to slot 0 of all drives, then to slot 1. Up: answers
//! are counted, batches answered in their order. An error of a write that had to be durable stops the shelf for good,
//! save that a journal copy may be dropped while others stay, once the labels of all other drives say so.
//!
//! Fencing: opening takes an epoch above every one found and writes it to all labels before it reads anything else.
//! Locks on files and devices (see [`device`](crate::device)) keep a second owner on one machine out; where drives
//! are shared between machines, an old owner notices the higher epoch when it next writes a superblock or changes
//! the labels, and what it appended meanwhile does not belong to the journal (see [`journal`](crate::journal)).

use crate::geometry::{Geometry, Piece};
use crate::journal::{self, Header, Ring};
use crate::label::{Found, Label};
use crate::media::crc32c;
use crate::superblock::Root;
use crate::{
    ALIGN, AlignedBuf, Batch, Done, Drive, Error, JournalPos, Layout, Result, SegmentId, Shelf, Superblock,
    Wait, task, wait,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

mod gather;
mod open;
mod recover;

use gather::Gather;
pub use open::FormatOptions;
use open::{write_labels, write_root};

/// Drives as protected space. See the module's text.
pub struct DriveShelf {
    /// For callbacks and futures that outlive a call.
    me: Weak<DriveShelf>,
    /// In the order of their slots.
    drives: Vec<Arc<dyn Drive>>,
    ids: Vec<u128>,
    sizes: Vec<u64>,
    plan: Geometry,
    array: u128,
    epoch: u64,
    journal: Mutex<Journal>,
    roots: Mutex<Roots>,
    /// What waits for the discard of a segment to end.
    discards: Mutex<BTreeMap<SegmentId, Vec<Deferred>>>,
    stopped: Mutex<Option<Error>>,
}

type Deferred = Box<dyn FnOnce(&DriveShelf) + Send>;

/// The state of the journal's writing side.
struct Journal {
    /// None until the journal of an older owner has been recovered.
    ring: Option<Ring>,
    /// Copies that are written and believed, as a set of slots.
    members: u64,
    /// Copies that have failed and are not yet recorded as dropped.
    failed: u64,
    /// True while labels are being written to record that; nothing is answered meanwhile.
    recording: bool,
    generation: u64,
    answered: JournalPos,
    /// Batches under way, in order.
    waiting: VecDeque<Appending>,
}

struct Appending {
    pos: JournalPos,
    /// Device writes not answered yet.
    left: usize,
    done: Done<JournalPos>,
}

#[derive(Default)]
struct Roots {
    newest: Option<Root>,
    /// Superblocks that wait for the one being written.
    queue: VecDeque<(Superblock, Done<()>)>,
    writing: bool,
}

/// The slots in a set of bits.
fn slots(set: u64) -> impl Iterator<Item = usize> {
    (0..u64::BITS as usize).filter(move |slot| set >> slot & 1 == 1)
}

/// Awaits all of them; the first error when there is one.
async fn all(waits: Vec<Wait<()>>) -> Result {
    let mut outcome = Ok(());
    for each in waits {
        outcome = outcome.and(each.await);
    }
    outcome
}

fn write_page(drive: &dyn Drive, at: u64, page: Bytes) -> Wait<()> {
    let (done, written) = wait();
    drive.write(at, vec![page], true, done);
    written
}

fn read_bytes(drive: &dyn Drive, at: u64, len: u32) -> Wait<Bytes> {
    let (done, read) = wait();
    drive.read(at, len, done);
    read
}

impl DriveShelf {
    fn new(
        drives: Vec<Arc<dyn Drive>>,
        labels: &[Label],
        root: Option<Root>,
        ring: Option<Ring>,
    ) -> Arc<Self> {
        let label = labels[0];
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            drives,
            ids: labels.iter().map(|label| label.drive).collect(),
            sizes: labels.iter().map(|label| label.bytes).collect(),
            plan: label.geometry,
            array: label.array,
            epoch: label.epoch,
            journal: Mutex::new(Journal {
                ring,
                members: label.journal,
                failed: 0,
                recording: false,
                generation: label.generation,
                answered: JournalPos(0),
                waiting: VecDeque::new(),
            }),
            roots: Mutex::new(Roots { newest: root, ..Roots::default() }),
            discards: Mutex::default(),
            stopped: Mutex::new(None),
        })
    }

    /// The identity of the array.
    pub fn array(&self) -> u128 {
        self.array
    }

    /// The epoch of this owner.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The slots whose drives carry a copy of the journal.
    pub fn journal_copies(&self) -> Vec<usize> {
        slots(self.journal.lock().members).collect()
    }

    /// The names of the drives, by slot.
    pub fn drives(&self) -> Vec<String> {
        self.drives.iter().map(|drive| drive.name().to_owned()).collect()
    }

    fn stop(&self, cause: &Error) {
        let waiting = {
            let mut stopped = self.stopped.lock();
            if stopped.is_none() {
                tracing::error!(%cause, "the shelf stops");
                *stopped = Some(cause.clone());
            }
            std::mem::take(&mut self.journal.lock().waiting)
        };
        waiting.into_iter().for_each(|batch| (batch.done)(Err(cause.clone())));
    }

    fn check_running(&self) -> Result {
        self.stopped.lock().clone().map_or(Ok(()), Err)
    }

    /// Reads the labels again: a higher epoch in one means that somebody else owns the shelf now.
    async fn check_fence(&self) -> Result {
        self.check_running()?;
        let reads: Vec<_> = self.drives.iter().map(|drive| read_bytes(&**drive, 0, ALIGN as u32)).collect();
        for read in reads {
            // A label that can't be read is no proof of a newer owner; one that can is enough.
            if let Ok(Found::Label(label)) = read.await.map(|page| Label::decode(&page))
                && (label.epoch > self.epoch || label.array != self.array)
            {
                let fenced = Error::Fenced { epoch: label.epoch };
                self.stop(&fenced);
                return Err(fenced);
            }
        }
        Ok(())
    }

    /// Records which drives carry the journal, on all drives but those in `except`.
    async fn record_members(&self, generation: u64, members: u64, except: u64) -> Result {
        self.check_fence().await?;
        let label = |slot: usize| Label {
            array: self.array,
            drive: self.ids[slot],
            generation,
            epoch: self.epoch,
            bytes: self.sizes[slot],
            journal: members,
            slot: slot as u16,
            geometry: self.plan,
        };
        let labels: Vec<_> = (0..self.drives.len()).map(label).collect();
        let outcomes = write_labels(&self.drives, &labels).await;
        let mut needed = outcomes.into_iter().enumerate().filter(|(slot, _)| except >> slot & 1 == 0);
        needed.try_for_each(|(_, outcome)| outcome)
    }

    /// Takes note that copies failed. While others stay, they are dropped; without any, the shelf stops.
    fn drop_copies(&self, failed: u64, cause: &Error) {
        let start = {
            let mut journal = self.journal.lock();
            let news = failed & journal.members;
            if news == 0 {
                return;
            }
            tracing::error!(%cause, "a journal copy failed");
            journal.members &= !news;
            journal.failed |= news;
            let none_left = journal.members == 0;
            let start = !none_left && !journal.recording;
            journal.recording = true;
            start.then_some(()).ok_or(none_left)
        };
        match start {
            Ok(()) => {
                if let Some(shelf) = self.me.upgrade() {
                    task::spawn(async move { shelf.record_drops().await });
                }
            }
            Err(true) => self.stop(cause),
            Err(false) => {}
        }
    }

    /// Records dropped copies until none is unrecorded, then answers what had to wait for it.
    async fn record_drops(self: Arc<Self>) {
        loop {
            let (generation, members, failed) = {
                let mut journal = self.journal.lock();
                if journal.failed == 0 {
                    journal.recording = false;
                    break;
                }
                journal.generation += 1;
                (journal.generation, journal.members, journal.failed)
            };
            if let Err(cause) = self.record_members(generation, members, failed).await {
                return self.stop(&cause);
            }
            tracing::warn!(copies = members.count_ones(), "the journal goes on with fewer copies");
            self.journal.lock().failed &= !failed;
        }
        self.answer_appends();
    }

    /// One device write of batch `pos` has ended.
    fn appended(&self, pos: JournalPos, slot: usize, outcome: Result) {
        if let Err(cause) = outcome {
            self.drop_copies(1 << slot, &cause);
        }
        {
            let mut journal = self.journal.lock();
            // None when the shelf has stopped and answered it already.
            let first = journal.waiting.front().map_or(JournalPos(u64::MAX), |batch| batch.pos);
            let index = pos.0.checked_sub(first.0).map(|index| index as usize);
            if let Some(batch) = index.and_then(|index| journal.waiting.get_mut(index)) {
                batch.left -= 1;
            }
        }
        self.answer_appends();
    }

    /// Answers the batches at the front that every copy has.
    fn answer_appends(&self) {
        loop {
            let mut journal = self.journal.lock();
            if journal.recording || journal.waiting.front().is_none_or(|batch| batch.left > 0) {
                return;
            }
            let Some(batch) = journal.waiting.pop_front() else { return };
            journal.answered = batch.pos;
            drop(journal);
            (batch.done)(Ok(batch.pos));
        }
    }

    /// Writes a record's bytes at its address to one copy; `ended` is called once for every part.
    fn write_record(
        &self,
        slot: usize,
        at: u64,
        pieces: &[Bytes],
        ended: impl Fn(Result) + Clone + Send + 'static,
    ) {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let mut skip = 0;
        for (start, len) in Ring::parts(self.plan.journal_bytes, at, bytes) {
            let part = cut(pieces, skip as usize, len as usize);
            let ended = ended.clone();
            self.drives[slot].write(self.plan.journal_at() + start, part, true, Box::new(ended));
            skip += len;
        }
    }

    async fn store(&self, superblock: Superblock) -> Result {
        self.check_fence().await?;
        if superblock.payload.len() > self.layout().superblock_bytes as usize {
            return Err(Error::Unusable(format!(
                "a superblock of {} bytes is too long",
                superblock.payload.len()
            )));
        }
        let from = superblock.journal_from;
        let (place, answered) = {
            let journal = self.journal.lock();
            let ring = journal.ring.as_ref().ok_or_else(not_recovered)?;
            (ring.place(from, self.epoch), journal.answered)
        };
        let sequence = 1 + self.roots.lock().newest.as_ref().map_or(0, |root| root.sequence);
        let root = Root {
            array: self.array,
            epoch: self.epoch,
            sequence,
            journal_at: place.at,
            journal_epoch: place.epoch,
            answered,
            superblock,
        };
        let everywhere = [u64::MAX; 2];
        if let Err(cause) = write_root(&self.drives, &self.plan, &root, &everywhere).await {
            self.stop(&cause);
            return Err(cause);
        }
        self.roots.lock().newest = Some(root);
        if let Some(ring) = &mut self.journal.lock().ring {
            ring.trim(from, place);
        }
        Ok(())
    }

    async fn store_all(self: Arc<Self>) {
        loop {
            let next = {
                let mut roots = self.roots.lock();
                roots.writing = !roots.queue.is_empty();
                roots.queue.pop_front()
            };
            let Some((superblock, done)) = next else { return };
            done(self.store(superblock).await);
        }
    }
}

fn not_recovered() -> Error {
    Error::Unusable("the journal has to be recovered first".into())
}

/// The bytes `skip..skip + len` of pieces, which they are cut at page borders.
fn cut(pieces: &[Bytes], mut skip: usize, mut len: usize) -> Vec<Bytes> {
    let mut out = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let from = skip.min(piece.len());
        let to = piece.len().min(from + len);
        if from < to {
            out.push(piece.slice(from..to));
        }
        skip -= from;
        len -= to - from;
    }
    out
}

impl Shelf for DriveShelf {
    fn layout(&self) -> Layout {
        self.plan.layout()
    }

    fn append(&self, head: Bytes, body: Vec<Bytes>, done: Done<JournalPos>) {
        if let Err(cause) = self.check_running() {
            return done(Err(cause));
        }
        let contents = crc32c(std::iter::once(&head[..]).chain(body.iter().map(|piece| &piece[..])));
        let body_len: usize = body.iter().map(Bytes::len).sum();
        assert!(head.len() + body_len <= self.layout().batch_bytes as usize, "the batch is within its bound");
        let bytes = journal::cost(head.len(), body_len);
        let (members, header) = {
            let mut journal = self.journal.lock();
            let (members, answered) = (journal.members, journal.answered);
            let Some(ring) = &mut journal.ring else {
                drop(journal);
                return done(Err(not_recovered()));
            };
            let Some((pos, at)) = ring.push(self.epoch, bytes) else {
                drop(journal);
                return done(Err(Error::JournalFull));
            };
            let parts = Ring::parts(self.plan.journal_bytes, at, bytes).count();
            let left = parts * members.count_ones() as usize;
            journal.waiting.push_back(Appending { pos, left, done });
            let (head, body) = (head.len() as u32, body_len as u32);
            let (array, epoch) = (self.array, self.epoch);
            (members, Header { seal: false, array, epoch, pos, at, answered, head, body, contents })
        };
        let mut pieces = Vec::with_capacity(1 + body.len());
        pieces.push(header.encode(&head));
        pieces.extend(body);
        for slot in slots(members) {
            let me = self.me.clone();
            let pos = header.pos;
            self.write_record(slot, header.at, &pieces, move |outcome| {
                if let Some(shelf) = me.upgrade() {
                    shelf.appended(pos, slot, outcome);
                }
            });
        }
    }

    fn recover(&self, from: JournalPos, done: Done<Vec<Batch>>) {
        match self.me.upgrade() {
            Some(shelf) => task::spawn(async move { done(shelf.recover_journal(from).await) }),
            None => drop(done),
        }
    }

    fn write(&self, segment: SegmentId, offset: u32, stripes: Arc<AlignedBuf>, done: Done<()>) {
        if let Err(cause) = self.check_running() {
            return done(Err(cause));
        }
        let len = stripes.len() as u32;
        let layout = self.layout();
        assert!(
            offset.is_multiple_of(layout.stripe_bytes)
                && len.is_multiple_of(layout.stripe_bytes)
                && u64::from(offset) + u64::from(len) <= u64::from(layout.segment_bytes)
                && segment.0 < layout.segments,
            "whole stripes inside of a segment: {segment:?}, {len} bytes at {offset}"
        );
        if let Some(waiting) = self.discards.lock().get_mut(&segment) {
            return waiting.push(Box::new(move |shelf| shelf.write(segment, offset, stripes, done)));
        }
        // On one drive the chunks of neighbouring rows are neighbours: one write each.
        let mut runs: Vec<Option<(u64, Vec<Bytes>)>> = vec![None; self.drives.len()];
        let mut from = 0;
        for Piece { slot, at, len } in self.plan.pieces(segment, offset, len) {
            let bytes = stripes.share(from..from + len as usize);
            runs[slot].get_or_insert_with(|| (at, Vec::new())).1.push(bytes);
            from += len as usize;
        }
        let gather = Gather::new(runs.iter().flatten().count(), (), done);
        for (slot, run) in runs.into_iter().enumerate() {
            if let Some((at, pieces)) = run {
                let gather = gather.clone();
                self.drives[slot].write(
                    at,
                    pieces,
                    false,
                    Box::new(move |out| gather.part(out, |(), ()| ())),
                );
            }
        }
    }

    fn read(&self, segment: SegmentId, offset: u32, len: u32, done: Done<Bytes>) {
        let layout = self.layout();
        if segment.0 >= layout.segments
            || u64::from(offset) + u64::from(len) > u64::from(layout.segment_bytes)
        {
            let what = format!("a reference to {len} bytes at {offset} of {segment:?}, which do not exist");
            return done(Err(Error::Corrupt { what }));
        }
        let mut pieces = self.plan.pieces(segment, offset, len);
        let (Some(first), second) = (pieces.next(), pieces.next()) else { return done(Ok(Bytes::new())) };
        if second.is_none() {
            return self.read_piece(first, done);
        }
        let buffer = AlignedBuf::zeroed(len as usize);
        let parts: Vec<_> = self.plan.pieces(segment, offset, len).collect();
        let whole: Done<AlignedBuf> =
            Box::new(move |read| done(read.map(|buffer| Arc::new(buffer).share(0..len as usize))));
        let gather = Gather::new(parts.len(), buffer, whole);
        let mut to = 0;
        for piece in parts {
            let (gather, at) = (gather.clone(), to);
            let place = move |buffer: &mut AlignedBuf, part: Bytes| {
                buffer[at..at + part.len()].copy_from_slice(&part);
            };
            self.read_piece(piece, Box::new(move |part| gather.part(part, place)));
            to += piece.len as usize;
        }
    }

    fn sync(&self, done: Done<()>) {
        if let Err(cause) = self.check_running() {
            return done(Err(cause));
        }
        let me = self.me.clone();
        // What a failed sync lost is unknown, and asking again may succeed without it: nothing goes on from here.
        let stopping: Done<()> = Box::new(move |outcome: Result| {
            if let (Err(cause), Some(shelf)) = (&outcome, me.upgrade()) {
                shelf.stop(cause);
            }
            done(outcome);
        });
        let gather = Gather::new(self.drives.len(), (), stopping);
        for drive in &self.drives {
            let gather = gather.clone();
            drive.sync(Box::new(move |out| gather.part(out, |(), ()| ())));
        }
    }

    fn discard(&self, segment: SegmentId) {
        assert!(segment.0 < self.plan.segments, "{segment:?} exists");
        match self.discards.lock().entry(segment) {
            Entry::Occupied(mut waiting) => {
                return waiting.get_mut().push(Box::new(move |shelf| shelf.discard(segment)));
            }
            Entry::Vacant(free) => _ = free.insert(Vec::new()),
        }
        let me = self.me.clone();
        let ended: Done<()> = Box::new(move |outcome: Result| {
            if let Err(cause) = outcome {
                tracing::warn!(%cause, "space was not given back to a drive");
            }
            let Some(shelf) = me.upgrade() else { return };
            let waiting = shelf.discards.lock().remove(&segment);
            waiting.into_iter().flatten().for_each(|next| next(&shelf));
        });
        let gather = Gather::new(self.drives.len(), (), ended);
        let at = self.plan.segments_at() + u64::from(segment.0) * self.plan.rows_bytes();
        for drive in &self.drives {
            let gather = gather.clone();
            let part: Done<()> = Box::new(move |out| gather.part(out, |(), ()| ()));
            drive.discard(at, self.plan.rows_bytes(), part);
        }
    }

    fn write_superblock(&self, superblock: Superblock, done: Done<()>) {
        let mut roots = self.roots.lock();
        roots.queue.push_back((superblock, done));
        if !std::mem::replace(&mut roots.writing, true) {
            drop(roots);
            if let Some(shelf) = self.me.upgrade() {
                task::spawn(shelf.store_all());
            }
        }
    }

    fn superblock(&self) -> Option<Superblock> {
        self.roots.lock().newest.as_ref().map(|root| root.superblock.clone())
    }
}

impl DriveShelf {
    /// Reads a piece of any alignment: the pages around it, and what was asked for of them.
    fn read_piece(&self, piece: Piece, done: Done<Bytes>) {
        let page = ALIGN as u64;
        let start = piece.at / page * page;
        let end = (piece.at + u64::from(piece.len)).next_multiple_of(page);
        let from = (piece.at - start) as usize;
        let to = from + piece.len as usize;
        let inner: Done<Bytes> =
            Box::new(move |read: Result<Bytes>| done(read.map(|bytes| bytes.slice(from..to))));
        self.drives[piece.slot].read(start, (end - start) as u32, inner);
    }
}

#[cfg(test)]
#[path = "raid_test.rs"]
mod tests;
