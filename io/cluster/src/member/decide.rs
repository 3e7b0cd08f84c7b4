//! Decisions of a member: members that are silent, and the map to propose.

use super::{Event, Member, MembershipEnd, Operation};
use crate::change::{Change, Refusal};
use crate::expulsion::Expulsion;
use crate::map::{MAX_MEMBERS, Map, Standing};
use crate::request::{Request, RequestId};
use shelf::arbiter::MemberId;

impl Member {
    /// Members whose beats are watched: the other members; before joining, an earlier process with the same number.
    pub(super) fn judged(&self) -> Vec<MemberId> {
        let (Some(map), own) = (&self.map, self.id()) else { return Vec::new() };
        let is_judged = |member: &MemberId| (*member == own) != self.joined.is_some();
        map.active_members().map(|(member, _)| member).filter(is_judged).collect()
    }

    /// Time at which a member counts as silent, unless its beat changes: the beat was seen unchanged for long enough,
    /// while this member's beats counted. So a store that stalls for all members expels none.
    pub(super) fn due(&self, member: MemberId) -> Option<u64> {
        let since = self.observation.unchanged_since(member)?;
        let since = if self.joined.is_some() { since.max(self.lease_since) } else { since };
        Some(since + self.config.timing.dead_ns)
    }

    /// Other members with recent beats.
    fn fresh(&self, now: u64, except: Option<MemberId>) -> Vec<MemberId> {
        let lease_ns = self.config.timing.lease_ns;
        let is_fresh = |member: &MemberId| {
            let since = self.observation.unchanged_since(*member);
            since.is_some_and(|since| since + lease_ns > now) && Some(*member) != except
        };
        self.judged().into_iter().filter(is_fresh).collect()
    }

    /// Whether the member may judge: while its own lease holds; before joining, only its predecessor.
    fn may_judge(&self, now: u64) -> bool {
        self.joined.is_none() || self.lease.holds(now)
    }

    pub(super) fn judge(&mut self, now: u64) {
        if !self.may_judge(now) {
            self.expulsion = None;
        }
        if let Some(expulsion) = &mut self.expulsion {
            expulsion.observe(&self.observation, now - self.config.timing.dead_ns);
        }
        if self.expulsion.is_some() || self.stale_since.is_some() || self.leaving || !self.may_judge(now) {
            return;
        }
        let Some(version) = self.map.as_ref().map(|map| map.version) else { return };
        let is_silent = |member: &MemberId| self.due(*member).is_some_and(|due| due <= now);
        if let Some(victim) = self.judged().into_iter().find(is_silent) {
            let seen_until = now - self.config.timing.dead_ns;
            let seen = (self.config.witnesses, &self.observation);
            self.expulsion = Some(Expulsion::new(victim, version, seen, (now, seen_until)));
        }
    }

    pub(super) fn mark(&mut self, now: u64, requests: &mut Vec<(RequestId, Request)>) {
        let again = now + self.config.timing.patience_ns;
        while let Some(expulsion) = &mut self.expulsion {
            let Some((witness, seen)) = expulsion.attempt(now, again) else { return };
            let (member, mark) = (expulsion.victim, expulsion.mark());
            let request = Request::Mark { witness, member, seen, mark };
            self.request(now, Operation::Mark { witness, mark }, request, requests);
        }
    }

    pub(super) fn propose(&mut self, now: u64, requests: &mut Vec<(RequestId, Request)>) {
        let waits = self.stale_since.is_some() || now < self.quiet_until;
        if self.has_ended || waits || self.is_pending(|operation| matches!(operation, Operation::Replace(_)))
        {
            return;
        }
        let expected = self.map.as_ref().map(|map| map.version);
        let Some(map) = self.proposal(now) else { return };
        if map.members.len() > MAX_MEMBERS {
            return self.end(MembershipEnd::TooMany);
        }
        match map.encode() {
            Ok(bytes) => {
                let request = Request::Replace { expected, version: map.version, map: bytes };
                self.request(now, Operation::Replace(Box::new(map)), request, requests);
            }
            Err(crate::Error::Map(what)) => self.end(MembershipEnd::Map(what)),
        }
    }

