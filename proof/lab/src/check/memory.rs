//! A target in memory with selectable faults: the checker must find each fault, and report nothing without one.

use super::port::{Answer, Port, Request};
use crate::cdb::Exclusive;
use crate::host::Outcome;
use crate::seed::Seed;
use anyhow::{Result, bail};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_short;
use std::rc::Rc;

/// A fault of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Path 1 answers some reads from a cache that writes on other paths do not invalidate.
    StaleCache,
    /// A write is acknowledged and forgotten.
    LostWrite,
    /// A compare and write that is not atomic.
    TornCompare,
    /// A compare that fails without a change.
    FalseMiscompare,
    /// A write to the adjacent block.
    Misdirected,
    /// Path 1 ignores reservations.
    IgnoredReservation,
    /// A reservation conflict without a reservation.
    FalseConflict,
    /// A write without a response that takes effect after the loss of its path and nexus.
    LateWrite,
    /// A read with some bytes of another block.
    TornRead,
}

/// A target of one unit.
pub struct Memory {
    pub block_bytes: usize,
    pub blocks: BTreeMap<u64, Vec<u8>>,
    pub size: u64,
    fault: Fault,
    seed: Seed,
    keys: BTreeSet<usize>,
    reservation: Option<(usize, Exclusive)>,
    cache: BTreeMap<u64, Vec<u8>>,
    late: Vec<(u64, Vec<u8>)>,
}

/// A command in progress: its content, and the times of execution and response.
struct Pending {
    tag: u64,
    request: Request,
    carried_out: bool,
    compared: Option<bool>,
    outcome: Option<Outcome>,
}

/// A path to the target.
pub struct MemoryPort {
    target: Rc<RefCell<Memory>>,
    path: usize,
    host: usize,
    pending: Vec<Pending>,
    pub lost: Rc<RefCell<bool>>,
}

