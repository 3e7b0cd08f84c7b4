//! Memory budget of all connections: a guarantee for each connection, and a shared pool for everything beyond.
//!
//! A connection is charged before memory is used: for arriving PDUs, commands with their data, data that R2Ts request,
//! and unsent responses. Within its guarantee a connection counts by itself and takes no lock. Beyond that it draws
//! from the pool, which initiators share:
//!
//! - An initiator that holds nothing of the pool may draw all that is free. One that holds something may draw until it
//!   holds as much as is left for all others (dynamic threshold). So one initiator gets at most half of the pool, and
//!   a newcomer finds some.
//! - Draws that do not fit wait in order of arrival. Initiators that hold nothing go first, and memory that becomes
//!   free is reserved for them while they wait. So large commands are not starved by small ones.
//!
//! A draw covers a whole command, and a command that waits for its draw holds nothing of the pool: every command that
//! holds a part of the pool can complete without more of it, so there is no deadlock.

use crate::address::counted_address;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

/// Draws are multiples of this many bytes.
const DRAW_STEP_BYTES: u64 = 64 << 10;
/// Unneeded draws that a session keeps while no draw waits, until the next tick.
const MAX_SURPLUS_BYTES: u64 = 4 << 20;
/// The share of the budget that is reserved for guarantees of new connections.
const HEADROOM_DIVISOR: u64 = 8;

/// The memory budget of all connections of a server.
#[derive(Debug)]
pub struct Budget {
    pool: Mutex<Pool>,
    /// Whether a draw waits: then no session keeps a surplus.
    contended: AtomicBool,
}

#[derive(Debug)]
struct Pool {
    total: u64,
    /// Guarantees of all connections.
    guaranteed: u64,
    /// Draws of all connections.
    drawn: u64,
    /// Draws by initiator; initiators that hold nothing are left out.
    initiators: BTreeMap<Arc<str>, u64>,
    /// Waiting draws by order of arrival.
    waiting: BTreeMap<u64, Waiting>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Waiting {
    initiator: Arc<str>,
    bytes: u64,
    granted: bool,
    waker: Option<Waker>,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: u64) -> Self {
        let pool = Pool {
            total: bytes,
            guaranteed: 0,
            drawn: 0,
            initiators: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_ticket: 0,
        };
        Self { pool: Mutex::new(pool), contended: AtomicBool::new(false) }
    }

    /// Guarantees and draws of all connections in bytes.
    pub fn used(&self) -> u64 {
        let pool = self.pool.lock();
        pool.guaranteed + pool.drawn
    }

    /// True while a draw waits.
    pub fn is_contended(&self) -> bool {
        self.contended.load(Ordering::Relaxed)
    }

    /// Changes the pool, then grants free memory to waiting draws.
    fn change<T>(&self, change: impl FnOnce(&mut Pool) -> T) -> T {
        let mut wake = Vec::new();
        let result = {
            let mut pool = self.pool.lock();
            let result = change(&mut pool);
            pool.serve_waiting(&mut wake);
            let waits = pool.waiting.values().any(|waiting| !waiting.granted);
            self.contended.store(waits, Ordering::Relaxed);
            result
        };
        wake.into_iter().for_each(Waker::wake);
        result
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(1 << 30)
    }
}

impl Pool {
    /// Capacity for draws.
    fn capacity(&self) -> u64 {
        self.total.saturating_sub(self.guaranteed + self.total / HEADROOM_DIVISOR)
    }

    fn free(&self) -> u64 {
        self.capacity().saturating_sub(self.drawn)
    }

    fn held_by(&self, initiator: &str) -> u64 {
        self.initiators.get(initiator).copied().unwrap_or(0)
    }

    /// Whether the initiator's draws plus `bytes` fit in the share left for the others.
    fn fits(&self, initiator: &str, bytes: u64) -> bool {
        let (free, held) = (self.free(), self.held_by(initiator));
        bytes <= free && (held == 0 || held + bytes <= free - bytes)
    }

    /// Draws at once if possible; returns whether it did.
    fn draw(&mut self, initiator: &Arc<str>, bytes: u64) -> bool {
        let holds = self.held_by(initiator) > 0;
        let others_first = self
            .waiting
            .values()
            .any(|waiting| !waiting.granted && (holds || self.held_by(&waiting.initiator) == 0));
        let may = !others_first && self.fits(initiator, bytes);
        if may {
            self.take(initiator, bytes);
        }
        may
    }

