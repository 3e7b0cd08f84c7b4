//! QoS limits (IOPS, bytes per second) of a volume or a group of volumes. Commands over a limit are queued; waiting
//! initiators share the rate fairly.
//!
//! Each limit is a GCRA rate limiter: instead of counting tokens, it keeps the time at which the next command conforms,
//! for commands and for bytes. Admitting a command advances that time by the command's cost at the rate, so no bucket
//! has to be refilled. One of the commands that wait at a limiter owns a timer. Any poll admits every command that
//! conforms by then.
//!
//! Fairness is by cost, not by queue depth: the initiator with the least received service goes first. An initiator with
//! one command at a time has an empty queue while its next command is in transit. It keeps its credit for that time,
//! and its turn is held for a short time, so a deep queue does not starve it.

use crate::clock::{Clock, Sleep};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A rate with its burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Amount per second; zero counts as one.
    pub per_second: u64,
    /// Amount that is admitted at once after a pause. A single command of any size conforms once the rate has
    /// caught up with earlier commands; later commands wait correspondingly longer.
    pub burst: u64,
}

/// QoS limits of a volume or of a group of volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QosLimits {
    /// Commands on the medium: reads, writes and each offload.
    pub operations: Option<Rate>,
    /// Bytes transferred by such commands. An offload counts with the data that it transfers, not with the blocks that
    /// it names.
    pub bytes: Option<Rate>,
}

impl QosLimits {
    /// True if nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == QosLimits::default()
    }
}

/// Highest level of the UNMAP throttle.
pub const MAX_UNMAP_THROTTLE_LEVEL: u8 = 9;

/// Rate of the highest level; each level below it doubles the rate.
const UNMAP_MIN_BYTES_PER_SECOND: u64 = 384 << 20;

/// The limits of a level of the UNMAP throttle; level 0 is unlimited. The burst is a tenth of a second.
pub(crate) fn unmap_limits(level: u8) -> QosLimits {
    let level = level.min(MAX_UNMAP_THROTTLE_LEVEL);
    let per_second = UNMAP_MIN_BYTES_PER_SECOND << (MAX_UNMAP_THROTTLE_LEVEL - level);
    let bytes = (level > 0).then_some(Rate { per_second, burst: per_second / 10 });
    QosLimits { operations: None, bytes }
}

/// Credit that an initiator keeps for service it did not use, in nanoseconds at the rate.
const FAIRNESS_MAX_CREDIT_NS: u64 = 20_000_000;

/// Time that the turn of the initiator with the least service is held while its queue is empty.
const EMPTY_FLOW_HOLD_NS: u64 = 1_000_000;

/// The cost of a command at a rate limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Commands.
    pub operations: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A rate limiter, shared by all commands that it applies to.
pub struct RateLimiter {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    limits: QosLimits,
    /// Time at which the next command conforms to the limit of operations.
    operations_conforming_ns: u64,
    /// Time at which the next command conforms to the limit of bytes.
    bytes_conforming_ns: u64,
    /// Waiting commands and recent service by initiator.
    flows: BTreeMap<String, Flow>,
    /// The largest `served_ns` of an initiator before it was served; a new initiator starts there.
    served_ns: u64,
    /// Admitted commands that have not been polled since.
    admitted: BTreeSet<u64>,
    next_ticket: u64,
    /// The timer, and the ticket that owns it.
    timer: Option<(u64, Sleep)>,
}

/// The waiting commands of one initiator, oldest first.
struct Flow {
    /// Service received, in nanoseconds at the rate.
    served_ns: u64,
    /// Time at which one of its commands was last admitted.
    last_admitted_ns: u64,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    ticket: u64,
    cost: Cost,
    waker: Option<Waker>,
}

impl RateLimiter {
    pub(crate) fn new(clock: Arc<dyn Clock>, limits: QosLimits) -> Arc<RateLimiter> {
        Arc::new(RateLimiter { clock, state: Mutex::new(State { limits, ..State::default() }) })
    }

