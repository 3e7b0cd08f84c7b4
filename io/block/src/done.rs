//! Which commands of which front end took effect, so that one that is sent again takes effect once.
//!
//! A front end numbers its commands and sends one again, to the same home or to the next, until it is answered. Each
//! command has the lowest number that is not answered yet, so that what has to be remembered is bounded. A store notes
//! a command together with its effect, in one record of its journal.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::BTreeMap;

/// Maximum distance between the lowest number that is not answered and the highest.
pub const MAX_WINDOW: u64 = 1 << 16;

/// Maximum number of front ends that are remembered.
const MAX_FRONTS: usize = 256;

/// The place of a command among those of its front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The instance of the front end: the number of one process.
    pub front: u64,
    /// Its number; numbers grow by one.
    pub number: u64,
    /// The lowest number that was not answered when it was sent.
    pub lowest: u64,
}

/// What a store notes of a command with the effect of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// The command.
    pub sequence: Sequence,
    /// With this operation the command has taken effect as a whole, and ends with GOOD. Else it is a part of its effect.
    pub whole: bool,
}

/// What is known of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It did not take effect.
    New,
    /// A part of it took effect.
    Part,
    /// It took effect: it is answered with GOOD, and not performed again.
    Done,
    /// It was answered, and its front end knows: a copy that comes late. It is refused.
    Answered,
    /// Its numbers contradict each other, or are too far apart. It is refused.
    Invalid,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Window {
    lowest: u64,
    /// Commands that took effect, and whether as a whole.
    noted: BTreeMap<u64, bool>,
}

/// The commands that took effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotedCommands {
    fronts: BTreeMap<u64, Window>,
}

impl NotedCommands {
    /// Looks a command up before it is performed.
    pub fn look_up(&self, Sequence { front, number, lowest }: Sequence) -> Known {
        if number < lowest || number - lowest >= MAX_WINDOW {
            return Known::Invalid;
        }
        let Some(window) = self.fronts.get(&front) else {
            return if self.fronts.len() < MAX_FRONTS { Known::New } else { Known::Invalid };
        };
        match window.noted.get(&number) {
            _ if number < window.lowest => Known::Answered,
            Some(true) => Known::Done,
            Some(false) => Known::Part,
            // Not noted, as the window would have to grow beyond its bound.
            None if number - window.lowest.max(lowest) >= MAX_WINDOW => Known::Invalid,
            None => Known::New,
        }
    }

    /// Notes an effect of a command that was [`Known::New`] when it began.
    pub fn note(&mut self, Note { sequence: Sequence { front, number, lowest }, whole }: Note) {
        let window = self.fronts.entry(front).or_default();
        if lowest > window.lowest {
            window.lowest = lowest;
            window.noted = window.noted.split_off(&lowest);
        }
        if number >= window.lowest {
            *window.noted.entry(number).or_default() |= whole;
        }
    }

    /// Forgets a front end: its process is gone, and sends nothing again.
    pub fn forget(&mut self, front: u64) {
        self.fronts.remove(&front);
    }

    /// The front ends that have commands here.
    pub fn fronts(&self) -> impl Iterator<Item = u64> {
        self.fronts.keys().copied()
    }

    /// Commands that are remembered.
    pub fn len(&self) -> usize {
        self.fronts.values().map(|window| window.noted.len()).sum()
    }

    /// True if no front end is remembered.
    pub fn is_empty(&self) -> bool {
        self.fronts.is_empty()
    }

    /// Encodes them for a checkpoint.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u32_le(self.fronts.len() as u32);
        for (front, window) in &self.fronts {
            out.put_u64_le(*front);
            out.put_u64_le(window.lowest);
            out.put_u32_le(window.noted.len() as u32);
            for (number, whole) in &window.noted {
                out.put_u32_le(((number - window.lowest) << 1) as u32 | u32::from(*whole));
            }
        }
        out.freeze()
    }

    /// Reads what [`NotedCommands::encode`] wrote; `None` if it is malformed.
    pub fn decode(mut from: &[u8]) -> Option<Self> {
        let mut fronts = BTreeMap::new();
        for _ in 0..from.try_get_u32_le().ok()? {
            let (front, lowest) = (from.try_get_u64_le().ok()?, from.try_get_u64_le().ok()?);
            let mut noted = BTreeMap::new();
            for _ in 0..from.try_get_u32_le().ok()? {
                let bits = from.try_get_u32_le().ok()?;
                let (distance, whole) = (u64::from(bits >> 1), bits & 1 != 0);
                let number = lowest.checked_add(distance)?;
                if distance >= MAX_WINDOW || noted.insert(number, whole).is_some() {
                    return None;
                }
            }
            if fronts.insert(front, Window { lowest, noted }).is_some() {
                return None;
            }
        }
        from.is_empty().then_some(Self { fronts })
    }
}

#[cfg(test)]
#[path = "done_test.rs"]
mod tests;
