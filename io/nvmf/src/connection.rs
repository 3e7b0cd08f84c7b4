//! State machine of one connection, without sockets and clocks: bytes in, commands to the subsystem, bytes out. The
//! spine of this crate.
//!
//! A connection begins with ICReq and Connect, which makes it a queue. Its owner (the portal, a test) fills
//! [`Connection::space`], calls [`Connection::received`], polls its tasks, sends what [`Connection::slices`] returns, and
//! calls [`Connection::tick`] once a second.

use crate::abort::Aborts;
use crate::authentication::{Authentication, Failure};
use crate::controller::{Controller, Port};
use crate::fabrics::{self, Connect, QID_OFFSET, Refusal, SIZE_OFFSET};
use crate::observer::{ConnectRefusal, RefusedConnect};
use crate::pdu::incoming::Pdu;
use crate::pdu::outgoing::Outgoing;
use crate::pdu::{DATA_DIGEST, Digests, FatalError, HEADER_DIGEST, Header, Termination, kind};
use crate::psk::PskIdentity;
use crate::queue::{
    Admit, Held, Host, Queue, QueueEnd, UNAUTHENTICATED_COVERED_BYTES, WAITING_RECORD_BYTES, sqe_of,
};
use crate::spec::{DISCOVERY_NQN, MAX_ADMIN_ENTRIES, MAX_QUEUE_ENTRIES};
use crate::sqe::{FABRICS, Outcome, Sqe, completion};
use crate::status::Status;
use crate::subsystem::Subsystem;
use crate::wire::Wire;
use crate::worker::Worker;
use bytes::BytesMut;
use bytes::buf::Limit;
use smallvec::SmallVec;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::UnboundedSender;
use transport::{
    Budget, BudgetShare, Control, Guarantee, HandshakeFailure, LARGE_BUFFER_BYTES, LoginAttempts,
    MAX_TURN_PDUS, Owner, SMALL_BUFFER_BYTES, TLS_BYTES,
};

/// Guaranteed memory of a connection before Connect, in bytes: its receive buffer, one capsule, and responses.
pub(crate) const UNKNOWN_GUARANTEE_BYTES: u64 = 48 << 10;
/// Charge in bytes that the guarantees of an admin queue and of an I/O queue cover, in addition to waiting commands.
const ADMIN_COVERED_BYTES: u64 = 64 << 10;
const IO_COVERED_BYTES: u64 = 384 << 10;

/// Limits in seconds: for Connect, for a discovery controller without commands and keep alive timer, and for the
/// delivery of the last bytes.
const CONNECT_SECONDS: u32 = 30;
const DISCOVERY_IDLE_SECONDS: u32 = 120;
const CLOSE_SECONDS: u32 = 15;
/// Refused Connects after which the connection ends.
const MAX_REFUSED_CONNECTS: u32 = 4;
/// Seconds beyond two periods of the keep alive timer.
const KEEP_ALIVE_GRACE_SECONDS: u32 = 2;

/// Offsets of the NQNs of the subsystem and of the host in the data of Connect (Base figure 329).
const SUBSYSTEM_OFFSET: u16 = 256;
const HOST_OFFSET: u16 = 512;

/// Any controller (CNTLID of Connect, Base 6.3).
const ANY_CONTROLLER: u16 = 0xFFFF;

/// The configuration of a connection.
#[derive(Clone)]
pub struct ConnectionConfig {
    /// The subsystem.
    pub subsystem: Arc<Subsystem>,
    /// Memory of all connections together.
    pub budget: Arc<Budget>,
    /// Number of the portal, from 1.
    pub portal: u16,
    /// The local address.
    pub local: SocketAddr,
    /// The host's address.
    pub peer: SocketAddr,
    /// Sender of control messages to the connection.
    pub control: UnboundedSender<Control>,
    /// Random bytes for the authentication, used for no other purpose.
    pub seed: [u8; 32],
    /// Counts failed authentications from the host's address.
    pub attempts: LoginAttempts,
    /// Does the finite-field arithmetic of the authentication.
    pub worker: Worker,
    /// Whether the connection uses TLS, which takes memory.
    pub tls: bool,
}

impl ConnectionConfig {
    fn tls_bytes(&self) -> u64 {
        if self.tls { TLS_BYTES } else { 0 }
    }
}

