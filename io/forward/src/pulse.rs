//! Signs of life on a link, the same from both ends.

use crate::{Error, PULSE_NS, Result, SILENCE_NS};
use peer::Channel;
use peer::message::Message;

/// When they came and go.
pub struct Pulse {
    /// Bytes came.
    heard: u64,
    next: u64,
}

impl Pulse {
    /// Of a link that is new.
    pub fn new(now: u64) -> Self {
        Self { heard: now, next: now + PULSE_NS }
    }

    /// Bytes came.
    pub fn note(&mut self, now: u64) {
        self.heard = now;
    }

    /// Sends one if it is time, with what this end knows of the power-on.
    ///
    /// # Errors
    /// [`Error::Silent`]: nothing has come for too long.
    pub fn beat(&mut self, channel: &mut Channel, (domain, power_on): (u16, u64), now: u64) -> Result<()> {
        if self.next <= now {
            self.next = now + PULSE_NS;
            channel.send(domain, 0, &Message::Pulse { clock_ns: now, power_on });
        }
        if self.heard + SILENCE_NS <= now { Err(Error::Silent) } else { Ok(()) }
    }
}
