//! Task management functions that reach every initiator of a unit (SAM-5 clause 7).

use crate::encoding::sense::Code;
use crate::unit::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// CLEAR TASK SET: aborts every task of the unit, of all initiators.
pub(crate) fn clear_task_set(path: &Arc<Path>) {
    let (paths, status) = {
        let core = path.unit.lock();
        (core.paths.clone(), core.pages.current().aborted_status())
    };
    for other in &paths {
        let own = other.same_nexus(path);
        let aborted = other.abort_all(if own { None } else { status });
        // With TAS the other initiators receive TASK ABORTED, else a unit attention (SAM-5 5.14.4).
        if aborted > 0 && !own && status.is_none() {
            other.raise_unit_attention(Code::COMMANDS_CLEARED.into());
        }
    }
}

/// LOGICAL UNIT RESET (SAM-5 6.3.3): aborts every task, releases a SCSI-2 reservation, restores the saved mode pages
/// and establishes a unit attention condition for every initiator.
pub(crate) fn reset_unit(path: &Arc<Path>) {
    let unit = &path.unit;
    let (paths, status) = {
        let core = unit.lock();
        (core.paths.clone(), core.pages.current().aborted_status())
    };
    for other in &paths {
        other.abort_all(if other.same_nexus(path) { None } else { status });
    }
    let mut core = unit.lock();
    core.reservations.reset();
    unit.set_changed(true);
    core.pages.reset();
    unit.descriptor_sense.store(core.pages.current().descriptor_sense, Ordering::Relaxed);
    core.refresh();
    core.raise_unit_attention(Code::BUS_DEVICE_RESET, |_| true);
}
