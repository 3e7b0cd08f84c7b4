//! An expulsion in progress: marks in the witnesses first, then a map without the member.

use crate::observation::{Observation, majority};
use shelf::arbiter::{Beat, MemberId};

/// Marks that announce a version of the map.
#[derive(Debug)]
pub struct Expulsion {
    pub victim: MemberId,
    /// Version of the known map; the marks announce the next version.
    pub version: u64,
    /// Start of the expulsion, in nanoseconds of the member's clock.
    pub begun_ns: u64,
    witnesses: Vec<Vote>,
    /// Earliest time of the next request to each witness.
    next_attempt: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vote {
    /// Still to be marked, if the member's beat is this one.
    Unmarked(Option<Beat>),
    Marked,
    /// The witness has another beat, or a newer mark.
    Refused,
}

impl Expulsion {
    /// Marks only witnesses whose beat was first seen by `seen_until`: the lease of the victim relies on this.
    pub fn new(
        victim: MemberId,
        version: u64,
        (witnesses, observation): (usize, &Observation),
        (begun_ns, seen_until): (u64, u64),
    ) -> Self {
        let states = vec![Vote::Unmarked(None); witnesses];
        let mut expulsion =
            Self { victim, version, begun_ns, witnesses: states, next_attempt: vec![0; witnesses] };
        expulsion.observe(observation, seen_until);
        expulsion
    }

    /// Updates the attempts from an observation. A witness whose beat was unchanged for long enough only after the
    /// expulsion began is marked, too, since one of the earlier ones may never reply.
    pub fn observe(&mut self, observation: &Observation, seen_until: u64) {
        for (witness, vote) in self.witnesses.iter_mut().enumerate() {
            let seen = observation.seen(witness, self.victim).filter(|seen| seen.since_ns <= seen_until);
            if let (Vote::Unmarked(None) | Vote::Refused, Some(seen)) = (&vote, seen) {
                *vote = Vote::Unmarked(Some(seen.beat));
            }
        }
    }

    /// The version of the map without the victim.
    pub fn mark(&self) -> u64 {
        self.version + 1
    }

    /// A witness to mark now, with the beat that it must have; it is not returned again before `again`.
    pub fn attempt(&mut self, now: u64, again: u64) -> Option<(usize, Beat)> {
        let to_be_marked = |(witness, state): (usize, &Vote)| match state {
            Vote::Unmarked(Some(beat)) if self.next_attempt[witness] <= now => Some((witness, *beat)),
            _ => None,
        };
        let found = self.witnesses.iter().enumerate().find_map(to_be_marked)?;
        self.next_attempt[found.0] = again;
        Some(found)
    }

    pub fn note(&mut self, witness: usize, marked: bool) {
        self.witnesses[witness] = if marked { Vote::Marked } else { Vote::Refused };
    }

    /// True if more than half of the witnesses are marked: the victim's lease can't be renewed in this version.
    pub fn is_certain(&self) -> bool {
        self.count(Vote::Marked) >= majority(self.witnesses.len())
    }

    /// True if a majority of marks can't be reached any more.
    pub fn has_failed(&self) -> bool {
        self.count(Vote::Refused) > self.witnesses.len() - majority(self.witnesses.len())
    }

    fn count(&self, state: Vote) -> usize {
        self.witnesses.iter().filter(|witness| **witness == state).count()
    }
}

#[cfg(test)]
#[path = "expulsion_test.rs"]
mod tests;
