//! Reuse of buffers: new memory has to be cleared by the system, and is in no cache.

use crate::AlignedBuf;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// Buffers that are kept.
const MAX_KEPT_BUFFERS: usize = 8;

/// Largest buffer that is kept.
const MAX_KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Buffers that were shared, to be reused after the last reader drops them.
#[derive(Default)]
pub struct BufferPool(Mutex<Vec<Arc<AlignedBuf>>>);

impl BufferPool {
    /// A buffer of `len` bytes: zeros, or what an earlier use left.
    pub fn take(&self, len: usize) -> AlignedBuf {
        let mut kept = self.0.lock();
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
        if buffer.capacity() <= MAX_KEPT_BUFFER_BYTES {
            let mut kept = self.0.lock();
            if kept.len() == MAX_KEPT_BUFFERS {
                kept.remove(0);
            }
            kept.push(buffer.clone());
        }
        buffer.share(0..len)
    }
}

#[cfg(test)]
#[path = "buffer_pool_test.rs"]
mod tests;
