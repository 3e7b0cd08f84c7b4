//! Conversion between SCSI types and messages of the link: codes of attributes, directions, functions and statuses.

use crate::{MAX_DATA_BYTES, Result, malformed};
use peer::message::{self, Message};
use scsi::{Direction, ManagementFunction, ManagementResponse, Response, Status, TaskAttribute};

const ATTRIBUTES: [(u8, TaskAttribute); 4] = [
    (1, TaskAttribute::Simple),
    (2, TaskAttribute::Ordered),
    (3, TaskAttribute::HeadOfQueue),
    (4, TaskAttribute::Aca),
];

const DIRECTIONS: [(u8, Direction); 3] = [(0, Direction::None), (1, Direction::In), (2, Direction::Out)];

const STATUSES: [Status; 7] = [
    Status::Good,
    Status::CheckCondition,
    Status::ConditionMet,
    Status::Busy,
    Status::ReservationConflict,
    Status::TaskSetFull,
    Status::TaskAborted,
];

const RESPONSES: [(u8, ManagementResponse); 3] = [
    (0, ManagementResponse::Complete),
    (2, ManagementResponse::IncorrectLun),
    (255, ManagementResponse::Rejected),
];

/// Functions without a tag, as in iSCSI (RFC 7143 11.5.1).
const FUNCTIONS: [(u8, ManagementFunction); 4] = [
    (2, ManagementFunction::AbortTaskSet),
    (4, ManagementFunction::ClearTaskSet),
    (5, ManagementFunction::LogicalUnitReset),
    (6, ManagementFunction::TargetReset),
];

const ABORT_TASK: u8 = 1;

fn code<T: PartialEq>(table: &[(u8, T)], value: &T) -> u8 {
    table.iter().find(|row| row.1 == *value).expect("a row for every value").0
}

fn value<T: Copy>(table: &[(u8, T)], code: u8, what: &'static str) -> Result<T> {
    table.iter().find(|row| row.0 == code).map_or_else(|| malformed(what), |row| Ok(row.1))
}

pub fn attribute_code(attribute: TaskAttribute) -> u8 {
    code(&ATTRIBUTES, &attribute)
}

pub fn attribute(code: u8) -> Result<TaskAttribute> {
    value(&ATTRIBUTES, code, "an unknown task attribute")
}

pub fn direction_code(direction: Direction) -> u8 {
    code(&DIRECTIONS, &direction)
}

pub fn direction(code: u8) -> Result<Direction> {
    value(&DIRECTIONS, code, "an unknown data direction")
}

/// Code and tag.
pub fn function_code(function: ManagementFunction) -> (u8, u64) {
    match function {
        ManagementFunction::AbortTask { tag } => (ABORT_TASK, tag),
        other => (code(&FUNCTIONS, &other), 0),
    }
}

pub fn function(code: u8, tag: u64) -> Result<ManagementFunction> {
    match code {
        ABORT_TASK => Ok(ManagementFunction::AbortTask { tag }),
        code => value(&FUNCTIONS, code, "an unknown task management function"),
    }
}

pub fn management_code(response: ManagementResponse) -> u8 {
    code(&RESPONSES, &response)
}

pub fn management(code: u8) -> Result<ManagementResponse> {
    value(&RESPONSES, code, "an unknown response to task management")
}

/// The answer message of a command.
pub fn answer(response: Response) -> Message {
    match response {
        Response { status: Status::Good, located: Some(recipe), .. } => Message::Located(recipe),
        response => Message::Response(response_message(response)),
    }
}

fn response_message(mut response: Response) -> message::Response {
    // Commands with more data are refused by their transfer length.
    response.data_in.truncate(MAX_DATA_BYTES);
    message::Response {
        status: response.status as u8,
        data_out_wanted: response.data_out_wanted,
        sense: response.sense,
        data_in: response.data_in.to_bytes(),
    }
}

pub fn response(message: message::Response) -> Result<Response> {
    let message::Response { status, data_out_wanted, sense, data_in } = message;
    let Some(status) = STATUSES.into_iter().find(|known| *known as u8 == status) else {
        return malformed("an unknown SCSI status");
    };
    Ok(Response { sense, data_in: data_in.into(), data_out_wanted, ..Response::with_status(status) })
}

/// BUSY: the command did not take effect, and the host repeats it.
pub fn busy() -> Response {
    Response::with_status(Status::Busy)
}
