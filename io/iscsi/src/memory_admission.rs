//! Memory admission of PDUs and commands: a connection is charged before memory is used for it.
//!
//! The charge of a session is the sum of early requests, commands with their data, texts, the arriving PDU, and
//! unsent responses. It is computed from counters of these parts, and only beyond the session's guarantee does it
//! draw from the budget of all connections ([`transport::Budget`]).
//!
//! A PDU without room is not read, and neither is any later one, until responses are sent or commands end. If that
//! could deadlock, because requested data follows the PDU in the stream, it is refused without its data: a command with
//! TASK SET FULL.

use crate::pdu::incoming::Pdu;
use crate::pdu::{Header, NO_TAG, opcode};
use crate::session::{Session, SessionEnd, WRITE, extended_cdb};
use crate::transfer::Claim;
use crate::wire::{WindowPosition, Wire};
use bytes::Bytes;
use scsi::{Lun, TransferBound};
use transport::Guarantee;

/// Guarantee of a connection before login and of a discovery session, in bytes: its receive buffer, one text in each
/// direction, and responses up to [`LOGIN_MAX_UNSENT_BYTES`].
pub(crate) const LOGIN_GUARANTEE_BYTES: u64 = 128 << 10;
/// Unsent responses of a connection before login, or of a discovery session, in bytes.
pub(crate) const LOGIN_MAX_UNSENT_BYTES: u64 = 32 << 10;
/// Charge of a session that its guarantee covers, in bytes.
pub(crate) const SESSION_GUARANTEE_BYTES: u64 = 512 << 10;
/// Unsent responses without data and small pings of a session, which are never charged, in bytes.
const SESSION_UNCHARGED_UNSENT_BYTES: u64 = 64 << 10;
/// Guarantee of a session: covered charge, uncharged responses, and receive buffer.
pub(crate) const SESSION_GUARANTEE: Guarantee = Guarantee {
    total_bytes: SESSION_GUARANTEE_BYTES
        + SESSION_UNCHARGED_UNSENT_BYTES
        + transport::LARGE_BUFFER_BYTES as u64,
    covered_bytes: SESSION_GUARANTEE_BYTES,
};

/// Bytes that a session is guaranteed, whatever others hold; it holds them only while it uses them.
pub const SESSION_MAX_GUARANTEED_BYTES: u64 = SESSION_GUARANTEE.total_bytes;

/// Upper bound of the records of one command in bytes.
const RECORD_BYTES: u64 = 1 << 10;
/// Upper bound of the record of a command that is not admitted, or of an early request.
pub(crate) const WAITING_RECORD_BYTES: u64 = 512;
/// Upper bound of the record of a response without data.
const ANSWER_BYTES: u64 = 128;

/// Admission decision for a PDU whose header has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// Receive the PDU, with this charge in bytes.
    Take(u64),
    /// Receive the PDU without its data.
    Skip,
    /// Receive the PDU when there is room.
    Wait,
}

/// A claim, with the header of its command.
pub(crate) type Claimed = Option<(Header, Claim)>;

impl Session {
    /// The charge of the session in bytes. It always includes the records of as many waiting commands as the window
    /// allows, so that admitted commands leave room for them.
    pub(crate) fn held(&self, wire: &Wire) -> u64 {
        self.early_bytes
            + self.transfers.charge()
            + self.waiting_room.saturating_sub(self.waiting_bytes())
            + self.tasks.charge()
            + self.exchange.held()
            + wire.incoming.arriving()
            + wire.out.len() as u64
    }

