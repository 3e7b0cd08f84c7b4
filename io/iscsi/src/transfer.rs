//! Data-Out: immediate, unsolicited and solicited by R2T (RFC 7143 4.2.5.2, 11.7, 11.8). Everything a command is to
//! get is gathered here before the command goes on; what may be outstanding is bounded.

use crate::answer::{Condition, Expectation};
use crate::keys::Parameters;
use crate::pdu::incoming::Pdu;
use crate::pdu::{FINAL, Header, NO_TAG, opcode};
use bytes::BytesMut;
use scsi::{Attribute, Command, Data, Lun};
use std::collections::VecDeque;

/// Data of PDUs shorter than this are copied together, so that tiny PDUs don't become as many pieces.
const SMALL_BYTES: usize = 4 << 10;
/// Size at which copied data become a piece.
const PIECE_BYTES: usize = 64 << 10;

/// A command on its way to the device server.
pub(crate) struct Pending {
    pub(crate) expectation: Expectation,
    pub(crate) command: Command,
    /// Position in the order of arrival.
    order: u64,
}

/// A command whose data are not complete.
struct Gather {
    pending: Pending,
    data: Collector,
    /// How many bytes are to be gathered.
    wanted: u32,
    /// Offset up to which data came or were asked for.
    asked: u32,
    /// Unsolicited Data-Out may still come.
    unsolicited: Option<Sequence>,
    solicited: VecDeque<Sequence>,
    failure: Option<Condition>,
}

/// A run of Data-Out PDUs: unsolicited, or the answer to an R2T.
struct Sequence {
    ttt: u32,
    /// Where the next PDU's data belong.
    offset: u32,
    end: u32,
    data_sn: u32,
}

#[derive(Default)]
struct Collector {
    pieces: Data,
    small: BytesMut,
    received: u32,
}

impl Collector {
    fn push(&mut self, data: bytes::Bytes) {
        self.received += data.len() as u32;
        if data.len() < SMALL_BYTES && !(self.pieces.is_empty() && self.small.is_empty()) {
            self.small.extend_from_slice(&data);
            if self.small.len() >= PIECE_BYTES {
                self.pieces.push(self.small.split().freeze());
            }
            return;
        }
        self.pieces.push(self.small.split().freeze());
        self.pieces.push(data);
    }

    fn finish(mut self) -> Data {
        self.pieces.push(self.small.freeze());
        self.pieces
    }
}

/// What became of a Data-Out PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Used,
    /// Of a command that is not there any more.
    Ignored,
    /// It answers no R2T of ours.
    Unasked,
}

/// The commands of a session that are not with the device server yet.
pub(crate) struct Transfers {
    /// Most bytes of data for one command; a command that announces more gets this much.
    command_bytes: u32,
    gathers: Vec<Gather>,
    /// Commands with all their data that must wait for older ones.
    held: VecDeque<Pending>,
    /// Commands ready to go on when there is room, and commands that failed.
    ready: VecDeque<(Pending, Option<Condition>)>,
    next_order: u64,
    next_ttt: u32,
    /// Bytes asked for or received of all gathers.
    load: u64,
}

impl Transfers {
    pub(crate) fn new(command_bytes: u32) -> Self {
        Self {
            command_bytes,
            gathers: Vec::new(),
            held: VecDeque::new(),
            ready: VecDeque::new(),
            next_order: 0,
            next_ttt: 0,
            load: 0,
        }
    }

    pub(crate) fn contains(&self, itt: u32) -> bool {
        let waiting = self.held.iter().chain(self.ready.iter().map(|(pending, _)| pending));
        self.gathers
            .iter()
            .map(|gather| &gather.pending)
            .chain(waiting)
            .any(|pending| pending.expectation.itt == itt)
    }

    /// Takes a command with its immediate data. `more` says that unsolicited Data-Out PDUs follow.
    pub(crate) fn begin(
        &mut self,
        expectation: Expectation,
        command: Command,
        data: bytes::Bytes,
        more: bool,
        parameters: &Parameters,
    ) {
        let order = self.next_order;
        self.next_order += 1;
        let announced = if expectation.write { expectation.transfer_length } else { 0 };
        let wanted = announced.min(self.command_bytes);
        let limit = announced.min(parameters.first_burst);
        let immediate = data.len() as u32;
        let failure = match () {
            () if immediate > 0 && !parameters.immediate_data => Some(Condition::UnexpectedUnsolicitedData),
            () if more && parameters.initial_r2t => Some(Condition::UnexpectedUnsolicitedData),
            () if immediate > limit => Some(Condition::IncorrectAmountOfData),
            () => None,
        };
        let mut pending = Pending { expectation, command, order };
        if !more && (wanted <= immediate || failure.is_some()) {
            pending.command.data_out = Data::from(data.slice(..data.len().min(wanted as usize)));
            return self.finish(pending, failure);
        }
        let unsolicited = more.then_some(Sequence {
            ttt: NO_TAG,
            offset: immediate,
            end: limit.max(immediate),
            data_sn: 0,
        });
        let mut collector = Collector::default();
        if failure.is_none() {
            collector.push(data);
        }
        self.load += u64::from(immediate);
        let gather = Gather {
            pending,
            data: collector,
            wanted,
            asked: immediate,
            unsolicited,
            solicited: VecDeque::new(),
            failure,
        };
        self.gathers.push(gather);
    }

