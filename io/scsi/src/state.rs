//! What a unit saves with its disk: mode pages and, where APTPL asks for it, persistent reservations. The format is
//! drawn in `docs/format/unit-state.md`; numbers are little-endian.

use crate::InitiatorPort;
use crate::mode_pages::Pages;
use crate::reserve::{Held, Kind, Port, Registrant, Registry, Reservations};
use crate::sense::{Code, Fault};
use bytes::Bytes;

/// First byte of the state; another one is not ours.
const VERSION: u8 = 1;
/// The index of a holder where no single registrant holds the reservation.
const NOBODY: u16 = u16::MAX;

/// The state for a save.
pub(crate) fn store(reservations: &Reservations, pages: &Pages) -> Result<Bytes, Fault> {
    store_registry(&reservations.registry, pages)
}

/// The state for a save with a registry that is not current yet. Nothing is saved that a restart would not read back
/// as it is: a command that asks for such a state fails, and what was saved before stays.
pub(crate) fn store_registry(registry: &Registry, pages: &Pages) -> Result<Bytes, Fault> {
    let mut out = vec![VERSION];
    let images = pages.saved_bytes();
    out.extend_from_slice(&(images.len() as u16).to_le_bytes());
    out.extend_from_slice(&images);
    out.push(u8::from(registry.persists));
    if registry.persists {
        store_persistent(&mut out, registry);
    }
    let left = if registry.persists { registry.clone() } else { Registry::default() };
    match Reader(&out).state() {
        Some((found, saved)) if found == left && saved.saved_bytes() == images => Ok(out.into()),
        _ => {
            tracing::error!(
                length = out.len(),
                "a unit state would not be read back as it is; it is not saved"
            );
            Err(Code::INTERNAL_TARGET_FAILURE.into())
        }
    }
}

fn store_persistent(out: &mut Vec<u8>, registry: &Registry) {
    out.extend_from_slice(&registry.generation.to_le_bytes());
    let registrants = registry.registrants();
    let (kind, holder) = match registry.held() {
        None => (0, None),
        Some(held) => (held.kind as u8, held.holder.as_ref()),
    };
    let holder = holder.and_then(|port| registrants.iter().position(|other| other.port == *port));
    out.push(kind);
    out.extend_from_slice(&holder.map_or(NOBODY, |index| index as u16).to_le_bytes());
    out.extend_from_slice(&(registrants.len() as u16).to_le_bytes());
    for registrant in registrants {
        let Port { initiator, target } = &registrant.port;
        out.extend_from_slice(&registrant.key.to_le_bytes());
        out.extend_from_slice(&target.to_le_bytes());
        out.push(u8::from(registrant.all_ports));
        out.extend_from_slice(&initiator.isid);
        // A name of more than 255 bytes, which no iSCSI name has, is found by reading the state back.
        out.push(initiator.name.len() as u8);
        out.extend_from_slice(initiator.name.as_bytes());
    }
}

/// Reservations and pages from a saved state. None when it can't be understood: who held what is not known then.
pub(crate) fn load(bytes: &[u8]) -> Option<(Reservations, Pages)> {
    if bytes.is_empty() {
        return Some(Default::default());
    }
    Reader(bytes).state().map(|(registry, pages)| (Reservations::new(registry), pages))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The whole state, understood to its last byte.
    fn state(mut self) -> Option<(Registry, Pages)> {
        if self.u8()? != VERSION {
            return None;
        }
        let images = self.u16()?;
        let pages = Pages::from_saved(self.take(images.into())?)?;
        let registry = match self.u8()? {
            0 => Registry::default(),
            1 => self.registry()?,
            _ => return None,
        };
        self.0.is_empty().then_some((registry, pages))
    }

    fn registry(&mut self) -> Option<Registry> {
        let generation = self.array().map(u32::from_le_bytes)?;
        let kind = self.u8()?;
        let (holder, count) = (self.u16()?, self.u16()?);
        let registrants: Vec<_> = (0..count).map(|_| self.registrant()).collect::<Option<_>>()?;
        let held = match (kind, holder) {
            (0, NOBODY) => None,
            (kind, holder) => {
                let kind = Kind::from_code(kind)?;
                let port = registrants.get(usize::from(holder)).map(|registrant| registrant.port.clone());
                let fits = if kind.is_shared() { holder == NOBODY } else { port.is_some() };
                fits.then_some(Some(Held { kind, holder: port }))?
            }
        };
        Some(Registry::restore(generation, registrants, held))
    }

    fn registrant(&mut self) -> Option<Registrant> {
        let key = self.array().map(u64::from_le_bytes)?;
        let target = self.u16()?;
        let all_ports = match self.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let isid = self.array()?;
        let length = self.u8()?;
        let name = std::str::from_utf8(self.take(length.into())?).ok()?.to_owned();
        Some(Registrant { port: Port { initiator: InitiatorPort { name, isid }, target }, key, all_ports })
    }
}

#[cfg(test)]
#[path = "state_test.rs"]
mod tests;
