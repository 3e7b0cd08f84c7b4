//! How many records of the configuration were looked at: what a request costs, for tests that it does not grow with what else
//! there is. Counted in builds with debug assertions only.

#[cfg(debug_assertions)]
mod counted {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    /// Counts one look at a record.
    pub(crate) fn look() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// Looks at records by this thread so far.
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
