//! Two arrays, one of which replicates a volume group to the other, over a network that is cut and flips bits, while
//! either is killed. Every point is a prefix of the writes, over the whole group, also after the direction was reversed
//! and back again.
//!
//! A host writes one block after the other, to each volume alternately, each with a new stamp. So the newest stamp in a
//! point determines its whole content.

mod network;
pub mod synchronous;

use crate::array::{Array, Drives, Programs};
use crate::cdb;
use crate::libiscsi::{Command, Ending, Libiscsi, Session};
use crate::real::login;
use crate::scratch::{Scratch, free_addresses};
use crate::seed::{Seed, expand, stamp_of};
use crate::target::Shape;
use anyhow::{Context, Result, bail, ensure};
use network::{Disturbance, Network};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A fault during a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    KillSource,
    KillTarget,
    Network(Disturbance),
}

/// Results.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Compared points.
    pub points: u64,
    /// Kills of the source and of the target.
    pub kills: [u64; 2],
    /// Cuts and bit flips that affected a connection.
    pub disturbed: u64,
    /// Number of reversals.
    pub reversed: u64,
}

const INITIATOR: &str = "iqn.2001-04.org.example:replication";
const HOST: &str = "host";
const GROUP: &str = "app";
const NAME: &str = "prod";
/// Name of the other array on the first one.
pub const TARGET: &str = "target";
const VOLUMES: [&str; 3] = ["data", "log", "index"];
const BLOCK_BYTES: u32 = 4096;
/// Blocks of each volume.
const BLOCKS: u64 = 1024;
const VOLUME: Shape = Shape { bytes: BLOCKS * BLOCK_BYTES as u64, block_bytes: BLOCK_BYTES };
const DRIVES: Drives = Drives { count: 4, bytes: 1 << 30 };
/// Maximum number of writes of a cycle.
const MAX_WRITES: u64 = 600;
/// Number of cycles between two pairs of reversals.
const REVERSE_CYCLES: u64 = 8;
/// Time limit of a transfer, including all repetitions.
const LIMIT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);
const BUSY: u8 = 0x08;
const UNIT_ATTENTION: u8 = 0x06;

struct World {
    library: Rc<Libiscsi>,
    seed: Seed,
    arrays: [Array; 2],
    /// The network in front of each array.
    networks: [Network; 2],
    /// Index of the source.
    source: usize,
    /// LUNs of the group's volumes on each array.
    luns: [Vec<u16>; 2],
    session: Option<Session>,
    stamp: u64,
    report: Report,
}

/// Runs this many cycles in a folder below `parent`; `check`: verifies the media of both arrays at the end.
///
/// # Errors
/// The violation.
pub fn run(programs: &Programs, parent: &Path, cycles: u64, seed: u64, check: bool) -> Result<Report> {
    let scratch = Scratch::new(parent, "replication")?;
    let result = World::new(programs, scratch.path(), seed, &[]).and_then(|mut world| {
        for cycle in 1..=cycles {
            world.cycle().with_context(|| format!("cycle {cycle} of seed {seed}"))?;
            if cycle % REVERSE_CYCLES == 0 || cycle == cycles {
                for way in ["reversal", "fail-back"] {
                    world.reverse().with_context(|| format!("{way} after cycle {cycle} of seed {seed}"))?;
                }
            }
        }
        if check {
            world.check_media()?;
        }
        Ok(world.report)
    });
    scratch.end(result)
}

