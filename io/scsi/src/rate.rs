//! QosLimits on what a unit, or a group of units, does in a second: commands that are beyond them wait, each initiator
//! getting its part of what there is.
//!
//! A bucket does not count tokens. It keeps, for commands and for bytes, the moment at which what was let through is
//! paid for; a command may begin when that moment has passed, and moves it on by its own price. So time alone fills a
//! bucket. Of all the commands that wait at a bucket one has a timer; whoever polls with time enough lets everyone
//! through whose turn has come.
//!
//! Who has one command at a time gets as much as who has many, when it is fast enough: an initiator that has nothing
//! waiting for a moment, as its commands are on their way, keeps its claim to what it did not take meanwhile, and while
//! it has had least, its turn is kept for it a little.

use crate::clock::{Clock, Sleep};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// So much in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How much in a second; zero is taken as one.
    pub per_second: u64,
    /// What may come at once after a pause. A single command may always begin when nothing is owed, however large it
    /// is; what comes after pays for it.
    pub burst: u64,
}

/// QosLimits of a unit or of a group of units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QosLimits {
    /// Commands on the medium: reads, writes and each offload.
    pub operations: Option<Rate>,
    /// Bytes that such commands carry. An offload carries what comes with it, not what it is about.
    pub bytes: Option<Rate>,
}

impl QosLimits {
    /// True when nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == QosLimits::default()
    }
}

/// Highest level of the UNMAP throttle.
pub const MAX_UNMAP_THROTTLE_LEVEL: u8 = 9;

/// Bytes in a second that level 9 of the UNMAP throttle lets through; each level below it twice as many.
const UNMAP_MIN_BYTES_PER_SECOND: u64 = 384 << 20;

/// What a level of the UNMAP throttle allows: nothing is limited at level 0. One tenth of a second's worth may come at
/// once.
pub(crate) fn unmap_limits(level: u8) -> QosLimits {
    let level = level.min(MAX_UNMAP_THROTTLE_LEVEL);
    let per_second = UNMAP_MIN_BYTES_PER_SECOND << (MAX_UNMAP_THROTTLE_LEVEL - level);
    let bytes = (level > 0).then_some(Rate { per_second, burst: per_second / 10 });
    QosLimits { operations: None, bytes }
}

/// How much, in nanoseconds of the bucket, an initiator may have had less than the others and still claim it.
const CLAIM: u64 = 20_000_000;

/// Nanoseconds that a turn is kept for an initiator that had least and was here just before.
const KEPT: u64 = 1_000_000;

/// What a command costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
}

/// QosLimits at work.
pub(crate) struct RateLimiter {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    limits: QosLimits,
    /// When what was let through is paid for, by the clock.
    operations_paid: u64,
    bytes_paid: u64,
    /// Those that wait, by initiator; and what initiators had lately.
    flows: BTreeMap<String, Flow>,
    /// The most that an initiator had had before it was served; one that comes anew begins there.
    served: u64,
    /// Those whose turn has come, until they notice.
    admitted: BTreeSet<u64>,
    next: u64,
    /// The one that has the timer.
    timer: Option<(u64, Sleep)>,
}

/// The waiting commands of one initiator, in their order.
struct Flow {
    /// Nanoseconds of the bucket that it has had.
    served: u64,
    /// When one of its commands went on last.
    left: u64,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    number: u64,
    cost: Cost,
    waker: Option<Waker>,
}

impl RateLimiter {
    pub(crate) fn new(clock: Arc<dyn Clock>, limits: QosLimits) -> Arc<RateLimiter> {
        Arc::new(RateLimiter { clock, state: Mutex::new(State { limits, ..State::default() }) })
    }

    /// Puts other limits in force, for those that wait as well. What was owed under the old ones is forgotten.
    pub(crate) fn set(&self, limits: QosLimits) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if state.limits != limits {
            (state.limits, state.operations_paid, state.bytes_paid) = (limits, now, now);
            state.hand_on();
        }
    }

    /// Lets a command through at once, if it need not wait.
    fn admit(&self, cost: Cost) -> bool {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let open = state.waiting().next().is_none() && state.opens() <= now;
        if open {
            state.rest(now);
            state.charge(cost);
        }
        open
    }

    /// Lets a command through that must not wait; those behind it pay.
    fn force(&self, cost: Cost) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.rest(now);
        state.charge(cost);
    }

    fn enter(&self, initiator: &str, cost: Cost) -> u64 {
        let mut state = self.state.lock();
        let (number, served) = (state.next, state.served);
        state.next += 1;
        let flow = state.flows.entry(initiator.to_owned());
        let flow = flow.or_insert_with(|| Flow { served, left: 0, waiting: VecDeque::new() });
        flow.waiting.push_back(Waiting { number, cost, waker: None });
        number
    }

    fn poll(&self, number: u64, context: &mut Context<'_>) -> Poll<()> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.admit_waiting(now);
        if state.admitted.remove(&number) {
            if state.timer.as_ref().is_none_or(|(owner, _)| *owner == number) {
                state.hand_on();
            }
            return Poll::Ready(());
        }
        state.park(number, context.waker());
        if state.timer.as_ref().is_some_and(|(owner, _)| *owner != number) {
            return Poll::Pending;
        }
        let opens = state.opens();
        let turn = if opens > now { opens } else { opens.saturating_add(KEPT) };
        let mut sleep = self.clock.sleep_until(turn);
        if sleep.as_mut().poll(context).is_ready() {
            // The clock has moved on meanwhile: again, after others had their turn.
            context.waker().wake_by_ref();
        }
        state.timer = Some((number, sleep));
        Poll::Pending
    }

    fn leave(&self, number: u64) {
        let mut state = self.state.lock();
        state.admitted.remove(&number);
        for flow in state.flows.values_mut() {
            flow.waiting.retain(|waiting| waiting.number != number);
        }
        if state.timer.as_ref().is_none_or(|(owner, _)| *owner == number) {
            state.hand_on();
        }
    }
}

