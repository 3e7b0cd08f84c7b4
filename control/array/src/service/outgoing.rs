//! Snapshots of users and schedules that a replication has still to transfer.

use block::DiskId;
use engine::Engine;
use records::{Config, ReplicationEntry, ReplicationRole, SnapshotEntry};
use replication::UserSnapshot;
use std::collections::BTreeMap;

/// The oldest set of snapshots that is newer than the last point: a read-only snapshot of each of the volumes, taken at one moment.
/// `None` if there is none, if none is to be replicated, and before the first point.
pub(crate) fn next(config: &Config, engine: &Engine, entry: &ReplicationEntry) -> Option<Vec<UserSnapshot>> {
    let sends = entry.role == ReplicationRole::Source && entry.demoted.is_none() && entry.replicate_snapshots;
    let subject = entry.subject.filter(|_| sends)?;
    let volumes: Vec<DiskId> = config.scheduled(subject).iter().map(|it| it.id).collect();
    let watermark = replication::source_points(engine, entry.number()).ok()?.last()?.watermark(engine)?;
    let mut sets: BTreeMap<u64, BTreeMap<DiskId, &SnapshotEntry>> = BTreeMap::new();
    for snapshot in config.snapshots.iter().filter(|it| volumes.contains(&it.source)) {
        sets.entry(snapshot.set).or_default().insert(snapshot.source, snapshot);
    }
    let complete = sets.into_values().filter(|set| set.len() == volumes.len());
    let newer = complete.filter_map(|set| {
        let disks: Option<Vec<_>> = set.values().map(|it| engine.disk(it.id)).collect();
        let disks = disks.filter(|disks| disks.iter().all(|it| it.read_only && it.number > watermark))?;
        Some((disks.iter().map(|disk| disk.number).min()?, set))
    });
    let (_, set) = newer.min_by_key(|(number, _)| *number)?;
    let snapshot = |volume: &DiskId| {
        let it = set.get(volume)?;
        Some(UserSnapshot { volume: *volume, snapshot: it.id, name: it.name.clone() })
    };
    volumes.iter().map(snapshot).collect()
}
