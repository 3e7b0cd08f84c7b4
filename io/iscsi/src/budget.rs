//! Memory of all sessions together. Each may have a little whatever the others do, so that nobody is kept out; what
//! they have beyond that is bounded for all of them at once, however many hold their answers or their data back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a session may have whatever the others have.
const OWN_BYTES: u64 = 1 << 20;
/// What a session has is noted when it differs by so many bytes from what was noted before.
const STEP_BYTES: u64 = 256 << 10;

/// What the sessions of a server may have together.
#[derive(Debug)]
pub struct Budget {
    bytes: u64,
    taken: AtomicU64,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, taken: AtomicU64::new(0) }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(1 << 30)
    }
}

/// The part of one session.
pub(crate) struct Share {
    budget: Arc<Budget>,
    noted: u64,
}

impl Share {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { budget, noted: 0 }
    }

    /// The session has so many bytes now; small changes are not worth telling the others.
    pub(crate) fn note(&mut self, bytes: u64) {
        if bytes.abs_diff(self.noted) >= STEP_BYTES {
            self.budget.taken.fetch_add(bytes.wrapping_sub(self.noted), Ordering::Relaxed);
            self.noted = bytes;
        }
    }

    /// Whether a session that has so many bytes may take more.
    pub(crate) fn admits(&self, bytes: u64) -> bool {
        bytes <= OWN_BYTES || self.budget.taken.load(Ordering::Relaxed) <= self.budget.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.noted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_by_one_leaves_the_others_a_little() {
        let budget = Arc::new(Budget::new(10 << 20));
        let [mut one, other] = [(); 2].map(|()| Share::new(budget.clone()));
        one.note(9 << 20);
        assert!(one.admits(9 << 20) && other.admits(9 << 20));
        one.note(11 << 20);
        assert!(!one.admits(11 << 20) && !other.admits(OWN_BYTES + 1));
        assert!(other.admits(OWN_BYTES));
        one.note(2 << 20);
        assert!(one.admits(11 << 20));
        one.note(20 << 20);
        drop(one);
        assert!(other.admits(9 << 20));
    }
}
