//! Status codes of completions (NVM Express Base 2.0 clause 4.2.3 and figures 94 to 99; NVM Command Set 1.0 figure 15).

/// The status field of a completion: status code, status code type, command retry delay, do not retry (Base figure 93).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(u16);

/// Do Not Retry.
const DNR: u16 = 1 << 14;
/// Command Retry Delay 1: the host retries after CRDT1 (Base figure 93, bits 12:11 of the field without the phase tag).
const CRD1: u16 = 1 << 11;

/// Codes with their names in the standard.
pub(crate) const NAMES: &[(Status, &str)] = &[
    (Status::SUCCESS, "Successful Completion"),
    (Status::INVALID_OPCODE, "Invalid Command Opcode"),
    (Status::INVALID_FIELD, "Invalid Field in Command"),
    (Status::COMMAND_ID_CONFLICT, "Command ID Conflict"),
    (Status::INTERNAL_ERROR, "Internal Error"),
    (Status::ABORT_REQUESTED, "Command Abort Requested"),
    (Status::FAILED_FUSED, "Command Aborted due to Failed Fused Command"),
    (Status::MISSING_FUSED, "Command Aborted due to Missing Fused Command"),
    (Status::INVALID_NAMESPACE, "Invalid Namespace or Format"),
    (Status::COMMAND_SEQUENCE_ERROR, "Command Sequence Error"),
    (Status::DATA_SGL_LENGTH_INVALID, "Data SGL Length Invalid"),
    (Status::SGL_TYPE_INVALID, "SGL Descriptor Type Invalid"),
    (Status::SGL_OFFSET_INVALID, "SGL Offset Invalid"),
    (Status::HOST_IDENTIFIER_INCONSISTENT, "Host Identifier Inconsistent Format"),
    (Status::NAMESPACE_WRITE_PROTECTED, "Namespace is Write Protected"),
    (Status::COMMAND_INTERRUPTED, "Command Interrupted"),
    (Status::TRANSIENT_TRANSPORT_ERROR, "Transient Transport Error"),
    (Status::LBA_OUT_OF_RANGE, "LBA Out of Range"),
    (Status::CAPACITY_EXCEEDED, "Capacity Exceeded"),
    (Status::NAMESPACE_NOT_READY, "Namespace Not Ready"),
    (Status::RESERVATION_CONFLICT, "Reservation Conflict"),
    (Status::INVALID_QUEUE_IDENTIFIER, "Invalid Queue Identifier"),
    (Status::ABORT_LIMIT, "Abort Command Limit Exceeded"),
    (Status::EVENT_REQUEST_LIMIT, "Asynchronous Event Request Limit Exceeded"),
    (Status::INVALID_LOG_PAGE, "Invalid Log Page"),
    (Status::FEATURE_NOT_SAVEABLE, "Feature Identifier Not Saveable"),
    (Status::FEATURE_NOT_CHANGEABLE, "Feature Not Changeable"),
    (Status::CONNECT_INCOMPATIBLE_FORMAT, "Connect Incompatible Format"),
    (Status::CONNECT_CONTROLLER_BUSY, "Connect Controller Busy"),
    (Status::CONNECT_INVALID_PARAMETERS, "Connect Invalid Parameters"),
    (Status::CONNECT_INVALID_HOST, "Connect Invalid Host"),
    (Status::INVALID_QUEUE_TYPE, "Invalid Queue Type"),
    (Status::COMMAND_SIZE_LIMIT, "Command Size Limit Exceeded"),
    (Status::AUTHENTICATION_REQUIRED, "Authentication Required"),
    (Status::UNRECOVERED_READ_ERROR, "Unrecovered Read Error"),
    (Status::COMPARE_FAILURE, "Compare Failure"),
];

