//! The thread of the API, so that requests, TLS and password hashing never delay iSCSI log-ins, with a low priority, so that they
//! take little processor time from I/O; and its listeners.

use anyhow::{Context, Result};
use api::{Relayed, Service, Stream, Tls, Token};
use array::{ApiListeners, Array};
use machine::fatal;
use machine::threads::lower_priority;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// Threads for blocking work: queries, password hashing, directories.
const BLOCKING_THREADS: usize = 8;

/// Listeners of the API that come and go; that of the options is not among them.
pub struct Listeners {
    by_option: Mutex<SocketAddr>,
    tls_only: bool,
    /// While the API is served.
    running: Mutex<Option<Running>>,
}

struct Running {
    runtime: Handle,
    service: Service,
    open: BTreeMap<SocketAddr, Listener>,
}

struct Listener {
    task: AbortHandle,
    used: Arc<AtomicBool>,
}

impl Listeners {
    /// `by_option`: where the API listens as long as it runs. `tls_only`: no plain HTTP on loopback addresses.
    pub fn new(by_option: SocketAddr, tls_only: bool) -> Arc<Self> {
        Arc::new(Self { by_option: Mutex::new(by_option), tls_only, running: Mutex::default() })
    }

    /// Where it is really bound, if its port was free to choose.
    fn bound(&self, address: SocketAddr) {
        *self.by_option.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    /// Serves a connection that another controller passes on.
    pub fn take(&self, stream: Box<dyn Stream>, from: Relayed) {
        // Else the API is starting or stopping.
        if let Some(running) = self.running().as_ref() {
            running.runtime.spawn(running.service.clone().serve_relayed(stream, from));
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ApiListeners for Listeners {
    fn by_option(&self) -> SocketAddr {
        *self.by_option.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, address: SocketAddr) -> io::Result<()> {
        let mut running = self.running();
        let running = running.as_mut().ok_or_else(|| io::Error::other("the API is starting or stopping"))?;
        if running.open.contains_key(&address) {
            return Ok(());
        }
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        // A socket belongs to the runtime that it is used on.
        let _on_api = running.runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (used, plain) = (Arc::<AtomicBool>::default(), address.ip().is_loopback() && !self.tls_only);
        let task = running.runtime.spawn(running.service.clone().listen(listener, plain, used.clone()));
        tracing::info!(%address, "the API listens");
        running.open.insert(address, Listener { task: task.abort_handle(), used });
        Ok(())
    }

    fn close(&self, address: SocketAddr) {
        let closed = self.running().as_mut().and_then(|running| running.open.remove(&address));
        if let Some(listener) = closed {
            listener.task.abort();
            tracing::info!(%address, "the API does not listen any more");
        }
    }

    fn is_open(&self, address: SocketAddr) -> bool {
        self.running().as_ref().is_some_and(|running| running.open.contains_key(&address))
    }

    fn is_used(&self, address: SocketAddr) -> bool {
        let running = self.running();
        let listener = running.as_ref().and_then(|running| running.open.get(&address));
        listener.is_some_and(|listener| listener.used.load(Ordering::Relaxed))
    }
}

/// The running API.
pub struct Web {
    stop: oneshot::Sender<()>,
    finish: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// Starts the API with a limit of `connections`. `plain`: whether to serve plain HTTP in addition to HTTPS.
pub fn start(
    (listener, listeners): (TcpListener, Arc<Listeners>),
    (tls, plain): (Tls, bool),
    array: Arc<Array>,
    token: Token,
    connections: usize,
) -> Result<Web> {
    listeners.bound(listener.local_addr()?);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(BLOCKING_THREADS).build();
    let runtime = runtime.context("a runtime can't be created")?;
    let (stop, mut stopped) = oneshot::channel();
    let (finish, finished) = oneshot::channel();
    let body = move || {
        lower_priority();
        runtime.block_on(async {
            let listener = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => fatal::stop(&format!("the API can't listen: {error}")),
            };
            let service = Service::new(tls, array, token, connections);
            let running =
                Running { runtime: Handle::current(), service: service.clone(), open: BTreeMap::new() };
            *listeners.running() = Some(running);
            tokio::select! {
                () = service.clone().listen(listener, plain, Arc::default()) => {}
                // Its other end is dropped when the array stops.
                _ = &mut stopped => {}
            }
            let open = listeners.running().take().map(|running| running.open).unwrap_or_default();
            open.values().for_each(|listener| listener.task.abort());
            service.end();
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