    /// Takes a Data-Out PDU.
    pub(crate) fn data_out(&mut self, pdu: Pdu) -> Taken {
        let (itt, ttt) = (pdu.header.itt(), pdu.header.ttt());
        let found = self.gathers.iter().position(|gather| gather.pending.expectation.itt == itt);
        // Data for a command that was aborted, or refused, may still be on their way when it is gone.
        let was_asked = ttt == NO_TAG || ttt < self.next_ttt;
        let unasked = if was_asked { Taken::Ignored } else { Taken::Unasked };
        let Some(index) = found else { return unasked };
        let gather = &mut self.gathers[index];
        let before = u64::from(gather.asked);
        if !gather.take(pdu) {
            return unasked;
        }
        self.load += u64::from(gather.asked) - before;
        if self.gathers[index].is_complete() {
            let gather = self.gathers.remove(index);
            self.load -= u64::from(gather.asked);
            let Gather { mut pending, data, failure, .. } = gather;
            pending.command.data_out = data.finish();
            self.finish(pending, failure);
        }
        Taken::Used
    }

    /// Bytes asked for or received that are not with the device server yet.
    pub(crate) fn load(&self) -> u64 {
        self.load
    }

    /// The next R2T that may be sent, if any, with at most `limit` bytes asked for at a time; the oldest command is
    /// served beyond that. The caller asks again until there is none.
    pub(crate) fn next_r2t(&mut self, parameters: &Parameters, limit: u64) -> Option<Header> {
        let load = self.load;
        for (index, gather) in self.gathers.iter_mut().enumerate() {
            let outstanding = gather.solicited.len() as u32;
            if !gather.wants_r2t() || outstanding >= parameters.max_outstanding_r2t {
                continue;
            }
            let bytes = parameters.max_burst.min(gather.wanted - gather.asked);
            let oldest = index == 0 && outstanding == 0;
            if load + u64::from(bytes) > limit && !oldest {
                return None;
            }
            let ttt = self.next_ttt;
            // The reserved tag is skipped.
            self.next_ttt = if ttt + 1 == NO_TAG { 0 } else { ttt + 1 };
            let offset = gather.asked;
            gather.asked += bytes;
            self.load += u64::from(bytes);
            gather.solicited.push_back(Sequence { ttt, offset, end: offset + bytes, data_sn: 0 });
            let expectation = &mut gather.pending.expectation;
            let header = Header::new(opcode::R2T, FINAL)
                .put(8, gather.pending.command.lun.0)
                .with_itt(expectation.itt)
                .with_ttt(ttt)
                .put_u32(36, expectation.r2ts)
                .put_u32(40, offset)
                .put_u32(44, bytes);
            expectation.r2ts += 1;
            return Some(header);
        }
        None
    }

    /// The next command to go on, in order; with a condition when it has failed.
    pub(crate) fn next_ready(&mut self) -> Option<(Pending, Option<Condition>)> {
        self.ready.pop_front()
    }

    /// Has the data; waits only for the order of task attributes.
    fn finish(&mut self, pending: Pending, failure: Option<Condition>) {
        if failure.is_none() && self.must_wait(&pending) {
            self.held.push_back(pending);
            return;
        }
        match pending.command.attribute {
            Attribute::HeadOfQueue => self.ready.push_front((pending, failure)),
            _ => self.ready.push_back((pending, failure)),
        }
        self.release();
    }

    /// An ordered task waits for everything older, and everything younger for it (SAM-5 8.6). What is here is not
    /// in a task set yet, so the task sets can't see to that.
    fn must_wait(&self, pending: &Pending) -> bool {
        let command = &pending.command;
        let is_ordered = |attribute| attribute == Attribute::Ordered;
        let blocks = |other: &Pending| {
            other.order < pending.order
                && other.command.lun == command.lun
                && (is_ordered(command.attribute) || is_ordered(other.command.attribute))
        };
        command.attribute != Attribute::HeadOfQueue
            && (self.gathers.iter().any(|gather| blocks(&gather.pending)) || self.held.iter().any(blocks))
    }

