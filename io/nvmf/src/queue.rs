//! A queue: execution of the commands of one connection after its Connect, from arrival to completion (NVMe TCP
//! Transport 1.0 clause 3.3, NVM Express Base 2.0 clause 3.3.3).
//!
//! A command is charged for its data before it is accepted. Within the entries of the queue, a command without
//! in-capsule data can always wait for memory. One with data waits in the stream, or, if requested data follows it
//! there, is refused with Command Interrupted, which hosts repeat.

use crate::abort::{self, Aborts};
use crate::admin;
use crate::authentication::{Authentication, Failure, MAX_NEGOTIATIONS, Step};
use crate::commands::{About, Commands, Gathered};
use crate::controller::Controller;
use crate::execute::{self, COMPARE, Execution, VERIFY};
use crate::fabrics;
use crate::fused::Pair;
use crate::pdu::incoming::Pdu;
use crate::pdu::{FatalError, Header, MAX_IN_CAPSULE_BYTES, Termination, kind};
use crate::read_write::VERIFY_CHUNK_BYTES;
use crate::sqe::{Command, DataLocation, Direction, FABRICS, Fuse, Outcome, Sqe, completion};
use crate::status::Status;
use crate::wire::Wire;
use crate::worker::Worker;
use block::Data;
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot::{Receiver, channel};
use transport::{Control, Guarantee, LoginAttempts, Owner, Progress, STALL_SECONDS, Transferred};

/// Upper bound of the memory for the record of one command, and of a waiting one, in bytes.
const RECORD_BYTES: u64 = 1 << 10;
pub(crate) const WAITING_RECORD_BYTES: u64 = 256;
/// Maximum memory for a message of authentication: a full capsule and its record.
const MAX_MESSAGE_NEED_BYTES: u64 = RECORD_BYTES + MAX_IN_CAPSULE_BYTES as u64;
/// Charge that the guarantee of a connection covers until its host has authenticated.
pub(crate) const UNAUTHENTICATED_COVERED_BYTES: u64 = 16 << 10;
const _: () = assert!(MAX_MESSAGE_NEED_BYTES < UNAUTHENTICATED_COVERED_BYTES);
/// Commands refused before the authentication, after which the queue ends.
const MAX_REFUSED_COMMANDS: u32 = 64;
/// Time limit of the authentication, and interval at which a host may begin more negotiations after a burst.
pub(crate) const AUTHENTICATION_SECONDS: u32 = 30;
const REAUTHENTICATION_SECONDS: u32 = 60;
/// Unsent bytes beyond which commands are not refused for lack of memory: they wait in the stream.
const MAX_UNSENT_BYTES: usize = 256 << 10;

/// Admission decision for a PDU whose header has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// Receive the PDU, with this charge in bytes.
    Take(u64),
    /// Receive the PDU without its data.
    Skip,
    /// Receive the PDU when there is room.
    Wait,
}

/// Why a queue ends.
#[derive(Debug)]
pub(crate) enum QueueEnd {
    /// The host disconnects.
    Disconnected,
    /// The host violates the protocol.
    Terminated(Termination),
    /// The host or the array failed to authenticate.
    Unauthenticated,
    /// The controller has no room for the queue of a host that has authenticated.
    Refused(&'static str),
}

impl From<Termination> for QueueEnd {
    fn from(termination: Termination) -> Self {
        QueueEnd::Terminated(termination)
    }
}

/// Resources that a connection holds for its commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Commands that have not ended.
    pub commands: usize,
    /// R2Ts with missing data, including those of commands that ended.
    pub requests: usize,
    /// Memory that is charged for the commands, in bytes.
    pub charge: u64,
}

/// A queue.
pub(crate) struct Queue {
    pub(crate) controller: Arc<Controller>,
    pub(crate) qid: u16,
    entries: u16,
    /// Submission queue head, if the host uses flow control.
    head: Option<u16>,
    commands: Commands,
    aborts: Arc<Aborts>,
    /// `None` while a worker uses it.
    authentication: Option<Box<Authentication>>,
    /// The message that a worker processes.
    working: Option<Working>,
    /// The host has caused finite-field work.
    worked: bool,
    host: Host,
    /// Why an authentication failed.
    failure: Option<Failure>,
    /// Commands refused because the host has not authenticated.
    refused: u32,
    seconds: u32,
    progress: Progress,
}

