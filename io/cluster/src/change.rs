//! Changes of the membership map by an operator.

use crate::map::{Map, Standing};
use shelf::arbiter::MemberId;

/// A change of the membership map by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Removes a controller that does not take part.
    Remove(MemberId),
    /// Makes a controller the home only if no other one can be; a home hands over.
    Drain(MemberId),
    /// Allows a drained controller to become the home again.
    Resume(MemberId),
}

/// Reason for refusing a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The controller does not exist.
    #[error("there is no controller {0}")]
    Unknown(u16),
    /// The controller takes part.
    #[error(
        "controller {0} runs, and takes part: stop it first (systemctl stop ashlard on its machine), then remove it"
    )]
    Runs(u16),
    /// The controller is the home.
    #[error(
        "controller {0} is the home: drain it and stop it first, then remove it by the controller that took over"
    )]
    Home(u16),
    /// The controller does not take part.
    #[error("controller {0} does not run, and so serves nothing")]
    Away(u16),
    /// No controller would serve hosts.
    #[error(
        "hosts would lose their volumes: no other controller can become the home; start another one, or resume one that is \
         drained"
    )]
    NoOther,
}

impl Change {
    /// Applies the change to `next`, a copy of `map` with the next version; `None` if `map` already has it. `live` are
    /// the controllers that are known to run.
    pub(crate) fn made(self, map: &Map, mut next: Map, live: &[MemberId]) -> Result<Option<Map>, Refusal> {
        let (Self::Remove(id) | Self::Drain(id) | Self::Resume(id)) = self;
        let Some(member) = map.member(id) else {
            return if matches!(self, Self::Remove(_)) { Ok(None) } else { Err(Refusal::Unknown(id.0)) };
        };
        let is_home = map.domains_of(id).next().is_some();
        match self {
            Self::Remove(_) if is_home => return Err(Refusal::Home(id.0)),
            Self::Remove(_) if member.standing == Standing::Active => return Err(Refusal::Runs(id.0)),
            Self::Remove(_) => next.remove(id),
            Self::Drain(_) if member.drained => return Ok(None),
            Self::Drain(_) if member.standing != Standing::Active => return Err(Refusal::Away(id.0)),
            Self::Drain(_)
                if is_home && !live.iter().any(|other| *other != id && !map.is_drained(*other)) =>
            {
                return Err(Refusal::NoOther);
            }
            Self::Drain(_) => next.set_drained(id, true),
            Self::Resume(_) if !member.drained => return Ok(None),
            Self::Resume(_) if is_home => return Err(Refusal::Home(id.0)),
            Self::Resume(_) => next.set_drained(id, false),
        }
        Ok(Some(next))
    }
}

#[cfg(test)]
#[path = "change_test.rs"]
mod tests;