impl World {
    /// `mode`: options of the replication.
    fn new(programs: &Programs, folder: &Path, seed: u64, mode: &[&str]) -> Result<Self> {
        let (first, here) = start(programs, &folder.join("a"), &DRIVES, None)?;
        let (second, there) = start(programs, &folder.join("b"), &DRIVES, None)?;
        let (arrays, networks) = ([first, second], [Network::before(here)?, Network::before(there)?]);
        for array in &arrays {
            array.add_host(HOST, INITIATOR)?;
        }
        let [first, second] = &arrays;
        pair(first, second, &networks[1].address().to_string())?;
        let known = second.names("remote-array")?;
        let here = networks[0].address().to_string();
        second.cli(&["remote-array", "set", known.first().context("a remote array")?, "--address", &here])?;
        first.cli(&["group", "create", GROUP])?;
        for (lun, volume) in (0..).zip(VOLUMES) {
            first.add_volume(volume, VOLUME)?;
            first.cli(&["volume", "set", volume, "--group", GROUP])?;
            first.connect(volume, HOST, lun)?;
        }
        let create = ["replication", "create", NAME, "--group", GROUP, "--to", TARGET, "--rpo", "1h"];
        first.cli(&[&create[..], mode].concat())?;
        Ok(Self {
            library: Libiscsi::load()?,
            seed: Seed::new(seed),
            arrays,
            networks,
            source: 0,
            luns: [vec![0, 1, 2], Vec::new()],
            session: None,
            stamp: 0,
            report: Report::default(),
        })
    }

    /// Stops both arrays, and verifies their drives.
    fn check_media(&mut self) -> Result<()> {
        self.session = None;
        for array in &mut self.arrays {
            array.stop()?;
            array.check()?;
        }
        Ok(())
    }

    fn target(&self) -> usize {
        1 - self.source
    }

    /// Writes, transfers a point during a fault, and checks the target.
    fn cycle(&mut self) -> Result<()> {
        let fault = match self.seed.range(0, 8) {
            0 => Fault::None,
            1 | 2 => Fault::KillSource,
            3 | 4 => Fault::KillTarget,
            5 | 6 => Fault::Network(Disturbance::Cut),
            _ => Fault::Network(Disturbance::Corrupt),
        };
        self.write_some()?;
        let least = self.stamp;
        let after = self.progress(self.source)?["last_point"].as_u64().unwrap_or_default();
        if let Fault::Network(disturbance) = fault {
            self.networks[self.target()].arm(self.seed.range(0, 2 << 20), disturbance);
        }
        self.cli(self.source, &["replication", "sync", NAME])?;
        // Hosts continue, so that a fault occurs at another step of the transfer each time.
        for _ in 0..self.seed.range(0, 60) {
            self.write_next()?;
        }
        match fault {
            Fault::KillSource => {
                self.report.kills[0] += 1;
                self.session = None;
                self.arrays[self.source].kill()?;
                self.arrays[self.source].restart()?;
                // The request was lost with it; a start takes a point by itself.
                self.cli(self.source, &["replication", "sync", NAME])?;
            }
            Fault::KillTarget => {
                self.report.kills[1] += 1;
                let target = self.target();
                self.arrays[target].kill()?;
                self.write_some()?;
                self.arrays[target].restart()?;
                self.cli(self.source, &["replication", "sync", NAME])?;
            }
            Fault::None | Fault::Network(_) => {}
        }
        self.await_idle(after)?;
        if let Fault::Network(_) = fault {
            self.report.disturbed += u64::from(self.networks[self.target()].disarm());
        }
        let found = self.test_failover().with_context(|| format!("after {fault:?}"))?;
        ensure!(
            (least..=self.stamp).contains(&found),
            "the point ends with write {found}, and {least} was acknowledged before it was asked for ({fault:?})"
        );
        Ok(())
    }

