//! RESERVE and RELEASE of SCSI-2.

use crate::encoding::sense::{Code, Fault};
use crate::unit::command::{CommandResult, Completion, Flow, Request};
use crate::unit::path::Path;
use crate::unit::reservation::Reservations;
use crate::unit::row::Row;
use crate::unit::{Next, Unit};
use block::{Note, Op};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Whether a command is supported by the unit: an operator may disable RESERVE and RELEASE.
pub(crate) fn is_supported(unit: &Unit, row: &Row) -> bool {
    let simple = matches!(row.opcode, 0x16 | 0x17 | 0x56 | 0x57);
    !simple || unit.simple_reservations.load(Ordering::Relaxed)
}

fn check_supported(request: &Request<'_>) -> Result<(), Fault> {
    match is_supported(&request.path.unit, request.row) {
        true => Ok(()),
        false => Err(Code::INVALID_OPCODE.into()),
    }
}

/// RESERVE (6) and (10) (SPC-2 7.21, 7.22)
pub(crate) fn reserve(request: Request<'_>) -> Result<Flow, Fault> {
    change(request, true)
}

/// RELEASE (6) and (10) (SPC-2 7.16, 7.17)
pub(crate) fn release(request: Request<'_>) -> Result<Flow, Fault> {
    change(request, false)
}

/// Reserves the unit for a path, or releases it. Where a takeover may come, that is saved first.
fn change(request: Request<'_>, reserve: bool) -> Result<Flow, Fault> {
    check_supported(&request)?;
    let (path, note) = (request.path.clone(), request.notes.whole());
    if path.unit.volume.state().saves_volatile() {
        return Ok(Flow::later(save_and_apply(path, reserve, note)));
    }
    let mut core = path.unit.lock();
    evaluate(&core.reservations, &path, reserve)?;
    core.reservations.apply(&path, reserve);
    core.refresh();
    Ok(Flow::good())
}

/// Whether the reservation changes.
fn evaluate(reservations: &Reservations, path: &Path, reserve: bool) -> Result<bool, Fault> {
    // While any nexus is registered, the SCSI-2 commands are refused (SPC-5 5.14.3).
    let is_used = path.unit.volume.state().registrations.is_used();
    if is_used || reserve && reservations.is_reserved_by_other(path) {
        return Err(Fault::CONFLICT);
    }
    Ok(reservations.is_reserved_by(path) != reserve && !reservations.is_reserved_by_other(path))
}

async fn save_and_apply(path: Arc<Path>, reserve: bool, note: Option<Note>) -> CommandResult {
    let unit = &path.unit;
    let _lock = unit.volume.lock_state().await;
    let state = {
        let core = unit.lock();
        let changes = evaluate(&core.reservations, &path, reserve)?;
        let holder = Some(reserve.then_some(&*path));
        let next = Next { holder, ..Next::default() };
        changes.then(|| unit.encode_state(&core, next)).transpose()?
    };
    if let Some((state, scsi)) = state.filter(|(state, _)| *state != unit.volume.disk().state()) {
        unit.set_changed(true);
        unit.volume.disk().execute_with(Op::SaveState(state), note).await?;
        unit.volume.state().set_scsi(scsi);
    }
    let mut core = unit.lock();
    core.reservations.apply(&path, reserve);
    core.refresh();
    Ok(Completion::default())
}
