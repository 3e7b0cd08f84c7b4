//! Membership of controllers that share a store: who is alive, which controller is the home of a domain, and who may answer hosts.
//!
//! There is no consensus protocol and no synchronized clock here: all that is decided is one compare-and-swap of the [`Map`],
//! and the clocks only have to run equally fast within 10 %. The spine is [`Member`], a state machine without I/O, whose
//! requests an [`Arbiter`](shelf::arbiter::Arbiter) performs. Its parts: [`Lease`] says whether hosts may be answered;
//! `observation` is what is known of the others; `expulsion` removes one that is silent.
//!
//! # Why two owners never serve at once
//!
//! A member writes a beat into each witness twice a second. Its lease lasts [`Timing::lease_ns`] from *sending* the oldest of
//! the newest beats that a majority of witnesses took. Who judges another one marks its witnesses, each on the condition that the
//! beat is still the one that was seen [`Timing::dead_ns`] ago; a marked witness takes no more beats of a member that does not
//! know the map that the mark announces. With a majority marked, the map is replaced.
//!
//! Let a lease rest on a beat that was sent at *s*. A majority of witnesses took it or a later one, and a majority is marked,
//! so one witness has both. There the mark came after the beat, as the beat would have been refused otherwise, and it came
//! `dead_ns` after that beat had been seen. So the new home begins after *s* + `dead_ns` of the judge's clock, and the lease
//! ended at *s* + `lease_ns` of the other's. [`Timing::is_safe`] compares both for clocks whose rates differ by 10 % each way.
//!
//! Writes need no lease: the store refuses them by the epoch of their owner, which is the version of the map that made it
//! the home.
//!
//! A mark whose version the map has reached without expelling the member is void. A member that finds itself marked moves
//! the map on; either that or the expulsion is the next version, never both.

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

/// A map that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is damaged, or of a newer release.
    #[error("{0}")]
    Map(String),
}
