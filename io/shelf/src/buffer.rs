//! Page-aligned buffers: memory that direct I/O can read and write without a copy.

use crate::ALIGN;
use bytes::Bytes;
use std::sync::Arc;

/// A buffer that devices can read and write directly: its start and capacity are aligned to 4096 bytes.
/// The journal's and the log's writers fill it once; afterwards it is shared, never changed.
pub struct AlignedBuf {
    memory: Box<[Page]>,
    len: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; ALIGN]);

impl AlignedBuf {
    /// An empty buffer that can hold `capacity` bytes, rounded up to 4096.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { memory: zeroed_pages(capacity.div_ceil(ALIGN)), len: 0 }
    }

    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        Self { len, ..Self::with_capacity(len) }
    }

    /// Bytes that it can hold.
    pub fn capacity(&self) -> usize {
        self.memory.len() * ALIGN
    }

    /// Adds bytes at the end and returns the offset of the first.
    ///
    /// # Panics
    /// When they do not fit: the caller checks [`AlignedBuf::capacity`] first.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let at = self.len;
        assert!(
            at + bytes.len() <= self.capacity(),
            "{} more bytes after {at} of {}",
            bytes.len(),
            self.capacity()
        );
        self.len += bytes.len();
        self[at..].copy_from_slice(bytes);
        at
    }

    /// Makes it `len` bytes long; new bytes are zero or left from earlier, longer contents.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity());
        self.len = len;
    }

    /// Shares `range` of the buffer as [`Bytes`] without a copy; the buffer lives as long as they do.
    pub fn share(self: &Arc<Self>, range: std::ops::Range<usize>) -> Bytes {
        Bytes::from_owner(Shared(self.clone())).slice(range)
    }
}

impl std::ops::Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `Page` is a plain array of bytes without padding, and `len` never exceeds the pages' bytes.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.len) }
    }
}

impl std::ops::DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the buffer is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.len) }
    }
}

/// Pages of zeros. The system provides large allocations already zeroed, so they are not zeroed again.
fn zeroed_pages(count: usize) -> Box<[Page]> {
    let layout = std::alloc::Layout::array::<Page>(count).expect("the size fits the address space");
    if layout.size() == 0 {
        return Box::default();
    }
    // SAFETY: the layout is not empty, and is that of a boxed slice of `count` pages. A page of zeros is valid.
    unsafe {
        let memory = std::alloc::alloc_zeroed(layout);
        if memory.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory.cast(), count))
    }
}

struct Shared(Arc<AlignedBuf>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
