//! Witness: decides which array of a synchronous replication continues alone, so that a failover needs no operator.
//!
//! It is a third place that both arrays ask after they have lost each other. It holds one [`Ruling`] for each replication, and
//! [`decide`] is all that it does: the ruling after a request has to be durable before the answer is sent. No clock is involved.
//! A source acknowledges nothing without the target while both are the same, so that a target which has stopped to apply changes
//! can ask for the group at any time; a source asks before it acknowledges anything alone.
//!
//! Sessions have numbers, those of the points with which they begin. Each session is granted to one array at most,
//! and requests of older ones are void, however late they arrive.

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
    /// The array that has everything which the source has acknowledged in the session.
    Target,
}

/// Decision of a witness about one replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    /// The newest session that it knows.
    pub session: u64,
    /// The array that continues alone if the session is lost, or was; `None` while it may be either.
    pub alone: Option<End>,
}

/// Request of an array to a witness. A witness knows the array by the connection, and takes no request for the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// From the source, before it begins a session: the witness is to know the replication.
    Enroll {
        /// The session that is begun next, or that is beginning ([`Point::next_session`](crate::Point::next_session)).
        session: u64,
    },
    /// From the source: both arrays are the same, and it acknowledges nothing alone any more.
    Join {
        /// The session, which is durable on both.
        session: u64,
    },
    /// To go on alone. The source asks while it is in no session; the target while it takes part in none, and lets
    /// none begin until it has the answer or has given up.
    Alone {
        /// The session that was lost ([`source_claim`], [`Target::claim`](crate::Target::claim)).
        session: u64,
        /// The array that asks.
        end: End,
    },
}

/// The answer of a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is so, durably.
    Granted,
    /// The other array continues alone. A source that hears this takes no writes any more; it is so for good.
    Other,
    /// The witness knows of a newer session, or not of this one yet: the array is to ask again.
    Outdated,
    /// The witness does not know the replication, because it is new or has lost what it knew: the source is to enroll
    /// it and to begin another session.
    Unknown,
}

/// The ruling after a request, and the answer. The ruling has to be durable before the answer is sent.
#[must_use]
pub fn decide(known: Option<Ruling>, request: Request) -> (Option<Ruling>, Answer) {
    let Some(ruling) = known else {
        return match request {
            // Nothing that was promised before the memory was lost can be claimed: neither end has had a newer session.
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
            // A source that could not report its newest session has gone on alone in no other way.
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

/// The session that a source may name to a witness; `None` if it continues alone anyhow.
///
/// # Errors
/// If the record can't be read, and if the engine has stopped.
pub async fn source_claim(engine: &Engine, replication: u128) -> Result<Option<u64>> {
    let session = armed_session(engine, replication)?;
    // A crash must not take it back: the witness would know of a session that the source does not.
    engine.confirm_records().await.map_err(Error::Disk)?;
    Ok(session)
}

#[cfg(test)]
#[path = "witness_test.rs"]
mod tests;
