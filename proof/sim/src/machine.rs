//! A machine that runs tasks over drives until its power is cut.
//!
//! The machine is the scheduler: every step of a task and every completion of a drive request is one random choice.

use crate::drives::Drives;
use crate::executor::{Executor, TaskId};
use crate::workers::Jobs;
use block::workload::Random;
use engine::{Engine, Options};
use rados::memory::Cluster;
use raid::{DriveShelf, FormatOptions};
use shelf::{Drive, Shelf};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A run with more steps counts as an endless loop.
const MAX_STEPS: u64 = 3_000_000;

/// Maximum number of seconds that pass while a task waits and nothing else happens: enough for a rebuild at the lowest
/// rate that worlds draw, which a full array waits for.
const MAX_WAITS: u32 = 4000;

/// Seconds of these after which other files have left the file system under the drives.
const WAITS_WITH_OTHER_FILES: u32 = 20;

/// Tasks, drives, and their order of execution.
pub struct Machine {
    /// The drives, which survive a crash.
    pub drives: Arc<Drives>,
    /// The cluster, which survives a crash, in worlds over RADOS without drives.
    pub cluster: Option<Cluster>,
    /// Cluster operations that took effect or were answered.
    released: u64,
    /// The tasks, which end with a crash.
    pub executor: Executor,
    /// The jobs of workers, which are lost with a crash.
    pub jobs: Jobs,
    /// Random source of every choice.
    pub random: Random,
    /// Maximum number of steps of others before a waiting background continues.
    pub reach: u64,
    /// Called with the time while nothing else happens.
    pub clock: Option<Box<dyn Fn(Duration)>>,
    /// Time step while nothing else can happen.
    pub idle_step: Duration,
    crash_at: u64,
    steps: u64,
}

/// The future result of a task.
pub struct Outcome<T>(Arc<Mutex<Option<T>>>);

impl<T: Send + 'static> Outcome<T> {
    /// A callback and its future result.
    pub fn of_call() -> (Box<dyn FnOnce(T) + Send>, Self) {
        let slot = Arc::new(Mutex::new(None));
        let result = slot.clone();
        let done = move |value| *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        (Box::new(done), Self(slot))
    }
}