    /// Performs a planned failover, and reverses the direction.
    fn reverse(&mut self) -> Result<()> {
        self.write_some()?;
        let (source, target) = (self.source, self.target());
        self.cli(source, &["replication", "demote", NAME])?;
        self.await_state(target, "demoted")?;
        self.cli(target, &["replication", "promote", NAME])?;
        if self.luns[target].is_empty() {
            self.luns[target] = vec![0, 1, 2];
            for (lun, volume) in (0..).zip(VOLUMES) {
                self.arrays[target].connect(volume, HOST, lun)?;
            }
        }
        self.session = None;
        let luns = self.luns[target].clone();
        let found = self.newest_of(target, &luns)?;
        ensure!(found == self.stamp, "a planned failover ends with write {found} of {}", self.stamp);
        self.cli(target, &["replication", "reverse", NAME])?;
        self.source = target;
        self.report.reversed += 1;
        let after = self.progress(self.source)?["last_point"].as_u64().unwrap_or_default();
        self.write_some()?;
        let least = self.stamp;
        self.cli(self.source, &["replication", "sync", NAME])?;
        self.await_idle(after)?;
        let found = self.test_failover()?;
        ensure!(
            found >= least,
            "the point of the other direction ends with write {found} instead of {least}"
        );
        Ok(())
    }

    fn cli(&self, at: usize, words: &[&str]) -> Result<Value> {
        self.arrays[at].cli(words)
    }

    fn progress(&self, at: usize) -> Result<Value> {
        Ok(self.cli(at, &["replication", "show", NAME])?["progress"].clone())
    }

    /// Waits until a point newer than `after` is complete, and no transfer is pending.
    fn await_idle(&self, after: u64) -> Result<()> {
        self.await_progress(self.source, |progress| {
            progress["state"] == "idle" && progress["last_point"].as_u64() > Some(after)
        })
    }

    fn await_state(&self, at: usize, state: &str) -> Result<()> {
        self.await_progress(at, |progress| progress["state"] == state)
    }

    fn await_progress(&self, at: usize, is_reached: impl Fn(&Value) -> bool) -> Result<()> {
        let start = Instant::now();
        loop {
            let progress = self.progress(at)?;
            if is_reached(&progress) {
                return Ok(());
            }
            ensure!(start.elapsed() < LIMIT, "the transfer does not get on: {progress}");
            std::thread::sleep(POLL);
        }
    }

    /// The newest write in clones of the last point, which must have all earlier ones as well.
    fn test_failover(&mut self) -> Result<u64> {
        let target = self.target();
        let tested = self.cli(target, &["replication", "test-failover", "start", NAME, "--host", HOST])?;
        let clones = tested["test_connections"].as_array().context("no connections of the test")?;
        let lun = |volume: &str| {
            let name = format!("{volume}-test");
            let found = clones.iter().find(|it| it["volume"].as_str() == Some(&name));
            let lun = found.and_then(|it| it["lun"].as_u64()).with_context(|| format!("no clone {name}"))?;
            u16::try_from(lun).context("a LUN")
        };
        let luns = VOLUMES.map(lun).into_iter().collect::<Result<Vec<_>>>()?;
        let found = self.newest_of(target, &luns)?;
        self.cli(target, &["replication", "test-failover", "stop", NAME])?;
        self.report.points += 1;
        Ok(found)
    }

    /// Reads the volumes; returns the newest write in them.
    fn newest_of(&self, at: usize, luns: &[u16]) -> Result<u64> {
        let mut session = self.login(at, luns)?;
        let mut found = Vec::new();
        for lun in luns {
            let read = || cdb::read(*lun, 0, BLOCKS as u32, BLOCK_BYTES);
            let Ending::Good(data) = perform(&mut session, read)? else {
                bail!("LUN {lun} can't be read");
            };
            let stamps = data.chunks(BLOCK_BYTES as usize).map(stamp_of);
            found.push(stamps.collect::<Option<Vec<_>>>().context("a block that was never written")?);
        }
        let newest = found.iter().flatten().copied().max().unwrap_or_default();
        for (volume, stamps) in found.iter().enumerate() {
            for (lba, stamp) in (0..).zip(stamps) {
                let wanted = newest_at(volume as u64, lba, newest);
                ensure!(
                    *stamp == wanted,
                    "block {lba} of volume {} has write {stamp} instead of {wanted}, in a point that ends with {newest}",
                    VOLUMES[volume]
                );
            }
        }
        Ok(newest)
    }

