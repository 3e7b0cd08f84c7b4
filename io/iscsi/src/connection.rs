//! State machine of one connection, without sockets and clocks: bytes in, SCSI commands to the device server, bytes
//! out. The spine of this crate.
//!
//! Its owner (the portal, a test) fills [`Connection::space`], calls [`Connection::received`], polls its tasks, sends
//! what [`Connection::slices`] returns, and calls [`Connection::tick`] once a second.

use crate::LoginAttempts;
use crate::access::TargetConfig;
use crate::chap::Nonce;
use crate::keys::{DISCOVERY_DATA_BYTES, LOGIN_DATA_BYTES, Offers, Parameters};
use crate::login::{Login, LoginIdentity, LoginReply, LoginStatus, Refusal};
use crate::memory_admission::{Admit, LOGIN_GUARANTEE_BYTES, LOGIN_MAX_UNSENT_BYTES, SESSION_GUARANTEE};
use crate::observer::RefusalCause;
use crate::pdu::incoming::{Incoming, Pdu};
use crate::pdu::outgoing::Outgoing;
use crate::pdu::{FINAL, Header, opcode};
use crate::session::{Session, SessionEnd, SessionLimits, Start};
use crate::wire::{StatSn, Window, Wire};
use bytes::BytesMut;
use bytes::buf::Limit;
use scsi::{Data, DeviceServer};
use smallvec::SmallVec;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use transport::{Budget, BudgetShare, ConnectionLog, MAX_TURN_PDUS, Owner};

/// The configuration of a connection.
#[derive(Clone)]
pub struct ConnectionConfig {
    /// The target's name, portals and access table.
    pub target_config: Arc<TargetConfig>,
    /// Values proposed in login.
    pub offers: Offers,
    /// Bounds on the session.
    pub limits: SessionLimits,
    /// Memory of all sessions together.
    pub budget: Arc<Budget>,
    /// Time-outs.
    pub timeouts: Timeouts,
    /// Portal group tag of the portal that the initiator connected to.
    pub portal: u16,
    /// The local address of the connection.
    pub local: SocketAddr,
    /// Randomness for CHAP.
    pub nonce: Nonce,
    /// Counts failed authentication from the address of the initiator.
    pub attempts: LoginAttempts,
    /// The log about connections.
    pub log: Arc<ConnectionLog>,
    /// Finds the connection of a session by its TSIH.
    pub session_exists: SessionLookup,
}

/// Finds the connection identifier of a session.
pub type SessionLookup = Arc<dyn Fn(&LoginIdentity) -> Option<u16> + Send + Sync>;

/// Time-outs in ticks, which are seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Limit for a complete login.
    pub login: u32,
    /// Time without input after which the initiator is pinged.
    pub idle: u32,
    /// Further time without input after which the connection is dropped.
    pub dead: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { login: 30, idle: 15, dead: 15 }
    }
}

/// A connection.
pub struct Connection {
    setup: ConnectionConfig,
    wire: Wire,
    stage: Stage,
    /// An arrived PDU waits for room.
    blocked: bool,
    /// Ticks without activity of the initiator, and whether it was active since the last tick.
    idle_ticks: u32,
    was_active: bool,
    /// The last send was partial, so further sending shows that the initiator receives.
    backlog: bool,
    /// The name that the initiator sent in login.
    named: Option<String>,
    /// Cause of a refused login.
    refused: Option<RefusalCause>,
}

enum Stage {
    /// The window starts at the first CmdSN, where the session continues.
    Login(Box<Login>, Window),
    /// Login is complete except that the session is not open yet.
    Opening(Box<Opening>),
    Full(Box<Session>),
    Ended(SessionEnd),
}

struct Opening {
    request: LoginReply,
    window: Window,
    header: Header,
    taken: bool,
}

/// A session that the owner opened for a login.
pub struct OpenedSession {
    /// Its handle; not zero.
    pub tsih: u16,
    /// The device server; `None` for discovery.
    pub device: Option<Box<dyn DeviceServer>>,
}

