//! State machine of one controller: it joins, beats, judges other members, and follows the map.
//!
//! A member has no I/O and no clock. Its driver calls [`Member::poll`] at [`Member::next_wake`] and after each reply,
//! performs the returned requests, and passes replies to [`Member::reply`]. Replies may come in any order, late, or
//! never. Times are in nanoseconds of one clock, which counts while the machine sleeps, unless stated otherwise.

mod decide;

use crate::change::{Change, Refusal};
use crate::expulsion::Expulsion;
use crate::lease::Lease;
use crate::map::{Identity, MAX_MEMBERS, MAX_VERSION, Map, Standing};
use crate::observation::{Observation, majority};
use crate::request::{Reply, Request, RequestId};
use crate::succession::{Known, Succession};
use crate::timing::Timing;
use shelf::arbiter::{Beat, MemberId, Signs};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Configuration of a member.
#[derive(Clone, Debug)]
pub struct Config {
    /// Report of the process when it joins.
    pub identity: Identity,
    /// The array.
    pub array: u128,
    /// Number of witnesses of the arbiter.
    pub witnesses: usize,
    /// Intervals.
    pub timing: Timing,
    /// Minimum version of the map in which the member joins, above every epoch that an owner of the store ever had.
    /// `None`: wait until another controller has made the first map.
    pub first_version: Option<u64>,
}

/// Actions for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This process takes part, from this version of the map on. Until then the map may have an earlier process as the controller
    /// of its number, in whose name nothing may be done.
    Joined {
        /// The version.
        version: u64,
    },
    /// This controller is the home of a domain: the driver opens the domain's store with this epoch, and serves it.
    Serve {
        /// The domain.
        domain: u16,
        /// The epoch of the owner.
        epoch: u64,
        /// Cause and duration of the change.
        succession: Succession,
    },
    /// This controller is no longer the home of a domain. The store has refused it, or will.
    Cease {
        /// The domain.
        domain: u16,
    },
    /// The map has changed.
    Changed(Arc<Map>),
    /// An operator has drained this controller, which is the home: the driver stops serving in order, then calls
    /// [`Member::leave`].
    HandOver,
    /// Result of a requested change.
    Settled(Change, Result<(), Refusal>),
    /// Membership has ended, and with it every home role: the driver must answer no host, close all sessions, and end
    /// the process.
    Ended(MembershipEnd),
}

/// Reason for the end of membership.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembershipEnd {
    /// The controller has left.
    #[error("this controller has left the cluster")]
    Left,
    /// The others found it silent.
    #[error("the other controllers found this one silent and have taken over: it starts again")]
    Expelled,
    /// The store refuses this process.
    #[error("the store refuses this process, as another one has taken over: it starts again")]
    Fenced,
    /// Another process takes part with the same number.
    #[error(
        "controller {0} of this cluster is running already: give each controller a data folder of its own"
    )]
    NumberInUse(u16),
    /// The maximum number of controllers is reached.
    #[error("the cluster has {MAX_MEMBERS} controllers already: remove one first")]
    TooMany,
    /// The map belongs to another array.
    #[error("the namespace is used by the cluster of array {0}: use another namespace")]
    OtherArray(String),
    /// The map is unreadable.
    #[error("{0}")]
    Map(String),
}

/// Beats of an ended process that may still arrive. A running process sends six a second.
const MAX_LATE_BEATS: u32 = 12;

/// An outstanding request.
#[derive(Debug)]
struct Pending {
    operation: Operation,
    sent: u64,
}

#[derive(Debug)]
enum Operation {
    Map,
    Signs(usize),
    Beat(usize),
    Mark { witness: usize, mark: u64 },
    Replace(Box<Map>),
}

/// One controller of a cluster.
#[derive(Debug)]
pub struct Member {
    config: Config,
    lease: Arc<Lease>,
    /// Start of the current lease, if it holds.
    lease_since: u64,
    /// Send time of the newest beat that each witness took.
    beaten: Vec<Option<u64>>,
    started: Option<u64>,
    /// Seconds since 1970, for display in maps.
    unix_seconds: u64,
    map: Option<Arc<Map>>,
    /// No map is known to exist.
    map_missing: bool,
    /// No proposal is made before a map was read after this time.
    stale_since: Option<u64>,
    /// The version of the map in which this process joined.
    joined: Option<u64>,
    count: u64,
    next_round: u64,
    /// After an error of the arbiter, nothing is retried before this time, except by a round.
    quiet_until: u64,
    pending: BTreeMap<RequestId, Pending>,
    next_request: u64,
    observation: Observation,
    expulsion: Option<Expulsion>,
    serving: BTreeMap<u16, u64>,
    /// Domains that need another home.
    given_up: BTreeSet<u16>,
    /// Requests of operators, oldest first.
    changes: VecDeque<Change>,
    /// Before joining: beats of another process with this number.
    predecessor_beats: u32,
    leaving: bool,
    events: Vec<Event>,
    has_ended: bool,
}

