//! Login phase (RFC 7143 clause 6.3, 11.12, 11.13): security negotiation, operational negotiation, and transition to
//! the full feature phase, as a state machine over whole requests.

use crate::LoginAttempts;
use crate::access::{Access, TargetConfig};
use crate::chap::{Challenge, ChapError, Nonce};
use crate::keys::{DISCOVERY_DATA_BYTES, KeyError, Negotiation, Offers, Setting};
use crate::observer::RefusalCause;
use crate::pdu::incoming::Pdu;
use crate::pdu::{CONTINUE, FINAL, Header, opcode};
use crate::text::{Pairs, TextError};

/// Maximum length of a text that is continued over several requests, in bytes.
const MAX_TEXT_BYTES: usize = 16 << 10;
/// Maximum number of requests in a login; a normal one takes four.
const MAX_REQUESTS: u32 = 64;

/// Status class and detail (11.13.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u16)]
pub enum LoginStatus {
    /// The login continues, or is complete.
    #[error("success")]
    Success = 0x0000,
    /// The initiator violated the protocol.
    #[error("initiator error")]
    InitiatorError = 0x0200,
    /// Authentication failed.
    #[error("authentication failure")]
    AuthenticationFailure = 0x0201,
    /// The initiator is not allowed to use this target.
    #[error("authorization failure")]
    AuthorizationFailure = 0x0202,
    /// The target name does not exist.
    #[error("not found")]
    NotFound = 0x0203,
    /// No common version.
    #[error("unsupported version")]
    UnsupportedVersion = 0x0205,
    /// A session has one connection only.
    #[error("too many connections")]
    TooManyConnections = 0x0206,
    /// A mandatory key is missing.
    #[error("missing parameter")]
    MissingParameter = 0x0207,
    /// Neither a normal nor a discovery session.
    #[error("session type not supported")]
    SessionTypeNotSupported = 0x0209,
    /// The TSIH does not exist.
    #[error("session does not exist")]
    SessionDoesNotExist = 0x020a,
    /// A request other than a login request.
    #[error("invalid request during login")]
    InvalidDuringLogin = 0x020b,
    /// The target can't serve now.
    #[error("service unavailable")]
    ServiceUnavailable = 0x0301,
    /// The target has no room for another session.
    #[error("out of resources")]
    OutOfResources = 0x0302,
}

/// A refused login.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Refusal {
    pub(crate) status: LoginStatus,
    pub(crate) reason: String,
    /// The cause, for operators.
    pub(crate) cause: RefusalCause,
}

/// A protocol error.
fn refuse<T>(status: LoginStatus, reason: impl ToString) -> Result<T, Refusal> {
    let reason = reason.to_string();
    Err(Refusal { status, cause: RefusalCause::Protocol(reason.clone()), reason })
}

impl Refusal {
    pub(crate) fn new(status: LoginStatus, cause: RefusalCause) -> Self {
        Refusal { status, reason: cause.to_string(), cause }
    }
}

impl From<TextError> for Refusal {
    fn from(error: TextError) -> Self {
        let reason = error.to_string();
        Refusal { status: LoginStatus::InitiatorError, cause: RefusalCause::Protocol(reason.clone()), reason }
    }
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        let reason = error.to_string();
        Refusal { status: LoginStatus::InitiatorError, cause: RefusalCause::Protocol(reason.clone()), reason }
    }
}

/// Failed CHAP authentication of an initiator that sent these keys.
fn chap_refusal(error: ChapError, sent: &Pairs) -> Refusal {
    let user = || sent.get("CHAP_N").unwrap_or_default().to_owned();
    let cause = match error {
        ChapError::Name => RefusalCause::WrongChapUser(user()),
        ChapError::Response => RefusalCause::WrongChapSecret(user()),
        ChapError::NoMutual => RefusalCause::MutualChapNotConfigured,
        ChapError::Algorithm | ChapError::Malformed(_) | ChapError::Reflection => {
            RefusalCause::Protocol(error.to_string())
        }
    };
    Refusal { status: LoginStatus::AuthenticationFailure, reason: error.to_string(), cause }
}

/// The initiator that logs in, and the session that it requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginIdentity {
    /// InitiatorName in canonical form ([`scsi::iscsi_name`]).
    pub initiator: String,
    /// Initiator session identifier.
    pub isid: [u8; 6],
    /// TSIH that the initiator sent; zero for a new session.
    pub tsih: u16,
    /// Connection identifier.
    pub cid: u16,
    /// SessionType=Discovery
    pub discovery: bool,
    /// CHAP has proved the name.
    pub authenticated: bool,
    /// Number of the access table entry that admitted the initiator.
    pub(crate) admission: u64,
}