impl Connection {
    /// A connection that expects a login.
    pub fn new(setup: ConnectionConfig) -> Self {
        let login = Login::new(setup.offers.clone(), setup.portal, setup.nonce, setup.attempts.clone());
        // Replaced by the first request, in which the initiator chooses the start of the window.
        let window = Window::new(0, setup.limits.commands);
        Self {
            wire: Wire::new(
                LOGIN_DATA_BYTES,
                BudgetShare::unknown_host(setup.budget.clone(), LOGIN_GUARANTEE_BYTES),
            ),
            setup,
            stage: Stage::Login(Box::new(login), window),
            blocked: false,
            idle_ticks: 0,
            was_active: false,
            backlog: false,
            named: None,
            refused: None,
        }
    }

    /// Buffer space for the next bytes from the initiator.
    pub fn space(&mut self) -> Limit<&mut BytesMut> {
        self.wire.incoming.space()
    }

    /// True if the connection can receive more bytes now.
    pub fn wants_input(&self) -> bool {
        match &self.stage {
            Stage::Full(session) => !self.blocked && session.managing.is_none(),
            Stage::Login(..) => !self.blocked,
            Stage::Opening(_) | Stage::Ended(_) => false,
        }
    }

    /// Bytes were put into [`Connection::space`].
    pub fn received(&mut self) {
        self.was_active = true;
        self.proceed();
    }

    /// Continues commands, and processes arrived PDUs while there is room for them. True if some are left for the next
    /// turn, see [`MAX_TURN_PDUS`].
    pub fn proceed(&mut self) -> bool {
        if let Stage::Full(session) = &mut self.stage {
            session.advance(&mut self.wire);
        }
        self.blocked = false;
        let mut pdus = 0;
        while self.wants_input() {
            if let Some(pdu) = self.wire.incoming.body() {
                self.take(pdu);
                continue;
            }
            if pdus == MAX_TURN_PDUS {
                self.blocked = true;
                return true;
            }
            let header = match self.wire.incoming.head() {
                Ok(Some(header)) => header,
                Ok(None) => break,
                Err(error) => {
                    self.end(SessionEnd::Protocol(error.to_string()));
                    break;
                }
            };
            pdus += 1;
            match self.admit(&header) {
                Ok(Admit::Take(charge)) => self.wire.incoming.accept(charge),
                Ok(Admit::Skip) => self.wire.incoming.skip(),
                Ok(Admit::Wait) => self.blocked = true,
                Err(end) => self.end(end),
            }
        }
        false
    }

    fn admit(&mut self, header: &Header) -> Result<Admit, SessionEnd> {
        match &mut self.stage {
            Stage::Full(session) => session.admit(&mut self.wire, header),
            // An initiator that does not read its responses is not served further.
            _ if self.wire.out.len() as u64 > LOGIN_MAX_UNSENT_BYTES / 2 => Ok(Admit::Wait),
            _ => Ok(Admit::Take(0)),
        }
    }

    fn take(&mut self, pdu: Pdu) {
        let ended = match &mut self.stage {
            Stage::Full(session) => session.receive(&mut self.wire, pdu).err(),
            Stage::Login(..) => return self.login(&pdu),
            Stage::Opening(_) | Stage::Ended(_) => None,
        };
        if let Some(end) = ended {
            self.end(end);
        }
    }

    fn login(&mut self, pdu: &Pdu) {
        let Stage::Login(login, window) = &mut self.stage else { return };
        let header = pdu.header;
        if login.is_fresh() {
            if header.opcode() != opcode::LOGIN {
                // The data may not be iSCSI: no response (6.3).
                return self.end(SessionEnd::Protocol(format!("{header} instead of a login")));
            }
            *window = Window::new(header.cmd_sn(), self.setup.limits.commands);
        }
        let outcome = login.request(pdu, &self.setup.target_config, &*self.setup.session_exists);
        let window = window.clone();
        if self.named.is_none() {
            self.named = login.named().map(str::to_owned);
        }
        match outcome {
            Ok(answer) if answer.complete.is_some() => {
                self.stage =
                    Stage::Opening(Box::new(Opening { request: answer, window, header, taken: false }));
            }
            Ok(answer) => {
                let response =
                    login_response(&header, answer.flags, header.u16::<14>(), LoginStatus::Success);
                self.wire.send(&window, response, &answer.text.to_bytes().into(), StatSn::Next);
            }
            Err(refusal) => self.refuse(&window, &header, refusal),
        }
    }