/// A connection.
pub struct Connection {
    setup: ConnectionConfig,
    wire: Wire,
    stage: Stage,
    /// An arrived PDU waits for room.
    blocked: bool,
    /// Connects that were refused.
    refused: u32,
    /// Ticks without a command.
    idle_ticks: u32,
    /// PSK identity that authenticated the host.
    identity: Option<Box<[u8]>>,
}

enum Stage {
    /// ICReq or Connect is expected.
    Connecting,
    Queue(Box<Queue>),
    Ended(String),
}

impl Connection {
    /// A connection that expects ICReq.
    pub fn new(setup: ConnectionConfig) -> Self {
        let share =
            BudgetShare::unknown_host(setup.budget.clone(), UNKNOWN_GUARANTEE_BYTES + setup.tls_bytes());
        let (wire, stage) = (Wire::new(share), Stage::Connecting);
        Self { setup, wire, stage, blocked: false, refused: 0, idle_ticks: 0, identity: None }
    }

    /// The host has proved by TLS that it knows the key of this PSK identity.
    pub fn secured(&mut self, identity: &[u8]) {
        self.identity = Some(identity.into());
    }

    /// The TLS handshake failed; the connection ends.
    pub fn handshake_failed(&self, failure: &HandshakeFailure) {
        let cause = match &failure.offered {
            Some(_) => ConnectRefusal::TlsHandshake,
            None if failure.error.kind() == std::io::ErrorKind::UnexpectedEof => return,
            None => ConnectRefusal::TlsRequired,
        };
        let identity = failure.offered.as_deref().and_then(PskIdentity::parse);
        let host = identity.map(|identity| identity.host.to_owned());
        let ConnectionConfig { peer, portal, .. } = self.setup;
        self.setup.subsystem.refused(&RefusedConnect { host, peer, portal, cause });
    }

    /// Buffer space for the next bytes from the host.
    pub fn space(&mut self) -> Limit<&mut BytesMut> {
        self.wire.incoming.space()
    }

    /// True if the connection can receive more bytes now.
    pub fn wants_input(&self) -> bool {
        !self.blocked && !matches!(self.stage, Stage::Ended(_))
    }

    /// Bytes were put into [`Connection::space`].
    pub fn received(&mut self) {
        self.proceed();
    }

    /// Continues commands, and processes arrived PDUs while there is room for them. True if some are left for the next
    /// turn, see [`MAX_TURN_PDUS`].
    pub fn proceed(&mut self) -> bool {
        if let Stage::Queue(queue) = &mut self.stage
            && let Err(end) = queue.advance(&mut self.wire)
        {
            self.end(end);
            return false;
        }
        self.blocked = false;
        let mut pdus = 0;
        while self.wants_input() {
            if let Some(pdu) = self.wire.incoming.body() {
                if let Err(end) = self.take(pdu) {
                    self.end(end);
                }
                continue;
            }
            if pdus == MAX_TURN_PDUS {
                self.blocked = true;
                return true;
            }
            let header = match self.wire.incoming.head() {
                Ok(Some(header)) => header.clone(),
                Ok(None) => break,
                Err(termination) => {
                    self.end(termination.into());
                    break;
                }
            };
            pdus += 1;
            match self.admit(&header) {
                Ok(Admit::Take(charge)) => self.wire.incoming.accept(charge),
                Ok(Admit::Skip) => self.wire.incoming.skip(),
                Ok(Admit::Wait) => self.blocked = true,
                Err(termination) => self.end(termination.into()),
            }
        }
        false
    }

    fn admit(&mut self, header: &Header) -> Result<Admit, Termination> {
        match &mut self.stage {
            Stage::Queue(queue) => queue.admit(&mut self.wire, header),
            Stage::Connecting if header.kind() == kind::H2C_DATA => {
                let detail = "data before Connect";
                Err(Termination::other(FatalError::SequenceError, header.bytes(), detail))
            }
            Stage::Connecting | Stage::Ended(_) => Ok(Admit::Take(0)),
        }
    }

