//! Frame cache: decoded frames that were read lately, bounded in bytes. It is sharded, and a hit writes to no memory
//! that other threads read, so that shards do not slow each other down.

use crate::frame::Decoded;
use crate::pages::NumberMap;
use crate::sharded_lock::{ShardedLock, note_use};
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;

const SHARDS: usize = 16;

struct Item {
    frame: Decoded,
    /// Used since the clock hand passed last.
    used: AtomicBool,
}

#[derive(Default)]
struct Shard {
    items: NumberMap<u64, Item>,
    order: VecDeque<u64>,
    bytes: usize,
}

/// Frames by number. Frame numbers are never used again and a frame's blocks never change, so nothing in the cache
/// can be stale.
pub struct Cache {
    shards: Vec<ShardedLock<Shard>>,
    limit: usize,
}

impl Cache {
    /// A cache of up to `bytes`.
    pub fn new(bytes: usize) -> Self {
        Self { shards: (0..SHARDS).map(|_| ShardedLock::default()).collect(), limit: bytes / SHARDS }
    }

    fn shard(&self, frame: u64) -> &ShardedLock<Shard> {
        &self.shards[(frame % SHARDS as u64) as usize]
    }

    /// The frame, if it is cached.
    pub fn get(&self, frame: u64) -> Option<Decoded> {
        let shard = self.shard(frame).read();
        let item = shard.items.get(&frame)?;
        note_use(&item.used);
        Some(item.frame.clone())
    }

    /// Adds a frame; frames that were not used since the clock hand passed last make room.
    pub fn insert(&self, number: u64, frame: Decoded) {
        let mut shard = self.shard(number).write();
        let shard = &mut *shard;
        shard.bytes += frame.bytes();
        match shard.items.insert(number, Item { frame, used: AtomicBool::new(false) }) {
            Some(before) => shard.bytes -= before.frame.bytes(),
            None => shard.order.push_back(number),
        }
        while shard.bytes > self.limit {
            let Some(oldest) = shard.order.pop_front() else { break };
            let Some(item) = shard.items.get_mut(&oldest) else { continue };
            if std::mem::take(item.used.get_mut()) {
                shard.order.push_back(oldest);
            } else {
                shard.bytes -= item.frame.bytes();
                shard.items.remove(&oldest);
            }
        }
    }
}
