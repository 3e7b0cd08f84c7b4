//! Benchmark of the array against other targets: the same loads on the same disk, alternately, as ratios.

use crate::array::{Array, Drives, Programs};
use crate::load::{self, Content, Direction, INITIATOR, LOGICAL_BLOCK_BYTES, Load, Measure, Order, Until};
use crate::nvme::{self, Controller};
use crate::perf;
use crate::scratch::Scratch;
use crate::spdk::{self, Spdk};
use crate::stats;
use crate::target::{Shape, Target};
use crate::tgt::{BackingStore, Tgt};
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// Parameters of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Time of each run.
    pub time: Duration,
    /// Runs of each load on each target; the median is used.
    pub rounds: usize,
    /// Content of writes.
    pub content: Content,
    /// Bytes of the volume in use.
    pub span: u64,
    /// Core of the target; the client uses the other one.
    pub target_core: usize,
    /// Core of the client.
    pub client_core: usize,
}

/// Results of one load on all targets.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the load.
    pub name: String,
    /// The load.
    pub load: Load,
    /// The array.
    pub ours: Measured,
    /// Results of the other targets, tgt first, which is not durable.
    pub peers: Vec<Measured>,
}

/// Results of one load on one target.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Name of the target.
    pub target: &'static str,
    /// Each round.
    pub rounds: Vec<Measure>,
    /// Medians of the rounds.
    pub median: Measure,
}

/// The program that generates the load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Ours,
    /// libiscsi's client, as a cross-check of ours.
    IscsiPerf,
}

/// The loads, in order of execution: random 4 KiB at depth 32, sequential 64 KiB, and one 4 KiB command at a time, from
/// one session and from four. Sequential reads run before and after the random writes: a log stores randomly written
/// data in another order than a disk.
pub(crate) fn loads(options: Options) -> Vec<(String, Load, Client)> {
    use Direction::{Read, Write};
    let (random, sequential) = ("4K random, depth 32", "64K sequential, depth 8");
    let shapes = [
        (format!("{sequential} read"), Read, Order::Sequential, 65536, 8),
        (format!("{random} read"), Read, Order::Random, 4096, 32),
        (format!("{random} write"), Write, Order::Random, 4096, 32),
        (format!("{sequential} read after random writes"), Read, Order::Sequential, 65536, 8),
        (format!("{sequential} write"), Write, Order::Sequential, 65536, 8),
        ("4K random, depth 1 read".into(), Read, Order::Random, 4096, 1),
        ("4K random, depth 1 write".into(), Write, Order::Random, 4096, 1),
    ];
    let mut loads = Vec::new();
    for (name, direction, order, bytes, depth) in shapes {
        for sessions in [1, 4] {
            if depth == 1 && sessions > 1 {
                continue;
            }
            let (content, span) = (options.content, options.span);
            let load = Load { direction, order, bytes, depth, sessions, content, span };
            let plural = if sessions == 1 { "1 session" } else { "4 sessions" };
            loads.push((format!("{name}, {plural}"), load, Client::Ours));
            if direction == Read && depth == 32 && sessions == 1 {
                loads.push((format!("{name}, iscsi-perf"), load, Client::IscsiPerf));
            }
        }
    }
    loads
}

/// Measures the loads whose names contain `only`, alternating between targets, in a folder below `parent` on the disk
/// to use.
pub fn run(programs: &Programs, parent: &Path, options: Options, only: &str) -> Result<Vec<Row>> {
    pin(options.client_core)?;
    let scratch = Scratch::new(parent, "bench")?;
    let folder = |name: &str| {
        let path = scratch.path().join(name);
        std::fs::create_dir_all(&path)
            .map(|()| path)
            .with_context(|| format!("can't make a folder for {name}"))
    };
    let core = Some(options.target_core);
    let mut targets: Vec<Box<dyn Target>> = vec![
        Box::new(array(programs, &folder("ashlar")?, core)?),
        Box::new(Tgt::new(&folder("tgt")?, BackingStore::DirectAio, core)?),
        Box::new(Tgt::new(&folder("tgt-durable")?, BackingStore::Durable, core)?),
    ];
    if Spdk::is_installed() {
        for (name, bdev) in [("spdk-memory", spdk::Bdev::Memory), ("spdk-file", spdk::Bdev::File)] {
            targets.push(Box::new(Spdk::new(&folder(name)?, bdev, core)?));
        }
    }
    // The volume has the size of the used part, since not every client can be limited to a part.
    let shape = Shape { bytes: options.span, block_bytes: LOGICAL_BLOCK_BYTES };
    let mut luns = Vec::new();
    for target in &mut targets {
        let lun = *target.fresh(&[shape], &[INITIATOR])?.first().context("a LUN")?;
        fill(&**target, lun, options)?;
        target.rest(true)?;
        luns.push(lun);
    }
    let mut rows = Vec::new();
    for (name, load, client) in loads(options).into_iter().filter(|(name, ..)| name.contains(only)) {
        let mut rounds = vec![Vec::new(); targets.len()];
        let run = |target: &dyn Target, lun: u16| {
            target.rest(false)?;
            let measure = match client {
                Client::Ours => load::run(target, lun, load, Until::Time(options.time)),
                Client::IscsiPerf => perf::run(target, lun, load, options.time),
            };
            target.rest(true)?;
            measure.with_context(|| format!("{name} on {}", target.name()))
        };
        for _ in 0..options.rounds {
            for ((target, lun), rounds) in targets.iter().zip(&luns).zip(&mut rounds) {
                rounds.push(run(&**target, *lun)?);
            }
        }
        let mut measured =
            targets.iter().zip(rounds).map(|(target, rounds)| Measured::of(target.name(), rounds));
        let ours = measured.next().context("the array")?;
        let peers: Vec<_> = measured.collect();
        eprintln!("{name}: {:.1?}", ours.median);
        peers.iter().for_each(|peer| eprintln!("  {}: {:.1?}", peer.target, peer.median));
        rows.push(Row { name, load, ours, peers });
    }
    Ok(rows)
}

