//! Saved state of a volume: persistent registrations (APTPL) and SCSI mode pages, as stored with its disk, and volatile
//! state, which survives a takeover.
//!
//! `docs/format/unit-state.md` specifies the format; numbers are little-endian. All versions from the oldest to the
//! current one are read. A state is written in the oldest version that can hold it, so that an earlier release can read
//! it, too.

use crate::initiator::{InitiatorPort, NexusName};
use crate::reservation::{Registrant, Registrations, Reservation, ReservationType};
use bytes::Bytes;

/// Oldest version that is read: a fixed sequence of fields, for iSCSI initiators only.
pub const OLDEST_STATE_VERSION: u8 = 1;

/// Newest version that is read and written: records with a type and a length.
pub const CURRENT_STATE_VERSION: u8 = 2;

/// Index of the holder if no single registrant holds the reservation.
const NO_HOLDER: u16 = u16::MAX;

/// Record types of version 2.
const MODE_PAGES: u16 = 1;
const REGISTRATIONS: u16 = 2;
const VOLATILE: u16 = 3;

/// Transports of initiator ports in version 2.
const ISCSI: u8 = 1;
const NVME: u8 = 2;
const FIBRE_CHANNEL: u8 = 3;
const SAS: u8 = 4;
const SRP: u8 = 5;

/// A state that can't be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a unit state of {length} bytes would not be decoded as it is; it is not saved")]
pub struct StateError {
    /// Length of the encoded state in bytes.
    pub length: usize,
}

/// A record of a type unknown to this release. It is ignored, and kept when the state is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    kind: u16,
    body: Bytes,
}

/// A decoded state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedState {
    pub(crate) registrations: Registrations,
    /// Concatenated SCSI mode page images, opaque here.
    pub(crate) mode_pages: Bytes,
    /// State that ends when the target loses power.
    pub(crate) volatile: Option<Volatile>,
    pub(crate) unknown: Vec<Record>,
}

/// State that ends when the target loses power, saved for a takeover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volatile {
    /// The power-on.
    pub(crate) power_on: u64,
    /// Registrations that do not persist.
    pub(crate) registrations: Option<Registrations>,
    /// State of the SCSI front end, opaque here.
    pub(crate) scsi: Bytes,
}

impl Volatile {
    fn encode(&self) -> Vec<u8> {
        let mut out = self.power_on.to_le_bytes().to_vec();
        out.extend_from_slice(&(self.scsi.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.scsi);
        if let Some(registrations) = &self.registrations {
            encode_registrations(&mut out, registrations, encode_initiator);
        }
        out
    }
}

impl SavedState {
    /// The bytes to save. Registrations that do not persist are left out, except in the volatile state.
    pub(crate) fn encode(&self) -> Result<Bytes, StateError> {
        let mut wanted = self.clone();
        if !wanted.registrations.persists {
            wanted.registrations = Registrations::default();
        }
        let out = if wanted.fits_version_1() { wanted.encode_version_1() } else { wanted.encode_version_2() };
        match SavedState::decode(&out) {
            Some(decoded) if decoded == wanted => Ok(out.into()),
            _ => {
                let error = StateError { length: out.len() };
                tracing::error!("{error}");
                Err(error)
            }
        }
    }

    /// Decodes a state. `None` if a part can't be decoded: the write permissions are unknown then.
    pub(crate) fn decode(bytes: &[u8]) -> Option<SavedState> {
        let Some((version, body)) = bytes.split_first() else { return Some(SavedState::default()) };
        match *version {
            OLDEST_STATE_VERSION => Reader(body).version_1(),
            CURRENT_STATE_VERSION => Reader(body).version_2(),
            _ => None,
        }
    }

    fn fits_version_1(&self) -> bool {
        let is_iscsi =
            |registrant: &Registrant| matches!(registrant.nexus.initiator, InitiatorPort::Iscsi { .. });
        self.unknown.is_empty()
            && self.volatile.is_none()
            && self.registrations.registrants().iter().all(is_iscsi)
    }

