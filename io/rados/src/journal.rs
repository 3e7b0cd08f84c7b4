//! The journal of one owner: batches, dealt in turn over lanes, each a sequence of objects.
//!
//! Object `jnl.<domain>.<epoch>.<lane>.<number>` is created by the first batch in it and closed when it is full. A lane
//! has one operation under way, so its objects never have a gap. A batch is acknowledged when it and all before it are
//! durable.

use crate::objects::{Name, Objects, Operation, Pool, Step};
use crate::owned::{OWNER, hex, write_failure};
use crate::queue::Queue;
use crate::record::{LANES, Term, batch_bytes};
use bytes::Bytes;
use parking_lot::Mutex;
use shelf::{Done, Error, JournalPos, Result};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The object of a lane.
pub fn object_name(domain: u16, epoch: u64, lane: usize, number: u64) -> Name {
    Name { pool: Pool::Meta, name: format!("jnl.{domain:04x}.{epoch:016x}.{lane}.{number:016x}") }
}

/// Epoch, lane and number of a journal object of this domain.
pub fn parse_name(name: &str, domain: u16) -> Option<(u64, usize, u64)> {
    let rest = name.strip_prefix(&format!("jnl.{domain:04x}."))?;
    let mut parts = rest.split('.');
    let epoch = u64::from_str_radix(parts.next()?, 16).ok()?;
    let lane = parts.next()?.parse().ok().filter(|lane| *lane < LANES)?;
    let number = u64::from_str_radix(parts.next()?, 16).ok()?;
    parts.next().is_none().then_some((epoch, lane, number))
}

/// The journal as its owner appends to it.
pub struct Journal {
    domain: u16,
    epoch: u64,
    /// Bytes after which an object is closed.
    object_bytes: u64,
    capacity: u64,
    state: Mutex<State>,
    lanes: [Lane; LANES],
}

#[derive(Default)]
struct Lane {
    queue: Queue,
    writes: Mutex<VecDeque<Write>>,
}

struct Write {
    pos: JournalPos,
    name: Name,
    /// Zero for the first batch of an object, which creates it.
    offset: u64,
    record: Bytes,
}

struct State {
    next: JournalPos,
    /// Batches under way, and whether each is durable.
    waiting: BTreeMap<JournalPos, (Done<JournalPos>, bool)>,
    /// Batches that are not trimmed, with their bytes.
    untrimmed: VecDeque<(JournalPos, u64)>,
    /// Their bytes together.
    untrimmed_bytes: u64,
    lanes: [LaneState; LANES],
    /// The first batch of this owner.
    first: JournalPos,
    stopped: Option<Error>,
}

#[derive(Clone, Default)]
struct LaneState {
    object: u64,
    offset: u64,
    /// Objects that exist, with the last batch in each.
    objects: VecDeque<(u64, JournalPos)>,
}

impl Journal {
    /// An empty journal of an owner whose first batch has number `next`. `untrimmed` are batches of older owners.
    pub fn new(
        (domain, epoch): (u16, u64),
        (capacity, object_bytes): (u64, u64),
        next: JournalPos,
        untrimmed: VecDeque<(JournalPos, u64)>,
    ) -> Self {
        let state = State {
            next,
            waiting: BTreeMap::new(),
            untrimmed_bytes: untrimmed.iter().map(|(_, bytes)| bytes).sum(),
            untrimmed,
            lanes: Default::default(),
            first: next,
            stopped: None,
        };
        Self { domain, epoch, object_bytes, capacity, state: Mutex::new(state), lanes: Default::default() }
    }

    /// Bytes of untrimmed batches before `pos`.
    pub fn taken(&self, pos: JournalPos) -> u64 {
        let state = self.state.lock();
        state.untrimmed.iter().take_while(|(batch, _)| *batch < pos).map(|(_, bytes)| bytes).sum()
    }

    /// Appends the batch that `encode` makes of its number and of the newest acknowledged one. `head` and `body` are the
    /// lengths of its parts in bytes.
    pub fn append(
        self: &Arc<Self>,
        objects: &Arc<dyn Objects>,
        (head, body): (usize, usize),
        encode: impl FnOnce(JournalPos, JournalPos) -> Bytes,
        done: Done<JournalPos>,
    ) {
        let refused = {
            let mut state = self.state.lock();
            let bytes = batch_bytes(head, body);
            match &state.stopped {
                Some(error) => error.clone(),
                None if state.untrimmed_bytes + bytes > self.capacity => Error::JournalFull,
                None => {
                    let lane = self.enqueue(&mut state, bytes, encode, done);
                    drop(state);
                    let (journal, objects) = (self.clone(), objects.clone());
                    self.lanes[lane].queue.push(move || Box::pin(journal.write(lane, objects)));
                    return;
                }
            }
        };
        done(Err(refused));
    }

