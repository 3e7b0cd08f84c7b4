//! Fused operations (NVM Express Base 2.0 clause 3.4.2): the halves of Compare and Write of one queue, paired by the order in
//! which they came, until both have their data.
//!
//! Hosts send other commands between the halves, although the standard wants them adjacent; the first half waits for the next
//! second half.

use crate::execute::{COMPARE, WRITE};
use crate::sqe::Sqe;
use crate::status::Status;
use block::Data;

/// One command of a fused operation.
pub(crate) struct Half {
    pub(crate) sqe: Sqe,
    /// The memory in bytes that it was charged.
    pub(crate) charge: u64,
    /// Its data, or why it has none.
    data: Option<Result<Data, Status>>,
}

/// Two halves whose data are here.
pub(crate) struct Pair {
    pub(crate) first: Half,
    pub(crate) second: Half,
}

impl Half {
    pub(crate) fn new(sqe: Sqe, charge: u64) -> Self {
        Self { sqe, charge, data: None }
    }

    pub(crate) fn cid(&self) -> u16 {
        self.sqe.cid()
    }

    /// Whether two halves belong together: the same blocks of the same namespace.
    fn matches(&self, second: &Half) -> bool {
        let of = |half: &Half| (half.sqe.nsid(), half.sqe.slba(), half.sqe.blocks());
        self.sqe.opcode() == COMPARE && second.sqe.opcode() == WRITE && of(self) == of(second)
    }
}

impl Pair {
    /// The data of both, or the status of each.
    pub(crate) fn data(&self) -> Result<(Data, Data), (Status, Status)> {
        match (&self.first.data, &self.second.data) {
            (Some(Ok(compare)), Some(Ok(write))) => Ok((compare.clone(), write.clone())),
            (Some(Err(status)), _) => Err((*status, Status::FAILED_FUSED)),
            (_, Some(Err(status))) => Err((Status::FAILED_FUSED, *status)),
            (None, _) | (_, None) => Err((Status::INTERNAL_ERROR, Status::INTERNAL_ERROR)),
        }
    }
}

/// The halves of one queue.
#[derive(Default)]
pub(crate) struct Fused {
    /// A first half without its second.
    open: Option<Half>,
    pairs: Vec<Pair>,
}

impl Fused {
    /// A first half came. Returns the one before it, if that has no second half.
    #[must_use]
    pub(crate) fn first(&mut self, half: Half) -> Option<Half> {
        self.open.replace(half)
    }

    /// A second half came.
    ///
    /// # Errors
    /// The halves that are without a counterpart.
    pub(crate) fn second(&mut self, second: Half) -> Result<(), Vec<Half>> {
        match self.open.take() {
            Some(first) if first.matches(&second) => {
                self.pairs.push(Pair { first, second });
                Ok(())
            }
            Some(first) => Err(vec![first, second]),
            None => Err(vec![second]),
        }
    }

    /// The data of a half, or why there is none. Returns the pair if it is complete.
    pub(crate) fn put(&mut self, cid: u16, data: Result<Data, Status>) -> Option<Pair> {
        let halves = self.pairs.iter_mut().flat_map(|pair| [&mut pair.first, &mut pair.second]);
        halves.chain(self.open.as_mut()).filter(|half| half.cid() == cid).for_each(|half| {
            half.data = Some(data.clone());
        });
        let complete = |pair: &Pair| pair.first.data.is_some() && pair.second.data.is_some();
        let index = self.pairs.iter().position(complete)?;
        Some(self.pairs.remove(index))
    }

    pub(crate) fn contains(&self, cid: u16) -> bool {
        self.halves().any(|half| half.cid() == cid)
    }

    /// Number of halves that have arrived.
    pub(crate) fn len(&self) -> usize {
        self.halves().count()
    }

    /// The memory in bytes that they were charged.
    pub(crate) fn charge(&self) -> u64 {
        self.halves().map(|half| half.charge).sum()
    }

    fn halves(&self) -> impl Iterator<Item = &Half> {
        self.pairs.iter().flat_map(|pair| [&pair.first, &pair.second]).chain(self.open.as_ref())
    }
}
