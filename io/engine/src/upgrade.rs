//! Upgrade: raising the format of the store when an operator commits to it.

use crate::engine::Engine;
use block::{Error, Result};
use std::ops::RangeInclusive;

impl Engine {
    /// The format that the store has.
    pub fn format(&self) -> u32 {
        self.core.format.active()
    }

    /// The formats that this engine opens.
    pub fn formats(&self) -> RangeInclusive<u32> {
        self.core.options.formats.clone()
    }

    /// Raises the format of the store to the newest. It is durable when this returns, and releases that do not know it refuse
    /// the store from then on. The background must be driven until then. A power loss leaves the old format or the new one.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the engine stopped, or is being shut down, before that.
    pub async fn commit_format(&self) -> Result<()> {
        let (format, newest) = (&self.core.format, *self.core.options.formats.end());
        if format.raise(newest) {
            self.core.signal.notify();
            format.written(newest).await;
        }
        if format.active() >= newest {
            return Ok(());
        }
        let why = self.core.journal.stopped();
        Err(Error::Stopped(why.unwrap_or_else(|| "the array is being stopped".into())))
    }
}
