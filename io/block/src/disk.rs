//! The trait of block devices: everything that front ends can export implements it.

use crate::done::Note;
use crate::{Error, Op, Reply, Result};
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The identity of a disk; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DiskId(pub u128);

/// Size and block length of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Logical block length in bytes: 512 or 4096.
    pub block_bytes: u32,
    /// Capacity in logical blocks.
    pub blocks: u64,
}

impl Geometry {
    /// Capacity in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks * u64::from(self.block_bytes)
    }
}

/// Space used by a disk and its pool, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Mapped by the host on this disk.
    pub mapped: u64,
    /// Physical space in use by everything that shares the pool of this disk.
    pub pool_used: u64,
    /// Physical space of that pool.
    pub pool_total: u64,
}

/// A disk: blocks that can be read, written, unmapped and copied.
///
/// Operations are linearizable: each takes effect atomically between the call of [`Disk::execute`] and its completion.
/// Dropping the [`Pending`] result cancels the operation: either it has taken effect completely before the drop
/// returns, or it never does. Operations that are outstanding at the same time are not ordered.
pub trait Disk: Send + Sync {
    /// The identity; never changes.
    fn id(&self) -> DiskId;

    /// Size and block length. The size may change during the disk's life.
    fn geometry(&self) -> Geometry;

    /// Current space usage.
    fn space(&self) -> Space;

    /// True if the disk is read-only: writes fail with [`Error::ReadOnly`](crate::Error::ReadOnly). May change during
    /// the disk's life.
    fn is_read_only(&self) -> bool {
        false
    }

    /// The state that the last [`Op::SaveState`] stored; empty if there was none.
    fn state(&self) -> Bytes;

    /// Performs an operation. Never blocks: work that needs a device is in the returned future. A pending operation
    /// makes progress only after it has been polled once, so that operations of one batch share one commit.
    fn execute(&self, op: Op) -> Pending;

    /// Performs an operation, with its note if it has one.
    fn execute_with(&self, op: Op, note: Option<Note>) -> Pending {
        match note {
            Some(note) => self.execute_noted(op, note),
            None => self.execute(op),
        }
    }

    /// Performs an operation that is a command's, or a part of one, and notes that in one step with its effect: after an error
    /// nothing is noted. What is noted is found in the [`Ledger`](crate::Ledger) of the disk's store. A disk of a store without
    /// one performs nothing.
    fn execute_noted(&self, op: Op, note: Note) -> Pending {
        let _ = (op, note);
        Pending::ready(Err(Error::Malformed("the store of this disk notes no commands")))
    }
}

/// The result of an operation: available at once (a read from memory), or later.
pub enum Pending {
    /// The result; taken by the first poll.
    Ready(Option<Result>),
    /// A result to wait for.
    Later(Pin<Box<dyn Future<Output = Result> + Send>>),
}

impl Pending {
    /// A result that is available at once.
    pub fn ready(result: Result) -> Self {
        Self::Ready(Some(result))
    }

    /// A result that a future will return.
    pub fn later(future: impl Future<Output = Result> + Send + 'static) -> Self {
        Self::Later(Box::pin(future))
    }

    /// An operation that is done.
    pub fn done() -> Self {
        Self::ready(Ok(Reply::Done))
    }
}

impl Future for Pending {
    type Output = Result;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result> {
        match &mut *self {
            Pending::Ready(result) => Poll::Ready(result.take().expect("a result is taken once")),
            Pending::Later(future) => future.as_mut().poll(cx),
        }
    }
}
