//! How a controller became the home of a domain: which one was it before, why it changed, and how long that took. Operators
//! read it; nothing depends on it.

use crate::expulsion::Expulsion;
use crate::map::{Map, Standing};
use crate::observation::Observation;
use shelf::arbiter::MemberId;

/// Why the previous home is not the home any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// There was none, as far as this controller knows.
    #[default]
    First,
    /// It was an earlier process of the same controller.
    Restarted,
    /// It left.
    Left,
    /// It was found silent.
    Expelled,
    /// It gave the domain up, or was drained.
    GivenUp,
}

/// A change of the home of a domain, as the new home saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Succession {
    /// The previous home.
    pub from: Option<MemberId>,
    /// Why the home changed.
    pub cause: Cause,
    /// For how long this controller had seen no beat of it when its expulsion began, or when another controller had
    /// expelled it.
    pub silent_ns: u64,
    /// From there until the map had the new home.
    pub agreed_ns: u64,
}

/// State of the others until a map arrived.
pub struct Known<'a> {
    pub before: Option<&'a Map>,
    pub observation: &'a Observation,
    pub expulsion: Option<&'a Expulsion>,
    pub now: u64,
}

impl Known<'_> {
    /// How the home of a domain in the map `after`, controller `own`, has become it.
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
