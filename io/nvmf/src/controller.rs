//! A controller: the state that all queues of one host through one portal share (NVM Express Base 2.0 clause 3.1).

use crate::abort::Aborts;
use crate::authentication::{Credentials, Names};
use crate::event::Events;
use crate::namespaces::Namespaces;
use crate::path::{Path, View};
use crate::spec::{
    CAPABILITIES, DISCOVERY_MDTS, FeatureRow, MAX_IO_QUEUES, MDTS, READY_TIMEOUTS, VERSION, configuration,
    property,
};
use crate::sqe::Sqe;
use crate::status::Status;
use crate::subsystem::Subsystem;
use export::{Clock, Exports, InitiatorPort, NexusName};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc::UnboundedSender;
use transport::Control;

/// The portal that a host connected to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    /// Number of the portal: the relative identifier of the target port, used for statistics.
    pub(crate) number: u16,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// A controller of one host.
pub(crate) struct Controller {
    pub(crate) id: u16,
    /// The host's name in reservations.
    pub(crate) host: Arc<NexusName>,
    /// NQN of the host.
    pub(crate) nqn: Arc<str>,
    pub(crate) subsystem: Arc<Subsystem>,
    /// Credentials of the host; `None` if authentication is not required.
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// Whether this is a discovery controller.
    pub(crate) discovery: bool,
    pub(crate) port: Port,
    pub(crate) events: Events,
    state: Mutex<State>,
    pub(crate) namespaces: Namespaces,
    /// A command has come since the last tick of the admin queue.
    active: AtomicBool,
    /// The host is authenticated, or authentication is not required.
    admitted: AtomicBool,
    admin: UnboundedSender<Control>,
}

struct State {
    configuration: u32,
    status: u32,
    features: BTreeMap<(u8, u32), u32>,
    /// The connections of I/O queues, by queue identifier.
    queues: BTreeMap<u16, QueueLink>,
    /// Connections of I/O queues whose host has not authenticated: they hold no identifier.
    unproven: Vec<QueueLink>,
    /// Connections of I/O queues that the last reset ends, and that may still execute commands.
    ending: Vec<UnboundedSender<Control>>,
    /// I/O queues that the host may connect.
    granted: u16,
    keep_alive_ms: u32,
}

impl State {
    /// Assigns an identifier to the connection of a queue.
    fn claim(&mut self, qid: u16, link: QueueLink) -> Result<(), Status> {
        if self.queues.get(&qid).is_some_and(|other| !other.control.is_closed()) {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        self.queues.insert(qid, link);
        Ok(())
    }
}

/// The connection of an I/O queue, from its controller's view.
struct QueueLink {
    control: UnboundedSender<Control>,
    aborts: Arc<Aborts>,
}

/// Parameters of a new controller.
pub(crate) struct Start {
    pub(crate) id: u16,
    pub(crate) nqn: Arc<str>,
    pub(crate) host_id: [u8; 16],
    pub(crate) credentials: Option<Arc<Credentials>>,
    pub(crate) discovery: bool,
    pub(crate) port: Port,
    pub(crate) keep_alive_ms: u32,
    pub(crate) admin: UnboundedSender<Control>,
}

impl Controller {
    pub(crate) fn new(subsystem: Arc<Subsystem>, start: Start) -> Controller {
        let Start { id, nqn, host_id, credentials, discovery, port, keep_alive_ms, admin } = start;
        let initiator = InitiatorPort::Nvme { nqn: (*nqn).to_owned(), host_id };
        Controller {
            id,
            // A host is one registrant, regardless of its ports.
            host: Arc::new(NexusName { initiator, target_port: 0 }),
            nqn,
            subsystem,
            admitted: AtomicBool::new(credentials.is_none()),
            credentials,
            discovery,
            port,
            events: Events::default(),
            state: Mutex::new(State {
                configuration: 0,
                status: 0,
                features: BTreeMap::new(),
                queues: BTreeMap::new(),
                unproven: Vec::new(),
                ending: Vec::new(),
                granted: MAX_IO_QUEUES,
                keep_alive_ms,
            }),
            namespaces: Namespaces::default(),
            active: AtomicBool::new(true),
            admin,
        }
    }

