//! LOG SENSE (SPC-5 6.9, 7.3): log parameters are made from counters on request.

use crate::commands::provisioning;
use crate::encoding::sense::{Code, Fault};
use crate::unit::Unit;
use crate::unit::command::{Flow, Request};
use crate::unit::path::Path;
use export::{IoCounters, Operation, OperationCounts};

type Page = fn(&Path) -> Vec<Parameter>;

/// Page and subpage codes in ascending order.
const PAGES: [(u8, u8, Page); 4] = [
    (0x00, 0x00, |_| Vec::new()),
    (0x0C, 0x00, provisioning),
    (0x19, 0x00, general_statistics),
    (0x2F, 0x00, informational_exceptions),
];

/// A log parameter: its code, format byte and value.
struct Parameter {
    code: u16,
    format: u8,
    value: Vec<u8>,
}

/// LOG SENSE
pub(crate) fn sense(request: Request<'_>) -> Result<Flow, Fault> {
    let cdb = request.cdb;
    if cdb.bit(1, 0x01) {
        return Err(Fault::cdb_bit(1, 0)); // SP: nothing is saved
    }
    let (control, code, subpage) = (cdb.u8(2) >> 6, cdb.u8(2) & 0x3F, cdb.u8(3));
    // Cumulative values only, current or default.
    if control & 1 == 0 && code != 0 {
        return Err(Fault::cdb_bit(2, 7));
    }
    let first = cdb.u16(5);
    let body = match (code, subpage) {
        (0x00, 0x00) => PAGES.iter().map(|(code, _, _)| *code).collect(),
        (0x00, 0xFF) => PAGES.iter().flat_map(|(code, subpage, _)| [*code, *subpage]).collect(),
        _ => {
            let (_, _, make) = PAGES
                .iter()
                .find(|(known, sub, _)| (*known, *sub) == (code, subpage))
                .ok_or(Fault::cdb_byte(if subpage == 0 { 2 } else { 3 }))?;
            encode(make(request.path), first)?
        }
    };
    let spf = if subpage == 0 { 0 } else { 0x40 };
    let mut out = vec![spf | code, subpage];
    out.extend_from_slice(&(body.len() as u16).to_be_bytes());
    out.extend_from_slice(&body);
    Ok(Flow::data(out))
}

/// The parameters from a code on; at least one must exist.
fn encode(parameters: Vec<Parameter>, first: u16) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    for parameter in parameters.iter().filter(|parameter| parameter.code >= first) {
        out.extend_from_slice(&parameter.code.to_be_bytes());
        out.extend_from_slice(&[parameter.format, parameter.value.len() as u8]);
        out.extend_from_slice(&parameter.value);
    }
    if out.is_empty() { Err(Code::INVALID_FIELD_IN_CDB.into()) } else { Ok(out) }
}

/// Binary list parameters (FORMAT AND LINKING 11b).
const LIST: u8 = 0x03;

/// Page 0Ch (SBC-4 6.4.5): available and used resources of the pool, in threshold units.
fn provisioning(path: &Path) -> Vec<Parameter> {
    let unit: &Unit = &path.unit;
    let resource = |code, count: u32| {
        let mut value = count.to_be_bytes().to_vec();
        value.extend_from_slice(&[0x02, 0, 0, 0]); // the count may be shared with other units
        Parameter { code, format: LIST, value }
    };
    let (available, used) = provisioning::resources(unit);
    vec![resource(0x0001, available), resource(0x0002, used)]
}

/// Page 19h (SPC-5 7.3.9): commands and blocks, of all paths together.
fn general_statistics(path: &Path) -> Vec<Parameter> {
    let mut counters = IoCounters::default();
    path.unit.volume.statistics().values().for_each(|path| counters.add(path));
    let of = |operations: &[Operation]| {
        let counts = operations.iter().map(|operation| counters.of(*operation));
        let sum = |(commands, bytes), one: OperationCounts| (commands + one.operations(), bytes + one.bytes);
        let (commands, bytes) = counts.fold((0, 0), sum);
        (commands, bytes / u64::from(path.unit.block_bytes))
    };
    let (reads, blocks_read) = of(&[Operation::Read]);
    let (writes, blocks_written) = of(&[Operation::Write, Operation::CompareAndWrite, Operation::WriteSame]);
    let mut value: Vec<u8> =
        [reads, writes, blocks_written, blocks_read].into_iter().flat_map(u64::to_be_bytes).collect();
    value.resize(64, 0); // no processing intervals: time is not kept here
    vec![Parameter { code: 0x0001, format: LIST, value }]
}

/// Page 2Fh (SPC-5 7.3.12): no failure is predicted, and there is no temperature.
fn informational_exceptions(_: &Path) -> Vec<Parameter> {
    vec![Parameter { code: 0x0000, format: LIST, value: vec![0, 0, 0xFF, 0] }]
}