    fn enqueue(
        &self,
        state: &mut State,
        bytes: u64,
        encode: impl FnOnce(JournalPos, JournalPos) -> Bytes,
        done: Done<JournalPos>,
    ) -> usize {
        let pos = state.next;
        state.next = JournalPos(pos.0 + 1);
        state.untrimmed.push_back((pos, bytes));
        state.untrimmed_bytes += bytes;
        let acknowledged = state.waiting.keys().next().map_or(pos.0 - 1, |oldest| oldest.0 - 1);
        state.waiting.insert(pos, (done, false));
        let number = (pos.0 % LANES as u64) as usize;
        let lane = &mut state.lanes[number];
        if lane.offset > 0 && lane.offset + bytes > self.object_bytes {
            (lane.object, lane.offset) = (lane.object + 1, 0);
        }
        if lane.offset == 0 {
            lane.objects.push_back((lane.object, pos));
        }
        if let Some((_, last)) = lane.objects.back_mut() {
            *last = pos;
        }
        let name = object_name(self.domain, self.epoch, number, lane.object);
        let (offset, record) = (lane.offset, encode(pos, JournalPos(acknowledged)));
        lane.offset += bytes;
        self.lanes[number].writes.lock().push_back(Write { pos, name, offset, record });
        number
    }

    async fn write(self: Arc<Self>, lane: usize, objects: Arc<dyn Objects>) {
        let write = self.lanes[lane].writes.lock().pop_front();
        let Some(Write { pos, name, offset, record }) = write else { return };
        if self.state.lock().stopped.is_some() {
            return;
        }
        let owner = hex(self.epoch);
        let mut steps = match offset {
            0 => vec![Step::CreateExclusive, Step::set(OWNER, owner)],
            _ => vec![Step::equal(OWNER, owner)],
        };
        steps.push(Step::Write(offset, vec![record]));
        match objects.operate(&name, Operation { steps, force: true }).await {
            Ok(()) => self.durable(pos),
            // Final: another owner may have taken the store, or bytes are lost that were promised.
            Err(error) => self.stop(write_failure(&name, &error, self.epoch)),
        }
    }

    /// Acknowledges what is durable with all before it.
    fn durable(&self, pos: JournalPos) {
        let mut acknowledged = Vec::new();
        {
            let mut state = self.state.lock();
            if let Some((_, durable)) = state.waiting.get_mut(&pos) {
                *durable = true;
            }
            while let Some(first) = state.waiting.first_entry().filter(|first| first.get().1) {
                let (pos, (done, _)) = first.remove_entry();
                acknowledged.push((pos, done));
            }
        }
        acknowledged.into_iter().for_each(|(pos, done)| done(Ok(pos)));
    }

    /// Ends every append, now and later, with this error.
    pub fn stop(&self, error: Error) {
        let waiting = {
            let mut state = self.state.lock();
            let error = state.stopped.get_or_insert(error).clone();
            std::mem::take(&mut state.waiting).into_values().map(move |(done, _)| (done, error.clone()))
        };
        waiting.for_each(|(done, error)| done(Err(error)));
    }

    /// Fails if an append has failed.
    pub fn check_running(&self) -> Result {
        self.state.lock().stopped.clone().map_or(Ok(()), Err)
    }

    /// The entry of this owner for a superblock that trims the journal before `from`.
    pub fn term(&self, from: JournalPos) -> Term {
        let state = self.state.lock();
        let first_object = std::array::from_fn(|lane| {
            let lane = &state.lanes[lane];
            let kept = lane.objects.iter().find(|(_, last)| *last >= from);
            kept.map_or(lane.object, |(object, _)| *object)
        });
        Term { epoch: self.epoch, from: state.first, first_object }
    }

    /// Trims batches before `from`, once a superblock has this entry for it, and returns the objects that are unused. The
    /// entry counts, not what the lanes look like now: a lane may have begun another object since.
    pub fn trim(&self, from: JournalPos, term: &Term) -> Vec<Name> {
        let mut state = self.state.lock();
        let trimmed = state.untrimmed.iter().take_while(|(pos, _)| *pos < from).count();
        let bytes: u64 = state.untrimmed.drain(..trimmed).map(|(_, bytes)| bytes).sum();
        state.untrimmed_bytes -= bytes;
        let mut unused = Vec::new();
        for (number, (lane, first)) in state.lanes.iter_mut().zip(term.first_object).enumerate() {
            let count = lane.objects.iter().take_while(|(object, _)| *object < first).count();
            let objects = lane.objects.drain(..count);
            unused.extend(objects.map(|(object, _)| object_name(self.domain, self.epoch, number, object)));
        }
        unused
    }
}
