//! A scripted initiator and a scripted device server, for tests without sockets.

use crate::access::{Access, TargetConfig};
use crate::chap::Nonce;
use crate::connection::{Connection, ConnectionConfig, OpenedSession, Timeouts};
use crate::keys::Offers;
use crate::login::LoginStatus;
use crate::pdu::incoming::{Incoming, Pdu};
use crate::pdu::outgoing::Outgoing;
use crate::pdu::{FINAL, Header, NO_TAG, opcode};
use crate::session::SessionLimits;
use crate::{LoginAttempts, LoginThrottle};
use bytes::{BufMut, Bytes};
use parking_lot::Mutex;
use scsi::{
    Command, Data, DeviceServer, Execution, Lun, Management, ManagementFunction, ManagementResponse,
    Response, Status, TransferBound,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

pub(crate) const INITIATOR: &str = "iqn.2026-01.test:initiator";
pub(crate) const TARGET: &str = "iqn.2026-01.test:target";
pub(crate) const NONCE: Nonce = Nonce { id: 7, challenge: [0x5a; 32] };

/// Operation codes of the script.
pub(crate) const READ: u8 = 0x28;
pub(crate) const WRITE: u8 = 0x2a;
/// Runs until [`Lab::finish`].
pub(crate) const SLOW: u8 = 0xf0;
/// Ends with CHECK CONDITION.
pub(crate) const BAD: u8 = 0xf1;
/// The logical unit whose task management lasts until [`Lab::managed`].
pub(crate) const ELSEWHERE: u8 = 8;

/// Commands that the device server received, and its behaviour.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) executed: Vec<Command>,
    pub(crate) managed: Vec<(Lun, ManagementFunction)>,
    running: BTreeMap<u64, Arc<Mutex<Slow>>>,
    /// Tags of running tasks that were dropped.
    pub(crate) dropped: Arc<Mutex<Vec<u64>>>,
    elsewhere: Arc<Mutex<Elsewhere>>,
}

/// Task management in progress.
#[derive(Default)]
struct Elsewhere {
    response: Option<Option<ManagementResponse>>,
    waker: Option<Waker>,
}

#[derive(Default)]
struct Slow {
    end: Option<Option<Response>>,
    waker: Option<Waker>,
}

struct Scripted(Arc<Mutex<Script>>);

/// Records a task that is dropped before its end.
struct DropNote {
    tag: u64,
    dropped: Arc<Mutex<Vec<u64>>>,
    ended: bool,
}

impl DropNote {
    fn end(&mut self) {
        self.ended = true;
    }
}

impl Drop for DropNote {
    fn drop(&mut self) {
        if !self.ended {
            self.dropped.lock().push(self.tag);
        }
    }
}

pub(crate) fn good() -> Response {
    Response::with_status(Status::Good)
}

impl DeviceServer for Scripted {
    fn transfer_bound(&self, _: Lun, cdb: &Bytes) -> TransferBound {
        let bytes = u64::from(cdb[8]) * 512;
        match cdb[0] {
            READ | SLOW => TransferBound { data_out: 0, data_in: bytes },
            WRITE => TransferBound { data_out: bytes, data_in: 0 },
            _ => TransferBound::default(),
        }
    }

    fn execute(&mut self, command: Command) -> Execution {
        let mut script = self.0.lock();
        let bytes = usize::from(command.cdb[8]) * 512;
        let (tag, op) = (command.tag, command.cdb[0]);
        script.executed.push(command);
        match op {
            READ => Execution::Done(Response { data_in: pattern(bytes).into(), ..good() }),
            WRITE => Execution::Done(Response { data_out_wanted: bytes as u64, ..good() }),
            BAD => Execution::Done(Response {
                status: Status::CheckCondition,
                sense: Bytes::from_static(&[0x70; 18]),
                ..good()
            }),
            SLOW => {
                let slow = Arc::new(Mutex::new(Slow::default()));
                script.running.insert(tag, slow.clone());
                let mut note = DropNote { tag, dropped: script.dropped.clone(), ended: false };
                Execution::Task(Box::pin(std::future::poll_fn(move |cx| {
                    let mut slow = slow.lock();
                    match slow.end.take() {
                        Some(end) => {
                            note.end();
                            Poll::Ready(end)
                        }
                        None => {
                            slow.waker = Some(cx.waker().clone());
                            Poll::Pending
                        }
                    }
                })))
            }
            _ => Execution::Done(good()),
        }
    }

