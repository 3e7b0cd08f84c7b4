//! A session in the full feature phase: sequencing (RFC 7143 4.2.2.1) and processing of requests.
//!
//! A session has one connection (MaxConnections=1) and ends with it (ErrorRecoveryLevel=0).

use crate::access::TargetConfig;
use crate::discovery::{Exchange, TextContext};
use crate::keys::{Negotiation, Offers};
use crate::login::LoginIdentity;
use crate::memory_admission::{Claimed, SESSION_GUARANTEE_BYTES, WAITING_RECORD_BYTES};
use crate::pdu::incoming::Pdu;
use crate::pdu::{FINAL, Header, NO_TAG, RejectReason, opcode};
use crate::response::{Condition, Expectation, send_response, task_set_full};
use crate::transfer::{PendingCommand, Taken, Transfers};
use crate::wire::{StatSn, Window, WindowPosition, Wire};
use bytes::{Bytes, BytesMut};
use scsi::{
    Command, Data, DeviceServer, Direction, Execution, Lun, ManagementFunction, ManagementResponse, Response,
    TaskAttribute, TransferBound,
};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use transport::{ConnectionLog, LogGate, Progress, Running, Tasks, Transferred};

/// Immediate commands outstanding in addition to the command window.
const MAX_IMMEDIATE: u32 = 32;
/// Flags of a SCSI Command PDU (11.3.1).
const READ: u8 = 0x40;
pub(crate) const WRITE: u8 = 0x20;
/// Longest CDB: 16 bytes in the header, the rest in an additional header segment (11.2.2.3).
const MAX_CDB_BYTES: usize = 260;
/// Types of additional header segments (11.2.2.1).
const EXTENDED_CDB: u8 = 1;
const BIDIRECTIONAL_LENGTH: u8 = 2;

/// Bounds on a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Commands outstanding: the command window.
    pub commands: u32,
    /// Maximum number of bytes of Data-Out for one command.
    pub command_bytes: u32,
    /// Bytes of Data-Out requested at a time.
    pub solicited_bytes: u64,
    /// Bytes of commands in execution and of unsent responses, beyond which no further commands begin and no further
    /// data is requested. Input continues within the budget, so that aborts are received.
    pub busy_bytes: u64,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { commands: 256, command_bytes: 32 << 20, solicited_bytes: 16 << 20, busy_bytes: 64 << 20 }
    }
}

/// Reason for the end of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionEnd {
    #[error("logged out")]
    LoggedOut,
    #[error("target cold reset")]
    ColdReset,
    #[error("{0}")]
    Protocol(String),
}

/// A session.
pub(crate) struct Session {
    pub(crate) identity: LoginIdentity,
    pub(super) negotiation: Negotiation,
    pub(super) offers: Offers,
    pub(super) limits: SessionLimits,
    target_config: Arc<TargetConfig>,
    local: SocketAddr,
    /// `None` in a discovery session.
    device: Option<Box<dyn DeviceServer>>,
    pub(super) window: Window,
    immediate: u32,
    /// Requests ahead of the expected CmdSN.
    pub(super) early: BTreeMap<u32, Pdu>,
    /// Memory charged for `early`.
    pub(super) early_bytes: u64,
    /// CmdSNs of commands that were aborted before they arrived.
    pub(super) aborted_early: BTreeSet<u32>,
    pub(super) transfers: Transfers,
    /// The running tasks, with the logical unit of each.
    pub(super) tasks: Tasks<(Expectation, Lun), Option<Response>>,
    /// The task management function in progress elsewhere. No input is processed until it ends, so later requests are
    /// performed after it.
    pub(super) managing: Option<Managing>,
    pub(super) exchange: Exchange,
    /// The claim of the arriving command.
    pub(super) claimed: Claimed,
    /// Bytes reserved for the records of all commands that may wait.
    pub(super) waiting_room: u64,
    next_ping: u32,
    progress: Progress,
    log: Arc<ConnectionLog>,
}

/// A task management function of a session that the device server performs.
pub(crate) struct Managing {
    pub(super) header: Header,
    pub(super) function: ManagementFunction,
    /// The response, if it is not available at once.
    pub(super) running: Option<Running<Option<ManagementResponse>>>,
}

