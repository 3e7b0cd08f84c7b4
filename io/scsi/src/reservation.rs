//! Reservation conflicts: SCSI-2 RESERVE and RELEASE, and which commands a persistent reservation refuses.

use crate::cdb::Cdb;
use crate::command::{Flow, Request};
use crate::opcode::{ConflictRule, Effect, Row};
use crate::path::Path;
use crate::sense::{Code, Fault};
use crate::unit::Unit;
use export::reservation::Reservation;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The reservations of a unit. Persistent reservations are part of the volume's state, which all front ends share.
#[derive(Default)]
pub(crate) struct Reservations {
    /// The path that holds a SCSI-2 reservation.
    simple: Option<Arc<Path>>,
}

impl Reservations {
    /// True if any command of the path may be refused.
    pub(crate) fn may_conflict(&self, path: &Path) -> bool {
        let state = path.unit.volume.state();
        state.is_fenced()
            || self.is_reserved_by_other(path)
            || state.registrations.reservation().is_some() && !state.registrations.admits(&path.nexus)
    }

    /// True if a command must end with RESERVATION CONFLICT.
    pub(crate) fn refuses(&self, path: &Path, row: &Row, cdb: &Cdb) -> bool {
        let state = path.unit.volume.state();
        let conflict = effective(row, cdb);
        if state.is_fenced() {
            return matches!(row.effect, Effect::Medium | Effect::Unit);
        }
        if self.is_reserved_by_other(path) {
            // RELEASE from a nexus other than the holder succeeds without effect (SPC-2 5.5.1).
            let release = matches!(row.opcode, 0x17 | 0x57);
            return !release && !matches!(conflict, ConflictRule::Open | ConflictRule::Always);
        }
        let Some(reservation) = state.registrations.reservation() else { return false };
        match conflict {
            ConflictRule::Open | ConflictRule::Always | ConflictRule::Persistent | ConflictRule::Own => false,
            ConflictRule::Read => {
                !reservation.kind.lets_others_read() && !state.registrations.admits(&path.nexus)
            }
            ConflictRule::Write => !state.registrations.admits(&path.nexus),
        }
    }

    /// True if a third-party copy may not read from the unit, or not write to it if `written`.
    pub(crate) fn refuses_use(&self, path: &Path, written: bool) -> bool {
        let state = path.unit.volume.state();
        let readable = |reservation: &Reservation| !written && reservation.kind.lets_others_read();
        state.is_fenced() && written
            || self.is_reserved_by_other(path)
            || state.registrations.reservation().is_some_and(|reservation| !readable(reservation))
                && !state.registrations.admits(&path.nexus)
    }

    /// Releases a SCSI-2 reservation that the path holds.
    pub(crate) fn release_of(&mut self, path: &Path) {
        if !self.is_reserved_by_other(path) {
            self.simple = None;
        }
    }

    /// Releases a SCSI-2 reservation, as a reset of the unit does.
    pub(crate) fn reset(&mut self) {
        self.simple = None;
    }

    fn is_reserved_by_other(&self, path: &Path) -> bool {
        self.simple.as_ref().is_some_and(|holder| !std::ptr::eq(&**holder, path))
    }
}

/// The conflict rule of a command, given its CDB: some commands conflict in some forms only.
fn effective(row: &Row, cdb: &Cdb) -> ConflictRule {
    match row.opcode {
        // START STOP UNIT that starts, and PREVENT ALLOW that allows, never conflict (SPC-5 table 69).
        0x1B if cdb.u8(4) & 0xF1 == 0x01 => ConflictRule::Always,
        0x1E if cdb.u8(4) & 0x03 == 0 => ConflictRule::Always,
        _ => row.conflict,
    }
}

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
    check_supported(&request)?;
    let unit = &request.path.unit;
    let mut core = unit.lock();
    // While any nexus is registered, the SCSI-2 commands are refused (SPC-5 5.14.3).
    let is_used = unit.volume.state().registrations.is_used();
    if is_used || core.reservations.is_reserved_by_other(request.path) {
        return Err(Fault::CONFLICT);
    }
    core.reservations.simple = Some(request.path.clone());
    core.refresh();
    Ok(Flow::good())
}

/// RELEASE (6) and (10) (SPC-2 7.16, 7.17)
pub(crate) fn release(request: Request<'_>) -> Result<Flow, Fault> {
    check_supported(&request)?;
    let unit = &request.path.unit;
    let mut core = unit.lock();
    let is_used = unit.volume.state().registrations.is_used();
    if is_used {
        return Err(Fault::CONFLICT);
    }
    core.reservations.release_of(request.path);
    core.refresh();
    Ok(Flow::good())
}