    fn write_some(&mut self) -> Result<()> {
        let count = self.seed.range(1, MAX_WRITES);
        (0..count).try_for_each(|_| self.write_next())
    }

    fn write_next(&mut self) -> Result<()> {
        if self.session.is_none() {
            self.session = Some(self.login(self.source, &self.luns[self.source])?);
        }
        let session = self.session.as_mut().context("a session")?;
        let stamp = self.stamp + 1;
        let (volume, lba) = place_of(stamp);
        let lun = self.luns[self.source][volume as usize];
        match perform(session, || write(lun, lba, stamp))? {
            Ending::Good(_) => {
                self.stamp = stamp;
                self.report.acknowledged += 1;
                Ok(())
            }
            other => bail!("a write ended with {other:?}"),
        }
    }

    fn login(&self, at: usize, luns: &[u16]) -> Result<Session> {
        login(&self.library, &self.arrays[at], INITIATOR, luns, 0)
    }
}

/// Starts an array with a listener for other arrays, in a new folder; returns the listener's address.
///
/// # Errors
/// If it does not start.
pub fn start(
    programs: &Programs,
    folder: &Path,
    drives: &Drives,
    core: Option<usize>,
) -> Result<(Array, SocketAddr)> {
    let [address] = free_addresses()?;
    std::fs::create_dir(folder)?;
    let listen = ["--replication".to_owned(), address.to_string()];
    let store = drives.arguments().into_iter().chain(listen).collect();
    Ok((Array::start_on(programs, folder, store, core)?, address))
}

/// Pairs two arrays; the first one names the other, at this address, [`TARGET`].
///
/// # Errors
/// If either refuses.
pub fn pair(first: &Array, second: &Array, there: &str) -> Result<()> {
    let key = second.cli(&["remote-array", "key"])?;
    let key = key["key"].as_str().context("a key")?;
    first.cli(&["remote-array", "pair", there, "--name", TARGET, "--key", key]).map(drop)
}

/// Volume and block of a write.
fn place_of(stamp: u64) -> (u64, u64) {
    let volumes = VOLUMES.len() as u64;
    let (volume, turn) = (stamp % volumes, stamp / volumes);
    // Not in order, so that changes are distributed over the maps.
    (volume, turn.wrapping_mul(389) % BLOCKS)
}

/// The last write of a block up to `newest`; zero if there is none.
fn newest_at(volume: u64, lba: u64, newest: u64) -> u64 {
    let cycle = VOLUMES.len() as u64 * BLOCKS;
    let from = newest.saturating_sub(cycle);
    (from..=newest).rev().find(|stamp| *stamp > 0 && place_of(*stamp) == (volume, lba)).unwrap_or_default()
}

fn perform(session: &mut Session, command: impl Fn() -> Command) -> Result<Ending> {
    loop {
        match session.perform(command())? {
            Ending::Status(BUSY) | Ending::Check { key: UNIT_ATTENTION, .. } => {}
            ending => return Ok(ending),
        }
    }
}

fn write(lun: u16, lba: u64, stamp: u64) -> Command {
    let mut data = vec![0; BLOCK_BYTES as usize];
    expand(stamp, &mut data);
    cdb::write(lun, lba, 1, false, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_write_of_each_block_is_known() {
        for newest in [0, 1, 500, 3 * BLOCKS + 17, 10 * BLOCKS] {
            let mut blocks = vec![[0; BLOCKS as usize]; VOLUMES.len()];
            for stamp in 1..=newest {
                let (volume, lba) = place_of(stamp);
                blocks[volume as usize][lba as usize] = stamp;
            }
            for (volume, lba) in [(0, 0), (1, 5), (2, BLOCKS - 1), place_of(newest)] {
                assert_eq!(newest_at(volume, lba, newest), blocks[volume as usize][lba as usize]);
            }
        }
    }
}