/// Initial state of a session.
pub(crate) struct Start {
    pub(crate) identity: LoginIdentity,
    pub(crate) negotiation: Negotiation,
    pub(crate) offers: Offers,
    pub(crate) limits: SessionLimits,
    pub(crate) target_config: Arc<TargetConfig>,
    pub(crate) local: SocketAddr,
    pub(crate) device: Option<Box<dyn DeviceServer>>,
    pub(crate) log: Arc<ConnectionLog>,
    /// CmdSN of the login; the first command has the same number.
    pub(crate) cmd_sn: u32,
}

impl Session {
    pub(crate) fn new(start: Start) -> Self {
        let commands = if start.device.is_some() { start.limits.commands + MAX_IMMEDIATE } else { 0 };
        let waiting_room = (u64::from(commands) * WAITING_RECORD_BYTES).min(SESSION_GUARANTEE_BYTES / 2);
        Self {
            identity: start.identity,
            negotiation: start.negotiation,
            offers: start.offers,
            target_config: start.target_config,
            local: start.local,
            device: start.device,
            window: Window::new(start.cmd_sn, start.limits.commands),
            limits: start.limits,
            immediate: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            aborted_early: BTreeSet::new(),
            transfers: Transfers::default(),
            tasks: Tasks::default(),
            managing: None,
            exchange: Exchange::default(),
            claimed: None,
            waiting_room,
            next_ping: 0,
            progress: Progress::default(),
            log: start.log,
        }
    }

    /// True while more commands may be in execution.
    fn has_room(&self, wire: &Wire) -> bool {
        self.tasks.charge() + wire.out.len() as u64 <= self.limits.busy_bytes
    }

    /// Processes a PDU.
    pub(crate) fn receive(&mut self, wire: &mut Wire, pdu: Pdu) -> Result<(), SessionEnd> {
        if pdu.damaged {
            self.reject(wire, &pdu.header, RejectReason::DataDigest);
        }
        match pdu.header.opcode() {
            opcode::DATA_OUT => {
                self.data_out(wire, pdu);
                return Ok(());
            }
            // A damaged PDU counts as not received (7.8).
            _ if pdu.damaged => {
                self.claimed = None;
                return Ok(());
            }
            opcode::SNACK => {
                self.reject(wire, &pdu.header, RejectReason::SnackReject);
                return Ok(());
            }
            opcode::NOP_OUT
            | opcode::SCSI_COMMAND
            | opcode::TASK_MANAGEMENT
            | opcode::TEXT
            | opcode::LOGOUT => {}
            other => {
                return Err(SessionEnd::Protocol(format!("opcode {other:#04x} in the full feature phase")));
            }
        }
        if pdu.header.immediate() {
            return self.perform(wire, pdu);
        }
        match self.window.position(pdu.header.cmd_sn()) {
            WindowPosition::Expected => self.in_order(wire, pdu),
            // The command was aborted before it arrived.
            WindowPosition::Ahead if self.aborted_early.contains(&pdu.header.cmd_sn()) => Ok(()),
            WindowPosition::Ahead => {
                if let Entry::Vacant(vacant) = self.early.entry(pdu.header.cmd_sn()) {
                    self.early_bytes += Self::early_charge(&pdu);
                    vacant.insert(pdu);
                }
                Ok(())
            }
            WindowPosition::Outside => {
                tracing::debug!(cmd_sn = pdu.header.cmd_sn(), "outside the command window, ignored");
                Ok(())
            }
        }
    }

    /// Performs the expected request, and early requests that follow it.
    fn in_order(&mut self, wire: &mut Wire, pdu: Pdu) -> Result<(), SessionEnd> {
        self.window.advance();
        self.perform(wire, pdu)?;
        self.catch_up(wire)
    }

    /// Performs early requests that are expected now.
    pub(super) fn catch_up(&mut self, wire: &mut Wire) -> Result<(), SessionEnd> {
        loop {
            let expected = self.window.expected();
            if self.aborted_early.remove(&expected) {
                self.window.advance();
            } else if let Some(pdu) = self.early.remove(&expected) {
                self.early_bytes -= Self::early_charge(&pdu);
                self.window.advance();
                self.perform(wire, pdu)?;
            } else {
                return Ok(());
            }
        }
    }

    fn perform(&mut self, wire: &mut Wire, pdu: Pdu) -> Result<(), SessionEnd> {
        match pdu.header.opcode() {
            opcode::SCSI_COMMAND => self.command(wire, pdu),
            opcode::TASK_MANAGEMENT => self.manage(wire, &pdu.header),
            opcode::TEXT => self.text(wire, &pdu),
            opcode::LOGOUT => self.logout(wire, &pdu.header),
            _ => self.nop_out(wire, pdu),
        }
    }

