//! PERSISTENT RESERVE IN and OUT (SPC-5 6.15, 6.16): the SCSI encoding of the registrant model in [`export`].

use crate::encoding::cdb::List;
use crate::encoding::sense::{Code, Fault};
use crate::encoding::task_set::Class;
use crate::encoding::volatile::Attention;
use crate::unit::command::{Completion, Flow, Notes, Request};
use crate::unit::path::Path;
use crate::unit::{Core, Next};
use crate::{InitiatorPort, encoding::transport_id};
use block::Op;
use export::NexusName;
use export::reservation::{
    Change, MAX_REGISTRANTS, Notice, Refusal, Registrations, Request as ReservationRequest, ReservationType,
};
use std::sync::Arc;

/// PERSISTENT RESERVE IN
pub(crate) fn persistent_in(request: Request<'_>) -> Result<Flow, Fault> {
    let state = request.path.unit.volume.state();
    let registrations = &state.registrations;
    let body = match request.row.action {
        Some(0x00) => read_keys(registrations),
        Some(0x01) => read_reservation(registrations),
        Some(0x02) => return Ok(Flow::data(capabilities(registrations))),
        _ => read_full_status(registrations),
    };
    let mut out = registrations.generation.to_be_bytes().to_vec();
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(&body);
    Ok(Flow::data(out))
}

fn read_keys(registrations: &Registrations) -> Vec<u8> {
    registrations.registrants().iter().flat_map(|registrant| registrant.key.to_be_bytes()).collect()
}

fn read_reservation(registrations: &Registrations) -> Vec<u8> {
    let Some(reservation) = registrations.reservation() else { return Vec::new() };
    let key = reservation.holder.as_ref().and_then(|holder| registrations.key(holder)).unwrap_or(0);
    let mut out = key.to_be_bytes().to_vec();
    out.extend_from_slice(&[0, 0, 0, 0, 0, reservation.kind as u8, 0, 0]);
    out
}

fn capabilities(registrations: &Registrations) -> Vec<u8> {
    // SIP_C, ATP_C, PTPL_C; TMV and the current PTPL_A; all reservation types.
    vec![0, 8, 0x0D, 0x80 | u8::from(registrations.persists), 0xEA, 0x01, 0, 0]
}

fn read_full_status(registrations: &Registrations) -> Vec<u8> {
    let mut out = Vec::new();
    for registrant in registrations.registrants() {
        let holds = registrations.holds(&registrant.nexus);
        let kind =
            registrations.reservation().filter(|_| holds).map_or(0, |reservation| reservation.kind as u8);
        let id = transport_id::encode(&registrant.nexus.initiator);
        out.extend_from_slice(&registrant.key.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&[u8::from(registrant.all_ports) << 1 | u8::from(holds), kind]);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&registrant.nexus.target_port.to_be_bytes());
        out.extend_from_slice(&(id.len() as u32).to_be_bytes());
        out.extend_from_slice(&id);
    }
    out
}

/// Decodes a TransportID. An initiator port of another transport can't be registered by this one.
fn decode_same_transport(path: &Path, list: List<'_>, at: usize) -> Result<(InitiatorPort, usize), Fault> {
    let (initiator, used) = transport_id::decode(list, at)?;
    let own = std::mem::discriminant(&path.nexus.initiator);
    match std::mem::discriminant(&initiator) == own {
        true => Ok((initiator, used)),
        false => Err(Fault::list_byte(at)),
    }
}

/// PERSISTENT RESERVE OUT
pub(crate) fn persistent_out(request: Request<'_>) -> Result<Flow, Fault> {
    let service = request.row.action.unwrap_or(0xFF);
    let bytes = request.data.to_bytes();
    let list = List(&bytes);
    let decoded = parse(service, &request, list)?;
    let (path, key, notes) = (request.path.clone(), list.u64(0), request.notes);
    let action = ServiceAction { path, key, request: decoded, notes };
    if service == PREEMPT_AND_ABORT {
        return Ok(Flow::later(action.abort_and_commit()));
    }
    Ok(Flow::later(action.commit()))
}

const REGISTER: u8 = 0x00;
const RESERVE: u8 = 0x01;
const RELEASE: u8 = 0x02;
const CLEAR: u8 = 0x03;
const PREEMPT: u8 = 0x04;
const PREEMPT_AND_ABORT: u8 = 0x05;
const REGISTER_AND_IGNORE: u8 = 0x06;
const REGISTER_AND_MOVE: u8 = 0x07;

