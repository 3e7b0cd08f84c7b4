//! One of the two arrays: an engine on drives of its own, which crashes independently.

use crate::bounds::{self, Bounds};
use crate::machine::Machine;
use block::DiskId;
use block::workload::Random;
use engine::{Engine, Options};
use raid::{FormatOptions, Limits, Opening, Sizes};
use replication::Env;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

const DRIVE_BYTES: u64 = 128 << 20;

/// Time and identities of an array, which continue across crashes.
pub struct SideEnv {
    first_id: u128,
    next_id: AtomicU64,
    time: AtomicU64,
}

impl Env for SideEnv {
    fn now_ns(&self) -> u64 {
        self.time.fetch_add(1, Ordering::Relaxed)
    }

    fn timestamp(&self) -> u64 {
        self.time.fetch_add(1, Ordering::Relaxed)
    }

    fn sleep(&self, _: u64) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// The limit is polled only together with the work that it limits.
    fn timer(&self, ns: u64) -> impl Future<Output = ()> + Send {
        let end = self.time.load(Ordering::Relaxed) + ns;
        poll_fn(move |_| match self.time.load(Ordering::Relaxed) >= end {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
    }

    fn fresh_id(&self) -> DiskId {
        DiskId(self.first_id + u128::from(self.next_id.fetch_add(1, Ordering::Relaxed)))
    }
}

impl SideEnv {
    /// Advances its time.
    pub fn pass(&self, ns: u64) {
        self.time.fetch_add(ns, Ordering::Relaxed);
    }
}

/// An array.
pub struct Side {
    pub machine: Machine,
    pub env: Arc<SideEnv>,
    options: Options,
    limits: Limits,
    sizes: Sizes,
    formatted: bool,
    boots: u64,
    /// Remaining crashes.
    crashes_left: u64,
    pub crashes: u64,
    pub engine: Option<Arc<Engine>>,
    random: Random,
}

impl Side {
    /// An array on blank drives with some crashes ahead.
    pub fn new(seed: u64, bounds: Bounds, first_id: u128) -> Self {
        let mut random = Random::new(seed ^ 0x7369_6465);
        let options = bounds::of_small_array(seed, bounds, [(first_id >> 64) as u8; 32]);
        let machine = Machine::on_blank_drives(seed, &mut random, DRIVE_BYTES);
        let sizes = Sizes { chunk_bytes: Some(16 << 10), segment_bytes: None, journal_bytes: Some(4 << 20) };
        let env = SideEnv { first_id, next_id: AtomicU64::new(0), time: AtomicU64::new(1) };
        Self {
            machine,
            env: Arc::new(env),
            options,
            limits: bounds::store(bounds, seed),
            sizes,
            formatted: false,
            boots: 0,
            crashes_left: random.below(4),
            crashes: 0,
            engine: None,
            random,
        }
    }

    /// Ends the crashes.
    pub fn heal(&mut self) {
        self.crashes_left = 0;
        self.machine.go_on();
    }

    /// Starts the array, repeatedly if it crashes before it is up.
    pub fn boot(&mut self) -> Result<Arc<Engine>, String> {
        loop {
            if self.crashes_left > 0 {
                let far = [100, 1000, 5000][self.random.below(3) as usize];
                self.machine.crash_after(1 + self.random.below(far));
            }
            if let Some(engine) = self.try_boot()? {
                self.engine = Some(engine.clone());
                return Ok(engine);
            }
            self.crash();
        }
    }

    fn try_boot(&mut self) -> Result<Option<Arc<Engine>>, String> {
        self.boots += 1;
        let opening = Opening { salt: self.boots, key: None };
        let (sizes, limits) = (self.sizes, self.limits);
        let store = FormatOptions { array: 9, sizes, opening, limits, ..FormatOptions::default() };
        self.machine.start_array(&mut self.formatted, store, self.options.clone())
    }

    /// Cuts the power.
    pub fn crash(&mut self) {
        self.engine = None;
        self.machine.crash();
        self.crashes_left = self.crashes_left.saturating_sub(1);
        self.crashes += 1;
    }
}