impl Member {
    /// A process that is not a member yet.
    ///
    /// # Panics
    /// If the number of witnesses is even: half of them would not be a majority.
    pub fn new(config: Config) -> Self {
        assert!(config.witnesses % 2 == 1, "an odd number of witnesses");
        Self {
            lease: Arc::default(),
            lease_since: 0,
            beaten: vec![None; config.witnesses],
            started: None,
            unix_seconds: 0,
            map: None,
            map_missing: false,
            stale_since: Some(0),
            joined: None,
            count: 0,
            next_round: 0,
            quiet_until: 0,
            pending: BTreeMap::new(),
            next_request: 0,
            observation: Observation::new(config.witnesses),
            expulsion: None,
            serving: BTreeMap::new(),
            given_up: BTreeSet::new(),
            changes: VecDeque::new(),
            predecessor_beats: 0,
            leaving: false,
            events: Vec::new(),
            has_ended: false,
            config,
        }
    }

    /// The lease, which says whether hosts may be answered; always the same object.
    pub fn lease(&self) -> Arc<Lease> {
        self.lease.clone()
    }

    /// The newest known map.
    pub fn map(&self) -> Option<&Arc<Map>> {
        self.map.as_ref()
    }

    /// Sets the time of day, in seconds since 1970, which maps of this member show. Nothing else depends on it.
    pub fn set_time(&mut self, seconds: u64) {
        self.unix_seconds = seconds;
    }

    /// Number of the controller.
    pub fn id(&self) -> MemberId {
        self.config.identity.id
    }

    /// Events since the last call, in order.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Leaves the cluster in order: no host is answered from now on, and others get the domains at once.
    pub fn leave(&mut self) {
        self.lease.end();
        self.leaving = true;
    }

    /// Gives a domain to another controller, because its store failed here or the domain has to move. It is not served
    /// from now on.
    pub fn give_up(&mut self, domain: u16) {
        if self.serving.contains_key(&domain) {
            self.given_up.insert(domain);
        }
    }

    /// Requests a change of the map; [`Event::Settled`] reports the result.
    pub fn change(&mut self, change: Change) {
        self.changes.push_back(change);
    }

    /// Latest time of the next [`Member::poll`].
    pub fn next_wake(&self, now: u64) -> u64 {
        if self.has_ended {
            return u64::MAX;
        }
        let patience = self.config.timing.patience_ns;
        let expiry = self.pending.values().map(|pending| pending.sent.saturating_add(patience)).min();
        let due =
            self.judged().into_iter().filter_map(|member| self.due(member)).filter(|due| *due > now).min();
        self.next_round.min(expiry.unwrap_or(u64::MAX)).min(due.unwrap_or(u64::MAX))
    }

    /// Requests to the arbiter that are due now.
    pub fn poll(&mut self, now: u64) -> Vec<(RequestId, Request)> {
        let mut requests = Vec::new();
        if self.has_ended {
            return requests;
        }
        self.started.get_or_insert(now);
        let patience = self.config.timing.patience_ns;
        let mut lost_replace = false;
        self.pending.retain(|_, pending| {
            let expired = pending.sent.saturating_add(patience) <= now;
            lost_replace |= expired && matches!(pending.operation, Operation::Replace(_));
            !expired
        });
        if lost_replace {
            self.stale_since = Some(now);
        }
        if now >= self.next_round {
            self.next_round = now + self.config.timing.beat_ns;
            self.begin_round(now, &mut requests);
        }
        if self.stale_since.is_some() && now >= self.quiet_until {
            self.ask_for_map(now, &mut requests);
        }
        self.judge(now);
        self.mark(now, &mut requests);
        self.settle(now);
        self.propose(now, &mut requests);
        requests
    }