    fn take(&mut self, initiator: &Arc<str>, bytes: u64) {
        self.drawn += bytes;
        *self.initiators.entry(initiator.clone()).or_default() += bytes;
    }

    fn give_back(&mut self, initiator: &Arc<str>, bytes: u64) {
        self.drawn -= bytes;
        if let Some(held) = self.initiators.get_mut(initiator) {
            *held -= bytes;
            if *held == 0 {
                self.initiators.remove(initiator);
            }
        }
    }

    fn serve_waiting(&mut self, wake: &mut Vec<Waker>) {
        while let Some(ticket) = self.next_served() {
            let Some(waiting) = self.waiting.get_mut(&ticket) else { return };
            waiting.granted = true;
            wake.extend(waiting.waker.take());
            let (initiator, bytes) = (waiting.initiator.clone(), waiting.bytes);
            self.take(&initiator, bytes);
        }
    }

    /// The next draw to grant: the first of an initiator that holds nothing, once it fits; else the first that fits.
    fn next_served(&self) -> Option<u64> {
        let mut waiting = self.waiting.iter().filter(|(_, waiting)| !waiting.granted);
        let first = waiting.clone().find(|(_, waiting)| self.held_by(&waiting.initiator) == 0);
        let next = match first {
            Some((ticket, waiting)) => self.fits(&waiting.initiator, waiting.bytes).then_some(ticket),
            None => waiting
                .find(|(_, waiting)| self.fits(&waiting.initiator, waiting.bytes))
                .map(|(ticket, _)| ticket),
        };
        next.copied()
    }
}

/// The draw exceeds the pool even if it is empty, so waiting is useless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceedsPool;

/// Name in which a connection draws from the pool. A claimed name does not count: a host could claim the name of
/// another one to use up its share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner(Arc<str>);

impl Owner {
    /// A host that has proved its name.
    pub fn proved(name: &str) -> Self {
        Self(name.into())
    }

    /// All connections from an address without proven names; for IPv6, from one /64 network.
    pub fn address(address: IpAddr) -> Self {
        Self(counted_address(address).to_string().into())
    }
}

/// The guarantee of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarantee {
    /// Memory that the connection may hold without a draw, in bytes: the covered charge, and uncharged memory such as
    /// its receive buffer.
    pub total_bytes: u64,
    /// Charge that is covered without a draw, in bytes.
    pub covered_bytes: u64,
}

/// The share of one connection.
pub struct BudgetShare {
    budget: Arc<Budget>,
    initiator: Arc<str>,
    /// Whether the connection may draw from the pool.
    draws: bool,
    guaranteed: u64,
    /// Charge that the guarantee covers; zero before login.
    own: u64,
    drawn: u64,
    /// The draw that the connection waits for.
    ticket: Option<u64>,
}

impl BudgetShare {
    /// The share of a connection with an unknown host. It can't draw from the pool.
    pub fn unknown_host(budget: Arc<Budget>, guaranteed_bytes: u64) -> Self {
        budget.pool.lock().guaranteed += guaranteed_bytes;
        let (initiator, draws) = ("".into(), false);
        Self { budget, initiator, draws, guaranteed: guaranteed_bytes, own: 0, drawn: 0, ticket: None }
    }

    /// Turns the share into that of a host's connection, which draws from the pool in the name of its owner; false if
    /// there is no room for another one.
    pub fn open(&mut self, owner: &Owner, guarantee: Guarantee) -> bool {
        let has_room = self.guarantee(guarantee);
        if has_room {
            (self.initiator, self.draws) = (owner.0.clone(), true);
        }
        has_room
    }

    /// Sets another guarantee without the right to draw; false if there is no room.
    pub fn guarantee(&mut self, guarantee: Guarantee) -> bool {
        let more = guarantee.total_bytes.saturating_sub(self.guaranteed);
        let mut pool = self.budget.pool.lock();
        if pool.guaranteed + pool.drawn + more > pool.total {
            return false;
        }
        pool.guaranteed += more;
        self.guaranteed += more;
        self.own = guarantee.covered_bytes;
        true
    }

