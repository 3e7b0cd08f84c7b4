//! Buffers that are filled again and again: new memory has to be cleared, and lies in no cache.

use crate::AlignedBuf;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// Buffers that are kept, at most.
const MOST: usize = 8;

/// Bytes of a buffer that is kept, at most.
const LARGEST: usize = 256 << 10;

/// Buffers that were shared, to be filled again once nobody reads them.
#[derive(Default)]
pub struct Spares(Mutex<Vec<Arc<AlignedBuf>>>);

impl Spares {
    /// A buffer of `len` bytes: zeros, or what an earlier content left.
    pub fn take(&self, len: usize) -> AlignedBuf {
        let mut kept = self.0.lock();
        // The one used last, which a cache may still have.
        let free = kept.iter().rposition(|kept| Arc::strong_count(kept) == 1 && kept.capacity() >= len);
        let spare = free.and_then(|index| Arc::into_inner(kept.remove(index)));
        drop(kept);
        let mut buffer = spare.unwrap_or_else(|| AlignedBuf::with_capacity(len.next_power_of_two()));
        buffer.set_len(len);
        buffer
    }

    /// Shares all of a buffer, and takes it back when nobody has it any more.
    pub fn share(&self, buffer: AlignedBuf) -> Bytes {
        let (len, buffer) = (buffer.len(), Arc::new(buffer));
        if buffer.capacity() <= LARGEST {
            let mut kept = self.0.lock();
            if kept.len() == MOST {
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
