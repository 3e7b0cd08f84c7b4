//! A queue: commands of one connection after its Connect, from their arrival to their completion (NVMe TCP Transport 1.0
//! clause 3.3, NVM Express Base 2.0 clause 3.3.3).
//!
//! A command is charged the memory of its data before it is held. Within the entries of the queue a command without data in its
//! capsule can always wait for memory. One with data waits in the stream, or, if requested data follows it there, is
//! refused with Command Interrupted, which hosts repeat.

use crate::abort::{self, Aborts};
use crate::admin;
use crate::authentication::{Authentication, Failure, Step};
use crate::controller::Controller;
use crate::execute::{self, COMPARE, Execution, VERIFY};
use crate::fabrics;
use crate::fused::{Fused, Half, Pair};
use crate::pdu::incoming::Pdu;
use crate::pdu::{FatalError, Header, LAST_PDU, Termination, kind};
use crate::read_write::VERIFY_CHUNK_BYTES;
use crate::spec::{MAX_EVENT_REQUESTS, MAX_TRANSFER_BYTES};
use crate::sqe::{DataLocation, Direction, FABRICS, Fuse, Outcome, Sqe, completion};
use crate::status::Status;
use crate::wire::Wire;
use block::Data;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};
use transport::Tasks;

/// Upper bound of the records of one command in bytes, and of one that waits for memory.
const RECORD_BYTES: u64 = 1 << 10;
pub(crate) const WAITING_RECORD_BYTES: u64 = 256;
/// Unsent bytes beyond which no command is refused for want of memory: it waits in the stream.
const MAX_UNSENT_BYTES: usize = 256 << 10;

/// What to do with a PDU whose header has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// Receive it, with this charge in bytes.
    Take(u64),
    /// Receive it without its data.
    Skip,
    /// Receive it when there is room.
    Wait,
}

/// Why a queue ends.
#[derive(Debug)]
pub(crate) enum QueueEnd {
    /// The host disconnects.
    Disconnected,
    /// The host violates the protocol.
    Terminated(Termination),
    /// The host is not who it says it is, or does not take us for who we are.
    Unauthenticated,
}

impl From<Termination> for QueueEnd {
    fn from(termination: Termination) -> Self {
        QueueEnd::Terminated(termination)
    }
}

/// A command whose data were requested with an R2T.
struct Gather {
    sqe: Sqe,
    data: Data,
    charge: u64,
    /// Data came with a wrong digest.
    damaged: bool,
    /// Its command has ended: the data are thrown away.
    orphan: bool,
}

/// What has to be known of a running command when it ends.
enum About {
    /// Command identifier, and most bytes of data for the host.
    Single(u16, u32),
    /// The command identifiers of Compare and Write.
    Fused(u16, u16),
}

/// A queue.
pub(crate) struct Queue {
    pub(crate) controller: Arc<Controller>,
    pub(crate) qid: u16,
    entries: u16,
    /// Submission queue head, if the host uses flow control.
    head: Option<u16>,
    /// Commands without memory, none of which has data in its capsule.
    waiting: VecDeque<Sqe>,
    gathers: BTreeMap<u16, Gather>,
    /// The charges of all gathers: [`Queue::held`] is asked for with every command.
    gathered_bytes: u64,
    next_tag: u16,
    tasks: Tasks<About, Outcome>,
    fused: Fused,
    /// Second halves of running fused operations.
    seconds: Vec<u16>,
    /// Asynchronous Event Requests that wait for an event.
    event_requests: VecDeque<u16>,
    aborts: Arc<Aborts>,
    authentication: Authentication,
    /// Why an authentication failed.
    failure: Option<Failure>,
    /// Ticks without an authentication.
    unauthenticated_seconds: u32,
}

impl Queue {
    pub(crate) fn new(
        controller: Arc<Controller>,
        qid: u16,
        (entries, flow_control): (u16, bool),
        (aborts, authentication): (Arc<Aborts>, Authentication),
    ) -> Self {
        Self {
            controller,
            qid,
            entries,
            head: flow_control.then_some(0),
            waiting: VecDeque::new(),
            gathers: BTreeMap::new(),
            gathered_bytes: 0,
            next_tag: 0,
            tasks: Tasks::default(),
            fused: Fused::default(),
            seconds: Vec::new(),
            event_requests: VecDeque::new(),
            aborts,
            authentication,
            failure: None,
            unauthenticated_seconds: 0,
        }
    }

