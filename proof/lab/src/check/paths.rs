//! Paths of hosts to a target: opening and reopening of iSCSI sessions and NVMe/TCP queues.

use super::checker::Checker;
use super::nvme_port::{NvmePort, Place};
use super::plant::StaleCache;
use super::port::{Port, ScsiPort};
use crate::libiscsi::Libiscsi;
use crate::pair::retry;
use crate::real;
use crate::target::Target;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::rc::Rc;

/// NVMe/TCP hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeHosts {
    /// Addresses of controllers.
    pub portals: Vec<SocketAddr>,
    /// The name of the subsystem.
    pub subsystem: String,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Namespaces of the units; if empty, those that a host sees, in order.
    pub namespaces: Vec<u32>,
}

/// Hosts, and their access to the units.
pub struct Hosts {
    library: Option<Rc<Libiscsi>>,
    /// Names of initiators.
    pub initiators: Vec<String>,
    /// LUN of each unit.
    pub luns: Vec<u16>,
    /// Block length of each unit in bytes.
    pub blocks: Vec<u32>,
    /// NVMe/TCP hosts, if any.
    pub nvme: Option<NvmeHosts>,
    /// Seed of a stale cache on every path, if one is planted.
    pub plant: Option<u64>,
    /// Whether a refused path is retried, since its controller may not serve yet.
    pub waits: bool,
}

/// A path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPath {
    /// An initiator, and the number of its session; sessions are distributed over the portals.
    Scsi(usize, usize),
    /// An NVMe host, and a portal.
    Nvme(usize, usize),
}

impl Hosts {
    /// Hosts with these names.
    ///
    /// # Errors
    /// If there are initiators and libiscsi is not installed.
    pub fn new(
        initiators: Vec<String>,
        luns: Vec<u16>,
        blocks: Vec<u32>,
        nvme: Option<NvmeHosts>,
    ) -> Result<Self> {
        let library = (!initiators.is_empty()).then(Libiscsi::load).transpose()?;
        Ok(Self { library, initiators, luns, blocks, nvme, plant: None, waits: false })
    }

    /// All paths: each initiator through this many portals, and each NVMe host through each of its portals.
    pub fn paths(&self, portals: usize) -> Vec<HostPath> {
        let scsi = (0..self.initiators.len())
            .flat_map(|host| (0..portals).map(move |portal| HostPath::Scsi(host, portal)));
        let nvme = self.nvme.iter().flat_map(|nvme| {
            (0..nvme.hosts.len())
                .flat_map(|host| (0..nvme.portals.len()).map(move |portal| HostPath::Nvme(host, portal)))
        });
        scsi.chain(nvme).collect()
    }

    /// Index of a path's host, and the name of the path in reports.
    fn name(&self, path: HostPath) -> (usize, String) {
        match path {
            HostPath::Scsi(host, portal) => (host, format!("{}, path {portal}", self.initiators[host])),
            HostPath::Nvme(host, portal) => {
                let number = self.initiators.len() + host;
                (number, format!("NVMe host {host}, path {portal}"))
            }
        }
    }

    /// Opens a path to this target.
    ///
    /// # Errors
    /// If it is refused.
    pub fn open(&self, target: &dyn Target, path: HostPath) -> Result<Box<dyn Port>> {
        let port: Box<dyn Port> = match path {
            HostPath::Scsi(host, portal) => {
                let library = self.library.as_ref().context("libiscsi is not loaded")?;
                let session = real::login(library, target, &self.initiators[host], &self.luns, portal)?;
                let units = self.luns.iter().copied().zip(self.blocks.iter().copied()).collect();
                Box::new(ScsiPort::new(session, units))
            }
            HostPath::Nvme(host, portal) => {
                let nvme = self.nvme.as_ref().context("no hosts by NVMe")?;
                let (portal, host) = (nvme.portals[portal], nvme.hosts[host].as_str());
                let place = Place { portal, host, subsystem: &nvme.subsystem, namespaces: &nvme.namespaces };
                Box::new(NvmePort::connect(&place, &self.blocks)?)
            }
        };
        Ok(match self.plant {
            Some(seed) => Box::new(StaleCache::new(port, seed)),
            None => port,
        })
    }

    /// Opens all paths, and adds them to the checker.
    ///
    /// # Errors
    /// If one is refused.
    pub fn open_all(
        &self,
        target: &dyn Target,
        portals: usize,
        checker: &mut Checker,
    ) -> Result<Vec<HostPath>> {
        let paths = self.paths(portals);
        for path in &paths {
            let (host, name) = self.name(*path);
            let port = match self.waits {
                true => retry(|| self.open(target, *path)),
                false => self.open(target, *path),
            };
            let port = port.with_context(|| name.clone())?;
            checker.add_path(host, name, port);
        }
        Ok(paths)
    }
}
