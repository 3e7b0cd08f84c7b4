//! An array in a Ceph cluster that gets full: hosts get an error without waiting, no acknowledged write is lost, space
//! can be freed while it is full, and writes continue once there is space.

use crate::array::{Array, Programs};
use crate::cdb;
use crate::ceph::{Ceph, Pools};
use crate::content::Payload;
use crate::host::Content;
use crate::libiscsi::{Ending, Libiscsi, Session};
use crate::real;
use crate::scratch::Scratch;
use crate::target::{Shape, Target};
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::time::{Duration, Instant};

/// Cause of the full cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The quota of the pool.
    Quota,
    /// The storage daemons.
    Osds,
}

/// Results.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// MiB acknowledged before the array was full.
    pub written: u64,
    /// Maximum time of a command while the cluster is full.
    pub longest: Duration,
}

/// DATA PROTECT, and SPACE ALLOCATION FAILED WRITE PROTECT.
const NO_SPACE: Ending = Ending::Check { key: 7, code: 0x2707 };
const INITIATOR: &str = "iqn.2001-04.org.example:full";
const POOL: &str = "small";
const BLOCK_BYTES: u32 = 4096;
const WRITE_BLOCKS: u32 = 256;
const VOLUME: Shape = Shape { bytes: 4 << 30, block_bytes: BLOCK_BYTES };
/// MiB written before the cluster gets full.
const WRITTEN_BEFORE: u64 = 64;
/// Cluster statistics take some seconds to propagate.
const TIMEOUT: Duration = Duration::from_secs(120);

struct Host {
    session: Session,
    payload: Payload,
    /// Content of the volume in units of 1 MiB.
    written: Vec<Vec<u8>>,
    longest: Duration,
}

impl Host {
    /// Writes the next MiB; false if there is no space.
    fn write(&mut self) -> Result<bool> {
        let at = self.written.len() as u64 * u64::from(WRITE_BLOCKS);
        let data = self.payload.make(&Content::Random, (WRITE_BLOCKS * BLOCK_BYTES) as usize);
        match self.perform(cdb::write(1, at, WRITE_BLOCKS, false, data.clone()))? {
            Ending::Good(_) => self.written.push(data),
            ending if ending == NO_SPACE => return Ok(false),
            other => bail!("a write in a full cluster is answered with {other:?}"),
        }
        Ok(true)
    }

    fn perform(&mut self, command: crate::libiscsi::Command) -> Result<Ending> {
        let start = Instant::now();
        let ending = self.session.perform(command)?;
        self.longest = self.longest.max(start.elapsed());
        Ok(ending)
    }

    fn verify(&mut self) -> Result<()> {
        for (index, expected) in self.written.clone().iter().enumerate() {
            let at = index as u64 * u64::from(WRITE_BLOCKS);
            let Ending::Good(data) = self.perform(cdb::read(1, at, WRITE_BLOCKS, BLOCK_BYTES))? else {
                bail!("MiB {index} can't be read");
            };
            ensure!(data == *expected, "MiB {index} is not what was written");
        }
        Ok(())
    }
}

/// Runs the test in a folder below `parent`.
///
/// # Errors
/// The violation.
pub fn run(programs: &Programs, parent: &Path, ceph: &Ceph, cause: Cause) -> Result<Report> {
    let scratch = Scratch::new(parent, "full")?;
    let result = cases(programs, scratch.path(), ceph, cause);
    // In any case, restore the cluster.
    let emptied = fill(ceph, cause, false);
    emptied.and(scratch.end(result))
}

fn cases(programs: &Programs, folder: &Path, ceph: &Ceph, cause: Cause) -> Result<Report> {
    let namespace = format!("full-{cause:?}");
    let pools = Pools { conf: ceph.conf(), pools: POOL.into(), namespace, encrypt: false };
    let mut array = Array::start_on(programs, folder, pools.arguments(), None)?;
    array.fresh(&[VOLUME], &[INITIATOR])?;
    let mut host = Host {
        session: login(&array)?,
        payload: Payload::default(),
        written: Vec::new(),
        longest: Duration::ZERO,
    };
    for _ in 0..WRITTEN_BEFORE {
        ensure!(host.write()?, "the array is full before the cluster is");
    }
    fill(ceph, cause, true)?;
    host.longest = Duration::ZERO;
    let mut report = Report::default();
    let start = Instant::now();
    while host.write()? {
        ensure!(start.elapsed() < TIMEOUT, "the cluster is full, and the array still writes");
        ensure!(host.written.len() < 4000, "the volume is full before the array is");
    }
    report.written = host.written.len() as u64;
    host.verify().context("while it is full")?;
    // Freeing space is a write, too.
    let half = host.written.len() as u64 / 2;
    let blocks = half as u32 * WRITE_BLOCKS;
    let freed = host.perform(cdb::unmap(1, &[(0, blocks)]))?;
    ensure!(matches!(freed, Ending::Good(_)), "UNMAP in a full cluster is answered with {freed:?}");
    host.written[..half as usize].iter_mut().for_each(|data| data.fill(0));
    // The array must also start in a full cluster.
    array.kill()?;
    array.restart().context("a restart while it is full")?;
    host.session = login(&array)?;
    host.verify().context("after a restart while it is full")?;
    report.longest = host.longest;
    fill(ceph, cause, false)?;
    let start = Instant::now();
    while !host.write()? {
        ensure!(start.elapsed() < TIMEOUT, "there is space again, and the array does not notice");
        std::thread::sleep(Duration::from_millis(100));
    }
    for _ in 0..WRITTEN_BEFORE / 2 {
        ensure!(host.write()?, "the array is full again");
    }
    host.verify().context("with space again")?;
    drop(host);
    array.stop()?;
    array.check()?;
    Ok(report)
}

fn login(array: &Array) -> Result<Session> {
    real::login(&Libiscsi::load()?, array, INITIATOR, &[1], 0)
}

/// Fills the cluster at once, as other clients could, or frees space.
fn fill(ceph: &Ceph, cause: Cause, full: bool) -> Result<()> {
    match cause {
        Cause::Quota => {
            let bytes = if full { "1048576" } else { "0" };
            ceph.ceph(&["osd", "pool", "set-quota", POOL, "max_bytes", bytes])?;
        }
        Cause::Osds => {
            let ratio = if full { "0.001" } else { "0.95" };
            ceph.ceph(&["osd", "set-full-ratio", ratio])?;
        }
    }
    Ok(())
}