    fn take(&mut self, pdu: Pdu) -> Result<(), QueueEnd> {
        if pdu.header.kind() == kind::H2C_TERM_REQ {
            let (error, information) = (pdu.header.u16::<8>(), pdu.header.u32::<10>());
            self.close(&format!("terminated by the host: error {error:#x}, information {information:#x}"));
            return Ok(());
        }
        match &mut self.stage {
            Stage::Queue(queue) => queue.receive(&mut self.wire, pdu),
            Stage::Connecting if pdu.header.kind() == kind::IC_REQ => {
                self.initialize(&pdu.header).map_err(QueueEnd::from)
            }
            Stage::Connecting => self.connect(&pdu),
            Stage::Ended(_) => Ok(()),
        }
    }

    /// ICReq (TCP Transport 1.0 clause 3.6.2.1)
    fn initialize(&mut self, header: &Header) -> Result<(), Termination> {
        let [alignment, enabled] = header.array::<10, 2>();
        if header.u16::<8>() != 0 {
            let mut termination =
                Termination::other(FatalError::UnsupportedParameter, header.bytes(), "unknown PDU format");
            termination.information = 8;
            return Err(termination);
        }
        if alignment > 31 {
            return Err(Termination::field(header.bytes(), 10, "invalid alignment of data"));
        }
        let digests = Digests { header: enabled & HEADER_DIGEST != 0, data: enabled & DATA_DIGEST != 0 };
        if enabled & !(HEADER_DIGEST | DATA_DIGEST) != 0 {
            return Err(Termination::field(header.bytes(), 11, "an unknown digest"));
        }
        self.wire.out.initialize_response(digests);
        self.wire.incoming.greeted(digests);
        self.wire.out.greeted(digests, (usize::from(alignment) + 1) * 4);
        Ok(())
    }

    /// Processes the first command, which has to be Connect. A refused host may retry a few times.
    fn connect(&mut self, pdu: &Pdu) -> Result<(), QueueEnd> {
        let sqe = sqe_of(&pdu.header, 0);
        let outcome = match () {
            () if sqe.opcode() != FABRICS || sqe.fabrics_type() != fabrics::CONNECT => {
                Err(Status::COMMAND_SEQUENCE_ERROR.into())
            }
            () if pdu.damaged => Err(Status::TRANSIENT_TRANSPORT_ERROR.into()),
            () => self.try_connect(&sqe, &pdu.data),
        };
        match outcome {
            Ok(queue) => {
                let queue = self.stage_queue(queue);
                queue.0.complete_connect(queue.1, sqe.cid());
                self.idle_ticks = 0;
            }
            Err(refusal) => {
                self.report(&sqe, &pdu.data, refusal);
                let outcome = Outcome::from(refusal);
                self.wire.out.response(&completion(&outcome, 0, 0, sqe.cid()));
                self.refused += 1;
                if self.refused >= MAX_REFUSED_CONNECTS {
                    self.close("several Connects were refused");
                }
            }
        }
        Ok(())
    }

    /// Reports a Connect that was refused.
    fn report(&self, sqe: &Sqe, data: &[u8], refusal: Refusal) {
        tracing::debug!(peer = %self.setup.peer, ?refusal, "Connect refused");
        let connect = Connect::parse(sqe, data).ok();
        let names_subsystem = refusal == Refusal::data(SUBSYSTEM_OFFSET);
        let of_tls = connect.as_ref().and_then(|connect| self.check_tls(connect).err());
        let cause = match (of_tls, refusal.status) {
            (Some((_, cause)), _) => cause,
            (None, Status::CONNECT_INVALID_HOST) => ConnectRefusal::UnknownHost,
            (None, Status::CONNECT_CONTROLLER_BUSY)
                if connect.as_ref().is_some_and(|it| self.must_wait(it)) =>
            {
                ConnectRefusal::TooManyAttempts
            }
            (None, Status::CONNECT_CONTROLLER_BUSY) => ConnectRefusal::TooManyConnections,
            _ if names_subsystem && connect.is_some() => ConnectRefusal::UnknownSubsystem,
            _ => ConnectRefusal::Protocol,
        };
        let ConnectionConfig { peer, portal, .. } = self.setup;
        let host = connect.map(|connect| connect.host);
        self.setup.subsystem.refused(&RefusedConnect { host, peer, portal, cause });
    }

