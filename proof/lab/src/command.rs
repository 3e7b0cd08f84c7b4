//! Subcommands of the lab, the same for `cargo xtask lab` and `ashlar-lab`.

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

/// Subcommands of the lab.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// Compare the host model with calculated results, on an ideal array in memory and in virtual time
    Calibrate,
    /// Replay published workloads, and write a report: published, measured, peer
    Run(RunArgs),
    /// List the workloads
    List,
    /// Check that one order of commands explains the results of several hosts on the same blocks, by iSCSI and NVMe/TCP
    Check(CheckArgs),
}

/// Target and length of a check.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// A running target instead of a new array: iscsi://PORTAL[,PORTAL…]/NAME/LUN[,LUN…]
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
    /// Allow overwriting the data on the LUNs of --target
    #[arg(long)]
    destroy_data: bool,
    /// Check tgt instead of an array
    #[arg(long, conflicts_with = "kills")]
    tgt: bool,
    /// Kill the array before each check, with commands of all hosts in flight
    #[arg(long)]
    kills: bool,
    /// Number of checks
    #[arg(long, default_value_t = 10)]
    rounds: u64,
    /// Commands before each check
    #[arg(long, default_value_t = 10_000)]
    commands: u64,
    /// Seed of a run to repeat, as far as the target's timing allows; from the clock by default
    #[arg(long)]
    seed: Option<u64>,
    /// Do not use reservations
    #[arg(long)]
    no_reservations: bool,
    /// Plant a stale cache on every path: the run succeeds if it is found
    #[arg(long)]
    plant: bool,
}

impl CheckArgs {
    /// Runs the check; see [`Verb::perform`].
    ///
    /// # Errors
    /// The fault found.
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

/// Part of `cargo xtask test`: the calibration, the block checker with and without a planted fault, and a few seconds
/// of workloads whose figures do not depend on timing.
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

/// Prints the result of a check, and fails if another result was expected.
///
/// # Errors
/// The fault found, or that a planted one was not.
pub fn checked(found: Result<check::Report>, amount: Amount) -> Result<()> {
    if !amount.plant {
        println!("{}", found?);
        return Ok(());
    }
    let why = found.err().context("the stale cache that was planted is not found")?;
    println!("found, as it should be: {why:#}");
    Ok(())
}

/// Workloads and their target.
#[derive(clap::Args, Default)]
pub struct RunArgs {
    /// Workloads by name, or files that end with .toml
    #[arg(required_unless_present = "all")]
    workload: Vec<String>,
    /// Run all workloads
    #[arg(long, conflicts_with = "workload")]
    pub all: bool,
    /// Run briefly and once: a function check, not a measurement
    #[arg(long)]
    pub quick: bool,
    /// Folder for results.json, figures.csv, figures.md, values.csv, report.html and the folder esxtop
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Figures measured elsewhere, for the same report: a file as described in docs/lab.md
    #[arg(long, value_name = "FILE")]
    pub with: Vec<PathBuf>,
    /// A running array instead of a new one: iscsi://PORTAL[,PORTAL…]/NAME/LUN[,LUN…]
    #[arg(long, requires = "destroy_data")]
    pub target: Option<Foreign>,
    /// Allow overwriting the data on the LUNs of --target
    #[arg(long, requires = "target")]
    destroy_data: bool,
    /// Runs of each step, instead of the workload's number; the median counts
    #[arg(long)]
    repeats: Option<usize>,
    /// Do not run tgt as the peer
    #[arg(long)]
    alone: bool,
    /// The core of targets, if there are two: hosts use the others
    #[arg(long, default_value_t = 0)]
    target_core: usize,
    /// Fail if a goal is not reached
    #[arg(long)]
    check: bool,
}

impl Verb {
    /// Runs the subcommand. Files of targets are in a folder below `scratch`, on the disk to use; `programs` returns
    /// the array's programs when they are needed.
    pub fn perform(&self, scratch: &Path, programs: impl FnOnce() -> Result<Programs>) -> Result<()> {
        match self {
            Verb::Calibrate => calibrate(),
            Verb::Run(args) => args.run(scratch, programs),
            Verb::List => list(),
            Verb::Check(args) => args.run(scratch, programs),
        }
    }
}

/// Prints the workloads.
pub fn list() -> Result<()> {
    for name in workload::names() {
        let workload = Workload::find(name)?;
        println!("{:<6}{name:<24}{}", workload.row, workload.title);
    }
    Ok(())
}

impl RunArgs {
    /// Runs the workloads; see [`Verb::perform`].
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
            // Keep completed results, even if later workloads fail.
            report::write(&results, &self.out)?;
        }
        print!("{}{}", report::table(&results), report::cases(&results.real));
        println!("{}", self.out.join("report.html").display());
        self.verdict(&results)
    }

    /// Figures measured elsewhere.
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

    /// Fails if a step failed on the measured array, or on request if a goal is missed.
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

/// Description of this machine, in one sentence.
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

/// Prints every check of the host model, and fails if one deviates by more than [`TOLERANCE`].
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
