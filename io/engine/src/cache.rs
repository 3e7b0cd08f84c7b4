//! Decoded frames that were read lately, bounded in bytes. Several locks, so that shards do not meet.

use crate::frame::Decoded;
use crate::pages::NumberMap;
use parking_lot::Mutex;
use std::collections::VecDeque;

const SHARDS: usize = 16;

struct Item {
    frame: Decoded,
    used: bool,
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
    shards: Vec<Mutex<Shard>>,
    limit: usize,
}

impl Cache {
    /// A cache of up to `bytes`.
    pub fn new(bytes: usize) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), limit: bytes / SHARDS }
    }

    fn shard(&self, frame: u64) -> &Mutex<Shard> {
        &self.shards[(frame % SHARDS as u64) as usize]
    }

    /// The frame, when it is there.
    pub fn get(&self, frame: u64) -> Option<Decoded> {
        let mut shard = self.shard(frame).lock();
        let item = shard.items.get_mut(&frame)?;
        item.used = true;
        Some(item.frame.clone())
    }

    /// Adds a frame; those not used since the hand came by last make room.
    pub fn insert(&self, number: u64, frame: Decoded) {
        let mut shard = self.shard(number).lock();
        let shard = &mut *shard;
        shard.bytes += frame.bytes();
        match shard.items.insert(number, Item { frame, used: false }) {
            Some(before) => shard.bytes -= before.frame.bytes(),
            None => shard.order.push_back(number),
        }
        while shard.bytes > self.limit {
            let Some(oldest) = shard.order.pop_front() else { break };
            match shard.items.get_mut(&oldest) {
                Some(item) if item.used => {
                    item.used = false;
                    shard.order.push_back(oldest);
                }
                Some(item) => {
                    shard.bytes -= item.frame.bytes();
                    shard.items.remove(&oldest);
                }
                None => {}
            }
        }
    }
}
