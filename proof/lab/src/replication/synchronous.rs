//! Synchronous replication: write latency for a given round trip between both arrays, and no loss of acknowledged
//! writes with the source.
//!
//! A host has one outstanding 4 KiB write. The latency is measured on each array alone, and then in sync with each
//! round trip. In the end the source is killed, the target is promoted by force, and every write is compared.

use super::{BLOCK_BYTES, BLOCKS, HOST, INITIATOR, NAME, VOLUME, VOLUMES, World, perform, write};
use crate::array::Programs;
use crate::check::{Amount, Checker, Hosts, Options, Report, Unit, reopen};
use crate::libiscsi::{Ending, Session};
use crate::scratch::Scratch;
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::{Duration, Instant};

/// Options of the replication.
const MODE: [&str; 4] = ["--mode", "sync", "--on-link-loss", "stop"];
/// A volume on the target alone.
const ALONE: &str = "alone";
/// The LUN of that volume.
const ALONE_LUN: u16 = 9;
/// Unmeasured first writes, which include set-up costs.
const WARM_UP: u64 = 20;

/// Latency of writes.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// The median.
    pub median: Duration,
    /// The 99th percentile.
    pub p99: Duration,
}

/// Results.
#[derive(Clone, Debug)]
pub struct Measured {
    /// On the source alone.
    pub source: Latency,
    /// On the target alone.
    pub target: Latency,
    /// In sync, by added round trip.
    pub in_sync: Vec<(Duration, Latency)>,
    /// Acknowledged writes, all found on the promoted target.
    pub acknowledged: u64,
}

/// Measures `writes` writes for each of these round trips, in a folder below `parent`. `check`: verifies the media of
/// both arrays at the end.
///
/// # Errors
/// The violation, including a write in sync that was faster than the round trip.
pub fn run(
    programs: &Programs,
    parent: &Path,
    (seed, writes): (u64, u64),
    round_trips: &[Duration],
    check: bool,
) -> Result<Measured> {
    let scratch = Scratch::new(parent, "replication-sync")?;
    let result = World::new(programs, scratch.path(), seed, &MODE).and_then(|mut world| {
        let measured = world.measure(writes, round_trips)?;
        world.lose_source()?;
        if check {
            world.check_media()?;
        }
        Ok(measured)
    });
    scratch.end(result)
}

/// The second host of [`check`].
const SECOND: (&str, &str) = ("second", "iqn.2001-04.org.example:replication-second");

/// Block checker with several hosts at a source in sync: the source is killed during their commands, the target is
/// promoted by force, and they continue there. One order must explain their results.
///
/// # Errors
/// The violation.
pub fn check(programs: &Programs, parent: &Path, amount: Amount) -> Result<Report> {
    let scratch = Scratch::new(parent, "replication-check")?;
    let result = World::new(programs, scratch.path(), amount.seed, &MODE)
        .and_then(|mut world| world.check_hosts(amount).map(|checker| checker.report));
    scratch.end(result)
}

/// Latency of writes, by a function that performs one.
fn latency(writes: u64, mut one: impl FnMut() -> Result<()>) -> Result<Latency> {
    (0..WARM_UP).try_for_each(|_| one())?;
    let mut times = Vec::new();
    for _ in 0..writes {
        let begun = Instant::now();
        one()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(Latency { median: rank(&times, 50)?, p99: rank(&times, 99)? })
}

/// The percentile of sorted times.
fn rank(sorted: &[Duration], percent: usize) -> Result<Duration> {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().context("no write was measured")
}

impl World {
    fn measure(&mut self, writes: u64, round_trips: &[Duration]) -> Result<Measured> {
        self.cli(0, &["replication", "pause", NAME])?;
        let source = latency(writes, || self.write_next())?;
        let target = self.measure_target(writes)?;
        self.cli(0, &["replication", "resume", NAME])?;
        let mut in_sync = Vec::new();
        for round_trip in round_trips {
            self.networks[1].set_round_trip(*round_trip);
            self.await_state(0, "in_sync")?;
            let found = latency(writes, || self.write_next())?;
            ensure!(
                found.median >= *round_trip,
                "a write took {:?} with a round trip of {round_trip:?}: it was acknowledged without the target",
                found.median
            );
            in_sync.push((*round_trip, found));
        }
        self.await_state(0, "in_sync")?;
        Ok(Measured { source, target, in_sync, acknowledged: self.report.acknowledged })
    }

    fn check_hosts(&mut self, amount: Amount) -> Result<Checker> {
        for array in &self.arrays {
            array.add_host(SECOND.0, SECOND.1)?;
        }
        for (lun, volume) in (0..).zip(VOLUMES) {
            self.arrays[0].connect(volume, SECOND.0, lun)?;
        }
        self.await_state(0, "in_sync")?;
        let units = VOLUMES.iter().map(|_| Unit::new(BLOCK_BYTES, BLOCKS)).collect::<Result<_>>()?;
        let names = [INITIATOR, SECOND.1].map(str::to_owned).to_vec();
        let hosts = Hosts::new(names, vec![0, 1, 2], vec![BLOCK_BYTES; VOLUMES.len()], None)?;
        // Reservations are not replicated.
        let options = Options { seed: amount.seed, faults: true, reservations: None };
        let mut checker = Checker::new(units, options);
        let portals = self.arrays[0].portals().len();
        let paths = hosts.open_all(&self.arrays[0], portals, &mut checker)?;
        checker.fill()?;
        for _ in 1..amount.rounds {
            checker.run(amount.answers, None)?;
            checker.settle(None)?;
        }
        checker.run(amount.answers, None)?;
        self.await_state(0, "in_sync")?;
        checker.load()?;
        self.arrays[0].kill()?;
        checker.abandon()?;
        checker.fence();
        self.cli(1, &["replication", "promote", NAME, "--force"])?;
        for (lun, volume) in (0..).zip(VOLUMES) {
            [HOST, SECOND.0].iter().try_for_each(|host| self.arrays[1].connect(volume, host, lun))?;
        }
        reopen(&hosts, &self.arrays[1], &paths, &mut checker)?;
        checker.run(amount.answers, None)?;
        checker.settle(None)?;
        Ok(checker)
    }

    /// Writes to a volume on the target alone.
    fn measure_target(&self, writes: u64) -> Result<Latency> {
        self.arrays[1].add_volume(ALONE, VOLUME)?;
        self.arrays[1].connect(ALONE, HOST, ALONE_LUN)?;
        let mut session = self.login(1, &[ALONE_LUN])?;
        let mut stamp = 0;
        latency(writes, || {
            stamp += 1;
            write_alone(&mut session, stamp)
        })
    }

    /// Kills the source: the promoted target has every write.
    fn lose_source(&mut self) -> Result<()> {
        self.session = None;
        self.arrays[0].kill()?;
        self.cli(1, &["replication", "promote", NAME, "--force"])?;
        for (lun, volume) in (0..).zip(VOLUMES) {
            self.arrays[1].connect(volume, HOST, lun)?;
        }
        let found = self.newest_of(1, &[0, 1, 2])?;
        ensure!(
            found == self.stamp,
            "the promoted target ends with write {found}, and {} were acknowledged",
            self.stamp
        );
        self.arrays[0].restart()
    }
}

fn write_alone(session: &mut Session, stamp: u64) -> Result<()> {
    let lba = stamp.wrapping_mul(389) % BLOCKS;
    match perform(session, || write(ALONE_LUN, lba, stamp))? {
        Ending::Good(_) => Ok(()),
        other => anyhow::bail!("a write ended with {other:?}"),
    }
}
