//! Worlds in a workload file, and their construction.

use super::HostPlan;
use crate::host::world::{Access, Job, Locking, Mix, Mover, PowerOn, Reclaim, Transfers, World};
use crate::host::{Content, Time};
use crate::seed::Seed;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::ops::Range;

const MIB: u64 = 1 << 20;
const SECOND: f64 = 1e9;

/// Kind of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    /// A virtual machine with a mix of accesses.
    Mix,
    /// Writes everything once, in order.
    Fill,
    /// Zeroing by the data mover.
    Zero,
    /// Copies by the data mover, one after the other.
    Copy,
    /// Power-on of virtual machines under locks.
    PowerOn,
    /// Space reclamation in passes.
    Reclaim,
}

/// Content of writes.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Written {
    #[default]
    Half,
    Random,
    Zero,
    Image,
    Table,
}

impl Written {
    fn content(self) -> Content {
        match self {
            Written::Half => Content::Half,
            Written::Random => Content::Random,
            Written::Zero => Content::Zero,
            Written::Image => Content::Image(0),
            Written::Table => Content::Table(0),
        }
    }
}

/// A world, or several equal ones, each with a part of the range.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    kind: What,
    /// Name of the host; by default the first one.
    host: Option<String>,
    /// Number of equal worlds.
    count: Option<usize>,
    /// Range of the worlds: disks in order, start, and length.
    disks: Option<Vec<usize>>,
    #[serde(default)]
    from_mib: u64,
    mib: Option<u64>,
    /// Outstanding commands of a mix or of the data mover.
    outstanding: Option<u32>,
    /// Accesses of a mix.
    #[serde(default)]
    access: Vec<Access>,
    #[serde(default)]
    content: Written,
    /// Commands per second of each; always busy by default.
    per_second: Option<f64>,
    /// Commands of each; endless by default.
    commands: Option<u64>,
    /// Maximum start delay in seconds.
    #[serde(default)]
    start_within: f64,
    /// Whether the data mover offloads to the array.
    offload: Option<bool>,
    transfer_kib: Option<u64>,
    /// Concurrent copies.
    at_once: Option<u32>,
    source_disk: Option<usize>,
    #[serde(default)]
    source_mib: u64,
    /// MiB of each copy.
    each_mib: Option<u64>,
    locking: Option<Locking>,
    /// Virtual machines that each powers on.
    machines: Option<u64>,
    /// Number of locks.
    locks: Option<u64>,
    /// MiB of each reclamation pass.
    blocks: Option<u64>,
}

impl Plan {
    /// True if this host has the world.
    pub fn is_of(&self, host: &str, hosts: &[HostPlan]) -> bool {
        let first = hosts.first().map(|plan| plan.name.as_str());
        self.host.as_deref().or(first) == Some(host)
    }

    /// True if the named host exists.
    pub fn host_is_known(&self, hosts: &[HostPlan]) -> bool {
        self.host.as_ref().is_none_or(|name| hosts.iter().any(|host| host.name == *name))
    }

    /// The worlds for the `host`th host, on disks with these sizes in MiB.
    pub fn worlds(&self, sizes: &[u64], host: u64, seed: u64) -> Result<Vec<Box<dyn World>>> {
        let mut random = Seed::new(seed.wrapping_add(host << 32));
        let world = |(disk, range)| self.world(disk, range, host, &mut random);
        self.parts(sizes)?.into_iter().map(world).collect()
    }

    /// Disk and range of each of the equal worlds: disks in order, each split into equal parts.
    fn parts(&self, sizes: &[u64]) -> Result<Vec<(usize, Range<u64>)>> {
        let disks = self.disks.clone().unwrap_or_else(|| vec![0]);
        let count = self.count.unwrap_or(disks.len());
        ensure!(!disks.is_empty() && count > 0, "a world without disks");
        let of_disk = count.div_ceil(disks.len()) as u64;
        let mut parts = Vec::new();
        for index in 0..count {
            let disk = disks[index % disks.len()];
            let size = sizes.get(disk).with_context(|| format!("no disk {disk}"))? * MIB;
            let first = self.from_mib * MIB;
            let bytes = self.mib.map_or(size.saturating_sub(first), |mib| mib * MIB);
            ensure!(first + bytes <= size && bytes > 0, "a world beyond the end of disk {disk}");
            let part = bytes / of_disk / 4096 * 4096;
            let start = first + part * (index / disks.len()) as u64;
            parts.push((disk, start..start + part));
        }
        Ok(parts)
    }

    fn world(&self, disk: usize, range: Range<u64>, host: u64, random: &mut Seed) -> Result<Box<dyn World>> {
        let length = range.end - range.start;
        Ok(match self.kind {
            What::Mix => {
                ensure!(!self.access.is_empty(), "a mix without accesses");
                ensure!(
                    self.access.iter().all(|it| it.bytes % 512 == 0 && it.bytes <= length),
                    "access sizes"
                );
                let pause = self.per_second.map_or(0, |rate| (SECOND / rate) as Time);
                let start = random.range(0, (self.start_within * SECOND) as u64 + 1);
                let outstanding = self.outstanding.context("a mix without `outstanding`")?;
                let (access, content) = (self.access.clone(), self.content.content());
                Box::new(Mix::new(disk, range, outstanding, access, content).paced(
                    pause,
                    start,
                    self.commands,
                ))
            }
            What::Fill => {
                let bytes = length.min(256 << 10);
                let access = Access { bytes, read: 0, random: 0, weight: 1 };
                let mix = Mix::new(disk, range, 8, vec![access], self.content.content());
                Box::new(mix.paced(0, 0, Some(length / bytes)))
            }
            What::Zero => {
                let job = Job::Zero { disk, at: range.start, bytes: length };
                Box::new(Mover::new([job], self.transfers()))
            }
            What::Copy => {
                let from = self.source_disk.context("a copy without `source_disk`")?;
                let bytes = self.each_mib.context("a copy without `each_mib`")? * MIB;
                ensure!(bytes > 0 && length >= bytes, "a copy that has no room");
                let (from_at, to) = (self.source_mib * MIB, disk);
                let to_at = |index| range.start + index * bytes;
                let job = |index| Job::Copy { from, from_at, to, to_at: to_at(index), bytes };
                Box::new(Mover::new((0..length / bytes).map(job), self.transfers()))
            }
            What::PowerOn => {
                let locking = self.locking.context("power-on without `locking`")?;
                let machines = self.machines.context("power-on without `machines`")?;
                // Locks and the data that they guard come first, then system disks.
                let locks = self.locks.context("power-on without `locks`")?;
                let front = locks * 2 * 4096;
                ensure!(length > front + MIB, "power-on without room for system disks");
                let image = (range.start + front, length - front);
                Box::new(PowerOn::new(disk, (range.start, locks), image, locking, machines).by(host + 1))
            }
            What::Reclaim => {
                let blocks = self.blocks.context("reclaim without `blocks`")?;
                // The first MiB has the lock and the metadata.
                ensure!(length > MIB, "reclaim without room");
                Box::new(Reclaim::new(disk, range.start + MIB..range.end, blocks, range.start))
            }
        })
    }

    fn transfers(&self) -> Transfers {
        let usual = Transfers::default();
        let size = self.transfer_kib.map(|kib| kib << 10);
        Transfers {
            offload: self.offload.unwrap_or(true),
            copy: size.unwrap_or(usual.copy),
            zero: size.unwrap_or(usual.zero),
            outstanding: self.outstanding.unwrap_or(usual.outstanding),
            jobs_at_once: self.at_once.unwrap_or(usual.jobs_at_once),
            ..usual
        }
    }
}
