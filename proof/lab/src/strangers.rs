//! Attacks by unauthenticated clients at every listener: they hold connections, send byte by byte, flood, claim wrong
//! lengths, stop half-way, guess credentials, reconnect and send garbage, while authenticated clients must be served.
//!
//! A row is a listener and an attack. After each attack, while its connections are open: memory is within its bound,
//! the log has few lines, earlier sessions still respond, and a known client of every listener is admitted. At the end
//! the process ends on SIGTERM while attackers are connected. The short form counts; the long form also repeats each
//! attack for a time and compares the latency of a host with a quiet phase of the same run. All traffic is on the
//! loopback interface.

mod attack;
mod known;
mod servers;

use crate::array::{Array, Drives, Programs};
use crate::ceph::Pools;
use crate::pair::Pair;
use crate::replication;
use crate::scratch::Scratch;
use crate::stats::Latencies;
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use attack::{ATTACKS, Attack, Door};
use known::{Clients, Front, Known};
use servers::Visitor;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use servers::ServerPrograms;

/// Maximum growth of the process's resident memory over all rows, in bytes. Unproven connections are limited to about a
/// third of it; the rest is for password hashing and memory kept by the allocator.
const MAX_GROWTH_BYTES: u64 = 160 << 20;
/// Maximum number of log lines of a row, plus the number per second. A row causes at least hundreds of refusals.
const MAX_LINES: usize = 200;
const MAX_LINES_PER_SECOND: usize = 10;
/// Maximum latency of a host relative to the quiet phase, and the latency accepted in any case, in µs.
const MAX_SLOWDOWN: f64 = 2.0;
const FAST_US: f64 = 1000.0;
/// Attacking threads in the long form.
const THREADS: usize = 2;

/// Parameters of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only rows whose name contains this.
    pub only: String,
    /// Time for which each attack is repeated while a host is measured; `None`: once, without measuring.
    pub time: Option<Duration>,
    /// Seed of random data.
    pub seed: u64,
    /// The servers that are put beside an array, if they could be built.
    pub servers: Option<ServerPrograms>,
}

/// A process with listeners.
struct Attacked {
    pid: u32,
    log: PathBuf,
    /// Resident memory before the first attack.
    baseline: u64,
    doors: Vec<Door>,
}

/// Results of a row.
struct Row {
    name: String,
    connections: usize,
    lines: usize,
    growth_bytes: u64,
    p99_us: Option<f64>,
}

/// Runs every row on an array in a folder below `parent`; the first violation ends the run.
///
/// # Errors
/// The effect of an attack.
pub fn run(programs: &Programs, parent: &Path, options: &Options) -> Result<()> {
    let scratch = Scratch::new(parent, "strangers")?;
    let outcome = run_in(programs, scratch.path(), options);
    scratch.end(outcome)
}

fn run_in(programs: &Programs, folder: &Path, options: &Options) -> Result<()> {
    let drives = Drives { count: 4, bytes: 256 << 20 };
    let home = folder.join("array");
    let (mut array, links) = replication::start(programs, &home, &drives, None)?;
    array.stop()?;
    let [nvme, _] = array.serve_nvme()?;
    array.restart()?;
    let (mut peer, _) = replication::start(programs, &folder.join("peer"), &drives, None)?;
    let mut known = Known::new(&array, &peer, (nvme, links))?;
    let attacked = Attacked::new(array.pid()?, home.join("ashlard.log"), doors(&array, (nvme, links))?)?;
    let mut held = attacked.rows(&mut known, options)?;
    array.check_alive()?;
    if let Some(programs) = &options.servers {
        for server in servers::start(programs, &home, folder)? {
            let mut visitor = Visitor { known: &mut known, server };
            let server = &visitor.server;
            let attacked = Attacked::new(server.pid(), server.log.clone(), vec![server.door()])?;
            drop(attacked.rows(&mut visitor, options)?);
            visitor.server.stop()?;
        }
    }
    // Attackers at every listener do not prevent the end of the process.
    for door in &attacked.doors {
        held.extend((0..64).filter_map(|_| TcpStream::connect(door.address).ok()));
    }
    array.stop().context("SIGTERM while strangers are connected")?;
    array.check()?;
    peer.stop()
}

/// Runs every row at the link of the home of two controllers that share an array in Ceph, as [`run`] does. Only the home
/// accepts connections there.
///
/// # Errors
/// The effect of an attack.
pub fn run_controllers(programs: &Programs, parent: &Path, place: &Pools, options: &Options) -> Result<()> {
    let scratch = Scratch::new(parent, "strangers-controllers")?;
    let outcome = (|| {
        let mut pair = Pair::start(programs, scratch.path(), place)?;
        let mut front = Front::new(&mut pair)?;
        let (pid, log) = (pair.pid()?, scratch.path().join("a/ashlard.log"));
        let door = attack::links("link of controllers", pair.link());
        let _held = Attacked::new(pid, log, vec![door])?.rows(&mut front, options)?;
        pair.stop().context("SIGTERM while strangers are connected")
    })();
    scratch.end(outcome)
}

