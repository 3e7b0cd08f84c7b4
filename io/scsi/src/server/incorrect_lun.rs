//! Commands to a logical unit number without a unit (SPC-5 5.2, SAM-5 4.7.4): only INQUIRY, REPORT LUNS and REQUEST
//! SENSE succeed, so that an initiator can discover the units.

use crate::encoding::cdb::Cdb;
use crate::encoding::identity::TargetIdentity;
use crate::encoding::sense::{Code, Sense};
use crate::{Command, Response, Status, commands::inquiry, commands::report};
use block::Data;

/// The response to a command to an address without a logical unit; `luns` are the numbers that the nexus sees.
pub(crate) fn respond(command: &Command, identity: &TargetIdentity, luns: &[u16]) -> Response {
    let cdb = Cdb::new(command.cdb.clone());
    let not_supported = Sense::from(Code::UNIT_NOT_SUPPORTED);
    match cdb.u8(0) {
        0x12 if cdb.bit(1, 0x03) => check(Code::INVALID_FIELD_IN_CDB.into()),
        0x12 => good(inquiry::standard(identity, inquiry::NO_DEVICE).into(), cdb.u16(3).into()),
        0xA0 => match report::lun_list(cdb.u8(2), luns) {
            Some(list) => good(list.into(), cdb.u32(6)),
            None => check(Code::INVALID_FIELD_IN_CDB.into()),
        },
        0x03 => good(not_supported.encode(cdb.bit(1, 0x01)).into(), cdb.u8(4).into()),
        _ => check(not_supported),
    }
}

fn good(mut data_in: Data, allocation: u32) -> Response {
    data_in.truncate(allocation as usize);
    Response { data_in, ..Response::with_status(Status::Good) }
}

fn check(sense: Sense) -> Response {
    let sense = sense.encode(false);
    Response { sense, ..Response::with_status(Status::CheckCondition) }
}