    /// Decides whether a PDU is received. The charge reserves the room until it is received.
    pub(crate) fn admit(&mut self, wire: &mut Wire, header: &Header) -> Result<Admit, SessionEnd> {
        if header.opcode() == opcode::DATA_OUT {
            return Ok(match self.transfers.expects(header) {
                true => Admit::Take(0),
                false => self.admit_answer(wire),
            });
        }
        if !header.immediate() && header.opcode() != opcode::SNACK {
            match self.window.position(header.cmd_sn()) {
                WindowPosition::Expected => {}
                WindowPosition::Outside => return Ok(Admit::Skip),
                WindowPosition::Ahead => return self.admit_early(wire, header),
            }
        }
        Ok(match header.opcode() {
            opcode::SCSI_COMMAND if self.has_device() => self.admit_command(wire, header),
            opcode::NOP_OUT if header.itt() != NO_TAG => {
                let echo = header.data_bytes().min(self.negotiation.parameters.max_send_data as usize);
                self.admit_answered(wire, echo as u64)
            }
            // The request is kept until it is complete, then its response.
            opcode::TEXT => self.admit_answered(wire, 2 * header.data_bytes() as u64),
            _ => self.admit_answer(wire),
        })
    }

    /// Admits a request whose response has `bytes` of data, without drawing from the pool: an initiator that does not
    /// read its responses must not hold pool memory.
    fn admit_answered(&mut self, wire: &mut Wire, bytes: u64) -> Admit {
        let charge = bytes + ANSWER_BYTES;
        let unsent = wire.out.len() as u64;
        if unsent + charge <= self.free_out_bytes() || wire.share.covers(self.held(wire) + charge) {
            return Admit::Take(charge);
        }
        match self.transfers.awaits_data() {
            true => self.admit_answer(wire),
            false if unsent == 0 && self.is_idle() => Admit::Skip,
            false => Admit::Wait,
        }
    }

    /// Admits a PDU whose response, if any, has no data, and whose own data is not needed.
    fn admit_answer(&mut self, wire: &mut Wire) -> Admit {
        let has_room = wire.out.len() as u64 <= self.free_out_bytes()
            || wire.share.covers(self.held(wire) + ANSWER_BYTES);
        if has_room { Admit::Skip } else { Admit::Wait }
    }

    /// Admits a request ahead of the expected CmdSN. On a single connection, only a damaged PDU leaves such a gap,
    /// which the initiator closes soon or never.
    fn admit_early(&mut self, wire: &mut Wire, header: &Header) -> Result<Admit, SessionEnd> {
        let known =
            self.aborted_early.contains(&header.cmd_sn()) || self.early.contains_key(&header.cmd_sn());
        if known {
            return Ok(Admit::Skip);
        }
        let charge = (header.data_bytes() + header.ahs_bytes()) as u64 + WAITING_RECORD_BYTES;
        if wire.share.covers(self.held(wire) + charge) {
            return Ok(Admit::Take(charge));
        }
        Err(SessionEnd::Protocol(format!("too much came before CmdSN {}", self.window.expected())))
    }

    /// The charge of an early request.
    pub(crate) fn early_charge(pdu: &Pdu) -> u64 {
        (pdu.data.len() + pdu.ahs.len()) as u64 + WAITING_RECORD_BYTES
    }

    /// Admits a SCSI command with all its data, or lets it wait with its immediate and unsolicited data.
    fn admit_command(&mut self, wire: &mut Wire, header: &Header) -> Admit {
        let cdb = Bytes::copy_from_slice(&header.array::<32, 16>());
        let mut claim = self.claim(header, cdb);
        let held = self.held(wire);
        claim.admitted = !self.transfers.has_waiting() && wire.share.cover(held + claim.needs);
        let charge = if claim.admitted { claim.needs } else { claim.arrives };
        let waiting = self.waiting_bytes() + charge;
        // A command that waits for the pool must hold no part of it.
        let has_room = claim.admitted
            || waiting <= self.waiting_room
            || waiting <= wire.share.own() && wire.share.cover(held + charge);
        if has_room {
            let counted = !claim.admitted && waiting <= self.waiting_room;
            self.claimed = Some((*header, claim));
            return Admit::Take(if counted { 0 } else { charge });
        }
        match self.transfers.awaits_data() || self.is_idle() {
            true => self.admit_answer(wire),
            false => Admit::Wait,
        }
    }