/// Decodes CDB and parameter list.
fn parse(service: u8, request: &Request<'_>, list: List<'_>) -> Result<ReservationRequest, Fault> {
    let kind = || ReservationType::from_code(request.cdb.u8(2) & 0x0F).ok_or(Fault::cdb_bit(2, 3));
    if request.cdb.u8(2) >> 4 != 0 && !matches!(service, REGISTER | REGISTER_AND_IGNORE | CLEAR) {
        return Err(Fault::cdb_bit(2, 7)); // the scope is the logical unit
    }
    let flags = list.u8(20);
    let spec_i_pt = flags & 0x08 != 0;
    if service != REGISTER_AND_MOVE && list.len() != 24 && !(service == REGISTER && spec_i_pt) {
        return Err(Code::PARAMETER_LIST_LENGTH.into());
    }
    if spec_i_pt && !matches!(service, REGISTER | REGISTER_AND_MOVE) {
        return Err(Fault::list_byte(20)); // SPEC_I_PT is for REGISTER only
    }
    match service {
        REGISTER | REGISTER_AND_IGNORE => parse_register(service, request, list),
        RESERVE => Ok(ReservationRequest::Reserve { kind: kind()? }),
        RELEASE => Ok(ReservationRequest::Release { kind: kind()? }),
        CLEAR => Ok(ReservationRequest::Clear),
        PREEMPT | PREEMPT_AND_ABORT => {
            Ok(ReservationRequest::Preempt { kind: kind().ok(), victim: list.u64(8) })
        }
        REGISTER_AND_MOVE => parse_move(request, list),
        // REPLACE LOST RESERVATION: registrations are saved with the data, so they can't be lost alone.
        _ => Err(Fault::cdb_bit(1, 4)),
    }
}

fn parse_register(service: u8, request: &Request<'_>, list: List<'_>) -> Result<ReservationRequest, Fault> {
    let flags = list.u8(20);
    let (spec_i_pt, all_ports, persists) = (flags & 0x08 != 0, flags & 0x04 != 0, flags & 0x01 != 0);
    let path = request.path;
    let mut initiators = vec![path.nexus.initiator.clone()];
    if spec_i_pt {
        let length = list.u32(24) as usize;
        if list.len() < 28 || list.len() - 28 != length {
            return Err(Code::PARAMETER_LIST_LENGTH.into());
        }
        let mut at = 28;
        while at < list.len() {
            let (initiator, used) = decode_same_transport(path, list, at)?;
            initiators.push(initiator);
            if initiators.len() > MAX_REGISTRANTS {
                return Err(Code::NO_REGISTRATION_RESOURCES.into());
            }
            at += used;
        }
    }
    let targets = if all_ports { path.unit.identity.ports.ports() } else { vec![path.port()] };
    let nexus =
        |initiator: &InitiatorPort, target_port| NexusName { initiator: initiator.clone(), target_port };
    let nexuses = initiators
        .iter()
        .flat_map(|initiator| targets.iter().map(move |target| nexus(initiator, *target)))
        .collect();
    let existing = (service == REGISTER).then(|| list.u64(0));
    Ok(ReservationRequest::Register { existing, key: list.u64(8), nexuses, all_ports, persists })
}

/// The parameter list of REGISTER AND MOVE (SPC-5 6.16.4).
fn parse_move(request: &Request<'_>, list: List<'_>) -> Result<ReservationRequest, Fault> {
    if list.len() < 24 || list.len() - 24 != list.u32(20) as usize {
        return Err(Code::PARAMETER_LIST_LENGTH.into());
    }
    let (key, target) = (list.u64(8), list.u16(18));
    if key == 0 {
        return Err(Fault::list_byte(8));
    }
    if !request.path.unit.identity.ports.ports().contains(&target) {
        return Err(Fault::list_byte(18));
    }
    let (initiator, used) = decode_same_transport(request.path, list, 24)?;
    if 24 + used != list.len() {
        return Err(Code::PARAMETER_LIST_LENGTH.into());
    }
    let flags = list.u8(17);
    let to = NexusName { initiator, target_port: target };
    Ok(ReservationRequest::Move { key, unregister: flags & 0x02 != 0, persists: flags & 0x01 != 0, to })
}