    fn release(&mut self) {
        while let Some(index) = (0..self.held.len()).find(|index| !self.must_wait(&self.held[*index])) {
            self.ready.extend(self.held.remove(index).map(|pending| (pending, None)));
        }
    }

    /// Drops the command with this tag on this logical unit.
    pub(crate) fn remove(&mut self, itt: u32, lun: Lun) -> Option<Expectation> {
        let is_it = |pending: &Pending| pending.expectation.itt == itt && pending.command.lun == lun;
        self.remove_where(is_it).pop()
    }

    /// Drops the commands of a logical unit, or all of them.
    pub(crate) fn remove_lun(&mut self, lun: Option<Lun>) -> Vec<Expectation> {
        self.remove_where(|pending| lun.is_none_or(|lun| pending.command.lun == lun))
    }

    fn remove_where(&mut self, is_it: impl Fn(&Pending) -> bool) -> Vec<Expectation> {
        let mut removed = Vec::new();
        let dropped: Vec<_> = self.gathers.extract_if(.., |gather| is_it(&gather.pending)).collect();
        for gather in dropped {
            self.load -= u64::from(gather.asked);
            removed.push(gather.pending.expectation);
        }
        let mut stays = |pending: &Pending| {
            let stays = !is_it(pending);
            if !stays {
                removed.push(pending.expectation.clone());
            }
            stays
        };
        self.held.retain(&mut stays);
        self.ready.retain(|(pending, _)| stays(pending));
        self.release();
        removed
    }
}

impl Gather {
    fn wants_r2t(&self) -> bool {
        self.asked < self.wanted && self.unsolicited.is_none() && self.failure.is_none()
    }

    /// All data came, or nothing more is awaited after a failure.
    fn is_complete(&self) -> bool {
        let idle = self.unsolicited.is_none() && self.solicited.is_empty();
        idle && (self.failure.is_some() || self.data.received >= self.wanted)
    }

    /// Takes a PDU; false when it belongs to no sequence. What is wrong with it fails the command, once the
    /// initiator has sent the rest: at this error recovery level nothing is asked for again (7.8, 7.9).
    fn take(&mut self, pdu: Pdu) -> bool {
        let header = pdu.header;
        if header.ttt() == NO_TAG {
            match &mut self.unsolicited {
                None => self.fail(Condition::UnexpectedUnsolicitedData),
                Some(sequence) => {
                    let fault = sequence.advance(&pdu);
                    self.asked = self.asked.max(sequence.offset);
                    if header.is_final() {
                        self.unsolicited = None;
                    }
                    self.keep(pdu, fault);
                }
            }
            return true;
        }
        let Some(index) = self.solicited.iter().position(|sequence| sequence.ttt == header.ttt()) else {
            return false;
        };
        let sequence = &mut self.solicited[index];
        let mut fault = sequence.advance(&pdu);
        let reached_end = sequence.offset == sequence.end;
        if header.is_final() && !reached_end {
            fault = fault.or(Some(Condition::IncorrectAmountOfData));
        }
        // DataSequenceInOrder=Yes: R2Ts are answered in the order of their offsets.
        if index > 0 {
            fault = fault.or(Some(Condition::IncorrectAmountOfData));
        }
        if header.is_final() || reached_end {
            self.solicited.remove(index);
        }
        self.keep(pdu, fault);
        true
    }

    fn keep(&mut self, pdu: Pdu, fault: Option<Condition>) {
        match fault {
            Some(condition) => self.fail(condition),
            None if self.failure.is_none() => self.data.push(pdu.data),
            None => {}
        }
    }

    /// The first condition is the one that is reported.
    fn fail(&mut self, condition: Condition) {
        self.failure.get_or_insert(condition);
    }
}

impl Sequence {
    /// Checks a PDU's place in the sequence and moves on behind it.
    fn advance(&mut self, pdu: &Pdu) -> Option<Condition> {
        let (data_sn, offset) = (pdu.header.u32::<36>(), pdu.header.u32::<40>());
        let bytes = pdu.header.data_bytes() as u32;
        // A gap means that a PDU was lost, which only a digest error can do.
        if pdu.damaged || data_sn != self.data_sn || offset != self.offset {
            return Some(Condition::ProtocolServiceCrcError);
        }
        if bytes > self.end - self.offset {
            return Some(Condition::IncorrectAmountOfData);
        }
        // PDUs without data may come without end.
        self.data_sn = self.data_sn.wrapping_add(1);
        self.offset += bytes;
        None
    }
}

#[cfg(test)]
#[path = "transfer_test.rs"]
mod tests;