    fn manage(&mut self, lun: Lun, function: ManagementFunction) -> Management {
        let mut script = self.0.lock();
        script.managed.push((lun, function));
        if lun.0[1] == ELSEWHERE {
            let elsewhere = script.elsewhere.clone();
            return Management::Later(Box::pin(std::future::poll_fn(move |cx| {
                let mut elsewhere = elsewhere.lock();
                elsewhere.waker = Some(cx.waker().clone());
                elsewhere.response.take().map_or(Poll::Pending, Poll::Ready)
            })));
        }
        if lun.0[1] > 9 { ManagementResponse::IncorrectLun } else { ManagementResponse::Complete }.into()
    }
}

pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 7 + index / 256) as u8).collect()
}

/// A connection with its initiator.
pub(crate) struct Lab {
    pub(crate) connection: Connection,
    pub(crate) script: Arc<Mutex<Script>>,
    pub(crate) cmd_sn: u32,
    pub(crate) itt: u32,
    /// Device server of the session, if it is not the script.
    pub(crate) device: Option<Box<dyn DeviceServer>>,
    out: Outgoing,
    input: Incoming,
}

/// A clock that is advanced by hand.
#[derive(Default)]
pub(crate) struct TestClock(AtomicU64);

impl TestClock {
    pub(crate) fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1_000_000_000, Ordering::Relaxed);
    }
}

impl scsi::Clock for TestClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep_until(&self, _: u64) -> scsi::Sleep {
        unreachable!("nothing here waits by the clock")
    }
}

pub(crate) fn setup(target_config: Arc<TargetConfig>) -> ConnectionConfig {
    target_config.set_portals(vec![crate::Portal::plain(3, "[::1]:3260".parse().unwrap())]);
    ConnectionConfig {
        target_config,
        offers: Offers::default(),
        limits: SessionLimits { commands: 8, ..SessionLimits::default() },
        budget: Arc::default(),
        timeouts: Timeouts { login: 5, idle: 3, dead: 2 },
        portal: 3,
        local: "10.0.0.1:3260".parse().unwrap(),
        nonce: NONCE,
        attempts: LoginAttempts::new(
            Arc::new(LoginThrottle::new(Arc::new(TestClock::default()))),
            "10.0.0.7".parse().unwrap(),
        ),
        log: Arc::default(),
        session_exists: Arc::new(|identity| (identity.tsih == 77).then_some(5)),
    }
}

pub(crate) fn target_config() -> Arc<TargetConfig> {
    let target_config = TargetConfig::new(TARGET);
    target_config.set_access([(INITIATOR.to_owned(), Access::default())].into());
    Arc::new(target_config)
}

impl Lab {
    pub(crate) fn new(setup: ConnectionConfig) -> Self {
        Self {
            connection: Connection::new(setup),
            script: Arc::default(),
            cmd_sn: 100,
            itt: 1,
            device: None,
            out: Outgoing::default(),
            input: Incoming::new(1 << 24),
        }
    }

    /// A lab that is logged in with these operational keys.
    pub(crate) fn session(keys: &[(&str, &str)]) -> Self {
        Self::session_with(setup(target_config()), keys)
    }

    pub(crate) fn session_with(setup: ConnectionConfig, keys: &[(&str, &str)]) -> Self {
        Self::new(setup).logged_in(keys)
    }

