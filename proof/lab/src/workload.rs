//! Workload files: disks, hosts, steps, and published figures. `docs/lab.md` describes the format; the files are in
//! `proof/lab/workloads`.

mod plan;

use crate::host::{Host, Policy, Settings};
use crate::tgt::BackingStore;
use anyhow::{Context, Result, bail, ensure};
use plan::Plan;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Built-in workloads.
const OWN: &[(&str, &str)] = &[
    ("paths-and-depth", include_str!("../workloads/paths-and-depth.toml")),
    ("round-robin", include_str!("../workloads/round-robin.toml")),
    ("depth-per-device", include_str!("../workloads/depth-per-device.toml")),
    ("eager-zero", include_str!("../workloads/eager-zero.toml")),
    ("extended-copy", include_str!("../workloads/extended-copy.toml")),
    ("unmap-throttle", include_str!("../workloads/unmap-throttle.toml")),
    ("unmap-blocks", include_str!("../workloads/unmap-blocks.toml")),
    ("power-on", include_str!("../workloads/power-on.toml")),
    ("linked-clones", include_str!("../workloads/linked-clones.toml")),
    ("full-clones", include_str!("../workloads/full-clones.toml")),
    ("full-size-clones", include_str!("../workloads/full-size-clones.toml")),
    ("boot-storm", include_str!("../workloads/boot-storm.toml")),
    ("power-off", include_str!("../workloads/power-off.toml")),
    ("office", include_str!("../workloads/office.toml")),
    ("oltp-query", include_str!("../workloads/oltp-query.toml")),
    ("oltp-transactions", include_str!("../workloads/oltp-transactions.toml")),
    ("olap", include_str!("../workloads/olap.toml")),
    ("table", include_str!("../workloads/table.toml")),
    ("thin-stun", include_str!("../workloads/thin-stun.toml")),
    ("quota", include_str!("../workloads/quota.toml")),
    ("unmap-accounting", include_str!("../workloads/unmap-accounting.toml")),
];

/// A workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name of the workload and of its file.
    #[serde(skip)]
    pub name: String,
    /// Row in the table of published workloads.
    pub row: String,
    /// Short title.
    pub title: String,
    /// Description and purpose.
    pub story: String,
    /// Scaling to a small machine.
    pub scale: String,
    /// Seconds of each step, or time limit of a step that ends by itself.
    pub seconds: f64,
    /// Runs of each step; the median counts.
    #[serde(default = "three")]
    pub repeats: usize,
    /// MiB of each of the array's four drives.
    #[serde(default = "drive_mib")]
    pub drive_mib: u64,
    /// Storage mode of the peer.
    #[serde(default)]
    pub peer: Peer,
    /// MiB of each disk.
    pub disks: Vec<u64>,
    /// Settings of every host.
    #[serde(default)]
    pub settings: Set,
    /// Hosts; by default one, called `esx`.
    #[serde(default)]
    pub host: Vec<HostPlan>,
    /// Initial content of the disks, written once.
    #[serde(default)]
    pub prepare: Vec<Plan>,
    /// Worlds of every step.
    #[serde(default)]
    pub world: Vec<Plan>,
    /// Steps, in order.
    pub step: Vec<Step>,
    /// Reported figures.
    pub figure: Vec<Figure>,
    /// The value in the chart.
    #[serde(default = "iops")]
    pub chart: String,
}

fn three() -> usize {
    3
}

fn drive_mib() -> u64 {
    4096
}

fn iops() -> String {
    "iops".into()
}

/// Storage mode of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// As fast as possible, without durability.
    #[default]
    Direct,
    /// Through the page cache: the only mode in which it supports offloaded commands.
    Buffered,
    /// There is nothing to compare.
    None,
}

impl Peer {
    /// Backing store of the peer, if it is started.
    pub fn backing(self) -> Option<BackingStore> {
        match self {
            Peer::Direct => Some(BackingStore::DirectAio),
            Peer::Buffered => Some(BackingStore::Buffered),
            Peer::None => None,
        }
    }
}