    /// Reports a queue that ends before its host is authenticated.
    fn report_unauthenticated(&self, queue: &Queue) {
        let cause = match queue.failure() {
            Some(Failure::WrongSecret) => ConnectRefusal::WrongDhchapSecret,
            Some(Failure::ControllerRefused) => ConnectRefusal::DhchapControllerRefused,
            Some(Failure::Protocol) => ConnectRefusal::Protocol,
            None if !queue.is_authenticated() => ConnectRefusal::DhchapRequired,
            None => return,
        };
        let ConnectionConfig { peer, portal, .. } = self.setup;
        let host = Some((*queue.controller.nqn).to_owned());
        self.setup.subsystem.refused(&RefusedConnect { host, peer, portal, cause });
    }

    fn stage_queue(&mut self, queue: Queue) -> (&mut Queue, &mut Wire) {
        self.stage = Stage::Queue(Box::new(queue));
        let Stage::Queue(queue) = &mut self.stage else { unreachable!("it was set just now") };
        (queue, &mut self.wire)
    }

    /// Checks Connect against the PSK identity: its host and subsystem must match, and the key must still be configured
    /// for the host. Without TLS, checks that neither host nor portal requires it (TCP Transport 1.0 clause 3.6.1.3).
    fn check_tls(&self, connect: &Connect) -> Result<(), (Refusal, ConnectRefusal)> {
        let subsystem = &self.setup.subsystem;
        let Some(identity) = &self.identity else {
            let is_required = self.setup.tls
                || connect.subsystem != DISCOVERY_NQN && subsystem.requires_tls_of(&connect.host);
            let refusal = (Status::CONNECT_INVALID_HOST.into(), ConnectRefusal::TlsRequired);
            return if is_required { Err(refusal) } else { Ok(()) };
        };
        let proved = PskIdentity::parse(identity).filter(|identity| subsystem.key_of(identity).is_some());
        let offset = match proved {
            Some(it) if it.host != connect.host => HOST_OFFSET,
            Some(it) if it.subsystem != connect.subsystem => SUBSYSTEM_OFFSET,
            Some(_) => return Ok(()),
            None => HOST_OFFSET,
        };
        Err((Refusal::data(offset), ConnectRefusal::TlsIdentity))
    }

    fn try_connect(&mut self, sqe: &Sqe, data: &[u8]) -> Result<Queue, Refusal> {
        let connect = Connect::parse(sqe, data)?;
        let discovery = connect.subsystem == DISCOVERY_NQN;
        // A discovery controller has no I/O queues, so that its rules never hold for a queue of another controller.
        if discovery && connect.qid > 0 {
            return Err(Refusal::command(QID_OFFSET));
        }
        if connect.host == connect.subsystem || connect.host == self.setup.subsystem.identity.nqn {
            return Err(Status::CONNECT_INVALID_HOST.into()); // Base 6.3
        }
        self.check_tls(&connect).map_err(|(refusal, _)| refusal)?;
        let subsystem = &self.setup.subsystem;
        if !discovery && connect.subsystem != subsystem.identity.nqn {
            return Err(Refusal::data(SUBSYSTEM_OFFSET));
        }
        if !discovery && subsystem.is_for_discovery(self.setup.portal) {
            return Err(Refusal::data(SUBSYSTEM_OFFSET));
        }
        let most = if connect.qid == 0 { MAX_ADMIN_ENTRIES } else { MAX_QUEUE_ENTRIES };
        if connect.entries > most {
            return Err(Refusal::command(SIZE_OFFSET));
        }
        if self.must_wait(&connect) {
            return Err(Status::CONNECT_CONTROLLER_BUSY.into());
        }
        let waiting = u64::from(connect.entries) * WAITING_RECORD_BYTES;
        let covered = waiting + if connect.qid == 0 { ADMIN_COVERED_BYTES } else { IO_COVERED_BYTES };
        let buffer = if connect.qid == 0 { SMALL_BUFFER_BYTES } else { LARGE_BUFFER_BYTES };
        let guarantee = Guarantee {
            total_bytes: covered + buffer as u64 + UNKNOWN_GUARANTEE_BYTES + self.setup.tls_bytes(),
            covered_bytes: covered,
        };
        let promised = self.take_memory(&connect, guarantee)?;
        let (controller, aborts) = match connect.qid {
            0 => (self.create_controller(&connect, discovery)?, Arc::<Aborts>::default()),
            _ => self.join_controller(&connect)?,
        };
        if connect.qid > 0 && promised.is_none() {
            self.wire.incoming.enlarge();
        }
        let entries = (connect.entries, connect.flow_control);
        let credentials = controller.credentials.clone();
        let authentication = Authentication::new(credentials, controller.names(), self.setup.seed);
        let ConnectionConfig { worker, attempts, control, .. } = self.setup.clone();
        let host = Host { worker, attempts, control, promised };
        Ok(Queue::new(controller, connect.qid, entries, (aborts, authentication), host))
    }

