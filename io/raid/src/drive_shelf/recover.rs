//! Recovery of the journal: the walk whose rules [`journal`](crate::journal) states.

use super::append::not_recovered;
use super::{DriveShelf, slots};
use crate::codec::{RECORDS, crc32c};
use crate::encryption::{Keyring, TAG_BYTES};
use crate::journal::{Header, JournalRing, PAGE};
use crate::striping::{Checksums, PARITY_COLUMNS, StripeSet};
use crate::{ALIGN, AlignedBuf, Batch, Error, JournalPos, Result, wait};
use bytes::Bytes;
use shelf::join;
use std::sync::Arc;

/// Sequential reader of one drive's ring.
struct RingReader<'a> {
    shelf: &'a DriveShelf,
    slot: usize,
    /// It has a copy of the journal; every drive may have columns.
    is_copy: bool,
    /// The address of the first byte in `window`.
    window_at: u64,
    window: Bytes,
}

impl RingReader<'_> {
    /// `len` bytes at address `at`. The read-ahead ends at `limit`.
    async fn get(&mut self, at: u64, len: u64, limit: u64) -> Result<Bytes> {
        let inside = |copy: &Self| {
            let from = at.checked_sub(copy.window_at)?;
            let to = from + len;
            (to <= copy.window.len() as u64).then(|| copy.window.slice(from as usize..to as usize))
        };
        if let Some(bytes) = inside(self) {
            return Ok(bytes);
        }
        let read_ahead = self.shelf.limits.recovery_read_ahead_pages * PAGE;
        let ahead = len.max(read_ahead.min(limit.saturating_sub(at)));
        match self.read(at, ahead).await {
            Ok(window) => (self.window_at, self.window) = (at, window),
            // A bad place further on must not make this one unreadable.
            Err(_) if ahead > len => return self.read(at, len).await,
            Err(cause) => return Err(cause),
        }
        inside(self).ok_or_else(not_recovered)
    }

    async fn read(&self, at: u64, len: u64) -> Result<Bytes> {
        let plan = &self.shelf.plan;
        let mut parts = Vec::new();
        for (start, len) in JournalRing::parts(plan.journal_bytes, at, len) {
            let member = self.shelf.member(self.slot).ok_or_else(|| gone(self.slot))?;
            parts.push(member.read_with_write_timeout(plan.journal_at() + start, len as u32).await?);
        }
        Ok(match parts.as_slice() {
            [one] => one.clone(),
            many => {
                let mut whole = AlignedBuf::with_capacity(len as usize);
                many.iter().for_each(|part| _ = whole.push(part));
                Arc::new(whole).share(0..len as usize)
            }
        })
    }

    /// The record of this array at `at`, with its bytes, if it is valid; of a striped one the front.
    async fn record(&mut self, at: u64, limit: u64) -> Result<Option<(Header, Bytes)>> {
        let page = self.get(at, PAGE, limit).await?;
        if let Some((array, found_at, version)) = Header::unknown(&page)
            && (array, found_at) == (self.shelf.array, at)
        {
            // It would look like the end of the journal, and everything after it would be lost.
            return Err(RECORDS.refusal("the journal", version));
        }
        let Some(header) = Header::decode(&page).filter(|header| header.array == self.shelf.array) else {
            return Ok(None);
        };
        if header.at != at || at + header.cost() > limit {
            return Ok(None);
        }
        if header.stripe_set.is_some() {
            let front = self.get(at, header.front(), limit).await?;
            return Ok(
                (header.front_checksum(&front) == Some(header.checksums.front)).then_some((header, front))
            );
        }
        let bytes = self.get(at, header.cost(), limit).await?;
        Ok(header.open(&bytes, &self.shelf.keyring).is_some().then_some((header, bytes)))
    }
}

/// A record that belongs to the journal, with front and body, and what drives lack of it: slot, address and bytes.
type FoundRecord = (Header, Bytes, Vec<(usize, u64, Bytes)>);

