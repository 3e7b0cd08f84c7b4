//! Faults planted between the checker and its target, to show that the checker finds them.

use super::port::{Answer, Port, Request};
use crate::host::Outcome;
use crate::seed::Seed;
use anyhow::Result;
use std::collections::HashMap;
use std::ffi::c_short;

/// One of this many reads returns earlier data.
const STALE_ONE_IN: u64 = 100;

/// A path with a cache that writes on other paths do not invalidate, and that answers some reads.
pub struct StaleCache {
    port: Box<dyn Port>,
    /// Earlier data by unit and block.
    cache: HashMap<(usize, u64), Vec<u8>>,
    /// Outstanding reads: unit, first block and number of blocks.
    reads: HashMap<u64, (usize, u64, u32)>,
    seed: Seed,
}

impl StaleCache {
    /// A path through the cache.
    pub fn new(port: Box<dyn Port>, seed: u64) -> Self {
        Self { port, cache: HashMap::new(), reads: HashMap::new(), seed: Seed::new(seed) }
    }

    fn pass(&mut self, answer: &mut Answer) {
        let Some((unit, lba, blocks)) = self.reads.remove(&answer.tag) else { return };
        let Some(Outcome::Good(data)) = &mut answer.outcome else { return };
        let stale = self.seed.one_in(STALE_ONE_IN);
        let block_bytes = data.len() / (blocks as usize).max(1);
        for (lba, block) in (lba..).zip(data.chunks_mut(block_bytes.max(1))) {
            let cached = self.cache.entry((unit, lba)).or_insert_with(|| block.to_vec());
            match stale {
                true => block.copy_from_slice(cached),
                false if self.seed.one_in(4) => *cached = block.to_vec(),
                false => {}
            }
        }
    }
}

impl Port for StaleCache {
    fn submit(&mut self, tag: u64, unit: usize, request: Request) -> Result<()> {
        if let Request::Read { lba, blocks } = request {
            self.reads.insert(tag, (unit, lba, blocks));
        }
        self.port.submit(tag, unit, request)
    }

    fn in_flight(&self) -> usize {
        self.port.in_flight()
    }

    fn pollfd(&self) -> Option<libc::pollfd> {
        self.port.pollfd()
    }

    fn service(&mut self, revents: c_short, answers: &mut Vec<Answer>) -> Result<()> {
        let first = answers.len();
        let result = self.port.service(revents, answers);
        answers.iter_mut().skip(first).for_each(|answer| self.pass(answer));
        result
    }
}