/// Measures the loads whose names contain `only` alternately over NVMe/TCP and iSCSI, on two volumes of one array in a
/// folder below `parent`.
pub fn run_nvme(programs: &Programs, parent: &Path, options: Options, only: &str) -> Result<Vec<Row>> {
    pin(options.client_core)?;
    let scratch = Scratch::new(parent, "bench-nvme")?;
    let mut array = array(programs, scratch.path(), Some(options.target_core))?;
    array.stop()?;
    let [portal, _] = array.serve_nvme()?;
    array.restart()?;
    let shape = Shape { bytes: options.span, block_bytes: LOGICAL_BLOCK_BYTES };
    let lun = *array.fresh(&[shape], &[INITIATOR])?.first().context("a LUN")?;
    array.cli(&["host", "create", "nvme", "--nqn", HOST_NQN])?;
    array.add_volume("nvme", shape)?;
    array.connect("nvme", "nvme", 1)?;
    let status = array.cli(&["array", "status"])?;
    let subsystem = status["subsystem_nqn"].as_str().context("array status without subsystem_nqn")?;
    let names = nvme::Names { portal, host: HOST_NQN, subsystem };
    fill(&array, lun, options)?;
    over_nvme(&array, names, filling(options), Until::Covered)?;
    let mut rows = Vec::new();
    let loads = loads(options).into_iter().filter(|(_, _, client)| *client == Client::Ours);
    for (name, load, _) in loads.filter(|(name, ..)| name.contains(only)) {
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            let until = Until::Time(options.time);
            ours.push(over_nvme(&array, names, load, until).with_context(|| format!("{name} by NVMe"))?);
            peer.push(load::run(&array, lun, load, until).with_context(|| format!("{name} by iSCSI"))?);
        }
        let (ours, peer) = (Measured::of("NVMe", ours), Measured::of("iSCSI", peer));
        eprintln!("{name}: {:.1?}\n  iSCSI: {:.1?}", ours.median, peer.median);
        rows.push(Row { name, load, ours, peers: vec![peer] });
    }
    Ok(rows)
}

/// The host of [`run_nvme`].
const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:6c6f6164-206f-6620-7468-65206c61622e";

/// Runs a load over several I/O queues of one controller, one for each session.
fn over_nvme(array: &Array, names: nvme::Names, load: Load, until: Until) -> Result<Measure> {
    let controller = Controller::connect(names, load.sessions)?;
    load::run_over(array.pid()?, load, until, |number, payload| {
        Ok(Box::new(controller.queue(names, number + 1, payload)?))
    })
}

impl Measured {
    fn of(target: &'static str, rounds: Vec<Measure>) -> Self {
        let median = median(&rounds);
        Self { target, rounds, median }
    }
}

/// An array of four drives on fully allocated files: allocating is work of the file system, not of a drive. The file of
/// another target is allocated by filling it once, but the array always writes to new locations.
pub(crate) fn array(programs: &Programs, folder: &Path, core: Option<usize>) -> Result<Array> {
    let drives = Drives { count: 4, bytes: 2 << 30 };
    drives.write_over(folder)?;
    Array::start(programs, folder, drives, core)
}

/// Writes the whole volume once, so that no read hits unwritten blocks.
pub(crate) fn fill(target: &dyn Target, lun: u16, options: Options) -> Result<()> {
    load::run(target, lun, filling(options), Until::Covered).map(drop)
}

fn filling(options: Options) -> Load {
    let (direction, order) = (Direction::Write, Order::Sequential);
    let (content, span) = (options.content, options.span);
    Load { direction, order, bytes: 65536, depth: 8, sessions: 1, content, span }
}

fn median(measures: &[Measure]) -> Measure {
    let middle = |value: fn(&Measure) -> f64| {
        stats::middle(measures.iter().map(value)).map_or(f64::NAN, |middle| middle.median)
    };
    Measure {
        count: middle(|it| it.count),
        iops: middle(|it| it.iops),
        cpu_us: middle(|it| it.cpu_us),
        p50_us: middle(|it| it.p50_us),
        p99_us: middle(|it| it.p99_us),
        max_us: middle(|it| it.max_us),
    }
}

/// Pins this process to one core.
pub(crate) fn pin(core: usize) -> Result<()> {
    keep_to([core])
}

/// Excludes a core for this process.
pub fn leave_core(core: usize) -> Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    keep_to((0..cores).filter(|other| *other != core))
}

fn keep_to(cores: impl IntoIterator<Item = usize>) -> Result<()> {
    // SAFETY: the set is plain data, initialised by CPU_ZERO, and lives through the call.
    let result = unsafe {
        let mut set = std::mem::zeroed();
        libc::CPU_ZERO(&mut set);
        cores.into_iter().for_each(|core| libc::CPU_SET(core, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).context("no such core to run on"),
    }
}
