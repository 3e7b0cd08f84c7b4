//! The front end as the sessions of hosts see it: a device server for each nexus, whose commands the home performs.

use crate::fetching::{Fetch, Progress, follow};
use crate::front::{Event, Front};
use crate::{MAX_PAUSE_NS, Result, wire};
use block::{Data, Resolver};
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use peer::Channel;
use peer::message::Hello;
use scsi::{
    Command, DeviceServer, Execution, Lun, Management, ManagementFunction, ManagementResponse, Response,
    TransferBound,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::{Notify, oneshot, watch};

/// Nanoseconds of a clock that counts while the machine sleeps.
type Now = dyn Fn() -> u64 + Send + Sync;

/// One front end: its sessions on one side, the driver of its link on the other.
pub struct FrontEnd {
    now: Box<Now>,
    state: Mutex<State>,
    /// There may be output.
    asked: Notify,
    configuration: watch::Sender<Option<Bytes>>,
    /// Whether there is a connection to the home.
    connected: watch::Sender<bool>,
}

struct State {
    front: Front,
    commands: BTreeMap<u64, oneshot::Sender<Progress>>,
    /// Reads data that the home has located.
    resolver: Option<Arc<dyn Resolver>>,
    functions: BTreeMap<u64, oneshot::Sender<ManagementResponse>>,
    /// Ends the session of each nexus.
    nexuses: BTreeMap<u32, Arc<dyn Fn() + Send + Sync>>,
    /// When this process was last seen to run.
    awake: u64,
}

/// A waiter and its notification.
enum Notice {
    Command(oneshot::Sender<Progress>, Progress),
    Function(oneshot::Sender<ManagementResponse>, ManagementResponse),
}

impl Notice {
    fn give(self) {
        // The waiter may have ended with its session.
        match self {
            Self::Command(waiting, progress) => _ = waiting.send(progress),
            Self::Function(waiting, response) => _ = waiting.send(response),
        }
    }
}

impl FrontEnd {
    /// A front end without a link. `instance` is the number of its process, which its hello names; `now` is a clock that counts
    /// while the machine sleeps.
    pub fn new(domain: u16, instance: u64, now: impl Fn() -> u64 + Send + Sync + 'static) -> Arc<Self> {
        let state = State {
            front: Front::new(domain, instance),
            commands: BTreeMap::new(),
            resolver: None,
            functions: BTreeMap::new(),
            nexuses: BTreeMap::new(),
            awake: now(),
        };
        let (state, asked, configuration) = (Mutex::new(state), Notify::new(), watch::Sender::new(None));
        Arc::new(Self {
            now: Box::new(now),
            state,
            asked,
            configuration,
            connected: watch::Sender::new(false),
        })
    }

    /// The newest configuration that homes have sent; `None` before the first.
    pub fn configuration(&self) -> watch::Receiver<Option<Bytes>> {
        self.configuration.subscribe()
    }

    /// Whether there is a connection to the home.
    pub fn connected(&self) -> watch::Receiver<bool> {
        self.connected.subscribe()
    }

    /// From now on homes may locate data, which this reads; `None` if they may not.
    pub fn resolve_with(&self, resolver: Option<Arc<dyn Resolver>>) {
        let (mut state, _) = self.lock();
        state.front.locate(resolver.is_some());
        state.resolver = resolver;
    }

    /// The power-on of the target that its last home had; `None` if that did not say so.
    pub fn power_on(&self) -> Option<u64> {
        self.state.lock().front.power_on()
    }

    /// The state, and the time. After a pause of the process its nexuses are lost before anything else happens.
    fn lock(&self) -> (MutexGuard<'_, State>, u64) {
        let mut state = self.state.lock();
        let now = (self.now)();
        let paused = now.saturating_sub(state.awake);
        state.awake = state.awake.max(now);
        if paused >= MAX_PAUSE_NS {
            let nexuses: Vec<u32> = state.nexuses.keys().copied().collect();
            for nexus in nexuses {
                state.front.detach(nexus);
                state.lose(nexus);
            }
        }
        (state, now)
    }

    /// Begins a nexus. `lost` is called when it is lost, after a pause of this process, and by any thread: the session is to end.
    pub fn attach(
        self: &Arc<Self>,
        port: u16,
        isid: [u8; 6],
        initiator: &str,
        lost: impl Fn() + Send + Sync + 'static,
    ) -> Device {
        let (mut state, _) = self.lock();
        let nexus = state.front.attach(port, isid, initiator);
        state.nexuses.insert(nexus, Arc::new(lost));
        drop(state);
        self.asked.notify_one();
        Device { front_end: self.clone(), nexus }
    }

    /// Takes a connection whose other end, the home, said `hello`, instead of an earlier one.
    pub fn connect(&self, channel: Channel, hello: &Hello) {
        let (mut state, now) = self.lock();
        state.front.connect(channel, hello, now);
        self.act(state);
        _ = self.connected.send_replace(true);
    }

    /// The connection has ended.
    pub fn disconnect(&self) {
        let (mut state, now) = self.lock();
        state.front.disconnect(now);
        self.act(state);
        _ = self.connected.send_replace(false);
    }

    /// Takes bytes of the connection.
    ///
    /// # Errors
    /// Why the connection is to be closed, with [`FrontEnd::disconnect`].
    pub fn receive(&self, bytes: Bytes) -> Result<()> {
        let (mut state, now) = self.lock();
        let received = state.front.receive(bytes, now);
        self.act(state);
        received
    }

    /// Lets the time pass. It has to be called several times a second, with a connection or without.
    ///
    /// # Errors
    /// [`crate::Error::Silent`]: the connection is to be closed.
    pub fn tick(&self) -> Result<()> {
        let (mut state, now) = self.lock();
        let ticked = state.front.tick(now);
        // Those of sessions that have ended.
        let State { commands, front, .. } = &mut *state;
        for (number, _) in commands.extract_if(.., |_, waiting| waiting.is_closed()) {
            front.drop_fetch(number);
        }
        state.functions.retain(|_, waiting| !waiting.is_closed());
        self.act(state);
        ticked
    }

    /// Bytes to write to the connection.
    pub fn take_output(&self) -> Vec<Bytes> {
        self.lock().0.front.take_output()
    }

    /// Waits until a session has asked for something.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }

    /// The data of a command were read, or can't be. Returns its response; `None` if there is other progress, or was.
    fn fetched(&self, number: u64, data: Option<Data>) -> Option<Response> {
        let (mut state, _) = self.lock();
        if let Some(response) = state.front.fetched(number, data) {
            state.commands.remove(&number);
            return Some(response);
        }
        self.act(state);
        self.asked.notify_one();
        None
    }

    /// Passes on what has happened. Who is woken by that needs the state at once: all are notified after it was unlocked.
    fn act(&self, mut state: MutexGuard<'_, State>) {
        let mut events: VecDeque<Event> = state.front.events().into();
        let mut notices = Vec::with_capacity(events.len());
        while let Some(event) = events.pop_front() {
            match event {
                Event::Completed(number, response) => {
                    notices.extend(state.notice(number, Progress::Ended(response)));
                }
                Event::AskedAgain(number, again) => {
                    let (sender, progress) = oneshot::channel();
                    notices.extend(state.notice(number, Progress::AskedAgain(progress)));
                    state.commands.insert(again, sender);
                }
                Event::Located(number, recipe) => {
                    let Some(resolver) = state.resolver.clone() else {
                        // It was asked for before.
                        state.front.fetched(number, None);
                        events.extend(state.front.events());
                        continue;
                    };
                    let (sender, progress) = oneshot::channel();
                    let fetch = Fetch { number, recipe, resolver, progress };
                    notices.extend(state.notice(number, Progress::Located(fetch)));
                    state.commands.insert(number, sender);
                }
                Event::Managed(number, response) => {
                    let waiting = state.functions.remove(&number);
                    notices.extend(waiting.map(|waiting| Notice::Function(waiting, response)));
                }
                Event::Configured(text) => _ = self.configuration.send_replace(Some(text)),
            }
        }
        drop(state);
        notices.into_iter().for_each(Notice::give);
    }
}

impl State {
    fn notice(&mut self, number: u64, progress: Progress) -> Option<Notice> {
        let waiting = self.commands.remove(&number)?;
        Some(Notice::Command(waiting, progress))
    }

    fn lose(&mut self, nexus: u32) {
        if let Some(lost) = self.nexuses.remove(&nexus) {
            lost();
        }
    }
}

/// A nexus of a front end. Dropping it is the loss of the nexus.
pub struct Device {
    front_end: Arc<FrontEnd>,
    nexus: u32,
}

impl DeviceServer for Device {
    /// The unit is at the home, so the bound is that of any.
    fn transfer_bound(&self, _: Lun, cdb: &Bytes) -> TransferBound {
        TransferBound::of_any_unit(cdb)
    }

    fn execute(&mut self, command: Command) -> Execution {
        let (mut state, now) = self.front_end.lock();
        if !state.nexuses.contains_key(&self.nexus) {
            // Its session is ending.
            return Execution::Done(wire::busy());
        }
        let (sender, ended) = oneshot::channel();
        let number = state.front.execute(self.nexus, command, now);
        state.commands.insert(number, sender);
        drop(state);
        let front_end = self.front_end.clone();
        Execution::Task(Box::pin(async move {
            // Commands that a session takes together have all begun before the first of them is polled: they are sent together.
            front_end.asked.notify_one();
            follow(|number, data| front_end.fetched(number, data), ended).await
        }))
    }

    fn manage(&mut self, lun: Lun, function: ManagementFunction) -> Management {
        let (mut state, now) = self.front_end.lock();
        if !state.nexuses.contains_key(&self.nexus) {
            return ManagementResponse::Rejected.into();
        }
        let (sender, ended) = oneshot::channel();
        let number = state.front.manage(self.nexus, lun, function, now);
        state.functions.insert(number, sender);
        drop(state);
        self.front_end.asked.notify_one();
        Management::Later(Box::pin(async { ended.await.ok() }))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let (mut state, _) = self.front_end.lock();
        state.nexuses.remove(&self.nexus);
        state.front.detach(self.nexus);
        drop(state);
        self.front_end.asked.notify_one();
    }
}
