//! Observations of other members: the time since which the beat of each is unchanged in each witness.

use shelf::arbiter::{Beat, MemberId, Sign, Signs};
use std::collections::BTreeMap;

/// A beat and the time, in nanoseconds of the member's clock, at which it was first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub beat: Beat,
    pub since_ns: u64,
}

/// Observations in all witnesses.
#[derive(Debug)]
pub struct Observation {
    witnesses: Vec<BTreeMap<MemberId, Seen>>,
    /// The newest mark of this member itself.
    own_mark: u64,
}

/// The smallest number of witnesses that is more than half of `witnesses`.
pub fn majority(witnesses: usize) -> usize {
    witnesses / 2 + 1
}

impl Observation {
    pub fn new(witnesses: usize) -> Self {
        Self { witnesses: vec![BTreeMap::new(); witnesses], own_mark: 0 }
    }

    /// Notes the signs in a witness. `members` are the judged members, with the version in which they joined: a member
    /// without a sign of that process counts from this moment.
    pub fn note(&mut self, witness: usize, signs: &Signs, members: &[MemberId], own: MemberId, now: u64) {
        let sign = |member: MemberId| signs.get(&member).copied().unwrap_or_default();
        let Sign { mark, .. } = sign(own);
        self.own_mark = self.own_mark.max(mark);
        let seen = &mut self.witnesses[witness];
        seen.retain(|member, _| members.contains(member));
        for member in members {
            let beat = sign(*member).beat;
            let known = seen.entry(*member).or_insert(Seen { beat, since_ns: now });
            if known.beat != beat {
                *known = Seen { beat, since_ns: now };
            }
        }
    }

    /// Discards a beat that turned out not to be the last one.
    pub fn forget(&mut self, witness: usize, member: MemberId) {
        self.witnesses[witness].remove(&member);
    }

    /// Discards everything about a member: another process has its number.
    pub fn forget_member(&mut self, member: MemberId) {
        for seen in &mut self.witnesses {
            seen.remove(&member);
        }
    }

    /// Observation of a member in a witness.
    pub fn seen(&self, witness: usize, member: MemberId) -> Option<Seen> {
        self.witnesses[witness].get(&member).copied()
    }

    /// Time since which a majority of witnesses have had the same beat of a member.
    pub fn unchanged_since(&self, member: MemberId) -> Option<u64> {
        let mut since: Vec<_> =
            self.witnesses.iter().filter_map(|seen| seen.get(&member)).map(|it| it.since_ns).collect();
        since.sort_unstable();
        since.get(majority(self.witnesses.len()) - 1).copied()
    }

    /// The newest mark of this member itself.
    pub fn own_mark(&self) -> u64 {
        self.own_mark
    }
}