/// Properties of the connection that authentication needs.
pub(crate) struct Host {
    pub(crate) worker: Worker,
    pub(crate) attempts: LoginAttempts,
    pub(crate) control: UnboundedSender<Control>,
    /// The guarantee that the queue gets after the authentication; `None` once it is granted.
    pub(crate) promised: Option<Guarantee>,
}

/// An authentication message that a worker processes.
struct Working {
    /// Its command; `None` once a reset of the controller has ended it.
    command: Option<Command>,
    result: Receiver<Exchanged>,
}

/// Result of processing an authentication message.
struct Exchanged {
    authentication: Box<Authentication>,
    /// The message for the host, if it receives one.
    message: Option<Vec<u8>>,
    step: Step,
}

impl Exchanged {
    /// Processes a message from the host, or creates the message that it receives.
    fn new(mut authentication: Box<Authentication>, sent: Option<&[u8]>) -> Self {
        let (message, step) = match sent {
            Some(sent) => (None, authentication.send(sent)),
            None => {
                let (message, step) = authentication.receive();
                (Some(message), step)
            }
        };
        Self { authentication, message, step }
    }
}

impl Queue {
    pub(crate) fn new(
        controller: Arc<Controller>,
        qid: u16,
        (entries, flow_control): (u16, bool),
        (aborts, authentication): (Arc<Aborts>, Authentication),
        host: Host,
    ) -> Self {
        Self {
            controller,
            qid,
            entries,
            head: flow_control.then_some(0),
            commands: Commands::new(entries),
            aborts,
            authentication: Some(Box::new(authentication)),
            working: None,
            worked: false,
            host,
            failure: None,
            refused: 0,
            seconds: 0,
            progress: Progress::default(),
        }
    }

    /// Charge of the queue in bytes, including the records of a full queue of waiting commands, once commands are
    /// admitted.
    pub(crate) fn held(&self, wire: &Wire) -> u64 {
        let entries = if self.is_authenticated() { self.entries } else { 0 };
        u64::from(entries) * WAITING_RECORD_BYTES
            + self.commands.charge()
            + wire.incoming.charge()
            + wire.out.len() as u64
    }

    /// The resources held for commands, for tests.
    pub(crate) fn audit(&self) -> Held {
        self.commands.audit();
        let Self { commands, .. } = self;
        Held { commands: commands.len(), requests: commands.transfers().len(), charge: commands.charge() }
    }

    /// Memory that a command needs, with its in-capsule data.
    fn need(&self, sqe: &Sqe, in_capsule: usize) -> u64 {
        let data =
            u64::from(sqe.data_bytes().min(self.controller.max_transfer_bytes())).max(in_capsule as u64);
        let more = match sqe.opcode() {
            // Admin commands have other opcodes.
            _ if self.qid == 0 => 0,
            COMPARE => data,
            VERIFY => VERIFY_CHUNK_BYTES,
            _ => 0,
        };
        RECORD_BYTES + data + more
    }

    /// Decides whether a PDU is received. The charge reserves the room until the command ends.
    pub(crate) fn admit(&mut self, wire: &mut Wire, header: &Header) -> Result<Admit, Termination> {
        match header.kind() {
            kind::CAPSULE_CMD => {}
            kind::H2C_DATA => {
                let is_wanted = self.commands.check_data(header)?;
                return Ok(if is_wanted { Admit::Take(0) } else { Admit::Skip });
            }
            _ => return Ok(Admit::Take(0)),
        }
        let need = self.need(&sqe_of(header, 0), header.data_bytes);
        if !self.is_authenticated() {
            return Ok(self.admit_unauthenticated(wire, header, need));
        }
        let wanted = self.held(wire) + need;
        if self.commands.first_waiting().is_none() && wire.share.cover(wanted) {
            wire.share.stop_waiting();
            return Ok(Admit::Take(need));
        }
        if header.data_bytes == 0 && wire.share.covers(self.held(wire)) {
            return Ok(Admit::Take(0));
        }
        // A host that does not read its completions is not served further, even if it still has to send data.
        if self.commands.transfers().wanted() > 0 && wire.out.len() < MAX_UNSENT_BYTES {
            return Ok(Admit::Skip);
        }
        let waits = wire.share.wait_for(wanted).is_ok();
        Ok(if waits || !self.is_idle(wire) { Admit::Wait } else { Admit::Skip })
    }