/// A login that is complete except for opening the session.
#[derive(Debug)]
pub(crate) struct Complete {
    pub(crate) identity: LoginIdentity,
    pub(crate) negotiation: Negotiation,
}

/// Reply to a login request.
#[derive(Debug)]
pub(crate) struct LoginReply {
    /// Byte 1 of the response: transit, stages.
    pub(crate) flags: u8,
    pub(crate) text: Pairs,
    /// Set with the last reply: the session to open before the reply is sent.
    pub(crate) complete: Option<Complete>,
}

/// Stages as CSG and NSG number them (11.12.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Security = 0,
    Operational = 1,
    FullFeature = 3,
}

impl Stage {
    fn from_bits(bits: u8) -> Option<Self> {
        [Self::Security, Self::Operational, Self::FullFeature]
            .into_iter()
            .find(|stage| *stage as u8 == bits & 3)
    }
}

enum Authentication {
    /// No method is negotiated.
    Open,
    /// CHAP is negotiated.
    Chap,
    /// The initiator has received the challenge.
    Challenged(Challenge),
    /// The authentication is complete, or not required.
    Done,
}

/// The state of a login.
pub(crate) struct Login {
    offers: Offers,
    portal: u16,
    nonce: Nonce,
    attempts: LoginAttempts,
    stage: Stage,
    /// ISID, TSIH and CID of the first request, which all others must repeat.
    first: Option<([u8; 6], u16, u16)>,
    /// Text of requests with the continue bit.
    text: Vec<u8>,
    /// The name that the initiator sent.
    named: Option<String>,
    identity: Option<LoginIdentity>,
    access: Access,
    authentication: Authentication,
    negotiation: Negotiation,
    /// The target's MaxRecvDataSegmentLength has been declared.
    declared: bool,
    requests: u32,
}

impl Login {
    pub(crate) fn new(offers: Offers, portal: u16, nonce: Nonce, attempts: LoginAttempts) -> Self {
        Self {
            offers,
            portal,
            nonce,
            attempts,
            stage: Stage::Security,
            first: None,
            text: Vec::new(),
            named: None,
            identity: None,
            access: Access::default(),
            authentication: Authentication::Open,
            negotiation: Negotiation::default(),
            declared: false,
            requests: 0,
        }
    }

