//! Blocks of 4 KiB of a disk: the unit of fingerprints and of everything on the wire. The last one may be shorter.

use crate::{Error, Result};
use block::{Data, Disk, DiskId, Geometry, Op, Reply};
use bytes::Bytes;
use engine::Engine;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;

/// Largest disk: 64 PiB.
const MAX_DISK_BYTES: u64 = 64 << 50;

/// Whether a geometry is supported.
pub fn is_valid(geometry: Geometry) -> bool {
    matches!(geometry.block_bytes, 512 | 4096)
        && geometry.blocks <= MAX_DISK_BYTES / u64::from(geometry.block_bytes)
}

/// Number of blocks of a disk.
pub fn blocks(geometry: Geometry) -> u64 {
    geometry.bytes().div_ceil(BLOCK_BYTES as u64)
}

/// Bytes of a run of blocks.
pub fn bytes(geometry: Geometry, first: u64, count: u64) -> u64 {
    let end = (first + count).saturating_mul(BLOCK_BYTES as u64).min(geometry.bytes());
    end.saturating_sub(first.saturating_mul(BLOCK_BYTES as u64))
}

/// The logical blocks of a run of blocks.
pub fn extent(geometry: Geometry, first: u64, count: u64) -> block::Extent {
    let each = u64::from(geometry.block_bytes);
    block::Extent::new(first * (BLOCK_BYTES as u64 / each), bytes(geometry, first, count) / each)
}

/// The disk with this identity.
pub fn find(engine: &Engine, id: DiskId) -> Result<Arc<engine::Volume>> {
    Ok(engine.volume(id).ok_or(block::Error::Deleted)?)
}

/// Performs operations in parallel; returns their results in order, or the first error after all have ended.
pub async fn perform(disk: &dyn Disk, ops: Vec<Op>) -> Result<Vec<Reply>> {
    let mut pending: Vec<_> = ops.into_iter().map(|op| disk.execute(op)).collect();
    let mut results: Vec<Option<block::Result>> = pending.iter().map(|_| None).collect();
    let all = poll_fn(|cx| {
        for (pending, result) in pending.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(done) = Pin::new(pending).poll(cx)
            {
                *result = Some(done);
            }
        }
        if results.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    });
    all.await;
    results.into_iter().flatten().map(|result| result.map_err(Error::from)).collect()
}

/// Adds a block to runs of blocks.
pub fn extend(runs: &mut Vec<(u64, u64)>, block: u64) {
    match runs.last_mut() {
        Some((first, count)) if *first + *count == block => *count += 1,
        _ => runs.push((block, 1)),
    }
}

/// Reads runs of blocks, and splits them into blocks.
pub async fn read(disk: &dyn Disk, runs: Vec<(u64, u64)>) -> Result<Vec<Bytes>> {
    let geometry = disk.geometry();
    let ops = runs.into_iter().map(|(first, count)| Op::Read(extent(geometry, first, count)));
    let mut blocks = Vec::new();
    for reply in perform(disk, ops.collect()).await? {
        let Reply::Data(data) = reply else { return Err(Error::Malformed("no data for a read")) };
        blocks.extend(cut(&data));
    }
    Ok(blocks)
}

fn cut(data: &Data) -> impl Iterator<Item = Bytes> {
    let starts = (0..data.len()).step_by(BLOCK_BYTES);
    starts.map(|from| data.slice(from, (from + BLOCK_BYTES).min(data.len())).to_bytes())
}
