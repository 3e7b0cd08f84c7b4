//! Outstanding commands of a queue. Each has one entry, which owns its charge, its data and its R2T, so that all of
//! them end with the command. The number of entries never exceeds the size of the queue.
//!
//! Only an R2T can outlive its command, since its data may be in transit: that data is discarded. The number of such
//! R2Ts is bounded by the size of the queue.

use crate::fused::Pair;
use crate::pdu::incoming::Pdu;
use crate::pdu::{Header, Termination};
use crate::spec::MAX_EVENT_REQUESTS;
use crate::sqe::{Command, Fuse, Outcome, Sqe};
use crate::status::Status;
use crate::transfers::Transfers;
use block::{Collector, Data};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Poll};
use transport::{Running, Tasks};

/// Information about a running command that its completion needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About {
    /// Command identifier, and the maximum number of bytes of data for the host.
    Single(u16, u32),
    /// The command identifiers of Compare and Write.
    Fused(u16, u16),
}

/// A command that has not started, or is part of another operation.
struct Pending {
    command: Command,
    state: State,
    /// The other half of a fused operation.
    other: Option<u16>,
}

enum State {
    /// The command waits for memory.
    Waiting,
    /// The R2T with this tag requested the data; `damaged`: a data digest was wrong.
    Requested { tag: u16, data: Collector, damaged: bool },
    /// A half of a fused operation with its data, or the status that it failed with.
    Half(Option<Result<Data, Status>>),
    /// The second half of a running fused operation.
    Second,
    /// An Asynchronous Event Request.
    EventRequest,
    /// The command is executed outside the queue.
    Held,
}

/// A command whose data are complete.
pub(crate) enum Gathered {
    /// A command that is not fused.
    Single(Command, Result<Data, Status>),
    /// With the other half of a fused operation.
    Pair(Pair),
}

/// The outstanding commands of one queue.
pub(crate) struct Commands {
    entries: usize,
    pending: BTreeMap<u16, Pending>,
    /// The charges of all pending commands.
    charge: u64,
    /// Commands that wait for memory, in order of arrival.
    waiting: VecDeque<u16>,
    /// Asynchronous Event Requests in order of arrival.
    event_requests: VecDeque<u16>,
    /// A first half whose second half has not arrived.
    open_half: Option<u16>,
    transfers: Transfers,
    tasks: Tasks<About, Outcome>,
}

impl Commands {
    /// An empty set for a queue with this many entries.
    pub(crate) fn new(entries: u16) -> Self {
        let (waiting, event_requests) = (VecDeque::new(), VecDeque::new());
        Self {
            entries: entries.into(),
            pending: BTreeMap::new(),
            charge: 0,
            waiting,
            event_requests,
            open_half: None,
            transfers: Transfers::new(entries.into()),
            tasks: Tasks::default(),
        }
    }

    /// Number of commands.
    pub(crate) fn len(&self) -> usize {
        self.pending.len() + self.tasks.len()
    }

