//! The paths of hosts to a target: sessions of iSCSI and queues of NVMe/TCP, opened and opened again.

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

/// Hosts by NVMe/TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeHosts {
    /// Where controllers are.
    pub portals: Vec<SocketAddr>,
    /// The name of the subsystem.
    pub subsystem: String,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Namespaces of the units; none: those that a host sees, in order.
    pub namespaces: Vec<u32>,
}

/// Hosts, and how they reach the units.
pub struct Hosts {
    library: Option<Rc<Libiscsi>>,
    /// Names of initiators.
    pub initiators: Vec<String>,
    /// LUN of each unit.
    pub luns: Vec<u16>,
    /// Bytes of a block of each unit.
    pub blocks: Vec<u32>,
    /// Those by NVMe/TCP.
    pub nvme: Option<NvmeHosts>,
    /// A stale cache is planted on every path; its seed.
    pub plant: Option<u64>,
    /// A path that is refused is tried again: its controller may not serve yet.
    pub waits: bool,
}

/// A path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPath {
    /// An initiator, and the number of its session: sessions are spread over the portals.
    Scsi(usize, usize),
    /// A host of NVMe, and a portal.
    Nvme(usize, usize),
}

impl Hosts {
    /// Hosts with these names.
    ///
    /// # Errors
    /// When there are initiators and libiscsi is not installed.
    pub fn new(
        initiators: Vec<String>,
        luns: Vec<u16>,
        blocks: Vec<u32>,
        nvme: Option<NvmeHosts>,
    ) -> Result<Self> {
        let library = (!initiators.is_empty()).then(Libiscsi::load).transpose()?;
        Ok(Self { library, initiators, luns, blocks, nvme, plant: None, waits: false })
    }

    /// Every path: each initiator by this many portals, and each host of NVMe by each of its portals.
    pub fn paths(&self, portals: usize) -> Vec<HostPath> {
        let scsi = (0..self.initiators.len())
            .flat_map(|host| (0..portals).map(move |portal| HostPath::Scsi(host, portal)));
        let nvme = self.nvme.iter().flat_map(|nvme| {
            (0..nvme.hosts.len())
                .flat_map(|host| (0..nvme.portals.len()).map(move |portal| HostPath::Nvme(host, portal)))
        });
        scsi.chain(nvme).collect()
    }

    /// The number of a path's host among all, and what it is called in reports.
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
    /// When it is refused.
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

    /// Opens every path, and gives it to the checker.
    ///
    /// # Errors
    /// When one is refused.
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