    pub(crate) fn exports(&self) -> &Arc<Exports> {
        &self.subsystem.exports
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        self.exports().clock()
    }

    /// The namespace with this identifier, if the host sees it.
    pub(crate) fn path(&self, nsid: u32) -> Option<Arc<Path>> {
        self.namespaces.path(nsid)
    }

    /// The namespace that a command names, if the host saw it when the command arrived.
    pub(crate) fn path_of(&self, sqe: &Sqe) -> Option<Arc<Path>> {
        self.path(sqe.nsid()).filter(|path| path.since <= sqe.view)
    }

    /// All namespaces that the host sees.
    pub(crate) fn view(&self) -> Arc<View> {
        self.namespaces.view()
    }

    /// The controller identifier by which a registrant is listed.
    pub(crate) fn id_of(&self, host: &InitiatorPort) -> u16 {
        self.subsystem.listed_controller(host)
    }

    /// Names for the mutual authentication of host and subsystem.
    pub(crate) fn names(&self) -> Names {
        Names { host: self.nqn.clone(), subsystem: self.subsystem.identity.nqn.as_str().into() }
    }

    /// Whether the host is authenticated, or authentication is not required.
    pub(crate) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Acquire)
    }

    /// Marks the host as authenticated; returns false if it was before.
    pub(crate) fn admit(&self) -> bool {
        !self.admitted.swap(true, Ordering::AcqRel)
    }

    /// Notes the arrival of a command on any queue.
    pub(crate) fn set_active(&self) {
        self.active.store(true, Ordering::Relaxed);
    }

    /// Whether a command arrived since the last call.
    pub(crate) fn take_active(&self) -> bool {
        self.active.swap(false, Ordering::Relaxed)
    }

    /// KATO in milliseconds; zero if there is no time-out.
    pub(crate) fn keep_alive_ms(&self) -> u32 {
        self.state.lock().keep_alive_ms
    }

    pub(crate) fn set_keep_alive_ms(&self, milliseconds: u32) {
        self.state.lock().keep_alive_ms = milliseconds;
    }

    /// Whether the controller processes commands other than fabrics commands.
    pub(crate) fn is_ready(&self) -> bool {
        self.state.lock().status & configuration::READY != 0
    }

    /// Grants I/O queues and returns their number (Base 5.27.1.5). The requested numbers count from zero; queues are
    /// pairs.
    pub(crate) fn grant_queues(&self, submission: u16, completion: u16) -> u16 {
        let granted = submission.min(completion).saturating_add(1).min(MAX_IO_QUEUES);
        self.state.lock().granted = granted;
        granted
    }

    /// I/O queues that the host may connect.
    pub(crate) fn granted_queues(&self) -> u16 {
        self.state.lock().granted
    }

    /// MDTS
    pub(crate) fn mdts(&self) -> u8 {
        if self.discovery { DISCOVERY_MDTS } else { MDTS }
    }

    /// Data of one command in bytes.
    pub(crate) fn max_transfer_bytes(&self) -> u32 {
        4096 << self.mdts()
    }

    /// Registers the connection of an I/O queue. The queue gets its identifier once its host has authenticated, if that
    /// is required.
    pub(crate) fn add_queue(
        &self,
        qid: u16,
        control: UnboundedSender<Control>,
    ) -> Result<Arc<Aborts>, Status> {
        let mut state = self.state.lock();
        // The host has to enable the controller first, and to ask for enough queues.
        if state.status & configuration::READY == 0 || qid == 0 || qid > state.granted {
            return Err(Status::CONNECT_INVALID_PARAMETERS);
        }
        // The host has not waited for the end of a reset (Base 6.3).
        if !state.ending.is_empty() {
            return Err(Status::CONNECT_CONTROLLER_BUSY);
        }
        let aborts = Arc::<Aborts>::default();
        let link = QueueLink { control, aborts: aborts.clone() };
        if self.credentials.is_none() {
            return state.claim(qid, link).map(|()| aborts);
        }
        state.unproven.retain(|other| !other.control.is_closed());
        state.unproven.push(link);
        Ok(aborts)
    }

    /// Assigns the identifier of an I/O queue after its host has authenticated. Returns false if another queue has it,
    /// or if the controller was reset.
    pub(crate) fn prove_queue(&self, qid: u16, control: &UnboundedSender<Control>) -> bool {
        let mut state = self.state.lock();
        let found = state.unproven.iter().position(|link| link.control.same_channel(control));
        let Some(index) = found else { return false };
        let link = state.unproven.swap_remove(index);
        state.claim(qid, link).is_ok()
    }

    /// Where aborts of commands of an I/O queue are requested.
    pub(crate) fn aborts(&self, qid: u16) -> Option<Arc<Aborts>> {
        self.state.lock().queues.get(&qid).map(|queue| queue.aborts.clone())
    }

    /// Removes an I/O queue whose connection ended.
    pub(crate) fn remove_queue(&self, qid: u16, control: &UnboundedSender<Control>) {
        let mut state = self.state.lock();
        if state.queues.get(&qid).is_some_and(|known| known.control.same_channel(control)) {
            state.queues.remove(&qid);
        }
        state.unproven.retain(|link| !link.control.same_channel(control));
        state.ending.retain(|ending| !ending.same_channel(control));
    }

    /// Number of connected I/O queues.
    pub(crate) fn connected_queues(&self) -> usize {
        self.state.lock().queues.len()
    }

    /// Ends the connections of all I/O queues. They may execute commands until [`Controller::remove_queue`].
    fn close_queues(&self, state: &mut State, reason: &'static str) {
        let unproven = std::mem::take(&mut state.unproven);
        let queues = std::mem::take(&mut state.queues);
        for queue in queues.into_values().chain(unproven) {
            if queue.control.send(Control::Close(reason)).is_ok() {
                state.ending.push(queue.control);
            }
        }
    }

    /// Ends the controller: it accepts no more queues.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.status = 0;
        self.close_queues(&mut state, "the controller has ended");
    }

    /// Closes the admin connection, and with it the controller and all other connections.
    pub(crate) fn close(&self, reason: &'static str) {
        let _gone = self.admin.send(Control::Close(reason));
    }

    /// A property (Base figure 35), and its size in bytes.
    pub(crate) fn property(&self, offset: u32) -> Option<(u64, usize)> {
        let state = self.state.lock();
        Some(match offset {
            property::CAP => (CAPABILITIES, 8),
            property::VS => (VERSION.into(), 4),
            property::CC => (state.configuration.into(), 4),
            // A reset has ended when no command of before takes effect any more (Base 3.7.2).
            property::CSTS if !state.ending.is_empty() => ((state.status | configuration::READY).into(), 4),
            property::CSTS => (state.status.into(), 4),
            property::NSSR => (0, 4),
            property::CRTO => (READY_TIMEOUTS.into(), 4),
            _ => return None,
        })
    }

    /// Sets the Controller Configuration: enables, disables or shuts down the controller (Base 3.5 and 3.6).
    pub(crate) fn configure(&self, new: u32) {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.configuration, new);
        let enabled = new & configuration::ENABLE != 0;
        if enabled && before & configuration::ENABLE == 0 {
            let fits = new & (configuration::COMMAND_SET | configuration::PAGE_SIZE) == 0;
            state.status = if fits { configuration::READY } else { configuration::FATAL };
        }
        if new & configuration::SHUTDOWN != 0 && before & configuration::SHUTDOWN == 0 {
            state.status |= configuration::SHUTDOWN_COMPLETE;
        }
        let reset = !enabled && before & configuration::ENABLE != 0;
        if reset {
            // A controller reset: features return to their defaults, and I/O queues end.
            state.status = 0;
            state.features.clear();
            state.granted = MAX_IO_QUEUES;
            self.close_queues(&mut state, "the host resets its controller");
        }
        drop(state);
        if reset {
            self.events.configure(0);
        }
    }

    /// The current value of a feature that the controller only stores.
    pub(crate) fn feature(&self, row: &FeatureRow, nsid: u32) -> u32 {
        self.state.lock().features.get(&(row.feature as u8, nsid)).copied().unwrap_or(row.default)
    }

    pub(crate) fn set_feature(&self, row: &FeatureRow, nsid: u32, value: u32) {
        self.state.lock().features.insert((row.feature as u8, nsid), value);
    }
}