    /// Processes a reply. Replies to abandoned requests are ignored.
    pub fn reply(&mut self, now: u64, id: RequestId, reply: Reply) {
        let Some(Pending { operation, sent }) = self.pending.remove(&id) else { return };
        if self.has_ended {
            return;
        }
        if let Reply::Map(Err(error)) | Reply::Signs(Err(error)) | Reply::Done(Err(error)) = &reply {
            match error {
                shelf::Error::Fenced { .. } => return self.end(MembershipEnd::Fenced),
                error => {
                    tracing::debug!(%error, ?operation, "the arbiter failed");
                    self.quiet_until = now + self.config.timing.beat_ns;
                }
            }
        }
        match (operation, reply) {
            (Operation::Map, Reply::Map(Ok(bytes))) => self.note_map(now, sent, bytes.as_deref()),
            (Operation::Signs(witness), Reply::Signs(Ok(signs))) => self.note_signs(now, witness, &signs),
            (Operation::Beat(witness), Reply::Done(Ok(true))) => self.note_beat(now, witness, sent),
            // A mark, or a late beat of this process.
            (Operation::Beat(_), Reply::Done(Ok(false))) => self.stale_since = Some(now),
            (Operation::Mark { witness, mark }, Reply::Done(Ok(marked))) => {
                self.note_mark(now, witness, mark, marked)
            }
            (Operation::Replace(map), Reply::Done(Ok(true))) => self.adopt(now, *map),
            (Operation::Replace(_), _) => self.stale_since = Some(now),
            _ => {}
        }
    }

    fn begin_round(&mut self, now: u64, requests: &mut Vec<(RequestId, Request)>) {
        self.ask_for_map(now, requests);
        for witness in 0..self.config.witnesses {
            if !self.is_pending(|operation| matches!(operation, Operation::Signs(of) if *of == witness)) {
                self.request(now, Operation::Signs(witness), Request::Signs { witness }, requests);
            }
        }
        let (Some(joined), Some(map), false) = (self.joined, self.map.clone(), self.leaving) else { return };
        self.count += 1;
        let beat = Beat { joined, count: self.count };
        for witness in 0..self.config.witnesses {
            // One operation at a time for each object.
            if !self.is_pending(|operation| matches!(operation, Operation::Beat(of) if *of == witness)) {
                let request = Request::Beat { witness, member: self.id(), beat, map_version: map.version };
                self.request(now, Operation::Beat(witness), request, requests);
            }
        }
    }

    fn ask_for_map(&mut self, now: u64, requests: &mut Vec<(RequestId, Request)>) {
        if !self.is_pending(|operation| matches!(operation, Operation::Map)) {
            self.request(now, Operation::Map, Request::Map, requests);
        }
    }

    fn request(
        &mut self,
        now: u64,
        operation: Operation,
        request: Request,
        requests: &mut Vec<(RequestId, Request)>,
    ) {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.pending.insert(id, Pending { operation, sent: now });
        requests.push((id, request));
    }

    fn is_pending(&self, is: impl Fn(&Operation) -> bool) -> bool {
        self.pending.values().any(|pending| is(&pending.operation))
    }

    fn note_map(&mut self, now: u64, sent: u64, bytes: Option<&[u8]>) {
        if self.stale_since.is_some_and(|since| since <= sent) {
            self.stale_since = None;
        }
        let Some(bytes) = bytes else {
            self.map_missing = self.map.is_none();
            return;
        };
        match Map::decode(bytes) {
            Ok(map) => self.adopt(now, map),
            Err(crate::Error::Map(what)) => self.end(MembershipEnd::Map(what)),
        }
    }

    fn note_signs(&mut self, now: u64, witness: usize, signs: &Signs) {
        let judged = self.judged();
        let seen_before = self.observation.seen(witness, self.id());
        self.observation.note(witness, signs, &judged, self.id(), now);
        let dead_ns = self.config.timing.dead_ns;
        let settled = self.started.is_some_and(|started| started + dead_ns < now);
        let changed = seen_before.is_some() && self.observation.seen(witness, self.id()) != seen_before;
        if self.joined.is_none() && settled && changed {
            self.predecessor_beats += 1;
            if self.predecessor_beats > MAX_LATE_BEATS {
                return self.end(MembershipEnd::NumberInUse(self.id().0));
            }
        }
        if self.is_marked() && self.stale_since.is_none() {
            self.stale_since = Some(now);
        }
    }

    fn note_beat(&mut self, now: u64, witness: usize, sent: u64) {
        self.beaten[witness] = self.beaten[witness].max(Some(sent));
        let mut beaten = self.beaten.clone();
        beaten.sort_unstable_by(|one, other| other.cmp(one));
        let Some(counted) = beaten[majority(self.config.witnesses) - 1] else { return };
        if self.leaving {
            return;
        }
        if !self.lease.holds(now) {
            self.lease_since = now;
        }
        self.lease.extend(counted + self.config.timing.lease_ns);
    }

