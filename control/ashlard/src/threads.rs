//! Threads of the process: connections on shard threads, the engine's background work on another, which has workers to
//! compute for it, management on the main thread, so that management does not delay I/O.

use anyhow::{Context, Result};
use engine::{Engine, Rest};
use machine::threads::{self, Watched, Worker, builder, named, runtime};
use parking_lot::{Condvar, Mutex};
use raid::device::LocalRing;
use shelf::pool::Pool;
use shelf::{Job, Workers};
use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, mpsc};
use std::thread::{JoinHandle, available_parallelism};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Handle, LocalOptions, LocalRuntime};
use tokio::sync::oneshot;
use tokio::time::sleep;

/// The threads of connections of hosts.
#[derive(Clone, Copy, Default)]
pub struct Config {
    /// How many, if an option says so.
    pub number: Option<u16>,
}

impl Config {
    /// How many there are; `kept` is what the array keeps, if it keeps a number, which an option goes before.
    pub fn number_or(self, kept: Option<u16>) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.number.or(kept).map_or_else(processors, usize::from)
    }
}

/// Tasks that a shard polls between two checks for ready sockets and drives.
const EVENT_INTERVAL_TASKS: u32 = 8;

/// How long the background waits for more changes after one has woken it.
const COALESCE: Duration = Duration::from_millis(5);

/// How long writes gather before they are reduced.
const GATHER: Duration = Duration::from_secs(2);

/// Time without requests after which the array is idle.
const IDLE_AFTER: Duration = Duration::from_secs(1);

fn length(rest: Rest) -> Duration {
    match rest {
        Rest::Short => COALESCE,
        Rest::Gather => GATHER,
        Rest::Long => IDLE_AFTER,
    }
}

/// Submits this thread's drive requests and takes their completions. Never returns.
async fn serve_drives() {
    let ring = LocalRing::attach().and_then(|ring| {
        // SAFETY: the ring keeps its one descriptor open until it is dropped.
        let ring = unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) };
        ring.map_err(|error| shelf::Error::Unusable(error.to_string()))
    });
    let ring = match ring {
        Ok(ring) => ring,
        Err(error) => {
            tracing::warn!(%error, "this thread shares the ring of the process");
            return std::future::pending().await;
        }
    };
    loop {
        tokio::select! {
            ready = ring.readable() => match ready {
                Ok(mut ready) => ready.clear_ready(),
                Err(error) => panic!("the runtime of a shard has ended: {error}"),
            },
            () = ring.get_ref().asked() => {}
        }
        ring.get_ref().turn();
    }
}

/// Threads with a single-threaded runtime each, for connections.
pub struct Shards {
    handles: Vec<Handle>,
    running: Vec<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Shards {
    /// Starts `count` of them.
    pub fn start(count: usize) -> Result<Self> {
        let mut shards = Self { handles: Vec::new(), running: Vec::new() };
        for number in 0..count {
            let (stop, stopped) = oneshot::channel();
            let (begin, begun) = mpsc::channel();
            let thread = named(&shard(number), move || serve_shard(&begin, stopped))?;
            // A thread that has ended without an answer has panicked, and the process with it.
            let handle = begun.recv().context("a shard has ended")?;
            shards.handles.push(handle.context("a runtime can't be created")?);
            shards.running.push((stop, thread));
        }
        Ok(shards)
    }

    /// Where connections are to be spawned.
    pub fn handles(&self) -> Vec<Handle> {
        self.handles.clone()
    }

    /// Each, for the watchdog.
    pub fn watched(&self) -> impl Iterator<Item = Watched> {
        self.handles.iter().enumerate().map(|(number, handle)| (shard(number), handle.clone()))
    }

    /// Ends them, and every task on them.
    pub fn stop(self) {
        let threads: Vec<_> = self.running.into_iter().map(|(_, thread)| thread).collect();
        threads.into_iter().for_each(join);
    }
}

/// Runs the tasks of a shard until it is stopped. Its runtime belongs to its thread.
fn serve_shard(begin: &mpsc::Sender<io::Result<Handle>>, stopped: oneshot::Receiver<()>) {
    let runtime = builder().event_interval(EVENT_INTERVAL_TASKS).build_local(LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        // Who waits has gone only if the process ends.
        Err(error) => return drop(begin.send(Err(error))),
    };
    drop(begin.send(Ok(runtime.handle().clone())));
    run_shard(&runtime, stopped);
}

fn run_shard(runtime: &LocalRuntime, stopped: oneshot::Receiver<()>) {
    // A task in the queue of all others, and not what the runtime is blocked on: that is polled only after the runtime has looked
    // for events again, which is a system call for each time that a drive is asked.
    let mut drives = runtime.spawn_local(serve_drives());
    runtime.block_on(async {
        tokio::select! {
            // Ends when the sender is dropped as well.
            _ = stopped => {}
            ended = &mut drives => panic!("the drives of a shard are not served any more: {ended:?}"),
        }
        // Before the tasks that it answers: the ring waits for what is in flight.
        drives.abort();
        _ = drives.await;
    });
}

fn shard(number: usize) -> String {
    format!("shard{number}")
}

/// Interval at which the store's clock is advanced.
const SHELF_TICK: Duration = Duration::from_millis(100);

/// The thread of the store's background work: rebuild, repair, and timeouts of drives; and the workers, which compute for it
/// and for the engine.
pub struct StoreThread {
    store: Worker,
    workers: WorkerThreads,
}

/// Starts the thread of the store.
pub fn start_store(shelf: Arc<dyn Pool>, workers: WorkerThreads) -> Result<StoreThread> {
    let work = async move {
        let clock = async {
            let start = Instant::now();
            let mut every = tokio::time::interval(SHELF_TICK);
            every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                every.tick().await;
                // The time is never zero, which would mean that there is no clock.
                shelf.tick(SHELF_TICK + start.elapsed());
            }
        };
        tokio::select! {
            () = shelf.clone().background() => std::future::pending().await,
            () = clock => {}
        }
    };
    Ok(StoreThread { store: threads::worker("shelf", runtime()?, work)?, workers })
}