    /// The charge of the queue in bytes. It includes the records of as many waiting commands as there are entries.
    pub(crate) fn held(&self, wire: &Wire) -> u64 {
        u64::from(self.entries) * WAITING_RECORD_BYTES
            + self.gathered_bytes
            + self.fused.charge()
            + self.tasks.charge()
            + wire.incoming.charge()
            + wire.out.len() as u64
    }

    /// The memory that a command needs.
    fn need(sqe: &Sqe) -> u64 {
        let data = u64::from(sqe.data_bytes().min(MAX_TRANSFER_BYTES));
        let more = match sqe.opcode() {
            COMPARE => data,
            VERIFY => VERIFY_CHUNK_BYTES,
            _ => 0,
        };
        RECORD_BYTES + data + more
    }

    /// Whether there is room for a PDU. The charge reserves the room until the command ends.
    pub(crate) fn admit(&mut self, wire: &mut Wire, header: &Header) -> Result<Admit, Termination> {
        match header.kind() {
            kind::CAPSULE_CMD => {}
            kind::H2C_DATA => {
                self.check_data(header)?;
                return Ok(Admit::Take(0));
            }
            _ => return Ok(Admit::Take(0)),
        }
        let need = Self::need(&sqe_of(header));
        let wanted = self.held(wire) + need;
        if self.waiting.is_empty() && wire.share.cover(wanted) {
            wire.share.stop_waiting();
            return Ok(Admit::Take(need));
        }
        if header.data_bytes == 0 && wire.share.covers(self.held(wire)) {
            return Ok(Admit::Take(0));
        }
        // A host that does not read its completions is not served further, whatever it still has to send.
        if !self.gathers.is_empty() && wire.out.len() < MAX_UNSENT_BYTES {
            return Ok(Admit::Skip);
        }
        let waits = wire.share.wait_for(wanted).is_ok();
        let idle = self.tasks.is_empty() && wire.out.is_empty();
        Ok(if waits || !idle { Admit::Wait } else { Admit::Skip })
    }

    /// Checks that data was requested, and comes in order.
    fn check_data(&self, header: &Header) -> Result<(), Termination> {
        let (cid, tag) = (header.u16::<8>(), header.u16::<10>());
        let (offset, bytes) = (header.u32::<12>(), header.u32::<16>());
        let field = |at, detail| Err(Termination::field(header.bytes(), at, detail));
        let Some(gather) = self.gathers.get(&tag) else { return field(10, "no R2T with this tag") };
        if gather.sqe.cid() != cid {
            return field(8, "another command than that of the R2T");
        }
        if bytes as usize != header.data_bytes || bytes == 0 {
            return field(16, "another length than that of the PDU");
        }
        let (received, wanted) = (gather.data.len() as u64, u64::from(gather.sqe.data_bytes()));
        if u64::from(offset) != received {
            let detail = "data out of order";
            return Err(Termination::other(FatalError::DataOutOfRange, header.bytes(), detail));
        }
        let end = received + u64::from(bytes);
        let last = header.flags() & LAST_PDU != 0;
        if end > wanted || last != (end == wanted) {
            let detail = "another amount of data than requested";
            return Err(Termination::other(FatalError::DataOutOfRange, header.bytes(), detail));
        }
        Ok(())
    }

    /// Processes a PDU.
    pub(crate) fn receive(&mut self, wire: &mut Wire, pdu: Pdu) -> Result<(), QueueEnd> {
        match pdu.header.kind() {
            kind::CAPSULE_CMD => self.command(wire, pdu),
            _ => self.data(wire, pdu),
        }
    }

