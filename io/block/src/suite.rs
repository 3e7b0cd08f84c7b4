//! Conformance suite for implementations of [`Disk`]: compares disks with the model, operation by operation.
//!
//! Two differences are allowed: a disk whose blocks are shorter than 4096 bytes may report a block as mapped because
//! of another block in the same 4096 bytes ([`Op::Status`]), since space is allocated in that unit; and a disk may
//! run out of space, which the model never does.

use crate::mem::{MemArray, MemDisk};
use crate::workload::{Mix, Workload};
use crate::{Disk, DiskId, Error, Extent, Geometry, Op, Provisioning, Region, Reply, Result};
use std::sync::Arc;

/// Runs `count` operations of the seed, one after the other, on the disks and on their model, which are both empty, and
/// compares every result and finally every byte. `wait` runs a pending operation to completion.
///
/// # Errors
/// A description of the first difference.
pub fn run(
    disks: &[Arc<dyn Disk>],
    seed: u64,
    count: usize,
    mix: Mix,
    mut wait: impl FnMut(crate::Pending) -> Result,
) -> std::result::Result<(), String> {
    let array = MemArray::new();
    let models: Vec<MemDisk> = disks.iter().map(|disk| array.create(disk.id(), disk.geometry())).collect();
    let known: Vec<(DiskId, Geometry)> = disks.iter().map(|disk| (disk.id(), disk.geometry())).collect();
    let mut workload = Workload::new(seed, mix);
    for step in 0..count {
        let (id, op) = workload.next(&known, |id, extent| array.peek(id, extent));
        let index =
            known.iter().position(|(known, _)| *known == id).ok_or("the workload chose an unknown disk")?;
        let real = wait(disks[index].execute(op.clone()));
        if matches!(real, Err(Error::NoSpace)) && may_need_space(&op) {
            continue;
        }
        let model = wait(models[index].execute(op.clone()));
        compare(&op, disks[index].geometry(), &model, &real)
            .map_err(|difference| format!("seed {seed}, step {step}, {id:?}: {}: {difference}", show(&op)))?;
    }
    for (disk, model) in disks.iter().zip(&models) {
        let blocks = disk.geometry().blocks;
        for lba in (0..blocks).step_by(256) {
            let op = Op::Read(Extent::new(lba, 256.min(blocks - lba)));
            let (real, expected) = (wait(disk.execute(op.clone())), wait(model.execute(op.clone())));
            compare(&op, disk.geometry(), &expected, &real)
                .map_err(|difference| format!("seed {seed}, at the end, {:?}: {difference}", disk.id()))?;
        }
        if disk.state() != model.state() {
            return Err(format!("seed {seed}: the state of {:?} differs", disk.id()));
        }
    }
    Ok(())
}

/// True if the operation may fail with [`Error::NoSpace`].
pub fn may_need_space(op: &Op) -> bool {
    !matches!(op, Op::Read(_) | Op::Locate(_) | Op::Unmap(_) | Op::Status(_) | Op::Flush)
}

/// Compares the result of a disk with the model's.
///
/// # Errors
/// The difference.
pub fn compare(
    op: &Op,
    geometry: Geometry,
    model: &Result,
    real: &Result,
) -> std::result::Result<(), String> {
    match (model, real) {
        (Ok(Reply::Data(expected)), Ok(Reply::Data(data))) => match expected.first_difference(data) {
            None => Ok(()),
            Some(at) => Err(format!(
                "{} bytes instead of {}, first difference at byte {at}, block {}",
                data.len(),
                expected.len(),
                at / geometry.block_bytes as usize
            )),
        },
        (Ok(Reply::Status(expected)), Ok(Reply::Status(regions))) => {
            let Op::Status(extent) = op else { return Err("a status instead of another reply".into()) };
            compare_status(*extent, geometry, expected, regions)
        }
        (Ok(Reply::Done), Ok(Reply::Done)) | (Ok(Reply::Image(_)), Ok(Reply::Image(_))) => Ok(()),
        // If an operation has several errors, any of them may be reported.
        (Err(expected), Err(error))
            if std::mem::discriminant(expected) == std::mem::discriminant(error)
                && (!matches!(error, Error::Miscompare { .. }) || expected == error) =>
        {
            Ok(())
        }
        (
            Err(Error::OutOfRange { .. } | Error::Malformed(_)),
            Err(Error::OutOfRange { .. } | Error::Malformed(_)),
        ) => Ok(()),
        _ => Err(format!("returned {} instead of {}", describe(real), describe(model))),
    }
}

fn compare_status(
    extent: Extent,
    geometry: Geometry,
    expected: &[Region],
    regions: &[Region],
) -> std::result::Result<(), String> {
    let mut next = extent.lba;
    for (index, region) in regions.iter().enumerate() {
        let repeats = index > 0 && regions[index - 1].state == region.state;
        if region.extent.lba != next || region.extent.blocks == 0 || repeats {
            return Err(format!("regions do not follow each other: {regions:?}"));
        }
        next = region.extent.lba.saturating_add(region.extent.blocks);
    }
    if Some(next) != extent.end() {
        return Err(format!("regions do not cover {extent:?}: {regions:?}"));
    }
    let mapped = |regions: &[Region], lba: u64| {
        let region = regions.iter().find(|region| region.extent.overlaps(&Extent::new(lba, 1)));
        region.is_some_and(|region| region.state == Provisioning::Mapped)
    };
    for lba in extent.lba..next {
        let (expected, actual) = (mapped(expected, lba), mapped(regions, lba));
        if expected != actual && (expected || geometry.block_bytes >= 4096) {
            return Err(format!("block {lba} is reported as mapped: {actual}, instead of: {expected}"));
        }
    }
    Ok(())
}

/// An operation in one line.
pub fn show(op: &Op) -> String {
    match op {
        Op::Write { lba, data } => format!("write {} bytes at {lba}", data.len()),
        Op::Fill { extent, block } => format!("fill {extent:?} with {} bytes", block.len()),
        Op::CompareAndWrite { lba, compare, write } => {
            format!("compare {} and write {} bytes at {lba}", compare.len(), write.len())
        }
        Op::Or { lba, data } => format!("or {} bytes at {lba}", data.len()),
        Op::SaveState(state) => format!("save {} bytes of state", state.len()),
        other => format!("{other:?}"),
    }
}

fn describe(result: &Result) -> String {
    match result {
        Ok(Reply::Data(data)) => format!("{} bytes", data.len()),
        Ok(reply) => format!("{reply:?}"),
        Err(error) => format!("an error ({error})"),
    }
}

#[cfg(test)]
#[path = "suite_test.rs"]
mod tests;
