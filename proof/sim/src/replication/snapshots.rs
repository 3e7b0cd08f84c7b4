//! Snapshots of users in the world `replication`: of the whole group at one moment, later made a point, and deleted at
//! any time.
//!
//! Checked: such a point has the content of that moment, regardless of later writes, crashes and interruptions of
//! either array; and the names of the snapshots, unless a peer of version 1 took part.

use super::{Check, Known, SideEnv, World};
use crate::machine::Outcome;
use ::replication::{NAMES_VERSION, Point, Source, UserSnapshot, VERSIONS};
use block::DiskId;
use block::workload::Random;
use std::sync::Arc;

/// First identity of users' snapshots; those of points are smaller.
const FIRST_ID: u128 = 3 << 64;

/// Snapshots of all volumes at one moment.
struct Set {
    snapshots: Vec<UserSnapshot>,
    known: Known,
    /// The point being created from them.
    point: Option<u64>,
}

/// State of users' snapshots.
pub(super) struct Snapshots {
    random: Random,
    /// Whether this seed takes snapshots.
    enabled: bool,
    /// Whether some connections agree on version 1.
    old_peers: bool,
    next_id: u128,
    taking: Option<Outcome<Result<(), block::Error>>>,
    set: Option<Set>,
    /// Snapshots that no point will be created from.
    left: Vec<DiskId>,
    deleting: Option<(DiskId, Outcome<Result<(), block::Error>>)>,
}

impl Snapshots {
    pub fn new(seed: u64) -> Self {
        // Drawn separately: other seeds are unchanged.
        let mut random = Random::new(seed ^ 0x736e_6170);
        let (enabled, old_peers) = (random.chance(50), random.chance(30));
        Self {
            random,
            enabled,
            old_peers,
            next_id: FIRST_ID,
            taking: None,
            set: None,
            left: Vec::new(),
            deleting: None,
        }
    }

    /// Whether snapshots are being taken: a concurrent point may be older or newer.
    pub fn is_taking(&self) -> bool {
        self.taking.is_some()
    }

    pub fn is_deleting(&self) -> bool {
        self.deleting.is_some()
    }

    /// Newest version in the hello of a new connection.
    pub fn version(&mut self) -> u16 {
        if self.old_peers && self.random.chance(50) { NAMES_VERSION - 1 } else { *VERSIONS.end() }
    }

    /// Gives up the point of the snapshots, since a newer point is taken.
    pub fn give_up(&mut self) {
        if let Some(set) = self.set.take() {
            self.left.extend(set.snapshots.iter().map(|it| it.snapshot));
        }
    }

    /// Further possible content of the snapshots.
    pub fn known(&mut self) -> Option<&mut Known> {
        self.set.as_mut().map(|set| &mut set.known)
    }

    /// Notes that a point was taken, or exists after a crash.
    pub fn note_taken(&mut self, is_there: impl Fn(u64) -> bool) {
        if let Some(set) = &mut self.set
            && let Some(point) = set.point.take()
            && is_there(point)
        {
            self.give_up();
        }
    }

    /// Notes a crash of the array: outstanding operations took effect or not.
    pub fn crash(&mut self) {
        if self.taking.take().is_some() {
            self.give_up();
        }
        self.deleting = None;
    }

    /// Whether a point has the expected names.
    pub fn agree(&self, point: &Point, known: &Known) -> bool {
        point.snapshots == known.names || (self.old_peers && point.snapshots.is_empty())
    }

    /// All disks of users that may exist.
    pub fn all(&mut self) -> Vec<DiskId> {
        self.give_up();
        std::mem::take(&mut self.left)
    }
}

