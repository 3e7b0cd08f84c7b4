//! Data-Out: immediate, unsolicited, and solicited by R2T (RFC 7143 4.2.5.2, 11.7, 11.8). All Data-Out of a command is
//! gathered here before the command executes.
//!
//! A command is admitted once there is room for everything it needs, from its data to its response; commands that are
//! not admitted yet wait in order of arrival, and no data is requested for them.

use crate::keys::Parameters;
use crate::pdu::incoming::Pdu;
use crate::pdu::{FINAL, Header, NO_TAG, opcode};
use crate::response::{Condition, Expectation};
use scsi::{Collector, Command, Data, Lun, TaskAttribute};
use std::collections::VecDeque;

/// A command that has not been executed yet.
pub(crate) struct PendingCommand {
    pub(crate) expectation: Expectation,
    pub(crate) command: Command,
    /// Bytes charged to the session for the command.
    pub(crate) charge: u64,
    /// Position in the order of arrival.
    order: u64,
}

/// The memory that a command needs.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// Bytes of Data-Out to gather.
    pub(crate) wanted: u32,
    /// Bytes before any R2T: immediate data, unsolicited Data-Out, and the record.
    pub(crate) arrives: u64,
    /// Bytes in total, until the command ends.
    pub(crate) needs: u64,
    /// Whether the whole claim is reserved.
    pub(crate) admitted: bool,
    /// CDB of the command.
    pub(crate) cdb: bytes::Bytes,
}

/// A command whose data is incomplete, or that is not admitted.
struct Gather {
    pending: PendingCommand,
    data: Collector,
    /// Bytes to gather.
    wanted: u32,
    /// Charge of the command once it is admitted; `None` if it is admitted.
    needs: Option<u64>,
    /// Offset up to which data has arrived or was requested.
    asked: u32,
    /// Unsolicited Data-Out may still arrive.
    unsolicited: Option<Sequence>,
    solicited: VecDeque<Sequence>,
    failure: Option<Condition>,
}

/// A sequence of Data-Out PDUs: unsolicited, or solicited by an R2T.
struct Sequence {
    ttt: u32,
    /// Offset of the next PDU's data.
    offset: u32,
    end: u32,
    data_sn: u32,
}

/// Result of processing a Data-Out PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Used,
    /// The command no longer exists.
    Ignored,
    /// The PDU belongs to no R2T.
    Unexpected,
}

/// The commands of a session that have not been executed yet.
#[derive(Default)]
pub(crate) struct Transfers {
    /// In order of arrival; commands that are not admitted come last.
    gathers: Vec<Gather>,
    /// Commands with all their data that must wait for older commands.
    held: VecDeque<PendingCommand>,
    /// Commands ready to execute, and commands that failed.
    ready: VecDeque<(PendingCommand, Option<Condition>)>,
    next_order: u64,
    next_ttt: u32,
    /// Requested or received bytes of all gathers.
    load: u64,
    /// Charge of all commands here in bytes.
    charge: u64,
    /// Charge and number of the commands that are not admitted.
    waiting_charge: u64,
    waiting: usize,
    /// Bytes of Data-Out received in total.
    taken: u64,
}

impl Transfers {
    pub(crate) fn contains(&self, itt: u32) -> bool {
        let waiting = self.held.iter().chain(self.ready.iter().map(|(pending, _)| pending));
        self.gathers
            .iter()
            .map(|gather| &gather.pending)
            .chain(waiting)
            .any(|pending| pending.expectation.itt == itt)
    }

