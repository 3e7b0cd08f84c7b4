//! The verbs of the lab, the same for `cargo xtask lab` and for `ashlar-lab`.

use crate::array::Programs;
use crate::bench::leave_core;
use crate::check::{self, Amount};
use crate::crash;
use crate::figures::{self, Case};
use crate::foreign::{Foreign, ForeignNvme};
use crate::ideal::{self, TOLERANCE};
use crate::report::{self, Results};
use crate::run::{self, Options};
use crate::workload::{self, Workload};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// What the lab can do.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// The host model against an ideal array in memory, in virtual time: what is found must be what was calculated
    Calibrate,
    /// Replay published workloads, and write a report: published, measured, peer
    Run(RunArgs),
    /// The workloads that there are
    List,
    /// Check what several hosts see of the same blocks by iSCSI and NVMe/TCP: one order of their commands must explain it
    Check(CheckArgs),
}

/// What is checked, and how long.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// Another target instead of an array that is started: iscsi://PORTAL[,PORTAL…]/NAME/LUN[,LUN…]
    #[arg(long, requires = "destroy_data", conflicts_with_all = ["tgt", "kills"])]
    target: Option<Foreign>,
    /// The same volumes in the same order: nvme://PORTAL[,PORTAL…]/NQN/NSID[,NSID…]
    #[arg(long, requires = "target")]
    nvme: Option<ForeignNvme>,
    /// With --target: initiators that may log in
    #[arg(long, value_name = "IQN", default_values = ["iqn.2001-04.org.example:check0", "iqn.2001-04.org.example:check1"])]
    initiator: Vec<String>,
    /// With --nvme: hosts that may connect
    #[arg(long, value_name = "NQN", default_values = ["nqn.2001-04.org.example:check0"])]
    host: Vec<String>,
    /// What is on the LUNs of --target may be lost
    #[arg(long)]
    destroy_data: bool,
    /// tgt instead of an array
    #[arg(long, conflicts_with = "kills")]
    tgt: bool,
    /// Kill the array before each check, with commands of all hosts in flight
    #[arg(long)]
    kills: bool,
    /// Checks
    #[arg(long, default_value_t = 10)]
    rounds: u64,
    /// Commands before each check
    #[arg(long, default_value_t = 10_000)]
    commands: u64,
    /// Replays a run, as far as the target's timing allows; without it the clock is used
    #[arg(long)]
    seed: Option<u64>,
    /// Without reservations
    #[arg(long)]
    no_reservations: bool,
    /// Plant a stale cache on every path: the run succeeds if it is found
    #[arg(long)]
    plant: bool,
}

impl CheckArgs {
    /// Runs it; see [`Verb::perform`].
    ///
    /// # Errors
    /// What the target did wrong.
    pub fn run(&self, scratch: &Path, programs: impl FnOnce() -> Result<Programs>) -> Result<()> {
        let seed = self.seed.unwrap_or_else(crash::new_seed);
        let (rounds, answers) = (self.rounds, self.commands);
        let (reservations, plant) = (!self.no_reservations, self.plant);
        let amount = Amount { seed, rounds, answers, reservations, plant };
        println!("check: {rounds} times {answers} commands, seed {seed}");
        let found = match &self.target {
            Some(target) => {
                let nvme = self.nvme.as_ref().map(|nvme| (nvme, self.host.clone()));
                check::on_foreign((target, self.initiator.clone()), nvme, amount)
            }
            None if self.tgt => check::on_tgt(scratch, amount),
            None => check::on_own(&programs()?, scratch, amount, self.kills),
        };
        checked(found, amount)
    }
}

/// What `cargo xtask test` runs: the calibration, the block checker with and without a planted fault, and a few seconds of workloads
/// whose figures don't depend on timing.
pub fn short(scratch: &Path, programs: impl FnOnce() -> Result<Programs>) -> Result<()> {
    calibrate()?;
    let programs = programs()?;
    for plant in [false, true] {
        let amount = Amount { seed: crash::new_seed(), rounds: 2, answers: 3000, reservations: true, plant };
        checked(check::on_own(&programs, scratch, amount, false), amount)?;
    }
    let workload = ["quota", "unmap-accounting"].map(str::to_owned).to_vec();
    let out = scratch.join("lab");
    let args = RunArgs { workload, quick: true, out, alone: true, check: true, ..RunArgs::default() };
    args.run(scratch, || Ok(programs))
}

/// Prints how a check ended, and fails if it should have ended otherwise.
fn checked(found: Result<check::Report>, amount: Amount) -> Result<()> {
    if !amount.plant {
        println!("{}", found?);
        return Ok(());
    }
    let why = found.err().context("the stale cache that was planted is not found")?;
    println!("found, as it should be: {why:#}");
    Ok(())
}

