//! Counter of record lookups: tests check that the cost of a request does not grow with unrelated records. It counts
//! only in builds with debug assertions.

#[cfg(debug_assertions)]
mod counted {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    /// Counts one lookup.
    pub(crate) fn look() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// Lookups by this thread so far.
    pub fn looks() -> u64 {
        LOOKS.get()
    }
}

#[cfg(not(debug_assertions))]
mod counted {
    /// Counts nothing.
    pub(crate) fn look() {}

    /// Zero, as nothing is counted.
    pub fn looks() -> u64 {
        0
    }
}

pub(crate) use counted::look;
pub use counted::looks;
