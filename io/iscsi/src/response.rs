//! Response encoder: Data-In sequences, the SCSI Response PDU and residual counts of a command (RFC 7143 11.4, 11.7).

use crate::keys::Parameters;
use crate::pdu::{FINAL, Header, NO_TAG, opcode};
use crate::wire::{StatSn, Window, Wire};
use bytes::{BufMut, Bytes, BytesMut};
use scsi::{Data, Response, Status};

/// Flags of SCSI Response and Data-In (11.4.1, 11.7.1).
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;
/// Data-In carries the status.
const STATUS: u8 = 0x01;

/// Transfer parameters of an outstanding command.
#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    pub(crate) itt: u32,
    /// The command was sent with immediate delivery, outside the command window.
    pub(crate) immediate: bool,
    /// The command expects Data-In.
    pub(crate) read: bool,
    /// The command has Data-Out.
    pub(crate) write: bool,
    /// Expected data transfer length in bytes (11.3.4).
    pub(crate) transfer_length: u32,
    /// R2Ts sent for the command.
    pub(crate) r2ts: u32,
}

/// Residual flags and count: the expected length compared with the actual one (11.4.5).
fn residual(expected: &Expectation, response: &Response) -> (u8, u32) {
    let (data_in, data_out) = (response.data_in.len() as u64, response.data_out_wanted);
    let length = u64::from(expected.transfer_length);
    let (actual, expected) = match (expected.read, expected.write) {
        (_, true) => (data_out, length),
        (true, false) => (data_in, length),
        // Any data of the command is an overflow.
        (false, false) => (data_in.max(data_out), 0),
    };
    let count = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    match actual.cmp(&expected) {
        std::cmp::Ordering::Equal => (0, 0),
        std::cmp::Ordering::Less => (UNDERFLOW, count(expected - actual)),
        std::cmp::Ordering::Greater => (OVERFLOW, count(actual - expected)),
    }
}

/// Queues the data and status of a command.
pub(crate) fn send_response(
    wire: &mut Wire,
    window: &Window,
    parameters: &Parameters,
    expected: &Expectation,
    response: Response,
) {
    let (flags, count) = residual(expected, &response);
    let Response { status, sense, mut data_in, .. } = response;
    data_in.truncate(if expected.read { expected.transfer_length as usize } else { 0 });
    // Any status but GOOD needs a SCSI Response PDU (11.7.3).
    let with_status = status == Status::Good && !data_in.is_empty();
    let data_pdus =
        send_data(wire, window, parameters, expected.itt, &data_in, with_status.then_some((flags, count)));
    if with_status {
        return;
    }
    let header = Header::new(opcode::SCSI_RESPONSE, FINAL | flags)
        .put(3, [status as u8])
        .with_itt(expected.itt)
        .put_u32(36, data_pdus + expected.r2ts)
        .put_u32(44, count);
    wire.send(window, header, &sense_segment(&sense), StatSn::Next);
}

/// Queues Data-In PDUs within both length limits; returns their number. The last one carries residual and GOOD.
fn send_data(
    wire: &mut Wire,
    window: &Window,
    parameters: &Parameters,
    itt: u32,
    data: &Data,
    status: Option<(u8, u32)>,
) -> u32 {
    let (burst, segment) = (parameters.max_burst as usize, parameters.max_send_data as usize);
    let (mut offset, mut data_sn) = (0, 0);
    while offset < data.len() {
        let left_in_burst = burst - offset % burst;
        let end = data.len().min(offset + segment.min(left_in_burst));
        let last = end == data.len();
        let ends_sequence = last || end % burst == 0;
        let header = Header::new(opcode::DATA_IN, if ends_sequence { FINAL } else { 0 })
            .with_itt(itt)
            .with_ttt(NO_TAG)
            .put_u32(36, data_sn)
            .put_u32(40, offset as u32);
        match status.filter(|_| last) {
            Some((flags, count)) => {
                let header = header.put(1, [FINAL | STATUS | flags]).put_u32(44, count);
                let part = if offset == 0 { data.clone() } else { data.slice(offset, end) };
                wire.send(window, header, &part, StatSn::Next);
            }
            None => wire.send(window, header, &data.slice(offset, end), StatSn::None),
        }
        offset = end;
        data_sn += 1;
    }
    data_sn
}

/// Sense data, preceded by its length (11.4.7.2).
fn sense_segment(sense: &[u8]) -> Data {
    if sense.is_empty() {
        return Data::new();
    }
    let mut segment = BytesMut::with_capacity(2 + sense.len());
    segment.put_u16(sense.len() as u16);
    segment.put_slice(sense);
    segment.freeze().into()
}

/// Conditions that this layer detects, with their sense (11.4.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Unsolicited data that was not negotiated.
    UnexpectedUnsolicitedData,
    /// An amount of data that was not requested or allowed.
    IncorrectAmountOfData,
    /// A wrong data digest.
    ProtocolServiceCrcError,
    /// A bidirectional command.
    Bidirectional,
}

/// Response to a command without room (SAM-5 5.3.1): the initiator retries it.
pub(crate) fn task_set_full() -> Response {
    Response::with_status(Status::TaskSetFull)
}

impl Condition {
    /// The response that ends a command with this condition.
    pub(crate) fn response(self) -> Response {
        let (key, asc, ascq) = match self {
            Condition::UnexpectedUnsolicitedData => (0x0b, 0x0c, 0x0c),
            Condition::IncorrectAmountOfData => (0x0b, 0x0c, 0x0d),
            Condition::ProtocolServiceCrcError => (0x0b, 0x47, 0x05),
            Condition::Bidirectional => (0x05, 0x24, 0x00),
        };
        // Fixed format, current error (SPC-5 4.4.3).
        let sense = [0x70, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, asc, ascq, 0, 0, 0, 0];
        let sense = Bytes::copy_from_slice(&sense);
        Response { sense, ..Response::with_status(Status::CheckCondition) }
    }
}

#[cfg(test)]
#[path = "response_test.rs"]
mod tests;
