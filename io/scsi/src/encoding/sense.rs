//! Sense data (SPC-5 4.4) in fixed and descriptor format, and the table from block errors to sense.

use crate::Status;
use block::Error;
use bytes::Bytes;
use export::StateError;

/// Sense key, additional sense code and its qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) key: u8,
    pub(crate) asc: u8,
    pub(crate) ascq: u8,
}

const fn code(key: u8, asc: u8, ascq: u8) -> Code {
    Code { key, asc, ascq }
}

impl Code {
    pub(crate) const NO_SENSE: Code = code(0x0, 0x00, 0x00);

    pub(crate) const STATE_TRANSITION: Code = code(0x2, 0x04, 0x0A);

    pub(crate) const UNRECOVERED_READ: Code = code(0x3, 0x11, 0x00);

    pub(crate) const INTERNAL_TARGET_FAILURE: Code = code(0x4, 0x44, 0x00);

    pub(crate) const SHORT_DATA: Code = code(0x5, 0x0E, 0x03);
    pub(crate) const PARAMETER_LIST_LENGTH: Code = code(0x5, 0x1A, 0x00);
    pub(crate) const INVALID_OPCODE: Code = code(0x5, 0x20, 0x00);
    pub(crate) const LBA_OUT_OF_RANGE: Code = code(0x5, 0x21, 0x00);
    pub(crate) const INVALID_FIELD_IN_CDB: Code = code(0x5, 0x24, 0x00);
    pub(crate) const UNSUPPORTED_TOKEN_TYPE: Code = code(0x5, 0x23, 0x01);
    pub(crate) const REMOTE_TOKEN: Code = code(0x5, 0x23, 0x02);
    pub(crate) const TOKEN_UNKNOWN: Code = code(0x5, 0x23, 0x04);
    pub(crate) const TOKEN_REVOKED: Code = code(0x5, 0x23, 0x06);
    pub(crate) const TOKEN_EXPIRED: Code = code(0x5, 0x23, 0x07);
    pub(crate) const TOKEN_CANCELLED: Code = code(0x5, 0x23, 0x08);
    pub(crate) const TOKEN_DELETED: Code = code(0x5, 0x23, 0x09);
    pub(crate) const INVALID_TOKEN_LENGTH: Code = code(0x5, 0x23, 0x0A);
    pub(crate) const UNIT_NOT_SUPPORTED: Code = code(0x5, 0x25, 0x00);
    pub(crate) const INVALID_FIELD_IN_LIST: Code = code(0x5, 0x26, 0x00);
    pub(crate) const INVALID_RELEASE: Code = code(0x5, 0x26, 0x04);
    pub(crate) const TOO_MANY_CSCDS: Code = code(0x5, 0x26, 0x06);
    pub(crate) const UNSUPPORTED_CSCD_TYPE: Code = code(0x5, 0x26, 0x07);
    pub(crate) const TOO_MANY_SEGMENTS: Code = code(0x5, 0x26, 0x08);
    pub(crate) const UNSUPPORTED_SEGMENT_TYPE: Code = code(0x5, 0x26, 0x09);
    pub(crate) const INLINE_DATA_LENGTH: Code = code(0x5, 0x26, 0x0B);
    pub(crate) const OPERATION_IN_PROGRESS: Code = code(0x5, 0x00, 0x16);
    pub(crate) const INVALID_MESSAGE: Code = code(0x5, 0x49, 0x00);
    pub(crate) const NO_REGISTRATION_RESOURCES: Code = code(0x5, 0x55, 0x04);
    pub(crate) const NO_ROD_TOKEN_RESOURCES: Code = code(0x5, 0x55, 0x0D);

