//! Reservation conflicts: SCSI-2 RESERVE and RELEASE, and which commands a persistent reservation refuses.

use crate::cdb::Cdb;
use crate::command::{CommandResult, Completion, Flow, Request};
use crate::opcode::{ConflictRule, Effect, Row};
use crate::path::Path;
use crate::sense::{Code, Fault};
use crate::unit::{Next, Unit};
use crate::volatile::Origin;
use block::{Note, Op};
use export::reservation::Reservation;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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

    fn is_reserved_by_other(&self, path: &Path) -> bool {
        self.simple.is_some() && !self.is_reserved_by(path)
    }

    fn is_reserved_by(&self, path: &Path) -> bool {
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

impl Reservations {
    fn apply(&mut self, path: &Arc<Path>, reserve: bool) {
        match reserve {
            true => self.simple = Some(Holder::Path(path.clone())),
            false => _ = self.release_of(path),
        }
    }
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
