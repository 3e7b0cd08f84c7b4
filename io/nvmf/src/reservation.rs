//! Reservation Register, Acquire, Release and Report (NVM Express Base 2.0 clauses 7.2 to 7.5 and 8.19): the NVMe
//! encoding of the registrant model in [`export`]. A registrant is a host, identified by NQN and host identifier, with
//! all its controllers.

use crate::command::{Request, Work};
use crate::path::Path;
use crate::sqe::{Outcome, Sqe};
use crate::status::Status;
use block::{Data, Op};
use export::reservation::{
    Change, Refusal, Registrations, Request as Model, Reservation, ReservationType as Kind,
};
use export::{Exports, InitiatorPort};
use std::sync::Arc;

/// IEKEY, the same bit in all three commands.
const IGNORE_EXISTING_KEY: u32 = 1 << 3;
/// EDS of Reservation Report: the extended data structure, with 128-bit host identifiers.
const EXTENDED: u32 = 1;

/// Reservation types (Base figure 410) by their code.
const KINDS: [(u8, Kind); 6] = [
    (1, Kind::WriteExclusive),
    (2, Kind::ExclusiveAccess),
    (3, Kind::WriteExclusiveRegistrants),
    (4, Kind::ExclusiveAccessRegistrants),
    (5, Kind::WriteExclusiveAll),
    (6, Kind::ExclusiveAccessAll),
];

fn kind_of(code: u8) -> Option<Kind> {
    KINDS.iter().find(|(known, _)| *known == code).map(|(_, kind)| *kind)
}

fn code_of(kind: Kind) -> u8 {
    KINDS.iter().find(|(_, known)| *known == kind).map_or(0, |(code, _)| *code)
}

/// A key of the data structure of a command.
fn key(data: &Data, at: usize) -> u64 {
    let bytes = data.to_bytes();
    let mut key = [0; 8];
    if let Some(found) = bytes.get(at..at + 8) {
        key.copy_from_slice(found);
    }
    u64::from_le_bytes(key)
}

/// A request to perform: the key that the sender must have, and the change of the registrations.
struct Command {
    key: u64,
    model: Model,
}

/// Reservation Register (7.3)
pub(crate) fn register(request: Request) -> Result<Work, Status> {
    let action = request.sqe.dword(10) & 0x7;
    let ignores = request.sqe.dword(10) & IGNORE_EXISTING_KEY != 0;
    let (current, new) = (key(&request.data, 0), key(&request.data, 8));
    let persistence = match request.sqe.dword(10) >> 30 {
        0 => None,
        2 => Some(false),
        3 => Some(true),
        _ => return Err(Status::INVALID_FIELD),
    };
    if action != 1 && new == 0 {
        return Err(Status::INVALID_FIELD);
    }
    let host = request.path.host.clone();
    carry_out(request, move |registrations| {
        let known = registrations.key(&host);
        let existing = match action {
            // A host registers once, or again with the same key.
            0 if known.is_some_and(|known| known != new) => return Err(Status::RESERVATION_CONFLICT),
            0 => known.unwrap_or(0),
            1 | 2 if ignores => known.unwrap_or(0),
            1 | 2 if known != Some(current) => return Err(Status::RESERVATION_CONFLICT),
            1 | 2 => current,
            _ => return Err(Status::INVALID_FIELD),
        };
        let model = Model::Register {
            existing: Some(existing),
            key: if action == 1 { 0 } else { new },
            nexuses: vec![(*host).clone()],
            all_ports: false,
            persists: persistence.unwrap_or(registrations.persists),
        };
        Ok(Command { key: existing, model })
    })
}

/// Reservation Acquire (7.2). Commands of preempted hosts that are in progress complete first, so preempt and abort
/// equals preempt.
pub(crate) fn acquire(request: Request) -> Result<Work, Status> {
    let (action, sqe) = (request.sqe.dword(10) & 0x7, request.sqe);
    if sqe.dword(10) & IGNORE_EXISTING_KEY != 0 {
        return Err(Status::INVALID_FIELD);
    }
    let (current, preempted) = (key(&request.data, 0), key(&request.data, 8));
    let kind = kind_of_command(&sqe);
    carry_out(request, move |_| {
        let model = match action {
            0 => Model::Reserve { kind: kind? },
            1 | 2 => Model::Preempt { kind: kind.ok(), victim: preempted },
            _ => return Err(Status::INVALID_FIELD),
        };
        Ok(Command { key: current, model })
    })
}

fn kind_of_command(sqe: &Sqe) -> Result<Kind, Status> {
    kind_of((sqe.dword(10) >> 8) as u8).ok_or(Status::INVALID_FIELD)
}

/// Reservation Release (7.4)
pub(crate) fn release(request: Request) -> Result<Work, Status> {
    let (action, sqe) = (request.sqe.dword(10) & 0x7, request.sqe);
    if sqe.dword(10) & IGNORE_EXISTING_KEY != 0 {
        return Err(Status::INVALID_FIELD);
    }
    let current = key(&request.data, 0);
    let kind = kind_of_command(&sqe);
    carry_out(request, move |_| {
        let model = match action {
            0 => Model::Release { kind: kind? },
            1 => Model::Clear,
            _ => return Err(Status::INVALID_FIELD),
        };
        Ok(Command { key: current, model })
    })
}

