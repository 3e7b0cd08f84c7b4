//! The writing side of the journal: a batch goes to every copy at once, the body of a large one striped over more drives,
//! and is answered when all have it that are believed. A drive that fails is dropped; nothing is answered until the labels
//! of all others say so.

use super::DriveShelf;
use crate::codec::crc32c;
use crate::encryption::{Kind, TAG};
use crate::journal::{Header, Ring};
use crate::striping::{Checks, Lanes, PARITY};
use crate::{ALIGN, AlignedBuf, Done, Error, JournalPos, Result};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// The state of the journal's writing side.
pub struct Journal {
    /// None until the journal of an older owner has been recovered.
    pub ring: Option<Ring>,
    /// Copies that are written and believed, as a set of slots.
    pub members: u64,
    /// Drives that large batches are striped over.
    pub lanes: u64,
    /// Members in use by the labels. Others may be striped over when they are.
    pub in_use: u64,
    /// Drives that were away before this opening: what they lack may have been answered without them.
    pub returned: u64,
    /// A copy that is being made: it gets every batch from its beginning on, and what was there before from another.
    pub joining: Option<usize>,
    /// Nothing is answered before the labels have this version of the roster.
    pub hold: Option<u64>,
    pub answered: JournalPos,
    /// Batches under way, in order.
    pub waiting: VecDeque<Appending>,
    /// Called when a batch and all before it have been answered.
    pub watchers: Vec<(JournalPos, Done<()>)>,
}

pub struct Appending {
    pub pos: JournalPos,
    /// Device writes not answered yet.
    pub left: usize,
    /// Drives that it is striped over, and those that failed to take their column.
    lanes: Option<Lanes>,
    failed: u64,
    pub done: Done<JournalPos>,
}

impl Appending {
    /// True when more drives failed to take their column than parity makes up for.
    fn is_lost(&self) -> bool {
        self.lanes.is_some_and(|lanes| lanes.lost(!self.failed) > PARITY)
    }
}

impl Journal {
    pub fn new(ring: Option<Ring>, members: u64) -> Self {
        Self {
            ring,
            members,
            lanes: 0,
            in_use: 0,
            returned: 0,
            joining: None,
            hold: None,
            answered: JournalPos(0),
            waiting: VecDeque::new(),
            watchers: Vec::new(),
        }
    }

    /// Goes on without a copy; nothing is answered before the labels say so.
    pub fn drop_copy(&mut self, slot: usize) {
        self.members &= !(1 << slot);
        self.hold = Some(u64::MAX);
    }

    /// The drives that batches are striped over.
    pub fn striped(&self) -> impl Iterator<Item = Lanes> {
        self.ring.iter().flat_map(Ring::lanes)
    }

    /// Copies that get new batches.
    fn written(&self) -> u64 {
        self.members | self.joining.map_or(0, |slot| 1 << slot)
    }
}