    /// The initiator's name, once it is known.
    pub(crate) fn initiator(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.initiator.as_str())
    }

    /// The name that the initiator sent, not verified.
    pub(crate) fn named(&self) -> Option<&str> {
        self.named.as_deref()
    }

    /// True before the first request.
    pub(crate) fn is_fresh(&self) -> bool {
        self.requests == 0
    }

    /// Processes a request. `exists` returns the connection of the session that a non-zero TSIH names, if it exists.
    pub(crate) fn request(
        &mut self,
        pdu: &Pdu,
        target_config: &TargetConfig,
        exists: impl Fn(&LoginIdentity) -> Option<u16>,
    ) -> Result<LoginReply, Refusal> {
        self.requests += 1;
        if pdu.header.opcode() != opcode::LOGIN {
            return refuse(LoginStatus::InvalidDuringLogin, format!("{} during login", pdu.header));
        }
        if self.requests > MAX_REQUESTS {
            return refuse(LoginStatus::InitiatorError, "too many login requests");
        }
        let next = self.check_header(&pdu.header)?;
        if self.text.len() + pdu.data.len() > MAX_TEXT_BYTES {
            return refuse(LoginStatus::InitiatorError, "login text too long");
        }
        self.text.extend_from_slice(&pdu.data);
        if pdu.header.flags() & CONTINUE != 0 {
            return Ok(LoginReply { flags: (self.stage as u8) << 2, text: Pairs::new(), complete: None });
        }
        let sent = Pairs::parse(&std::mem::take(&mut self.text))?;
        let mut answer = Pairs::new();
        if self.identity.is_none() {
            self.identify(&sent, target_config, exists, &mut answer)?;
        }
        if self.stage == Stage::Security {
            self.authenticate(&sent, &mut answer)?;
        }
        self.negotiate(&sent, &mut answer)?;
        self.transit(next, answer)
    }

    /// Checks the fields that every request repeats; returns the stage that the initiator wants to enter.
    fn check_header(&mut self, header: &Header) -> Result<Option<Stage>, Refusal> {
        let flags = header.flags();
        // Version 0 is the only one (11.12.4); the initiator's minimum is byte 3.
        if header.0[3] > 0 {
            return refuse(LoginStatus::UnsupportedVersion, "the initiator needs a newer version");
        }
        let current = Stage::from_bits(flags >> 2);
        let ids = (header.array::<8, 6>(), header.u16::<14>(), header.u16::<20>());
        match self.first {
            None => {
                self.first = Some(ids);
                match current {
                    Some(stage @ (Stage::Security | Stage::Operational)) => self.stage = stage,
                    _ => return refuse(LoginStatus::InitiatorError, "login starts in no stage"),
                }
            }
            Some(first) if first != ids => {
                return refuse(LoginStatus::InitiatorError, "ISID, TSIH or CID changed during login");
            }
            Some(_) if current != Some(self.stage) => {
                return refuse(LoginStatus::InitiatorError, "a request for another stage");
            }
            Some(_) => {}
        }
        if flags & FINAL == 0 {
            return Ok(None);
        }
        if flags & CONTINUE != 0 {
            return refuse(LoginStatus::InitiatorError, "transit and continue in one request");
        }
        match Stage::from_bits(flags) {
            Some(next) if next > self.stage => Ok(Some(next)),
            _ => refuse(LoginStatus::InitiatorError, "transit to no later stage"),
        }
    }

    /// Names and session type, from the first whole text (6.3.1).
    fn identify(
        &mut self,
        sent: &Pairs,
        target_config: &TargetConfig,
        exists: impl Fn(&LoginIdentity) -> Option<u16>,
        answer: &mut Pairs,
    ) -> Result<(), Refusal> {
        let (isid, tsih, cid) = self.first.unwrap_or_default();
        let Some(initiator) = sent.get("InitiatorName") else {
            return refuse(LoginStatus::MissingParameter, "no InitiatorName");
        };
        let Some(name) = scsi::iscsi_name(initiator) else {
            return refuse(LoginStatus::InitiatorError, "an InitiatorName that is no iSCSI name");
        };
        self.named = Some(name.clone());
        let discovery = match sent.get("SessionType") {
            None | Some("Normal") => false,
            Some("Discovery") => true,
            Some(other) => {
                return refuse(LoginStatus::SessionTypeNotSupported, format!("SessionType={other:?}"));
            }
        };
        let known = target_config.admission(&name);
        let admission = known.as_ref().map_or(0, |admission| admission.number);
        let authenticated = false;
        let identity =
            LoginIdentity { initiator: name, isid, tsih, cid, discovery, authenticated, admission };
        if !discovery {
            match sent.get("TargetName") {
                None => return refuse(LoginStatus::MissingParameter, "no TargetName"),
                Some(name) if !name.eq_ignore_ascii_case(&target_config.target_name) => {
                    return Err(Refusal::new(
                        LoginStatus::NotFound,
                        RefusalCause::UnknownTarget(name.to_owned()),
                    ));
                }
                Some(_) => {}
            }
            if known.is_none() {
                return Err(Refusal::new(LoginStatus::AuthorizationFailure, RefusalCause::UnknownInitiator));
            }
            answer.push("TargetPortalGroupTag", self.portal.to_string());
        }
        if tsih != 0 {
            match exists(&identity) {
                None => {
                    return refuse(LoginStatus::SessionDoesNotExist, format!("no session with TSIH {tsih}"));
                }
                Some(other) if other != cid => {
                    return Err(Refusal::new(
                        LoginStatus::TooManyConnections,
                        RefusalCause::TooManyConnections,
                    ));
                }
                // Connection reinstatement (6.3.4): the login replaces the existing connection.
                Some(_) => {}
            }
        }
        self.access = known.map(|admission| admission.access).unwrap_or_default();
        self.identity = Some(identity);
        Ok(())
    }

    fn needs_chap(&self) -> bool {
        let discovery = self.identity.as_ref().is_some_and(|identity| identity.discovery);
        self.access.chap.is_some() && !discovery
    }

    /// The security keys (clause 12).
    fn authenticate(&mut self, sent: &Pairs, answer: &mut Pairs) -> Result<(), Refusal> {
        if let Some(methods) = sent.get("AuthMethod") {
            if !matches!(self.authentication, Authentication::Open) {
                return refuse(LoginStatus::InitiatorError, "AuthMethod negotiated a second time");
            }
            // CHAP requires a configured secret, and a configured secret requires CHAP.
            let method = match self.needs_chap() {
                false if methods.split(',').any(|method| method == "None") => "None",
                _ if self.access.chap.is_some() && methods.split(',').any(|method| method == "CHAP") => {
                    "CHAP"
                }
                _ => {
                    let asked = self.access.chap.is_some();
                    let cause =
                        if asked { RefusalCause::ChapRequired } else { RefusalCause::ChapNotConfigured };
                    return Err(Refusal::new(LoginStatus::AuthenticationFailure, cause));
                }
            };
            answer.push("AuthMethod", method);
            let is_none = method == "None";
            self.authentication = if is_none { Authentication::Done } else { Authentication::Chap };
        }
        let admission = self.identity.as_ref().map_or(0, |identity| identity.admission);
        let pending = matches!(self.authentication, Authentication::Chap | Authentication::Challenged(_));
        if pending && !self.attempts.wait(admission).is_zero() {
            return Err(Refusal::new(LoginStatus::ServiceUnavailable, RefusalCause::TooManyAttempts));
        }
        match (&self.authentication, &self.access.chap) {
            (Authentication::Chap, Some(_)) if sent.get("CHAP_A").is_some() => {
                let offered = Challenge::offer(sent, self.nonce);
                let (challenge, offer) = offered.map_err(|error| chap_refusal(error, sent))?;
                answer.extend(offer);
                self.authentication = Authentication::Challenged(challenge);
            }
            (Authentication::Challenged(challenge), Some(chap)) => {
                let checked = challenge.check(sent, chap, self.access.mutual.as_ref());
                if matches!(checked, Err(ChapError::Name | ChapError::Response)) {
                    self.attempts.failed(admission);
                }
                answer.extend(checked.map_err(|error| chap_refusal(error, sent))?);
                self.attempts.succeeded(admission);
                self.identity.as_mut().into_iter().for_each(|identity| identity.authenticated = true);
                self.authentication = Authentication::Done;
            }
            _ => {}
        }
        Ok(())
    }

    /// Negotiates the operational keys, which may arrive in either stage.
    fn negotiate(&mut self, sent: &Pairs, answer: &mut Pairs) -> Result<(), Refusal> {
        let discovery = self.identity.as_ref().is_some_and(|identity| identity.discovery);
        let mut operational = Pairs::new();
        for (key, value) in sent.iter().filter(|(key, _)| *key != "AuthMethod" && !key.starts_with("CHAP_")) {
            operational.push(key, value);
        }
        let setting = Setting { login: true, discovery };
        answer.extend(self.negotiation.respond(&operational, &self.offers, setting)?);
        if self.stage == Stage::Operational && !self.declared {
            self.declared = true;
            let most = self.offers.max_receive_data;
            let most = if discovery { most.min(DISCOVERY_DATA_BYTES as u32) } else { most };
            answer.push("MaxRecvDataSegmentLength", most.to_string());
        }
        Ok(())
    }

    /// Enters the next stage if the initiator requests it and no key is missing.
    fn transit(&mut self, wanted: Option<Stage>, text: Pairs) -> Result<LoginReply, Refusal> {
        let here = (self.stage as u8) << 2;
        let authenticated = match self.authentication {
            Authentication::Done => true,
            Authentication::Open => !self.needs_chap(),
            Authentication::Chap | Authentication::Challenged(_) => false,
        };
        let skipped = matches!(self.authentication, Authentication::Open) && wanted.is_some();
        if !authenticated && (skipped || self.stage == Stage::Operational) {
            return Err(Refusal::new(LoginStatus::AuthenticationFailure, RefusalCause::ChapRequired));
        }
        let Some(next) = wanted.filter(|_| authenticated) else {
            return Ok(LoginReply { flags: here, text, complete: None });
        };
        self.stage = next;
        let flags = FINAL | here | next as u8;
        let complete = match (&self.identity, next) {
            (Some(identity), Stage::FullFeature) => {
                Some(Complete { identity: identity.clone(), negotiation: self.negotiation.clone() })
            }
            _ => None,
        };
        Ok(LoginReply { flags, text, complete })
    }
}

#[cfg(test)]
#[path = "login_test.rs"]
mod tests;
