//! Fabrics commands (NVM Express Base 2.0 clause 6): Connect with its data, properties, Disconnect, and the form of the
//! authentication commands.

use crate::controller::Controller;
use crate::spec::property;
use crate::sqe::{FABRICS, Outcome, Sqe};
use crate::status::Status;

/// Fabrics command types (Base figure 316).
const PROPERTY_SET: u8 = 0x00;
pub(crate) const CONNECT: u8 = 0x01;
const PROPERTY_GET: u8 = 0x04;
pub(crate) const AUTHENTICATION_SEND: u8 = 0x05;
const AUTHENTICATION_RECEIVE: u8 = 0x06;
pub(crate) const DISCONNECT: u8 = 0x08;

/// Bytes of Connect's data (Base figure 329).
pub(crate) const CONNECT_DATA_BYTES: usize = 1024;

/// CATTR: the host does not use flow control of the submission queue.
const NO_FLOW_CONTROL: u8 = 1 << 2;

/// A refused Connect: the status, and the offset of the wrong parameter in the data or in the command (Base figure
/// 331).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    offset: u16,
    in_data: bool,
}

impl Refusal {
    pub(crate) const fn data(offset: u16) -> Self {
        Refusal { status: Status::CONNECT_INVALID_PARAMETERS, offset, in_data: true }
    }

    pub(crate) const fn command(offset: u16) -> Self {
        Refusal { status: Status::CONNECT_INVALID_PARAMETERS, offset, in_data: false }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Refusal { status, offset: 0, in_data: false }
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        let Refusal { status, offset, in_data } = refusal;
        Outcome { result: u64::from(offset) | u64::from(in_data) << 16, ..status.into() }
    }
}

/// A Connect command (Base 6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connect {
    pub(crate) qid: u16,
    /// Entries of the queue.
    pub(crate) entries: u16,
    pub(crate) flow_control: bool,
    pub(crate) keep_alive_ms: u32,
    pub(crate) host_id: [u8; 16],
    pub(crate) controller: u16,
    pub(crate) subsystem: String,
    pub(crate) host: String,
}

impl Connect {
    /// Decodes a Connect and checks its form.
    pub(crate) fn parse(sqe: &Sqe, data: &[u8]) -> Result<Connect, Refusal> {
        if sqe.dword(10) & 0xFFFF != 0 {
            return Err(Status::CONNECT_INCOMPATIBLE_FORMAT.into());
        }
        let Some(data) = data.get(..CONNECT_DATA_BYTES) else {
            return Err(Status::DATA_SGL_LENGTH_INVALID.into());
        };
        // A queue has at least two entries.
        let entries = (sqe.dword(11) as u16).checked_add(1).filter(|entries| *entries >= 2);
        let mut host_id = [0; 16];
        host_id.copy_from_slice(&data[..16]);
        if host_id == [0; 16] {
            return Err(Refusal::data(0));
        }
        Ok(Connect {
            qid: (sqe.dword(10) >> 16) as u16,
            entries: entries.ok_or(Refusal::command(44))?,
            flow_control: (sqe.dword(11) >> 16) as u8 & NO_FLOW_CONTROL == 0,
            keep_alive_ms: sqe.dword(12),
            host_id,
            controller: u16::from_le_bytes([data[16], data[17]]),
            subsystem: name(data, 256)?,
            host: name(data, 512)?,
        })
    }
}

/// An NQN in a field of 256 bytes.
fn name(data: &[u8], at: usize) -> Result<String, Refusal> {
    let field = &data[at..at + 256];
    let length = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let text = std::str::from_utf8(&field[..length]).ok().and_then(crate::spec::nqn);
    text.ok_or(Refusal::data(at as u16))
}

/// SECP of authentication commands: NVMe; with SPSP 1, in-band authentication (Base 6.1).
const NVME_SECURITY: u8 = 0xE9;
const IN_BAND_AUTHENTICATION: u16 = 0x0101;
/// Longest message of a host in bytes; messages of DH-HMAC-CHAP have less than half of that.
const MAX_MESSAGE_BYTES: u32 = 4096;

/// AUTHREQ in the response to Connect: the host has to authenticate on the queue (Base 6.3).
pub(crate) const AUTHENTICATION_REQUIRED: u32 = 1 << 17;

/// Whether a command is Authentication Send or Receive.
pub(crate) fn is_authentication(sqe: &Sqe) -> bool {
    sqe.opcode() == FABRICS && matches!(sqe.fabrics_type(), AUTHENTICATION_SEND | AUTHENTICATION_RECEIVE)
}

/// Checks the form of an authentication command.
pub(crate) fn check_authentication(sqe: &Sqe) -> Result<(), Status> {
    let protocol = sqe.dword(10);
    let is_known =
        (protocol >> 24) as u8 == NVME_SECURITY && (protocol >> 8) as u16 == IN_BAND_AUTHENTICATION;
    let length = sqe.dword(11);
    let fits = length == sqe.data_bytes() && (1..=MAX_MESSAGE_BYTES).contains(&length);
    if is_known && fits { Ok(()) } else { Err(Status::INVALID_FIELD) }
}

/// Executes a fabrics command on a connected queue.
pub(crate) fn execute(controller: &Controller, sqe: &Sqe) -> Result<Outcome, Status> {
    match sqe.fabrics_type() {
        PROPERTY_GET => {
            let wanted = if sqe.dword(10) & 7 == 1 { 8 } else { 4 };
            match controller.property(sqe.dword(11)) {
                Some((value, bytes)) if bytes == wanted => Ok(Outcome::result(value)),
                _ => Err(Status::INVALID_FIELD),
            }
        }
        PROPERTY_SET => match (sqe.dword(11), sqe.dword(10) & 7) {
            (property::CC, 0) => {
                controller.configure(sqe.dword(12));
                Ok(Outcome::success())
            }
            _ => Err(Status::INVALID_FIELD),
        },
        CONNECT => Err(Status::COMMAND_SEQUENCE_ERROR),
        _ => Err(Status::INVALID_OPCODE),
    }
}
