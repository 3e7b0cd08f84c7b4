//! A drive in memory, for tests and measurements without devices.

use crate::{ALIGN, AlignedBuf, Done, Drive, Error};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// A drive in memory: every request is done before its method returns, and is durable.
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