    fn command(&mut self, wire: &mut Wire, pdu: Pdu) -> Result<(), QueueEnd> {
        let sqe = sqe_of(&pdu.header);
        let cid = sqe.cid();
        self.controller.set_active();
        self.consume();
        if self.outstanding() >= usize::from(self.entries) {
            let detail = "more commands than the queue has entries";
            return Err(Termination::other(FatalError::SequenceError, pdu.header.bytes(), detail).into());
        }
        let refusal = match () {
            () if self.is_outstanding(cid) => Some(Status::COMMAND_ID_CONFLICT),
            () if pdu.damaged => Some(Status::TRANSIENT_TRANSPORT_ERROR),
            () if pdu.skipped => Some(Status::COMMAND_INTERRUPTED),
            () if !self.is_authenticated() && !fabrics::is_authentication(&sqe) => {
                Some(Status::AUTHENTICATION_REQUIRED)
            }
            () => None,
        };
        match refusal {
            Some(status) => self.complete(wire, cid, 0, status.into()),
            None if pdu.charge == 0 => self.waiting.push_back(sqe),
            None => return self.begin(wire, sqe, pdu.data, pdu.charge),
        }
        Ok(())
    }

    /// An entry of the submission queue was taken.
    pub(crate) fn consume(&mut self) {
        if let Some(head) = &mut self.head {
            *head = (*head + 1) % self.entries;
        }
    }

    fn outstanding(&self) -> usize {
        self.tasks.len()
            + self.seconds.len()
            + self.gathers.values().filter(|gather| self.is_single(gather)).count()
            + self.waiting.len()
            + self.fused.len()
            + self.event_requests.len()
    }

    /// The halves of fused operations are counted as such.
    fn is_single(&self, gather: &Gather) -> bool {
        !gather.orphan && gather.sqe.fuse() == Fuse::Normal
    }

    fn is_outstanding(&self, cid: u16) -> bool {
        self.tasks.contains(cid.into())
            || self.gathers.values().any(|gather| !gather.orphan && gather.sqe.cid() == cid)
            || self.waiting.iter().any(|sqe| sqe.cid() == cid)
            || self.fused.contains(cid)
            || self.seconds.contains(&cid)
            || self.event_requests.contains(&cid)
    }

    /// Begins a command that has memory: its data is here, or is requested.
    fn begin(&mut self, wire: &mut Wire, sqe: Sqe, capsule: Bytes, charge: u64) -> Result<(), QueueEnd> {
        let data = match data_in_capsule(&sqe, &capsule) {
            Ok(data) => data,
            Err(status) => {
                self.complete(wire, sqe.cid(), 0, status.into());
                return Ok(());
            }
        };
        if sqe.fuse() != Fuse::Normal && !self.begin_half(wire, &sqe, charge) {
            return Ok(());
        }
        match data {
            Some(data) => return self.ready(wire, sqe, data, charge),
            None => self.request_data(wire, sqe, charge),
        }
        Ok(())
    }

    /// Enters a half of a fused operation; false if it ends at once.
    fn begin_half(&mut self, wire: &mut Wire, sqe: &Sqe, charge: u64) -> bool {
        let half = Half::new(*sqe, charge);
        let missing = match sqe.fuse() {
            Fuse::First if self.qid > 0 && sqe.opcode() == COMPARE => {
                self.fused.first(half).into_iter().collect()
            }
            Fuse::Second if self.qid > 0 => self.fused.second(half).err().unwrap_or_default(),
            _ => {
                self.complete(wire, sqe.cid(), 0, Status::INVALID_FIELD.into());
                return false;
            }
        };
        for half in &missing {
            self.orphan(half.cid());
            self.complete(wire, half.cid(), 0, Status::MISSING_FUSED.into());
        }
        !missing.iter().any(|half| half.cid() == sqe.cid())
    }

    /// The data of a command that has ended are thrown away when they come.
    fn orphan(&mut self, cid: u16) {
        for gather in self.gathers.values_mut().filter(|gather| gather.sqe.cid() == cid) {
            gather.orphan = true;
        }
    }

    /// Requests all data of a command with one R2T.
    fn request_data(&mut self, wire: &mut Wire, sqe: Sqe, charge: u64) {
        while self.gathers.contains_key(&self.next_tag) {
            self.next_tag = self.next_tag.wrapping_add(1);
        }
        let tag = self.next_tag;
        self.next_tag = tag.wrapping_add(1);
        // A half of a fused operation is charged there.
        let charge = if sqe.fuse() == Fuse::Normal { charge } else { 0 };
        self.gathered_bytes += charge;
        self.gathers.insert(tag, Gather { sqe, data: Data::new(), charge, damaged: false, orphan: false });
        wire.out.ready_to_transfer(sqe.cid(), tag, sqe.data_bytes());
    }

