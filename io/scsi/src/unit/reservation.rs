//! Reservation conflicts: who holds a reservation of SCSI-2, and which commands a reservation refuses.

use crate::encoding::cdb::Cdb;
use crate::encoding::volatile::Origin;
use crate::unit::path::Path;
use crate::unit::row::{ConflictRule, Effect, Row};
use export::reservation::Reservation;
use std::sync::Arc;

/// The reservations of a unit. Persistent reservations are part of the volume's state, which all front ends share.
#[derive(Default)]
pub(crate) struct Reservations {
    /// Who holds a SCSI-2 reservation.
    simple: Option<Holder>,
}

/// The holder of a SCSI-2 reservation.
enum Holder {
    Path(Arc<Path>),
    /// A nexus that had it at a former home, and that its front end has not resumed.
    Unclaimed(Origin),
}

impl Reservations {
    /// Those of a former home.
    pub(crate) fn held_by(holder: Option<Origin>) -> Reservations {
        Reservations { simple: holder.map(Holder::Unclaimed) }
    }

    /// The nexus of a front end that holds a SCSI-2 reservation. Those of other nexuses end with this process.
    pub(crate) fn holder(&self) -> Option<Origin> {
        match self.simple.as_ref()? {
            Holder::Path(path) => path.origin,
            Holder::Unclaimed(origin) => Some(*origin),
        }
    }

    /// The holder, if its front end has not resumed it.
    pub(crate) fn unclaimed(&self) -> Option<Origin> {
        match self.simple.as_ref()? {
            Holder::Path(_) => None,
            Holder::Unclaimed(origin) => Some(*origin),
        }
    }

    /// A nexus is resumed by this path, with the reservation that it holds.
    pub(crate) fn resume(&mut self, path: &Arc<Path>) {
        if self.unclaimed().is_some_and(|origin| path.origin == Some(origin)) {
            self.simple = (!path.is_mapped_read_only()).then(|| Holder::Path(path.clone()));
        }
    }

    /// Releases a SCSI-2 reservation of a nexus of this front end that was not resumed.
    pub(crate) fn release_unclaimed(&mut self, front: u64) {
        if self.unclaimed().is_some_and(|origin| origin.front == front) {
            self.simple = None;
        }
    }

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

    /// Releases a SCSI-2 reservation that the path holds; returns whether it held one.
    pub(crate) fn release_of(&mut self, path: &Path) -> bool {
        let held = self.is_reserved_by(path);
        if held {
            self.simple = None;
            path.unit.set_changed(true);
        }
        held
    }

    /// Releases a SCSI-2 reservation, as a reset of the unit does.
    pub(crate) fn reset(&mut self) {
        self.simple = None;
    }

    pub(crate) fn apply(&mut self, path: &Arc<Path>, reserve: bool) {
        match reserve {
            true => self.simple = Some(Holder::Path(path.clone())),
            false => _ = self.release_of(path),
        }
    }

    pub(crate) fn is_reserved_by_other(&self, path: &Path) -> bool {
        self.simple.is_some() && !self.is_reserved_by(path)
    }

    pub(crate) fn is_reserved_by(&self, path: &Path) -> bool {
        matches!(&self.simple, Some(Holder::Path(holder)) if std::ptr::eq(&**holder, path))
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