    pub(crate) const MEDIUM_MAY_HAVE_CHANGED: Code = code(0x6, 0x28, 0x00);
    pub(crate) const THIN_THRESHOLD: Code = code(0x6, 0x38, 0x07);
    pub(crate) const POWER_ON: Code = code(0x6, 0x29, 0x00);
    pub(crate) const BUS_DEVICE_RESET: Code = code(0x6, 0x29, 0x03);
    pub(crate) const NEXUS_LOSS: Code = code(0x6, 0x29, 0x07);
    pub(crate) const MODE_CHANGED: Code = code(0x6, 0x2A, 0x01);
    pub(crate) const RESERVATIONS_PREEMPTED: Code = code(0x6, 0x2A, 0x03);
    pub(crate) const RESERVATIONS_RELEASED: Code = code(0x6, 0x2A, 0x04);
    pub(crate) const REGISTRATIONS_PREEMPTED: Code = code(0x6, 0x2A, 0x05);
    pub(crate) const ACCESS_STATE_CHANGED: Code = code(0x6, 0x2A, 0x06);
    pub(crate) const CAPACITY_CHANGED: Code = code(0x6, 0x2A, 0x09);
    pub(crate) const COMMANDS_CLEARED: Code = code(0x6, 0x2F, 0x00);
    pub(crate) const LUNS_CHANGED: Code = code(0x6, 0x3F, 0x0E);

    pub(crate) const WRITE_PROTECTED: Code = code(0x7, 0x27, 0x00);
    pub(crate) const SOFTWARE_PROTECTED: Code = code(0x7, 0x27, 0x02);
    pub(crate) const SPACE_ALLOCATION_FAILED: Code = code(0x7, 0x27, 0x07);

    pub(crate) const COPY_ABORTED: Code = code(0xA, 0x00, 0x00);
    pub(crate) const COPY_CSCD_UNREACHABLE: Code = code(0xA, 0x08, 0x04);
    pub(crate) const COPY_DEVICE_FAILED: Code = code(0xA, 0x0D, 0x01);
    pub(crate) const COPY_DEVICE_UNREACHABLE: Code = code(0xA, 0x0D, 0x02);
    pub(crate) const COPY_DEVICE_TYPE: Code = code(0xA, 0x0D, 0x03);

    pub(crate) const CLEARED_BY_SERVER: Code = code(0xB, 0x2F, 0x02);
    pub(crate) const OVERLAPPED: Code = code(0xB, 0x4E, 0x00);

    pub(crate) const MISCOMPARE: Code = code(0xE, 0x1D, 0x00);
}

/// Where a field pointer points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldOrigin {
    Cdb,
    ParameterList,
    /// A segment descriptor of a copy, from its start.
    SegmentDescriptor,
}

/// Where an invalid field begins (SPC-5 4.4.2.4.2 and 4.4.2.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldPointer {
    pub(crate) origin: FieldOrigin,
    /// Byte of the field.
    pub(crate) byte: u16,
    /// Its most significant bit, if it is not a whole byte.
    pub(crate) bit: Option<u8>,
}

/// One sense data record, before it has a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sense {
    pub(crate) code: Code,
    pub(crate) information: Option<u64>,
    pub(crate) field: Option<FieldPointer>,
}

impl From<Code> for Sense {
    fn from(code: Code) -> Self {
        Sense { code, information: None, field: None }
    }
}

impl Sense {
    /// The bytes in fixed or descriptor format (SPC-5 4.4.2, 4.4.3).
    pub(crate) fn encode(&self, descriptor_format: bool) -> Bytes {
        if descriptor_format { self.encode_descriptors() } else { self.encode_fixed() }
    }

    fn encode_fixed(&self) -> Bytes {
        let mut out = [0; 18];
        out[0] = 0x70;
        out[2] = self.code.key;
        out[7] = 10;
        out[12] = self.code.asc;
        out[13] = self.code.ascq;
        // An INFORMATION value above 32 bits can't be reported in this format (SPC-5 4.4.3).
        if let Some(information) = self.information.and_then(|value| u32::try_from(value).ok()) {
            out[0] |= 0x80;
            out[3..7].copy_from_slice(&information.to_be_bytes());
        }
        if let Some(field) = &self.field {
            out[15..18].copy_from_slice(&field.encode());
        }
        Bytes::copy_from_slice(&out)
    }

    fn encode_descriptors(&self) -> Bytes {
        let mut out = vec![0x72, self.code.key, self.code.asc, self.code.ascq, 0, 0, 0, 0];
        if let Some(information) = self.information {
            out.extend_from_slice(&[0x00, 0x0A, 0x80, 0x00]);
            out.extend_from_slice(&information.to_be_bytes());
        }
        if let Some(field) = &self.field {
            out.extend_from_slice(&[0x02, 0x06, 0x00, 0x00]);
            out.extend_from_slice(&field.encode());
            out.push(0);
        }
        out[7] = (out.len() - 8) as u8;
        out.into()
    }
}