    /// Reports changes that were made, or are impossible.
    pub(super) fn settle(&mut self, now: u64) {
        while let (Some(change), None) = (self.changes.front().copied(), self.stale_since) {
            let outcome = match self.changed(change, now) {
                Some(Ok(None)) => Ok(()),
                Some(Err(refusal)) => Err(refusal),
                Some(Ok(Some(_))) | None => return,
            };
            self.changes.pop_front();
            self.events.push(Event::Settled(change, outcome));
        }
    }

    /// The map after a requested change; `None` before this controller takes part.
    fn changed(&self, change: Change, now: u64) -> Option<Result<Option<Map>, Refusal>> {
        let (Some(map), Some(_)) = (&self.map, self.joined) else { return None };
        let mut live = self.fresh(now, None);
        live.push(self.id());
        Some(change.made(map, map.next(0, self.unix_seconds), &live))
    }

    /// The next map, if this member wants another one.
    fn proposal(&self, now: u64) -> Option<Map> {
        let Some(map) = &self.map else {
            let first = self.config.first_version.filter(|_| self.map_missing)?;
            return Some(Map::first(self.config.array, (first, self.unix_seconds), &self.config.identity));
        };
        let expelled = self.expulsion.as_ref().filter(|it| it.is_certain()).map(|it| it.victim);
        let own = self.id();
        if self.joined.is_none() {
            // Above the epoch of an owner outside the cluster, such as a command on the stopped array.
            let mut next = map.next(self.config.first_version.unwrap_or(0), self.unix_seconds);
            return self.admission(&mut next, expelled).then_some(next);
        }
        let mut next = map.next(0, self.unix_seconds);
        if let Some(victim) = expelled {
            let mut heirs = vec![own];
            heirs.extend(self.fresh(now, expelled));
            next.release(victim, Standing::Expelled, &heirs);
            return Some(next);
        }
        if self.leaving {
            next.release(own, Standing::Left, &self.fresh(now, None));
            return Some(next);
        }
        if let Some(given_up) = self.given_up.first() {
            let heirs = self.fresh(now, None);
            next.reassign(*given_up, &heirs);
            return (!heirs.is_empty()).then_some(next);
        }
        if let Some(Ok(Some(next))) = self.changes.front().and_then(|change| self.changed(*change, now)) {
            return Some(next);
        }
        if self.lease.holds(now) && adopt_orphans(&mut next, own) {
            return Some(next);
        }
        self.is_marked().then(|| map.next(self.observation.own_mark(), self.unix_seconds))
    }

    /// Makes this process a member. An earlier process with its number is expelled in the same step, unless it is known
    /// to have ended.
    fn admission(&self, next: &mut Map, expelled: Option<MemberId>) -> bool {
        let own = self.id();
        if next.active(own).is_some() {
            if expelled != Some(own) {
                return false;
            }
            next.release(own, Standing::Expelled, &[]);
        }
        adopt_orphans(next, own);
        next.admit(&self.config.identity);
        true
    }
}

/// Gives a controller the domains whose home does not take part, since the owner has left or was expelled; true if
/// there are any. If the controller is drained, one that is not gets them; if that one is silent, it is expelled like
/// any home.
fn adopt_orphans(map: &mut Map, heir: MemberId) -> bool {
    let is_orphan = |home: u16| map.active(MemberId(home)).is_none();
    let orphans: Vec<u16> =
        map.domains.iter().filter(|domain| is_orphan(domain.home)).map(|domain| domain.domain).collect();
    let others =
        map.active_members().map(|(member, _)| member).filter(|it| *it != heir && !map.is_drained(*it));
    let heirs: Vec<_> = std::iter::once(heir).chain(others.filter(|_| map.is_drained(heir))).collect();
    orphans.iter().for_each(|domain| map.reassign(*domain, &heirs));
    !orphans.is_empty()
}
