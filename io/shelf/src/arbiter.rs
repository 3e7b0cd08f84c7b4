//! The arbiter of a cluster: where the controllers that share a store agree which of them are alive, and which one owns what.
//!
//! It keeps a *map*, which is replaced by compare-and-swap, and *beats* in several independent places (witnesses) of which a
//! majority counts. What both mean is up to crate `cluster`. Each operation takes effect as a whole or not at all; one
//! without an answer may take effect at any later time, once. RADOS implements this by guarded objects.

use crate::Result;
use crate::pool::BoxFuture;
use bytes::Bytes;
use std::collections::BTreeMap;

/// The number of a controller in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u16);

/// A sign of life. Those of one member grow: by the version of the map in which its process joined, then by a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Beat {
    /// The version of the map in which the process joined; zero if there was no beat yet.
    pub joined: u64,
    /// Its number.
    pub count: u64,
}

/// What a witness holds of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sign {
    /// Its last beat.
    pub beat: Beat,
    /// Beats by members that know no map of this version or a newer one are refused. Zero if it was never marked.
    pub mark: u64,
}

/// The members of a witness.
pub type Signs = BTreeMap<MemberId, Sign>;

/// Shared place by which controllers find out which of them are alive.
///
/// Errors: [`Error::Fenced`](crate::Error::Fenced) when the store refuses this process for good; any other error leaves
/// open whether the operation took effect.
pub trait Arbiter: Send + Sync {
    /// The number of witnesses; odd.
    fn witnesses(&self) -> usize;

    /// The map; `None` if there is none yet.
    fn map(&self) -> BoxFuture<'static, Result<Option<Bytes>>>;

    /// Replaces the map of version `expected`, or makes the first one, by one of version `version`. False if the map has
    /// another version.
    fn replace(&self, expected: Option<u64>, version: u64, map: Bytes) -> BoxFuture<'static, Result<bool>>;

    /// The signs of all members in a witness.
    fn signs(&self, witness: usize) -> BoxFuture<'static, Result<Signs>>;

    /// Writes a beat. False if the witness has the same or a newer one of this member, or a mark above `map_version`.
    fn beat(
        &self,
        witness: usize,
        member: MemberId,
        beat: Beat,
        map_version: u64,
    ) -> BoxFuture<'static, Result<bool>>;

    /// Marks a member whose last beat is still `seen`; a repetition changes nothing. False if the beat is another one, or
    /// the witness has a newer mark.
    fn mark(
        &self,
        witness: usize,
        member: MemberId,
        seen: Beat,
        mark: u64,
    ) -> BoxFuture<'static, Result<bool>>;
}
