//! Runs workloads on an array and on its peer alternately: every target for each repeat, every step for each target, so
//! that other load on the machine affects all of them.

use crate::array::{Array, Drives, Programs};
use crate::foreign::Foreign;
use crate::host::Host;
use crate::real::{self, BLOCK_BYTES, Rig};
use crate::scratch::Scratch;
use crate::stats::{Middle, middle};
use crate::target::{Shape, Target};
use crate::tgt::Tgt;
use crate::values::{Measured, Values, measure};
use crate::workload::{Figure, Order, Step, Workload};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Parameters of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Short and once: a function check, not a measurement.
    pub quick: bool,
    /// Runs of each step, instead of the workload's number.
    pub repeats: Option<usize>,
    /// Without the peer.
    pub alone: bool,
    /// The core of the targets.
    pub target_core: Option<usize>,
}

/// A measured target.
enum Subject {
    Array(Array),
    Tgt(Tgt),
    Foreign(Foreign),
}

impl Subject {
    fn target(&self) -> &dyn Target {
        match self {
            Subject::Array(array) => array,
            Subject::Tgt(tgt) => tgt,
            Subject::Foreign(foreign) => foreign,
        }
    }

    fn target_mut(&mut self) -> &mut dyn Target {
        match self {
            Subject::Array(array) => array,
            Subject::Tgt(tgt) => tgt,
            Subject::Foreign(foreign) => foreign,
        }
    }

    fn array(&self) -> Option<&Array> {
        match self {
            Subject::Array(array) => Some(array),
            _ => None,
        }
    }
}

/// Results of a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the workload.
    pub name: String,
    /// Row in the table of published workloads.
    pub row: String,
    /// Short title.
    pub title: String,
    /// Description.
    pub story: String,
    /// Scaling to a small machine.
    pub scale: String,
    /// Runs of each step.
    pub repeats: usize,
    /// The value in the chart.
    pub chart: String,
    /// Every step on every target.
    pub steps: Vec<StepReport>,
    /// Published and measured figures.
    pub figures: Vec<FigureReport>,
}

/// Results of a step on a target.
#[derive(Clone, Debug, Serialize)]
pub struct StepReport {
    /// The step.
    pub step: String,
    /// The target.
    pub target: &'static str,
    /// Values by name.
    pub values: BTreeMap<String, Middle>,
    /// Commands per second for each tenth of a second, of the last run.
    pub line: Vec<f64>,
    /// Reason for missing results of all or some runs.
    pub failed: Option<String>,
    /// Reason for not running it.
    pub left_out: Option<String>,
}

/// A published figure beside the measured one.
#[derive(Clone, Debug, Serialize)]
pub struct FigureReport {
    /// Name of the figure.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Published value.
    pub published: Option<f64>,
    /// Measured value.
    pub measured: Option<Middle>,
    /// The peer's value.
    pub peer: Option<Middle>,
    /// Whether the goal is reached, if there is one.
    pub reached: Option<bool>,
    /// Possible reason for missing it.
    pub why: String,
    /// Further findings of the runs.
    pub remark: String,
}

/// Runs of a target: for each step, each repeat.
type Runs = Vec<Vec<Result<Measured, Nothing>>>;

/// Reason why a run of a step has no result.
#[derive(Clone, Debug)]
enum Nothing {
    Failed(String),
    LeftOut(String),
}

/// Runs a workload on an array started for it, and on the peer.
pub fn on_own(
    workload: &Workload,
    programs: &Programs,
    scratch: &Path,
    out: &Path,
    options: &Options,
) -> Result<Report> {
    let scratch = Scratch::new(scratch, "lab")?;
    let (ours, peers) = (scratch.path().join("ashlar"), scratch.path().join("tgt"));
    std::fs::create_dir_all(&ours)?;
    std::fs::create_dir_all(&peers)?;
    let drives = Drives { count: 4, bytes: workload.drive_mib << 20 };
    let core = options.target_core;
    let mut subjects = vec![Subject::Array(Array::start(programs, &ours, drives, core)?)];
    if let (Some(backing), false) = (workload.peer.backing(), options.alone) {
        subjects.push(Subject::Tgt(Tgt::new(&peers, backing, core)?));
    }
    run(workload, subjects, out, options)
}

