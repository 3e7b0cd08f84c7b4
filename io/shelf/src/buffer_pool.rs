//! Reuse of buffers: new memory has to be cleared by the system, and is in no cache.

use crate::AlignedBuf;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// Bytes of the buffers that are kept, all together.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Buffers that were shared, to be reused after the last reader drops them.
pub struct BufferPool {
    kept: Mutex<Vec<Arc<AlignedBuf>>>,
    kept_max: usize,
}

impl BufferPool {
    /// A pool that keeps up to `kept_max` buffers.
    pub fn new(kept_max: usize) -> Self {
        Self { kept: Mutex::default(), kept_max }
    }

    /// A buffer of `len` bytes: zeros, or what an earlier use left.
    pub fn take(&self, len: usize) -> AlignedBuf {
        let mut kept = self.kept.lock();
        // The one used last, which may still be in a cache.
        let free = kept.iter().rposition(|kept| Arc::strong_count(kept) == 1 && kept.capacity() >= len);
        let spare = free.and_then(|index| Arc::into_inner(kept.remove(index)));
        drop(kept);
        let mut buffer = spare.unwrap_or_else(|| AlignedBuf::with_capacity(len.next_power_of_two()));
        buffer.set_len(len);
        buffer
    }

    /// Shares all of a buffer, and keeps it for reuse.
    pub fn share(&self, buffer: AlignedBuf) -> Bytes {
        let (len, buffer) = (buffer.len(), Arc::new(buffer));
        let mut kept = self.kept.lock();
        kept.push(buffer.clone());
        let mut bytes: usize = kept.iter().map(|buffer| buffer.capacity()).sum();
        while kept.len() > self.kept_max || bytes > KEPT_BYTES_MAX {
            bytes -= kept.remove(0).capacity();
        }
        drop(kept);
        buffer.share(0..len)
    }
}

#[cfg(test)]
#[path = "buffer_pool_test.rs"]
mod tests;