impl<T> Outcome<T> {
    /// Takes the result if it is available.
    pub fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Machine {
    /// A machine without a crash until [`Machine::crash_after`].
    pub fn new(seed: u64, drives: Arc<Drives>) -> Self {
        let random = Random::new(seed ^ 0x6d61_6368);
        Self {
            drives,
            cluster: None,
            released: 0,
            executor: Executor::default(),
            jobs: Jobs::new(seed),
            random,
            reach: 0,
            clock: None,
            idle_step: Duration::from_secs(1),
            crash_at: u64::MAX,
            steps: 0,
        }
    }

    /// A machine on one to three blank drives of this size in bytes.
    pub fn on_blank_drives(seed: u64, random: &mut Random, drive_bytes: u64) -> Self {
        let drives = Drives::new(seed, &vec![drive_bytes; 1 + random.below(3) as usize]);
        let mut machine = Self::new(seed, drives);
        machine.reach = [0, 10, 100][random.below(3) as usize];
        machine
    }

    /// Number of completed drive requests or cluster operations.
    pub fn completed(&self) -> u64 {
        self.drives.completed() + self.released
    }

    /// Cuts the power after this many more requests.
    pub fn crash_after(&mut self, requests: u64) {
        self.crash_at = self.completed() + requests;
    }

    /// Cancels the crash until [`Machine::crash_after`].
    pub fn go_on(&mut self) {
        self.crash_at = u64::MAX;
    }

    /// True when [`Machine::crash`] is due.
    pub fn must_crash(&self) -> bool {
        self.completed() >= self.crash_at
    }

    /// Cuts the power: tasks are dropped, and drives keep their durable contents.
    pub fn crash(&mut self) {
        self.drives.note("crash");
        self.drives.crash();
        self.executor = Executor::default();
        self.jobs.crash();
        self.clock = None;
        // Requests of tasks during their drop are now cut off.
        self.crash_at = u64::MAX;
    }

    /// Starts a background task.
    pub fn start_background(&mut self, future: impl Future<Output = ()> + 'static) {
        self.executor.spawn_background(self.reach, future);
    }

    /// Starts a task with a result.
    pub fn start<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> (TaskId, Outcome<T>) {
        let slot = Arc::new(Mutex::new(None));
        let result = slot.clone();
        let id = self.executor.spawn(async move {
            let value = future.await;
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        });
        (id, Outcome(slot))
    }

    /// Performs one step; false if none is left.
    ///
    /// # Errors
    /// If the run exceeds [`MAX_STEPS`].
    pub fn step(&mut self) -> Result<bool, String> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err("it loops forever".into());
        }
        let held = self.cluster.as_ref().map_or(0, Cluster::held);
        let (mut tasks, requests) = (self.executor.ready(), self.drives.pending() + held);
        if self.jobs.ends_now(tasks == 0 && requests == 0) {
            self.executor.pass();
            let which = self.jobs.end_one();
            self.drives.note(which);
            return Ok(true);
        }
        if tasks == 0 && requests == 0 && self.executor.is_holding() {
            self.executor.release_background();
            tasks = self.executor.ready();
        }
        if tasks == 0 && requests == 0 {
            return Ok(false);
        }
        // Processors are usually faster than drives.
        if requests == 0 || tasks > 0 && self.random.chance(80) {
            Ok(self.executor.step(&mut self.random))
        } else {
            self.executor.pass();
            Ok(self.step_storage())
        }
    }

    fn step_storage(&mut self) -> bool {
        let Some(cluster) = &self.cluster else { return self.drives.step() };
        let which = self.random.below(1 << 16);
        self.drives.note(which);
        self.released += 1;
        cluster.release(which as usize)
    }

    /// Runs a future to completion; `None` if the machine must crash first.
    ///
    /// # Errors
    /// If no task or request can proceed and the future has not ended.
    pub fn finish<T: 'static>(
        &mut self,
        future: impl Future<Output = T> + 'static,
    ) -> Result<Option<T>, String> {
        let (_, outcome) = self.start(future);
        let mut waits = 0;
        loop {
            if let Some(value) = outcome.take() {
                return Ok(Some(value));
            }
            if self.must_crash() {
                return Ok(None);
            }
            if !self.step()? {
                waits += 1;
                if !self.wait(waits) {
                    return Err("it waits for an event that never happens".into());
                }
            }
        }
    }

    /// Runs the engine's check before its background starts; false if the machine must crash first.
    ///
    /// # Errors
    /// The inconsistency found.
    pub fn check(&mut self, engine: &Arc<Engine>) -> Result<bool, String> {
        let engine = engine.clone();
        match self.finish(async move { engine.check().await })? {
            None => Ok(false),
            Some(Err(cause)) => Err(format!("check: {cause}")),
            Some(Ok(findings)) if findings.is_empty() => Ok(true),
            Some(Ok(findings)) => {
                let first = findings[..findings.len().min(10)].join("; ");
                Err(format!("check: {} findings: {first}", findings.len()))
            }
        }
    }

    /// Opens the store on drives, or creates it if it may not exist, and starts its background; `None` if the machine
    /// must crash first.
    ///
    /// # Errors
    /// The reason why it can't be opened.
    pub fn open_shelf(
        &mut self,
        drives: Vec<Arc<dyn Drive>>,
        may_format: bool,
        options: FormatOptions,
    ) -> Result<Option<Arc<DriveShelf>>, String> {
        let open = async move {
            if may_format && !DriveShelf::is_formatted(&drives).await? {
                DriveShelf::format(drives, options).await
            } else {
                DriveShelf::open_with(drives, options.opening, options.limits).await
            }
        };
        let Some(shelf) = self.finish(open)? else { return Ok(None) };
        let shelf = shelf.map_err(|cause| format!("opening the shelf: {cause}"))?;
        shelf.use_workers(self.jobs.workers());
        self.start_background(shelf.background());
        Ok(Some(shelf))
    }

    /// Starts an array on the drives: store, engine, its check, and the background of both with a running clock; `None`
    /// if the machine must crash first. `formatted` becomes true once the store exists.
    ///
    /// # Errors
    /// The reason why it can't be opened, or the inconsistency found.
    pub fn start_array(
        &mut self,
        formatted: &mut bool,
        store: FormatOptions,
        options: Options,
    ) -> Result<Option<Arc<Engine>>, String> {
        let handles = self.drives.handles();
        let Some(shelf) = self.open_shelf(handles, !*formatted, store)? else { return Ok(None) };
        *formatted = true;
        let options = Options { workers: self.jobs.workers().clone(), ..options };
        let Some(engine) = self.finish(Engine::open(shelf.clone(), options))? else { return Ok(None) };
        let engine = engine.map_err(|cause| format!("opening the engine: {cause}"))?;
        let ticking = engine.clone();
        self.clock = Some(Box::new(move |now| {
            shelf.tick(now);
            ticking.watch_drives();
        }));
        if !self.check(&engine)? {
            return Ok(None);
        }
        self.start_background(engine.background());
        Ok(Some(engine))
    }

    /// Advances the time.
    pub fn pass(&self, time: Duration) {
        if let Some(clock) = &self.clock {
            clock(self.drives.pass(time));
        }
    }

    /// Advances the time when nothing else can happen, for the `turn`th time; false if that is useless.
    pub fn wait(&self, turn: u32) -> bool {
        if turn >= WAITS_WITH_OTHER_FILES {
            self.drives.fill_file_system(0);
        }
        self.pass(self.idle_step);
        // Slow drives need many turns for a long operation; the limit of steps ends one that does not progress.
        self.clock.is_some() && (turn < MAX_WAITS || self.drives.will_reply())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.executor = Executor::default();
        self.jobs.crash();
        self.clock = None;
        self.drives.crash();
        self.drives.end();
    }
}
