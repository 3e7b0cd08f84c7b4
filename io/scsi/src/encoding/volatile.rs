//! State of a unit that ends with the power of the target, as it is saved for a takeover: current mode pages, the SCSI-2
//! reservation and unit attention conditions of nexuses that come by other controllers.
//!
//! Another home has it in force when it opens the volume. A nexus that its front end resumes there continues as if nothing had
//! happened. The bytes are specified in `docs/format/unit-state.md`.

use crate::encoding::sense::Code;
use bytes::Bytes;
use export::Reader;

const VERSION: u8 = 1;

/// Maximum number of unit attention conditions that are saved. Beyond them a reset of the unit is reported to every
/// resumed nexus.
const MAX_ATTENTIONS: usize = 512;

/// Flags: a nexus holds the SCSI-2 reservation; there were too many unit attention conditions.
const RESERVED: u8 = 1;
const OVERFLOWED: u8 = 2;

/// Unit attention conditions that are saved. The others are raised again where they hold, or say that a nexus is new.
const CODES: [Code; 10] = [
    Code::MEDIUM_MAY_HAVE_CHANGED,
    Code::BUS_DEVICE_RESET,
    Code::NEXUS_LOSS,
    Code::MODE_CHANGED,
    Code::RESERVATIONS_PREEMPTED,
    Code::RESERVATIONS_RELEASED,
    Code::REGISTRATIONS_PREEMPTED,
    Code::CAPACITY_CHANGED,
    Code::COMMANDS_CLEARED,
    Code::LUNS_CHANGED,
];

/// A nexus of a front end: it keeps this name over any number of homes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The front end's process.
    pub front: u64,
    /// The nexus there.
    pub nexus: u32,
}

/// Whether a unit attention condition is saved.
pub(crate) fn is_saved(code: Code) -> bool {
    CODES.contains(&code)
}

/// A pending unit attention condition of a nexus.
pub(crate) type Attention = (Origin, Code);

/// The saved state of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volatile {
    /// Images of the current mode pages; empty if they are the saved ones.
    pub(crate) pages: Vec<u8>,
    /// The holder of the SCSI-2 reservation.
    pub(crate) holder: Option<Origin>,
    pub(crate) attentions: Vec<Attention>,
    /// There were more than are saved.
    pub(crate) overflowed: bool,
}

impl Volatile {
    /// The bytes; none if there is nothing to save.
    pub(crate) fn encode(&self) -> Bytes {
        if *self == Volatile::default() {
            return Bytes::new();
        }
        let is_too_many = self.attentions.len() > MAX_ATTENTIONS;
        let overflowed = self.overflowed || is_too_many;
        let flags =
            if self.holder.is_some() { RESERVED } else { 0 } | if overflowed { OVERFLOWED } else { 0 };
        let attentions = if is_too_many { &[][..] } else { &self.attentions };
        let mut out = vec![VERSION, flags];
        self.holder.iter().for_each(|holder| put_origin(&mut out, *holder));
        out.extend_from_slice(&(self.pages.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.pages);
        out.extend_from_slice(&(attentions.len() as u16).to_le_bytes());
        for (origin, code) in attentions {
            put_origin(&mut out, *origin);
            out.extend_from_slice(&[code.key, code.asc, code.ascq]);
        }
        out.into()
    }

    /// Decodes a state; `None` if it can't be understood as a whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Volatile> {
        if bytes.is_empty() {
            return Some(Volatile::default());
        }
        let mut from = Reader(bytes);
        let [version, flags] = from.array()?;
        if version != VERSION || flags & !(RESERVED | OVERFLOWED) != 0 {
            return None;
        }
        let holder = if flags & RESERVED != 0 { Some(take_origin(&mut from)?) } else { None };
        let length = from.array().map(u16::from_le_bytes)?;
        let pages = from.take(length.into())?.to_vec();
        let count = from.array().map(u16::from_le_bytes)?;
        let attentions = (0..count).map(|_| take_attention(&mut from)).collect::<Option<_>>()?;
        let overflowed = flags & OVERFLOWED != 0;
        from.0.is_empty().then_some(Volatile { pages, holder, attentions, overflowed })
    }
}

fn put_origin(out: &mut Vec<u8>, origin: Origin) {
    out.extend_from_slice(&origin.front.to_le_bytes());
    out.extend_from_slice(&origin.nexus.to_le_bytes());
}

fn take_origin(from: &mut Reader<'_>) -> Option<Origin> {
    let front = from.array().map(u64::from_le_bytes)?;
    Some(Origin { front, nexus: from.array().map(u32::from_le_bytes)? })
}

fn take_attention(from: &mut Reader<'_>) -> Option<Attention> {
    let origin = take_origin(from)?;
    let [key, asc, ascq] = from.array()?;
    let code = CODES.into_iter().find(|code| (code.key, code.asc, code.ascq) == (key, asc, ascq))?;
    Some((origin, code))
}

#[cfg(test)]
#[path = "volatile_test.rs"]
mod tests;
