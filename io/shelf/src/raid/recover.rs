//! Recovery of the journal: the walk whose rules [`journal`](crate::journal) states.

use super::append::not_recovered;
use super::{DriveShelf, slots};
use crate::journal::{Header, PAGE, Ring};
use crate::seal::TAG;
use crate::task::join;
use crate::{ALIGN, AlignedBuf, Batch, Error, JournalPos, Result, wait};
use bytes::Bytes;
use std::sync::Arc;

/// Read ahead of the walk, per copy.
const WINDOW: u64 = 4 << 20;

/// One copy of the ring, read front to back.
struct Copy<'a> {
    shelf: &'a DriveShelf,
    slot: usize,
    /// The address of the first byte in `window`.
    window_at: u64,
    window: Bytes,
}

impl Copy<'_> {
    /// `len` bytes at address `at`. What lies beyond `limit` is not read ahead.
    async fn get(&mut self, at: u64, len: u64, limit: u64) -> Result<Bytes> {
        let inside = |copy: &Self| {
            let from = at.checked_sub(copy.window_at)?;
            let to = from + len;
            (to <= copy.window.len() as u64).then(|| copy.window.slice(from as usize..to as usize))
        };
        if let Some(bytes) = inside(self) {
            return Ok(bytes);
        }
        let ahead = len.max(WINDOW.min(limit.saturating_sub(at)));
        match self.read(at, ahead).await {
            Ok(window) => (self.window_at, self.window) = (at, window),
            // A bad place further on is no reason not to have this one.
            Err(_) if ahead > len => return self.read(at, len).await,
            Err(cause) => return Err(cause),
        }
        inside(self).ok_or_else(not_recovered)
    }

    async fn read(&self, at: u64, len: u64) -> Result<Bytes> {
        let plan = &self.shelf.plan;
        let mut parts = Vec::new();
        for (start, len) in Ring::parts(plan.journal_bytes, at, len) {
            let member = self.shelf.member(self.slot).ok_or_else(|| gone(self.slot))?;
            parts.push(member.read_patiently(plan.journal_at() + start, len as u32).await?);
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

    /// The record of this array at `at`, with its bytes, when it is whole.
    async fn record(&mut self, at: u64, limit: u64) -> Result<Option<(Header, Bytes)>> {
        let page = self.get(at, PAGE, limit).await?;
        let Some(header) = Header::decode(&page).filter(|header| header.array == self.shelf.array) else {
            return Ok(None);
        };
        if header.at != at || at + header.cost() > limit {
            return Ok(None);
        }
        let bytes = self.get(at, header.cost(), limit).await?;
        Ok(header.open(&bytes, &self.shelf.vault).is_some().then_some((header, bytes)))
    }
}

/// Where the walk is.
struct Walk<'a> {
    copies: Vec<Copy<'a>>,
    ring: Ring,
    epoch: u64,
    /// The address of the last record, when that is a seal.
    trailing_seal: Option<u64>,
}