impl Status {
    pub(crate) const SUCCESS: Status = Status::new(0, 0x00);
    pub(crate) const INVALID_OPCODE: Status = Status::new(0, 0x01).final_();
    pub(crate) const INVALID_FIELD: Status = Status::new(0, 0x02).final_();
    pub(crate) const COMMAND_ID_CONFLICT: Status = Status::new(0, 0x03).final_();
    pub(crate) const INTERNAL_ERROR: Status = Status::new(0, 0x06);
    pub(crate) const ABORT_REQUESTED: Status = Status::new(0, 0x07);
    pub(crate) const FAILED_FUSED: Status = Status::new(0, 0x09);
    pub(crate) const MISSING_FUSED: Status = Status::new(0, 0x0A);
    pub(crate) const INVALID_NAMESPACE: Status = Status::new(0, 0x0B).final_();
    pub(crate) const COMMAND_SEQUENCE_ERROR: Status = Status::new(0, 0x0C).final_();
    pub(crate) const DATA_SGL_LENGTH_INVALID: Status = Status::new(0, 0x0F).final_();
    pub(crate) const SGL_TYPE_INVALID: Status = Status::new(0, 0x11).final_();
    pub(crate) const SGL_OFFSET_INVALID: Status = Status::new(0, 0x16).final_();
    pub(crate) const HOST_IDENTIFIER_INCONSISTENT: Status = Status::new(0, 0x18).final_();
    pub(crate) const NAMESPACE_WRITE_PROTECTED: Status = Status::new(0, 0x20).final_();
    /// The host retries the command after a short time: memory is short now.
    pub(crate) const COMMAND_INTERRUPTED: Status = Status::new(0, 0x21).delayed();
    pub(crate) const TRANSIENT_TRANSPORT_ERROR: Status = Status::new(0, 0x22);
    pub(crate) const LBA_OUT_OF_RANGE: Status = Status::new(0, 0x80).final_();
    pub(crate) const CAPACITY_EXCEEDED: Status = Status::new(0, 0x81).final_();
    pub(crate) const NAMESPACE_NOT_READY: Status = Status::new(0, 0x82).delayed();
    pub(crate) const RESERVATION_CONFLICT: Status = Status::new(0, 0x83).final_();
    pub(crate) const INVALID_QUEUE_IDENTIFIER: Status = Status::new(1, 0x01).final_();
    pub(crate) const ABORT_LIMIT: Status = Status::new(1, 0x03);
    pub(crate) const EVENT_REQUEST_LIMIT: Status = Status::new(1, 0x05).final_();
    pub(crate) const INVALID_LOG_PAGE: Status = Status::new(1, 0x09).final_();
    pub(crate) const FEATURE_NOT_SAVEABLE: Status = Status::new(1, 0x0D).final_();
    pub(crate) const FEATURE_NOT_CHANGEABLE: Status = Status::new(1, 0x0E).final_();
    pub(crate) const CONNECT_INCOMPATIBLE_FORMAT: Status = Status::new(1, 0x80).final_();
    pub(crate) const CONNECT_CONTROLLER_BUSY: Status = Status::new(1, 0x81);
    pub(crate) const CONNECT_INVALID_PARAMETERS: Status = Status::new(1, 0x82).final_();
    pub(crate) const CONNECT_INVALID_HOST: Status = Status::new(1, 0x84).final_();
    pub(crate) const INVALID_QUEUE_TYPE: Status = Status::new(1, 0x85).final_();
    pub(crate) const AUTHENTICATION_REQUIRED: Status = Status::new(1, 0x91).final_();
    /// Status of Copy and Dataset Management (NVM Command Set figure 15).
    pub(crate) const COMMAND_SIZE_LIMIT: Status = Status::new(1, 0x83).final_();
    pub(crate) const UNRECOVERED_READ_ERROR: Status = Status::new(2, 0x81).final_();
    pub(crate) const COMPARE_FAILURE: Status = Status::new(2, 0x85).final_();

    const fn new(kind: u8, code: u8) -> Status {
        Status((kind as u16) << 8 | code as u16)
    }

    /// Marks that a retry would fail, too.
    const fn final_(self) -> Status {
        Status(self.0 | DNR)
    }

    /// Marks that a retry may succeed after a delay.
    const fn delayed(self) -> Status {
        Status(self.0 | CRD1)
    }

    pub(crate) fn is_success(self) -> bool {
        self == Status::SUCCESS
    }

    /// The status field with a phase tag of zero, which TCP does not use.
    pub(crate) fn field(self) -> u16 {
        self.0 << 1
    }
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = NAMES.iter().find(|(status, _)| status == self).map_or("", |(_, name)| name);
        write!(f, "{name} ({:x}h/{:02x}h)", self.0 >> 8 & 7, self.0 & 0xFF)
    }
}

/// Status for errors of a disk. `NoSpace` is final, since a retry fails until an operator or an unmap frees space.
impl From<block::Error> for Status {
    fn from(error: block::Error) -> Status {
        use block::Error;
        match error {
            Error::OutOfRange { .. } => Status::LBA_OUT_OF_RANGE,
            Error::Miscompare { .. } => Status::COMPARE_FAILURE,
            Error::NoSpace => Status::CAPACITY_EXCEEDED,
            Error::Medium { .. } => Status::UNRECOVERED_READ_ERROR,
            Error::NotReady => Status::NAMESPACE_NOT_READY,
            Error::ReadOnly | Error::RetentionLocked { .. } | Error::Unreplicated => {
                Status::NAMESPACE_WRITE_PROTECTED
            }
            Error::Deleted => Status::INVALID_NAMESPACE,
            Error::Malformed(_) | Error::Unreachable(_) | Error::Stopped(_) => {
                tracing::warn!(%error, "a command fails with Internal Error");
                Status::INTERNAL_ERROR
            }
        }
    }
}