    /// Changes the limits, also for waiting commands. Earlier commands do not count against the new limits.
    pub(crate) fn set(&self, limits: QosLimits) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if state.limits != limits {
            state.limits = limits;
            (state.operations_conforming_ns, state.bytes_conforming_ns) = (now, now);
            state.release_timer();
        }
    }

    /// Admits a command that conforms now.
    fn try_admit(&self, cost: Cost) -> bool {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let conforms = state.waiting().next().is_none() && state.next_conforming_ns() <= now;
        if conforms {
            state.limit_burst(now);
            state.advance(cost);
        }
        conforms
    }

    /// Counts a command that must not wait; later commands wait longer.
    fn count(&self, cost: Cost) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.limit_burst(now);
        state.advance(cost);
    }

    fn enqueue(&self, initiator: &str, cost: Cost) -> u64 {
        let mut state = self.state.lock();
        let (ticket, served_ns) = (state.next_ticket, state.served_ns);
        state.next_ticket += 1;
        let flow = state.flows.entry(initiator.to_owned());
        let flow = flow.or_insert_with(|| Flow { served_ns, last_admitted_ns: 0, waiting: VecDeque::new() });
        flow.waiting.push_back(Waiting { ticket, cost, waker: None });
        ticket
    }

    fn poll(&self, ticket: u64, context: &mut Context<'_>) -> Poll<()> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.admit_waiting(now);
        if state.admitted.remove(&ticket) {
            if state.timer.as_ref().is_none_or(|(owner, _)| *owner == ticket) {
                state.release_timer();
            }
            return Poll::Ready(());
        }
        state.park(ticket, context.waker());
        if state.timer.as_ref().is_some_and(|(owner, _)| *owner != ticket) {
            return Poll::Pending;
        }
        let next = state.next_conforming_ns();
        let wake_at = if next > now { next } else { next.saturating_add(EMPTY_FLOW_HOLD_NS) };
        let mut sleep = self.clock.sleep_until(wake_at);
        if sleep.as_mut().poll(context).is_ready() {
            // The clock has advanced since: poll again, after other tasks have run.
            context.waker().wake_by_ref();
        }
        state.timer = Some((ticket, sleep));
        Poll::Pending
    }

    fn cancel(&self, ticket: u64) {
        let mut state = self.state.lock();
        state.admitted.remove(&ticket);
        for flow in state.flows.values_mut() {
            flow.waiting.retain(|waiting| waiting.ticket != ticket);
        }
        if state.timer.as_ref().is_none_or(|(owner, _)| *owner == ticket) {
            state.release_timer();
        }
    }
}

impl State {
    /// Time at which the next command conforms to both limits.
    fn next_conforming_ns(&self) -> u64 {
        let of = |rate: Option<Rate>, conforming_ns| rate.map_or(0, |_| conforming_ns);
        of(self.limits.operations, self.operations_conforming_ns)
            .max(of(self.limits.bytes, self.bytes_conforming_ns))
    }

    /// Limits the credit of a pause to the burst.
    fn limit_burst(&mut self, now: u64) {
        let earliest =
            |rate: Option<Rate>| now.saturating_sub(rate.map_or(0, |rate| duration_ns(rate, rate.burst)));
        self.operations_conforming_ns = self.operations_conforming_ns.max(earliest(self.limits.operations));
        self.bytes_conforming_ns = self.bytes_conforming_ns.max(earliest(self.limits.bytes));
    }

    /// Advances the conforming times by the cost of a command; returns the larger advance.
    fn advance(&mut self, cost: Cost) -> u64 {
        let operations = self.limits.operations.map_or(0, |rate| duration_ns(rate, cost.operations));
        let bytes = self.limits.bytes.map_or(0, |rate| duration_ns(rate, cost.bytes));
        self.operations_conforming_ns = self.operations_conforming_ns.saturating_add(operations);
        self.bytes_conforming_ns = self.bytes_conforming_ns.saturating_add(bytes);
        operations.max(bytes)
    }

