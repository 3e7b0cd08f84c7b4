//! Record of a change of home: the previous home, the cause, and the duration of each phase. For operators only.

use crate::expulsion::Expulsion;
use crate::map::{Map, Standing};
use crate::observation::Observation;
use shelf::arbiter::MemberId;

/// Cause of the end of the previous home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// No previous home is known.
    #[default]
    First,
    /// The previous home was an earlier process of the same controller.
    Restarted,
    /// The previous home left.
    Left,
    /// The previous home was found silent.
    Expelled,
    /// The previous home gave the domain up, or was drained.
    GivenUp,
}

/// A change of the home of a domain, as seen by the new home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Succession {
    /// The previous home.
    pub from: Option<MemberId>,
    /// Why the home changed.
    pub cause: Cause,
    /// Time without a beat of the previous home until its expulsion began here, or until another controller had
    /// expelled it.
    pub silent_ns: u64,
    /// Time from then until the map had the new home.
    pub agreed_ns: u64,
}

/// State of the other members before a map arrived.
pub struct Known<'a> {
    pub before: Option<&'a Map>,
    pub observation: &'a Observation,
    pub expulsion: Option<&'a Expulsion>,
    pub now: u64,
}

impl Known<'_> {
    /// The change by which controller `own` has become the home of a domain in the map `after`.
    pub fn succession(&self, domain: u16, own: MemberId, after: &Map) -> Succession {
        let before = self.before.and_then(|map| map.home(domain)).map(|domain| MemberId(domain.home));
        let Some(from) = before else { return Succession::default() };
        let cause = match after.member(from).map(|member| member.standing) {
            _ if from == own => Cause::Restarted,
            Some(Standing::Active) => Cause::GivenUp,
            Some(Standing::Left) if after.is_drained(from) => Cause::GivenUp,
            Some(Standing::Left) => Cause::Left,
            Some(Standing::Expelled) | None => Cause::Expelled,
        };
        let took_part = self.before.is_some_and(|map| map.active(from).is_some());
        let seen = self.observation.unchanged_since(from).filter(|_| took_part);
        let (silent_ns, agreed_ns) = match (cause, seen) {
            (Cause::Expelled | Cause::Restarted, Some(seen)) => {
                let own = self.expulsion.filter(|expulsion| expulsion.victim == from);
                let begun = own.map_or(self.now, |expulsion| expulsion.begun_ns);
                (begun.saturating_sub(seen), self.now.saturating_sub(begun))
            }
            _ => (0, 0),
        };
        Succession { from: Some(from), cause, silent_ns, agreed_ns }
    }
}

#[cfg(test)]
#[path = "succession_test.rs"]
mod tests;
