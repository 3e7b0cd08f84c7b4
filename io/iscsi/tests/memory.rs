//! Resident memory of the process under hostile initiators: connections without sockets, to which initiators send as
//! much as is accepted. Each scenario runs in a process of its own.

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use bytes::{BufMut, Bytes};
use iscsi::{
    Access, Connection, ConnectionConfig, LoginAttempts, LoginThrottle, Nonce, Offers, OpenedSession,
    SessionLimits, TargetConfig, Timeouts,
};
use scsi::{
    Data, DeviceServer, Execution, Lun, Management, ManagementFunction, ManagementResponse, Response, Status,
    TransferBound,
};
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Waker};
use transport::{Budget, SystemClock};

const TARGET: &str = "iqn.2026-01.test:target";
const MIB: u64 = 1 << 20;
const BUDGET: u64 = 128 * MIB;
/// Allowance for memory that the allocator keeps, and for the test's records.
const SLACK: u64 = 24 * MIB;

/// Runs a scenario of the test with this name in a child process with unused memory.
#[track_caller]
fn alone(test: &str, scenario: impl FnOnce()) {
    const CHILD: &str = "ASHLAR_TEST_SCENARIO";
    if std::env::var_os(CHILD).is_some() {
        return scenario();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args([test, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !output.stdout.is_empty(), "{said}");
}

/// Resident memory in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A device server that ends every command at once.
struct Ready;

impl DeviceServer for Ready {
    fn transfer_bound(&self, _: Lun, cdb: &Bytes) -> TransferBound {
        let bytes = u64::from(u32::from_be_bytes(cdb[10..14].try_into().unwrap())) * 512;
        let is_read = cdb[0] == 0x88;
        TransferBound { data_out: if is_read { 0 } else { bytes }, data_in: if is_read { bytes } else { 0 } }
    }

    fn execute(&mut self, command: scsi::Command) -> Execution {
        let bytes = usize::from(u16::from_be_bytes([command.cdb[12], command.cdb[13]])) * 512;
        let data_in = if command.cdb[0] == 0x88 { Data::from(vec![1; bytes]) } else { Data::new() };
        Execution::Done(Response { data_in, ..Response::with_status(Status::Good) })
    }

    fn manage(&mut self, _: Lun, _: ManagementFunction) -> Management {
        ManagementResponse::Complete.into()
    }
}

/// An initiator that reads only R2Ts, or nothing.
struct Hostile {
    connection: Connection,
    discovery: bool,
    cmd_sn: u32,
}

impl Hostile {
    fn connect(budget: &Arc<Budget>, name: &str) -> Self {
        let target_config = TargetConfig::new(TARGET);
        target_config.set_access([(name.to_owned(), Access::default())].into());
        // Each host has an address of its own, and with it a share of the pool.
        let own = name.bytes().fold(0, u8::wrapping_add);
        let throttle = Arc::new(LoginThrottle::new(Arc::new(SystemClock::default())));
        let connection = Connection::new(ConnectionConfig {
            target_config: Arc::new(target_config),
            offers: Offers::default(),
            limits: SessionLimits::default(),
            budget: budget.clone(),
            timeouts: Timeouts::default(),
            portal: 1,
            local: ([127, 0, 0, 1], 3260).into(),
            nonce: Nonce { id: 1, challenge: [2; 32] },
            attempts: LoginAttempts::new(throttle, [10, 0, 0, own].into()),
            log: Arc::default(),
            session_exists: Arc::new(|_| None),
        });
        Self { connection, discovery: false, cmd_sn: 1 }
    }

    fn login(budget: &Arc<Budget>, name: &str, keys: &str) -> Self {
        let mut host = Self::connect(budget, name);
        host.discovery = keys.contains("Discovery");
        let text = format!("InitiatorName={name}\0TargetName={TARGET}\0{keys}");
        assert!(host.send([0x43, 0x87], 9, &[], text.as_bytes()));
        assert!(host.read().starts_with(&[0x23, 0x87]), "the login is accepted");
        host
    }

    /// Sends a PDU with fields at offsets; false when the connection accepts no more.
    fn send(&mut self, first: [u8; 2], itt: u32, fields: &[(usize, u32)], data: &[u8]) -> bool {
        let mut bytes = vec![0; 48];
        bytes[..2].copy_from_slice(&first);
        bytes[4..8].copy_from_slice(&(data.len() as u32).to_be_bytes());
        for (at, value) in [(16, itt), (20, 0xffff_ffff), (24, self.cmd_sn)].iter().chain(fields) {
            bytes[*at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.deliver(&bytes)
    }

    fn deliver(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            if !self.connection.wants_input() {
                return false;
            }
            let mut space = self.connection.space();
            let count = bytes.len().min(space.remaining_mut());
            space.put_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.connection.received();
            self.advance();
        }
        true
    }

    fn advance(&mut self) {
        if self.connection.opening().is_some() {
            let device: Option<Box<dyn DeviceServer>> =
                if self.discovery { None } else { Some(Box::new(Ready)) };
            self.connection.opened(Ok(OpenedSession { tsih: 1, device }));
        }
        while self.connection.poll_tasks(&mut Context::from_waker(Waker::noop())).is_ready() {}
        self.connection.proceed();
    }

    /// Bytes queued for the initiator.
    fn read(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.connection.wants_output() {
            let before = bytes.len();
            self.connection.slices().iter().for_each(|slice| bytes.extend_from_slice(slice));
            self.connection.sent(bytes.len() - before);
        }
        bytes
    }

    /// A WRITE(16) of `blocks` blocks with immediate data.
    fn write(&mut self, attribute: u8, blocks: u32, data: &[u8]) -> bool {
        self.cmd_sn += 1;
        let cdb = [(32, 0x8a00_0000), (40, 0), (44, 0)];
        let mut fields = vec![(20, blocks * 512), (24, self.cmd_sn - 1)];
        fields.extend(cdb);
        // The number of blocks is at byte 10 of the CDB.
        fields.push((42, blocks));
        self.send([0x01, 0xa0 | attribute], self.cmd_sn, &fields, data)
    }

    /// Sends the data for R2Ts, except the last PDU of each write; returns the number of bytes sent.
    fn answer_most(&mut self, whole: u32) -> u64 {
        let mut sent = 0;
        loop {
            let bytes = self.read();
            let mut asked = Vec::new();
            for header in bytes.chunks_exact(48).filter(|header| header[0] == 0x31) {
                let field = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
                asked.push((field(16), field(20), field(40), field(44)));
            }
            if asked.is_empty() {
                return sent;
            }
            for (itt, ttt, offset, length) in asked {
                let last = offset + length == whole;
                let parts = length / 65_536 - u32::from(last);
                for part in 0..parts {
                    let fields = [(20, ttt), (36, part), (40, offset + part * 65_536)];
                    let flags = if !last && part + 1 == parts { 0x80 } else { 0 };
                    assert!(
                        self.send([0x05, flags], itt, &fields, &[7; 65_536]),
                        "what was asked for is taken"
                    );
                    sent += 65_536;
                }
            }
        }
    }
}

#[track_caller]
fn assert_growth(before: u64, most: u64) {
    let grown = resident().saturating_sub(before);
    assert!(grown <= most, "{} MiB where {} are allowed", grown / MIB, most / MIB);
}

#[test]
fn writes_that_never_end_stay_within_the_budget() {
    alone("writes_that_never_end_stay_within_the_budget", || {
        let budget = Arc::new(Budget::new(BUDGET));
        let before = resident();
        let mut hosts: Vec<Hostile> = (0..24)
            .map(|number| {
                Hostile::login(&budget, &format!("iqn.2026-01.test:host{}", number / 2), "ImmediateData=No\0")
            })
            .collect();
        let whole = 32 << 20;
        for host in &mut hosts {
            (0..32).for_each(|_| assert!(host.write(1, whole / 512, &[])));
        }
        let sent: u64 = hosts.iter_mut().map(|host| host.answer_most(whole)).sum();
        assert!(sent > 32 * MIB, "{sent} bytes asked for: the budget is used");
        assert_growth(before, BUDGET + SLACK);
        assert!(budget.used() <= BUDGET);
    });
}

#[test]
fn pings_of_discovery_sessions_that_read_nothing_cost_next_to_nothing() {
    alone("pings_of_discovery_sessions_that_read_nothing_cost_next_to_nothing", || {
        let budget = Arc::new(Budget::new(BUDGET));
        let before = resident();
        let mut hosts: Vec<Hostile> = (0..20)
            .map(|_| Hostile::login(&budget, "iqn.2026-01.test:x", "SessionType=Discovery\0"))
            .collect();
        for host in &mut hosts {
            (0..1000).all(|_| host.send([0x40, 0x80], 5, &[], &[1; 8000]));
        }
        assert_growth(before, SLACK);
    });
}

#[test]
fn writes_after_an_ordered_one_stay_within_the_budget() {
    alone("writes_after_an_ordered_one_stay_within_the_budget", || {
        let budget = Arc::new(Budget::new(BUDGET));
        let before = resident();
        let mut host = Hostile::login(&budget, "iqn.2026-01.test:x", "FirstBurstLength=262144\0");
        assert!(host.write(2, 2, &[0; 512]));
        for _ in 0..250 {
            assert!(host.write(1, 2048, &[7; 262_144]));
            // The rest of each write is sent as requested.
            let bytes = host.read();
            for header in bytes.chunks_exact(48).filter(|header| header[0] == 0x31) {
                let field = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
                let (itt, ttt, offset, length) = (field(16), field(20), field(40), field(44));
                if length < 65_536 {
                    continue;
                }
                for part in 0..length / 65_536 {
                    let fields = [(20, ttt), (36, part), (40, offset + part * 65_536)];
                    let flags = if part + 1 == length / 65_536 { 0x80 } else { 0 };
                    assert!(host.send([0x05, flags], itt, &fields, &[7; 65_536]));
                }
            }
        }
        assert_growth(before, BUDGET / 2 + SLACK);
    });
}

#[test]
fn answers_that_nobody_reads_stay_within_the_budget() {
    alone("answers_that_nobody_reads_stay_within_the_budget", || {
        let budget = Arc::new(Budget::new(BUDGET));
        let before = resident();
        let mut hosts: Vec<Hostile> = (0..16)
            .map(|number| Hostile::login(&budget, &format!("iqn.2026-01.test:host{number}"), ""))
            .collect();
        for host in &mut hosts {
            for _ in 0..200 {
                host.cmd_sn += 1;
                let fields = [(20, MIB as u32), (24, host.cmd_sn - 1), (32, 0x8800_0000), (42, 2048)];
                host.send([0x01, 0xc1], host.cmd_sn, &fields, &[]);
            }
        }
        assert_growth(before, BUDGET + SLACK);
        assert!(budget.used() <= BUDGET);
    });
}

#[test]
fn a_thousand_logins_with_text_without_end_cost_what_they_are_guaranteed() {
    alone("a_thousand_logins_with_text_without_end_cost_what_they_are_guaranteed", || {
        let budget = Arc::new(Budget::new(BUDGET));
        let before = resident();
        let mut hosts: Vec<Hostile> =
            (0..256).map(|_| Hostile::connect(&budget, "iqn.2026-01.test:x")).collect();
        for host in &mut hosts {
            // The continue bit, in the first stage.
            (0..8).all(|_| host.send([0x43, 0x40], 9, &[], &[b'k'; 8000]));
        }
        assert_growth(before, 256 * (128 << 10));
    });
}