    /// Whether the host of a Connect has to wait after failed authentications.
    fn must_wait(&self, connect: &Connect) -> bool {
        let admission = self.setup.subsystem.admission(&connect.host);
        let admission = admission.filter(|_| connect.subsystem != DISCOVERY_NQN);
        admission.is_some_and(|admission| !self.setup.attempts.wait(admission).is_zero())
    }

    /// Reserves the memory of a queue. A queue whose host has to authenticate gets it afterwards. A discovery queue,
    /// which any host may open, never draws more.
    fn take_memory(&mut self, connect: &Connect, guarantee: Guarantee) -> Result<Option<Guarantee>, Refusal> {
        let share = &mut self.wire.share;
        if connect.subsystem != DISCOVERY_NQN && self.setup.subsystem.admission(&connect.host).is_some() {
            let total_bytes = UNKNOWN_GUARANTEE_BYTES + self.setup.tls_bytes();
            let covered_bytes = UNAUTHENTICATED_COVERED_BYTES;
            // The connection already holds this guarantee.
            let _has_room = share.guarantee(Guarantee { total_bytes, covered_bytes });
            return Ok(Some(guarantee));
        }
        let owner = match &self.identity {
            Some(_) => Owner::proved(&connect.host),
            None => Owner::address(self.setup.attempts.address()),
        };
        let has_room = match connect.subsystem == DISCOVERY_NQN {
            true => share.guarantee(guarantee),
            false => share.open(&owner, guarantee),
        };
        if has_room { Ok(None) } else { Err(Status::CONNECT_CONTROLLER_BUSY.into()) }
    }

    /// Connect of an admin queue: a new controller.
    fn create_controller(&self, connect: &Connect, discovery: bool) -> Result<Arc<Controller>, Refusal> {
        let ConnectionConfig { subsystem, portal, local, peer, control, .. } = &self.setup;
        if connect.controller != ANY_CONTROLLER {
            return Err(Refusal::data(16)); // controllers are assigned dynamically
        }
        let port = Port { number: *portal, local: *local, peer: *peer };
        let host = (&*connect.host, connect.host_id);
        let admin = (connect.keep_alive_ms, control.clone());
        Ok(subsystem.connect(host, discovery, port, admin)?)
    }

    /// Connect of an I/O queue: to a controller of the same host.
    fn join_controller(&self, connect: &Connect) -> Result<(Arc<Controller>, Arc<Aborts>), Refusal> {
        let controller = self.setup.subsystem.controller(connect.controller).ok_or(Refusal::data(16))?;
        if *controller.nqn != *connect.host {
            return Err(Refusal::data(HOST_OFFSET));
        }
        // Zero: the host does not repeat its identifier (Base figure 329).
        let same = connect.host_id == [0; 16]
            || matches!(&controller.host.initiator,
                export::InitiatorPort::Nvme { host_id, .. } if *host_id == connect.host_id);
        if !same {
            return Err(Refusal::data(0));
        }
        let added = controller.add_queue(connect.qid, self.setup.control.clone());
        let aborts = added.map_err(|status| match status {
            Status::CONNECT_INVALID_PARAMETERS => Refusal::command(QID_OFFSET),
            other => other.into(),
        })?;
        Ok((controller, aborts))
    }

    /// Sends completions of commands that have ended; pending if there are none. The context is woken when there may be
    /// some.
    pub fn poll_tasks(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Stage::Queue(queue) = &mut self.stage else { return Poll::Pending };
        queue.poll_tasks(&mut self.wire, cx).map(|polled| polled.unwrap_or_else(|end| self.end(end)))
    }