    /// Logs in.
    pub(crate) fn logged_in(mut self, keys: &[(&str, &str)]) -> Self {
        let lab = &mut self;
        let mut text = vec![("InitiatorName", INITIATOR), ("TargetName", TARGET)];
        text.extend(keys);
        let answer = lab.login(0x87, &text);
        assert_eq!(status(&answer), LoginStatus::Success as u16, "{}", String::from_utf8_lossy(&answer.data));
        assert_eq!(answer.header.flags(), 0x87);
        let digest = |name: &str| keys.contains(&(name, "CRC32C"));
        lab.out.set_digests(digest("HeaderDigest"), digest("DataDigest"));
        lab.input.set_digests(digest("HeaderDigest"), digest("DataDigest"));
        self
    }

    /// Sends one login request; returns its response.
    pub(crate) fn login(&mut self, flags: u8, keys: &[(&str, &str)]) -> Pdu {
        let header = Header::new(opcode::LOGIN | 0x40, flags)
            .put(8, [0x80, 1, 2, 3, 4, 5])
            .with_itt(9)
            .put_u32(24, self.cmd_sn);
        self.send(header, &text(keys));
        self.one()
    }

    /// Queues and delivers a PDU.
    pub(crate) fn send(&mut self, header: Header, data: &[u8]) {
        self.out.push(header, &Data::from(Bytes::copy_from_slice(data)));
        self.flush();
    }

    /// Queues two PDUs, and delivers them together.
    pub(crate) fn send_both(&mut self, first: Header, second: Header) {
        self.out.push(first, &Data::new());
        self.send(second, &[]);
    }

    /// PDUs without data, and those that are queued before them, as bytes.
    pub(crate) fn encoded(&mut self, headers: impl Iterator<Item = Header>) -> Vec<u8> {
        headers.for_each(|header| self.out.push(header, &Data::new()));
        let mut encoded = Vec::new();
        while !self.out.is_empty() {
            let bytes: Vec<u8> = self.out.slices().iter().flat_map(|slice| slice.to_vec()).collect();
            self.out.advance(bytes.len());
            encoded.extend(bytes);
        }
        encoded
    }

    fn flush(&mut self) {
        let bytes = self.encoded(std::iter::empty());
        self.deliver(&bytes);
    }

    /// Delivers raw bytes, and opens the session if the connection waits for that.
    pub(crate) fn deliver(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.connection.wants_input() {
            let mut space = self.connection.space();
            let count = bytes.len().min(space.remaining_mut());
            space.put_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.connection.received();
            self.settle();
        }
    }

    /// Runs the connection until nothing happens.
    pub(crate) fn settle(&mut self) {
        if let Some((identity, _)) = self.connection.opening() {
            let scripted = || -> Box<dyn DeviceServer> { Box::new(Scripted(self.script.clone())) };
            let device = self.device.take().unwrap_or_else(scripted);
            let device = (!identity.discovery).then_some(device);
            self.connection.opened(Ok(OpenedSession { tsih: 42, device }));
        }
        while self.connection.poll_tasks(&mut Context::from_waker(Waker::noop())).is_ready() {}
        self.connection.proceed();
    }

