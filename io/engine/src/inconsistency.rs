//! Inconsistencies: metadata on media that can't be true although checksums hold. The code that finds one
//! records it and skips the affected metadata: an operation that needs it fails, all others continue.
//!
//! During an opening an inconsistency either can be resolved without loss, or the opening is refused: see
//! [`Findings`].

use crate::codec::Malformed;
use block::Error;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

/// Inconsistencies that are remembered at most.
const MAX_REMEMBERED: usize = 100;

/// Advice in error texts.
const ADVICE: &str = "`ashlard check` lists all defects, `ashlard check --repair` repairs them";

/// The inconsistencies met since the engine was opened.
#[derive(Clone, Default)]
pub struct Inconsistencies(Arc<Mutex<BTreeSet<String>>>);

impl Inconsistencies {
    /// Notes one, once.
    pub fn note(&self, what: impl Display) {
        let mut kept = self.0.lock();
        let what = what.to_string();
        if kept.len() < MAX_REMEMBERED && !kept.contains(&what) {
            tracing::error!("inconsistent metadata: {what}; {ADVICE}");
            kept.insert(what);
        }
    }

    /// Those that are remembered.
    pub fn list(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }
}

/// Findings of an opening: those that can't be resolved end it, or, for check and repair, it continues with what is
/// left.
#[derive(Default)]
pub struct Findings {
    /// Whether it continues whatever is found.
    pub lenient: bool,
    /// What was found.
    pub found: Vec<String>,
}

impl Findings {
    /// Notes a finding that was resolved without loss.
    pub fn note(&mut self, what: impl Display) {
        self.found.push(what.to_string());
    }

    /// Notes a finding that can't be resolved without loss.
    ///
    /// # Errors
    /// [`Error::Stopped`] with advice, unless this opening continues whatever is found.
    pub fn fatal(&mut self, what: impl Display) -> block::Result<()> {
        if !self.lenient {
            return Err(Error::Stopped(format!("{what}: {ADVICE}")));
        }
        self.note(what);
        Ok(())
    }

    /// The value, or `None` after [`Findings::fatal`].
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
