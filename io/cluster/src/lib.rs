//! Membership of controllers that share a store: liveness, the home controller of each domain, and the permission to
//! answer hosts.
//!
//! There is no consensus protocol and no synchronized clock here: every decision is one compare-and-swap of the
//! [`Map`], and clock rates only have to agree within 10 %. The spine is [`Member`], a state machine without I/O; an
//! [`Arbiter`](shelf::arbiter::Arbiter) performs its requests. [`Lease`] says whether hosts may be answered,
//! `observation` records the state of other members, `expulsion` removes a silent one.
//!
//! # Why two owners never serve at once
//!
//! A member writes a beat into each witness twice a second. Its lease lasts [`Timing::lease_ns`] from *sending* the
//! oldest of the newest beats that a majority of witnesses took. To expel a member, another one marks its witnesses,
//! each on the condition that the beat is still the one seen [`Timing::dead_ns`] ago. A marked witness takes no more
//! beats of a member that does not know the map announced by the mark. With a majority marked, the map is replaced.
//!
//! Proof: let a lease rest on a beat sent at *s*. A majority of witnesses took this beat or a later one, and a majority
//! is marked, so one witness has both. There the mark came after the beat, since the beat would have been refused
//! otherwise, and `dead_ns` after that beat was seen. So the new home begins after *s* + `dead_ns` of the judge's
//! clock, and the lease ended at *s* + `lease_ns` of the other clock. [`Timing::is_safe`] compares both for clock rates
//! that differ by 10 % each way.
//!
//! Writes need no lease: the store refuses them by the epoch of their owner, which is the version of the map that made it
//! the home.
//!
//! A mark whose version the map has reached without expelling the member is void. A member that finds itself marked
//! moves the map to the next version. Either this or the expulsion is the next version, never both.

mod change;
mod expulsion;
mod lease;
mod map;
mod member;
mod observation;
mod request;
mod succession;
mod timing;

pub use change::{Change, Refusal};
pub use lease::Lease;
pub use map::{Domain, FORMATS, Identity, Link, MAX_MEMBERS, Map, Member as MapMember, Service, Standing};
pub use member::{Config, Event, Member, MembershipEnd};
pub use request::{Reply, Request, RequestId};
pub use succession::{Cause, Succession};
pub use timing::Timing;

/// An unusable map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The map is damaged, or of a newer release.
    #[error("{0}")]
    Map(String),
}
