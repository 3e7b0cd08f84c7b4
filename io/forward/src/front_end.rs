//! The front end for sessions of hosts: a device server for each nexus, which forwards its commands to the home.

use crate::fetching::{Fetch, Progress, follow};
use crate::front::{Event, Front};
use crate::service::Service;
use crate::{MAX_PAUSE_NS, Result, wire};
use block::{Data, Resolver};
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use peer::Channel;
use peer::message::Hello;
use scsi::{
    Command, DeviceServer, Execution, Lun, Management, ManagementFunction, ManagementResponse, Nexus,
    Response, TransferBound,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::{Notify, oneshot, watch};

/// Nanoseconds of a clock that counts while the machine sleeps.
type Now = dyn Fn() -> u64 + Send + Sync;

/// A front end: device servers for sessions on one side, the driver of its link on the other.
pub struct FrontEnd {
    now: Box<Now>,
    state: Mutex<State>,
    /// Notified when there may be output.
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
    nexuses: BTreeMap<u32, Session>,
    /// Last time at which this process is known to have run.
    awake: u64,
}

/// What the session of a nexus has given, and what it may use.
struct Session {
    /// Ends the session.
    lost: Box<dyn Fn() + Send + Sync>,
    /// The nexus itself, once the home is this process.
    here: Option<Arc<Nexus>>,
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
    /// A front end without a link. `instance` is the number of its process, as in its hello; `now` is a clock that
    /// counts while the machine sleeps.
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

    /// The newest configuration from a home; `None` before the first.
    pub fn configuration(&self) -> watch::Receiver<Option<Bytes>> {
        self.configuration.subscribe()
    }

    /// Whether there is a connection to the home.
    pub fn connected(&self) -> watch::Receiver<bool> {
        self.connected.subscribe()
    }

    /// Sets the reader of located data; `None` if homes may not locate data.
    pub fn resolve_with(&self, resolver: Option<Arc<dyn Resolver>>) {
        let (mut state, _) = self.lock();
        state.front.locate(resolver.is_some());
        state.resolver = resolver;
    }

    /// Power-on of the target, as reported by the last home; `None` if it did not report one.
    pub fn power_on(&self) -> Option<u64> {
        self.state.lock().front.power_on()
    }

    /// Locks the state and reads the time. After a pause of the process, its nexuses are lost first.
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

    /// Begins a nexus. `lost` is called, by any thread, when it is lost after a pause of this process: it must end the
    /// session.
    pub fn attach(
        self: &Arc<Self>,
        port: u16,
        isid: [u8; 6],
        initiator: &str,
        lost: impl Fn() + Send + Sync + 'static,
    ) -> Device {
        let (mut state, _) = self.lock();
        let nexus = state.front.attach(port, isid, initiator);
        state.nexuses.insert(nexus, Session { lost: Box::new(lost), here: None });
        drop(state);
        self.asked.notify_one();
        Device { front_end: self.clone(), nexus, here: None, is_managed: false }
    }

    /// Connects sessions to their nexuses directly, as far as these are at `service`, the home's in this process. What the
    /// sessions have sent is given to the service first, so that commands keep their order.
    ///
    /// # Errors
    /// Those of [`Service::receive`].
    pub fn shorten(&self, service: &mut Service) -> Result<()> {
        let (mut state, now) = self.lock();
        state.front.take_output().into_iter().try_for_each(|bytes| service.receive(bytes, now))?;
        let State { front, nexuses, .. } = &mut *state;
        for (number, nexus) in service.named_nexuses() {
            if let Some(session) = nexuses.get_mut(&number)
                && session.here.is_none()
                && !front.has_unsent_requests(number)
            {
                session.here = Some(nexus.clone());
            }
        }
        Ok(())
    }

    /// Takes a new connection to the home, which sent `hello`; it replaces an earlier one.
    pub fn connect(&self, channel: Channel, hello: &Hello) {
        let (mut state, now) = self.lock();
        state.front.connect(channel, hello, now);
        self.act(state);
        _ = self.connected.send_replace(true);
    }

    /// Handles the end of the connection.
    pub fn disconnect(&self) {
        let (mut state, now) = self.lock();
        state.front.disconnect(now);
        self.act(state);
        _ = self.connected.send_replace(false);
    }

    /// Processes bytes of the connection.
    ///
    /// # Errors
    /// The cause, after which the connection has to be closed, with [`FrontEnd::disconnect`].
    pub fn receive(&self, bytes: Bytes) -> Result<()> {
        let (mut state, now) = self.lock();
        let received = state.front.receive(bytes, now);
        self.act(state);
        received
    }

    /// Advances the time. Must be called several times a second, with or without a connection.
    ///
    /// # Errors
    /// [`crate::Error::Silent`]: the connection is to be closed.
    pub fn tick(&self) -> Result<()> {
        let (mut state, now) = self.lock();
        let ticked = state.front.tick(now);
        // Commands of sessions that have ended.
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

    /// Waits until a session has sent a request.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Takes the data of a command, or `None` if they can't be read. Returns its response; `None` if there was other
    /// progress.
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

    /// Passes on events. The woken tasks need the state at once, so they are notified after it was unlocked.
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
                        // The home was asked for the data before.
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
        if let Some(session) = self.nexuses.remove(&nexus) {
            (session.lost)();
        }
    }
}

/// A nexus of a front end. Dropping it ends the nexus.
pub struct Device {
    front_end: Arc<FrontEnd>,
    nexus: u32,
    /// The nexus itself, once the home is this process.
    here: Option<Arc<Nexus>>,
    /// A task management function was forwarded although the nexus is here: what comes after it must not overtake it.
    is_managed: bool,
}

impl Device {
    /// The nexus, if it is here. `is_last`: only once all that was forwarded has ended.
    fn nexus_here(&self, state: &State, is_last: bool) -> Option<Arc<Nexus>> {
        let here = state.nexuses.get(&self.nexus)?.here.clone()?;
        (!is_last || !state.front.has_requests(self.nexus)).then_some(here)
    }
}

impl DeviceServer for Device {
    /// While the unit is at another controller the largest bound applies.
    fn transfer_bound(&self, lun: Lun, cdb: &Bytes) -> TransferBound {
        match &self.here {
            Some(nexus) => nexus.transfer_bound(lun, cdb),
            None => TransferBound::of_any_unit(cdb),
        }
    }

    fn execute(&mut self, command: Command) -> Execution {
        if let Some(nexus) = &self.here {
            return nexus.execute(command);
        }
        let (mut state, now) = self.front_end.lock();
        if !state.nexuses.contains_key(&self.nexus) {
            // The session is ending.
            return Execution::Done(wire::busy());
        }
        if let Some(nexus) = self.nexus_here(&state, self.is_managed) {
            drop(state);
            self.is_managed = false;
            return self.here.insert(nexus).execute(command);
        }
        let (sender, ended) = oneshot::channel();
        let number = state.front.execute(self.nexus, command, now);
        state.commands.insert(number, sender);
        drop(state);
        let front_end = self.front_end.clone();
        Execution::Task(Box::pin(async move {
            // Commands that a session receives together all begin before the first of them is polled, so they are sent
            // together.
            front_end.asked.notify_one();
            follow(|number, data| front_end.fetched(number, data), ended).await
        }))
    }

    fn manage(&mut self, lun: Lun, function: ManagementFunction) -> Management {
        let (mut state, now) = self.front_end.lock();
        if !state.nexuses.contains_key(&self.nexus) {
            return ManagementResponse::Rejected.into();
        }
        // No response of an aborted command follows that of the function: it goes the way of the commands that have not ended.
        if let Some(nexus) = self.nexus_here(&state, true) {
            drop(state);
            return nexus.manage_and_save(lun, function);
        }
        (self.here, self.is_managed) = (None, true);
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