    /// True when no ongoing activity can free memory.
    fn is_idle(&self, wire: &Wire) -> bool {
        !self.commands.is_running() && wire.out.is_empty()
    }

    /// Admits a command before the authentication without drawing from the pool. A command that is refused anyway is
    /// received without its data.
    fn admit_unauthenticated(&self, wire: &Wire, header: &Header, need: u64) -> Admit {
        let is_message = fabrics::is_authentication(&sqe_of(header, 0)) && need <= MAX_MESSAGE_NEED_BYTES;
        let has_room = wire.share.covers(self.held(wire) + if is_message { need } else { 0 });
        match (has_room, is_message) {
            (true, true) => Admit::Take(need),
            (true, false) => Admit::Skip,
            (false, _) => Admit::Wait,
        }
    }

    /// Processes a PDU.
    pub(crate) fn receive(&mut self, wire: &mut Wire, pdu: Pdu) -> Result<(), QueueEnd> {
        match pdu.header.kind() {
            kind::CAPSULE_CMD => self.command(wire, pdu),
            _ => self.data(wire, pdu),
        }
    }

    fn command(&mut self, wire: &mut Wire, pdu: Pdu) -> Result<(), QueueEnd> {
        let sqe = sqe_of(&pdu.header, self.controller.namespaces.number());
        let cid = sqe.cid();
        // An I/O queue may be that of a stranger, who must not keep the controller of a host that is gone.
        if self.qid == 0 || self.is_authenticated() {
            self.controller.set_active();
        }
        self.consume();
        if self.commands.is_full() {
            let detail = "more commands than the queue has entries";
            return Err(Termination::other(FatalError::SequenceError, pdu.header.bytes(), detail).into());
        }
        let refusal = match () {
            () if self.commands.contains(cid) => Some(Status::COMMAND_ID_CONFLICT),
            () if pdu.damaged => Some(Status::TRANSIENT_TRANSPORT_ERROR),
            () if !self.is_authenticated() && !fabrics::is_authentication(&sqe) => {
                self.refused += 1;
                if self.refused > MAX_REFUSED_COMMANDS {
                    return Err(QueueEnd::Unauthenticated);
                }
                Some(Status::AUTHENTICATION_REQUIRED)
            }
            () if pdu.skipped => Some(Status::COMMAND_INTERRUPTED),
            () => None,
        };
        match refusal {
            Some(status) => self.complete(wire, cid, 0, status.into()),
            None if pdu.charge == 0 => self.commands.wait(sqe),
            None => return self.begin(wire, Command { sqe, charge: pdu.charge }, pdu.data),
        }
        Ok(())
    }

    /// Consumes an entry of the submission queue.
    pub(crate) fn consume(&mut self) {
        if let Some(head) = &mut self.head {
            *head = (*head + 1) % self.entries;
        }
    }

    /// Begins a command whose memory is charged: takes its in-capsule data, or requests its data.
    fn begin(&mut self, wire: &mut Wire, command: Command, capsule: Bytes) -> Result<(), QueueEnd> {
        let data = match data_in_capsule(&command.sqe, &capsule, self.controller.max_transfer_bytes()) {
            Ok(data) => data,
            Err(status) => {
                self.complete(wire, command.cid(), 0, status.into());
                return Ok(());
            }
        };
        if command.sqe.fuse() != Fuse::Normal && !self.begin_half(wire, command) {
            return Ok(());
        }
        match data {
            Some(data) => return self.ready(wire, command, data),
            None => {
                let tag = self.commands.request_data(command);
                wire.out.ready_to_transfer(command.cid(), tag, command.sqe.data_bytes());
            }
        }
        Ok(())
    }

