//! Memory shared with the kernel: the mapping of a device, or ordinary memory in tests. Every access is checked against
//! its length, since the offsets come from the kernel.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An access outside of the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes at {at:#x} are outside of an area of {length:#x} bytes")]
pub struct Outside {
    at: u64,
    bytes: u64,
    length: u64,
}

/// A region of shared memory. Clones are the same memory.
#[derive(Clone)]
pub struct Area {
    base: NonNull<u8>,
    length: usize,
    /// Unmaps or frees the memory on drop.
    _owner: Arc<dyn Send + Sync>,
}

// SAFETY: the memory lives as long as its owner. It is accessed only by copies and atomic accesses, which do not depend
// on the thread.
unsafe impl Send for Area {}
// SAFETY: as above; no reference into the memory is ever made.
unsafe impl Sync for Area {}

impl Area {
    /// The `length` bytes at `base`, valid as long as `owner` exists.
    ///
    /// # Safety
    /// The bytes must be readable and writable until `owner` is dropped, and this process must have no reference into
    /// them. `base` must be aligned to 8 bytes.
    pub unsafe fn new(base: NonNull<u8>, length: usize, owner: Arc<dyn Send + Sync>) -> Area {
        Area { base, length, _owner: owner }
    }

    /// Ordinary memory of at least `length` bytes, all zero.
    pub fn in_memory(length: usize) -> Area {
        let words: Arc<[AtomicU64]> = (0..length.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        let length = size_of_val(&*words);
        let base = NonNull::from(&*words).cast();
        // SAFETY: atomics may be written through a shared pointer; the slice stays where it is until its last owner is dropped.
        unsafe { Area::new(base, length, Arc::new(words)) }
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Checks that a range is within the area.
    ///
    /// # Errors
    /// [`Outside`].
    pub fn check(&self, at: u64, bytes: u64) -> Result<(), Outside> {
        let length = self.length as u64;
        match at.checked_add(bytes) {
            Some(end) if end <= length => Ok(()),
            _ => Err(Outside { at, bytes, length }),
        }
    }

    fn place(&self, at: u64, bytes: usize) -> Result<*mut u8, Outside> {
        self.check(at, bytes as u64)?;
        // SAFETY: the range was checked to be within the memory.
        Ok(unsafe { self.base.as_ptr().add(at as usize) })
    }

    /// Copies bytes out of the area.
    ///
    /// # Errors
    /// [`Outside`].
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Outside> {
        let place = self.place(at, out.len())?;
        // SAFETY: the range was checked, and `out` can't be a reference into the area.
        unsafe { place.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Copies bytes into the area.
    ///
    /// # Errors
    /// [`Outside`].
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Outside> {
        let place = self.place(at, bytes.len())?;
        // SAFETY: as in `read`.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Zeroes a range.
    ///
    /// # Errors
    /// [`Outside`].
    pub fn zero(&self, at: u64, bytes: usize) -> Result<(), Outside> {
        let place = self.place(at, bytes)?;
        // SAFETY: the range was checked.
        unsafe { place.write_bytes(0, bytes) };
        Ok(())
    }

    /// Reads a number that the other side publishes (acquire): its earlier writes are visible afterwards.
    ///
    /// # Errors
    /// [`Outside`].
    ///
    /// # Panics
    /// If the offset is not aligned: callers use fixed offsets.
    pub fn load(&self, at: u64) -> Result<u32, Outside> {
        Ok(self.atomic(at)?.load(Ordering::Acquire))
    }

    /// Publishes a number (release): earlier writes are visible to the other side.
    ///
    /// # Errors
    /// [`Outside`].
    ///
    /// # Panics
    /// As [`Area::load`].
    pub fn store(&self, at: u64, value: u32) -> Result<(), Outside> {
        self.atomic(at)?.store(value, Ordering::Release);
        Ok(())
    }

    fn atomic(&self, at: u64) -> Result<&AtomicU32, Outside> {
        let place = self.place(at, size_of::<u32>())?;
        assert!(at.is_multiple_of(4), "atomic numbers are aligned");
        // SAFETY: the range was checked; base and offset are aligned; the number is accessed only atomically.
        Ok(unsafe { AtomicU32::from_ptr(place.cast()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_is_refused_whatever_the_numbers_are() {
        let area = Area::in_memory(4096);
        let mut out = [1; 8];
        assert_eq!(area.read(4088, &mut out), Ok(()));
        for at in [4089, 4096, u64::MAX - 3, u64::MAX] {
            assert!(area.read(at, &mut out).is_err(), "{at}");
            assert!(area.write(at, &out).is_err(), "{at}");
            assert!(area.zero(at, 8).is_err(), "{at}");
            assert!(area.check(at, 8).is_err(), "{at}");
        }
        assert!(area.load(4096).is_err() && area.store(u64::MAX - 3, 1).is_err());
    }

    #[test]
    fn clones_are_the_same_memory_and_outlive_the_first() {
        let area = Area::in_memory(64);
        let other = area.clone();
        area.store(12, 7).unwrap();
        drop(area);
        assert_eq!(other.load(12), Ok(7));
    }
}
