//! Authenticated clients, one for each listener: despite attacks, they are admitted, and their sessions continue.

use crate::array::{Api, Array};
use crate::initiator::{self, Connection};
use crate::libiscsi::wait;
use crate::load::{Command, Initiator, LOGICAL_BLOCK_BYTES, STALL_TIMEOUT_MS};
use crate::nvme;
use crate::pair::Pair;
use crate::replication;
use crate::seed::Seed;
use crate::stats::Latencies;
use crate::target::{Shape, Target};
use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const INITIATOR: &str = "iqn.2026-01.test:known";
const HOST_NQN: &str = "nqn.2026-01.test:known";
const VOLUME_BYTES: u64 = 64 << 20;

/// The clients, and the session that one of them has had from the start.
pub struct Known {
    portal: SocketAddr,
    nvme: SocketAddr,
    links: SocketAddr,
    target: String,
    subsystem: String,
    lun: u16,
    session: Connection,
    /// Number of later sessions.
    sessions: u16,
    api: Api,
    /// API of a paired array.
    peer: Api,
}

/// Clients that must be served despite attacks.
pub trait Clients {
    /// Checks that each client is admitted again, and the first session responds.
    fn are_served(&mut self) -> Result<()>;

    /// Reads 4 KiB blocks in the first session for a time; returns the latencies.
    fn waits(&mut self, time: Duration) -> Result<Latencies>;
}

/// A host at the controller that is not the home, which reaches the volumes over the link.
pub struct Front {
    portal: SocketAddr,
    target: String,
    lun: u16,
    session: Connection,
    sessions: u16,
}

impl Front {
    /// Creates a volume, and begins the session.
    pub fn new(pair: &mut Pair) -> Result<Self> {
        let shape = Shape { bytes: VOLUME_BYTES, block_bytes: LOGICAL_BLOCK_BYTES };
        let luns = pair.fresh(&[shape], &[INITIATOR])?;
        let (portal, target) = (pair.portals()[1], pair.iqn().to_owned());
        let lun = *luns.first().context("a LUN")?;
        let names = initiator::Names { portal, initiator: INITIATOR, target: &target };
        let session = Connection::login(names, 1, lun, Vec::new().into())?;
        Ok(Self { portal, target, lun, session, sessions: 1 })
    }
}

impl Clients for Front {
    fn are_served(&mut self) -> Result<()> {
        read(&mut self.session, 0).context("a session from before")?;
        self.sessions += 1;
        let names = initiator::Names { portal: self.portal, initiator: INITIATOR, target: &self.target };
        let later = Connection::login(names, self.sessions, self.lun, Vec::new().into());
        read(&mut later.context("a host of a front end")?, 0).context("a later session")
    }

    fn waits(&mut self, time: Duration) -> Result<Latencies> {
        waits(&mut self.session, time)
    }
}

impl Known {
    /// Creates the clients' access on the array, and begins the session.
    pub fn new(array: &Array, peer: &Array, (nvme, links): (SocketAddr, SocketAddr)) -> Result<Self> {
        array.add_host("iscsi", INITIATOR)?;
        array.cli(&["host", "create", "nvme", "--nqn", HOST_NQN])?;
        for host in ["iscsi", "nvme"] {
            array.add_volume(host, Shape { bytes: VOLUME_BYTES, block_bytes: LOGICAL_BLOCK_BYTES })?;
            array.connect(host, host, 1)?;
        }
        peer.cli(&["array", "set", "--name", "peer"])?;
        replication::pair(peer, array, &links.to_string())?;
        let status = array.cli(&["array", "status"])?;
        let subsystem = status["subsystem_nqn"].as_str().context("array status without subsystem_nqn")?;
        let (portal, target, lun) =
            (*array.portals().first().context("a portal")?, array.iqn().to_owned(), 1);
        let names = initiator::Names { portal, initiator: INITIATOR, target: &target };
        let session = Connection::login(names, 1, lun, Vec::new().into())?;
        Ok(Self {
            portal,
            nvme,
            links,
            subsystem: subsystem.to_owned(),
            lun,
            session,
            sessions: 1,
            api: array.api()?,
            peer: peer.api()?,
            target,
        })
    }
}

impl Clients for Known {
    fn are_served(&mut self) -> Result<()> {
        read(&mut self.session, 0).context("a session of iSCSI from before")?;
        self.sessions += 1;
        let names = initiator::Names { portal: self.portal, initiator: INITIATOR, target: &self.target };
        Connection::login(names, self.sessions, self.lun, Vec::new().into()).context("a host of iSCSI")?;
        let names = nvme::Names { portal: self.nvme, host: HOST_NQN, subsystem: &self.subsystem };
        nvme::Controller::connect(names, 1).context("a host of NVMe/TCP")?;
        self.api.reconnected().ask("GET", "array", "").context("a client of the API")?;
        self.api.reconnected().text("GET", "/healthz", "").context("a service monitor")?;
        // With a wrong key: the other array's refusal arrives over its link.
        let key = "00000000-00000000-00000000-00000000";
        let body = format!(r#"{{"address":"{}","key":"{key}"}}"#, self.links);
        let refused = self
            .peer
            .reconnected()
            .ask("POST", "remote-arrays", &body)
            .err()
            .context("a wrong key paired")?;
        let refused = format!("{refused:#}");
        ensure!(refused.contains("pairing key is wrong"), "a paired array: {refused}");
        Ok(())
    }

    fn waits(&mut self, time: Duration) -> Result<Latencies> {
        waits(&mut self.session, time)
    }
}

fn waits(session: &mut Connection, time: Duration) -> Result<Latencies> {
    let (mut latencies, mut seed, begin) = (Latencies::default(), Seed::new(1), Instant::now());
    while begin.elapsed() < time {
        let (at, sent) = (seed.range(0, VOLUME_BYTES / 4096) * 4096, Instant::now());
        read(session, at)?;
        latencies.record(sent.elapsed());
    }
    Ok(latencies)
}

fn read(session: &mut Connection, at: u64) -> Result<()> {
    session.queue(Command { tag: 7, at, bytes: 4096, source: None });
    ensure!(!session.flush()?, "a command of 48 bytes is not taken");
    let mut answers = Vec::new();
    while answers.is_empty() {
        let mut poll = [session.pollfd()];
        wait(&mut poll, STALL_TIMEOUT_MS)?;
        ensure!(poll[0].revents != 0, "no answer");
        session.receive(&mut answers)?;
    }
    ensure!(answers.iter().all(|answer| answer.status == 0), "a read failed");
    Ok(())
}
