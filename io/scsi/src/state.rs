//! What a unit saves with its disk: mode pages and, where APTPL asks for it, persistent reservations. The format is
//! drawn in `docs/format/unit-state.md`; numbers are little-endian.

use crate::InitiatorPort;
use crate::mode::Pages;
use crate::reserve::{Held, Kind, Port, Registrant, Registry, Reservations};
use bytes::Bytes;

/// First byte of the state; another one is not ours.
const VERSION: u8 = 1;

/// The state for a save.
pub(crate) fn store(reservations: &Reservations, pages: &Pages) -> Bytes {
    store_registry(&reservations.registry, pages)
}

/// The state for a save with a registry that is not current yet.
pub(crate) fn store_registry(registry: &Registry, pages: &Pages) -> Bytes {
    let mut out = vec![VERSION];
    let images = pages.saved_bytes();
    out.extend_from_slice(&(images.len() as u16).to_le_bytes());
    out.extend_from_slice(&images);
    out.push(u8::from(registry.persists));
    if registry.persists {
        store_persistent(&mut out, registry);
    }
    out.into()
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
    out.extend_from_slice(&holder.map_or(u16::MAX, |index| index as u16).to_le_bytes());
    out.extend_from_slice(&(registrants.len() as u16).to_le_bytes());
    for registrant in registrants {
        let Port { initiator, target } = &registrant.port;
        out.extend_from_slice(&registrant.key.to_le_bytes());
        out.extend_from_slice(&target.to_le_bytes());
        out.push(u8::from(registrant.all_ports));
        out.extend_from_slice(&initiator.isid);
        out.push(initiator.name.len().min(255) as u8);
        out.extend_from_slice(initiator.name.as_bytes().get(..255).unwrap_or(initiator.name.as_bytes()));
    }
}

/// Reservations and pages from a saved state. Of a state that can't be understood nothing is taken.
pub(crate) fn load(bytes: &[u8]) -> (Reservations, Pages) {
    match Reader(bytes).state() {
        Some((registry, pages)) => (Reservations::new(registry), pages),
        None => {
            if !bytes.is_empty() {
                tracing::error!(length = bytes.len(), "unit state is not understood; starting without");
            }
            Default::default()
        }
    }
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

    fn state(mut self) -> Option<(Registry, Pages)> {
        if self.u8()? != VERSION {
            return None;
        }
        let images = self.u16()?;
        let pages = Pages::from_saved(self.take(images.into())?);
        let registry = match self.u8()? {
            0 => Registry::default(),
            _ => self.registry()?,
        };
        Some((registry, pages))
    }

    fn registry(&mut self) -> Option<Registry> {
        let generation = self.array().map(u32::from_le_bytes)?;
        let kind = self.u8()?;
        let (holder, count) = (self.u16()?, self.u16()?);
        let registrants: Vec<_> = (0..count).map(|_| self.registrant()).collect::<Option<_>>()?;
        let held = Kind::from_code(kind).map(|kind| {
            let holder = registrants.get(usize::from(holder)).map(|registrant| registrant.port.clone());
            Held { kind, holder: holder.filter(|_| !kind.is_shared()) }
        });
        Some(Registry::restore(generation, registrants, held))
    }

    fn registrant(&mut self) -> Option<Registrant> {
        let key = self.array().map(u64::from_le_bytes)?;
        let target = self.u16()?;
        let all_ports = self.u8()? != 0;
        let isid = self.array()?;
        let length = self.u8()?;
        let name = std::str::from_utf8(self.take(length.into())?).ok()?.to_owned();
        Some(Registrant { port: Port { initiator: InitiatorPort { name, isid }, target }, key, all_ports })
    }
}

#[cfg(test)]
#[path = "state_test.rs"]
mod tests;