impl Memory {
    pub fn new(block_bytes: usize, size: u64, fault: Fault, seed: u64) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            block_bytes,
            blocks: BTreeMap::new(),
            size,
            fault,
            seed: Seed::new(seed),
            keys: BTreeSet::new(),
            reservation: None,
            cache: BTreeMap::new(),
            late: Vec::new(),
        }))
    }

    pub fn read(&self, lba: u64) -> Vec<u8> {
        self.blocks.get(&lba).cloned().unwrap_or_else(|| vec![0; self.block_bytes])
    }

    /// Executes late writes now.
    pub fn deliver_late(&mut self) {
        for (lba, block) in std::mem::take(&mut self.late) {
            self.blocks.insert(lba, block);
        }
    }

    fn strikes(&mut self, fault: Fault, one_in: u64) -> bool {
        self.fault == fault && self.seed.one_in(one_in)
    }

    /// Performs a command; `None` if the second half of a compare and write follows later.
    fn perform(&mut self, path: usize, host: usize, pending: &mut Pending) -> Option<Outcome> {
        let writes = !matches!(pending.request, Request::Read { .. });
        let is_data = !matches!(
            pending.request,
            Request::Register { .. } | Request::Reserve { .. } | Request::Release { .. }
        );
        let excluded = self
            .reservation
            .is_some_and(|(holder, kind)| holder != host && (writes || kind == Exclusive::Access));
        if is_data
            && (excluded && !(self.fault == Fault::IgnoredReservation && path == 1)
                || self.strikes(Fault::FalseConflict, 300))
        {
            return Some(Outcome::Conflict);
        }
        if self.seed.one_in(40) {
            return Some(Outcome::Busy);
        }
        match pending.request.clone() {
            Request::Read { lba, blocks } => Some(self.read_run(path, lba, blocks)),
            Request::Write { lba, data } => Some(self.write(lba, &data)),
            Request::Zero { lba, blocks } => {
                Some(self.write(lba, &vec![0; blocks as usize * self.block_bytes]))
            }
            Request::CompareAndWrite { lba, data } => {
                let (compare, replacement) = data.split_at(self.block_bytes);
                let equal = match pending.compared {
                    Some(equal) => equal,
                    None => self.read(lba) == compare && !self.strikes(Fault::FalseMiscompare, 30),
                };
                if pending.compared.is_none() && self.fault == Fault::TornCompare {
                    pending.compared = Some(equal);
                    return None;
                }
                Some(if equal { self.write(lba, replacement) } else { Outcome::Miscompare })
            }
            Request::Register { key, .. } => {
                match key {
                    0 => self.keys.remove(&host),
                    _ => self.keys.insert(host),
                };
                Some(Outcome::Good(Vec::new()))
            }
            Request::Reserve { kind, .. } => {
                self.reservation = Some((host, kind));
                Some(Outcome::Good(Vec::new()))
            }
            Request::Release { .. } => {
                self.reservation = None;
                Some(Outcome::Good(Vec::new()))
            }
        }
    }

    fn read_run(&mut self, path: usize, lba: u64, blocks: u32) -> Outcome {
        if lba + u64::from(blocks) > self.size {
            return Outcome::OutOfRange;
        }
        let mut data = Vec::new();
        let stale = path == 1 && self.strikes(Fault::StaleCache, 20);
        for lba in lba..lba + u64::from(blocks) {
            let now = self.read(lba);
            let cached = self.cache.entry(lba).or_insert_with(|| now.clone()).clone();
            data.extend(if stale { cached } else { now });
        }
        if self.strikes(Fault::TornRead, 50) {
            let other = self.read(lba + 1);
            data[256..300].copy_from_slice(&other[256..300]);
        }
        Outcome::Good(data)
    }

    fn write(&mut self, lba: u64, data: &[u8]) -> Outcome {
        let blocks = (data.len() / self.block_bytes) as u64;
        if lba + blocks > self.size {
            return Outcome::OutOfRange;
        }
        if self.strikes(Fault::LostWrite, 50) {
            return Outcome::Good(Vec::new());
        }
        let beside = u64::from(self.strikes(Fault::Misdirected, 50));
        for (lba, block) in (lba + beside..).zip(data.chunks(self.block_bytes)) {
            self.blocks.insert(lba, block.to_vec());
        }
        Outcome::Good(Vec::new())
    }
}

impl MemoryPort {
    pub fn new(target: &Rc<RefCell<Memory>>, path: usize, host: usize) -> Self {
        Self { target: target.clone(), path, host, pending: Vec::new(), lost: Rc::default() }
    }
}

impl Port for MemoryPort {
    fn submit(&mut self, tag: u64, _: usize, request: Request) -> Result<()> {
        self.pending.push(Pending { tag, request, carried_out: false, compared: None, outcome: None });
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.pending.len()
    }

    fn pollfd(&self) -> Option<libc::pollfd> {
        None
    }

    /// Executes some commands, and responds to some executed ones, in any order.
    fn service(&mut self, _: c_short, answers: &mut Vec<Answer>) -> Result<()> {
        let mut target = self.target.borrow_mut();
        if *self.lost.borrow() {
            let unanswered = self.pending.iter().filter(|it| !it.carried_out);
            for it in unanswered {
                if let (Request::Write { lba, data }, Fault::LateWrite) = (&it.request, target.fault) {
                    let block = data[..target.block_bytes].to_vec();
                    target.late.push((*lba, block));
                }
            }
            bail!("the path is lost");
        }
        for _ in 0..3 {
            let count = self.pending.len() as u64;
            if count == 0 {
                break;
            }
            let at = target.seed.range(0, count) as usize;
            let pending = &mut self.pending[at];
            if pending.carried_out {
                let pending = self.pending.swap_remove(at);
                answers.push(Answer { tag: pending.tag, outcome: pending.outcome });
            } else {
                pending.outcome = target.perform(self.path, self.host, pending);
                pending.carried_out = pending.outcome.is_some();
            }
        }
        Ok(())
    }
}
