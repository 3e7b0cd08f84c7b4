//! The array under the checker: its volumes, hosts of both protocols, and operator.

use super::management::Management;
use super::paths::{Hosts, NvmeHosts};
use super::unit::{Run, Unit};
use crate::array::Array;
use crate::cdb;
use crate::libiscsi::{Ending, Libiscsi};
use crate::real;
use crate::target::{Shape, Target};
use anyhow::{Context, Result, bail};
use std::process::Child;
use std::rc::Rc;

/// Volumes with both block lengths. One is larger than the part that a checkpoint writes under one lock.
pub const SHAPES: [Shape; 3] = [
    Shape { bytes: 16 << 20, block_bytes: 512 },
    Shape { bytes: 16 << 20, block_bytes: 4096 },
    Shape { bytes: 64 << 20, block_bytes: 4096 },
];
/// LUN for reading snapshots.
const SNAPSHOT_LUN: u16 = 99;
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:6c6f6164-206f-6620-7468-65206c6162";

/// Units with these shapes.
///
/// # Errors
/// If one is too small.
pub fn units(shapes: &[Shape]) -> Result<Vec<Unit>> {
    shapes
        .iter()
        .map(|shape| Unit::new(shape.block_bytes, shape.bytes / u64::from(shape.block_bytes)))
        .collect()
}

/// Names of initiators.
pub fn initiators(count: usize) -> Vec<String> {
    (0..count).map(|host| format!("iqn.2001-04.org.example:check{host}")).collect()
}

/// Creates volumes and hosts on an array. `nvme`: number of NVMe/TCP hosts; zero for none.
///
/// # Errors
/// If the array refuses.
pub fn prepare(array: &mut Array, scsi: usize, nvme: usize) -> Result<Hosts> {
    let names = initiators(scsi);
    let initiators: Vec<&str> = names.iter().map(String::as_str).collect();
    let portals = match nvme {
        0 => Vec::new(),
        _ => {
            array.stop()?;
            let portals = array.serve_nvme()?;
            array.restart()?;
            portals.to_vec()
        }
    };
    let luns = array.fresh(&SHAPES, &initiators)?;
    let hosts: Vec<String> = (0..nvme).map(|host| format!("{NQN}{host:02x}")).collect();
    for unit in (0..luns.len()).filter(|_| nvme > 0) {
        array.cli(&["volume", "set", &volume(unit), "--mixed-transports", "on"])?;
    }
    for (index, nqn) in hosts.iter().enumerate() {
        let host = format!("nvme{index}");
        array.cli(&["host", "create", &host, "--nqn", nqn])?;
        luns.iter().try_for_each(|lun| array.connect(&volume(usize::from(*lun) - 1), &host, *lun))?;
    }
    let status = array.cli(&["array", "status"])?;
    let subsystem = status["subsystem_nqn"].as_str().unwrap_or_default().to_owned();
    let nvme = (nvme > 0).then_some(NvmeHosts { portals, subsystem, hosts, namespaces: Vec::new() });
    Hosts::new(names, luns, SHAPES.map(|shape| shape.block_bytes).to_vec(), nvme)
}

/// Name of a unit's volume, as in [`Array::fresh`].
fn volume(unit: usize) -> String {
    format!("volume{}", unit + 1)
}

/// Operator of an array.
pub struct Operator<'a> {
    array: &'a Array,
    library: Rc<Libiscsi>,
    initiator: String,
    shapes: &'a [Shape],
}

impl<'a> Operator<'a> {
    /// The operator of an array prepared by [`prepare`].
    ///
    /// # Errors
    /// If libiscsi is not installed.
    pub fn new(array: &'a Array) -> Result<Self> {
        let initiator = initiators(1).pop().context("an initiator")?;
        Ok(Self { array, library: Libiscsi::load()?, initiator, shapes: &SHAPES })
    }
}

impl Management for Operator<'_> {
    fn grow(&mut self, unit: usize, bytes: u64) -> Result<Child> {
        self.array.start_cli(&["volume", "resize", &volume(unit), "--size", &bytes.to_string()])
    }

    fn snapshot(&mut self, unit: usize, name: &str) -> Result<Child> {
        self.array.start_cli(&["snapshot", "create", &volume(unit), "--suffix", name])
    }

    fn read_snapshot(&mut self, unit: usize, name: &str, runs: &[Run]) -> Result<Vec<Vec<u8>>> {
        let snapshot = format!("{}.{name}", volume(unit));
        self.array.connect(&snapshot, "host0", SNAPSHOT_LUN)?;
        let luns = [SNAPSHOT_LUN];
        // A session of its own: the first numbers are those of the paths.
        let mut session = real::login(&self.library, self.array, &self.initiator, &luns, 40)?;
        let block_bytes = self.shapes[unit].block_bytes;
        let mut found = Vec::with_capacity(runs.len());
        for Run { lba, blocks } in runs {
            match session.perform(cdb::read(SNAPSHOT_LUN, *lba, u32::try_from(*blocks)?, block_bytes))? {
                Ending::Good(data) => found.push(data),
                other => bail!("{snapshot} can't be read: {other:?}"),
            }
        }
        drop(session);
        self.array.cli(&["volume", "disconnect", &snapshot, "--host", "host0"])?;
        self.array.cli(&["snapshot", "delete", &snapshot, "--eradicate", "--yes"])?;
        Ok(found)
    }
}