    /// Adds a half of a fused operation; returns false if it ends at once.
    fn begin_half(&mut self, wire: &mut Wire, half: Command) -> bool {
        let is_known = match half.sqe.fuse() {
            Fuse::First => half.sqe.opcode() == COMPARE,
            Fuse::Second => true,
            Fuse::Normal | Fuse::Reserved => false,
        };
        if !is_known || self.qid == 0 {
            self.complete(wire, half.cid(), 0, Status::INVALID_FIELD.into());
            return false;
        }
        let missing = self.commands.add_half(half);
        for cid in &missing {
            self.complete(wire, *cid, 0, Status::MISSING_FUSED.into());
        }
        !missing.contains(&half.cid())
    }

    /// H2CData
    fn data(&mut self, wire: &mut Wire, pdu: Pdu) -> Result<(), QueueEnd> {
        match self.commands.data(pdu) {
            None => {}
            Some(Gathered::Pair(pair)) => self.pair_ready(wire, &pair),
            Some(Gathered::Single(command, Ok(data))) => return self.dispatch(wire, command, data),
            Some(Gathered::Single(command, Err(status))) => {
                self.complete(wire, command.cid(), 0, status.into());
            }
        }
        Ok(())
    }

    /// Executes a command whose data are complete.
    fn ready(&mut self, wire: &mut Wire, command: Command, data: Data) -> Result<(), QueueEnd> {
        let sqe = &command.sqe;
        if sqe.fuse() != Fuse::Normal {
            if let Some(pair) = self.commands.supply_half(command.cid(), Ok(data)) {
                self.pair_ready(wire, &pair);
            }
            return Ok(());
        }
        if self.qid > 0 && sqe.opcode() == FABRICS && !fabrics::is_authentication(sqe) {
            return self.disconnect(wire, sqe);
        }
        self.dispatch(wire, command, data)
    }

    fn dispatch(&mut self, wire: &mut Wire, command: Command, data: Data) -> Result<(), QueueEnd> {
        let sqe = command.sqe;
        if fabrics::is_authentication(&sqe) {
            return self.authenticate(wire, command, &data);
        }
        let execution = match self.qid {
            0 if sqe.opcode() == admin::EVENT_REQUEST => {
                self.event_request(wire, sqe);
                return Ok(());
            }
            0 if sqe.opcode() == admin::ABORT && sqe.dword(10) as u16 == 0 && self.controller.is_ready() => {
                let aborted = self.abort(wire, (sqe.dword(10) >> 16) as u16);
                Execution::Done(abort::outcome(aborted))
            }
            0 => self.start_admin(&sqe),
            _ => execute::start(&self.controller, sqe, data),
        };
        match execution {
            Execution::Done(outcome) => self.complete(wire, sqe.cid(), sqe.data_bytes(), outcome),
            Execution::Task(running) => self.commands.run(command, sqe.data_bytes(), running),
        }
        Ok(())
    }

    /// Starts an admin command. A reset of the controller ends all others without completions (Base 3.7.2).
    fn start_admin(&mut self, sqe: &Sqe) -> Execution {
        let was_ready = self.controller.is_ready();
        let execution = admin::start(&self.controller, sqe);
        if was_ready && !self.controller.is_ready() {
            self.commands.clear();
            self.working.iter_mut().for_each(|working| working.command = None);
        }
        execution
    }