impl World {
    /// Begins an operation of users.
    pub(super) fn begin_snapshots(&mut self, sender: &Arc<Source<SideEnv>>) -> Check {
        if !self.snapshots.enabled {
            return Ok(());
        }
        let idle = self.taking.is_none() && self.snapshots.taking.is_none() && !self.demoted;
        if idle && self.snapshots.set.is_none() && self.snapshots.random.below(400) == 0 {
            self.take_snapshots()?;
        } else if idle && self.snapshots.random.below(400) == 0 {
            self.begin_point_of_snapshots(sender.clone());
        }
        self.delete_snapshot()
    }

    fn take_snapshots(&mut self) -> Check {
        let engine = self.source.engine.clone().ok_or("the source is up")?;
        let mut snapshots = Vec::new();
        for volume in self.group.clone() {
            let snapshot = DiskId(self.snapshots.next_id);
            self.snapshots.next_id += 1;
            snapshots.push(UserSnapshot { volume, snapshot, name: format!("{}.{}", volume.0, snapshot.0) });
        }
        let pairs: Vec<_> = snapshots.iter().map(|it| (it.volume, it.snapshot)).collect();
        let known = Known {
            candidates: vec![self.model.fork()],
            volumes: self.group.clone(),
            names: snapshots.iter().map(|it| it.name.clone()).collect(),
            open: true,
            taken: false,
        };
        self.snapshots.set = Some(Set { snapshots, known, point: None });
        let take = async move { engine.snapshot(&pairs, &[], 7, 0).await.map(drop) };
        self.snapshots.taking = Some(self.source.machine.start(take).1);
        Ok(())
    }

    /// Creates a point of the snapshots, once their possible content is known.
    fn begin_point_of_snapshots(&mut self, sender: Arc<Source<SideEnv>>) {
        let number = self.next_point();
        let Some(set) = self.snapshots.set.as_mut().filter(|set| !set.known.open) else { return };
        set.point = Some(number);
        let candidates = set.known.candidates.iter().map(|it| it.fork()).collect();
        let (volumes, names) = (set.known.volumes.clone(), set.known.names.clone());
        self.points.insert(number, Known { candidates, volumes, names, open: false, taken: false });
        let (replication, snapshots) = (self.number, set.snapshots.clone());
        let take = async move { sender.take_point_of(replication, &snapshots).await };
        self.taking = Some(self.source.machine.start(take).1);
    }

    fn delete_snapshot(&mut self) -> Check {
        let Some(id) = self.snapshots.left.first().copied() else { return Ok(()) };
        if self.snapshots.deleting.is_some() || self.snapshots.random.below(1000) != 0 {
            return Ok(());
        }
        let engine = self.source.engine.clone().ok_or("the source is up")?;
        let delete = async move { engine.delete_volume(id, 0).await };
        self.snapshots.deleting = Some((id, self.source.machine.start(delete).1));
        Ok(())
    }

    pub(super) fn take_outcomes_of_snapshots(&mut self) -> Check {
        if let Some(result) = self.snapshots.taking.as_ref().and_then(Outcome::take) {
            self.snapshots.taking = None;
            result.map_err(|cause| format!("taking snapshots: {cause}"))?;
            let busy = self.host.is_some();
            if let Some(known) = self.snapshots.known() {
                (known.taken, known.open) = (true, busy);
            }
        }
        if let Some((id, result)) =
            self.snapshots.deleting.as_ref().and_then(|(id, it)| Some((*id, it.take()?)))
        {
            self.snapshots.deleting = None;
            match result {
                Ok(()) | Err(block::Error::Deleted) => self.snapshots.left.retain(|left| *left != id),
                Err(cause) => return Err(format!("deleting a snapshot: {cause}")),
            }
        }
        Ok(())
    }

    /// Deletes the remaining snapshots on the source.
    pub(super) fn delete_snapshots(&mut self) -> Check {
        for id in self.snapshots.all() {
            match self.on_source(move |engine| async move { engine.delete_volume(id, 0).await })? {
                Ok(()) | Err(block::Error::Deleted) => {}
                Err(cause) => return Err(format!("deleting a snapshot: {cause}")),
            }
        }
        Ok(())
    }
}