    fn encode_version_1(&self) -> Vec<u8> {
        let mut out = vec![OLDEST_STATE_VERSION];
        out.extend_from_slice(&(self.mode_pages.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.mode_pages);
        out.push(u8::from(self.registrations.persists));
        if self.registrations.persists {
            encode_registrations(&mut out, &self.registrations, |out, initiator| {
                if let InitiatorPort::Iscsi { name, isid } = initiator {
                    out.extend_from_slice(isid);
                    // The encoder detects a name over 255 bytes, which is not a valid iSCSI name, by decoding.
                    out.push(name.len() as u8);
                    out.extend_from_slice(name.as_bytes());
                }
            });
        }
        out
    }

    fn encode_version_2(&self) -> Vec<u8> {
        let mut out = vec![CURRENT_STATE_VERSION];
        encode_record(&mut out, MODE_PAGES, &self.mode_pages);
        if self.registrations.persists {
            let mut body = Vec::new();
            encode_registrations(&mut body, &self.registrations, encode_initiator);
            encode_record(&mut out, REGISTRATIONS, &body);
        }
        if let Some(volatile) = &self.volatile {
            encode_record(&mut out, VOLATILE, &volatile.encode());
        }
        for record in &self.unknown {
            encode_record(&mut out, record.kind, &record.body);
        }
        out
    }
}

fn encode_record(out: &mut Vec<u8>, kind: u16, body: &[u8]) {
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(body);
}

fn encode_registrations(
    out: &mut Vec<u8>,
    registrations: &Registrations,
    encode_initiator: impl Fn(&mut Vec<u8>, &InitiatorPort),
) {
    out.extend_from_slice(&registrations.generation.to_le_bytes());
    let registrants = registrations.registrants();
    let (kind, holder) = match registrations.reservation() {
        None => (0, None),
        Some(reservation) => (reservation.kind as u8, reservation.holder.as_ref()),
    };
    let holder = holder.and_then(|nexus| registrants.iter().position(|other| other.nexus == *nexus));
    out.push(kind);
    out.extend_from_slice(&holder.map_or(NO_HOLDER, |index| index as u16).to_le_bytes());
    out.extend_from_slice(&(registrants.len() as u16).to_le_bytes());
    for registrant in registrants {
        out.extend_from_slice(&registrant.key.to_le_bytes());
        out.extend_from_slice(&registrant.nexus.target_port.to_le_bytes());
        out.push(u8::from(registrant.all_ports));
        encode_initiator(out, &registrant.nexus.initiator);
    }
}

/// An initiator port of version 2: transport, fixed part, length of the name, name.
fn encode_initiator(out: &mut Vec<u8>, initiator: &InitiatorPort) {
    let mut put = |transport: u8, fixed: &[u8], name: &str| {
        out.push(transport);
        out.extend_from_slice(fixed);
        out.push(name.len() as u8);
        out.extend_from_slice(name.as_bytes());
    };
    match initiator {
        InitiatorPort::Iscsi { name, isid } => put(ISCSI, isid, name),
        InitiatorPort::Nvme { nqn, host_id } => put(NVME, host_id, nqn),
        InitiatorPort::FibreChannel { wwpn } => put(FIBRE_CHANNEL, &wwpn.to_be_bytes(), ""),
        InitiatorPort::Sas { address } => put(SAS, &address.to_be_bytes(), ""),
        InitiatorPort::Srp { port } => put(SRP, port, ""),
    }
}

/// The remaining saved bytes.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `len` bytes; `None` if there are fewer.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    /// The next `N` bytes; `None` if there are fewer.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn version_1(mut self) -> Option<SavedState> {
        let length = self.u16()?;
        let mode_pages = Bytes::copy_from_slice(self.take(length.into())?);
        let registrations = match self.u8()? {
            0 => Registrations::default(),
            1 => self.registrations(|reader| {
                let isid = reader.array()?;
                Some(InitiatorPort::Iscsi { isid, name: reader.name()? })
            })?,
            _ => return None,
        };
        let state = SavedState { registrations, mode_pages, ..SavedState::default() };
        self.0.is_empty().then_some(state)
    }