    /// Authentication Send and Authentication Receive (Base 6.1 and 6.2).
    fn authenticate(&mut self, wire: &mut Wire, command: Command, data: &Data) -> Result<(), QueueEnd> {
        let sqe = &command.sqe;
        let is_sent = sqe.fabrics_type() == fabrics::AUTHENTICATION_SEND;
        let limit = sqe.data_bytes() as usize;
        let refusal = match (fabrics::check_authentication(sqe), &self.authentication) {
            (Err(status), _) => Some(status),
            // A host sends one message at a time.
            (Ok(()), None) => Some(Status::COMMAND_SEQUENCE_ERROR),
            (Ok(()), Some(it)) => (!is_sent && it.next_bytes() > limit).then_some(Status::INVALID_FIELD),
        };
        let Some(authentication) = self.authentication.take_if(|_| refusal.is_none()) else {
            self.complete(wire, command.cid(), 0, refusal.unwrap_or(Status::INTERNAL_ERROR).into());
            return Ok(());
        };
        let sent = is_sent.then(|| data.to_bytes());
        if !authentication.takes_long(sent.as_deref()) {
            return self.exchanged(wire, sqe, Exchanged::new(authentication, sent.as_deref()));
        }
        let (done, result) = channel();
        self.commands.hold(command);
        (self.working, self.worked) = (Some(Working { command: Some(command), result }), true);
        let work = move || {
            // The connection may have ended.
            let _gone = done.send(Exchanged::new(authentication, sent.as_deref()));
        };
        (self.host.worker)(self.host.attempts.address(), Box::new(work));
        Ok(())
    }

    /// Processes the result of the worker, once it is available.
    fn poll_worker(&mut self, wire: &mut Wire, cx: &mut Context<'_>) -> Poll<Result<(), QueueEnd>> {
        let Some(Working { command, result }) = &mut self.working else { return Poll::Pending };
        let exchanged = ready!(Pin::new(result).poll(cx));
        let command = command.take();
        self.working = None;
        let Ok(exchanged) = exchanged else {
            return Poll::Ready(Err(QueueEnd::Refused("the worker for authentication is gone")));
        };
        Poll::Ready(match command {
            Some(command) => {
                self.commands.release(command.cid());
                self.exchanged(wire, &command.sqe, exchanged)
            }
            // Its identifier may be that of another command now.
            None => {
                self.authentication = Some(exchanged.authentication);
                self.step(wire, exchanged.step)
            }
        })
    }

    /// Continues after a message was processed.
    fn exchanged(&mut self, wire: &mut Wire, sqe: &Sqe, exchanged: Exchanged) -> Result<(), QueueEnd> {
        let Exchanged { authentication, message, step } = exchanged;
        self.authentication = Some(authentication);
        match message {
            None => self.complete(wire, sqe.cid(), 0, Outcome::success()),
            Some(mut message) => {
                message.resize(sqe.data_bytes() as usize, 0);
                self.complete(wire, sqe.cid(), sqe.data_bytes(), Outcome::data(message));
            }
        }
        self.step(wire, step)
    }

    /// Continues, admits the host, or ends the queue.
    fn step(&mut self, wire: &mut Wire, step: Step) -> Result<(), QueueEnd> {
        match step {
            Step::Goes => Ok(()),
            Step::Authenticated => self.authenticated(wire),
            Step::Failed(failure) => {
                self.failure = Some(failure);
                Err(QueueEnd::Unauthenticated)
            }
        }
    }

    /// Admits an authenticated host. After its first authentication, the queue gets its memory and its identifier at
    /// the controller.
    fn authenticated(&mut self, wire: &mut Wire) -> Result<(), QueueEnd> {
        self.count_authentication(true);
        let Some(guarantee) = self.host.promised.take() else { return Ok(()) };
        if !wire.share.open(&Owner::proved(&self.controller.nqn), guarantee) {
            return Err(QueueEnd::Refused("there is no memory for another queue"));
        }
        match self.qid {
            0 => self.controller.subsystem.admit(&self.controller),
            qid if self.controller.prove_queue(qid, &self.host.control) => wire.incoming.enlarge(),
            _ => return Err(QueueEnd::Refused("another queue has its identifier")),
        }
        self.authentication.as_mut().into_iter().for_each(|it| it.allow(MAX_NEGOTIATIONS));
        Ok(())
    }

    /// Counts the result of an authentication for the host's address.
    fn count_authentication(&self, succeeded: bool) {
        let Some(admission) = self.controller.subsystem.admission(&self.controller.nqn) else { return };
        match succeeded {
            true => self.host.attempts.succeeded(admission),
            false => self.host.attempts.failed(admission),
        }
    }

