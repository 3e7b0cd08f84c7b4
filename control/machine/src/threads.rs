//! Threads by name, which end the process if they panic, and the priority of management.

use anyhow::{Context, Result};
use rustix::process::{getpriority_process, setpriority_process};
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// How much lower the priority of management is than that of I/O, as a nice value.
const MANAGEMENT_NICE: i32 = 10;
/// The lowest priority.
const MAX_NICE: i32 = 19;

/// A thread with a runtime, by name.
pub type Watched = (String, Handle);

/// A runtime of management. Its blocking threads measure and write the history.
///
/// # Errors
/// If the system has no resources for it.
pub fn management() -> Result<Runtime> {
    let runtime = builder().on_thread_start(lower_priority).build();
    runtime.context("a runtime can't be created")
}

/// Lowers the priority of the calling thread, and of threads that it starts, to that of management: beside I/O on all processors it
/// gets about a tenth of one. Linux keeps a nice value for each thread.
pub fn lower_priority() {
    let lowered = getpriority_process(None)
        .and_then(|now| setpriority_process(None, (now + MANAGEMENT_NICE).min(MAX_NICE)));
    if let Err(error) = lowered {
        tracing::warn!(%error, "management keeps the priority of I/O");
    }
}

/// A runtime with the priority of I/O.
///
/// # Errors
/// If the system has no resources for it.
pub fn runtime() -> Result<Runtime> {
    builder().build().context("a runtime can't be created")
}

/// How every runtime of the process begins: on one thread, with sockets and a clock.
pub fn builder() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    builder
}

/// Starts a thread that ends the process if it panics.
///
/// # Errors
/// If there is no thread.
pub fn named(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let guarded = move || {
        let guard = AbortOnPanic;
        body();
        drop(guard);
    };
    let started = std::thread::Builder::new().name(name.into()).spawn(guarded);
    started.with_context(|| format!("the thread {name} can't be started"))
}

/// Work on a thread of its own, until it is stopped.
pub struct Worker {
    name: &'static str,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    handle: Handle,
}

/// Starts work that does not end by itself. What it spawns is on the same thread.
///
/// # Errors
/// If there is no thread.
pub fn worker(
    name: &'static str,
    runtime: Runtime,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<Worker> {
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    let thread = named(name, move || {
        runtime.block_on(async {
            tokio::select! {
                // Ends when the sender is dropped as well.
                _ = stopped => {}
                () = work => panic!("the thread {name} has nothing to do although the array runs"),
            }
        });
    })?;
    Ok(Worker { name, stop, thread, handle })
}

impl Worker {
    /// Where other work of this kind can be spawned.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Its name and runtime, for the watchdog.
    pub fn watched(&self) -> Watched {
        (self.name.into(), self.handle())
    }

    /// Ends it, and every task on it.
    pub fn stop(self) {
        drop(self.stop);
        // A panic there has ended the process already.
        _ = self.thread.join();
    }
}

/// Aborts the process when a thread panics: without its background work or a shard the array would accept connections
/// but not respond.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