    /// Whether every entry of the queue is in use.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.entries
    }

    pub(crate) fn contains(&self, cid: u16) -> bool {
        self.pending.contains_key(&cid) || self.tasks.contains(cid.into())
    }

    /// Memory that is charged for all commands, in bytes.
    pub(crate) fn charge(&self) -> u64 {
        self.charge + self.tasks.charge()
    }

    /// Whether a command runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// R2Ts of outstanding commands and of ended ones.
    pub(crate) fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    fn insert(&mut self, command: Command, state: State) {
        assert!(!self.contains(command.cid()), "a command has one entry");
        self.charge += command.charge;
        self.pending.insert(command.cid(), Pending { command, state, other: None });
    }

    /// Removes a pending command with everything that it owns.
    fn remove(&mut self, cid: u16) -> Option<Pending> {
        let pending = self.pending.remove(&cid)?;
        self.charge -= pending.command.charge;
        match pending.state {
            State::Waiting => self.waiting.retain(|waiting| *waiting != cid),
            State::EventRequest => self.event_requests.retain(|waiting| *waiting != cid),
            State::Requested { tag, .. } => self.transfers.abandon(tag),
            State::Half(_) | State::Second | State::Held => {}
        }
        if self.open_half == Some(cid) {
            self.open_half = None;
        }
        Some(pending)
    }

    /// Ends all commands without completions.
    pub(crate) fn clear(&mut self) {
        let pending: Vec<u16> = self.pending.keys().copied().collect();
        pending.into_iter().for_each(|cid| drop(self.remove(cid)));
        self.tasks = Tasks::default();
    }

    /// Adds a command that waits for memory, uncharged.
    pub(crate) fn wait(&mut self, sqe: Sqe) {
        self.insert(Command { sqe, charge: 0 }, State::Waiting);
        self.waiting.push_back(sqe.cid());
    }

    /// The first command that waits for memory.
    pub(crate) fn first_waiting(&self) -> Option<Sqe> {
        let first = self.waiting.front()?;
        self.pending.get(first).map(|pending| pending.command.sqe)
    }

    /// Removes the first command that waits for memory.
    pub(crate) fn take_waiting(&mut self) {
        self.waiting.front().copied().and_then(|first| self.remove(first));
    }

    /// Adds an Asynchronous Event Request; false if there are too many.
    pub(crate) fn request_event(&mut self, sqe: Sqe) -> bool {
        let has_room = self.event_requests.len() < MAX_EVENT_REQUESTS;
        if has_room {
            self.insert(Command { sqe, charge: 0 }, State::EventRequest);
            self.event_requests.push_back(sqe.cid());
        }
        has_room
    }

    /// Whether an Asynchronous Event Request waits.
    pub(crate) fn awaits_event(&self) -> bool {
        !self.event_requests.is_empty()
    }

    /// Ends the first Asynchronous Event Request.
    pub(crate) fn take_event_request(&mut self) -> Option<u16> {
        let first = self.event_requests.front().copied()?;
        self.remove(first).map(|_| first)
    }

    /// Adds a half of a fused operation. Returns the halves without a counterpart, which have ended; if this half is
    /// among them, it was not added.
    pub(crate) fn add_half(&mut self, half: Command) -> SmallVec<[u16; 2]> {
        let cid = half.cid();
        let before = self.open_half.take();
        if half.sqe.fuse() == Fuse::First {
            before.and_then(|before| self.remove(before));
            self.insert(half, State::Half(None));
            self.open_half = Some(cid);
            return before.into_iter().collect();
        }
        let first = before.and_then(|before| self.pending.get_mut(&before));
        match first.filter(|first| Pair::matches(&first.command.sqe, &half.sqe)) {
            Some(first) => {
                first.other = Some(cid);
                let other = Some(first.command.cid());
                self.insert(half, State::Half(None));
                self.pending.entry(cid).and_modify(|half| half.other = other);
                SmallVec::new()
            }
            None => {
                before.and_then(|before| self.remove(before));
                before.into_iter().chain([cid]).collect()
            }
        }
    }

    /// Supplies the data of a half, or the status that it failed with. Returns the pair if it is complete; both
    /// commands have then left the queue.
    pub(crate) fn supply_half(&mut self, cid: u16, data: Result<Data, Status>) -> Option<Pair> {
        let half = self.pending.get_mut(&cid)?;
        half.state = State::Half(Some(data));
        let other = half.other?;
        let is_supplied = |cid| {
            let half: Option<&Pending> = self.pending.get(&cid);
            half.is_some_and(|half| matches!(half.state, State::Half(Some(_))))
        };
        if !is_supplied(other) {
            return None;
        }
        let (one, other) = (self.remove(cid)?, self.remove(other)?);
        let is_first = one.command.sqe.fuse() == Fuse::First;
        let (first, second) = if is_first { (one, other) } else { (other, one) };
        let State::Half(Some(compare)) = first.state else { return None };
        let State::Half(Some(write)) = second.state else { return None };
        Some(Pair { first: first.command, second: second.command, compare, write })
    }

    /// Adds an R2T for all data of a command, which is either a half that was added or a command that was not; returns
    /// its tag.
    pub(crate) fn request_data(&mut self, command: Command) -> u16 {
        let tag = self.transfers.request(command.cid(), command.sqe.data_bytes());
        let state = State::Requested { tag, data: Collector::default(), damaged: false };
        match self.pending.get_mut(&command.cid()) {
            Some(half) => half.state = state,
            None => self.insert(command, state),
        }
        tag
    }

    /// Checks that data were requested and arrive in order; returns whether their command is still outstanding.
    pub(crate) fn check_data(&self, header: &Header) -> Result<bool, Termination> {
        self.transfers.check(header)
    }

    /// Takes checked data. Returns the command once its data are complete; the command has then left the queue.
    pub(crate) fn data(&mut self, pdu: Pdu) -> Option<Gathered> {
        let (cid, is_whole) = self.transfers.advance(&pdu.header)?;
        let pending = self.pending.get_mut(&cid)?;
        let State::Requested { data, damaged, .. } = &mut pending.state else { return None };
        if pdu.damaged {
            (*damaged, *data) = (true, Collector::default());
        }
        if !*damaged {
            data.push(pdu.data);
        }
        if !is_whole {
            return None;
        }
        let data = match damaged {
            true => Err(Status::TRANSIENT_TRANSPORT_ERROR),
            false => Ok(std::mem::take(data).finish()),
        };
        if pending.command.sqe.fuse() != Fuse::Normal {
            return self.supply_half(cid, data).map(Gathered::Pair);
        }
        self.remove(cid).map(|pending| Gathered::Single(pending.command, data))
    }

    /// Adds a running command, which has left the queue.
    pub(crate) fn run(&mut self, command: Command, limit: u32, running: Running<Outcome>) {
        let cid = command.cid();
        assert!(!self.contains(cid), "a command has one entry");
        self.tasks.insert(cid.into(), About::Single(cid, limit), command.charge, running);
    }

    /// Adds a command that is executed outside the queue, until [`Commands::release`].
    pub(crate) fn hold(&mut self, command: Command) {
        self.insert(command, State::Held);
    }

    /// Removes a command that was added by [`Commands::hold`].
    pub(crate) fn release(&mut self, cid: u16) {
        self.remove(cid);
    }

    /// Adds both halves of a fused operation that runs.
    pub(crate) fn run_pair(&mut self, first: Command, second: Command, running: Running<Outcome>) {
        self.insert(second, State::Second);
        let about = About::Fused(first.cid(), second.cid());
        self.tasks.insert(first.cid().into(), about, first.charge, running);
    }

    /// Returns the running commands that have ended; pending if no task was woken.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Vec<(About, Outcome)>> {
        self.tasks.poll(cx).map(|ended| {
            for (about, _) in &ended {
                if let About::Fused(_, second) = about {
                    self.remove(*second);
                }
            }
            ended
        })
    }

    /// Aborts a command that has not ended; its effect is then complete or absent. A half of a fused operation ends
    /// only together with the other half.
    pub(crate) fn abort(&mut self, cid: u16) -> bool {
        let can_end = |pending: &Pending| match pending.state {
            State::Waiting | State::EventRequest => true,
            State::Requested { .. } => pending.command.sqe.fuse() == Fuse::Normal,
            State::Half(_) | State::Second | State::Held => false,
        };
        if self.pending.get(&cid).is_some_and(can_end) {
            return self.remove(cid).is_some();
        }
        matches!(self.tasks.about(cid.into()), Some(About::Single(..)))
            && self.tasks.remove(cid.into()).is_some()
    }
}

