//! Journal writer: a batch is written to every copy concurrently, the body of a large one striped over more drives. It is
//! acknowledged when all drives that are not marked as failed have it. A drive that fails is marked as failed in the
//! labels of all others before anything else is acknowledged.

use super::DriveShelf;
use crate::codec::crc32c;
use crate::encryption::{Kind, TAG_BYTES};
use crate::journal::{Header, JournalRing};
use crate::striping::{Checksums, PARITY_COLUMNS, StripeSet};
use crate::{ALIGN, AlignedBuf, Done, Error, JournalPos, Result};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// State of the journal writer.
pub struct Journal {
    /// `None` until the journal of an older owner has been recovered.
    pub ring: Option<JournalRing>,
    /// Complete journal copies, as a set of slots.
    pub members: u64,
    /// Drives that large batches may be striped over.
    pub stripe_candidates: u64,
    /// Members in use by the labels. Others become candidates when they are.
    pub in_use: u64,
    /// Drives that were missing before this opening: batches may have been acknowledged without them.
    pub returned: u64,
    /// A copy that is being made: new batches are written to it, older ones are copied.
    pub joining: Option<usize>,
    /// Nothing completes before the labels have this version of the membership.
    pub hold: Option<u64>,
    pub acknowledged: JournalPos,
    /// Batches in flight, in order.
    pub waiting: VecDeque<Appending>,
    /// Called when a batch and all before it have completed.
    pub watchers: Vec<(JournalPos, Done<()>)>,
}

pub struct Appending {
    pub pos: JournalPos,
    /// Device writes not completed yet.
    pub left: usize,
    /// Drives that it is striped over, and those that failed to take their column.
    stripe_set: Option<StripeSet>,
    failed: u64,
    pub done: Done<JournalPos>,
}

impl Appending {
    /// True if more drives failed to take their column than parity tolerates.
    fn is_lost(&self) -> bool {
        self.stripe_set.is_some_and(|stripe_set| stripe_set.lost(!self.failed) > PARITY_COLUMNS)
    }
}

impl Journal {
    pub fn new(ring: Option<JournalRing>, members: u64) -> Self {
        Self {
            ring,
            members,
            stripe_candidates: 0,
            in_use: 0,
            returned: 0,
            joining: None,
            hold: None,
            acknowledged: JournalPos(0),
            waiting: VecDeque::new(),
            watchers: Vec::new(),
        }
    }

    /// Continues without a copy; nothing completes before the labels record that.
    pub fn drop_copy(&mut self, slot: usize) {
        self.members &= !(1 << slot);
        self.hold = Some(u64::MAX);
    }

    /// The drives that batches are striped over.
    pub fn striped(&self) -> impl Iterator<Item = StripeSet> {
        self.ring.iter().flat_map(JournalRing::stripe_sets)
    }

    /// Copies that get new batches.
    fn written(&self) -> u64 {
        self.members | self.joining.map_or(0, |slot| 1 << slot)
    }
}

pub fn not_recovered() -> Error {
    Error::Unusable("the journal has to be recovered first".into())
}

/// The bytes `skip..skip + len` of pieces that are cut at page borders.
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
    /// P and Q, if it is striped.
    parities: Bytes,
}