/// Runs a workload on a foreign array. Data on its LUNs are lost. If the LUNs are unsuitable, or the workload needs
/// operator commands of our array, the report says so.
pub fn on_foreign(workload: &Workload, target: &Foreign, out: &Path, options: &Options) -> Result<Report> {
    let names = real::initiators(1);
    let initiator = names.first().context("a host has a name")?;
    if let Some(why) = target.unsuited(&shapes(workload), initiator)? {
        eprintln!("{} is left out: {why}", workload.name);
        let runs = workload.step.iter().map(|_| vec![Err(Nothing::LeftOut(why.clone()))]).collect();
        return Ok(report(workload, 0, &[target.name()], vec![runs]));
    }
    run(workload, vec![Subject::Foreign(target.clone())], out, options)
}

fn shapes(workload: &Workload) -> Vec<Shape> {
    let shape = |mib: &u64| Shape { bytes: mib << 20, block_bytes: BLOCK_BYTES };
    workload.disks.iter().map(shape).collect()
}

fn run(workload: &Workload, mut subjects: Vec<Subject>, out: &Path, options: &Options) -> Result<Report> {
    let repeats = match options.quick {
        true => 1,
        false => options.repeats.unwrap_or(workload.repeats).max(1),
    };
    let names = real::initiators(workload.host_count());
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let shapes = shapes(workload);
    let mut luns = Vec::new();
    for subject in &mut subjects {
        let target = subject.target_mut();
        luns.push(target.fresh(&shapes, &names).with_context(|| format!("disks of {}", target.name()))?);
    }
    let mut runs: Vec<Runs> = subjects.iter().map(|_| vec![Vec::new(); workload.step.len()]).collect();
    for (subject, luns) in subjects.iter().zip(&luns) {
        let prepared = prepare(subject, luns, workload.preparation(&workload.prepare)?);
        prepared.with_context(|| format!("preparing {}", subject.target().name()))?;
    }
    for repeat in 0..repeats {
        for ((subject, luns), runs) in subjects.iter().zip(&luns).zip(&mut runs) {
            for (step, runs) in workload.step.iter().zip(runs) {
                let stage = Stage { workload, subject, luns, out, quick: options.quick };
                let result = match stage.left_out(step) {
                    Some(why) => Err(Nothing::LeftOut(why.to_owned())),
                    None => stage.run(step, repeat).map_err(|error| Nothing::Failed(format!("{error:#}"))),
                };
                if let Err(Nothing::Failed(why) | Nothing::LeftOut(why)) = &result {
                    eprintln!("{}: {} on {}: {why}", workload.name, step.name, subject.target().name());
                }
                runs.push(result);
            }
        }
    }
    let targets: Vec<_> = subjects.iter().map(|subject| subject.target().name()).collect();
    Ok(report(workload, repeats, &targets, runs))
}

/// Time limit of a preparation.
const PREPARATION: Duration = Duration::from_secs(900);

fn prepare(subject: &Subject, luns: &[u16], host: Host) -> Result<()> {
    if !host.has_end() {
        return Ok(());
    }
    let mut rig = Rig::login(subject.target(), luns, 1, 1)?;
    let mut hosts = [host];
    let run = rig.run(&mut hosts, PREPARATION, |_| Ok(()))?;
    check(&hosts)?;
    run.finished.map(drop).with_context(|| format!("not done after {} s", PREPARATION.as_secs()))
}

/// Fails after an invalid response, or one that a world can't handle.
fn check(hosts: &[Host]) -> Result<()> {
    let failure = hosts.iter().find_map(|host| host.figures().failure.clone());
    ensure!(failure.is_none(), "{}", failure.unwrap_or_default());
    if let Some(host) = hosts.iter().find(|host| host.has_failed()) {
        let refused = host.figures().refused.clone().unwrap_or_default();
        bail!("a command was refused for which hosts have no other way: {refused}");
    }
    Ok(())
}

