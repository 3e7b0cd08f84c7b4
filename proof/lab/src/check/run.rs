//! Runs of the checker: against an array started for it, against tgt, or against any target by address; optionally with
//! kills of the array.

use super::checker::{Checker, Options, Report};
use super::own::{self, Operator};
use super::paths::{HostPath, Hosts, NvmeHosts};
use super::unit::Unit;
use crate::array::{Array, Drives, Programs};
use crate::ceph::Pools;
use crate::foreign::{Foreign, ForeignNvme};
use crate::pair::{self, Pair};
use crate::scratch::Scratch;
use crate::target::{Shape, Target};
use crate::tgt::{BackingStore, Tgt};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::Instant;

/// Extent of a run.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Seed of the commands.
    pub seed: u64,
    /// Number of checks of histories.
    pub rounds: u64,
    /// Number of responses before each check.
    pub answers: u64,
    /// Whether hosts reserve units.
    pub reservations: bool,
    /// Whether to plant a stale cache on every path.
    pub plant: bool,
}

/// Drives of an array under the checker.
const DRIVES: Drives = Drives { count: 4, bytes: 1 << 30 };
/// Numbers of iSCSI and NVMe/TCP hosts.
const SCSI_HOSTS: usize = 2;
const NVME_HOSTS: usize = 2;
/// Units of tgt can't grow.
const TGT_SHAPES: [Shape; 2] =
    [Shape { bytes: 16 << 20, block_bytes: 512 }, Shape { bytes: 64 << 20, block_bytes: 4096 }];

fn options(amount: Amount, faults: bool, persistent: bool) -> Options {
    Options { seed: amount.seed, faults, reservations: amount.reservations.then_some(persistent) }
}

/// Keeps the folder of a failed run, unless the failure was expected.
fn end(scratch: Scratch, amount: Amount, result: Result<Report>) -> Result<Report> {
    if amount.plant { result } else { scratch.end(result) }
}

/// Checks an array of ours; with `kills` it is killed before each check of the histories.
///
/// # Errors
/// The fault found.
pub fn on_own(programs: &Programs, parent: &Path, amount: Amount, kills: bool) -> Result<Report> {
    let scratch = Scratch::new(parent, "check")?;
    let result = (|| {
        let mut array = Array::start(programs, scratch.path(), DRIVES, None)?;
        let mut hosts = own::prepare(&mut array, SCSI_HOSTS, NVME_HOSTS)?;
        hosts.plant = amount.plant.then_some(amount.seed);
        let mut checker = Checker::new(own::units(&own::SHAPES)?, options(amount, kills, true));
        let paths = hosts.open_all(&array, array.portals().len(), &mut checker)?;
        checker.fill()?;
        for _ in 0..amount.rounds {
            // At any moment of a flush or a checkpoint.
            let answers = if kills { checker.seed().range(1, amount.answers) } else { amount.answers };
            checker.run(answers, Some(&mut Operator::new(&array)?))?;
            if kills {
                kill(&mut array, &mut checker)?;
                reopen(&hosts, &array, &paths, &mut checker)?;
                checker.run(amount.answers / 4, Some(&mut Operator::new(&array)?))?;
            }
            checker.settle(Some(&mut Operator::new(&array)?))?;
        }
        Ok(checker.report)
    })();
    end(scratch, amount, result)
}

/// Kills the array during commands of all hosts, verifies its drives, and restarts it.
fn kill(array: &mut Array, checker: &mut Checker) -> Result<()> {
    checker.load()?;
    array.kill()?;
    checker.abandon()?;
    checker.fence();
    array.check().context("what is on the drives")?;
    array.restart()
}