    fn note_mark(&mut self, now: u64, witness: usize, mark: u64, marked: bool) {
        let Some(expulsion) = self.expulsion.as_mut().filter(|expulsion| expulsion.mark() == mark) else {
            return;
        };
        expulsion.note(witness, marked);
        if !marked {
            let victim = expulsion.victim;
            self.observation.forget(witness, victim);
        }
        if expulsion.has_failed() {
            self.expulsion = None;
            self.stale_since = Some(now);
        }
    }

    /// Whether the member itself is marked for a version that the map has not reached.
    fn is_marked(&self) -> bool {
        let mark = self.observation.own_mark();
        self.joined.is_some() && mark < MAX_VERSION && self.map.as_ref().is_some_and(|map| mark > map.version)
    }

    /// Follows a map.
    fn adopt(&mut self, now: u64, map: Map) {
        let known = self.map.as_ref().map_or(0, |map| map.version);
        if map.version <= known {
            return;
        }
        if map.array != format!("{:032x}", self.config.array) {
            return self.end(MembershipEnd::OtherArray(map.array));
        }
        self.map_missing = false;
        let successions = self.successions(now, &map);
        let is_drained = |map: &Map| map.is_drained(self.id());
        let was_drained = self.joined.is_none() || self.map.as_deref().is_some_and(is_drained);
        let drained = !was_drained && is_drained(&map);
        let own = map.member(self.id()).filter(|own| own.instance == self.config.identity.instance);
        match own.map(|own| (own.standing, own.joined)) {
            Some((Standing::Active, joined)) if self.joined.replace(joined).is_none() => {
                self.observation.forget_member(self.id());
                self.events.push(Event::Joined { version: joined });
                // A new member has no beats yet, and needs some before others count it as silent.
                self.next_round = 0;
            }
            Some((Standing::Active, _)) => {}
            Some((Standing::Left, _)) => return self.end(MembershipEnd::Left),
            Some((Standing::Expelled, _)) => return self.end(MembershipEnd::Expelled),
            None if self.joined.is_some() => return self.end(MembershipEnd::Expelled),
            None => {}
        }
        for (member, joined) in map.active_members() {
            if self.map.as_ref().and_then(|map| map.active(member)) != Some(joined) {
                self.observation.forget_member(member);
            }
        }
        self.expulsion.take_if(|expulsion| expulsion.version != map.version);
        let map = Arc::new(map);
        self.map = Some(map.clone());
        self.events.push(Event::Changed(map.clone()));
        self.follow_domains(&map, &successions);
        if drained && !self.serving.is_empty() {
            self.events.push(Event::HandOver);
        }
    }

    /// Causes by which this controller has become the home of its domains in a new map.
    fn successions(&self, now: u64, map: &Map) -> BTreeMap<u16, Succession> {
        let (before, expulsion) = (self.map.as_deref(), self.expulsion.as_ref());
        let known = Known { before, observation: &self.observation, expulsion, now };
        let own = self.id();
        let of = |domain: u16| (domain, known.succession(domain, own, map));
        map.domains_of(own).map(|domain| of(domain.domain)).collect()
    }

    fn follow_domains(&mut self, map: &Map, successions: &BTreeMap<u16, Succession>) {
        let Some(joined) = self.joined else { return };
        // Ignore epochs of an earlier process with this number.
        let homes = map.domains_of(self.id()).filter(|domain| domain.epoch >= joined);
        let homes: BTreeMap<u16, u64> = homes.map(|domain| (domain.domain, domain.epoch)).collect();
        let before = std::mem::replace(&mut self.serving, homes.clone());
        for (domain, _) in before.iter().filter(|(domain, epoch)| homes.get(domain) != Some(epoch)) {
            self.given_up.remove(domain);
            self.events.push(Event::Cease { domain: *domain });
        }
        for (domain, epoch) in homes.into_iter().filter(|(domain, epoch)| before.get(domain) != Some(epoch)) {
            let succession = successions.get(&domain).copied().unwrap_or_default();
            self.events.push(Event::Serve { domain, epoch, succession });
        }
    }

    fn end(&mut self, end: MembershipEnd) {
        self.lease.end();
        self.has_ended = true;
        self.pending.clear();
        self.serving.clear();
        self.events.push(Event::Ended(end));
    }
}
