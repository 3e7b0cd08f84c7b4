//! Requests of a member to the arbiter, and their replies.

use bytes::Bytes;
use shelf::arbiter::{Arbiter, Beat, MemberId, Signs};
use shelf::pool::BoxFuture;

/// The number of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// An operation of the arbiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// [`Arbiter::map`].
    Map,
    /// [`Arbiter::replace`].
    Replace {
        /// The version to replace.
        expected: Option<u64>,
        /// The new version.
        version: u64,
        /// The encoded map.
        map: Bytes,
    },
    /// [`Arbiter::signs`].
    Signs {
        /// The witness.
        witness: usize,
    },
    /// [`Arbiter::beat`].
    Beat {
        /// The witness.
        witness: usize,
        /// The member that beats.
        member: MemberId,
        /// The beat.
        beat: Beat,
        /// The version of the map that the member knows.
        map_version: u64,
    },
    /// [`Arbiter::mark`].
    Mark {
        /// The witness.
        witness: usize,
        /// The member that is marked.
        member: MemberId,
        /// The beat that was seen.
        seen: Beat,
        /// The version of the map that will expel the member.
        mark: u64,
    },
}

/// Reply of the arbiter. After an error other than [`Fenced`](shelf::Error::Fenced), it is unknown whether the request
/// took effect.
#[derive(Debug)]
pub enum Reply {
    /// Reply to [`Request::Map`].
    Map(shelf::Result<Option<Bytes>>),
    /// Reply to [`Request::Signs`].
    Signs(shelf::Result<Signs>),
    /// Reply to the other requests: whether it took effect.
    Done(shelf::Result<bool>),
}

impl Request {
    /// Performs the request.
    pub fn perform(self, arbiter: &dyn Arbiter) -> BoxFuture<'static, Reply> {
        fn done(future: BoxFuture<'static, shelf::Result<bool>>) -> BoxFuture<'static, Reply> {
            Box::pin(async move { Reply::Done(future.await) })
        }
        match self {
            Self::Map => {
                let map = arbiter.map();
                Box::pin(async move { Reply::Map(map.await) })
            }
            Self::Signs { witness } => {
                let signs = arbiter.signs(witness);
                Box::pin(async move { Reply::Signs(signs.await) })
            }
            Self::Replace { expected, version, map } => done(arbiter.replace(expected, version, map)),
            Self::Beat { witness, member, beat, map_version } => {
                done(arbiter.beat(witness, member, beat, map_version))
            }
            Self::Mark { witness, member, seen, mark } => done(arbiter.mark(witness, member, seen, mark)),
        }
    }
}