impl StoreThread {
    /// Where other work of this kind can be spawned.
    pub fn handle(&self) -> Handle {
        self.store.handle()
    }

    /// Its name and runtime, for the watchdog.
    pub fn watched(&self) -> Watched {
        self.store.watched()
    }

    /// Ends it, then the workers. Interrupted rebuilds restart with the next start.
    pub fn end(self) {
        self.store.stop();
        self.workers.end();
    }
}

/// Processors that workers leave to shards, as far as there are more.
const PROCESSORS_OF_SHARDS: usize = 2;

/// Jobs of the background and of the store, and the threads that compute them.
pub struct WorkerThreads {
    queue: Arc<JobQueue>,
    count: NonZeroUsize,
    threads: Vec<JoinHandle<()>>,
}

struct JobQueue {
    /// `None` after the end.
    jobs: Mutex<Option<VecDeque<Job>>>,
    more: Condvar,
}

impl JobQueue {
    /// A job after the end is dropped, which fails the work that waits for it.
    fn push(&self, job: Job) {
        let late = match &mut *self.jobs.lock() {
            Some(jobs) => {
                jobs.push_back(job);
                None
            }
            None => Some(job),
        };
        self.more.notify_one();
        drop(late);
    }

    /// The next one; `None` after the end.
    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        loop {
            if let Some(job) = jobs.as_mut()?.pop_front() {
                return Some(job);
            }
            self.more.wait(&mut jobs);
        }
    }
}

impl WorkerThreads {
    /// Starts one for each processor but two, and one at least. Their priority is that of the background.
    pub fn start() -> Result<Self> {
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        let count = processors.saturating_sub(PROCESSORS_OF_SHARDS);
        Self::start_count(NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN))
    }

    fn start_count(count: NonZeroUsize) -> Result<Self> {
        let queue = Arc::new(JobQueue { jobs: Mutex::new(Some(VecDeque::new())), more: Condvar::new() });
        let thread = |number| {
            let queue = queue.clone();
            named(&format!("worker{number}"), move || {
                while let Some(job) = queue.next() {
                    job();
                }
            })
        };
        let threads = (0..count.get()).map(thread).collect::<Result<_>>()?;
        Ok(Self { queue, count, threads })
    }

    /// Where jobs are handed over.
    pub fn workers(&self) -> Workers {
        let queue = self.queue.clone();
        Workers::new(self.count, move |job| queue.push(job))
    }

    /// Ends them; jobs that have not begun are dropped.
    pub fn end(self) {
        let left = self.queue.jobs.lock().take();
        self.queue.more.notify_all();
        drop(left);
        self.threads.into_iter().for_each(join);
    }
}

/// The thread of the engine's background work.
pub struct Background {
    thread: JoinHandle<()>,
    handle: Handle,
}

/// Starts the engine's background work: flushing, checkpoints, cleaning.
pub fn background(engine: Arc<Engine>) -> Result<Background> {
    let runtime = runtime()?;
    let handle = runtime.handle().clone();
    let body = move || runtime.block_on(engine.background_with_rest(|rest| sleep(length(rest))));
    Ok(Background { thread: named("background", body)?, handle })
}

impl Background {
    /// Its name and runtime, for the watchdog.
    pub fn watched(&self) -> Watched {
        ("background".into(), self.handle.clone())
    }

    /// Waits for its end after [`Engine::shutdown`].
    pub fn end(self) {
        join(self.thread);
    }
}

fn join(thread: JoinHandle<()>) {
    thread.join().expect("a thread that panics aborts the process");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::Barrier;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn workers_compute_at_the_same_time_and_end_with_jobs_dropped() {
        const COUNT: usize = 3;
        let threads = WorkerThreads::start_count(NonZeroUsize::new(COUNT).unwrap()).unwrap();
        let workers = threads.workers();
        // Passes only if all are in it.
        let all = Arc::new(Barrier::new(COUNT + 1));
        for _ in 0..COUNT {
            let all = all.clone();
            workers.run(move || _ = all.wait());
        }
        all.wait();
        threads.end();
        let mut late = pin!(workers.compute(|| 1));
        let polled = late.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Err(_))), "it does not wait forever: {polled:?}");
    }
}
