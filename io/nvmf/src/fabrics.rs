//! Fabrics commands (NVM Express Base 2.0 clause 6): Connect with its data, properties, Disconnect, and the form of the
//! authentication commands.

use crate::controller::Controller;
use crate::spec::property;
use crate::sqe::{DataLocation, FABRICS, Fuse, Outcome, Sqe};
use crate::status::Status;
use std::ops::Range;

/// Fabrics command types (Base figure 316).
const PROPERTY_SET: u8 = 0x00;
pub(crate) const CONNECT: u8 = 0x01;
const PROPERTY_GET: u8 = 0x04;
pub(crate) const AUTHENTICATION_SEND: u8 = 0x05;
const AUTHENTICATION_RECEIVE: u8 = 0x06;
const DISCONNECT: u8 = 0x08;

/// Bytes of Connect's data (Base figure 329).
pub(crate) const CONNECT_DATA_BYTES: usize = 1024;

/// CATTR (Base figure 328): the priority class of an I/O queue, no flow control of the submission queue, and whether the
/// host deletes single queues. Bits 7:4 are reserved.
const PRIORITY_CLASS: u8 = 0x03;
const NO_FLOW_CONTROL: u8 = 1 << 2;
const DELETES_QUEUES: u8 = 1 << 3;
/// Offsets in the command, as a refusal names them: flags, QID, SQSIZE and CATTR.
const FLAGS_OFFSET: u16 = 1;
pub(crate) const QID_OFFSET: u16 = 42;
pub(crate) const SIZE_OFFSET: u16 = 44;
const ATTRIBUTES_OFFSET: u16 = 46;

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
        let data = &data[connect_data(sqe, data.len())?];
        let qid = (sqe.dword(10) >> 16) as u16;
        let attributes = (sqe.dword(11) >> 16) as u8;
        let defined = NO_FLOW_CONTROL | DELETES_QUEUES | if qid > 0 { PRIORITY_CLASS } else { 0 };
        if attributes & !defined != 0 {
            return Err(Refusal::command(ATTRIBUTES_OFFSET));
        }
        // A queue has at least two entries.
        let entries = (sqe.dword(11) as u16).checked_add(1).filter(|entries| *entries >= 2);
        let mut host_id = [0; 16];
        host_id.copy_from_slice(&data[..16]);
        if host_id == [0; 16] && qid == 0 {
            return Err(Refusal::data(0));
        }
        Ok(Connect {
            qid,
            entries: entries.ok_or(Refusal::command(SIZE_OFFSET))?,
            flow_control: attributes & NO_FLOW_CONTROL == 0,
            keep_alive_ms: sqe.dword(12),
            host_id,
            controller: u16::from_le_bytes([data[16], data[17]]),
            subsystem: name(data, 256)?,
            host: name(data, 512)?,
        })
    }
}

/// The place of Connect's data, which are in the capsule (TCP Transport 1.0 clause 3.2), among its `capsule_bytes`. A
/// refused Connect never has the status Invalid Field in Command (Base 6.3).
fn connect_data(sqe: &Sqe, capsule_bytes: usize) -> Result<Range<usize>, Refusal> {
    let location = match sqe.data_location() {
        Ok(location) if sqe.fuse() == Fuse::Normal => location,
        Ok(_) | Err(Status::INVALID_FIELD) => return Err(Refusal::command(FLAGS_OFFSET)),
        Err(status) => return Err(status.into()),
    };
    let DataLocation::Capsule(offset) = location else { return Err(Status::SGL_TYPE_INVALID.into()) };
    let range = sqe.range_in_capsule(offset, capsule_bytes)?;
    match range.len() {
        CONNECT_DATA_BYTES => Ok(range),
        _ => Err(Status::DATA_SGL_LENGTH_INVALID.into()),
    }
}

/// An NQN in a field of 256 bytes: it ends with a NUL, and nothing follows.
fn name(data: &[u8], at: usize) -> Result<String, Refusal> {
    let field = &data[at..at + 256];
    let length = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let (text, rest) = field.split_at(length);
    let text = std::str::from_utf8(text).ok().and_then(crate::spec::nqn);
    text.filter(|_| rest.iter().all(|byte| *byte == 0)).ok_or(Refusal::data(at as u16))
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
        PROPERTY_GET => match (controller.property(sqe.dword(11)), sqe.dword(10) & 7) {
            (Some((value, 4)), 0) | (Some((value, 8)), 1) => Ok(Outcome::result(value)),
            _ => Err(Status::INVALID_FIELD),
        },
        PROPERTY_SET => match (sqe.dword(11), sqe.dword(10) & 7) {
            (property::CC, 0) => {
                controller.configure(sqe.dword(12));
                Ok(Outcome::success())
            }
            _ => Err(Status::INVALID_FIELD),
        },
        CONNECT => Err(Status::COMMAND_SEQUENCE_ERROR),
        DISCONNECT => Err(Status::INVALID_QUEUE_TYPE),
        _ => Err(Status::INVALID_OPCODE),
    }
}

/// Checks that a fabrics command on a connected I/O queue is a Disconnect: properties belong to the admin queue (Base
/// figure 316), and a queue is connected once.
pub(crate) fn check_disconnect(sqe: &Sqe) -> Result<(), Status> {
    match sqe.fabrics_type() {
        DISCONNECT if sqe.dword(10) & 0xFFFF != 0 => Err(Status::CONNECT_INCOMPATIBLE_FORMAT),
        DISCONNECT => Ok(()),
        CONNECT => Err(Status::COMMAND_SEQUENCE_ERROR),
        PROPERTY_SET | PROPERTY_GET => Err(Status::INVALID_FIELD),
        _ => Err(Status::INVALID_OPCODE),
    }
}
