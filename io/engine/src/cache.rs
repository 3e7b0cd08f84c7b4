//! Frame cache: decoded frames that were read lately, bounded in bytes. It is sharded, and a hit writes to no memory
//! that other threads read, so that shards do not slow each other down.
//!
//! New frames are on probation first, and only what is used again while it is there, or soon after it left, stays for
//! longer (S3-FIFO, Yang et al., SOSP 2023): a scan goes by without displacing what hosts come back to. Frames that were
//! read ahead never stay for longer: their use was expected.

use crate::cell::Blocks;
use crate::frame::Decoded;
use crate::pages::NumberMap;
use crate::sharded_lock::{ShardedLock, note_use};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

const SHARDS: usize = 16;

/// Part of the cache for frames on probation, as a divisor.
const PROBATION_DIVISOR: usize = 8;

struct Item {
    frame: Decoded,
    /// Used since the clock hand passed last.
    used: AtomicBool,
    /// Read ahead.
    ahead: bool,
    /// Its first use asks for more to be read ahead.
    marked: AtomicBool,
    /// Not on probation.
    stays: bool,
}

#[derive(Default)]
struct Shard {
    items: NumberMap<u64, Item>,
    /// Frames on probation, and the others; a clock each.
    probation: VecDeque<u64>,
    order: VecDeque<u64>,
    /// Frames that were on probation lately, as many as are cached: by number, when they left.
    left: NumberMap<u64, u64>,
    left_order: VecDeque<(u64, u64)>,
    leavings: u64,
    bytes: usize,
    probation_bytes: usize,
}

/// Frames by number. Frame numbers are never used again and a frame's blocks never change, so nothing in the cache
/// can be stale.
pub struct Cache {
    shards: Vec<ShardedLock<Shard>>,
    limit: usize,
}

/// A frame that was found, and whether more is to be read ahead now.
pub struct Hit {
    pub frame: Decoded,
    pub marked: bool,
}

impl Cache {
    /// A cache of up to `bytes`.
    pub fn new(bytes: usize) -> Self {
        Self { shards: (0..SHARDS).map(|_| ShardedLock::default()).collect(), limit: bytes / SHARDS }
    }

    /// Bytes of frames that can be on probation at the same time.
    pub fn probation_bytes(&self) -> usize {
        self.limit / PROBATION_DIVISOR * SHARDS
    }

    fn shard(&self, frame: u64) -> &ShardedLock<Shard> {
        &self.shards[(frame % SHARDS as u64) as usize]
    }

    /// The frame, if a block of it is cached.
    pub fn get(&self, frame: u64, index: u8) -> Option<Hit> {
        let shard = self.shard(frame).read();
        let item = shard.items.get(&frame)?;
        note_use(&item.used);
        let marked = item.marked.load(Ordering::Relaxed) && item.marked.swap(false, Ordering::Relaxed);
        item.frame.has(index).then(|| Hit { frame: item.frame.clone(), marked })
    }

    /// The same, without counting as a use.
    pub fn peek(&self, frame: u64, index: u8) -> Option<Decoded> {
        let shard = self.shard(frame).read();
        shard.items.get(&frame).map(|item| &item.frame).filter(|frame| frame.has(index)).cloned()
    }

    /// Whether blocks of a frame are cached, as far as they are stored.
    pub fn has(&self, frame: u64, blocks: Blocks) -> bool {
        self.shard(frame).read().items.get(&frame).is_some_and(|item| item.frame.has_all(blocks))
    }

    /// Adds a frame that was asked for.
    pub fn insert(&self, number: u64, frame: Decoded) {
        self.add(number, frame, false, false);
    }

    /// Adds a frame that was read ahead; the first use of a marked one asks for more.
    pub fn insert_ahead(&self, number: u64, frame: Decoded, marked: bool) {
        self.add(number, frame, true, marked);
    }

    /// Adds blocks of a frame to those that are there; others make room.
    fn add(&self, number: u64, frame: Decoded, ahead: bool, marked: bool) {
        let mut shard = self.shard(number).write();
        let shard = &mut *shard;
        if let Some(item) = shard.items.get_mut(&number) {
            *item.marked.get_mut() |= marked;
            let both = item.frame.with(&frame);
            let more = both.bytes() as isize - item.frame.bytes() as isize;
            item.frame = both;
            add_signed(&mut shard.bytes, more);
            if !item.stays {
                add_signed(&mut shard.probation_bytes, more);
            }
        } else {
            // What was displaced lately and comes back has been displaced too early.
            let stays = shard.left.remove(&number).is_some() && !ahead;
            shard.bytes += frame.bytes();
            if stays {
                shard.order.push_back(number);
            } else {
                shard.probation.push_back(number);
                shard.probation_bytes += frame.bytes();
            }
            let marked = AtomicBool::new(marked);
            shard.items.insert(number, Item { frame, used: AtomicBool::new(false), ahead, marked, stays });
        }
        while shard.bytes > self.limit {
            shard.evict(self.limit / PROBATION_DIVISOR);
        }
    }
}

fn add_signed(bytes: &mut usize, more: isize) {
    *bytes = bytes.checked_add_signed(more).expect("what is counted is there");
}

impl Shard {
    /// Lets one frame go, or gives it another round.
    fn evict(&mut self, probation_limit: usize) {
        if self.probation_bytes > probation_limit || self.order.is_empty() {
            let Some(oldest) = self.probation.pop_front() else { return };
            let item = self.items.get_mut(&oldest).expect("what is in a queue is there");
            self.probation_bytes -= item.frame.bytes();
            if std::mem::take(item.used.get_mut()) && !item.ahead {
                item.stays = true;
                self.order.push_back(oldest);
            } else {
                self.remove(oldest);
                self.note_left(oldest);
            }
        } else if let Some(oldest) = self.order.pop_front() {
            let item = self.items.get_mut(&oldest).expect("what is in a queue is there");
            if std::mem::take(item.used.get_mut()) {
                self.order.push_back(oldest);
            } else {
                self.remove(oldest);
            }
        }
    }

    fn remove(&mut self, number: u64) {
        let item = self.items.remove(&number).expect("what is in a queue is there");
        self.bytes -= item.frame.bytes();
    }

    fn note_left(&mut self, number: u64) {
        self.leavings += 1;
        self.left.insert(number, self.leavings);
        self.left_order.push_back((number, self.leavings));
        while self.left_order.len() > self.items.len() {
            let Some((oldest, when)) = self.left_order.pop_front() else { break };
            if self.left.get(&oldest) == Some(&when) {
                self.left.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
#[path = "cache_test.rs"]
mod tests;