impl Commands {
    /// Checks the consistency of the records, for tests.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn audit(&self) {
        assert!(self.len() <= self.entries, "{} commands in {} entries", self.len(), self.entries);
        let charges = self.pending.values().map(|pending| pending.command.charge).sum::<u64>();
        assert_eq!(self.charge, charges, "the sum of the charges");
        let (mut requested, mut waiting, mut events) = (0, 0, 0);
        for (cid, Pending { command, state, .. }) in &self.pending {
            assert_eq!(*cid, command.cid());
            let held = match state {
                State::Requested { tag, data, .. } => {
                    requested += 1;
                    assert!(self.transfers.is_of(*tag, *cid), "its R2T is known");
                    data.len()
                }
                State::Half(Some(Ok(data))) => data.len(),
                State::Waiting => {
                    waiting += 1;
                    0
                }
                State::EventRequest => {
                    events += 1;
                    0
                }
                State::Half(_) | State::Second | State::Held => 0,
            };
            assert!(held as u64 <= command.charge, "{held} bytes for a charge of {}", command.charge);
        }
        assert_eq!((waiting, events), (self.waiting.len(), self.event_requests.len()));
        assert_eq!(requested, self.transfers.wanted(), "an R2T for each command that waits for data");
        assert!(self.transfers.len() <= 2 * self.entries, "{} R2Ts", self.transfers.len());
    }
}
