//! Recovery of the journal: the walk whose rules [`journal`](crate::journal) states.

use super::append::not_recovered;
use super::{DriveShelf, slots};
use crate::codec::crc32c;
use crate::encryption::{TAG, Vault};
use crate::journal::{Header, PAGE, Ring};
use crate::striping::{Checks, Lanes, PARITY};
use crate::{ALIGN, AlignedBuf, Batch, Error, JournalPos, Result, wait};
use bytes::Bytes;
use shelf::join;
use std::sync::Arc;

/// Read ahead of the walk, per copy.
const WINDOW: u64 = 4 << 20;

/// The ring of one drive, read front to back.
struct Copy<'a> {
    shelf: &'a DriveShelf,
    slot: usize,
    /// It has the fronts of batches and all of small ones; every drive may have columns.
    is_copy: bool,
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

    /// The record of this array at `at`, with its bytes, when it is whole; of a striped one the front.
    async fn record(&mut self, at: u64, limit: u64) -> Result<Option<(Header, Bytes)>> {
        let page = self.get(at, PAGE, limit).await?;
        let Some(header) = Header::decode(&page).filter(|header| header.array == self.shelf.array) else {
            return Ok(None);
        };
        if header.at != at || at + header.cost() > limit {
            return Ok(None);
        }
        if header.lanes.is_some() {
            let front = self.get(at, header.front(), limit).await?;
            return Ok((header.front_check(&front) == Some(header.checks.front)).then_some((header, front)));
        }
        let bytes = self.get(at, header.cost(), limit).await?;
        Ok(header.open(&bytes, &self.shelf.vault).is_some().then_some((header, bytes)))
    }
}

/// A record that belongs, with front and body, and what has to be written for every drive to have its part: slot, address
/// and bytes.
type Found = (Header, Bytes, Vec<(usize, u64, Bytes)>);

/// Where the walk is.
struct Walk<'a> {
    copies: Vec<Copy<'a>>,
    /// Drives that were away.
    returned: u64,
    vault: &'a Vault,
    ring: Ring,
    epoch: u64,
    /// The address of the last record, when that is a seal.
    trailing_seal: Option<u64>,
}

impl Walk<'_> {
    /// The record that belongs at the current address.
    async fn step(&mut self) -> Result<Option<Found>> {
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
                let lacking = found.iter().filter(|(_, record)| lacks(record));
                let mut lacking: Vec<_> = lacking.map(|(slot, _)| (*slot, at, bytes.clone())).collect();
                let Some(lanes) = header.lanes else { return Ok(Some((header, bytes, lacking))) };
                let whole = self.body(&header, lanes, &bytes, &mut lacking).await?;
                Ok(whole.map(|whole| (header, whole, lacking)))
            }
            // What no copy could be asked for may well have been answered.
            (None, Some(cause)) if !readable => Err(cause),
            (None, _) => Ok(None),
        }
    }

    /// Front and body of a striped batch, when enough of its columns are right; what others lack goes to `lacking`.
    async fn body(
        &mut self,
        header: &Header,
        lanes: Lanes,
        front: &Bytes,
        lacking: &mut Vec<(usize, u64, Bytes)>,
    ) -> Result<Option<Bytes>> {
        let (at, limit) = (header.at + header.front(), self.ring.limit());
        let (body, order) = (header.body as usize, lanes.order(header.pos));
        let mut reads: Vec<_> = order.iter().map(|_| None).collect();
        for copy in &mut self.copies {
            if let Some(index) = order.iter().position(|slot| *slot == copy.slot) {
                reads[index] = Some(copy.get(at, lanes.len(index, body) as u64, limit));
            }
        }
        let present = |read: &Option<_>| read.is_some();
        let there: Vec<bool> = reads.iter().map(present).collect();
        let mut found = join(reads.into_iter().flatten()).await.into_iter();
        // Wrong on a drive that has been there all the time: it was never answered.
        let (mut torn, mut failure) = (false, None);
        let mut columns = Vec::new();
        for (index, slot) in order.iter().enumerate() {
            let read = if there[index] { found.next() } else { None };
            columns.push(match read {
                Some(Ok(column)) if crc32c([&column[..]]) == header.checks.columns[index] => Some(column),
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
        let Some(joined) = lanes.join(&columns, body) else {
            let few = || Error::Drive {
                what: format!("too few of the drives that have journal batch {} are there", header.pos.0),
            };
            return if torn { Ok(None) } else { Err(failure.unwrap_or_else(few)) };
        };
        let mut whole = AlignedBuf::with_capacity(header.whole());
        whole.push(front);
        whole.push(&joined);
        let whole = Arc::new(whole).share(0..header.whole());
        if header.open(&whole, self.vault).is_none() {
            return Ok(None);
        }
        if columns.iter().any(Option::is_none) {
            let pages: Vec<&[u8]> = joined.chunks_exact(ALIGN).collect();
            let height = lanes.height(body);
            let mut parities = vec![0; PARITY * height];
            lanes.compute(&pages, &mut parities);
            for (index, slot) in order.iter().enumerate().filter(|(index, _)| columns[*index].is_none()) {
                let column = match index.checked_sub(lanes.data()) {
                    None => &joined[lanes.part(index, body)],
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
        let (members, returned) = {
            let journal = self.journal.lock();
            (journal.members, journal.returned)
        };
        let there = self.present().iter().fold(members, |set, member| set | 1 << member.slot);
        let copy = |slot| Copy {
            shelf: self,
            slot,
            is_copy: members >> slot & 1 == 1,
            window_at: 0,
            window: Bytes::new(),
        };
        let mut walk = Walk {
            copies: slots(there).map(copy).collect(),
            returned,
            vault: &self.vault,
            ring: Ring::new(self.plan.journal_bytes, tail, at),
            epoch,
            trailing_seal: None,
        };
        let mut batches = Vec::new();
        while let Some((header, bytes, lacking)) = walk.step().await? {
            if header.epoch >= self.epoch {
                // What this owner writes would not count any more.
                let (pos, epoch) = (header.pos.0, header.epoch);
                let what =
                    format!("journal record {pos} is by owner {epoch}, the labels know {}", self.epoch - 1);
                return Err(Error::Corrupt { what });
            }
            self.write_parts(lacking).await?;
            if header.seal {
                walk.epoch = header.epoch;
                walk.trailing_seal = Some(header.at);
                walk.ring.go_on_at(header.at + PAGE);
                continue;
            }
            walk.trailing_seal = None;
            walk.ring.push(&header);
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
            contents: crc32c([]),
            salt: self.salt,
            tag: [0; TAG],
            lanes: None,
            checks: Checks::default(),
        };
        let (members, page) = (self.journal.lock().members, seal.encode(&[]));
        self.write_parts(slots(members).map(|slot| (slot, at, page.clone())).collect()).await?;
        ring.go_on_at(at + PAGE);
        Ok(())
    }

    /// Writes what drives lack, durably. A drive that does not take it is put out while others stay.
    async fn write_parts(&self, parts: Vec<(usize, u64, Bytes)>) -> Result {
        let mut waits = Vec::new();
        for (slot, at, bytes) in parts {
            let mut from = 0;
            for (start, len) in Ring::parts(self.plan.journal_bytes, at, bytes.len() as u64) {
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