    /// H2CData
    fn data(&mut self, wire: &mut Wire, pdu: Pdu) -> Result<(), QueueEnd> {
        let tag = pdu.header.u16::<10>();
        let Some(gather) = self.gathers.get_mut(&tag) else { return Ok(()) };
        gather.damaged |= pdu.damaged;
        // Data that were damaged count, so that the rest is found in order.
        gather.data.push(match pdu.damaged {
            true => Bytes::from(vec![0; pdu.header.data_bytes]),
            false => pdu.data,
        });
        if gather.data.len() as u64 != u64::from(gather.sqe.data_bytes()) {
            return Ok(());
        }
        let Some(Gather { sqe, data, charge, damaged, orphan }) = self.gathers.remove(&tag) else {
            return Ok(());
        };
        self.gathered_bytes -= charge;
        if orphan {
            return Ok(());
        }
        match (damaged, sqe.fuse()) {
            (true, Fuse::Normal) => {
                self.complete(wire, sqe.cid(), 0, Status::TRANSIENT_TRANSPORT_ERROR.into());
            }
            (true, _) => self.half_ready(wire, sqe.cid(), Err(Status::TRANSIENT_TRANSPORT_ERROR)),
            (false, Fuse::Normal) => return self.dispatch(wire, sqe, data, charge),
            (false, _) => self.half_ready(wire, sqe.cid(), Ok(data)),
        }
        Ok(())
    }

    /// A command has all its data.
    fn ready(&mut self, wire: &mut Wire, sqe: Sqe, data: Data, charge: u64) -> Result<(), QueueEnd> {
        if sqe.fuse() != Fuse::Normal {
            self.half_ready(wire, sqe.cid(), Ok(data));
            return Ok(());
        }
        if self.qid > 0 && sqe.opcode() == FABRICS && !fabrics::is_authentication(&sqe) {
            return self.disconnect(wire, &sqe);
        }
        self.dispatch(wire, sqe, data, charge)
    }

    fn dispatch(&mut self, wire: &mut Wire, sqe: Sqe, data: Data, charge: u64) -> Result<(), QueueEnd> {
        if fabrics::is_authentication(&sqe) {
            return self.authenticate(wire, &sqe, &data);
        }
        let execution = match self.qid {
            0 if sqe.opcode() == admin::EVENT_REQUEST => {
                self.event_request(wire, &sqe);
                return Ok(());
            }
            0 if sqe.opcode() == admin::ABORT && sqe.dword(10) as u16 == 0 && self.controller.is_ready() => {
                let aborted = self.abort(wire, (sqe.dword(10) >> 16) as u16);
                Execution::Done(abort::outcome(aborted))
            }
            0 => admin::start(&self.controller, &sqe),
            _ => execute::start(&self.controller, sqe, data),
        };
        match execution {
            Execution::Done(outcome) => self.complete(wire, sqe.cid(), sqe.data_bytes(), outcome),
            Execution::Task(running) => {
                let about = About::Single(sqe.cid(), sqe.data_bytes());
                self.tasks.insert(sqe.cid().into(), about, charge, running);
            }
        }
        Ok(())
    }

    /// Authentication Send and Authentication Receive (Base 6.1 and 6.2).
    fn authenticate(&mut self, wire: &mut Wire, sqe: &Sqe, data: &Data) -> Result<(), QueueEnd> {
        if let Err(status) = fabrics::check_authentication(sqe) {
            self.complete(wire, sqe.cid(), 0, status.into());
            return Ok(());
        }
        let step = if sqe.fabrics_type() == fabrics::AUTHENTICATION_SEND {
            let step = self.authentication.send(&data.to_bytes());
            self.complete(wire, sqe.cid(), 0, Outcome::success());
            step
        } else {
            let limit = sqe.data_bytes();
            if self.authentication.next_bytes() > limit as usize {
                self.complete(wire, sqe.cid(), 0, Status::INVALID_FIELD.into());
                return Ok(());
            }
            let (mut message, step) = self.authentication.receive();
            message.resize(limit as usize, 0);
            self.complete(wire, sqe.cid(), limit, Outcome::data(message));
            step
        };
        match step {
            Step::Goes => Ok(()),
            Step::Authenticated => {
                if self.qid == 0 {
                    self.controller.subsystem.admit(&self.controller);
                }
                Ok(())
            }
            Step::Failed(failure) => {
                self.failure = Some(failure);
                Err(QueueEnd::Unauthenticated)
            }
        }
    }

