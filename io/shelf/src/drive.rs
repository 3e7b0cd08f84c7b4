//! The block device under a store that is made of drives.
//!
//! It is part of the contract because drives come and go while the array runs (see [`Drives`](crate::pool::Drives)); a
//! store without drives does not use it.

use crate::Done;
use bytes::Bytes;

/// A block device: an array of bytes, addressed in whole pages of 4096.
///
/// Offsets, lengths and the memory of every piece are multiples of [`ALIGN`](crate::ALIGN). Requests in flight at the
/// same time are not ordered; a caller that needs an order waits for the completion. [`Done`] may be called before the
/// method returns.
pub trait Drive: Send + Sync {
    /// Its path.
    fn name(&self) -> &str;

    /// Its size in bytes, a multiple of [`ALIGN`](crate::ALIGN).
    fn bytes(&self) -> u64;

    /// Reads `len` bytes at `offset` into aligned memory.
    fn read(&self, offset: u64, len: u32, done: Done<Bytes>);

    /// Writes the pieces, concatenated, at `offset`. If `durable`, completion means that these bytes survive a power cut;
    /// otherwise they do after a later [`Drive::sync`]. A power cut before that may tear a page.
    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>);

    /// Completes when every write that was completed before the call is durable.
    fn sync(&self, done: Done<()>);

    /// Reserves space, so that writes to `len` bytes at `offset` can't end with [`Error::NoSpace`](crate::Error::NoSpace)
    /// on a thin-provisioned drive.
    fn allocate(&self, offset: u64, len: u64, done: Done<()>) {
        _ = (offset, len);
        done(Ok(()));
    }

    /// The file system that a thin-provisioned drive allocates from; `None` if the drive is fully provisioned.
    fn backing(&self) -> Option<Backing> {
        None
    }

    /// Deallocates `len` bytes at `offset`; reads there return arbitrary data afterwards. Only a hint: a drive that
    /// does not support it completes without effect.
    fn discard(&self, offset: u64, len: u64, done: Done<()>);

    /// Performs a step of a persistent reservation. False if the drive refuses it because of keys or of another holder
    /// (RESERVATION CONFLICT): nothing has changed. Both outlast power cuts.
    ///
    /// While a drive is reserved, a write, a sync or a discard of who is not registered ends with
    /// [`Error::Fenced`](crate::Error::Fenced) and has no effect; everyone reads.
    fn reserve(&self, step: ReservationStep, done: Done<bool>) {
        _ = step;
        done(Err(crate::Error::Unusable(format!("{} has no persistent reservations", self.name()))));
    }
}

/// A step of a persistent reservation of a drive. Keys are not zero. The drive knows who asks: the port of the server, or its
/// NVMe host identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationStep {
    /// Changes nothing; succeeds if who asks is registered under this key.
    Probe {
        /// The key.
        key: u64,
    },
    /// Registers who asks under a key, in place of one that it had.
    Register {
        /// The new key.
        key: u64,
    },
    /// Reserves the drive for all that are registered (Write Exclusive, Registrants Only). Also succeeds for who holds the
    /// reservation.
    Reserve {
        /// The key of who asks.
        key: u64,
    },
    /// Removes the registrations under another key, takes the reservation over if one of these holds it, and aborts their
    /// commands: once it has succeeded, no write of theirs takes effect any more. Refused if there are none.
    PreemptAndAbort {
        /// The key of who asks.
        key: u64,
        /// The key of the others.
        victim: u64,
    },
    /// Removes the reservation and all registrations.
    Clear {
        /// The key of who asks.
        key: u64,
    },
}

/// The file system that a sparse file allocates from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// Distinguishes file systems on this machine.
    pub file_system: u64,
    /// Free bytes of the file system.
    pub free: u64,
    /// Its size in bytes.
    pub total: u64,
    /// Bytes that the drive has allocated of it now.
    pub allocated: u64,
}