/// What to run on what.
#[derive(clap::Args, Default)]
pub struct RunArgs {
    /// Workloads by name, or files that end with .toml
    #[arg(required_unless_present = "all")]
    workload: Vec<String>,
    /// Every workload that there is
    #[arg(long, conflicts_with = "workload")]
    pub all: bool,
    /// Short and once: shows that everything works, measures nothing
    #[arg(long)]
    pub quick: bool,
    /// Where results.json, figures.csv, figures.md, values.csv, report.html and the folder esxtop go
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Figures that were measured elsewhere, for the same report: a file as docs/lab.md describes it
    #[arg(long, value_name = "FILE")]
    pub with: Vec<PathBuf>,
    /// Another array instead of one that is started for it: iscsi://PORTAL[,PORTAL…]/NAME/LUN[,LUN…]
    #[arg(long, requires = "destroy_data")]
    pub target: Option<Foreign>,
    /// What is on the LUNs of --target may be lost
    #[arg(long, requires = "target")]
    destroy_data: bool,
    /// Runs of each step, when not those that the workload names; the median counts
    #[arg(long)]
    repeats: Option<usize>,
    /// Without tgt as the peer
    #[arg(long)]
    alone: bool,
    /// The core that targets run on, when there are two: the hosts take the others
    #[arg(long, default_value_t = 0)]
    target_core: usize,
    /// Fail when a figure that is aimed at is not reached
    #[arg(long)]
    check: bool,
}

impl Verb {
    /// Does it. Targets have their files in a folder below `scratch`, which is on the disk to be used; `programs` is
    /// asked for the array's programs when they are needed.
    pub fn perform(&self, scratch: &Path, programs: impl FnOnce() -> Result<Programs>) -> Result<()> {
        match self {
            Verb::Calibrate => calibrate(),
            Verb::Run(args) => args.run(scratch, programs),
            Verb::List => list(),
            Verb::Check(args) => args.run(scratch, programs),
        }
    }
}

/// Prints the workloads that there are.
pub fn list() -> Result<()> {
    for name in workload::names() {
        let workload = Workload::find(name)?;
        println!("{:<6}{name:<24}{}", workload.row, workload.title);
    }
    Ok(())
}

impl RunArgs {
    /// Runs them; see [`Verb::perform`].
    pub fn run(&self, scratch: &Path, programs: impl FnOnce() -> Result<Programs>) -> Result<()> {
        let names: Vec<_> = match self.all {
            true => workload::names().map(str::to_owned).collect(),
            false => self.workload.clone(),
        };
        let workloads = names.iter().map(|name| Workload::find(name)).collect::<Result<Vec<_>>>()?;
        let real = self.real()?;
        let machine = machine();
        let several = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        let target_core = (several && self.target.is_none()).then_some(self.target_core);
        if let Some(core) = target_core {
            leave_core(core)?;
        }
        let options = Options { quick: self.quick, repeats: self.repeats, alone: self.alone, target_core };
        let programs = if self.target.is_none() { Some(programs()?) } else { None };
        let peer = (programs.is_some() && !self.alone).then_some("tgt");
        let mut results = Results { machine, peer, quick: self.quick, workloads: Vec::new(), real };
        for workload in &workloads {
            eprintln!("{} {}", workload.row, workload.title);
            let report = match (&self.target, &programs) {
                (Some(target), _) => run::on_foreign(workload, target, &self.out, &options),
                (None, Some(programs)) => run::on_own(workload, programs, scratch, &self.out, &options),
                (None, None) => bail!("neither a target nor programs to start one"),
            };
            results.workloads.push(report.with_context(|| workload.name.clone())?);
            // What is done stays, whatever becomes of the rest.
            report::write(&results, &self.out)?;
        }
        print!("{}{}", report::table(&results), report::cases(&results.real));
        println!("{}", self.out.join("report.html").display());
        self.verdict(&results)
    }

    /// What was measured elsewhere.
    pub fn real(&self) -> Result<Vec<Case>> {
        let mut real: Vec<Case> = Vec::new();
        for path in &self.with {
            for case in figures::read(path)? {
                ensure!(
                    real.iter().all(|other| other.name != case.name),
                    "{} is handed over twice",
                    case.name
                );
                real.push(case);
            }
        }
        Ok(real)
    }

    /// Fails when a step failed on what is measured, or on demand when a figure is not reached.
    fn verdict(&self, results: &Results) -> Result<()> {
        let steps = results.workloads.iter().flat_map(|report| &report.steps);
        let failed = steps.filter(|step| step.target != "tgt" && step.failed.is_some()).count();
        ensure!(failed == 0, "{failed} steps failed");
        let failed = results.real.iter().filter(|case| case.failed.is_some());
        let names: Vec<_> = failed.map(|case| case.name.as_str()).collect();
        ensure!(names.is_empty(), "failed: {}", names.join(", "));
        let missed = results.figures().filter(|figure| figure.reached == Some(false)).count();
        ensure!(!self.check || missed == 0, "{missed} figures are not reached");
        Ok(())
    }
}

/// What this machine is, in a sentence.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    let model = model.map_or("unknown processor", |(_, model)| model);
    format!(
        "{cores} cores of {model}, load average {load} at the beginning; targets on one core, hosts on the others."
    )
}

/// Prints every check of the host model, and fails when one is further off than [`TOLERANCE`].
pub fn calibrate() -> Result<()> {
    let checks = ideal::calibrate();
    println!("{:<60}{:>14}{:>14}{:>11}  unit", "check", "expected", "measured", "deviation");
    for check in &checks {
        println!(
            "{:<60}{:>14.3}{:>14.3}{:>+10.2}%  {}",
            check.name,
            check.expected,
            check.found,
            check.deviation() * 100.0,
            check.unit
        );
    }
    let missed = checks.iter().filter(|check| check.misses()).count();
    println!("{} checks, {missed} further off than {:.0} %", checks.len(), TOLERANCE * 100.0);
    ensure!(missed == 0, "{missed} checks missed what was calculated");
    Ok(())
}