/// A service action whose parameters are decoded.
struct ServiceAction {
    path: Arc<Path>,
    key: u64,
    request: ReservationRequest,
    notes: Notes,
}

impl ServiceAction {
    fn evaluate(&self) -> Result<Change, Fault> {
        let state = self.path.unit.volume.state();
        state.registrations.evaluate(&self.path.nexus, self.key, &self.request).map_err(fault)
    }

    /// Evaluates the request, saves the new registrations if they must survive a loss of power or a takeover, and applies them.
    /// No other task of the unit runs at the same time, so nothing changes between these steps.
    async fn commit(self) -> Result<Completion, Fault> {
        let unit = &self.path.unit;
        let _lock = unit.volume.lock_state().await;
        let (change, state) = {
            let core = unit.lock();
            let change = self.evaluate()?;
            let must_save = unit.volume.state().must_save(&change.next);
            let raised = attentions(&core, &change);
            let next = Next { registrations: Some(&change.next), raised, ..Next::default() };
            let state = must_save.then(|| unit.encode_state(&core, next)).transpose()?;
            (change, state)
        };
        if let Some((state, scsi)) = state {
            unit.set_changed(true);
            unit.volume.disk().execute_with(Op::SaveState(state), self.notes.whole()).await?;
            unit.volume.state().set_scsi(scsi);
        }
        unit.volume.state().registrations = change.next.clone();
        unit.exports.reservations_changed(unit.id, &self.path.nexus, &change).await;
        Ok(Completion::default())
    }

    /// PREEMPT AND ABORT (SPC-5 5.14.11.5): the tasks of preempted nexuses are aborted instead of waited for, so a task
    /// that hangs can't keep its initiator from being fenced off.
    async fn abort_and_commit(self) -> Result<Completion, Fault> {
        let (entry, _) = self.path.enter_task_set(Class::Change);
        let (paths, status) = {
            let core = self.path.unit.lock();
            let preempted = self.evaluate()?.preempted;
            let chosen = |path: &&Arc<Path>| preempted.contains(&path.nexus);
            let paths: Vec<_> = core.paths.iter().filter(chosen).cloned().collect();
            (paths, core.pages.current().aborted_status())
        };
        for path in &paths {
            path.abort_all(status);
        }
        std::future::poll_fn(|context| entry.poll_dispatch(context)).await;
        self.commit().await
    }
}

/// The status or sense of a refused request, with the field that is wrong.
fn fault(refusal: Refusal) -> Fault {
    match refusal {
        Refusal::Conflict => Fault::CONFLICT,
        Refusal::TooManyRegistrants => Code::NO_REGISTRATION_RESOURCES.into(),
        Refusal::WrongType => Code::INVALID_RELEASE.into(),
        Refusal::UnknownType => Fault::cdb_bit(2, 3),
        Refusal::ZeroVictim => Fault::list_byte(8),
        Refusal::AlreadyRegistered => Fault::list_byte(20),
        Refusal::NothingToMove => Fault::cdb_bit(1, 4),
        Refusal::MoveToSelf => Fault::list_byte(24),
    }
}

/// Puts changed registrations in force on every path of a unit, and raises the unit attention conditions of the notices.
pub(crate) fn apply(core: &Core, change: &Change) {
    core.refresh();
    for (nexus, notice) in &change.notices {
        core.raise_unit_attention(code(*notice), |path| *path.nexus == *nexus);
    }
}

/// The unit attention conditions that a change raises for nexuses of front ends.
fn attentions(core: &Core, change: &Change) -> Vec<Attention> {
    let of = |nexus: &NexusName, code: Code| {
        let paths = core.paths.iter().filter(move |path| *path.nexus == *nexus);
        paths.filter_map(move |path| Some((path.origin?, code))).collect::<Vec<_>>()
    };
    change.notices.iter().flat_map(|(nexus, notice)| of(nexus, code(*notice))).collect()
}

/// The unit attention condition of a notice.
fn code(notice: Notice) -> Code {
    match notice {
        Notice::ReservationPreempted => Code::RESERVATIONS_PREEMPTED,
        Notice::ReservationReleased => Code::RESERVATIONS_RELEASED,
        Notice::RegistrationPreempted => Code::REGISTRATIONS_PREEMPTED,
    }
}