    /// Whether the host is authenticated, or need not be.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.authentication.is_done()
    }

    /// Why an authentication failed, if the queue ends now.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.or(self.authentication.abandoned())
    }

    /// Called once a second; returns the seconds without an authentication.
    pub(crate) fn tick(&mut self) -> u32 {
        self.unauthenticated_seconds += u32::from(!self.is_authenticated());
        self.unauthenticated_seconds
    }

    /// A command of fabrics on an I/O queue: only Disconnect (Base 6.4).
    fn disconnect(&mut self, wire: &mut Wire, sqe: &Sqe) -> Result<(), QueueEnd> {
        if sqe.fabrics_type() != fabrics::DISCONNECT {
            self.complete(wire, sqe.cid(), 0, Status::INVALID_OPCODE.into());
            return Ok(());
        }
        self.complete(wire, sqe.cid(), 0, Outcome::success());
        Err(QueueEnd::Disconnected)
    }

    fn half_ready(&mut self, wire: &mut Wire, cid: u16, data: Result<Data, Status>) {
        let Some(pair) = self.fused.put(cid, data) else { return };
        let Pair { first, second } = &pair;
        let (compare, write) = match pair.data() {
            Ok(data) => data,
            Err((one, other)) => {
                self.complete(wire, first.cid(), 0, one.into());
                return self.complete(wire, second.cid(), 0, other.into());
            }
        };
        match execute::compare_and_write(&self.controller, first.sqe, compare, write) {
            Execution::Done(outcome) => self.complete_pair(wire, first.cid(), second.cid(), &outcome),
            Execution::Task(running) => {
                let about = About::Fused(first.cid(), second.cid());
                self.seconds.push(second.cid());
                self.tasks.insert(first.cid().into(), about, first.charge + second.charge, running);
            }
        }
    }

    /// The first command reports how both ended; the second that it was not performed alone.
    fn complete_pair(&mut self, wire: &mut Wire, first: u16, second: u16, outcome: &Outcome) {
        let other = if outcome.status.is_success() { Status::SUCCESS } else { Status::FAILED_FUSED };
        self.complete(wire, first, 0, outcome.status.into());
        self.complete(wire, second, 0, other.into());
    }

    fn event_request(&mut self, wire: &mut Wire, sqe: &Sqe) {
        match () {
            () if !self.controller.is_ready() => {
                self.complete(wire, sqe.cid(), 0, Status::COMMAND_SEQUENCE_ERROR.into());
            }
            () if self.event_requests.len() >= MAX_EVENT_REQUESTS => {
                self.complete(wire, sqe.cid(), 0, Status::EVENT_REQUEST_LIMIT.into());
            }
            () => self.event_requests.push_back(sqe.cid()),
        }
    }

    /// Aborts a command, if it has not ended: it has then taken effect whole or never will. A half of a fused operation ends with
    /// the other only.
    fn abort(&mut self, wire: &mut Wire, cid: u16) -> bool {
        let waits = |queue: &VecDeque<u16>| queue.iter().position(|waiting| *waiting == cid);
        let gathers = |gather: &&Gather| gather.sqe.cid() == cid && self.is_single(gather);
        if let Some(index) = waits(&self.event_requests) {
            self.event_requests.remove(index);
        } else if let Some(index) = self.waiting.iter().position(|sqe| sqe.cid() == cid) {
            self.waiting.remove(index);
        } else if self.gathers.values().any(|gather| gathers(&gather)) {
            self.orphan(cid);
        } else if matches!(self.tasks.about(cid.into()), Some(About::Single(..))) {
            self.tasks.remove(cid.into());
        } else {
            return false;
        }
        self.complete(wire, cid, 0, Status::ABORT_REQUESTED.into());
        true
    }

    /// Queues the data and the completion of a command. `limit` is the most data that it may return.
    fn complete(&mut self, wire: &mut Wire, cid: u16, limit: u32, mut outcome: Outcome) {
        if outcome.data.len() as u64 > u64::from(limit) {
            outcome = Status::DATA_SGL_LENGTH_INVALID.into();
        }
        if !outcome.data.is_empty() {
            // Without flow control the completion says nothing but success (3.3.2.2).
            let success = self.head.is_none() && outcome.result == 0;
            wire.out.data(cid, &outcome.data, success);
            if success {
                return;
            }
        }
        wire.out.response(&completion(&outcome, self.head.unwrap_or(0), self.qid, cid));
    }

    /// The response to the Connect that created the queue.
    pub(crate) fn complete_connect(&mut self, wire: &mut Wire, cid: u16) {
        self.consume();
        let required = if self.is_authenticated() { 0 } else { fabrics::AUTHENTICATION_REQUIRED };
        let outcome = Outcome::result((u32::from(self.controller.id) | required).into());
        // FFFFh: flow control is disabled (Base 6.3).
        wire.out.response(&completion(&outcome, self.head.unwrap_or(0xFFFF), self.qid, cid));
    }

    /// Begins waiting commands as far as there is memory.
    pub(crate) fn advance(&mut self, wire: &mut Wire) -> Result<(), QueueEnd> {
        while let Some(sqe) = self.waiting.front().copied() {
            let need = Self::need(&sqe);
            let wanted = self.held(wire) + need;
            if wire.share.waits() && !wire.share.covers(wanted) {
                return Ok(());
            }
            wire.share.stop_waiting();
            if wire.share.cover(wanted) {
                self.waiting.pop_front();
                self.begin(wire, sqe, Bytes::new(), need)?;
                continue;
            }
            // A queue that waits holds no draws that it does not need.
            wire.share.settle_all(wanted - need);
            if wire.share.wait_for(wanted).is_ok() {
                return Ok(());
            }
            self.waiting.pop_front();
            self.complete(wire, sqe.cid(), 0, Status::COMMAND_INTERRUPTED.into());
        }
        Ok(())
    }

    /// Sends completions of commands that have ended, and events. Pending if there is nothing to do.
    pub(crate) fn poll_tasks(&mut self, wire: &mut Wire, cx: &mut Context<'_>) -> Poll<()> {
        let mut progress = wire.share.poll(cx).is_ready();
        for request in self.aborts.take(cx) {
            let aborted = self.abort(wire, request.cid);
            request.answer(aborted);
            progress = true;
        }
        if let Poll::Ready(ended) = self.tasks.poll(cx) {
            progress = true;
            for (about, outcome) in ended {
                match about {
                    About::Single(cid, limit) => self.complete(wire, cid, limit, outcome),
                    About::Fused(first, second) => {
                        self.seconds.retain(|cid| *cid != second);
                        self.complete_pair(wire, first, second, &outcome);
                    }
                }
            }
        }
        while let Some(cid) = self.event_requests.front().copied() {
            let Poll::Ready(event) = self.controller.events.poll(cx) else { break };
            self.event_requests.pop_front();
            self.complete(wire, cid, 0, Outcome::result(event.into()));
            progress = true;
        }
        if progress { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The command of a capsule.
pub(crate) fn sqe_of(header: &Header) -> Sqe {
    Sqe(header.array::<8, 64>())
}

/// The data of a command, if they are in its capsule or if it has none; `None` if they have to be requested.
fn data_in_capsule(sqe: &Sqe, capsule: &Bytes) -> Result<Option<Data>, Status> {
    let bytes = sqe.data_bytes();
    if bytes > MAX_TRANSFER_BYTES {
        return Err(Status::INVALID_FIELD);
    }
    if bytes == 0 {
        return Ok(Some(Data::new()));
    }
    match (sqe.direction(), sqe.data_location()?) {
        (Direction::Out, DataLocation::Capsule(offset)) => {
            let from = usize::try_from(offset).ok().filter(|from| *from <= capsule.len());
            let from = from.ok_or(Status::SGL_OFFSET_INVALID)?;
            let end = from + bytes as usize;
            if end > capsule.len() {
                return Err(Status::DATA_SGL_LENGTH_INVALID);
            }
            Ok(Some(capsule.slice(from..end).into()))
        }
        (Direction::Out, DataLocation::Transport) => Ok(None),
        (Direction::In, DataLocation::Transport) => Ok(Some(Data::new())),
        (Direction::In, DataLocation::Capsule(_)) | (Direction::None, _) => Err(Status::SGL_TYPE_INVALID),
    }
}
