//! What the shelf needs of a drive, and a drive in memory.

use crate::{ALIGN, AlignedBuf, Done, Error};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// One drive: an array of bytes, addressed in whole pages of 4096.
///
/// Offsets, lengths and the memory of every piece are multiples of [`ALIGN`]. Requests under way at the same time
/// have no order among them; who needs one waits for the answer. [`Done`] may be called before the method returns.
pub trait Drive: Send + Sync {
    /// What a person calls it: its path.
    fn name(&self) -> &str;

    /// Its size in bytes, a multiple of [`ALIGN`].
    fn bytes(&self) -> u64;

    /// Reads `len` bytes at `offset` into aligned memory.
    fn read(&self, offset: u64, len: u32, done: Done<Bytes>);

    /// Writes the pieces one behind the other at `offset`. With `durable` the answer means that these bytes survive
    /// a power cut; without, only a later [`Drive::sync`] does. A page may be torn by a power cut before that.
    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>);

    /// Answers when every write answered before the call is durable.
    fn sync(&self, done: Done<()>);

    /// Makes sure that writes to `len` bytes at `offset` will not end with [`Error::NoSpace`], on a drive that does not
    /// have all of its space.
    fn allocate(&self, offset: u64, len: u64, done: Done<()>) {
        _ = (offset, len);
        done(Ok(()));
    }

    /// What it gets its space from as it is written; none when all of its space is its own.
    fn backing(&self) -> Option<Backing> {
        None
    }

    /// Gives `len` bytes at `offset` back; what a read finds there afterwards is arbitrary. Only a hint: a drive that
    /// can't do it answers that it is done.
    fn discard(&self, offset: u64, len: u64, done: Done<()>);
}

/// The file system that a sparse file gets its space from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// Tells file systems apart on this machine.
    pub file_system: u64,
    /// Free bytes of the file system.
    pub free: u64,
    /// Its size in bytes.
    pub total: u64,
    /// Bytes that the drive has of it now.
    pub allocated: u64,
}

/// A drive in memory, for tests: every request is done before its method returns, and is durable.
pub struct MemDrive {
    name: String,
    memory: Mutex<Vec<u8>>,
    bytes: u64,
}

impl MemDrive {
    /// A drive of `bytes` zeros, rounded down to whole pages.
    pub fn new(name: impl Into<String>, bytes: u64) -> Arc<Self> {
        let bytes = bytes / ALIGN as u64 * ALIGN as u64;
        let memory = Mutex::new(vec![0; bytes as usize]);
        Arc::new(Self { name: name.into(), memory, bytes })
    }

    /// Lets `change` see and alter the bytes of the medium.
    pub fn with<T>(&self, change: impl FnOnce(&mut [u8]) -> T) -> T {
        change(&mut self.memory.lock())
    }

    fn range(&self, offset: u64, len: u64) -> Result<std::ops::Range<usize>, Error> {
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(offset as usize..end as usize),
            _ => {
                Err(Error::Drive { what: format!("{}: {len} bytes at {offset}: beyond its end", self.name) })
            }
        }
    }
}

impl Drive for MemDrive {
    fn name(&self) -> &str {
        &self.name
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        let read = self.range(offset, u64::from(len)).map(|range| {
            let mut buffer = AlignedBuf::with_capacity(len as usize);
            buffer.push(&self.memory.lock()[range]);
            Arc::new(buffer).share(0..len as usize)
        });
        done(read);
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, _durable: bool, done: Done<()>) {
        let written = self.range(offset, pieces.iter().map(|piece| piece.len() as u64).sum()).map(|range| {
            let mut at = range.start;
            let mut memory = self.memory.lock();
            for piece in &pieces {
                memory[at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            }
        });
        done(written);
    }

    fn sync(&self, done: Done<()>) {
        done(Ok(()));
    }

    fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        done(self.range(offset, len).map(|range| self.memory.lock()[range].fill(0)));
    }
}