    fn refuse(&mut self, window: &Window, header: &Header, refusal: Refusal) {
        let response = login_response(header, header.flags() & 0x0c, 0, refusal.status);
        self.wire.send(window, response, &Data::new(), StatSn::Next);
        self.refused = Some(refusal.cause);
        self.end(SessionEnd::Protocol(format!("login refused: {}", refusal.reason)));
    }

    /// The session that must be opened to complete a login; returned once.
    pub fn opening(&mut self) -> Option<(LoginIdentity, Parameters)> {
        let Stage::Opening(opening) = &mut self.stage else { return None };
        if std::mem::replace(&mut opening.taken, true) {
            return None;
        }
        let complete = opening.request.complete.as_ref()?;
        Some((complete.identity.clone(), complete.negotiation.parameters.clone()))
    }

    /// Takes the result of opening the session of [`Connection::opening`].
    pub fn opened(&mut self, opened: Result<OpenedSession, LoginStatus>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Ended(SessionEnd::LoggedOut));
        let Stage::Opening(opening) = stage else {
            self.stage = stage;
            return;
        };
        let Opening { request, window, header, .. } = *opening;
        let opened = opened.and_then(|opened| self.make_room(&request, opened));
        let (complete, opened) = match (request.complete, opened) {
            (Some(complete), Ok(opened)) => (complete, opened),
            (_, refused) => {
                let status = refused.err().unwrap_or(LoginStatus::ServiceUnavailable);
                let cause = match status {
                    LoginStatus::AuthorizationFailure => RefusalCause::AccessChanged,
                    LoginStatus::OutOfResources => RefusalCause::TooManyConnections,
                    other => RefusalCause::Abandoned(other.to_string()),
                };
                return self.refuse(&window, &header, Refusal::new(status, cause));
            }
        };
        let response = login_response(&header, request.flags, opened.tsih, LoginStatus::Success);
        self.wire.send(&window, response, &request.text.to_bytes().into(), StatSn::Next);
        let Parameters { header_digest, data_digest, .. } = complete.negotiation.parameters;
        self.wire.incoming.set_digests(header_digest, data_digest);
        self.wire.out.set_digests(header_digest, data_digest);
        let setup = &self.setup;
        self.stage = Stage::Full(Box::new(Session::new(Start {
            identity: complete.identity,
            negotiation: complete.negotiation,
            offers: setup.offers.clone(),
            limits: setup.limits.clone(),
            target_config: setup.target_config.clone(),
            local: setup.local,
            device: opened.device,
            log: setup.log.clone(),
            cmd_sn: header.cmd_sn(),
        })));
        self.proceed();
    }

    /// Enlarges buffers and budget share for a session, if there is room.
    fn make_room(
        &mut self,
        request: &LoginReply,
        opened: OpenedSession,
    ) -> Result<OpenedSession, LoginStatus> {
        let Some(complete) = request.complete.as_ref().filter(|_| opened.device.is_some()) else {
            self.wire.incoming.set_max_data(DISCOVERY_DATA_BYTES);
            return Ok(opened);
        };
        let owner = match complete.identity.authenticated {
            true => Owner::proved(&complete.identity.initiator),
            false => Owner::address(self.setup.attempts.address()),
        };
        if !self.wire.share.open(&owner, SESSION_GUARANTEE) {
            return Err(LoginStatus::OutOfResources);
        }
        self.wire.incoming.set_max_data(self.setup.offers.max_receive_data as usize);
        self.wire.incoming.enlarge();
        Ok(opened)
    }

    /// Sends responses of ended tasks; pending if there are none. Wakes the context when there may be some.
    pub fn poll_tasks(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Stage::Full(session) = &mut self.stage else { return Poll::Pending };
        session.poll_tasks(&mut self.wire, cx).map(|polled| polled.unwrap_or_else(|end| self.end(end)))
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
        self.was_active |= self.backlog;
        self.wire.out.advance(bytes);
        self.backlog = !self.wire.out.is_empty();
        match &self.stage {
            Stage::Full(session) => session.settle(&mut self.wire),
            _ => self.wire.share.settle(self.wire.out.len() as u64),
        }
    }

    /// Called once a second.
    pub fn tick(&mut self) {
        self.wire.incoming.tick();
        let Timeouts { login, idle, dead } = self.setup.timeouts;
        if let Stage::Full(session) = &mut self.stage
            && session.tick(&mut self.wire, idle + dead)
        {
            self.end(SessionEnd::Protocol(
                "it holds memory that others wait for and makes no progress".to_owned(),
            ));
        }
        let waits_for_initiator = self.wants_input() || self.wants_output();
        let alive = std::mem::take(&mut self.was_active) || !waits_for_initiator;
        // Traffic extends neither a login nor a close.
        if alive && matches!(self.stage, Stage::Full(_)) {
            self.idle_ticks = 0;
            return;
        }
        self.idle_ticks += 1;
        match &mut self.stage {
            Stage::Login(..) | Stage::Opening(_) if self.idle_ticks >= login => {
                self.end(SessionEnd::Protocol("login took too long".to_owned()));
            }
            Stage::Full(_) if self.idle_ticks >= idle + dead => {
                self.end(SessionEnd::Protocol(format!("nothing received for {} seconds", self.idle_ticks)));
            }
            Stage::Full(session) if self.idle_ticks == idle && !session.identity.discovery => {
                session.ping(&mut self.wire);
            }
            // The initiator does not receive the last bytes.
            Stage::Ended(_) if self.idle_ticks >= dead => {
                self.wire.out = Outgoing::default();
                self.wire.share.settle_all(0);
            }
            _ => {}
        }
    }

    /// Asks the initiator to log out within `seconds`; a connection that is not logged in ends.
    pub fn request_logout(&mut self, seconds: u16) {
        match &mut self.stage {
            Stage::Full(session) => session.request_logout(&mut self.wire, seconds),
            _ => self.end(SessionEnd::Protocol("shutting down".to_owned())),
        }
    }

    /// Ends the connection; tasks are aborted, queued bytes may still be sent.
    pub fn close(&mut self, reason: &str) {
        self.end(SessionEnd::Protocol(reason.to_owned()));
    }

    fn end(&mut self, end: SessionEnd) {
        if matches!(self.stage, Stage::Login(..) | Stage::Opening(_)) && self.named.is_some() {
            self.refused.get_or_insert_with(|| RefusalCause::Abandoned(end.to_string()));
        }
        if !matches!(self.stage, Stage::Ended(_)) {
            self.stage = Stage::Ended(end);
            self.idle_ticks = 0;
            self.wire.incoming = Incoming::new(0);
            self.wire.share.stop_waiting();
            self.wire.share.settle_all(self.wire.out.len() as u64);
        }
    }

    /// The reason of the end, once the connection has ended. Queued bytes may still have to be sent.
    pub fn ended(&self) -> Option<String> {
        match &self.stage {
            Stage::Ended(end) => Some(end.to_string()),
            _ => None,
        }
    }

    /// Cause of a refused or abandoned login, and the name that the initiator sent; returned once.
    pub fn take_refusal(&mut self) -> Option<(Option<String>, RefusalCause)> {
        self.refused.take().map(|cause| (self.named.take(), cause))
    }

    /// True if the initiator requested a cold reset.
    pub fn is_cold_reset(&self) -> bool {
        matches!(self.stage, Stage::Ended(SessionEnd::ColdReset))
    }

    /// The initiator's name, if known.
    pub fn initiator(&self) -> Option<&str> {
        match &self.stage {
            Stage::Login(login, _) => login.initiator(),
            Stage::Full(session) => Some(&session.identity.initiator),
            Stage::Opening(opening) => {
                opening.request.complete.as_ref().map(|it| it.identity.initiator.as_str())
            }
            Stage::Ended(_) => None,
        }
    }
}

/// Login Response (11.13).
fn login_response(request: &Header, flags: u8, tsih: u16, status: LoginStatus) -> Header {
    let flags = if status == LoginStatus::Success { flags } else { flags & !FINAL };
    Header::new(opcode::LOGIN_RESPONSE, flags)
        .put(8, request.array::<8, 6>())
        .put_u16(14, tsih)
        .with_itt(request.itt())
        .put_u16(36, status as u16)
}
