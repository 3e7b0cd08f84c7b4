//! Reservations: who may use a unit. SCSI-2 RESERVE and RELEASE here, persistent reservations below.

mod persist;
mod registry;

pub(crate) use persist::{persistent_in, persistent_out};
pub(crate) use registry::{Held, Kind, Port, Registrant, Registry};

use crate::cdb::Cdb;
use crate::command::{Flow, Request};
use crate::opcode::{Access, Effect, Row};
use crate::sense::{Code, Fault};
use crate::unit::{Path, Unit};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The reservations of a unit.
#[derive(Default)]
pub(crate) struct Reservations {
    /// The path that holds a SCSI-2 reservation.
    simple: Option<Arc<Path>>,
    pub(crate) registry: Registry,
    /// What was saved is not understood. Who may write is not known, so nobody may before an operator clears it.
    unreadable: bool,
}

impl Reservations {
    /// Reservations as saved.
    pub(crate) fn new(registry: Registry) -> Self {
        Reservations { registry, ..Default::default() }
    }

    /// Reservations that were saved and can't be understood.
    pub(crate) fn unreadable() -> Self {
        Reservations { unreadable: true, ..Default::default() }
    }

    /// Whether what was saved can't be understood.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.unreadable
    }

    /// Whether any command of the path may be refused.
    pub(crate) fn concerns(&self, path: &Path) -> bool {
        self.unreadable
            || self.simple_of_another(path)
            || self.registry.held().is_some() && !self.registry.admits(&Port::of(path))
    }

    /// Whether a command has to end with RESERVATION CONFLICT.
    pub(crate) fn refuses(&self, path: &Path, row: &Row, cdb: &Cdb) -> bool {
        let access = effective(row, cdb);
        if self.unreadable {
            return matches!(row.effect, Effect::Medium | Effect::Unit);
        }
        if self.simple_of_another(path) {
            // RELEASE by another than the holder does nothing, and succeeds (SPC-2 5.5.1).
            let release = matches!(row.opcode, 0x17 | 0x57);
            return !release && !matches!(access, Access::Open | Access::Always);
        }
        let Some(held) = self.registry.held() else { return false };
        match access {
            Access::Open | Access::Always | Access::Persistent | Access::Own => false,
            Access::Read => !held.kind.lets_others_read() && !self.registry.admits(&Port::of(path)),
            Access::Write => !self.registry.admits(&Port::of(path)),
        }
    }

    /// Whether a copy that reads from the unit, or writes to it, may not use it.
    pub(crate) fn refuses_use(&self, path: &Path, written: bool) -> bool {
        let readable = |held: &Held| !written && held.kind.lets_others_read();
        self.unreadable && written
            || self.simple_of_another(path)
            || self.registry.held().is_some_and(|held| !readable(held))
                && !self.registry.admits(&Port::of(path))
    }

    /// What the loss of a nexus ends.
    pub(crate) fn lose(&mut self, path: &Path) {
        if !self.simple_of_another(path) {
            self.simple = None;
        }
    }

    /// What a reset of the unit ends.
    pub(crate) fn reset(&mut self) {
        self.simple = None;
    }

    fn simple_of_another(&self, path: &Path) -> bool {
        self.simple.as_ref().is_some_and(|holder| !std::ptr::eq(&**holder, path))
    }
}

/// What a command is, given its CDB: some are harmless in one form only.
fn effective(row: &Row, cdb: &Cdb) -> Access {
    match row.opcode {
        // START STOP UNIT that starts, and PREVENT ALLOW that allows, harm nobody (SPC-5 table 69).
        0x1B if cdb.u8(4) & 0xF1 == 0x01 => Access::Always,
        0x1E if cdb.u8(4) & 0x03 == 0 => Access::Always,
        _ => row.access,
    }
}

/// These commands are not there when an operator has it so.
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
    let mut core = request.path.unit.lock();
    // Where anybody is registered, the old commands are refused (SPC-5 5.14.3).
    if core.reservations.registry.is_used() || core.reservations.simple_of_another(request.path) {
        return Err(Fault::CONFLICT);
    }
    core.reservations.simple = Some(request.path.clone());
    core.refresh();
    Ok(Flow::good())
}

/// RELEASE (6) and (10) (SPC-2 7.16, 7.17)
pub(crate) fn release(request: Request<'_>) -> Result<Flow, Fault> {
    check_supported(&request)?;
    let mut core = request.path.unit.lock();
    if core.reservations.registry.is_used() {
        return Err(Fault::CONFLICT);
    }
    core.reservations.lose(request.path);
    core.refresh();
    Ok(Flow::good())
}

#[cfg(test)]
#[path = "reserve_test.rs"]
mod tests;
