//! Page-aligned buffers: memory that direct I/O can read and write without a copy.

use bytes::Bytes;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Alignment in bytes of every offset, length and buffer that a device sees.
pub const ALIGN: usize = 4096;

/// A buffer that devices can read and write directly: its start and capacity are aligned to 4096 bytes.
/// The journal's and the log's writers fill it once; afterwards it is shared, never changed. Memory that is about to be
/// overwritten is not cleared first.
pub struct AlignedBuf {
    memory: Box<[MaybeUninit<Page>]>,
    len: usize,
    /// Bytes from the start that have a value; at least `len`.
    initialized: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; ALIGN]);

impl AlignedBuf {
    /// An empty buffer that can hold `capacity` bytes, rounded up to 4096.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { memory: Box::new_uninit_slice(capacity.div_ceil(ALIGN)), len: 0, initialized: 0 }
    }

    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        let memory = zeroed_pages(len.div_ceil(ALIGN));
        Self { initialized: size_of_val(&*memory), memory, len }
    }

    /// Bytes that it can hold.
    pub fn capacity(&self) -> usize {
        size_of_val(&*self.memory)
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
        // SAFETY: the memory after `len` has room for them, as was checked, and has no other owner.
        unsafe {
            let spare = self.spare().as_mut_ptr().cast::<u8>();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), spare, bytes.len());
            self.set_filled(at + bytes.len());
        }
        at
    }

    /// Makes it `len` bytes long; new bytes are zero or left from earlier, longer contents.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity());
        if len > self.initialized {
            let fresh = len - self.initialized;
            self.len = self.initialized;
            self.spare()[..fresh].fill(MaybeUninit::new(0));
            self.initialized = len;
        }
        self.len = len;
    }

    /// The memory after the contents, for a device that fills it.
    pub fn spare(&mut self) -> &mut [MaybeUninit<u8>] {
        let (memory, len, capacity) = (self.memory.as_mut_ptr(), self.len, self.capacity());
        // SAFETY: `len` never exceeds the capacity, and bytes without a value may have any.
        unsafe { std::slice::from_raw_parts_mut(memory.cast::<MaybeUninit<u8>>().add(len), capacity - len) }
    }

    /// Makes it `len` bytes long after spare memory was filled.
    ///
    /// # Safety
    /// The first `len` bytes have been written.
    pub unsafe fn set_filled(&mut self, len: usize) {
        assert!(len <= self.capacity());
        self.len = len;
        self.initialized = self.initialized.max(len);
    }

    /// Shares `range` of the buffer as [`Bytes`] without a copy; the buffer lives as long as they do.
    pub fn share(self: &Arc<Self>, range: std::ops::Range<usize>) -> Bytes {
        Bytes::from_owner(Shared(self.clone())).slice(range)
    }
}

impl std::ops::Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `Page` is a plain array of bytes without padding, and the first `len` bytes have values.
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
fn zeroed_pages(count: usize) -> Box<[MaybeUninit<Page>]> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_by_zeros_or_by_what_it_had() {
        let mut buffer = AlignedBuf::with_capacity(ALIGN + 1);
        assert_eq!((buffer.len(), buffer.capacity()), (0, 2 * ALIGN));
        assert_eq!(buffer.push(&[7; 10]), 0);
        buffer.set_len(20);
        assert_eq!(buffer[..], [[7; 10], [0; 10]].concat());
        assert_eq!(buffer.push(&[9; 5]), 20);
        buffer.set_len(2);
        buffer.set_len(30);
        assert_eq!(buffer[..], [&[7; 10][..], &[0; 10], &[9; 5], &[0; 5]].concat());
        buffer.set_len(0);
        buffer.push(&[1]);
        buffer.set_len(2 * ALIGN);
        assert!(buffer.starts_with(&[1, 7, 7]) && buffer[30..].iter().all(|byte| *byte == 0));
        assert!(buffer.as_ptr().addr().is_multiple_of(ALIGN));
        assert_eq!(AlignedBuf::zeroed(ALIGN + 3)[..], [0; ALIGN + 3]);
    }

    #[test]
    fn spare_memory_becomes_contents_once_it_was_filled() {
        let mut buffer = AlignedBuf::with_capacity(ALIGN);
        buffer.push(&[1; 100]);
        assert_eq!(buffer.spare().len(), ALIGN - 100);
        buffer.spare()[..50].fill(MaybeUninit::new(2));
        // SAFETY: 150 bytes have been written.
        unsafe { buffer.set_filled(150) };
        buffer.set_len(160);
        assert_eq!(buffer[..], [&[1; 100][..], &[2; 50], &[0; 10]].concat());
    }
}