    /// Whether the host is authenticated, or authentication is not required.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.host.promised.is_none()
    }

    /// Why an authentication failed, if the queue ends now.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.or(self.authentication.as_ref().and_then(|it| it.abandoned()))
    }

    /// Ends the queue. A host that caused work and did not authenticate counts as failed.
    pub(crate) fn end(&self) {
        let gave_up = !self.is_authenticated() && self.worked;
        if gave_up || self.failure == Some(Failure::WrongSecret) {
            self.count_authentication(false);
        }
    }

    /// Called once a second; returns the reason if the queue ends.
    pub(crate) fn tick(&mut self, wire: &Wire) -> Result<(), &'static str> {
        self.seconds += 1;
        if !self.is_authenticated() && self.seconds >= AUTHENTICATION_SECONDS {
            return Err("the host did not authenticate in time");
        }
        if self.is_authenticated() && self.seconds.is_multiple_of(REAUTHENTICATION_SECONDS) {
            self.authentication.as_mut().into_iter().for_each(|it| it.allow(1));
        }
        let transfers = self.commands.transfers();
        let now = Transferred {
            awaits_data: transfers.wanted() > 0,
            received: transfers.taken(),
            unsent: wire.out.len() as u64,
            sent: wire.out.sent(),
        };
        match self.progress.is_stalled(now, &wire.share, STALL_SECONDS) {
            true => Err("it holds memory that others wait for and makes no progress"),
            false => Ok(()),
        }
    }

    /// Executes a fabrics command on an I/O queue: only Disconnect (Base 6.4).
    fn disconnect(&mut self, wire: &mut Wire, sqe: &Sqe) -> Result<(), QueueEnd> {
        if let Err(status) = fabrics::check_disconnect(sqe) {
            self.complete(wire, sqe.cid(), 0, status.into());
            return Ok(());
        }
        self.complete(wire, sqe.cid(), 0, Outcome::success());
        Err(QueueEnd::Disconnected)
    }

    fn pair_ready(&mut self, wire: &mut Wire, pair: &Pair) {
        let Pair { first, second, .. } = pair;
        let (compare, write) = match pair.data() {
            Ok(data) => data,
            Err((one, other)) => {
                self.complete(wire, first.cid(), 0, one.into());
                return self.complete(wire, second.cid(), 0, other.into());
            }
        };
        match execute::compare_and_write(&self.controller, first.sqe, compare, write) {
            Execution::Done(outcome) => self.complete_pair(wire, first.cid(), second.cid(), &outcome),
            Execution::Task(running) => self.commands.run_pair(*first, *second, running),
        }
    }

    /// Completes both halves: the first command reports the result of the pair, the second that it was not performed
    /// alone.
    fn complete_pair(&mut self, wire: &mut Wire, first: u16, second: u16, outcome: &Outcome) {
        let other = if outcome.status.is_success() { Status::SUCCESS } else { Status::FAILED_FUSED };
        self.complete(wire, first, 0, outcome.status.into());
        self.complete(wire, second, 0, other.into());
    }

    fn event_request(&mut self, wire: &mut Wire, sqe: Sqe) {
        match () {
            () if !self.controller.is_ready() => {
                self.complete(wire, sqe.cid(), 0, Status::COMMAND_SEQUENCE_ERROR.into());
            }
            () if !self.commands.request_event(sqe) => {
                self.complete(wire, sqe.cid(), 0, Status::EVENT_REQUEST_LIMIT.into());
            }
            () => {}
        }
    }

    /// Aborts a command, if it has not ended.
    fn abort(&mut self, wire: &mut Wire, cid: u16) -> bool {
        let aborted = self.commands.abort(cid);
        if aborted {
            self.complete(wire, cid, 0, Status::ABORT_REQUESTED.into());
        }
        aborted
    }

    /// Queues the data and the completion of a command. `limit` is the maximum number of bytes that it may return.
    fn complete(&mut self, wire: &mut Wire, cid: u16, limit: u32, mut outcome: Outcome) {
        if outcome.data.len() as u64 > u64::from(limit) {
            outcome = Status::DATA_SGL_LENGTH_INVALID.into();
        }
        if !outcome.data.is_empty() {
            // Without flow control, the completion reports nothing but success (3.3.2.2).
            let success = self.head.is_none() && outcome.result == 0;
            wire.out.data(cid, &outcome.data, success);
            if success {
                return;
            }
        }
        wire.out.response(&completion(&outcome, self.head.unwrap_or(0), self.qid, cid));
    }

    /// The response to the Connect that created the queue.
    pub(crate) fn complete_connect(&mut self, wire: &mut Wire, cid: u16) {
        self.consume();
        let required = if self.is_authenticated() { 0 } else { fabrics::AUTHENTICATION_REQUIRED };
        let outcome = Outcome::result((u32::from(self.controller.id) | required).into());
        // FFFFh: flow control is disabled (Base 6.3).
        wire.out.response(&completion(&outcome, self.head.unwrap_or(0xFFFF), self.qid, cid));
    }

    /// Begins waiting commands while there is memory.
    pub(crate) fn advance(&mut self, wire: &mut Wire) -> Result<(), QueueEnd> {
        while let Some(sqe) = self.commands.first_waiting() {
            let need = self.need(&sqe, 0);
            let wanted = self.held(wire) + need;
            if wire.share.waits() && !wire.share.covers(wanted) {
                return Ok(());
            }
            wire.share.stop_waiting();
            if wire.share.cover(wanted) {
                self.commands.take_waiting();
                self.begin(wire, Command { sqe, charge: need }, Bytes::new())?;
                continue;
            }
            // A waiting queue keeps no draws that it does not need.
            wire.share.settle_all(wanted - need);
            if wire.share.wait_for(wanted).is_ok() || !self.is_idle(wire) {
                return Ok(());
            }
            self.commands.take_waiting();
            self.complete(wire, sqe.cid(), 0, Status::COMMAND_INTERRUPTED.into());
        }
        Ok(())
    }

    /// Sends completions of ended commands, and events; pending if there are none.
    pub(crate) fn poll_tasks(&mut self, wire: &mut Wire, cx: &mut Context<'_>) -> Poll<Result<(), QueueEnd>> {
        let mut progress = wire.share.poll(cx).is_ready();
        if let Poll::Ready(result) = self.poll_worker(wire, cx) {
            result?;
            progress = true;
        }
        for request in self.aborts.take(cx) {
            let aborted = self.abort(wire, request.cid);
            request.answer(aborted);
            progress = true;
        }
        if let Poll::Ready(ended) = self.commands.poll(cx) {
            progress = true;
            for (about, outcome) in ended {
                match about {
                    About::Single(cid, limit) => self.complete(wire, cid, limit, outcome),
                    About::Fused(first, second) => self.complete_pair(wire, first, second, &outcome),
                }
            }
        }
        while self.commands.awaits_event() {
            let Poll::Ready(event) = self.controller.events.poll(cx) else { break };
            let Some(cid) = self.commands.take_event_request() else { break };
            self.complete(wire, cid, 0, Outcome::result(event.into()));
            progress = true;
        }
        if progress { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

/// The command of a capsule that arrived under this view of its controller.
pub(crate) fn sqe_of(header: &Header, view: u64) -> Sqe {
    Sqe::new(header.array::<8, 64>(), view)
}

/// Data of a command that are in its capsule, or empty; `None` if they have to be requested.
fn data_in_capsule(sqe: &Sqe, capsule: &Bytes, most: u32) -> Result<Option<Data>, Status> {
    let bytes = sqe.data_bytes();
    if bytes > most || sqe.has_reserved_transfer() {
        return Err(Status::INVALID_FIELD);
    }
    if bytes == 0 {
        return Ok(Some(Data::new()));
    }
    match (sqe.direction(), sqe.data_location()?) {
        (Direction::Out, DataLocation::Capsule(offset)) => {
            Ok(Some(capsule.slice(sqe.range_in_capsule(offset, capsule.len())?).into()))
        }
        (Direction::Out, DataLocation::Transport) => Ok(None),
        (Direction::In, DataLocation::Transport) => Ok(Some(Data::new())),
        (Direction::In, DataLocation::Capsule(_)) | (Direction::None, _) => Err(Status::SGL_TYPE_INVALID),
    }
}