pub fn not_recovered() -> Error {
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

/// A batch as it goes to the drives.
struct Record {
    front: Bytes,
    body: Vec<Bytes>,
    /// P and Q, when it is striped.
    parities: Bytes,
}

impl Record {
    /// What a drive has of the body, by its column when it is striped.
    fn part(&self, header: &Header, slot: usize) -> Vec<Bytes> {
        let Some(lanes) = header.lanes else { return self.body.clone() };
        let Some(column) = lanes.order(header.pos).iter().position(|drive| *drive == slot) else {
            return Vec::new();
        };
        match column.checked_sub(lanes.data()) {
            None => {
                let part = lanes.part(column, header.body as usize);
                cut(&self.body, part.start, part.len())
            }
            Some(parity) => {
                let height = lanes.height(header.body as usize);
                vec![self.parities.slice(parity * height..(parity + 1) * height)]
            }
        }
    }
}

impl DriveShelf {
    pub(super) fn append_batch(&self, head: Bytes, body: Vec<Bytes>, done: Done<JournalPos>) {
        if let Err(cause) = self.check_running() {
            return done(Err(cause));
        }
        let body_len: usize = body.iter().map(Bytes::len).sum();
        assert!(
            head.len() + body_len <= self.plan.layout(0).batch_bytes as usize,
            "the batch is within its bound"
        );
        let Some((copies, mut header)) = self.place_batch(head.len(), body_len, done) else { return };
        let record = self.encode_batch(&mut header, &head, body);
        for (slot, at, _) in header.targets(copies) {
            let mut pieces = record.part(&header, slot);
            if at == header.at {
                pieces.insert(0, record.front.clone());
            }
            let (me, pos) = (self.me.clone(), header.pos);
            self.write_record(slot, at, &pieces, move |outcome| {
                if let Some(shelf) = me.upgrade() {
                    shelf.appended(pos, slot, outcome);
                }
            });
        }
    }

    /// Gives a batch its place in the ring, with the copies that it goes to; otherwise it has been answered.
    fn place_batch(&self, head: usize, body: usize, done: Done<JournalPos>) -> Option<(u64, Header)> {
        let mut journal = self.journal.lock();
        let (copies, lanes, answered) = (journal.written(), journal.lanes, journal.answered);
        let Some(ring) = &mut journal.ring else {
            drop(journal);
            done(Err(not_recovered()));
            return None;
        };
        let pos = ring.next();
        let header = Header {
            seal: false,
            array: self.array,
            epoch: self.epoch,
            pos,
            at: ring.next_at(),
            answered,
            head: head as u32,
            body: body as u32,
            contents: 0,
            salt: self.salt,
            tag: [0; TAG],
            lanes: Lanes::choose(lanes, copies.count_ones() as usize, body, pos),
            checks: Checks::default(),
        };
        if !ring.has_room(header.cost()) {
            drop(journal);
            done(Err(Error::JournalFull));
            return None;
        }
        ring.push(&header);
        let parts = |(_, at, len)| Ring::parts(self.plan.journal_bytes, at, len).count();
        let left = header.targets(copies).map(parts).sum();
        journal.waiting.push_back(Appending { pos, left, lanes: header.lanes, failed: 0, done });
        Some((copies, header))
    }

    /// The bytes of a batch, sealed when there is a key, with what the header says about them.
    fn encode_batch(&self, header: &mut Header, head: &Bytes, body: Vec<Bytes>) -> Record {
        let (front, body) = match self.vault.cipher(Kind::Journal, self.salt) {
            None => {
                if header.lanes.is_none() {
                    let body = body.iter().map(|piece| &piece[..]);
                    header.contents = crc32c(std::iter::once(&head[..]).chain(body));
                }
                (header.encode(head), body)
            }
            Some(cipher) => {
                let mut record = AlignedBuf::with_capacity(header.whole());
                record.push(&header.encode(head));
                body.iter().for_each(|piece| _ = record.push(piece));
                header.seal_record(&mut record, &cipher);
                let record = Arc::new(record).share(0..header.whole());
                let front = header.front() as usize;
                (record.slice(..front), vec![record.slice(front..)])
            }
        };
        let Some(lanes) = header.lanes else { return Record { front, body, parities: Bytes::new() } };
        let pages: Vec<&[u8]> = body.iter().flat_map(|piece| piece.chunks_exact(ALIGN)).collect();
        let mut parities = self.spares.take(PARITY * lanes.height(header.body as usize));
        lanes.compute(&pages, &mut parities);
        let columns = lanes.checks(&pages, &parities);
        header.checks = Checks { front: header.front_check(&front).unwrap_or(0), columns };
        Record { front: header.with_checks(&front), body, parities: self.spares.share(parities) }
    }

    /// One device write of batch `pos` has ended.
    fn appended(&self, pos: JournalPos, slot: usize, outcome: Result) {
        let failed = outcome.is_err();
        if let Err(cause) = outcome {
            self.put_out(slot, &cause);
        }
        {
            let mut journal = self.journal.lock();
            // None when the shelf has stopped and answered it already.
            let first = journal.waiting.front().map_or(JournalPos(u64::MAX), |batch| batch.pos);
            let index = pos.0.checked_sub(first.0).map(|index| index as usize);
            if let Some(batch) = index.and_then(|index| journal.waiting.get_mut(index)) {
                batch.left -= 1;
                batch.failed |= u64::from(failed) << slot;
            }
        }
        self.answer_appends();
    }

    /// Answers the batches at the front that every copy has.
    pub(super) fn answer_appends(&self) {
        loop {
            let mut journal = self.journal.lock();
            if journal.hold.is_some() || journal.waiting.front().is_none_or(|batch| batch.left > 0) {
                return;
            }
            let Some(batch) = journal.waiting.pop_front() else { return };
            if batch.is_lost() {
                journal.waiting.push_front(batch);
                drop(journal);
                let what = "too few drives took what was written to the journal".into();
                return self.stop(&Error::Drive { what });
            }
            journal.answered = batch.pos;
            let watched = journal.watchers.extract_if(.., |(pos, _)| *pos <= batch.pos).collect::<Vec<_>>();
            drop(journal);
            (batch.done)(Ok(batch.pos));
            watched.into_iter().for_each(|(_, done)| done(Ok(())));
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
        let member = self.member(slot);
        let mut skip = 0;
        for (start, len) in Ring::parts(self.plan.journal_bytes, at, bytes) {
            let part = cut(pieces, skip as usize, len as usize);
            let ended = ended.clone();
            match &member {
                Some(member) => {
                    member.write(self.plan.journal_at() + start, part, true, Box::new(ended));
                }
                None => ended(Err(Error::Drive { what: format!("the drive in slot {slot} is out") })),
            }
            skip += len;
        }
    }
}

#[cfg(test)]
#[path = "append_test.rs"]
mod tests;
