//! Which commands of which front end were done, so that one that is sent again takes effect once.
//!
//! A front end numbers its commands and sends one again, to the same home or to the next, until it is answered. Each
//! command says which is the lowest that is not answered yet, so that what has to be remembered is bounded. The home notes
//! a command together with its effect, in one record of the journal.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet};

/// Most commands between the lowest that is not answered and the highest.
pub const MAX_WINDOW: u64 = 1 << 16;

/// Most front ends that are remembered.
const MAX_FRONTS: usize = 256;

/// The place of a command among those of its front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The instance of the front end: random, of one process.
    pub front: u64,
    /// Its number; numbers grow by one.
    pub number: u64,
    /// The lowest number that was not answered when it was sent.
    pub lowest: u64,
}

/// What is known of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It was not done.
    New,
    /// It was done: it is answered, and not done again.
    Done,
    /// It was answered, and its front end knows: a copy that comes late. It is refused.
    Answered,
    /// Its numbers contradict each other, or are too far apart. It is refused.
    Invalid,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Window {
    lowest: u64,
    done: BTreeSet<u64>,
}

/// The commands that were done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    fronts: BTreeMap<u64, Window>,
}

impl Done {
    /// Looks a command up before it is done.
    pub fn look_up(&self, Sequence { front, number, lowest }: Sequence) -> Known {
        if number < lowest || number - lowest >= MAX_WINDOW {
            return Known::Invalid;
        }
        let Some(window) = self.fronts.get(&front) else {
            return if self.fronts.len() < MAX_FRONTS { Known::New } else { Known::Invalid };
        };
        match number {
            number if number < window.lowest => Known::Answered,
            number if window.done.contains(&number) => Known::Done,
            // Not noted, as the window would have to grow beyond its bound.
            number if number - window.lowest.max(lowest) >= MAX_WINDOW => Known::Invalid,
            _ => Known::New,
        }
    }

    /// Notes that a command was done. It was [`Known::New`].
    pub fn note(&mut self, Sequence { front, number, lowest }: Sequence) {
        let window = self.fronts.entry(front).or_default();
        if lowest > window.lowest {
            window.lowest = lowest;
            window.done = window.done.split_off(&lowest);
        }
        if number >= window.lowest {
            window.done.insert(number);
        }
    }

    /// Forgets a front end: its process is gone, and sends nothing again.
    pub fn forget(&mut self, front: u64) {
        self.fronts.remove(&front);
    }

    /// Commands that are remembered.
    pub fn len(&self) -> usize {
        self.fronts.values().map(|window| window.done.len()).sum()
    }

    /// True if no command is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// For a checkpoint.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u32_le(self.fronts.len() as u32);
        for (front, window) in &self.fronts {
            out.put_u64_le(*front);
            out.put_u64_le(window.lowest);
            out.put_u32_le(window.done.len() as u32);
            window.done.iter().for_each(|number| out.put_u64_le(*number));
        }
        out.freeze()
    }

    /// Reads what [`Done::encode`] wrote; `None` if it is malformed.
    pub fn decode(mut from: &[u8]) -> Option<Self> {
        let mut fronts = BTreeMap::new();
        let count = from.try_get_u32_le().ok()? as usize;
        if count > MAX_FRONTS {
            return None;
        }
        for _ in 0..count {
            let (front, lowest) = (from.try_get_u64_le().ok()?, from.try_get_u64_le().ok()?);
            let mut done = BTreeSet::new();
            for _ in 0..from.try_get_u32_le().ok()? {
                let number = from.try_get_u64_le().ok()?;
                if number < lowest || number - lowest >= MAX_WINDOW || !done.insert(number) {
                    return None;
                }
            }
            if fronts.insert(front, Window { lowest, done }).is_some() {
                return None;
            }
        }
        from.is_empty().then_some(Self { fronts })
    }
}

#[cfg(test)]
#[path = "done_test.rs"]
mod tests;