    /// SCSI Command (11.3).
    fn command(&mut self, wire: &mut Wire, pdu: Pdu) -> Result<(), SessionEnd> {
        let Pdu { header, ahs, data, skipped, .. } = pdu;
        let (flags, itt) = (header.flags(), header.itt());
        let (read, write, more) = (flags & READ != 0, flags & WRITE != 0, !header.is_final());
        let has_data = skipped || !data.is_empty();
        let malformed = itt == NO_TAG || self.device.is_none() || !write && (more || has_data);
        let claim = self.take_claim(wire, &header, &ahs);
        let Some(claim) = claim.filter(|_| !malformed) else {
            self.reject(
                wire,
                &header,
                if malformed { RejectReason::Protocol } else { RejectReason::InvalidField },
            );
            return Ok(());
        };
        if self.tasks.contains(itt) || self.transfers.contains(itt) {
            self.reject(wire, &header, RejectReason::TaskInProgress);
            return Ok(());
        }
        let immediate = header.immediate();
        if immediate && self.immediate == MAX_IMMEDIATE {
            self.reject(wire, &header, RejectReason::ImmediateCommand);
            return Ok(());
        }
        if immediate {
            self.immediate += 1;
        } else {
            self.window.open();
        }
        let transfer_length = header.u32::<20>();
        let expectation = Expectation { itt, immediate, read, write, transfer_length, r2ts: 0 };
        if read && write {
            // The data that may follow belongs to no command and is ignored.
            self.end(wire, &expectation, Condition::Bidirectional.response());
            return Ok(());
        }
        if skipped || self.is_beyond_room(wire, &claim) {
            self.refuse_full(wire, &expectation);
            return Ok(());
        }
        let command = Command {
            tag: u64::from(itt),
            lun: Lun(header.lun()),
            cdb: claim.cdb.clone(),
            attribute: attribute(flags),
            direction: direction(read, write),
            data_out: Data::new(),
            data_in_limit: if read { u64::from(transfer_length) } else { 0 },
        };
        self.transfers.begin(expectation, command, data, more, &claim, &self.negotiation.parameters);
        self.advance(wire);
        Ok(())
    }

    /// SCSI Data-Out (11.7).
    fn data_out(&mut self, wire: &mut Wire, pdu: Pdu) {
        let header = pdu.header;
        match self.transfers.data_out(pdu) {
            Taken::Used => self.advance(wire),
            Taken::Ignored => {}
            Taken::Unexpected => self.reject(wire, &header, RejectReason::Protocol),
        }
    }

    /// Admits commands, executes ready ones, and requests more data, while there is room.
    pub(super) fn advance(&mut self, wire: &mut Wire) {
        loop {
            while self.has_room(wire) {
                let Some((pending, failure)) = self.transfers.next_ready() else { break };
                match failure {
                    None => self.execute(wire, pending),
                    Some(condition) => self.end(wire, &pending.expectation, condition.response()),
                }
            }
            if !self.admit_waiting(wire) {
                break;
            }
        }
        let parameters = &self.negotiation.parameters;
        while self.has_room(wire)
            && let Some(r2t) = self.transfers.next_r2t(parameters, self.limits.solicited_bytes)
        {
            wire.send(&self.window, r2t, &Data::new(), StatSn::Current);
        }
        self.settle(wire);
    }

    fn execute(&mut self, wire: &mut Wire, pending: PendingCommand) {
        let PendingCommand { expectation, command, charge, .. } = pending;
        let Some(device) = &mut self.device else { return };
        let lun = command.lun;
        match device.execute(command) {
            Execution::Done(response) => self.end(wire, &expectation, response),
            Execution::Task(running) => {
                self.tasks.insert(expectation.itt, (expectation, lun), charge, running)
            }
        }
    }

    /// Ends a command with a response.
    fn end(&mut self, wire: &mut Wire, expectation: &Expectation, response: Response) {
        self.free_window_slot(expectation);
        send_response(wire, &self.window, &self.negotiation.parameters, expectation, response);
    }

    /// Ends a command without room. The initiator retries it.
    pub(super) fn refuse_full(&mut self, wire: &mut Wire, expectation: &Expectation) {
        self.end(wire, expectation, task_set_full());
    }

    /// Frees the slot of a command in the command window.
    pub(super) fn free_window_slot(&mut self, expectation: &Expectation) {
        if expectation.immediate {
            self.immediate -= 1;
        } else {
            self.window.close();
        }
    }

