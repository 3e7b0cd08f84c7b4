//! Each fatal end takes place in a child: this test program, started again with the name of the end in its environment.

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

const END: &str = "ASHLARD_TEST_FATAL_END";
/// SIGABRT.
const ABORTED: i32 = 6;

/// The child of the tests below; as a test of its own it does nothing.
#[test]
fn child() {
    let Ok(end) = std::env::var(END) else { return };
    abort_on_panic();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match end.as_str() {
        "task" => runtime.block_on(async {
            // As on a shard: the runtime would catch it, and the lock is let go over what is half done.
            let state = Arc::new(Mutex::new(0));
            let held = state.clone();
            let task = tokio::spawn(async move {
                let mut state = held.lock().unwrap();
                *state = 1;
                panic!("half {}", "applied");
            });
            let _ = task.await;
            println!("SURVIVED");
        }),
        "thread" => {
            let thread = std::thread::Builder::new().name("notify".into()).spawn(|| panic!("in a thread"));
            let _ = thread.unwrap().join();
            println!("SURVIVED");
        }
        "blocking" => runtime.block_on(async {
            let _ = tokio::task::spawn_blocking(|| panic!("on a blocking thread")).await;
            println!("SURVIVED");
        }),
        "returned" => runtime.block_on(async {
            let mut tasks = Supervised::default();
            tasks.spawn("forever", std::future::pending());
            tasks.spawn("clock", async {});
            match tasks.watch().await {}
        }),
        "ended" => runtime.block_on(async {
            let mut tasks = Supervised::default();
            tasks.spawn("forever", std::future::pending());
            tokio::select! {
                never = tasks.watch() => match never {},
                () = tokio::task::yield_now() => tasks.end(),
            }
            println!("SURVIVED");
        }),
        other => panic!("no such end: {other}"),
    }
}

/// How the child ended, and what it said.
fn end(how: &str) -> (Option<i32>, String) {
    let own = std::env::current_exe().unwrap();
    let child = Command::new(own)
        .args(["--exact", "fatal::tests::child", "--nocapture", "--test-threads", "1"])
        .env(END, how)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [child.stdout, child.stderr].concat();
    (child.status.signal(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_panic_anywhere_ends_the_process_before_a_lock_is_let_go() {
    for (how, what) in
        [("task", "half applied"), ("thread", "thread notify panicked"), ("blocking", "on a blocking thread")]
    {
        let (signal, said) = end(how);
        assert_eq!(signal, Some(ABORTED), "{how}: {said}");
        assert!(said.contains("FATAL") && said.contains("fatal_test.rs:") && said.contains(what), "{said}");
        assert!(!said.contains("SURVIVED"), "{said}");
    }
}

#[test]
fn a_supervised_task_that_ends_ends_the_process() {
    let (signal, said) = end("returned");
    assert_eq!(signal, Some(ABORTED), "{said}");
    assert!(said.contains("FATAL the task \"clock\" ended"), "{said}");
    let (signal, said) = end("ended");
    assert!(signal.is_none() && said.contains("SURVIVED"), "the end of the array is none: {said}");
}

#[test]
fn a_process_that_is_stuck_ends_when_its_time_has_passed() {
    let (sender, ended) = std::sync::mpsc::channel();
    let late = Deadline::with(Duration::ZERO, {
        let sender = sender.clone();
        move || sender.send("late").unwrap()
    });
    assert_eq!(ended.recv(), Ok("late"));
    drop(late);
    let in_time = Deadline::with(Duration::MAX, move || sender.send("in time").unwrap()).unwrap();
    drop(in_time);
    assert!(ended.recv().is_err(), "its thread has ended without the process");
}