    /// PDUs that the connection has sent.
    pub(crate) fn answers(&mut self) -> Vec<Pdu> {
        let mut pdus = Vec::new();
        while self.connection.wants_output() {
            let bytes: Vec<u8> = self.connection.slices().iter().flat_map(|slice| slice.to_vec()).collect();
            self.connection.sent(bytes.len());
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let mut space = self.input.space();
                let count = rest.len().min(space.remaining_mut());
                space.put_slice(&rest[..count]);
                rest = &rest[count..];
                while let Some(pdu) = self.input.next().unwrap() {
                    assert!(!pdu.damaged);
                    pdus.push(pdu);
                }
            }
        }
        pdus
    }

    /// The only PDU that the connection has sent.
    pub(crate) fn one(&mut self) -> Pdu {
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    /// A SCSI Command header with a new tag and the next CmdSN.
    pub(crate) fn header(&mut self, flags: u8, op: u8, blocks: u8, expected: u32) -> Header {
        self.itt += 1;
        self.cmd_sn += 1;
        Header::new(opcode::SCSI_COMMAND, flags)
            .with_itt(self.itt)
            .put_u32(20, expected)
            .put_u32(24, self.cmd_sn - 1)
            .put(32, [op, 0, 0, 0, 0, 0, 0, 0, blocks])
    }

    /// Sends a command without data; returns its tag.
    pub(crate) fn command(&mut self, op: u8) -> u32 {
        let header = self.header(FINAL, op, 0, 0);
        self.send(header, &[]);
        self.itt
    }

    /// Sends a Data-Out PDU for the last command.
    pub(crate) fn data_out(&mut self, ttt: u32, data_sn: u32, offset: usize, data: &[u8], last: bool) {
        let header = Header::new(opcode::DATA_OUT, if last { FINAL } else { 0 })
            .with_itt(self.itt)
            .with_ttt(ttt)
            .put_u32(36, data_sn)
            .put_u32(40, offset as u32);
        self.send(header, data);
    }

    /// Sends an immediate task management request for a task.
    pub(crate) fn manage(&mut self, function: u8, lun: u8, itt: u32, ref_cmd_sn: u32) {
        let header = self.management(function, lun, itt, ref_cmd_sn);
        self.send(header, &[]);
    }

    /// Header of a task management request.
    pub(crate) fn management(&self, function: u8, lun: u8, itt: u32, ref_cmd_sn: u32) -> Header {
        Header::new(opcode::TASK_MANAGEMENT | 0x40, FINAL | function)
            .put(8, [0, lun])
            .with_itt(itt ^ 0x4000)
            .with_ttt(itt)
            .put_u32(24, self.cmd_sn)
            .put_u32(32, ref_cmd_sn)
    }

    /// Ends task management of [`ELSEWHERE`].
    pub(crate) fn managed(&mut self, response: Option<ManagementResponse>) {
        let elsewhere = self.script.lock().elsewhere.clone();
        let waker = {
            let mut elsewhere = elsewhere.lock();
            elsewhere.response = Some(response);
            elsewhere.waker.take()
        };
        waker.expect("it waits").wake();
        self.settle();
    }

    /// Ends a slow task.
    pub(crate) fn finish(&mut self, tag: u32, end: Option<Response>) {
        let slow = self.script.lock().running.remove(&u64::from(tag)).unwrap();
        let waker = {
            let mut slow = slow.lock();
            slow.end = Some(end);
            slow.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
        self.settle();
    }

    pub(crate) fn executed(&self) -> Vec<u32> {
        self.script.lock().executed.iter().map(|command| command.tag as u32).collect()
    }

    pub(crate) fn dropped(&self) -> Vec<u64> {
        self.script.lock().dropped.lock().clone()
    }
}

pub(crate) fn text(keys: &[(&str, &str)]) -> Vec<u8> {
    keys.iter().flat_map(|(key, value)| format!("{key}={value}\0").into_bytes()).collect()
}

/// Status class and detail of a login response.
pub(crate) fn status(answer: &Pdu) -> u16 {
    answer.header.u16::<36>()
}

/// The value of a key in a response.
pub(crate) fn value(answer: &Pdu, key: &str) -> Option<String> {
    let pairs = crate::text::Pairs::parse(&answer.data).unwrap();
    pairs.get(key).map(str::to_owned)
}

/// A SCSI response's status byte, flags and residual count.
pub(crate) fn outcome(answer: &Pdu) -> (u8, u8, u32) {
    assert_eq!(answer.header.opcode(), opcode::SCSI_RESPONSE);
    (answer.header.0[3], answer.header.flags() & 0x7f, answer.header.u32::<44>())
}

/// ASC and ASCQ of a response's fixed-format sense.
pub(crate) fn sense(answer: &Pdu) -> (u8, u8, u8) {
    assert_eq!(outcome(answer).0, 2, "CHECK CONDITION");
    (answer.data[4] & 0x0f, answer.data[14], answer.data[15])
}

/// Tag of unsolicited data.
pub(crate) const UNSOLICITED: u32 = NO_TAG;
