//! Copies by tokens (ODX; SBC-4 4.30, SPC-5 5.18.8): POPULATE TOKEN, WRITE USING TOKEN, RECEIVE ROD TOKEN INFORMATION and
//! REPORT ALL ROD TOKENS.
//!
//! A token stands for ranges of an image of a disk, so that it represents one moment, takes no time that depends on its
//! size, and is written by sharing stored data. It is of use only to the host that made it, while that sees the source.

mod ranges;
mod transfer;

use crate::encoding::rods::{Found, Rod};
use crate::encoding::sense::{Code, Fault};
use crate::unit::command::{Flow, Request};
use crate::unit::operations::{Done, Operations, Transferred};
use block::{Data, Op, Reply};
use ranges::{Populate, WriteUsing};
use transfer::Transfer;

/// Block device range descriptors in one list.
pub(crate) const MAX_RANGES: usize = 256;

/// The longest inactivity timeout that a host can ask for, and the one that it gets without asking.
pub(crate) const MAX_INACTIVITY_SECONDS: u32 = 300;
pub(crate) const DEFAULT_INACTIVITY_SECONDS: u32 = 30;

/// Bytes that one token can stand for, and that one command can write.
pub(crate) const MAX_TOKEN_BYTES: u64 = 16 << 30;

/// The optimal number of bytes of one token. Windows uses tokens of no more than this, and no more than 256 MiB.
pub(crate) const OPTIMAL_TOKEN_BYTES: u64 = 256 << 20;

/// POPULATE TOKEN (SBC-4 5.9)
pub(crate) fn populate_token(request: Request<'_>) -> Result<Flow, Fault> {
    let bytes = request.data.to_bytes();
    if bytes.is_empty() {
        return Ok(Flow::good());
    }
    let path = request.path.clone();
    let Populate { immediate, inactivity_seconds, ranges } = Populate::parse(&bytes, &path.unit)?;
    let operation = Operations::begin(&path, Some(request.cdb.u32(6)), request.row.action)?;
    let image = path.unit.volume.disk().execute(Op::Image);
    let work = async move {
        let populate = async {
            let Reply::Image(image) = image.await? else {
                return Err(Fault::from(Code::INTERNAL_TARGET_FAILURE));
            };
            let (host, source) = (path.host().clone(), path.unit.id);
            let rod = Rod { host, source, image: image.0, ranges, inactivity_seconds };
            let transferred = Transferred::Blocks(rod.blocks());
            let token = Some(path.unit.rods.add(rod, path.unit.block_bytes, path.unit.clock.now())?);
            Ok(Done { segments: 0, transferred, truncated: false, token })
        };
        (populate.await, Transferred::Blocks(0))
    };
    Ok(operation.run(work, immediate))
}

/// WRITE USING TOKEN (SBC-4 5.51)
pub(crate) fn write_using_token(request: Request<'_>) -> Result<Flow, Fault> {
    let bytes = request.data.to_bytes();
    if bytes.is_empty() {
        return Ok(Flow::good());
    }
    let path = request.path.clone();
    let WriteUsing { immediate, deletes, offset, token, ranges } = WriteUsing::parse(&bytes, &path.unit)?;
    let sees = |disk| request.peers.values().any(|peer| peer.unit.id == disk);
    let found = path.unit.rods.find(path.host(), path.unit.clock.now(), token, sees)?;
    let transfer = Transfer::new((path.clone(), request.notes), &found, offset, &ranges)?;
    let operation = Operations::begin(&path, Some(request.cdb.u32(6)), request.row.action)?;
    request.count_write(ranges.iter().map(|range| range.blocks).sum());
    let work = async move {
        let (end, blocks) = transfer.run().await;
        let transferred = Transferred::Blocks(blocks);
        if let Found::Rod(number, _) = found {
            path.unit.rods.used(number, path.unit.clock.now(), deletes && end == Ok(false));
        }
        (end.map(|truncated| Done { segments: 0, transferred, truncated, token: None }), transferred)
    };
    Ok(operation.run(work, immediate))
}

/// RECEIVE ROD TOKEN INFORMATION (SPC-5 6.33)
pub(crate) fn receive_information(request: Request<'_>) -> Result<Flow, Fault> {
    request.path.copies.long_status(request.cdb.u32(2), true).map(Flow::data)
}

/// REPORT ALL ROD TOKENS (SPC-5 6.38): those of the host that asks.
pub(crate) fn report_all(request: Request<'_>) -> Result<Flow, Fault> {
    let path = request.path;
    Ok(Flow::data(path.unit.rods.report(path.host(), path.unit.clock.now())))
}

/// Blocks that WRITE USING TOKEN names; errors in its list are found later.
pub(crate) fn written_blocks(data: &Data) -> u64 {
    ranges::written_blocks(&data.to_bytes())
}
