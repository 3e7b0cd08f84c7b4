//! Witness: decides which array of a synchronous replication continues alone, so a failover needs no operator.
//!
//! The witness is a third site that both arrays ask after they have lost each other. It has one [`Ruling`] for each
//! replication. [`decide`] is a pure function; the new ruling must be durable before the answer is sent. No clock is
//! involved. A source acknowledges nothing without the target while both are in sync, so a target that has stopped
//! applying changes can ask for the group at any time. A source asks before it acknowledges anything alone.
//!
//! A session has the number of the point with which it begins. Each session is granted to at most one array. Requests
//! for older sessions are void, however late they arrive.

use crate::inventory::armed_session;
use crate::{Error, Result};
use engine::Engine;
use serde::{Deserialize, Serialize};

/// An end of a replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The array whose hosts write.
    Source,
    /// The array that has everything that the source acknowledged in the session.
    Target,
}

/// Decision of a witness about one replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    /// The newest known session.
    pub session: u64,
    /// The array that continues alone after the loss of the session; `None` while both may.
    pub alone: Option<End>,
}

/// Request of an array to a witness. The connection identifies the array; requests for the other end are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// From the source, before it begins a session: registers the replication.
    Enroll {
        /// The next session, or the one that is beginning ([`Point::next_session`](crate::Point::next_session)).
        session: u64,
    },
    /// From the source: both arrays are in sync, and it acknowledges nothing alone any more.
    Join {
        /// The session, which is durable on both arrays.
        session: u64,
    },
    /// Request to continue alone. The source asks while it is in no session; the target while it is in none, and lets
    /// none begin until it has the answer or has given up.
    Alone {
        /// The lost session ([`source_claim`], [`Target::claim`](crate::Target::claim)).
        session: u64,
        /// The array that asks.
        end: End,
    },
}

/// The answer of a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Granted, durably.
    Granted,
    /// The other array continues alone. A source with this answer permanently stops taking writes.
    Other,
    /// The witness knows a newer session, or does not know this one yet: the array has to ask again.
    Outdated,
    /// The witness does not know the replication, because it is new or has lost its data: the source has to enroll it
    /// and begin another session.
    Unknown,
}

/// The ruling after a request, and the answer. The ruling must be durable before the answer is sent.
#[must_use]
pub fn decide(known: Option<Ruling>, request: Request) -> (Option<Ruling>, Answer) {
    let Some(ruling) = known else {
        return match request {
            // No earlier promise can be claimed after the loss of the witness's data: neither end has had a newer
            // session.
            Request::Enroll { session } => {
                let ruling = Ruling { session: session.saturating_sub(1), alone: Some(End::Source) };
                (Some(ruling), Answer::Granted)
            }
            Request::Join { .. } | Request::Alone { .. } => (None, Answer::Unknown),
        };
    };
    let answer = match request {
        Request::Enroll { .. } => Answer::Granted,
        Request::Join { session } => match (session.cmp(&ruling.session), ruling.alone) {
            (std::cmp::Ordering::Greater, _) => {
                return (Some(Ruling { session, alone: None }), Answer::Granted);
            }
            (std::cmp::Ordering::Equal, None) => Answer::Granted,
            // The session was lost before this request arrived.
            (std::cmp::Ordering::Equal, Some(End::Target)) => Answer::Other,
            _ => Answer::Outdated,
        },
        Request::Alone { session, end } => match (session.cmp(&ruling.session), ruling.alone) {
            // A source that could not report its newest session has continued alone in no other way.
            (std::cmp::Ordering::Greater, _) if end == End::Source => {
                return (Some(Ruling { session, alone: Some(end) }), Answer::Granted);
            }
            (std::cmp::Ordering::Equal, None) => {
                return (Some(Ruling { session, alone: Some(end) }), Answer::Granted);
            }
            (std::cmp::Ordering::Equal, Some(known)) if known == end => Answer::Granted,
            (std::cmp::Ordering::Equal, Some(_)) => Answer::Other,
            _ => Answer::Outdated,
        },
    };
    (known, answer)
}

/// The session that a source may name to a witness; `None` if it continues alone anyway.
///
/// # Errors
/// If the record can't be read, or if the engine has stopped.
pub async fn source_claim(engine: &Engine, replication: u128) -> Result<Option<u64>> {
    let session = armed_session(engine, replication)?;
    // A crash must not undo it: the witness would know a session that the source does not.
    engine.confirm_records().await.map_err(Error::Disk)?;
    Ok(session)
}

#[cfg(test)]
#[path = "witness_test.rs"]
mod tests;
