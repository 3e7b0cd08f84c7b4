//! Inventory of replications in an engine: their records, points and disks. It needs no key and no connection.

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

/// Record of a source: both arrays were in sync.
pub(crate) const ARMED: &str = "armed";

/// Record of a target: the staging volumes have everything that the source has acknowledged since this point.
pub(crate) const MIRRORED: &str = "mirrored";

/// Hex digits of the number of a replication in a key.
const NUMBER_DIGITS: usize = 32;

/// Numbers of the replications whose points may be deleted: an [`unneeded_record`] exists, and [`release`] is not
/// complete.
pub fn unneeded(engine: &Engine) -> BTreeSet<u128> {
    numbers(engine, UNNEEDED).collect()
}

/// Record that a replication's points are no longer needed, written in the same step as the change that makes this
/// true. Without this record, points are kept even if the configuration is lost: the points of a target may be the only
/// remaining copy of their source.
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

/// Points of a group on its source, oldest first. Points with a digest are also on the target.
///
/// # Errors
/// If a record can't be read.
pub fn source_points(engine: &Engine, replication: u128) -> Result<Vec<Point>> {
    Records::of_source(replication).points(engine)
}

/// Published points of a group on its target, oldest first. Their snapshots can be cloned like any others.
///
/// # Errors
/// If a record can't be read.
pub fn target_points(engine: &Engine, replication: u128) -> Result<Vec<Point>> {
    Records::of_target(replication).points(engine)
}

/// Whether source and target of a replication were ever in sync: with [`OnLinkLoss::Stop`](crate::OnLinkLoss), no write
/// is acknowledged until they are in sync again, even after a restart.
///
/// # Errors
/// If the record can't be read.
pub fn is_armed(engine: &Engine, replication: u128) -> Result<bool> {
    Ok(armed_session(engine, replication)?.is_some())
}

/// The session, by the number of its point, since which [`is_armed`] is true.
///
/// # Errors
/// If the record can't be read.
pub fn armed_session(engine: &Engine, replication: u128) -> Result<Option<u64>> {
    Records::of_source(replication).get(engine, ARMED)
}

/// Deletion of the record that [`is_armed`] reads, written in the same step as the change that lets the source continue
/// alone.
pub fn disarm(replication: u128) -> (String, Option<Bytes>) {
    (Records::of_source(replication).key(ARMED), None)
}

/// Whether this array, the target, has everything that the source had acknowledged when they were last connected. The
/// source may have continued alone since.
///
/// # Errors
/// If the record can't be read.
pub fn is_mirrored(engine: &Engine, replication: u128) -> Result<bool> {
    Ok(Records::of_target(replication).get::<u64>(engine, MIRRORED)?.is_some())
}

/// Deletion of the record of a target's point alone, written in the same step as the change that gives its snapshots
/// another owner.
pub fn detach_target_point(replication: u128, number: u64) -> (String, Option<Bytes>) {
    (Records::of_target(replication).point(number), None)
}

/// Snapshots of all points and staging volumes of these replications, which no configuration names.
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

/// Deletes everything that this engine has of a replication, at time `now`. No transfer of it may be in progress. After
/// a crash the call must be repeated.
///
/// # Errors
/// If a point has a retention lock; the point and its records stay.
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

/// Staging volumes with the keys of their records.
fn staging(records: &Records, engine: &Engine) -> Result<Vec<(String, DiskId)>> {
    let list = records.list::<u128>(engine, "staging/")?.into_iter();
    Ok(list.map(|(source, id)| (records.key(&format!("staging/{source}")), DiskId(id))).collect())
}
