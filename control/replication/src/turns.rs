//! Exclusion for each group: one connection at a time, and concurrent deletions of points.
//!
//! A transfer may take hours, during which expired points have to be deleted. So a connection locks only what it needs:
//! every point while the source chooses its base, and the base afterwards.

use crate::{Error, Result};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Connections and deletions of one end.
#[derive(Default)]
pub struct Turns(Mutex<State>);

#[derive(Default)]
struct State {
    /// The base that the connection of each replication needs; `None` locks every point.
    connections: BTreeMap<u128, Option<u64>>,
    /// Replication and number of the point.
    deletions: BTreeSet<(u128, u64)>,
}

/// The only connection of a replication.
pub struct Connected<'a>(&'a Turns, u128);

/// A point that is being deleted.
pub struct Deleting<'a>(&'a Turns, u128, u64);

impl Turns {
    /// Locks the connection of a replication, unless there is one.
    pub fn connect(&self, replication: u128) -> Result<Connected<'_>> {
        let connections = &mut self.0.lock().connections;
        if connections.contains_key(&replication) {
            return Err(Error::Busy);
        }
        connections.insert(replication, None);
        Ok(Connected(self, replication))
    }

    /// Locks the deletion of a point, unless the connection needs it or it is being deleted.
    pub fn delete(&self, replication: u128, number: u64) -> Result<Deleting<'_>> {
        let state = &mut *self.0.lock();
        let needed = state.connections.get(&replication);
        let needed = needed.is_some_and(|base| base.is_none_or(|base| base == number));
        if needed || !state.deletions.insert((replication, number)) {
            return Err(Error::Busy);
        }
        Ok(Deleting(self, replication, number))
    }
}

impl Connected<'_> {
    /// Whether a point is being deleted.
    pub fn is_deleted(&self, number: u64) -> bool {
        self.0.0.lock().deletions.contains(&(self.1, number))
    }

    /// Reduces the lock to this point; to none if it is zero.
    pub fn keep(&self, base: u64) {
        self.0.0.lock().connections.insert(self.1, Some(base));
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.0.lock().connections.remove(&self.1);
    }
}

impl Drop for Deleting<'_> {
    fn drop(&mut self) {
        self.0.0.lock().deletions.remove(&(self.1, self.2));
    }
}