/// State of the walk.
struct Walk<'a> {
    copies: Vec<RingReader<'a>>,
    /// Drives that were missing before this opening.
    returned: u64,
    keyring: &'a Keyring,
    ring: JournalRing,
    epoch: u64,
    /// The address of the last record, if that is a takeover record.
    trailing_takeover: Option<u64>,
}

impl Walk<'_> {
    /// The record that belongs at the current address.
    async fn step(&mut self) -> Result<Option<FoundRecord>> {
        let (at, limit, pos) = (self.ring.next_at(), self.ring.limit(), self.ring.next());
        let mut found = Vec::new();
        let (mut readable, mut failure) = (false, None);
        let copies = || self.copies.iter().filter(|copy| copy.is_copy);
        let slots: Vec<usize> = copies().map(|copy| copy.slot).collect();
        let copies = self.copies.iter_mut().filter(|copy| copy.is_copy);
        let records = join(copies.map(|copy| copy.record(at, limit))).await;
        for (slot, record) in slots.into_iter().zip(records) {
            match record {
                Ok(record) => {
                    readable = true;
                    found.push((slot, record));
                }
                Err(cause) => {
                    failure = Some(cause);
                    found.push((slot, None));
                }
            }
        }
        let belongs = |header: &Header| {
            header.pos == pos
                && if header.takeover { header.epoch > self.epoch } else { header.epoch == self.epoch }
        };
        let records = found.iter().filter_map(|(_, record)| record.as_ref());
        let best = records
            .filter(|(header, _)| belongs(header))
            .max_by_key(|(header, _)| (header.epoch, header.takeover));
        match (best.cloned(), failure) {
            (Some((header, bytes)), _) => {
                let lacks =
                    |record: &Option<(Header, Bytes)>| record.as_ref().is_none_or(|(h, _)| h != &header);
                let lacking = found.iter().filter(|(_, record)| lacks(record));
                let mut lacking: Vec<_> = lacking.map(|(slot, _)| (*slot, at, bytes.clone())).collect();
                let Some(stripe_set) = header.stripe_set else { return Ok(Some((header, bytes, lacking))) };
                let whole = self.body(&header, stripe_set, &bytes, &mut lacking).await?;
                Ok(whole.map(|whole| (header, whole, lacking)))
            }
            (None, Some(cause @ Error::Unusable(_))) => Err(cause),
            // A batch that no copy could be read for may have been acknowledged.
            (None, Some(cause)) if !readable => Err(cause),
            (None, _) => Ok(None),
        }
    }

    /// Front and body of a striped batch, if enough of its columns are valid; what drives lack goes to `lacking`.
    async fn body(
        &mut self,
        header: &Header,
        stripe_set: StripeSet,
        front: &Bytes,
        lacking: &mut Vec<(usize, u64, Bytes)>,
    ) -> Result<Option<Bytes>> {
        let (at, limit) = (header.at + header.front(), self.ring.limit());
        let (body, order) = (header.body as usize, stripe_set.order(header.pos));
        let mut reads: Vec<_> = order.iter().map(|_| None).collect();
        for copy in &mut self.copies {
            if let Some(index) = order.iter().position(|slot| *slot == copy.slot) {
                reads[index] = Some(copy.get(at, stripe_set.len(index, body) as u64, limit));
            }
        }
        let present = |read: &Option<_>| read.is_some();
        let there: Vec<bool> = reads.iter().map(present).collect();
        let mut found = join(reads.into_iter().flatten()).await.into_iter();
        // Invalid on a drive that was never missing: the batch was never acknowledged.
        let (mut torn, mut failure) = (false, None);
        let mut columns = Vec::new();
        for (index, slot) in order.iter().enumerate() {
            let read = if there[index] { found.next() } else { None };
            columns.push(match read {
                Some(Ok(column)) if crc32c([&column[..]]) == header.checksums.columns[index] => Some(column),
                Some(Ok(_)) => {
                    torn |= self.returned >> slot & 1 == 0;
                    None
                }
                Some(Err(cause)) => {
                    failure = Some(cause);
                    None
                }
                None => None,
            });
        }
        let Some(joined) = stripe_set.join(&columns, body) else {
            let few = || Error::Drive {
                what: format!("too few of the drives that have journal batch {} are there", header.pos.0),
            };
            // The columns with which a batch was acknowledged stay on their drives, also on those that are missing after
            // that and return: with every column read, too few of them were ever written.
            let is_all_read = failure.is_none() && there.iter().all(|there| *there);
            return if torn || is_all_read { Ok(None) } else { Err(failure.unwrap_or_else(few)) };
        };
        let mut whole = AlignedBuf::with_capacity(header.whole());
        whole.push(front);
        whole.push(&joined);
        let whole = Arc::new(whole).share(0..header.whole());
        if header.open(&whole, self.keyring).is_none() {
            return Ok(None);
        }
        if columns.iter().any(Option::is_none) {
            let pages: Vec<&[u8]> = joined.chunks_exact(ALIGN).collect();
            let height = stripe_set.height(body);
            let mut parities = vec![0; PARITY_COLUMNS * height];
            stripe_set.compute(&pages, &mut parities);
            for (index, slot) in order.iter().enumerate().filter(|(index, _)| columns[*index].is_none()) {
                let column = match index.checked_sub(stripe_set.data()) {
                    None => &joined[stripe_set.part(index, body)],
                    Some(parity) => &parities[parity * height..(parity + 1) * height],
                };
                let mut aligned = AlignedBuf::with_capacity(column.len());
                aligned.push(column);
                if there[index] {
                    lacking.push((*slot, at, Arc::new(aligned).share(0..column.len())));
                }
            }
        }
        Ok(Some(whole))
    }

    /// Looks after the end for proof that it is not the end.
    async fn check_end(&mut self, acknowledged: JournalPos, batch_bytes: u64) -> Result {
        let (end, next) = (self.ring.next_at(), self.ring.next());
        let lost = |why: String| {
            Err(Error::Corrupt { what: format!("journal batch {} was acknowledged, but {why}", next.0) })
        };
        if next <= acknowledged {
            return lost("no copy has it".into());
        }
        let limit = (end + batch_bytes + 2 * PAGE).min(self.ring.limit());
        for copy in self.copies.iter_mut().filter(|copy| copy.is_copy) {
            let mut at = end;
            while at + PAGE <= limit {
                // What can't be read proves nothing.
                let Ok(page) = copy.get(at, PAGE, limit).await else { break };
                let header = Header::decode(&page).filter(|header| header.array == copy.shelf.array);
                let Some(header) = header else {
                    at += PAGE;
                    continue;
                };
                let follows = header.at == at
                    && (header.epoch > self.epoch
                        || (header.epoch == self.epoch && header.acknowledged >= next));
                // Not a record that the drive misdirected.
                let later_lap =
                    header.at > at && (header.at - at).is_multiple_of(copy.shelf.plan.journal_bytes);
                // At the end itself only a later lap is proof: the record there has been judged already.
                if later_lap || (follows && at > end) {
                    let slot = copy.slot;
                    return lost(format!(
                        "slot {slot} shows only what came after it, batch {}",
                        header.pos.0
                    ));
                }
                at += PAGE;
            }
        }
        Ok(())
    }
}