impl State {
    /// When the next command may begin.
    fn opens(&self) -> u64 {
        let of = |rate: Option<Rate>, paid| rate.map_or(0, |_| paid);
        of(self.limits.operations, self.operations_paid).max(of(self.limits.bytes, self.bytes_paid))
    }

    /// After a pause what was not used is kept, up to the burst.
    fn rest(&mut self, now: u64) {
        let least = |rate: Option<Rate>| now.saturating_sub(rate.map_or(0, |rate| price(rate, rate.burst)));
        self.operations_paid = self.operations_paid.max(least(self.limits.operations));
        self.bytes_paid = self.bytes_paid.max(least(self.limits.bytes));
    }

    /// Takes the price of a command; answers the larger of both.
    fn charge(&mut self, cost: Cost) -> u64 {
        let operations = self.limits.operations.map_or(0, |rate| price(rate, cost.operations));
        let bytes = self.limits.bytes.map_or(0, |rate| price(rate, cost.bytes));
        self.operations_paid = self.operations_paid.saturating_add(operations);
        self.bytes_paid = self.bytes_paid.saturating_add(bytes);
        operations.max(bytes)
    }

    /// Lets through whose turn has come: of the initiators the one that had least, of its commands the oldest.
    fn admit_waiting(&mut self, now: u64) {
        while self.opens() <= now {
            let Some(name) = self.turn(now) else { break };
            let Some(flow) = self.flows.get_mut(&name) else { break };
            let Some(waiting) = flow.waiting.pop_front() else { break };
            self.served = self.served.max(flow.served);
            let price = self.charge(waiting.cost);
            if let Some(flow) = self.flows.get_mut(&name) {
                // What it left alone for longer is not its own any more.
                flow.served = flow.served.max(self.served.saturating_sub(CLAIM)).saturating_add(price);
                flow.left = now;
            }
            self.admitted.insert(waiting.number);
            waiting.waker.into_iter().for_each(Waker::wake);
        }
        let least = self.served.saturating_sub(CLAIM);
        self.flows.retain(|_, flow| !flow.waiting.is_empty() || flow.served > least);
    }

    /// Whose turn it is; none when nobody waits, or when it is kept for one that is not here.
    fn turn(&self, now: u64) -> Option<String> {
        let kept = |flow: &Flow| now < flow.left.min(self.opens()).saturating_add(KEPT);
        let those = self.flows.iter().filter(|(_, flow)| !flow.waiting.is_empty() || kept(flow));
        let (name, flow) = those.min_by_key(|(_, flow)| (flow.served, flow.waiting.is_empty()))?;
        (!flow.waiting.is_empty()).then(|| name.clone())
    }

    fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.flows.values().flat_map(|flow| &flow.waiting)
    }

    fn park(&mut self, number: u64, waker: &Waker) {
        let mut waiting = self.flows.values_mut().flat_map(|flow| &mut flow.waiting);
        if let Some(waiting) = waiting.find(|waiting| waiting.number == number) {
            waiting.waker = Some(waker.clone());
        }
    }

    /// Gives up the timer, and wakes someone who will take it.
    fn hand_on(&mut self) {
        self.timer = None;
        let next = self.waiting().find_map(|waiting| waiting.waker.as_ref());
        next.into_iter().for_each(Waker::wake_by_ref);
    }
}

/// Nanoseconds that an amount takes at a rate.
fn price(rate: Rate, amount: u64) -> u64 {
    let nanoseconds = u128::from(amount) * 1_000_000_000 / u128::from(rate.per_second.max(1));
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}

/// The buckets that concern one command, and what it costs at each.
pub(crate) type Charges = SmallVec<[(Arc<RateLimiter>, Cost); 3]>;

/// One command on its way through the buckets that concern it. Dropping it gives its place up.
pub(crate) struct Admission {
    /// The buckets still before it, the next one last.
    buckets: Charges,
    initiator: String,
    /// Its number at the next bucket, when it waits there.
    number: Option<u64>,
}

impl Admission {
    /// Goes through as many buckets as it can at once; none when that was all of them.
    pub(crate) fn begin(mut buckets: Charges, initiator: &str) -> Option<Admission> {
        while let Some((bucket, cost)) = buckets.last() {
            if !bucket.admit(*cost) {
                return Some(Admission { buckets, initiator: initiator.to_owned(), number: None });
            }
            buckets.pop();
        }
        None
    }

    /// Goes through all buckets without waiting; others pay for it.
    pub(crate) fn force(buckets: &[(Arc<RateLimiter>, Cost)]) {
        buckets.iter().for_each(|(bucket, cost)| bucket.force(*cost));
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some((bucket, cost)) = self.buckets.last() {
            let number = *self.number.get_or_insert_with(|| bucket.enter(&self.initiator, *cost));
            if bucket.poll(number, context).is_pending() {
                return Poll::Pending;
            }
            self.number = None;
            self.buckets.pop();
        }
        Poll::Ready(())
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let (Some((bucket, _)), Some(number)) = (self.buckets.last(), self.number) {
            bucket.leave(number);
        }
    }
}

#[cfg(test)]
#[path = "rate_test.rs"]
mod tests;