/// Checks two controllers that share an array in Ceph: before each check of the histories, one of them is killed during
/// commands of all hosts, which continue at the other one.
///
/// # Errors
/// The fault found.
pub fn on_pair(programs: &Programs, parent: &Path, place: &Pools, amount: Amount) -> Result<Report> {
    let scratch = Scratch::new(parent, "check-pair")?;
    let result = (|| {
        let mut pair = Pair::start(programs, scratch.path(), place)?;
        let names = own::initiators(SCSI_HOSTS);
        let initiators: Vec<&str> = names.iter().map(String::as_str).collect();
        let luns = pair.fresh(&own::SHAPES, &initiators)?;
        let blocks = own::SHAPES.map(|shape| shape.block_bytes).to_vec();
        let mut hosts = Hosts::new(names, luns, blocks, None)?;
        hosts.plant = amount.plant.then_some(amount.seed);
        hosts.waits = true;
        let mut checker = Checker::new(own::units(&own::SHAPES)?, options(amount, true, true));
        let paths = hosts.open_all(&pair, pair.portals().len(), &mut checker)?;
        checker.fill()?;
        for _ in 0..amount.rounds {
            let answers = checker.seed().range(1, amount.answers);
            checker.run(answers, None)?;
            checker.load()?;
            let victim = checker.seed().range(0, 2) as usize;
            let expelled = pair.map_changes(1 - victim)?;
            pair.kill(victim)?;
            let start = Instant::now();
            loop {
                checker
                    .run(amount.answers / 4, None)
                    .with_context(|| format!("controller {} was killed", victim + 1))?;
                // A controller that returns before its expulsion does not serve hosts.
                if pair.map_changes(1 - victim)? > expelled {
                    break;
                }
                ensure!(start.elapsed() < pair::TIMEOUT, "controller {} is not expelled", victim + 1);
            }
            pair.restart(victim)?;
            pair::retry(|| reopen(&hosts, &pair, &paths, &mut checker))?;
            // The nexuses of lost paths have ended by now.
            checker.fence();
            checker.run(amount.answers / 4, None)?;
            checker.settle(None)?;
        }
        Ok(checker.report)
    })();
    end(scratch, amount, result)
}

/// Reopens all lost paths.
///
/// # Errors
/// If one is refused.
pub fn reopen(hosts: &Hosts, target: &dyn Target, paths: &[HostPath], checker: &mut Checker) -> Result<()> {
    let lost: Vec<usize> = checker.lost_paths().collect();
    for path in lost {
        checker.restore_path(path, hosts.open(target, paths[path])?);
    }
    Ok(())
}

/// Checks tgt, as evidence that the checker accepts targets other than our array.
///
/// # Errors
/// The fault found, or tgt is not installed.
pub fn on_tgt(parent: &Path, amount: Amount) -> Result<Report> {
    let scratch = Scratch::new(parent, "check-tgt")?;
    let result = (|| {
        let mut tgt = Tgt::new(scratch.path(), BackingStore::Buffered, None)?;
        let luns = tgt.fresh(&TGT_SHAPES, &[])?;
        let blocks = TGT_SHAPES.map(|shape| shape.block_bytes).to_vec();
        let mut hosts = Hosts::new(own::initiators(SCSI_HOSTS), luns, blocks, None)?;
        hosts.plant = amount.plant.then_some(amount.seed);
        let checker = Checker::new(own::units(&TGT_SHAPES)?, options(amount, false, false));
        check(checker, &hosts, &tgt, amount)
    })();
    end(scratch, amount, result)
}

/// Checks a foreign target by iSCSI and, if `nvme` names the same volumes in the same order, by NVMe/TCP.
///
/// # Errors
/// The fault found, or the reason why it can't be checked.
pub fn on_foreign(
    (foreign, initiators): (&Foreign, Vec<String>),
    nvme: Option<(&ForeignNvme, Vec<String>)>,
    amount: Amount,
) -> Result<Report> {
    let nvme = nvme.map(|(it, hosts)| NvmeHosts {
        portals: it.portals().to_vec(),
        subsystem: it.subsystem().to_owned(),
        hosts,
        namespaces: it.namespaces().to_vec(),
    });
    let first = initiators.first().context("no initiator")?;
    let shapes = foreign.shapes(first)?;
    let units: Vec<Unit> = own::units(&shapes)?;
    let blocks = shapes.iter().map(|shape| shape.block_bytes).collect();
    if let Some(nvme) = &nvme {
        let (there, needed) = (nvme.namespaces.len(), shapes.len());
        ensure!(
            there == needed,
            "{there} namespaces for {needed} LUNs: name the same volumes in the same order"
        );
    }
    let mut hosts = Hosts::new(initiators, foreign.luns().to_vec(), blocks, nvme)?;
    hosts.plant = amount.plant.then_some(amount.seed);
    check(Checker::new(units, options(amount, false, false)), &hosts, foreign, amount)
}

fn check(mut checker: Checker, hosts: &Hosts, target: &dyn Target, amount: Amount) -> Result<Report> {
    hosts.open_all(target, target.portals().len(), &mut checker)?;
    checker.fill()?;
    for _ in 0..amount.rounds {
        checker.run(amount.answers, None)?;
        checker.settle(None)?;
    }
    Ok(checker.report)
}
