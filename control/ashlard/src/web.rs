//! The thread of the API, so that requests, TLS and password hashing never delay iSCSI log-ins.

use crate::fatal;
use anyhow::{Context, Result};
use api::{Tls, Token};
use array::Array;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Threads for blocking work: queries, password hashing, directories.
const BLOCKING_THREADS: usize = 8;

/// The running API.
pub struct Web {
    stop: oneshot::Sender<()>,
    finish: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// Starts the API with a limit of `connections`. `plain`: whether to serve plain HTTP in addition to HTTPS.
pub fn start(
    listener: TcpListener,
    (tls, plain): (Tls, bool),
    array: Arc<Array>,
    token: Token,
    connections: usize,
) -> Result<Web> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(BLOCKING_THREADS).build();
    let runtime = runtime.context("a runtime can't be created")?;
    let (stop, mut stopped) = oneshot::channel();
    let (finish, finished) = oneshot::channel();
    let body = move || {
        runtime.block_on(async {
            let listener = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => fatal::stop(&format!("the API can't listen: {error}")),
            };
            api::serve(listener, tls, plain, array, token, connections, async {
                // Its other end is dropped when the array stops.
                let _ = (&mut stopped).await;
            })
            .await;
            // Changes in progress continue until the array has stopped.
            let _ = finished.await;
        });
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name("api".into()).spawn(body);
    Ok(Web { stop, finish, thread: thread.context("the thread api can't be started")? })
}

impl Web {
    /// Stops taking requests. Returns a function to be called after the array has stopped.
    pub fn stop(self) -> impl FnOnce() {
        drop(self.stop);
        let (finish, thread) = (self.finish, self.thread);
        move || {
            drop(finish);
            // A panic there has ended the process already.
            let _ = thread.join();
        }
    }
}
