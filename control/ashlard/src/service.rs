//! The service manager: that the array is ready or stops, and the watchdog (sd_notify(3)).
//!
//! The watchdog has a thread of its own, so that management that is slow never ends the service of hosts. It reports to the
//! manager only if every thread on which I/O depends has run a task of it. If one does not for as long as `WatchdogSec=`
//! says, the manager ends the process and starts it again, which loses no acknowledged write.

use anyhow::{Context, Result};
use machine::threads::Watched;
use sd_notify::NotifyState;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Rounds of the watchdog within the time that the manager waits.
const ROUNDS: u32 = 4;

/// Ends the watchdog when it is dropped.
pub struct Watchdog {
    _stop: Option<Sender<()>>,
}

/// Reports that everything listens, and watches the threads if the manager wants that.
///
/// # Errors
/// If the thread can't be started.
pub fn ready(threads: Vec<Watched>) -> Result<Watchdog> {
    ready_as("serving", threads)
}

/// Reports that this controller takes part in the cluster, and watches its thread likewise.
///
/// # Errors
/// If the thread can't be started.
pub fn standing_by(cluster: Watched) -> Result<Watchdog> {
    ready_as("standing by: another controller serves hosts", vec![cluster])
}

fn ready_as(status: &str, threads: Vec<Watched>) -> Result<Watchdog> {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
    let Some(limit) = sd_notify::watchdog_enabled() else { return Ok(Watchdog { _stop: None }) };
    let (stop, stopped) = channel();
    let report = || notify(&[NotifyState::Watchdog]);
    let thread = std::thread::Builder::new().name("watchdog".into());
    let started = thread.spawn(move || watch(&threads, limit / ROUNDS, &stopped, report));
    started.context("the thread watchdog can't be started")?;
    Ok(Watchdog { _stop: Some(stop) })
}

/// Reports that the array is stopping.
pub fn stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("writing the last checkpoint")]);
}

/// Reports what a start is doing, which may take minutes.
pub fn status(text: &str) {
    notify(&[NotifyState::Status(text)]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager can't be notified");
    }
}

/// Reports at each interval in which all threads respond, until it is stopped.
fn watch(threads: &[Watched], interval: Duration, stopped: &Receiver<()>, report: impl Fn()) {
    loop {
        let silent = silent(threads, interval);
        match silent.is_empty() {
            true => report(),
            false => tracing::error!(threads = ?silent, "these threads do not respond"),
        }
        if !matches!(stopped.recv_timeout(interval), Err(RecvTimeoutError::Timeout)) {
            return;
        }
    }
}

/// The names of threads that do not run a task within a time.
fn silent(threads: &[Watched], limit: Duration) -> Vec<&str> {
    let (done, answers) = channel();
    for (number, (_, handle)) in threads.iter().enumerate() {
        let done = done.clone();
        handle.spawn(async move {
            // Late: the waiter is gone.
            let _ = done.send(number);
        });
    }
    drop(done);
    let start = Instant::now();
    let mut silent: Vec<_> = threads.iter().map(|(name, _)| Some(name.as_str())).collect();
    while silent.iter().any(Option::is_some) {
        let Ok(number) = answers.recv_timeout(limit.saturating_sub(start.elapsed())) else { break };
        if let Some(name) = silent.get_mut(number) {
            *name = None;
        }
    }
    silent.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use tokio::runtime::Builder;

    /// A thread with a runtime that ends with the sender.
    fn thread(name: &str) -> (Watched, tokio::sync::oneshot::Sender<()>) {
        let runtime = Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || runtime.block_on(stopped));
        ((name.into(), handle), stop)
    }

    #[test]
    fn a_thread_that_does_not_respond_is_named_until_it_does() {
        let (one, _one) = thread("one");
        let (two, _two) = thread("two");
        let (release, held) = sync_channel::<()>(0);
        let (begun, begins) = sync_channel(0);
        two.1.spawn(async move {
            begun.send(()).unwrap();
            // Blocks the whole thread, as a defect would.
            held.recv().unwrap();
        });
        begins.recv().unwrap();
        let threads = [one, two];
        assert_eq!(silent(&threads, Duration::from_millis(100)), ["two"]);
        release.send(()).unwrap();
        assert!(silent(&threads, Duration::from_secs(60)).is_empty());
    }

    #[test]
    fn the_manager_gets_reports_only_while_every_thread_responds() {
        let (one, _one) = thread("one");
        let (stop, stopped) = channel();
        let (reported, reports) = channel();
        let watched = [one];
        let watching = std::thread::spawn(move || {
            watch(&watched, Duration::from_millis(1), &stopped, || reported.send(()).unwrap());
        });
        reports.recv().unwrap();
        reports.recv().unwrap();
        drop(stop);
        watching.join().unwrap();
    }
}
