//! Thin provisioning: VPD page B2h, GET LBA STATUS, and soft thresholds (SBC-4 4.7).

use crate::encoding::sense::{Code, Fault};
use crate::unit::command::{Flow, Request};
use crate::unit::path::Path;
use crate::unit::{Core, Unit};
use block::{Extent, Op, Provisioning, Region, Reply};
use export::STATUS_MAX_BLOCKS;

/// One threshold unit is 2^11 blocks: 1 MiB of 512-byte blocks.
pub(crate) const THRESHOLD_EXPONENT: u8 = 11;

/// Page B2h (SBC-4 6.6.7).
pub(crate) fn provisioning_page(_: &Path) -> Vec<u8> {
    // LBPU, LBPWS, LBPWS10; unmapped blocks read as zeros (LBPRZ 1); no anchors; thin.
    vec![THRESHOLD_EXPONENT, 0xE0 | 0x04, 0x02, 0x00]
}

/// GET LBA STATUS (SBC-4 5.6). The first descriptor begins at the requested address, also inside a physical block (5.6.2.3).
pub(crate) fn get_lba_status(request: Request<'_>) -> Result<Flow, Fault> {
    let unit = request.path.unit.clone();
    let lba = request.cdb.u64(2);
    let blocks = unit.geometry().blocks;
    if lba >= blocks {
        return Err(Code::LBA_OUT_OF_RANGE.into());
    }
    let room = (request.cdb.u32(10) as usize).saturating_sub(8) / 16;
    let pending =
        unit.volume.disk().execute(Op::Status(Extent::new(lba, (blocks - lba).min(STATUS_MAX_BLOCKS))));
    Ok(Flow::later(async move {
        match pending.await? {
            Reply::Status(regions) => Ok(status_list(&regions, room).into()),
            Reply::Done | Reply::Data(_) | Reply::Located(_) | Reply::Image(_) => {
                Err(Code::INTERNAL_TARGET_FAILURE.into())
            }
        }
    }))
}

/// The parameter data with as many descriptors as fit, but at least one.
fn status_list(regions: &[Region], room: usize) -> block::Data {
    let mut out = vec![0; 8];
    for region in regions.iter().take(room.clamp(1, 4096)) {
        out.extend_from_slice(&region.extent.lba.to_be_bytes());
        out.extend_from_slice(&u32::try_from(region.extent.blocks).unwrap_or(u32::MAX).to_be_bytes());
        let state = match region.state {
            Provisioning::Mapped => 0,
            Provisioning::Deallocated => 1,
        };
        out.extend_from_slice(&[state, 0, 0, 0]);
    }
    let len = out.len() as u32 - 4;
    out[..4].copy_from_slice(&len.to_be_bytes());
    out.into()
}

/// Available and used space of the pool in threshold units.
pub(crate) fn resources(unit: &Unit) -> (u32, u32) {
    let space = unit.volume.disk().space();
    let units = |bytes: u64| {
        u32::try_from((bytes / u64::from(unit.block_bytes)) >> THRESHOLD_EXPONENT).unwrap_or(u32::MAX)
    };
    (units(space.pool_total.saturating_sub(space.pool_used)), units(space.pool_used))
}

/// Checks the thresholds of the logical block provisioning mode page (SBC-4 4.7.3.8). Each crossing is reported once,
/// by a unit attention condition on the path that detected it (SITUA) or on all of them.
pub(crate) fn check_thresholds(path: &Path) {
    let unit = &path.unit;
    let mut core = unit.lock();
    let settings = core.pages.current();
    if settings.min_available.is_none() && settings.max_used.is_none() {
        return;
    }
    let (available, used) = resources(unit);
    let crossed = settings.min_available.is_some_and(|least| available <= least)
        || settings.max_used.is_some_and(|most| used >= most);
    let before = std::mem::replace(&mut core.threshold_crossed, crossed);
    if crossed && !before && settings.report_thresholds {
        raise_threshold_crossed(&core, path);
    }
}

/// Raises THIN PROVISIONING SOFT THRESHOLD REACHED, on one path or on all of them by SITUA.
pub(crate) fn raise_threshold_crossed(core: &Core, path: &Path) {
    let single = core.pages.current().single_initiator;
    core.raise_unit_attention(Code::THIN_THRESHOLD, |other| !single || std::ptr::eq(other, path));
}
