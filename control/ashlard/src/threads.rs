//! Who runs where: connections on shard threads, the engine's background on a thread of its own, management on the
//! main thread, so that nothing an operator does is in the way of an I/O.

use anyhow::{Context, Result};
use engine::Engine;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// The runtime of the main thread.
pub fn management() -> Result<Runtime> {
    runtime()
}

fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("a runtime can't be made")
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
            let runtime = runtime()?;
            shards.handles.push(runtime.handle().clone());
            let (stop, stopped) = oneshot::channel();
            let thread = named(&format!("shard{number}"), move || {
                // Ends when the sender is dropped as well.
                let _ = runtime.block_on(stopped);
            })?;
            shards.running.push((stop, thread));
        }
        Ok(shards)
    }

    /// Where connections are to be spawned.
    pub fn handles(&self) -> Vec<Handle> {
        self.handles.clone()
    }

    /// Ends them, and every task on them.
    pub fn stop(self) {
        let threads: Vec<_> = self.running.into_iter().map(|(_, thread)| thread).collect();
        threads.into_iter().for_each(join);
    }
}

/// The thread of the engine's background work.
pub struct Background(JoinHandle<()>);

/// Starts the engine's background work: flushing, checkpoints, cleaning.
pub fn background(engine: Arc<Engine>) -> Result<Background> {
    let runtime = runtime()?;
    named("background", move || runtime.block_on(engine.background())).map(Background)
}

impl Background {
    /// Waits for its end, which [`Engine::shutdown`] has caused.
    pub fn end(self) {
        join(self.0);
    }
}

fn named(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let guarded = move || {
        let guard = AbortOnPanic;
        body();
        drop(guard);
    };
    let started = std::thread::Builder::new().name(name.into()).spawn(guarded);
    started.with_context(|| format!("the thread {name} can't be started"))
}

/// An array without its background or a shard would look alive and answer nothing: better no array.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

fn join(thread: JoinHandle<()>) {
    thread.join().expect("a thread that panics aborts the process");
}