impl FieldPointer {
    /// The three sense-key specific bytes.
    fn encode(&self) -> [u8; 3] {
        let origin = match self.origin {
            FieldOrigin::Cdb => 0xC0,
            FieldOrigin::ParameterList => 0x80,
            FieldOrigin::SegmentDescriptor => 0xA0,
        };
        let bit = self.bit.map_or(0, |bit| 0x08 | bit & 0x07);
        let [high, low] = self.byte.to_be_bytes();
        [origin | bit, high, low]
    }
}

/// Why a command did not end with GOOD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// CHECK CONDITION with sense data.
    Check(Sense),
    /// Another status, which has no sense data.
    Status(Status),
}

impl From<Code> for Fault {
    fn from(code: Code) -> Self {
        Fault::Check(code.into())
    }
}

impl From<Sense> for Fault {
    fn from(sense: Sense) -> Self {
        Fault::Check(sense)
    }
}

impl Fault {
    /// INVALID FIELD IN CDB, pointing at a whole byte.
    pub(crate) fn cdb_byte(byte: u16) -> Self {
        let field = Some(FieldPointer { origin: FieldOrigin::Cdb, byte, bit: None });
        Sense { code: Code::INVALID_FIELD_IN_CDB, information: None, field }.into()
    }

    /// INVALID FIELD IN CDB, pointing at a bit.
    pub(crate) fn cdb_bit(byte: u16, bit: u8) -> Self {
        let field = Some(FieldPointer { origin: FieldOrigin::Cdb, byte, bit: Some(bit) });
        Sense { code: Code::INVALID_FIELD_IN_CDB, information: None, field }.into()
    }

    /// INVALID FIELD IN PARAMETER LIST, pointing at a whole byte.
    pub(crate) fn list_byte(byte: usize) -> Self {
        Self::in_list(Code::INVALID_FIELD_IN_LIST, byte)
    }

    /// A fault of the parameter list with its own code, pointing at a whole byte.
    pub(crate) fn in_list(code: Code, byte: usize) -> Self {
        let byte = u16::try_from(byte).unwrap_or(u16::MAX);
        let field = Some(FieldPointer { origin: FieldOrigin::ParameterList, byte, bit: None });
        Sense { code, information: None, field }.into()
    }

    /// A copy that ended at the field at `byte` of the segment descriptor with the number `segment`.
    pub(crate) fn in_segment(code: Code, segment: usize, byte: u16) -> Self {
        let field = Some(FieldPointer { origin: FieldOrigin::SegmentDescriptor, byte, bit: None });
        Sense { code, information: Some(segment as u64), field }.into()
    }

    pub(crate) const CONFLICT: Fault = Fault::Status(Status::ReservationConflict);
}

impl From<StateError> for Fault {
    fn from(_: StateError) -> Self {
        Code::INTERNAL_TARGET_FAILURE.into()
    }
}

/// The sense code of a block error.
impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let (code, information) = match error {
            Error::OutOfRange { .. } => (Code::LBA_OUT_OF_RANGE, None),
            Error::Malformed(_) => (Code::INVALID_FIELD_IN_CDB, None),
            Error::Miscompare { offset } => (Code::MISCOMPARE, Some(offset)),
            Error::NoSpace => (Code::SPACE_ALLOCATION_FAILED, None),
            Error::Medium { lba } => (Code::UNRECOVERED_READ, Some(lba)),
            Error::NotReady => (Code::STATE_TRANSITION, None),
            Error::ReadOnly | Error::RetentionLocked { .. } | Error::Unreplicated => {
                (Code::WRITE_PROTECTED, None)
            }
            Error::Unreachable(_) => (Code::COPY_DEVICE_UNREACHABLE, None),
            Error::Stopped(_) => (Code::INTERNAL_TARGET_FAILURE, None),
            Error::Deleted => (Code::UNIT_NOT_SUPPORTED, None),
        };
        Sense { code, information, field: None }.into()
    }
}

#[cfg(test)]
#[path = "sense_test.rs"]
mod tests;
