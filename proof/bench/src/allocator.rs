//! Allocator that counts the bytes of each thread.
//!
//! The memory of an engine that runs on one thread is known to the byte.

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// Bytes that this thread has allocated and not freed.
pub fn held_bytes() -> u64 {
    HELD.get().max(0) as u64
}

struct Counted;

fn count(bytes: i64) {
    // A thread that ends may free memory after its counter was destroyed.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: all calls are forwarded unchanged to mimalloc; counting neither allocates nor fails.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as of this function.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as of this function.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as of this function.
        unsafe { MiMalloc.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as of this function.
        unsafe { MiMalloc.realloc(at, layout, size) }
    }
}