/// Settings of a host; omitted ones keep their value.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    policy: Option<Policy>,
    switch_every: Option<u32>,
    outstanding: Option<u32>,
    quantum: Option<u32>,
    hba_depth: Option<u32>,
    coalescing_us: Option<u64>,
    paths: Option<usize>,
    link_mb_s: Option<f64>,
    round_trip_us: Option<u64>,
}

impl Set {
    /// Applies these over other settings.
    fn over(self, below: Settings) -> Settings {
        Settings {
            policy: self.policy.unwrap_or(below.policy),
            switch_every: self.switch_every.unwrap_or(below.switch_every),
            outstanding: self.outstanding.unwrap_or(below.outstanding),
            quantum: self.quantum.unwrap_or(below.quantum),
            hba_depth: self.hba_depth.unwrap_or(below.hba_depth),
            coalescing: self.coalescing_us.map_or(below.coalescing, |us| us * 1000),
            paths: self.paths.unwrap_or(below.paths),
            link: self.link_mb_s.map_or(below.link, |mb| (mb * 1e6) as u64),
            round_trip: self.round_trip_us.map_or(below.round_trip, |us| us * 1000),
            ..below
        }
    }
}

/// A host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPlan {
    /// Name of the host.
    pub name: String,
    /// Number of equal hosts.
    #[serde(default = "one")]
    pub count: usize,
    /// Whether its figures count.
    #[serde(default = "yes")]
    pub watched: bool,
    /// Settings of the host.
    #[serde(default)]
    pub settings: Set,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

/// A request to the array's HTTP interface: method, path below `/api/v1/`, and body.
pub type Order = (String, String, String);

/// A part of a workload that is measured separately.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name of the step.
    pub name: String,
    /// Settings of every host.
    #[serde(default)]
    pub settings: Set,
    /// Unmeasured preparation before each run.
    #[serde(default)]
    pub prepare: Vec<Plan>,
    /// Worlds in addition to those of every step.
    #[serde(default)]
    pub world: Vec<Plan>,
    /// Seconds, if different.
    pub seconds: Option<f64>,
    /// Operator commands of the preparation, for an array that the lab starts.
    #[serde(default)]
    pub array: Vec<Order>,
    /// Operator commands during the step, each with its start in seconds.
    #[serde(default)]
    pub during: Vec<(f64, String, String, String)>,
    /// Operator commands that undo it, so that it can be repeated.
    #[serde(default)]
    pub after: Vec<Order>,
    /// Whether the array's space usage is recorded afterwards.
    #[serde(default)]
    pub space: bool,
}

/// A reported figure, usually with a published one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Name of the figure.
    pub name: String,
    /// Name of a step's value.
    pub value: String,
    /// The step.
    pub step: String,
    /// Divided by the same value of another step,
    pub per: Option<String>,
    /// and of a further one: by the sum of both,
    pub plus: Option<String>,
    /// or by another value.
    pub per_value: Option<String>,
    /// Factor to the scale of the published figure.
    #[serde(default = "unit_factor")]
    pub times: f64,
    /// Its unit.
    pub unit: String,
    /// Published value.
    pub published: Option<f64>,
    /// Goal of the figure.
    #[serde(default)]
    pub goal: Goal,
    /// Possible reason for missing the goal.
    #[serde(default)]
    pub why: String,
}

fn unit_factor() -> f64 {
    1.0
}

/// Goal relative to a published figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// No goal: for information.
    #[default]
    None,
    /// At least the published value.
    More,
    /// At most the published value.
    Less,
    /// Within a twentieth of the published value.
    Near,
}

impl Goal {
    /// Whether a measured figure reaches a published one; `None` without a goal.
    pub fn reached(self, measured: f64, published: Option<f64>) -> Option<bool> {
        match self {
            Goal::None => None,
            Goal::More => published.map(|published| measured >= published),
            Goal::Less => published.map(|published| measured <= published),
            Goal::Near => published.map(|published| (measured / published - 1.0).abs() <= 0.05),
        }
    }
}

/// Names of built-in workloads.
pub fn names() -> impl Iterator<Item = &'static str> {
    OWN.iter().map(|(name, _)| *name)
}