    /// Charge that is covered without a draw, in bytes.
    pub fn own(&self) -> u64 {
        self.own
    }

    /// True if guarantee and draws cover a total charge.
    pub fn covers(&self, bytes: u64) -> bool {
        bytes <= self.own + self.drawn
    }

    /// Draws the missing amount for a total charge, if it is available at once.
    pub fn cover(&mut self, bytes: u64) -> bool {
        if self.covers(bytes) {
            return true;
        }
        if !self.draws || self.ticket.is_some() {
            return false;
        }
        let missing = self.missing(bytes);
        let drawn = self.budget.pool.lock().draw(&self.initiator, missing);
        if drawn {
            self.drawn += missing;
        }
        drawn
    }

    fn missing(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.own + self.drawn).next_multiple_of(DRAW_STEP_BYTES)
    }

    /// Waits for the missing amount for a total charge; [`BudgetShare::poll`] is ready when it is granted.
    pub fn wait_for(&mut self, bytes: u64) -> Result<(), ExceedsPool> {
        if self.ticket.is_some() {
            return Ok(());
        }
        if !self.draws {
            return Err(ExceedsPool);
        }
        let (missing, initiator) = (self.missing(bytes), self.initiator.clone());
        let ticket = self.budget.change(|pool| {
            if missing > pool.capacity() {
                return Err(ExceedsPool);
            }
            let ticket = pool.next_ticket;
            pool.next_ticket += 1;
            let waiting = Waiting { initiator, bytes: missing, granted: false, waker: None };
            pool.waiting.insert(ticket, waiting);
            Ok(ticket)
        });
        self.ticket = Some(ticket?);
        Ok(())
    }

    /// True while a draw waits.
    pub fn waits(&self) -> bool {
        self.ticket.is_some()
    }

    /// Ready when the awaited draw is granted; wakes the context then.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(ticket) = self.ticket else { return Poll::Pending };
        let mut pool = self.budget.pool.lock();
        if let Some(waiting) = pool.waiting.get_mut(&ticket)
            && !waiting.granted
        {
            if !waiting.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                waiting.waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        self.drawn += pool.waiting.remove(&ticket).map_or(0, |waiting| waiting.bytes);
        self.ticket = None;
        Poll::Ready(())
    }

    /// Cancels the wait. A draw that was already granted is kept until [`BudgetShare::settle`].
    pub fn stop_waiting(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let waiting = self.budget.change(|pool| pool.waiting.remove(&ticket));
        self.drawn += waiting.filter(|waiting| waiting.granted).map_or(0, |waiting| waiting.bytes);
    }

    /// Returns draws beyond the current charge to the pool, once they exceed the surplus or another draw waits.
    pub fn settle(&mut self, bytes: u64) {
        if self.drawn == 0 {
            return;
        }
        let surplus = (self.own + self.drawn).saturating_sub(bytes).min(self.drawn);
        let least = if self.budget.is_contended() { DRAW_STEP_BYTES } else { MAX_SURPLUS_BYTES };
        if surplus >= least {
            self.give_back(surplus);
        }
    }

    /// Returns all draws beyond the current charge.
    pub fn settle_all(&mut self, bytes: u64) {
        let surplus = (self.own + self.drawn).saturating_sub(bytes).min(self.drawn);
        if surplus > 0 {
            self.give_back(surplus);
        }
    }

    fn give_back(&mut self, bytes: u64) {
        self.drawn -= bytes;
        let initiator = &self.initiator;
        self.budget.change(|pool| pool.give_back(initiator, bytes));
    }

    /// True if the share holds draws while another draw waits.
    pub fn blocks_others(&self) -> bool {
        self.drawn > 0 && self.budget.is_contended()
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        let Self { initiator, guaranteed, drawn, ticket, .. } = self;
        self.budget.change(|pool| {
            let waiting = ticket.take().and_then(|ticket| pool.waiting.remove(&ticket));
            let granted = waiting.filter(|waiting| waiting.granted).map_or(0, |waiting| waiting.bytes);
            pool.give_back(initiator, *drawn + granted);
            pool.guaranteed -= *guaranteed;
        });
    }
}

#[cfg(test)]
#[path = "budget_test.rs"]
mod tests;