/// Environment of a step.
struct Stage<'a> {
    workload: &'a Workload,
    subject: &'a Subject,
    luns: &'a [u16],
    out: &'a Path,
    quick: bool,
}

impl Stage<'_> {
    /// The reason why a step can't be run on this target.
    fn left_out(&self, step: &Step) -> Option<&'static str> {
        let operated =
            !step.array.is_empty() || !step.during.is_empty() || !step.after.is_empty() || step.space;
        let obeys = !operated || self.subject.array().is_some();
        (!obeys).then_some("only an array of ours can do this")
    }

    fn run(&self, step: &Step, repeat: usize) -> Result<Measured> {
        let array = self.subject.array();
        let measured = self.measure(step, repeat);
        let undone = orders(array, &step.after);
        measured.and_then(|measured| undone.map(|()| measured))
    }

    fn measure(&self, step: &Step, repeat: usize) -> Result<Measured> {
        let (workload, target) = (self.workload, self.subject.target());
        let array = self.subject.array();
        prepare(self.subject, self.luns, workload.preparation(&step.prepare)?).context("preparing")?;
        orders(array, &step.array)?;
        let mut rig = Rig::login(target, self.luns, workload.host_count(), workload.paths(step))?;
        let mut hosts = workload.hosts(step, repeat as u64 + 1)?;
        let ends = hosts.iter().any(Host::has_end);
        let time = workload.time(step);
        let limit = if self.quick && !ends { time.div_f64(6.0).max(Duration::from_secs(1)) } else { time };
        let mut due = step.during.iter().peekable();
        let run = rig.run(&mut hosts, limit, |elapsed| {
            while let Some((_, method, path, body)) = due.next_if(|order| elapsed.as_secs_f64() >= order.0) {
                operate(array, method, path, body)?;
            }
            Ok(())
        })?;
        drop(rig);
        check(&hosts)?;
        ensure!(!ends || run.finished.is_some(), "not done after {} s", limit.as_secs());
        let mut measured = measure(&hosts, &workload.watched(), &run);
        if let (Some(array), true) = (array, step.space) {
            measured.values.append(&mut space(array)?);
        }
        if repeat == 0 {
            self.write_batch(step, &hosts)?;
        }
        Ok(measured)
    }

    /// Writes the figures of the hosts as batch files of esxtop.
    fn write_batch(&self, step: &Step, hosts: &[Host]) -> Result<()> {
        let folder = self.out.join("esxtop");
        std::fs::create_dir_all(&folder)?;
        for (index, host) in hosts.iter().enumerate() {
            let words = [&self.workload.name, &step.name, self.subject.target().name(), &index.to_string()];
            let name: String = words.join("-").replace(|c: char| !c.is_alphanumeric(), "-");
            std::fs::write(folder.join(format!("{name}.csv")), host.figures().csv(&format!("host{index}")))?;
        }
        Ok(())
    }
}

fn orders(array: Option<&Array>, orders: &[Order]) -> Result<()> {
    orders.iter().try_for_each(|(method, path, body)| operate(array, method, path, body))
}

fn operate(array: Option<&Array>, method: &str, path: &str, body: &str) -> Result<()> {
    array.map_or(Ok(()), |array| array.api()?.ask(method, path, body).map(drop))
}

/// Time limit for background data reduction in the array.
const SETTLE: Duration = Duration::from_secs(60);