impl Walk<'_> {
    /// The record that belongs at the current address, and the slots of the copies that lack it.
    async fn step(&mut self) -> Result<Option<(Header, Bytes, Vec<usize>)>> {
        let (at, limit, pos) = (self.ring.next_at(), self.ring.limit(), self.ring.next());
        let mut found = Vec::new();
        let (mut readable, mut failure) = (false, None);
        let slots: Vec<usize> = self.copies.iter().map(|copy| copy.slot).collect();
        let records = join(self.copies.iter_mut().map(|copy| copy.record(at, limit))).await;
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
                && if header.seal { header.epoch > self.epoch } else { header.epoch == self.epoch }
        };
        let records = found.iter().filter_map(|(_, record)| record.as_ref());
        let best = records
            .filter(|(header, _)| belongs(header))
            .max_by_key(|(header, _)| (header.epoch, header.seal));
        match (best.cloned(), failure) {
            (Some((header, bytes)), _) => {
                let lacks =
                    |record: &Option<(Header, Bytes)>| record.as_ref().is_none_or(|(h, _)| h != &header);
                let lacking =
                    found.iter().filter(|(_, record)| lacks(record)).map(|(slot, _)| *slot).collect();
                Ok(Some((header, bytes, lacking)))
            }
            // What no copy could be asked for may well have been answered.
            (None, Some(cause)) if !readable => Err(cause),
            (None, _) => Ok(None),
        }
    }

    /// Looks behind the end for proof that it is not the end.
    async fn check_end(&mut self, answered: JournalPos, batch_bytes: u64) -> Result {
        let (end, next) = (self.ring.next_at(), self.ring.next());
        let lost = |why: String| {
            Err(Error::Corrupt { what: format!("journal batch {} was acknowledged, but {why}", next.0) })
        };
        if next <= answered {
            return lost("no copy has it".into());
        }
        let limit = (end + batch_bytes + 2 * PAGE).min(self.ring.limit());
        for copy in &mut self.copies {
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
                    && (header.epoch > self.epoch || (header.epoch == self.epoch && header.answered >= next));
                // Not one that the drive put in the wrong place.
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
            // Just formatted, or asked again: what this owner appended is known to the one who asks.
            let next = self.journal.lock().ring.as_ref().map(Ring::next);
            return match next {
                Some(next) if next <= from => Ok(Vec::new()),
                _ => Err(Error::Unusable("the journal is recovered once, before the first append".into())),
            };
        }
        let root = self.roots.lock().newest.clone();
        let (tail, at, epoch, answered) = root.map_or((JournalPos(1), 0, 1, JournalPos(0)), |root| {
            (root.superblock.journal_from, root.journal_at, root.journal_epoch, root.answered)
        });
        let members = self.journal.lock().members;
        let copy = |slot| Copy { shelf: self, slot, window_at: 0, window: Bytes::new() };
        let mut walk = Walk {
            copies: slots(members).map(copy).collect(),
            ring: Ring::new(self.plan.journal_bytes, tail, at),
            epoch,
            trailing_seal: None,
        };
        let mut batches = Vec::new();
        while let Some((header, bytes, lacking)) = walk.step().await? {
            self.write_copies(&lacking, header.at, &bytes).await?;
            if header.seal {
                walk.epoch = header.epoch;
                walk.trailing_seal = Some(header.at);
                walk.ring.go_on_at(header.at + PAGE);
                continue;
            }
            walk.trailing_seal = None;
            walk.ring.found(header.epoch, header.cost());
            if let Some((head, body)) = header.open(&bytes, &self.vault).filter(|_| header.pos >= from) {
                batches.push(Batch { pos: header.pos, head, body });
            }
        }
        walk.check_end(answered, u64::from(self.plan.layout(0).batch_bytes)).await?;
        let Walk { mut ring, trailing_seal, .. } = walk;
        ring.go_on_at(trailing_seal.unwrap_or(ring.next_at()));
        self.seal(&mut ring).await?;
        let mut journal = self.journal.lock();
        journal.answered = JournalPos(ring.next().0 - 1);
        journal.ring = Some(ring);
        Ok(batches)
    }

    /// Begins this owner's part of the journal.
    async fn seal(&self, ring: &mut Ring) -> Result {
        let (pos, at) = (ring.next(), ring.next_at());
        let seal = Header {
            seal: true,
            array: self.array,
            epoch: self.epoch,
            pos,
            at,
            answered: JournalPos(pos.0 - 1),
            head: 0,
            body: 0,
            contents: crate::media::crc32c([]),
            salt: self.salt,
            tag: [0; TAG],
        };
        let members: Vec<_> = slots(self.journal.lock().members).collect();
        self.write_copies(&members, at, &seal.encode(&[])).await?;
        ring.go_on_at(at + PAGE);
        Ok(())
    }

    /// Writes a record to some copies, durably. A drive that does not take it is put out while others stay.
    async fn write_copies(&self, copies: &[usize], at: u64, record: &Bytes) -> Result {
        let mut waits = Vec::new();
        for slot in copies {
            let mut from = 0;
            for (start, len) in Ring::parts(self.plan.journal_bytes, at, record.len() as u64) {
                let to = from + len as usize;
                let (done, written) = wait();
                match self.member(*slot) {
                    Some(member) => {
                        let piece = vec![record.slice(from..to)];
                        member.write(self.plan.journal_at() + start, piece, true, done);
                    }
                    None => done(Err(gone(*slot))),
                }
                waits.push((*slot, written));
                from = to;
            }
        }
        debug_assert!(record.len().is_multiple_of(ALIGN));
        let mut failed = false;
        for (slot, written) in waits {
            if let Err(cause) = written.await {
                self.put_out(slot, &cause);
                failed = true;
            }
        }
        // Nothing that depends on fewer copies is told before the labels name them.
        if failed { self.record().await } else { Ok(()) }
    }
}

fn gone(slot: usize) -> Error {
    Error::Drive { what: format!("the drive in slot {slot} is out") }
}
