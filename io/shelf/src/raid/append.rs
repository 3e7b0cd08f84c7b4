//! The writing side of the journal: a batch goes to every copy at once, and is answered when all have it that are
//! believed. A copy that fails is dropped; nothing is answered until the labels of all other drives say so.

use super::{DriveShelf, slots};
use crate::journal::{self, Header, Ring};
use crate::media::crc32c;
use crate::seal::{Kind, TAG};
use crate::{AlignedBuf, Done, Error, JournalPos, Result};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// The state of the journal's writing side.
pub struct Journal {
    /// None until the journal of an older owner has been recovered.
    pub ring: Option<Ring>,
    /// Copies that are written and believed, as a set of slots.
    pub members: u64,
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
    pub done: Done<JournalPos>,
}

impl Journal {
    pub fn new(ring: Option<Ring>, members: u64) -> Self {
        Self {
            ring,
            members,
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
        let cipher = self.vault.cipher(Kind::Journal, self.salt);
        let contents = match cipher {
            None => crc32c(std::iter::once(&head[..]).chain(body.iter().map(|piece| &piece[..]))),
            Some(_) => 0,
        };
        let bytes = journal::cost(head.len(), body_len);
        let (copies, mut header) = {
            let mut journal = self.journal.lock();
            let (copies, answered) = (journal.written(), journal.answered);
            let Some(ring) = &mut journal.ring else {
                drop(journal);
                return done(Err(not_recovered()));
            };
            let Some((pos, at)) = ring.push(self.epoch, bytes) else {
                drop(journal);
                return done(Err(Error::JournalFull));
            };
            let parts = Ring::parts(self.plan.journal_bytes, at, bytes).count();
            let left = parts * copies.count_ones() as usize;
            journal.waiting.push_back(Appending { pos, left, done });
            let (head, body) = (head.len() as u32, body_len as u32);
            let (array, epoch, salt, tag) = (self.array, self.epoch, self.salt, [0; TAG]);
            (copies, Header { seal: false, array, epoch, pos, at, answered, head, body, contents, salt, tag })
        };
        let pieces = match cipher {
            None => {
                let mut pieces = Vec::with_capacity(1 + body.len());
                pieces.push(header.encode(&head));
                pieces.extend(body);
                pieces
            }
            Some(cipher) => {
                let mut record = AlignedBuf::with_capacity(bytes as usize);
                record.push(&header.encode(&head));
                body.iter().for_each(|piece| _ = record.push(piece));
                header.seal_record(&mut record, &cipher);
                vec![Arc::new(record).share(0..bytes as usize)]
            }
        };
        for slot in slots(copies) {
            let (me, pos) = (self.me.clone(), header.pos);
            self.write_record(slot, header.at, &pieces, move |outcome| {
                if let Some(shelf) = me.upgrade() {
                    shelf.appended(pos, slot, outcome);
                }
            });
        }
    }

    /// One device write of batch `pos` has ended.
    fn appended(&self, pos: JournalPos, slot: usize, outcome: Result) {
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