impl Record {
    /// The part of the body that a drive gets: all of it, or its column.
    fn part(&self, header: &Header, slot: usize) -> Vec<Bytes> {
        let Some(stripe_set) = header.stripe_set else { return self.body.clone() };
        let Some(column) = stripe_set.order(header.pos).iter().position(|drive| *drive == slot) else {
            return Vec::new();
        };
        match column.checked_sub(stripe_set.data()) {
            None => {
                let part = stripe_set.part(column, header.body as usize);
                cut(&self.body, part.start, part.len())
            }
            Some(parity) => {
                let height = stripe_set.height(header.body as usize);
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

    /// Assigns a batch its address in the ring, and the copies that it goes to; on failure it has been completed.
    fn place_batch(&self, head: usize, body: usize, done: Done<JournalPos>) -> Option<(u64, Header)> {
        let mut journal = self.journal.lock();
        let (copies, candidates, acknowledged) =
            (journal.written(), journal.stripe_candidates, journal.acknowledged);
        let Some(ring) = &mut journal.ring else {
            drop(journal);
            done(Err(not_recovered()));
            return None;
        };
        let pos = ring.next();
        let stripe_set = if body / ALIGN >= self.limits.striped_batch_min_pages {
            StripeSet::choose(candidates, copies.count_ones() as usize, body, pos)
        } else {
            None
        };
        let header = Header {
            takeover: false,
            array: self.array,
            epoch: self.epoch,
            pos,
            at: ring.next_at(),
            acknowledged,
            head: head as u32,
            body: body as u32,
            contents: 0,
            salt: self.salt,
            tag: [0; TAG_BYTES],
            stripe_set,
            checksums: Checksums::default(),
        };
        if !ring.has_room(header.cost()) {
            drop(journal);
            done(Err(Error::JournalFull));
            return None;
        }
        ring.push(&header);
        let parts = |(_, at, len)| JournalRing::parts(self.plan.journal_bytes, at, len).count();
        let left = header.targets(copies).map(parts).sum();
        journal.waiting.push_back(Appending { pos, left, stripe_set: header.stripe_set, failed: 0, done });
        Some((copies, header))
    }

    /// Encodes a batch, encrypted if there is a key, and the checksums in its header.
    fn encode_batch(&self, header: &mut Header, head: &Bytes, body: Vec<Bytes>) -> Record {
        let (front, body) = match self.keyring.cipher(Kind::Journal, self.salt) {
            None => {
                if header.stripe_set.is_none() {
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
        let Some(stripe_set) = header.stripe_set else {
            return Record { front, body, parities: Bytes::new() };
        };
        let pages: Vec<&[u8]> = body.iter().flat_map(|piece| piece.chunks_exact(ALIGN)).collect();
        let mut parities = self.parity_buffers.take(PARITY_COLUMNS * stripe_set.height(header.body as usize));
        stripe_set.compute(&pages, &mut parities);
        let columns = stripe_set.checksums(&pages, &parities);
        header.checksums = Checksums { front: header.front_checksum(&front).unwrap_or(0), columns };
        Record { front: header.with_checksums(&front), body, parities: self.parity_buffers.share(parities) }
    }

    /// One device write of batch `pos` has completed.
    fn appended(&self, pos: JournalPos, slot: usize, outcome: Result) {
        let failed = outcome.is_err();
        if let Err(cause) = outcome {
            self.fail_drive(slot, &cause);
        }
        {
            let mut journal = self.journal.lock();
            // `None` if the shelf has stopped and completed it already.
            let first = journal.waiting.front().map_or(JournalPos(u64::MAX), |batch| batch.pos);
            let index = pos.0.checked_sub(first.0).map(|index| index as usize);
            if let Some(batch) = index.and_then(|index| journal.waiting.get_mut(index)) {
                batch.left -= 1;
                batch.failed |= u64::from(failed) << slot;
            }
        }
        self.answer_appends();
    }

    /// Completes the batches at the front that every copy has.
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
                let what = "too few drives completed a journal write".into();
                return self.stop(&Error::Drive { what });
            }
            journal.acknowledged = batch.pos;
            let watched = journal.watchers.extract_if(.., |(pos, _)| *pos <= batch.pos).collect::<Vec<_>>();
            drop(journal);
            (batch.done)(Ok(batch.pos));
            watched.into_iter().for_each(|(_, done)| done(Ok(())));
        }
    }

    /// Writes a record at its address to one copy; `ended` is called once for every part.
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
        for (start, len) in JournalRing::parts(self.plan.journal_bytes, at, bytes) {
            let part = cut(pieces, skip as usize, len as usize);
            let ended = ended.clone();
            match &member {
                Some(member) => {
                    member.write(self.plan.journal_at() + start, part, true, Box::new(ended));
                }
                None => ended(Err(Error::Drive { what: format!("the drive in slot {slot} has failed") })),
            }
            skip += len;
        }
    }
}

#[cfg(test)]
#[path = "append_test.rs"]
mod tests;