    fn version_2(mut self) -> Option<SavedState> {
        let mut state = SavedState::default();
        let mut seen = Vec::new();
        while !self.0.is_empty() {
            let kind = self.u16()?;
            let length = self.array().map(u32::from_le_bytes)?;
            let body = self.take(usize::try_from(length).ok()?)?;
            if matches!(kind, MODE_PAGES | REGISTRATIONS | VOLATILE) && seen.contains(&kind) {
                return None;
            }
            seen.push(kind);
            match kind {
                MODE_PAGES => state.mode_pages = Bytes::copy_from_slice(body),
                REGISTRATIONS => {
                    let mut body = Reader(body);
                    state.registrations = body.registrations(Reader::initiator)?;
                    body.0.is_empty().then_some(())?;
                }
                VOLATILE => state.volatile = Some(Reader(body).volatile()?),
                _ => state.unknown.push(Record { kind, body: Bytes::copy_from_slice(body) }),
            }
        }
        Some(state)
    }

    fn volatile(mut self) -> Option<Volatile> {
        let power_on = self.array().map(u64::from_le_bytes)?;
        let length = self.array().map(u32::from_le_bytes)?;
        let scsi = Bytes::copy_from_slice(self.take(usize::try_from(length).ok()?)?);
        let registrations = match self.0.is_empty() {
            true => None,
            false => {
                let mut registrations = self.registrations(Reader::initiator)?;
                registrations.persists = false;
                Some(registrations)
            }
        };
        self.0.is_empty().then_some(Volatile { power_on, registrations, scsi })
    }

    fn registrations(
        &mut self,
        initiator: impl Fn(&mut Self) -> Option<InitiatorPort>,
    ) -> Option<Registrations> {
        let generation = self.array().map(u32::from_le_bytes)?;
        let kind = self.u8()?;
        let (holder, count) = (self.u16()?, self.u16()?);
        let registrants: Vec<_> = (0..count).map(|_| self.registrant(&initiator)).collect::<Option<_>>()?;
        let reservation = match (kind, holder) {
            (0, NO_HOLDER) => None,
            (kind, holder) => {
                let kind = ReservationType::from_code(kind)?;
                let nexus = registrants.get(usize::from(holder)).map(|registrant| registrant.nexus.clone());
                let fits = if kind.is_shared() { holder == NO_HOLDER } else { nexus.is_some() };
                fits.then_some(Some(Reservation { kind, holder: nexus }))?
            }
        };
        Some(Registrations::restore(generation, registrants, reservation))
    }

    fn registrant(&mut self, initiator: impl Fn(&mut Self) -> Option<InitiatorPort>) -> Option<Registrant> {
        let key = self.array().map(u64::from_le_bytes)?;
        let target_port = self.u16()?;
        let all_ports = match self.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let nexus = NexusName { initiator: initiator(self)?, target_port };
        Some(Registrant { nexus, key, all_ports })
    }

    fn initiator(&mut self) -> Option<InitiatorPort> {
        let transport = self.u8()?;
        let (initiator, is_named) = match transport {
            ISCSI => {
                let isid = self.array()?;
                return Some(InitiatorPort::Iscsi { isid, name: self.name()? });
            }
            NVME => {
                let host_id = self.array()?;
                return Some(InitiatorPort::Nvme { host_id, nqn: self.name()? });
            }
            FIBRE_CHANNEL => {
                let wwpn = self.array().map(u64::from_be_bytes)?;
                (InitiatorPort::FibreChannel { wwpn }, !self.name()?.is_empty())
            }
            SAS => {
                let address = self.array().map(u64::from_be_bytes)?;
                (InitiatorPort::Sas { address }, !self.name()?.is_empty())
            }
            SRP => (InitiatorPort::Srp { port: self.array()? }, !self.name()?.is_empty()),
            _ => return None,
        };
        (!is_named).then_some(initiator)
    }

    fn name(&mut self) -> Option<String> {
        let length = self.u8()?;
        Some(std::str::from_utf8(self.take(length.into())?).ok()?.to_owned())
    }
}

#[cfg(test)]
#[path = "state_test.rs"]
mod tests;
