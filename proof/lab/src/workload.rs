//! Workload files: disks, hosts, steps, and the published figures to compare with. `docs/lab.md` describes the format; the files are in `proof/lab/workloads`.

mod plan;

use crate::host::{Host, Policy, Settings};
use crate::tgt::BackingStore;
use anyhow::{Context, Result, bail, ensure};
use plan::Plan;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// The workloads that the lab brings along.
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
    /// What it is called; the name of its file.
    #[serde(skip)]
    pub name: String,
    /// The row of the table of published workloads.
    pub row: String,
    /// In a few words.
    pub title: String,
    /// What happens, and what it stands for.
    pub story: String,
    /// How it was made to fit a small machine.
    pub scale: String,
    /// Seconds of each step, or the most that a step that ends by itself may take.
    pub seconds: f64,
    /// Runs of each step; the median counts.
    #[serde(default = "three")]
    pub repeats: usize,
    /// MiB of each of the array's four drives.
    #[serde(default = "drive_mib")]
    pub drive_mib: u64,
    /// How the peer keeps its data.
    #[serde(default)]
    pub peer: Peer,
    /// MiB of each disk.
    pub disks: Vec<u64>,
    /// What is set on every host.
    #[serde(default)]
    pub settings: Set,
    /// The hosts; one, called `esx`, when none is named.
    #[serde(default)]
    pub host: Vec<HostPlan>,
    /// What is on the disks before: done once.
    #[serde(default)]
    pub prepare: Vec<Plan>,
    /// What every step does.
    #[serde(default)]
    pub world: Vec<Plan>,
    /// One after the other.
    pub step: Vec<Step>,
    /// What is reported.
    pub figure: Vec<Figure>,
    /// The value that the chart shows.
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

/// How the peer keeps its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// As fast as it durably can.
    #[default]
    Direct,
    /// Through the page cache: the only way in which it knows the offloaded commands.
    Buffered,
    /// It has nothing to be compared with.
    None,
}

impl Peer {
    /// What the peer is to be started with, if at all.
    pub fn backing(self) -> Option<BackingStore> {
        match self {
            Peer::Direct => Some(BackingStore::DirectAio),
            Peer::Buffered => Some(BackingStore::Buffered),
            Peer::None => None,
        }
    }
}

/// What is set on a host; what is left out stays.
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
    /// Puts it over other settings.
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
    /// What it is called.
    pub name: String,
    /// How many like it there are.
    #[serde(default = "one")]
    pub count: usize,
    /// Whether its figures are the ones that count.
    #[serde(default = "yes")]
    pub watched: bool,
    /// What is set on it.
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

/// A part of a workload that is measured by itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it is called.
    pub name: String,
    /// What is set on every host.
    #[serde(default)]
    pub settings: Set,
    /// What is done before it, each time, unmeasured.
    #[serde(default)]
    pub prepare: Vec<Plan>,
    /// What it does besides what every step does.
    #[serde(default)]
    pub world: Vec<Plan>,
    /// Seconds, when they differ.
    pub seconds: Option<f64>,
    /// What the array's operator does when it is prepared; the array that the lab starts has one.
    #[serde(default)]
    pub array: Vec<Order>,
    /// The operator's actions while it runs, each with its start in seconds.
    #[serde(default)]
    pub during: Vec<(f64, String, String, String)>,
    /// Commands that undo it, so that it can be run again.
    #[serde(default)]
    pub after: Vec<Order>,
    /// Whether the array is asked afterwards how much space is used.
    #[serde(default)]
    pub space: bool,
}

/// What a published figure is compared with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it says.
    pub name: String,
    /// The value of a step.
    pub value: String,
    /// The step.
    pub step: String,
    /// Divided by the same value of another step,
    pub per: Option<String>,
    /// and of one more: by the sum of both,
    pub plus: Option<String>,
    /// or by another value.
    pub per_value: Option<String>,
    /// Times so much: back to the scale of what was published.
    #[serde(default = "unit_factor")]
    pub times: f64,
    /// Its unit.
    pub unit: String,
    /// What was published.
    pub published: Option<f64>,
    /// When it is reached.
    #[serde(default)]
    pub goal: Goal,
    /// Why it may not be reached.
    #[serde(default)]
    pub why: String,
}

fn unit_factor() -> f64 {
    1.0
}

/// When a published figure is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// No goal: for information.
    #[default]
    None,
    /// As much, or more.
    More,
    /// As little, or less.
    Less,
    /// The same, but for a twentieth.
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

/// The names of the workloads that the lab brings along.
pub fn names() -> impl Iterator<Item = &'static str> {
    OWN.iter().map(|(name, _)| *name)
}

impl Workload {
    /// A workload of the lab's own, or one in a file whose name ends with `.toml`.
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

    /// What the file can say wrongly, found before anything runs.
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

    /// How many hosts log in.
    pub fn host_count(&self) -> usize {
        self.host.iter().map(|host| host.count).sum()
    }

    /// Which of the hosts have figures that count.
    pub fn watched(&self) -> Vec<bool> {
        self.host.iter().flat_map(|host| std::iter::repeat_n(host.watched, host.count)).collect()
    }

    /// The most paths that a host has in a step.
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

    /// A host that makes everything ready, unhindered by paths and links.
    pub fn preparation(&self, plans: &[Plan]) -> Result<Host> {
        let mut worlds = Vec::new();
        for plan in plans {
            worlds.extend(plan.worlds(&self.disks, 0, 0)?);
        }
        let settings = Settings { outstanding: 32, paths: 1, ..Settings::default() };
        Ok(Host::new(settings, self.disks.len(), worlds, 0))
    }

    /// How long a step may take.
    pub fn time(&self, step: &Step) -> Duration {
        Duration::from_secs_f64(step.seconds.unwrap_or(self.seconds))
    }
}

#[cfg(test)]
#[path = "workload_test.rs"]
mod tests;
