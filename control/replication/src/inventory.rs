//! Inventory of replications in an engine: their records, points and disks. No key and no connection is needed for it.

use crate::points::{Point, Records};
use crate::{Error, Result};
use block::DiskId;
use bytes::Bytes;
use engine::Engine;
use std::collections::BTreeSet;

/// Key prefix of the records of replications whose points are no longer needed.
const UNNEEDED: &str = "replication-unneeded/";

/// Key prefix of all records of replications.
pub const RECORD_PREFIXES: [&str; 4] = ["replication-source/", "replication-target/", UNNEEDED, RULINGS];

/// Key prefix of the rulings of a witness.
pub const RULINGS: &str = "replication-ruling/";

/// Record of a source: both arrays were the same.
pub(crate) const ARMED: &str = "armed";

/// Record of a target: the staging volumes have everything that the source has acknowledged since this point.
pub(crate) const MIRRORED: &str = "mirrored";

/// Hex digits of the number of a replication in a key.
const NUMBER_DIGITS: usize = 32;

/// The numbers of the replications whose points may be deleted: those of [`unneeded_record`] that [`release`] has not completed.
pub fn unneeded(engine: &Engine) -> BTreeSet<u128> {
    numbers(engine, UNNEEDED).collect()
}

/// The record that the points of a replication are not needed any more, to be written with the change that makes it true.
/// Without it points are kept, whatever became of the configuration: those of a target may be all that is left of their source.
pub fn unneeded_record(replication: u128) -> (String, Option<Bytes>) {
    (unneeded_key(replication), Some(Bytes::new()))
}

fn unneeded_key(replication: u128) -> String {
    format!("{UNNEEDED}{replication:032x}")
}

fn numbers(engine: &Engine, prefix: &'static str) -> impl Iterator<Item = u128> {
    let number = move |key: &str| {
        let digits = key.get(prefix.len()..prefix.len() + NUMBER_DIGITS)?;
        u128::from_str_radix(digits, 16).ok()
    };
    engine.records(prefix).into_iter().filter_map(move |(key, _)| number(&key))
}

/// The points of a group on its source, the oldest first. Those with a digest are on the target as well.
///
/// # Errors
/// If a record can't be read.
pub fn source_points(engine: &Engine, replication: u128) -> Result<Vec<Point>> {
    Records::of_source(replication).points(engine)
}

/// The published points of a group on its target, the oldest first. Their snapshots can be cloned like any other.
///
/// # Errors
/// If a record can't be read.
pub fn target_points(engine: &Engine, replication: u128) -> Result<Vec<Point>> {
    Records::of_target(replication).points(engine)
}

/// Whether source and target of a replication were the same at any time: with [`OnLinkLoss::Stop`](crate::OnLinkLoss) nothing is
/// acknowledged then before they are again, and not either after a restart.
///
/// # Errors
/// If the record can't be read.
pub fn is_armed(engine: &Engine, replication: u128) -> Result<bool> {
    Ok(armed_session(engine, replication)?.is_some())
}

/// The session, by the number of its point, since which [`is_armed`] holds.
///
/// # Errors
/// If the record can't be read.
pub fn armed_session(engine: &Engine, replication: u128) -> Result<Option<u64>> {
    Records::of_source(replication).get(engine, ARMED)
}

/// The deletion of the record that [`is_armed`] reads, to be written with the change by which the source continues alone.
pub fn disarm(replication: u128) -> (String, Option<Bytes>) {
    (Records::of_source(replication).key(ARMED), None)
}

/// Whether this array, the target, has everything that the source had acknowledged when they were last connected. The source may
/// have gone on alone since.
///
/// # Errors
/// If the record can't be read.
pub fn is_mirrored(engine: &Engine, replication: u128) -> Result<bool> {
    Ok(Records::of_target(replication).get::<u64>(engine, MIRRORED)?.is_some())
}

/// The deletion of the record of a target's point alone, to be written with the change by which its snapshots belong to
/// something else.
pub fn detach_target_point(replication: u128, number: u64) -> (String, Option<Bytes>) {
    (Records::of_target(replication).point(number), None)
}

/// The snapshots of all points and the staging volumes of these replications: disks that no configuration names.
///
/// # Errors
/// If a record can't be read.
pub fn disks(engine: &Engine, replications: &BTreeSet<u128>) -> Result<BTreeSet<DiskId>> {
    let mut disks = BTreeSet::new();
    for replication in replications {
        for records in ends(*replication) {
            for point in records.all_points(engine)? {
                disks.extend(point.volumes.iter().map(|volume| DiskId(volume.snapshot)));
            }
            disks.extend(staging(&records, engine)?.into_iter().map(|(_, id)| id));
        }
    }
    Ok(disks)
}

/// Deletes everything that this engine holds of a replication, at time `now`. No transfer of it may be under way. What a crash
/// interrupts is to be called again.
///
/// # Errors
/// If a point has a retention lock; it stays, and its records as well.
pub async fn release(engine: &Engine, replication: u128, now: u64) -> Result<()> {
    for records in ends(replication) {
        for point in records.all_points(engine)? {
            records.delete(engine, point, now).await?;
        }
        for (key, id) in staging(&records, engine)? {
            match engine.delete_volume_with(id, now, vec![(key.clone(), None)]).await {
                Ok(()) => {}
                Err(block::Error::Deleted) => engine.put_record(&key, None).await?,
                Err(error) => return Err(Error::Disk(error)),
            }
        }
        let rest: Vec<_> = engine.records(&records.key("")).into_iter().map(|(key, _)| (key, None)).collect();
        if !rest.is_empty() {
            engine.put_records(rest).await?;
        }
    }
    engine.put_record(&unneeded_key(replication), None).await?;
    Ok(())
}

fn ends(replication: u128) -> [Records; 2] {
    [Records::of_source(replication), Records::of_target(replication)]
}

/// The staging volumes with the keys of their records.
fn staging(records: &Records, engine: &Engine) -> Result<Vec<(String, DiskId)>> {
    let list = records.list::<u128>(engine, "staging/")?.into_iter();
    Ok(list.map(|(source, id)| (records.key(&format!("staging/{source}")), DiskId(id))).collect())
}