    /// Sends responses of ended tasks and of task management; pending if there are none.
    pub(crate) fn poll_tasks(
        &mut self,
        wire: &mut Wire,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SessionEnd>> {
        let granted = wire.share.poll(cx).is_ready();
        let tasks = self.tasks.poll(cx);
        let managed = self.poll_managing(cx);
        let ended = match tasks {
            Poll::Ready(ended) => ended,
            Poll::Pending if granted || managed.is_some() => Vec::new(),
            Poll::Pending => return Poll::Pending,
        };
        for ((expectation, _), response) in ended {
            match response {
                Some(response) => self.end(wire, &expectation, response),
                // Another nexus aborted the command: no response is sent.
                None => self.free_window_slot(&expectation),
            }
        }
        let managed = managed.map_or(Ok(()), |(managing, outcome)| self.managed(wire, &managing, outcome));
        self.advance(wire);
        Poll::Ready(managed)
    }

    pub(super) fn has_device(&self) -> bool {
        self.device.is_some()
    }

    pub(super) fn transfer_bound(&self, lun: Lun, cdb: &Bytes) -> TransferBound {
        self.device.as_ref().map_or(TransferBound::default(), |device| device.transfer_bound(lun, cdb))
    }

    /// Called once a second. True if the session blocks others: it holds memory that they wait for, and has transferred
    /// almost nothing for `stall_limit_ticks` ticks.
    pub(crate) fn tick(&mut self, wire: &mut Wire, stall_limit_ticks: u32) -> bool {
        self.settle_all(wire);
        let now = Transferred {
            awaits_data: self.transfers.awaits_solicited(),
            received: self.transfers.taken(),
            unsent: wire.out.len() as u64,
            sent: wire.out.sent(),
        };
        self.progress.is_stalled(now, &wire.share, stall_limit_ticks)
    }

    /// Whether a line about the session may be logged.
    pub(super) fn log_gate(&self) -> &LogGate {
        self.log.of(self.has_device())
    }

    pub(super) fn device(&mut self) -> Option<&mut Box<dyn DeviceServer>> {
        self.device.as_mut()
    }

    /// Text Request (11.10).
    fn text(&mut self, wire: &mut Wire, pdu: &Pdu) -> Result<(), SessionEnd> {
        if pdu.skipped {
            self.exchange = Exchange::default();
            self.reject(wire, &pdu.header, RejectReason::LongOperation);
            return Ok(());
        }
        let context = TextContext {
            target_config: &self.target_config,
            local: self.local,
            offers: &self.offers,
            discovery: self.identity.discovery,
        };
        match self.exchange.request(pdu, &context, &mut self.negotiation) {
            Ok((header, text)) => wire.send(&self.window, header, &text.into(), StatSn::Next),
            Err(error) => {
                if let Some(left_out) = self.log_gate().admit() {
                    let initiator = &self.identity.initiator;
                    tracing::info!(initiator, %error, left_out, "text request rejected");
                }
                self.exchange = Exchange::default();
                self.reject(wire, &pdu.header, RejectReason::Protocol);
            }
        }
        Ok(())
    }

    /// Logout Request (11.14): a session has one connection, so both reasons end both.
    fn logout(&mut self, wire: &mut Wire, header: &Header) -> Result<(), SessionEnd> {
        const CLOSE_SESSION: u8 = 0;
        const CLOSE_CONNECTION: u8 = 1;
        const NO_SUCH_CID: u8 = 1;
        const RECOVERY_NOT_SUPPORTED: u8 = 2;
        let response = match header.flags() & 0x7f {
            CLOSE_SESSION => 0,
            CLOSE_CONNECTION if header.u16::<20>() == self.identity.cid => 0,
            CLOSE_CONNECTION => NO_SUCH_CID,
            _ => RECOVERY_NOT_SUPPORTED,
        };
        let parameters = &self.negotiation.parameters;
        let header = Header::new(opcode::LOGOUT_RESPONSE, FINAL)
            .put(2, [response])
            .with_itt(header.itt())
            .put_u16(40, parameters.time_to_wait as u16)
            .put_u16(42, parameters.time_to_retain as u16);
        if response == 0 {
            self.abort_all_commands();
        }
        wire.send(&self.window, header, &Data::new(), StatSn::Next);
        if response == 0 { Err(SessionEnd::LoggedOut) } else { Ok(()) }
    }

    /// Aborts all outstanding commands without responses.
    pub(super) fn abort_all_commands(&mut self) {
        self.remove_commands(None);
    }

    /// Drops the outstanding commands of a logical unit, or all of them, without responses.
    pub(super) fn remove_commands(&mut self, lun: Option<Lun>) {
        let running = self.tasks.remove_where(|(_, of)| lun.is_none_or(|lun| lun == *of));
        let running = running.iter().map(|(expectation, _)| expectation);
        for expectation in self.transfers.remove_lun(lun).iter().chain(running) {
            self.free_window_slot(expectation);
        }
    }

    /// NOP-Out (11.18): a ping of the initiator, or its response to a ping.
    fn nop_out(&mut self, wire: &mut Wire, pdu: Pdu) -> Result<(), SessionEnd> {
        let header = pdu.header;
        if header.itt() == NO_TAG {
            return Ok(());
        }
        if pdu.skipped {
            self.reject(wire, &header, RejectReason::ImmediateCommand);
            return Ok(());
        }
        let limit = self.negotiation.parameters.max_send_data as usize;
        let response =
            Header::new(opcode::NOP_IN, FINAL).put(8, header.lun()).with_itt(header.itt()).with_ttt(NO_TAG);
        let data = pdu.data.slice(..pdu.data.len().min(limit));
        wire.send(&self.window, response, &data.into(), StatSn::Next);
        Ok(())
    }

    /// Sends a NOP-In that requires a response (11.19).
    pub(crate) fn ping(&mut self, wire: &mut Wire) {
        self.next_ping = (self.next_ping + 1) & 0x7fff_ffff;
        let header = Header::new(opcode::NOP_IN, FINAL).with_itt(NO_TAG).with_ttt(self.next_ping);
        wire.send(&self.window, header, &Data::new(), StatSn::Current);
    }

    /// Requests the initiator to log out within `seconds` (Async Message, 11.9.1, event 1).
    pub(crate) fn request_logout(&mut self, wire: &mut Wire, seconds: u16) {
        const REQUEST_LOGOUT: u8 = 1;
        let header =
            Header::new(opcode::ASYNC, FINAL).with_itt(NO_TAG).put(36, [REQUEST_LOGOUT]).put_u16(42, seconds);
        wire.send(&self.window, header, &Data::new(), StatSn::Next);
    }

    /// Reject (11.17) with the header of the rejected PDU.
    fn reject(&mut self, wire: &mut Wire, rejected: &Header, reason: RejectReason) {
        if let Some(left_out) = self.log_gate().admit() {
            tracing::info!(initiator = %self.identity.initiator, pdu = %rejected, %reason, left_out, "rejected");
        }
        let header = Header::new(opcode::REJECT, FINAL).put(2, [reason as u8]).with_itt(NO_TAG);
        let copy = Bytes::copy_from_slice(&rejected.0);
        wire.send(&self.window, header, &copy.into(), StatSn::Next);
    }
}

/// Task attribute (11.3.1); untagged tasks are simple ones.
fn attribute(flags: u8) -> TaskAttribute {
    match flags & 0x07 {
        2 => TaskAttribute::Ordered,
        3 => TaskAttribute::HeadOfQueue,
        4 => TaskAttribute::Aca,
        _ => TaskAttribute::Simple,
    }
}

/// The direction given by the R and W bits; both together have been refused.
fn direction(read: bool, write: bool) -> Direction {
    match (read, write) {
        (_, true) => Direction::Out,
        (true, false) => Direction::In,
        (false, false) => Direction::None,
    }
}

/// The CDB including an additional header segment; `None` if the segments are malformed (11.2.2).
pub(crate) fn extended_cdb(header: &Header, mut ahs: &[u8]) -> Option<Bytes> {
    let start = header.array::<32, 16>();
    let mut cdb = BytesMut::from(&start[..]);
    while !ahs.is_empty() {
        let ([high, low, kind], rest) = ahs.split_first_chunk::<3>()?;
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        // A reserved byte, which the length counts, follows the type; segments are padded to words.
        let (segment, following) = rest.split_at_checked((length + 3).next_multiple_of(4) - 3)?;
        let body = segment.get(1..length)?;
        match *kind {
            EXTENDED_CDB => cdb.extend_from_slice(body),
            BIDIRECTIONAL_LENGTH => {}
            _ => return None,
        }
        ahs = following;
    }
    (cdb.len() <= MAX_CDB_BYTES).then(|| cdb.freeze())
}