impl DriveShelf {
    pub(super) async fn recover_journal(&self, from: JournalPos) -> Result<Vec<Batch>> {
        self.check_running()?;
        if self.journal.lock().ring.is_some() {
            // Just formatted, or called again: the caller knows what this owner appended.
            let next = self.journal.lock().ring.as_ref().map(JournalRing::next);
            return match next {
                Some(next) if next <= from => Ok(Vec::new()),
                _ => Err(Error::Unusable("the journal is recovered once, before the first append".into())),
            };
        }
        let stored = self.superblocks.lock().newest.clone();
        let (tail, at, epoch, acknowledged) = stored.map_or((JournalPos(1), 0, 1, JournalPos(0)), |stored| {
            (stored.superblock.journal_from, stored.journal_at, stored.journal_epoch, stored.acknowledged)
        });
        let (members, returned) = {
            let journal = self.journal.lock();
            (journal.members, journal.returned)
        };
        let there = self.present().iter().fold(members, |set, member| set | 1 << member.slot);
        let copy = |slot| RingReader {
            shelf: self,
            slot,
            is_copy: members >> slot & 1 == 1,
            window_at: 0,
            window: Bytes::new(),
        };
        let mut walk = Walk {
            copies: slots(there).map(copy).collect(),
            returned,
            keyring: &self.keyring,
            ring: JournalRing::new(self.plan.journal_bytes, tail, at),
            epoch,
            trailing_takeover: None,
        };
        let mut batches = Vec::new();
        while let Some((header, bytes, lacking)) = walk.step().await? {
            if header.epoch >= self.epoch {
                // Records of this owner would not count any more.
                let (pos, epoch) = (header.pos.0, header.epoch);
                let what =
                    format!("journal record {pos} is by owner {epoch}, the labels know {}", self.epoch - 1);
                return Err(Error::Corrupt { what });
            }
            self.write_parts(lacking).await?;
            if header.takeover {
                walk.epoch = header.epoch;
                walk.trailing_takeover = Some(header.at);
                walk.ring.set_next_at(header.at + PAGE);
                continue;
            }
            walk.trailing_takeover = None;
            walk.ring.push(&header);
            if let Some((head, body)) = header.open(&bytes, &self.keyring).filter(|_| header.pos >= from) {
                batches.push(Batch { pos: header.pos, head, body });
            }
        }
        walk.check_end(acknowledged, u64::from(self.plan.layout(0).batch_bytes)).await?;
        let Walk { mut ring, trailing_takeover, .. } = walk;
        ring.set_next_at(trailing_takeover.unwrap_or(ring.next_at()));
        self.write_takeover(&mut ring).await?;
        let mut journal = self.journal.lock();
        journal.acknowledged = JournalPos(ring.next().0 - 1);
        journal.ring = Some(ring);
        Ok(batches)
    }