    /// Adds a command with its immediate data. `more` says that unsolicited Data-Out PDUs follow.
    pub(crate) fn begin(
        &mut self,
        expectation: Expectation,
        command: Command,
        data: bytes::Bytes,
        more: bool,
        claim: &Claim,
        parameters: &Parameters,
    ) {
        let order = self.next_order;
        self.next_order += 1;
        let announced = if expectation.write { expectation.transfer_length } else { 0 };
        let limit = announced.min(parameters.first_burst);
        let immediate = data.len() as u32;
        let failure = match () {
            () if immediate > 0 && !parameters.immediate_data => Some(Condition::UnexpectedUnsolicitedData),
            () if more && parameters.initial_r2t => Some(Condition::UnexpectedUnsolicitedData),
            () if immediate > limit => Some(Condition::IncorrectAmountOfData),
            () => None,
        };
        let wanted = claim.wanted;
        let charge = if claim.admitted { claim.needs } else { claim.arrives };
        let mut pending = PendingCommand { expectation, command, charge, order };
        self.charge += charge;
        if !more && (failure.is_some() || claim.admitted && wanted <= immediate) {
            let kept = if failure.is_some() { 0 } else { immediate.min(wanted) };
            pending.command.data_out = Data::from(data.slice(..kept as usize));
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
        if !claim.admitted {
            self.waiting += 1;
            self.waiting_charge += charge;
        }
        let gather = Gather {
            pending,
            data: collector,
            wanted,
            needs: (!claim.admitted).then_some(claim.needs),
            asked: immediate,
            unsolicited,
            solicited: VecDeque::new(),
            failure,
        };
        self.gathers.push(gather);
    }

    /// Bytes charged for all commands here.
    pub(crate) fn charge(&self) -> u64 {
        self.charge
    }

    /// Bytes charged for commands that wait to be admitted.
    pub(crate) fn waiting_charge(&self) -> u64 {
        self.waiting_charge
    }

    /// True while a command waits to be admitted.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// The additional charge of the next command to admit.
    pub(crate) fn next_need(&self) -> Option<u64> {
        if self.waiting == 0 {
            return None;
        }
        let gather = self.gathers.iter().find(|gather| gather.needs.is_some())?;
        Some(gather.needs?.saturating_sub(gather.pending.charge))
    }

    /// Admits the next waiting command.
    pub(crate) fn admit(&mut self) {
        let Some(index) = self.gathers.iter().position(|gather| gather.needs.is_some()) else { return };
        let gather = &mut self.gathers[index];
        let before = gather.pending.charge;
        let charge = gather.needs.take().map_or(before, |needs| needs.max(before));
        gather.pending.charge = charge;
        self.waiting -= 1;
        self.waiting_charge -= before;
        self.charge += charge - before;
        self.complete(index);
    }

    /// Removes the next waiting command, for which there will never be room.
    pub(crate) fn give_up(&mut self) -> Option<Expectation> {
        let order = self.gathers.iter().find(|gather| gather.needs.is_some())?.pending.order;
        self.remove_where(|pending| pending.order == order).pop()
    }

    /// True while requested data is outstanding.
    pub(crate) fn awaits_solicited(&self) -> bool {
        self.gathers.iter().any(|gather| !gather.solicited.is_empty())
    }

    /// True while requested or announced data is outstanding.
    pub(crate) fn awaits_data(&self) -> bool {
        self.gathers.iter().any(|gather| !gather.solicited.is_empty() || gather.unsolicited.is_some())
    }

    /// Bytes of Data-Out received since the session began.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether the data of a Data-Out PDU with this header is expected, so that room for it is reserved.
    pub(crate) fn expects(&self, header: &Header) -> bool {
        let gather = self.gathers.iter().find(|gather| gather.pending.expectation.itt == header.itt());
        gather.is_some_and(|gather| gather.failure.is_none() && gather.expects(header))
    }

    /// Processes a Data-Out PDU.
    pub(crate) fn data_out(&mut self, pdu: Pdu) -> Taken {
        let (itt, ttt) = (pdu.header.itt(), pdu.header.ttt());
        let found = self.gathers.iter().position(|gather| gather.pending.expectation.itt == itt);
        // Data for an aborted or refused command may still be in flight.
        let was_asked = ttt == NO_TAG || ttt < self.next_ttt;
        let unasked = if was_asked { Taken::Ignored } else { Taken::Unexpected };
        let Some(index) = found else { return unasked };
        let gather = &mut self.gathers[index];
        let before = u64::from(gather.asked);
        self.taken += pdu.data.len() as u64;
        if !gather.take(pdu) {
            return unasked;
        }
        self.load += u64::from(gather.asked) - before;
        self.complete(index);
        Taken::Used
    }

    /// Finishes a command whose data are complete.
    fn complete(&mut self, index: usize) {
        if !self.gathers[index].is_complete() {
            return;
        }
        let gather = self.gathers.remove(index);
        self.load -= u64::from(gather.asked);
        self.uncount(&gather);
        let Gather { mut pending, data, wanted, failure, .. } = gather;
        pending.command.data_out = data.finish();
        pending.command.data_out.truncate(wanted as usize);
        self.finish(pending, failure);
    }

    /// Removes a command from the counters of commands that are not admitted.
    fn uncount(&mut self, gather: &Gather) {
        if gather.needs.is_some() {
            self.waiting -= 1;
            self.waiting_charge -= gather.pending.charge;
        }
    }

    /// The next R2T to send, if any, with at most `limit` bytes requested at a time; the oldest command may exceed
    /// that. The caller repeats this until it returns `None`.
    pub(crate) fn next_r2t(&mut self, parameters: &Parameters, limit: u64) -> Option<Header> {
        let load = self.load;
        for (index, gather) in self.gathers.iter_mut().enumerate() {
            let outstanding = gather.solicited.len() as u32;
            if !gather.wants_r2t() || outstanding >= parameters.max_outstanding_r2t {
                continue;
            }
            let bytes = parameters.max_burst.min(gather.wanted.saturating_sub(gather.asked));
            let oldest = index == 0 && outstanding == 0;
            if load + u64::from(bytes) > limit && !oldest {
                return None;
            }
            let ttt = self.next_ttt;
            // Skip the reserved tag.
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

    /// The next command to execute, in order; with a condition if it failed.
    pub(crate) fn next_ready(&mut self) -> Option<(PendingCommand, Option<Condition>)> {
        let next = self.ready.pop_front()?;
        self.charge -= next.0.charge;
        Some(next)
    }

    /// Queues a command with complete data, in the order of task attributes.
    fn finish(&mut self, pending: PendingCommand, failure: Option<Condition>) {
        if failure.is_none() && self.must_wait(&pending) {
            self.held.push_back(pending);
            return;
        }
        match pending.command.attribute {
            TaskAttribute::HeadOfQueue => self.ready.push_front((pending, failure)),
            _ => self.ready.push_back((pending, failure)),
        }
        self.release();
    }

    /// An ordered task waits for all older tasks, and all younger ones wait for it (SAM-5 8.6). Commands here are not
    /// in a task set yet, so task sets can't ensure that.
    fn must_wait(&self, pending: &PendingCommand) -> bool {
        let command = &pending.command;
        let is_ordered = |attribute| attribute == TaskAttribute::Ordered;
        let blocks = |other: &PendingCommand| {
            other.order < pending.order
                && other.command.lun == command.lun
                && (is_ordered(command.attribute) || is_ordered(other.command.attribute))
        };
        command.attribute != TaskAttribute::HeadOfQueue
            && (self.gathers.iter().any(|gather| blocks(&gather.pending)) || self.held.iter().any(blocks))
    }

    fn release(&mut self) {
        while let Some(index) = (0..self.held.len()).find(|index| !self.must_wait(&self.held[*index])) {
            self.ready.extend(self.held.remove(index).map(|pending| (pending, None)));
        }
    }

    /// Drops the command with this tag on this logical unit.
    pub(crate) fn remove(&mut self, itt: u32, lun: Lun) -> Option<Expectation> {
        let is_it = |pending: &PendingCommand| pending.expectation.itt == itt && pending.command.lun == lun;
        self.remove_where(is_it).pop()
    }

    /// Drops the commands of a logical unit, or all of them.
    pub(crate) fn remove_lun(&mut self, lun: Option<Lun>) -> Vec<Expectation> {
        self.remove_where(|pending| lun.is_none_or(|lun| pending.command.lun == lun))
    }

    fn remove_where(&mut self, is_it: impl Fn(&PendingCommand) -> bool) -> Vec<Expectation> {
        let mut removed = Vec::new();
        let dropped: Vec<_> = self.gathers.extract_if(.., |gather| is_it(&gather.pending)).collect();
        for gather in dropped {
            self.load -= u64::from(gather.asked);
            self.charge -= gather.pending.charge;
            self.uncount(&gather);
            removed.push(gather.pending.expectation);
        }
        let charge = &mut self.charge;
        let mut stays = |pending: &PendingCommand| {
            let stays = !is_it(pending);
            if !stays {
                *charge -= pending.charge;
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
        self.asked < self.wanted
            && self.needs.is_none()
            && self.unsolicited.is_none()
            && self.failure.is_none()
    }

    /// Whether the command is admitted and all its data has arrived, or no more is expected after a failure.
    fn is_complete(&self) -> bool {
        let idle = self.unsolicited.is_none() && self.solicited.is_empty();
        let has_all = self.needs.is_none() && self.data.len() as u64 >= u64::from(self.wanted);
        idle && (self.failure.is_some() || has_all)
    }

    /// Whether the data of a PDU is within an expected sequence.
    fn expects(&self, header: &Header) -> bool {
        let sequence = match header.ttt() {
            NO_TAG => self.unsolicited.as_ref(),
            ttt => self.solicited.iter().find(|sequence| sequence.ttt == ttt),
        };
        sequence.is_some_and(|sequence| header.data_bytes() as u32 <= sequence.end - sequence.offset)
    }

    /// Processes a PDU; false if it belongs to no sequence. An error fails the command once the initiator has sent the
    /// rest: at this error recovery level, nothing is requested again (7.8, 7.9).
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
            None if self.failure.is_none() && !pdu.skipped => self.data.push(pdu.data),
            // Only the data of a failed command is skipped.
            None => self.fail(Condition::IncorrectAmountOfData),
        }
    }

    /// Fails the command. The first condition is reported, and the data is dropped.
    fn fail(&mut self, condition: Condition) {
        self.failure.get_or_insert(condition);
        self.data = Collector::default();
    }
}

impl Sequence {
    /// Checks the position of a PDU in the sequence and advances.
    fn advance(&mut self, pdu: &Pdu) -> Option<Condition> {
        let (data_sn, offset) = (pdu.header.u32::<36>(), pdu.header.u32::<40>());
        let bytes = pdu.header.data_bytes() as u32;
        // A gap means that a PDU was lost, which only a digest error can cause.
        if pdu.damaged || data_sn != self.data_sn || offset != self.offset {
            return Some(Condition::ProtocolServiceCrcError);
        }
        if bytes > self.end - self.offset {
            return Some(Condition::IncorrectAmountOfData);
        }
        // The number of PDUs without data is unlimited.
        self.data_sn = self.data_sn.wrapping_add(1);
        self.offset += bytes;
        None
    }
}

#[cfg(test)]
#[path = "transfer_test.rs"]
mod tests;
