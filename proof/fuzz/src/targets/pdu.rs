//! Arbitrary bytes against a connection without a socket: in the login phase, and after a login.
//!
//! The first byte chooses: bit 0 a session that is logged in, bit 1 header digests, bit 2 data digests, bit 3
//! unsolicited data; the rest is the stream, in portions whose sizes come from it too.

use bytes::{BufMut, Bytes};
use iscsi::{
    Access, Connection, ConnectionConfig, LoginAttempts, LoginThrottle, Nonce, Offers, OpenedSession,
    SessionLimits, TargetConfig, Timeouts,
};
use scsi::{
    Command, Data, DeviceServer, Execution, Lun, Management, ManagementFunction, ManagementResponse,
    Response, Status, TransferBound,
};
use std::sync::Arc;
use std::task::{Context, Waker};
use transport::SystemClock;

const INITIATOR: &str = "iqn.2026-01.test:initiator";
const TARGET: &str = "iqn.2026-01.test:target";

/// Answers at once, or never.
struct Scripted;

impl DeviceServer for Scripted {
    fn transfer_bound(&self, _: Lun, cdb: &Bytes) -> TransferBound {
        let bytes = u64::from(cdb[8]) * 512;
        match cdb[0] % 4 {
            0 => TransferBound { data_out: 0, data_in: bytes },
            _ => TransferBound { data_out: bytes, data_in: 0 },
        }
    }

    fn execute(&mut self, command: Command) -> Execution {
        let wanted = u64::from(command.cdb[8]) * 512;
        let response = |data_in, data_out_wanted| Response {
            data_in,
            data_out_wanted,
            ..Response::with_status(Status::Good)
        };
        match command.cdb[0] % 4 {
            0 => Execution::Done(response(Data::from(vec![0; wanted as usize]), 0)),
            1 => Execution::Done(response(Data::new(), wanted)),
            2 => Execution::Task(Box::pin(std::future::pending())),
            _ => Execution::Task(Box::pin(std::future::ready(Some(response(Data::new(), 0))))),
        }
    }

    fn manage(&mut self, lun: Lun, _: ManagementFunction) -> Management {
        match lun.0[1] {
            0..=3 => ManagementResponse::Complete.into(),
            4 => Management::Later(Box::pin(std::future::pending())),
            5 => Management::Later(Box::pin(std::future::ready(Some(ManagementResponse::Complete)))),
            _ => ManagementResponse::IncorrectLun.into(),
        }
    }
}

fn connection() -> Connection {
    let target_config = TargetConfig::new(TARGET);
    target_config.set_access([(INITIATOR.to_owned(), Access::default())].into());
    let throttle = Arc::new(LoginThrottle::new(Arc::new(SystemClock::default())));
    Connection::new(ConnectionConfig {
        target_config: Arc::new(target_config),
        offers: Offers::default(),
        limits: SessionLimits {
            commands: 8,
            command_bytes: 1 << 20,
            solicited_bytes: 1 << 20,
            busy_bytes: 1 << 20,
        },
        budget: Arc::default(),
        timeouts: Timeouts::default(),
        portal: 1,
        local: ([127, 0, 0, 1], 3260).into(),
        nonce: Nonce { id: 1, challenge: [2; 32] },
        attempts: LoginAttempts::new(throttle, [127, 0, 0, 1].into()),
        log: Arc::default(),
        session_exists: Arc::new(|_| None),
    })
}

/// Delivers bytes and lets everything happen that can.
fn deliver(connection: &mut Connection, mut bytes: &[u8]) {
    while !bytes.is_empty() && connection.wants_input() {
        let mut space = connection.space();
        let count = bytes.len().min(space.remaining_mut());
        space.put_slice(&bytes[..count]);
        bytes = &bytes[count..];
        connection.received();
        if connection.opening().is_some() {
            connection.opened(Ok(OpenedSession { tsih: 1, device: Some(Box::new(Scripted)) }));
        }
        while connection.poll_tasks(&mut Context::from_waker(Waker::noop())).is_ready() {}
        while connection.wants_output() {
            let count = connection.slices().iter().map(|slice| slice.len()).sum();
            connection.sent(count);
        }
        connection.proceed();
    }
}

fn login(choice: u8) -> Vec<u8> {
    let digest = |bit: u8| if choice & bit != 0 { "CRC32C" } else { "None" };
    let text = format!(
        "InitiatorName={INITIATOR}\0TargetName={TARGET}\0HeaderDigest={}\0DataDigest={}\0InitialR2T={}\0",
        digest(2),
        digest(4),
        if choice & 8 != 0 { "No" } else { "Yes" },
    );
    let mut bytes = vec![0; 48];
    (bytes[0], bytes[1]) = (0x43, 0x87);
    bytes[6..8].copy_from_slice(&(text.len() as u16).to_be_bytes());
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// One input.
pub fn run(input: &[u8]) {
    let Some((choice, mut stream)) = input.split_first() else { return };
    let mut connection = connection();
    if choice & 1 != 0 {
        deliver(&mut connection, &login(*choice));
        assert_eq!(connection.ended(), None, "the login is accepted");
    }
    while let [size, ..] = stream {
        let (portion, rest) = stream.split_at(stream.len().min(1 + usize::from(*size) * 8));
        deliver(&mut connection, portion);
        connection.tick();
        stream = rest;
    }
}