    /// Admits every waiting command that conforms, first those of the initiator with the least service, oldest first.
    fn admit_waiting(&mut self, now: u64) {
        while self.next_conforming_ns() <= now {
            let Some(name) = self.next_flow(now) else { break };
            let Some(flow) = self.flows.get_mut(&name) else { break };
            let Some(waiting) = flow.waiting.pop_front() else { break };
            self.served_ns = self.served_ns.max(flow.served_ns);
            let advance = self.advance(waiting.cost);
            if let Some(flow) = self.flows.get_mut(&name) {
                // Credit beyond the maximum expires.
                let floor = self.served_ns.saturating_sub(FAIRNESS_MAX_CREDIT_NS);
                flow.served_ns = flow.served_ns.max(floor).saturating_add(advance);
                flow.last_admitted_ns = now;
            }
            self.admitted.insert(waiting.ticket);
            waiting.waker.into_iter().for_each(Waker::wake);
        }
        let floor = self.served_ns.saturating_sub(FAIRNESS_MAX_CREDIT_NS);
        self.flows.retain(|_, flow| !flow.waiting.is_empty() || flow.served_ns > floor);
    }

    /// The initiator to serve next. `None` if no command waits, or if the turn is held for an initiator whose next
    /// command is in transit.
    fn next_flow(&self, now: u64) -> Option<String> {
        let is_held = |flow: &Flow| {
            now < flow.last_admitted_ns.min(self.next_conforming_ns()).saturating_add(EMPTY_FLOW_HOLD_NS)
        };
        let candidates = self.flows.iter().filter(|(_, flow)| !flow.waiting.is_empty() || is_held(flow));
        let (name, flow) = candidates.min_by_key(|(_, flow)| (flow.served_ns, flow.waiting.is_empty()))?;
        (!flow.waiting.is_empty()).then(|| name.clone())
    }

    fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.flows.values().flat_map(|flow| &flow.waiting)
    }

    fn park(&mut self, ticket: u64, waker: &Waker) {
        let mut waiting = self.flows.values_mut().flat_map(|flow| &mut flow.waiting);
        if let Some(waiting) = waiting.find(|waiting| waiting.ticket == ticket) {
            waiting.waker = Some(waker.clone());
        }
    }

    /// Releases the timer and wakes a waiting command, which takes the timer over.
    fn release_timer(&mut self) {
        self.timer = None;
        let next = self.waiting().find_map(|waiting| waiting.waker.as_ref());
        next.into_iter().for_each(Waker::wake_by_ref);
    }
}

/// Nanoseconds that an amount takes at a rate.
fn duration_ns(rate: Rate, amount: u64) -> u64 {
    let nanoseconds = u128::from(amount) * 1_000_000_000 / u128::from(rate.per_second.max(1));
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}

/// The rate limiters that apply to one command, with its cost at each; the last is passed first.
pub type Charges = SmallVec<[(Arc<RateLimiter>, Cost); 3]>;

/// A command that waits for its rate limiters. Dropping it cancels the wait.
pub struct Admission {
    /// The limiters still to pass, the next one last.
    charges: Charges,
    initiator: String,
    /// The ticket at the next limiter, while the command waits there.
    ticket: Option<u64>,
}

impl Admission {
    /// Passes the limiters that the command conforms to now. `None` if it has passed all: the command is admitted.
    pub fn request(mut charges: Charges, initiator: &str) -> Option<Admission> {
        while let Some((limiter, cost)) = charges.last() {
            if !limiter.try_admit(*cost) {
                return Some(Admission { charges, initiator: initiator.to_owned(), ticket: None });
            }
            charges.pop();
        }
        None
    }

    /// Counts a command that must not wait at all of its limiters.
    pub fn count(charges: &[(Arc<RateLimiter>, Cost)]) {
        charges.iter().for_each(|(limiter, cost)| limiter.count(*cost));
    }

    /// Ready once the command is admitted.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some((limiter, cost)) = self.charges.last() {
            let ticket = *self.ticket.get_or_insert_with(|| limiter.enqueue(&self.initiator, *cost));
            if limiter.poll(ticket, context).is_pending() {
                return Poll::Pending;
            }
            self.ticket = None;
            self.charges.pop();
        }
        Poll::Ready(())
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let (Some((limiter, _)), Some(ticket)) = (self.charges.last(), self.ticket) {
            limiter.cancel(ticket);
        }
    }
}

#[cfg(test)]
#[path = "qos_test.rs"]
mod tests;
