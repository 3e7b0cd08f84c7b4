//! PERSISTENT RESERVE IN and OUT (SPC-5 6.15, 6.16): parameter data on both sides of the registry.

use super::registry::{Action, Kind, MAX_REGISTRANTS, Outcome, Port, Registry};
use crate::cdb::List;
use crate::command::{Completion, Flow, Request};
use crate::sense::{Code, Fault};
use crate::task_set::Class;
use crate::unit::{Core, Path};
use crate::{InitiatorPort, iscsi_name, state};
use block::Op;
use std::sync::Arc;

/// PERSISTENT RESERVE IN
pub(crate) fn persistent_in(request: Request<'_>) -> Result<Flow, Fault> {
    let core = request.path.unit.lock();
    let registry = &core.reservations.registry;
    let body = match request.row.action {
        Some(0x00) => read_keys(registry),
        Some(0x01) => read_reservation(registry),
        Some(0x02) => return Ok(Flow::data(capabilities(registry))),
        _ => read_full_status(registry),
    };
    let mut out = registry.generation.to_be_bytes().to_vec();
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(&body);
    Ok(Flow::data(out))
}

fn read_keys(registry: &Registry) -> Vec<u8> {
    registry.registrants().iter().flat_map(|registrant| registrant.key.to_be_bytes()).collect()
}

fn read_reservation(registry: &Registry) -> Vec<u8> {
    let Some(held) = registry.held() else { return Vec::new() };
    let key = held.holder.as_ref().and_then(|holder| registry.key(holder)).unwrap_or(0);
    let mut out = key.to_be_bytes().to_vec();
    out.extend_from_slice(&[0, 0, 0, 0, 0, held.kind as u8, 0, 0]);
    out
}

fn capabilities(registry: &Registry) -> Vec<u8> {
    // SIP_C, ATP_C, PTPL_C; TMV, and PTPL_A as it is; every type there is.
    vec![0, 8, 0x0D, 0x80 | u8::from(registry.persists), 0xEA, 0x01, 0, 0]
}

fn read_full_status(registry: &Registry) -> Vec<u8> {
    let mut out = Vec::new();
    for registrant in registry.registrants() {
        let holds = registry.holds(&registrant.port);
        let kind = registry.held().filter(|_| holds).map_or(0, |held| held.kind as u8);
        let id = transport_id(&registrant.port.initiator);
        out.extend_from_slice(&registrant.key.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&[u8::from(registrant.all_ports) << 1 | u8::from(holds), kind]);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&registrant.port.target.to_be_bytes());
        out.extend_from_slice(&(id.len() as u32).to_be_bytes());
        out.extend_from_slice(&id);
    }
    out
}

/// The TransportID of an iSCSI initiator port: format 01b, "name,i,0xISID" (SPC-5 7.6.4.6).
fn transport_id(initiator: &InitiatorPort) -> Vec<u8> {
    let isid = initiator.isid.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let mut name = format!("{},i,0x{isid}", initiator.name).into_bytes();
    name.resize((name.len() / 4 + 1).max(5) * 4, 0);
    let mut out = vec![0x45, 0];
    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    out.extend_from_slice(&name);
    out
}

/// The initiator port of an iSCSI TransportID, and the length of it. Format 00b names no port: it can't be
/// registered here, where registrations are of ports.
fn parse_transport_id(list: List<'_>, at: usize) -> Result<(InitiatorPort, usize), Fault> {
    let length = usize::from(list.u16(at + 2));
    let bytes = list.sub(at + 4, length).ok_or(Fault::from(Code::PARAMETER_LIST_LENGTH))?;
    if list.u8(at) != 0x45 || length % 4 != 0 {
        return Err(Fault::list_byte(at));
    }
    let text = bytes.0.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let port = std::str::from_utf8(text).ok().and_then(|text| {
        let (name, isid) = text.split_once(",i,0x").or_else(|| text.split_once(",i,0X"))?;
        let is_isid =
            !isid.is_empty() && isid.len() <= 12 && isid.bytes().all(|digit| digit.is_ascii_hexdigit());
        let [_, _, isid @ ..] = u64::from_str_radix(isid, 16).ok().filter(|_| is_isid)?.to_be_bytes();
        Some(InitiatorPort { name: iscsi_name(name)?, isid })
    });
    port.map(|port| (port, 4 + length)).ok_or(Fault::list_byte(at + 4))
}

/// PERSISTENT RESERVE OUT
pub(crate) fn persistent_out(request: Request<'_>) -> Result<Flow, Fault> {
    let service = request.row.action.unwrap_or(0xFF);
    let bytes = request.data.to_bytes();
    let list = List(&bytes);
    let action = parse(service, &request, list)?;
    let order = Order { path: request.path.clone(), key: list.u64(0), action };
    if service == PREEMPT_AND_ABORT {
        return Ok(Flow::later(order.abort_and_commit()));
    }
    Ok(Flow::later(order.commit()))
}

const REGISTER: u8 = 0x00;
const RESERVE: u8 = 0x01;
const RELEASE: u8 = 0x02;
const CLEAR: u8 = 0x03;
const PREEMPT: u8 = 0x04;
const PREEMPT_AND_ABORT: u8 = 0x05;
const REGISTER_AND_IGNORE: u8 = 0x06;
const REGISTER_AND_MOVE: u8 = 0x07;

