//! Contradictions: what media say under checksums that hold, and what can't be. Whoever meets one notes it, leaves out
//! what it concerns, and goes on: an operation that needs it ends with an error, all others don't notice.
//!
//! While the engine is opened a contradiction either has an obvious resolution without loss, or the opening is refused:
//! see [`Findings`].

use crate::codec::Malformed;
use block::Error;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

/// Most contradictions that are remembered.
const MAX_REMEMBERED: usize = 100;

/// What to do about a contradiction.
const ADVICE: &str = "`ashlard check` lists everything that is wrong, `ashlard check --repair` mends it";

/// The contradictions that were met since the engine was opened.
#[derive(Clone, Default)]
pub struct Inconsistencies(Arc<Mutex<BTreeSet<String>>>);

impl Inconsistencies {
    /// Notes one, once.
    pub fn note(&self, what: impl Display) {
        let mut kept = self.0.lock();
        let what = what.to_string();
        if kept.len() < MAX_REMEMBERED && !kept.contains(&what) {
            tracing::error!("contradiction on media: {what}; {ADVICE}");
            kept.insert(what);
        }
    }

    /// The first of them.
    pub fn list(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }
}

/// What an opening does about contradictions: it refuses those that it can't resolve, or, for check and repair, goes on
/// with what is left.
#[derive(Default)]
pub struct Findings {
    /// Goes on whatever is found.
    pub lenient: bool,
    /// What was found.
    pub found: Vec<String>,
}

impl Findings {
    /// Notes what was resolved without loss.
    pub fn note(&mut self, what: impl Display) {
        self.found.push(what.to_string());
    }

    /// Notes what has no resolution without loss.
    ///
    /// # Errors
    /// [`Error::Stopped`] with what to do, unless this opening goes on whatever is found.
    pub fn fatal(&mut self, what: impl Display) -> block::Result<()> {
        if !self.lenient {
            return Err(Error::Stopped(format!("{what}: {ADVICE}")));
        }
        self.note(what);
        Ok(())
    }

    /// The value, or [`Findings::fatal`] and nothing.
    ///
    /// # Errors
    /// As [`Findings::fatal`].
    pub fn fatal_err<T>(
        &mut self,
        what: impl Display,
        value: Result<T, Malformed>,
    ) -> block::Result<Option<T>> {
        match value {
            Ok(value) => Ok(Some(value)),
            Err(why) => self.fatal(format_args!("{what}: {why}")).map(|()| None),
        }
    }
}