    /// The memory that a command needs, before the check for room.
    fn claim(&self, header: &Header, cdb: Bytes) -> Claim {
        let TransferBound { data_out, data_in } = self.transfer_bound(Lun(header.lun()), &cdb);
        let flags = header.flags();
        let expected = header.u32::<20>();
        let announced = if flags & WRITE != 0 { expected } else { 0 };
        let most = self.limits.command_bytes.max(self.offers.first_burst);
        let wanted = u64::from(announced.min(most)).min(data_out);
        let unsolicited = match header.is_final() {
            true => 0,
            false => announced.min(self.negotiation.parameters.first_burst),
        };
        let brings = u64::from(unsolicited).max(header.data_bytes() as u64);
        Claim {
            wanted: wanted as u32,
            arrives: brings + WAITING_RECORD_BYTES,
            needs: wanted.max(brings) + data_in.min(most.into()) + RECORD_BYTES,
            admitted: false,
            cdb,
        }
    }

    /// The claim of an arrived command, with its CDB: the one of its admission, or that of an early command. `None` if
    /// the additional header segments `ahs` are malformed.
    pub(crate) fn take_claim(&mut self, wire: &mut Wire, header: &Header, ahs: &Bytes) -> Option<Claim> {
        if let Some((_, claim)) = self.claimed.take().filter(|(of, _)| of == header && ahs.is_empty()) {
            return Some(claim);
        }
        let mut claim = self.claim(header, extended_cdb(header, ahs)?);
        claim.admitted = !self.transfers.has_waiting() && wire.share.cover(self.held(wire) + claim.needs);
        Some(claim)
    }

    /// Whether a command can't even wait with its data. Only early commands can be affected, since others have arrived
    /// after them.
    pub(crate) fn is_beyond_room(&self, wire: &Wire, claim: &Claim) -> bool {
        let waiting = self.waiting_bytes() + claim.arrives;
        !claim.admitted
            && waiting > self.waiting_room
            && (waiting > wire.share.own() || !wire.share.covers(self.held(wire) + claim.arrives))
    }

    /// Admits waiting commands in order while there is room; false if none was admitted.
    pub(crate) fn admit_waiting(&mut self, wire: &mut Wire) -> bool {
        let mut admitted = false;
        while let Some(more) = self.transfers.next_need() {
            let held = self.held(wire) + more;
            if wire.share.waits() && !wire.share.covers(held) {
                return admitted;
            }
            wire.share.stop_waiting();
            if wire.share.cover(held) {
                self.transfers.admit();
                admitted = true;
                continue;
            }
            // A waiting session keeps no draws that it does not need.
            wire.share.settle_all(held - more);
            // Commands that arrive until the grant are charged, too: it must suffice for them.
            let may_come = wire.share.own().saturating_sub(self.waiting_room.max(self.waiting_bytes()));
            let wait = wire.share.wait_for(held + may_come).or_else(|_| wire.share.wait_for(held));
            if wait.is_ok() {
                return admitted;
            } else if let Some(expectation) = self.transfers.give_up() {
                self.refuse_full(wire, &expectation);
            }
        }
        wire.share.stop_waiting();
        admitted
    }

    /// Returns draws that are no longer needed, apart from a surplus.
    pub(crate) fn settle(&self, wire: &mut Wire) {
        let held = self.held(wire);
        wire.share.settle(held);
    }

    /// Returns all draws that are no longer needed, once a second.
    pub(crate) fn settle_all(&self, wire: &mut Wire) {
        let held = self.held(wire);
        wire.share.settle_all(held);
    }

    /// Charge of commands that are not admitted, and of early requests.
    fn waiting_bytes(&self) -> u64 {
        self.early_bytes + self.transfers.waiting_charge()
    }

    /// Unsent responses that are not charged.
    fn free_out_bytes(&self) -> u64 {
        if self.has_device() { SESSION_UNCHARGED_UNSENT_BYTES } else { LOGIN_MAX_UNSENT_BYTES }
    }

    /// True when no ongoing activity can free memory.
    fn is_idle(&self) -> bool {
        self.tasks.charge() == 0 && self.transfers.charge() == 0
    }
}