    /// Writes the takeover record with which this owner's part of the journal begins.
    async fn write_takeover(&self, ring: &mut JournalRing) -> Result {
        let (pos, at) = (ring.next(), ring.next_at());
        let takeover = Header {
            takeover: true,
            array: self.array,
            epoch: self.epoch,
            pos,
            at,
            acknowledged: JournalPos(pos.0 - 1),
            head: 0,
            body: 0,
            contents: crc32c([]),
            salt: self.salt,
            tag: [0; TAG_BYTES],
            stripe_set: None,
            checksums: Checksums::default(),
        };
        let (members, page) = (self.journal.lock().members, takeover.encode(&[]));
        self.write_parts(slots(members).map(|slot| (slot, at, page.clone())).collect()).await?;
        ring.set_next_at(at + PAGE);
        Ok(())
    }

    /// Writes what drives lack, durably. A drive that fails it is failed while others stay.
    async fn write_parts(&self, parts: Vec<(usize, u64, Bytes)>) -> Result {
        let mut waits = Vec::new();
        for (slot, at, bytes) in parts {
            let mut from = 0;
            for (start, len) in JournalRing::parts(self.plan.journal_bytes, at, bytes.len() as u64) {
                let to = from + len as usize;
                let (done, written) = wait();
                match self.member(slot) {
                    Some(member) => {
                        let piece = vec![bytes.slice(from..to)];
                        member.write(self.plan.journal_at() + start, piece, true, done);
                    }
                    None => done(Err(gone(slot))),
                }
                waits.push((slot, written));
                from = to;
            }
        }
        let mut failed = false;
        for (slot, written) in waits {
            if let Err(cause) = written.await {
                self.fail_drive(slot, &cause);
                failed = true;
            }
        }
        // Recovery must not depend on fewer copies before the labels name them.
        if failed { self.persist_membership().await } else { Ok(()) }
    }
}

fn gone(slot: usize) -> Error {
    Error::Drive { what: format!("the drive in slot {slot} has failed") }
}
