//! Fail-stop: a panic anywhere in the process, or the end of a task that must run as long as the array, aborts it.
//!
//! A panic that unwinds releases the engine's locks over a change that is half applied, and the next checkpoint makes
//! that durable. What is on the drives is consistent at every moment: the next start recovers everything that was
//! acknowledged. The hook runs before anything is unwound.

use crate::threads::named;
use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::backtrace::Backtrace;
use std::io::stderr;
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::sync::mpsc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long to wait for the reader of standard error before the process ends without the rest of the message.
const WRITE_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Makes every panic end the process.
pub fn abort_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let location = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let thread = thread.name().unwrap_or("without a name");
        stop(&format!("thread {thread} panicked at {location}: {}", message(info)))
    }));
}

/// Ends the process unless it is dropped in time: a thread that is stuck must not keep a process alive after a request to
/// stop. Everything that was acknowledged is recovered.
pub struct Deadline {
    /// Its drop ends the wait.
    _kept: mpsc::Sender<()>,
}

impl Deadline {
    /// Begins to wait on a thread of its own. `why` is what is reported if the time has passed.
    pub fn start(why: &'static str, limit: Duration) -> Result<Self> {
        Self::with(limit, move || stop(&format!("{why} within {} s", limit.as_secs())))
    }

    fn with(limit: Duration, end: impl FnOnce() + Send + 'static) -> Result<Self> {
        let (sender, dropped) = mpsc::channel();
        named("deadline", move || {
            if dropped.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                end();
            }
        })?;
        Ok(Self { _kept: sender })
    }
}

fn message<'a>(info: &'a PanicHookInfo<'_>) -> &'a str {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Prints the reason and a backtrace, and ends the process at once. The log is not used: the panic may have come from it.
pub fn stop(why: &str) -> ! {
    write_stderr(&format!(
        "FATAL {why}\nFATAL ashlard stops to protect data: start it again, and it recovers everything that was \
         acknowledged. Please report this.\n"
    ));
    write_stderr(&format!("{}\n", Backtrace::force_capture()));
    std::process::abort()
}

/// Writes to standard error without a lock, and with a time-out.
fn write_stderr(text: &str) {
    let (stderr, mut left) = (stderr(), text.as_bytes());
    while !left.is_empty() {
        let mut ready = [PollFd::from_borrowed_fd(stderr.as_fd(), PollFlags::OUT)];
        if !matches!(poll(&mut ready, Some(&WRITE_TIMEOUT)), Ok(1..)) {
            return;
        }
        // A pipe that is ready takes this much without waiting (PIPE_BUF).
        let part = &left[..left.len().min(4096)];
        match rustix::io::write(&stderr, part) {
            Ok(written @ 1..) => left = left.get(written..).unwrap_or_default(),
            _ => return,
        }
    }
}

/// Tasks that end only when the array does.
#[derive(Default)]
pub struct Supervised(JoinSet<&'static str>);

impl Supervised {
    /// Starts one.
    pub fn spawn(&mut self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(async move {
            work.await;
            name
        });
    }

    /// Waits until one ends, which ends the process: an array without its periodic work must not appear healthy.
    pub async fn watch(&mut self) -> std::convert::Infallible {
        match self.0.join_next().await {
            Some(Ok(name)) => stop(&format!("the task {name:?} ended although the array runs")),
            Some(Err(error)) => stop(&format!("a task ended although the array runs: {error}")),
            None => std::future::pending().await,
        }
    }

    /// Ends them all.
    pub fn end(&mut self) {
        self.0.abort_all();
    }
}

#[cfg(test)]
#[path = "fatal_test.rs"]
mod tests;