impl Workload {
    /// A built-in workload, or one in a file whose name ends with `.toml`.
    pub fn find(name: &str) -> Result<Self> {
        if let Some(stem) = name.strip_suffix(".toml") {
            let text = std::fs::read_to_string(name).with_context(|| format!("can't read {name}"))?;
            let stem = Path::new(stem).file_name().map_or(stem.into(), std::ffi::OsStr::to_string_lossy);
            return Self::parse(&stem, &text);
        }
        match OWN.iter().find(|(own, _)| *own == name) {
            Some((_, text)) => Self::parse(name, text),
            None => bail!("no workload {name}; there are {}", names().collect::<Vec<_>>().join(", ")),
        }
    }

    fn parse(name: &str, text: &str) -> Result<Self> {
        let mut workload: Self = toml::from_str(text).with_context(|| format!("workload {name}"))?;
        workload.name = name.to_owned();
        if workload.host.is_empty() {
            let (name, settings) = ("esx".to_owned(), Set::default());
            workload.host.push(HostPlan { name, count: 1, watched: true, settings });
        }
        workload.check().with_context(|| format!("workload {name}"))?;
        Ok(workload)
    }

    /// Validates the file before the run.
    fn check(&self) -> Result<()> {
        ensure!(!self.disks.is_empty() && !self.step.is_empty(), "without disks or steps");
        for figure in &self.figure {
            for step in [Some(&figure.step), figure.per.as_ref(), figure.plus.as_ref()].into_iter().flatten()
            {
                let known = self.step.iter().any(|other| other.name == *step);
                ensure!(known, "figure {:?} of a step {step:?} that is not there", figure.name);
            }
        }
        for step in &self.step {
            let mut worlds = self.world.iter().chain(&step.world);
            ensure!(worlds.all(|world| world.host_is_known(&self.host)), "a world of an unknown host");
            self.hosts(step, 1)?;
            self.preparation(&step.prepare)?;
        }
        self.preparation(&self.prepare).map(drop)
    }

    /// Number of hosts that log in.
    pub fn host_count(&self) -> usize {
        self.host.iter().map(|host| host.count).sum()
    }

    /// Whether the figures of each host count.
    pub fn watched(&self) -> Vec<bool> {
        self.host.iter().flat_map(|host| std::iter::repeat_n(host.watched, host.count)).collect()
    }

    /// Maximum number of paths of a host in a step.
    pub fn paths(&self, step: &Step) -> usize {
        let paths = |host: &HostPlan| self.settings(step, host).paths;
        self.host.iter().map(paths).max().unwrap_or(1)
    }

    fn settings(&self, step: &Step, host: &HostPlan) -> Settings {
        step.settings.over(host.settings.over(self.settings.over(Settings::default())))
    }

    /// The hosts of a step.
    pub fn hosts(&self, step: &Step, seed: u64) -> Result<Vec<Host>> {
        let mut hosts = Vec::new();
        for plan in &self.host {
            for _ in 0..plan.count {
                let mut worlds = Vec::new();
                for world in self.world.iter().chain(&step.world) {
                    if world.is_of(&plan.name, &self.host) {
                        worlds.extend(world.worlds(&self.disks, hosts.len() as u64, seed)?);
                    }
                }
                let settings = self.settings(step, plan);
                let seed = seed.wrapping_mul(1009).wrapping_add(hosts.len() as u64);
                hosts.push(Host::new(settings, self.disks.len(), worlds, seed));
            }
        }
        Ok(hosts)
    }

    /// A host for preparations, without limits of paths and links.
    pub fn preparation(&self, plans: &[Plan]) -> Result<Host> {
        let mut worlds = Vec::new();
        for plan in plans {
            worlds.extend(plan.worlds(&self.disks, 0, 0)?);
        }
        let settings = Settings { outstanding: 32, paths: 1, ..Settings::default() };
        Ok(Host::new(settings, self.disks.len(), worlds, 0))
    }

    /// Time limit of a step.
    pub fn time(&self, step: &Step) -> Duration {
        Duration::from_secs_f64(step.seconds.unwrap_or(self.seconds))
    }
}

#[cfg(test)]
#[path = "workload_test.rs"]
mod tests;