impl Attacked {
    fn new(pid: u32, log: PathBuf, doors: Vec<Door>) -> Result<Self> {
        Ok(Self { baseline: resident_bytes(pid)?, pid, log, doors })
    }

    fn lines_logged(&self) -> Result<usize> {
        let log = std::fs::read(&self.log).context("no log")?;
        Ok(log.iter().filter(|byte| **byte == b'\n').count())
    }

    /// Runs the rows; returns the open connections of the last one.
    fn rows(&self, known: &mut dyn Clients, options: &Options) -> Result<Vec<TcpStream>> {
        known.are_served().context("before the first row")?;
        let quiet_us = match options.time {
            Some(time) => Some(known.waits(time)?.at(0.99)),
            None => None,
        };
        let mut held = Vec::new();
        for door in &self.doors {
            for attack in ATTACKS {
                let name = format!("{} / {}", door.name, attack.name);
                if !name.contains(&options.only) {
                    continue;
                }
                held.clear();
                let (row, open) = self.row(known, (door, attack), options).context(name)?;
                held.extend(open);
                println!("{}", row.text(quiet_us));
                row.check_waits(quiet_us)?;
            }
        }
        Ok(held)
    }

    /// Runs one attack on one listener. Returns its open connections.
    fn row(
        &self,
        known: &mut dyn Clients,
        (door, attack): (&Door, &Attack),
        options: &Options,
    ) -> Result<(Row, Vec<TcpStream>)> {
        let (begun, lines_before) = (Instant::now(), self.lines_logged()?);
        let mut p99_us = None;
        if let Some(time) = options.time {
            p99_us = Some(measured(known, (door, attack), options.seed, time)?);
        }
        let held = (attack.run)(door, options.seed);
        known.are_served()?;
        let lines = self.lines_logged()? - lines_before;
        let allowed = MAX_LINES + MAX_LINES_PER_SECOND * usize::try_from(begun.elapsed().as_secs())?;
        ensure!(lines <= allowed, "{lines} lines in the log, where {allowed} are allowed");
        let growth_bytes = resident_bytes(self.pid)?.saturating_sub(self.baseline);
        ensure!(
            growth_bytes <= MAX_GROWTH_BYTES,
            "the memory of the process grew by {} MiB",
            growth_bytes >> 20
        );
        let name = format!("{} / {}", door.name, attack.name);
        Ok((Row { name, connections: held.len(), lines, growth_bytes, p99_us }, held))
    }
}

/// Latency of a host while an attack is repeated, at the 99th percentile in µs.
fn measured(
    known: &mut dyn Clients,
    (door, attack): (&Door, &Attack),
    seed: u64,
    time: Duration,
) -> Result<f64> {
    let is_over = AtomicBool::new(false);
    let waits: Result<Latencies> = std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut seed = seed.wrapping_add(thread as u64);
                while !is_over.load(Ordering::Relaxed) {
                    drop((attack.run)(door, seed));
                    seed = seed.wrapping_add(THREADS as u64);
                }
            });
        }
        let waits = known.waits(time);
        is_over.store(true, Ordering::Relaxed);
        waits
    });
    Ok(waits?.at(0.99))
}

impl Row {
    fn text(&self, quiet_us: Option<f64>) -> String {
        let Self { name, connections, lines, growth_bytes, p99_us } = self;
        let waits = match (p99_us, quiet_us) {
            (Some(p99), Some(quiet)) => format!(", a host's p99 {p99:.0} µs after {quiet:.0} µs"),
            _ => String::new(),
        };
        let mib = growth_bytes >> 20;
        format!("{name:<36} {connections:>4} held, {lines:>3} lines, {mib:>3} MiB more{waits}")
    }

    fn check_waits(&self, quiet_us: Option<f64>) -> Result<()> {
        let (Some(p99), Some(quiet)) = (self.p99_us, quiet_us) else { return Ok(()) };
        let allowed = (quiet * MAX_SLOWDOWN).max(FAST_US);
        ensure!(p99 <= allowed, "{}: a host waits {p99:.0} µs, where {allowed:.0} are allowed", self.name);
        Ok(())
    }
}

/// The resident memory of a process.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib << 10)
}

/// Every listener of the array.
fn doors(array: &Array, (nvme, links): (SocketAddr, SocketAddr)) -> Result<Vec<Door>> {
    let iscsi = *array.portals().first().context("a portal")?;
    let status = array.cli(&["array", "status"])?;
    let subsystem = status["subsystem_nqn"].as_str().context("array status without subsystem_nqn")?;
    Ok(vec![
        attack::iscsi(iscsi, array.iqn()),
        attack::nvme(nvme, subsystem),
        attack::api(array.api_address()),
        attack::links("link of arrays", links),
    ])
}