/// The array's space figures, once they are stable.
fn space(array: &Array) -> Result<Values> {
    let (start, mut last, mut alike, mut ratio) = (Instant::now(), serde_json::Value::Null, 0, None);
    while alike < 5 && start.elapsed() < SETTLE {
        std::thread::sleep(Duration::from_millis(200));
        let mut status = array.cli(&["array", "status"])?;
        ratio = status["reduction"]["data"].as_f64();
        let now = status["space"].take();
        alike = if now == last { alike + 1 } else { 0 };
        last = now;
    }
    let mut values = Values::new();
    for name in ["provisioned", "mapped", "logical", "unique", "physical", "metadata"] {
        let bytes = last[name].as_f64().with_context(|| format!("array status without space.{name}"))?;
        values.insert(format!("{name}_mib"), bytes / f64::from(1 << 20));
    }
    let all = values["logical_mib"] / (values["physical_mib"] + values["metadata_mib"]);
    values.extend(ratio.map(|ratio| ("reduction".to_owned(), ratio)));
    values.insert("reduction_with_metadata".to_owned(), all);
    Ok(values)
}

fn report(workload: &Workload, repeats: usize, targets: &[&'static str], runs: Vec<Runs>) -> Report {
    let figure = |figure: &Figure| {
        let of = |target: usize| measured(workload, figure, runs.get(target)?);
        let ours = of(0);
        FigureReport {
            name: figure.name.clone(),
            unit: figure.unit.clone(),
            published: figure.published,
            measured: ours,
            peer: of(1),
            reached: ours.and_then(|ours| figure.goal.reached(ours.median, figure.published)),
            why: figure.why.clone(),
            remark: String::new(),
        }
    };
    let figures = workload.figure.iter().map(figure).collect();
    let mut steps = Vec::new();
    for (target, runs) in targets.iter().zip(&runs) {
        for (step, runs) in workload.step.iter().zip(runs) {
            steps.push(step_report(&step.name, target, runs));
        }
    }
    let Workload { name, row, title, story, scale, chart, .. } = workload.clone();
    Report { name, row, title, story, scale, repeats, chart, steps, figures }
}

fn step_report(step: &str, target: &'static str, runs: &[Result<Measured, Nothing>]) -> StepReport {
    let good = || runs.iter().filter_map(|run| run.as_ref().ok());
    let names = good().next().into_iter().flat_map(|run| run.values.keys());
    let value = |name: &String| {
        let middle = middle(good().filter_map(|run| run.values.get(name).copied()))?;
        Some((name.clone(), middle))
    };
    let line = good().next_back().map(|run| run.line.clone()).unwrap_or_default();
    let (mut failed, mut left_out) = (None, None);
    for nothing in runs.iter().filter_map(|run| run.as_ref().err()) {
        match nothing {
            Nothing::Failed(why) => _ = failed.get_or_insert_with(|| why.clone()),
            Nothing::LeftOut(why) => _ = left_out.get_or_insert_with(|| why.clone()),
        }
    }
    let values = names.filter_map(value).collect();
    StepReport { step: step.to_owned(), target, values, line, failed, left_out }
}

/// A figure, computed for each repeat separately, so that a disturbance of one repeat affects both parts of a ratio.
fn measured(workload: &Workload, figure: &Figure, runs: &Runs) -> Option<Middle> {
    let runs_of = |name: &str| runs.get(workload.step.iter().position(|step| step.name == name)?);
    let value = |step: &str, repeat: usize, name: &str| -> Option<f64> {
        runs_of(step)?.get(repeat)?.as_ref().ok()?.values.get(name).copied()
    };
    let of_repeat = |repeat| {
        let above = value(&figure.step, repeat, &figure.value)?;
        let below = match (&figure.per, &figure.per_value) {
            (None, None) => 1.0,
            (step, name) => {
                let name = name.as_ref().unwrap_or(&figure.value);
                let one = value(step.as_ref().unwrap_or(&figure.step), repeat, name)?;
                let other = figure.plus.as_ref().map(|step| value(step, repeat, name));
                one + other.unwrap_or(Some(0.0))?
            }
        };
        Some(above / below * figure.times).filter(|value| value.is_finite())
    };
    middle((0..runs.first()?.len()).filter_map(of_repeat))
}

#[cfg(test)]
#[path = "run_test.rs"]
mod tests;