/// The action that CDB and parameter list ask for.
fn parse(service: u8, request: &Request<'_>, list: List<'_>) -> Result<Action, Fault> {
    let kind = || Kind::from_code(request.cdb.u8(2) & 0x0F).ok_or(Fault::cdb_bit(2, 3));
    if request.cdb.u8(2) >> 4 != 0 && !matches!(service, REGISTER | REGISTER_AND_IGNORE | CLEAR) {
        return Err(Fault::cdb_bit(2, 7)); // the scope is the logical unit
    }
    let flags = list.u8(20);
    let specific = flags & 0x08 != 0;
    if service != REGISTER_AND_MOVE && list.len() != 24 && !(service == REGISTER && specific) {
        return Err(Code::PARAMETER_LIST_LENGTH.into());
    }
    if specific && !matches!(service, REGISTER | REGISTER_AND_MOVE) {
        return Err(Fault::list_byte(20)); // SPEC_I_PT is for REGISTER only
    }
    match service {
        REGISTER | REGISTER_AND_IGNORE => parse_register(service, request, list),
        RESERVE => Ok(Action::Reserve { kind: kind()? }),
        RELEASE => Ok(Action::Release { kind: kind()? }),
        CLEAR => Ok(Action::Clear),
        PREEMPT | PREEMPT_AND_ABORT => Ok(Action::Preempt { kind: kind().ok(), victim: list.u64(8) }),
        REGISTER_AND_MOVE => parse_move(request, list),
        // REPLACE LOST RESERVATION: what is saved here is saved with the data, so it is never lost alone.
        _ => Err(Fault::cdb_bit(1, 4)),
    }
}

fn parse_register(service: u8, request: &Request<'_>, list: List<'_>) -> Result<Action, Fault> {
    let flags = list.u8(20);
    let (specific, all_ports, persists) = (flags & 0x08 != 0, flags & 0x04 != 0, flags & 0x01 != 0);
    let path = request.path;
    let mut initiators = vec![(*path.initiator).clone()];
    if specific {
        let length = list.u32(24) as usize;
        if list.len() < 28 || list.len() - 28 != length {
            return Err(Code::PARAMETER_LIST_LENGTH.into());
        }
        let mut at = 28;
        while at < list.len() {
            let (initiator, used) = parse_transport_id(list, at)?;
            initiators.push(initiator);
            if initiators.len() > MAX_REGISTRANTS {
                return Err(Code::NO_REGISTRATION_RESOURCES.into());
            }
            at += used;
        }
    }
    let targets = if all_ports { 1..=path.unit.identity.ports } else { path.port..=path.port };
    let port = |initiator: &InitiatorPort, target| Port { initiator: initiator.clone(), target };
    let ports = initiators
        .iter()
        .flat_map(|initiator| targets.clone().map(move |target| port(initiator, target)))
        .collect();
    let existing = (service == REGISTER).then(|| list.u64(0));
    Ok(Action::Register { existing, key: list.u64(8), ports, all_ports, persists })
}

/// The parameter list of REGISTER AND MOVE (SPC-5 6.16.4).
fn parse_move(request: &Request<'_>, list: List<'_>) -> Result<Action, Fault> {
    if list.len() < 24 || list.len() - 24 != list.u32(20) as usize {
        return Err(Code::PARAMETER_LIST_LENGTH.into());
    }
    let (key, target) = (list.u64(8), list.u16(18));
    if key == 0 {
        return Err(Fault::list_byte(8));
    }
    if target == 0 || target > request.path.unit.identity.ports {
        return Err(Fault::list_byte(18));
    }
    let (initiator, used) = parse_transport_id(list, 24)?;
    if 24 + used != list.len() {
        return Err(Code::PARAMETER_LIST_LENGTH.into());
    }
    let flags = list.u8(17);
    let to = Port { initiator, target };
    Ok(Action::Move { key, unregister: flags & 0x02 != 0, persists: flags & 0x01 != 0, to })
}

/// A service action on its way.
struct Order {
    path: Arc<Path>,
    key: u64,
    action: Action,
}

impl Order {
    fn judge(&self, core: &Core) -> Result<Outcome, Fault> {
        core.reservations.registry.perform(&Port::of(&self.path), self.key, &self.action)
    }

    /// Performs the action: judged, saved where it must outlive a loss of power, then made current. It stands
    /// alone in the order of the unit's tasks, so nothing changes between these steps.
    async fn commit(self) -> Result<Completion, Fault> {
        let unit = &self.path.unit;
        let (outcome, state) = {
            let core = unit.lock();
            let outcome = self.judge(&core)?;
            let changes = core.reservations.registry.must_save(&outcome.next);
            let state = changes.then(|| state::store_registry(&outcome.next, &core.pages)).transpose()?;
            (outcome, state)
        };
        if let Some(state) = state {
            unit.disk.execute(Op::SaveState(state)).await?;
        }
        let mut core = unit.lock();
        core.reservations.registry = outcome.next;
        core.refresh();
        for (port, code) in &outcome.notices {
            core.raise_unit_attention(*code, |path| port.is(path));
        }
        Ok(Completion::default())
    }

    /// PREEMPT AND ABORT (SPC-5 5.14.11.5): the tasks of the preempted are not waited for but aborted, so a task that
    /// hangs can't keep its initiator from being fenced off.
    async fn abort_and_commit(self) -> Result<Completion, Fault> {
        let (pass, _) = self.path.enter(Class::Change);
        let (paths, status) = {
            let core = self.path.unit.lock();
            let preempted = self.judge(&core)?.preempted;
            let chosen = |path: &&Arc<Path>| preempted.iter().any(|port| port.is(path));
            let paths: Vec<_> = core.paths.iter().filter(chosen).cloned().collect();
            (paths, core.pages.current().aborted_status())
        };
        for path in &paths {
            path.abort_all(status);
        }
        std::future::poll_fn(|context| pass.poll_dispatch(context)).await;
        self.commit().await
    }
}

impl Registry {
    /// Whether the change to `next` concerns what is saved.
    fn must_save(&self, next: &Registry) -> bool {
        (self.persists || next.persists) && self != next
    }
}