    /// The bytes to send next.
    pub fn slices(&self) -> SmallVec<[IoSlice<'_>; 96]> {
        self.wire.out.slices()
    }

    /// True if there are bytes to send.
    pub fn wants_output(&self) -> bool {
        !self.wire.out.is_empty()
    }

    /// The first `bytes` of [`Connection::slices`] were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.wire.out.advance(bytes);
        let held = match &self.stage {
            Stage::Queue(queue) => queue.held(&self.wire),
            _ => self.wire.out.len() as u64,
        };
        self.wire.share.settle(held);
    }

    /// Called once a second.
    pub fn tick(&mut self) {
        self.wire.incoming.tick();
        self.idle_ticks += 1;
        match &mut self.stage {
            Stage::Connecting if self.idle_ticks >= CONNECT_SECONDS => {
                self.close("there was no Connect in time");
            }
            Stage::Connecting => {}
            Stage::Queue(queue) => {
                let held = queue.held(&self.wire);
                self.wire.share.settle_all(held);
                if let Err(reason) = queue.tick(&self.wire) {
                    return self.close(reason);
                }
                if queue.qid > 0 {
                    return;
                }
                let controller = &queue.controller;
                if controller.take_active() {
                    self.idle_ticks = 0;
                }
                let limit = match (controller.keep_alive_ms(), controller.discovery) {
                    (0, true) => DISCOVERY_IDLE_SECONDS,
                    (0, false) => return,
                    (milliseconds, _) => {
                        (milliseconds.div_ceil(500)).saturating_add(KEEP_ALIVE_GRACE_SECONDS)
                    }
                };
                if self.idle_ticks >= limit {
                    self.close("the keep alive timer has expired");
                }
            }
            // The host does not receive the last bytes.
            Stage::Ended(_) if self.idle_ticks >= CLOSE_SECONDS => {
                self.wire.out = Outgoing::default();
                self.wire.share.settle_all(0);
            }
            Stage::Ended(_) => {}
        }
    }

    /// Ends the connection; commands are dropped, queued bytes may still be sent.
    pub fn close(&mut self, reason: &str) {
        if matches!(self.stage, Stage::Ended(_)) {
            return;
        }
        let stage = std::mem::replace(&mut self.stage, Stage::Ended(reason.to_owned()));
        if let Stage::Queue(queue) = stage {
            self.report_unauthenticated(&queue);
            queue.end();
            let (qid, controller) = (queue.qid, queue.controller.clone());
            // Its commands end before the controller learns that the queue has.
            drop(queue);
            match qid {
                0 => self.setup.subsystem.disconnect(&controller, reason),
                qid => controller.remove_queue(qid, &self.setup.control),
            }
        }
        self.idle_ticks = 0;
        self.wire.incoming = Default::default();
        self.wire.share.stop_waiting();
        self.wire.share.settle_all(self.wire.out.len() as u64);
    }

    fn end(&mut self, end: QueueEnd) {
        match end {
            QueueEnd::Disconnected => self.close("the host disconnected"),
            QueueEnd::Unauthenticated => self.close("the authentication failed"),
            QueueEnd::Refused(reason) => self.close(reason),
            QueueEnd::Terminated(termination) => {
                self.wire.out.terminate(&termination);
                self.close(&termination.to_string());
            }
        }
    }

    /// The resources held for commands, for tests.
    ///
    /// # Panics
    /// If its records contradict each other.
    pub fn audit(&self) -> Held {
        match &self.stage {
            Stage::Queue(queue) => queue.audit(),
            Stage::Connecting | Stage::Ended(_) => Held::default(),
        }
    }

    /// The reason of the end, once the connection has ended. Queued bytes may still have to be sent.
    pub fn ended(&self) -> Option<&str> {
        match &self.stage {
            Stage::Ended(reason) => Some(reason),
            _ => None,
        }
    }

    /// NQN of the host, once an authenticated host has connected to the subsystem; `None` for discovery.
    pub fn host(&self) -> Option<&str> {
        match &self.stage {
            Stage::Queue(queue) if !queue.controller.discovery && queue.is_authenticated() => {
                Some(&queue.controller.nqn)
            }
            _ => None,
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close("dropped");
    }
}
