//! Keep-alive of a link: a pulse from each end at a fixed interval, and detection of silence.

use crate::{Error, PULSE_NS, Result, SILENCE_NS};
use peer::Channel;
use peer::message::Message;

/// State of the keep-alive of one end of a link.
pub struct Pulse {
    /// Time of the last received bytes.
    heard_ns: u64,
    /// Time of the next pulse.
    next_ns: u64,
}

impl Pulse {
    /// The keep-alive of a new link.
    pub fn new(now: u64) -> Self {
        Self { heard_ns: now, next_ns: now + PULSE_NS }
    }

    /// Notes received bytes.
    pub fn note(&mut self, now: u64) {
        self.heard_ns = now;
    }

    /// Sends a pulse when it is due, with the power-on known to this end.
    ///
    /// # Errors
    /// [`Error::Silent`]: no bytes arrived in time.
    pub fn beat(&mut self, channel: &mut Channel, (domain, power_on): (u16, u64), now: u64) -> Result<()> {
        if self.next_ns <= now {
            self.next_ns = now + PULSE_NS;
            channel.send(domain, 0, &Message::Pulse { clock_ns: now, power_on });
        }
        if self.heard_ns + SILENCE_NS <= now { Err(Error::Silent) } else { Ok(()) }
    }
}