/// Evaluates a request and commits the change, one request at a time for each volume.
fn carry_out(
    request: Request,
    command: impl FnOnce(&Registrations) -> Result<Command, Status> + Send + 'static,
) -> Result<Work, Status> {
    if request.path.is_mapped_read_only() {
        // This path may not change state that hosts share.
        return Err(Status::NAMESPACE_WRITE_PROTECTED);
    }
    let exports = request.controller.exports().clone();
    Ok(Work::later(async move {
        let path = &request.path;
        let _lock = path.volume.lock_state().await;
        let change = {
            let state = path.volume.state();
            if state.is_fenced() {
                return Err(Status::RESERVATION_CONFLICT);
            }
            let Command { key, model } = command(&state.registrations)?;
            state.registrations.evaluate(&path.host, key, &model).map_err(status)?
        };
        commit(&exports, path, change).await?;
        Ok(Outcome::success())
    }))
}

/// Persists the registrations if they must survive a power loss or a takeover, then applies them to all paths.
async fn commit(exports: &Arc<Exports>, path: &Path, change: Change) -> Result<(), Status> {
    let volume = &path.volume;
    let saved = {
        let state = volume.state();
        state.must_save(&change.next).then(|| state.scsi())
    };
    if let Some(scsi) = saved {
        let state = volume.encode_state(&change.next, scsi).map_err(|_too_large| Status::INTERNAL_ERROR)?;
        volume.disk().execute(Op::SaveState(state)).await?;
    }
    volume.state().registrations = change.next.clone();
    exports.reservations_changed(volume.id(), &path.host, &change).await;
    Ok(())
}

/// Sets whether registrations persist (Reservation Persistence, Base 5.27.1.27).
pub(crate) async fn set_persistence(
    exports: &Arc<Exports>,
    path: &Path,
    persists: bool,
) -> Result<(), Status> {
    if path.is_mapped_read_only() {
        return Err(Status::NAMESPACE_WRITE_PROTECTED);
    }
    let _lock = path.volume.lock_state().await;
    let mut next = path.volume.state().registrations.clone();
    next.persists = persists;
    commit(exports, path, Change { next, notices: Vec::new(), preempted: Vec::new() }).await
}

/// The status of a refused request.
fn status(refusal: Refusal) -> Status {
    match refusal {
        Refusal::Conflict => Status::RESERVATION_CONFLICT,
        Refusal::TooManyRegistrants => Status::COMMAND_INTERRUPTED,
        Refusal::WrongType
        | Refusal::UnknownType
        | Refusal::ZeroVictim
        | Refusal::AlreadyRegistered
        | Refusal::NothingToMove
        | Refusal::MoveToSelf => Status::INVALID_FIELD,
    }
}

/// Reservation Report (7.5), up to the length that the host asks for.
pub(crate) fn report(request: Request) -> Result<Work, Status> {
    let extended = request.sqe.dword(11) & EXTENDED != 0;
    if !extended {
        // The short structure has no room for the 128-bit identifiers that hosts use over fabrics.
        return Err(Status::HOST_IDENTIFIER_INCONSISTENT);
    }
    let wanted = (u64::from(request.sqe.dword(10)) + 1) * 4;
    let wanted = usize::try_from(wanted.min(request.sqe.data_bytes().into())).unwrap_or(0);
    let state = request.path.volume.state();
    let mut out = status_structure(&state.registrations, &|host| request.controller.id_of(host));
    drop(state);
    out.resize(wanted, 0);
    Ok(Work::Done(Outcome::data(out)))
}

/// The extended reservation status data structure (Base figures 415 and 416). Registrants of other transports are
/// listed with identifiers derived from their ports.
fn status_structure(registrations: &Registrations, controller: &dyn Fn(&InitiatorPort) -> u16) -> Vec<u8> {
    let mut out = vec![0; 64];
    out[..4].copy_from_slice(&registrations.generation.to_le_bytes());
    out[4] = registrations.reservation().map_or(0, |Reservation { kind, .. }| code_of(*kind));
    out[5..7].copy_from_slice(&(registrations.registrants().len() as u16).to_le_bytes());
    out[9] = u8::from(registrations.persists);
    for registrant in registrations.registrants() {
        let mut entry = [0; 64];
        entry[..2].copy_from_slice(&controller(&registrant.nexus.initiator).to_le_bytes());
        entry[2] = u8::from(registrations.holds(&registrant.nexus));
        entry[8..16].copy_from_slice(&registrant.key.to_le_bytes());
        if let InitiatorPort::Nvme { host_id, .. } = &registrant.nexus.initiator {
            entry[16..32].copy_from_slice(host_id);
        }
        out.extend_from_slice(&entry);
    }
    out
}
