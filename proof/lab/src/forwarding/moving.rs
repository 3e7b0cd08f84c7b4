//! Moving addresses: each controller has a portal at one, and the array's API has another. While a controller is down,
//! the host continues at the same address and port, which the home serves; when the controller is back, it serves its
//! portal again.
//!
//! Both controllers are on one machine. Its interface has the addresses alternately; or they are loopback addresses,
//! which need no permissions. The crate `address` tests the announcement to peers on a network.

use super::{BLOCKS, UNDER_WAY, World, command};
use crate::array::Programs;
use crate::cdb;
use crate::ceph::Pools;
use crate::cut_network::{CutNetwork, Direction};
use crate::libiscsi::Ending;
use crate::pair::{self, TIMEOUT};
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// The moving addresses: of the portals by controller, and of the API.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    portals: [Ipv4Addr; 2],
    api: Ipv4Addr,
    /// Whether the machine has an address only while a controller holds it.
    are_added: bool,
}

impl Addresses {
    /// Interface address required for [`Addresses::ON_INTERFACE`].
    pub const INTERFACE: &str = "192.0.2.1/24";
    /// Addresses in the network of an interface.
    pub const ON_INTERFACE: Self = Self {
        portals: [Ipv4Addr::new(192, 0, 2, 21), Ipv4Addr::new(192, 0, 2, 22)],
        api: Ipv4Addr::new(192, 0, 2, 20),
        are_added: true,
    };
    /// Loopback addresses.
    pub const LOOPBACK: Self = Self {
        portals: [Ipv4Addr::new(127, 0, 40, 1), Ipv4Addr::new(127, 0, 40, 2)],
        api: Ipv4Addr::new(127, 0, 40, 3),
        are_added: false,
    };
}
/// Writes between two events.
const WRITES: u64 = 200;

/// The cause of a controller's absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// Kill -9 of the home.
    KillHome,
    /// Kill -9 of the other controller.
    KillFront,
    /// An orderly stop of the other controller.
    StopFront,
    /// The link between both is cut, and both continue.
    CutLink,
}

/// An absence of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Cause.
    pub away: Away,
    /// Time until the host was logged in again at the same address.
    pub moved: Duration,
    /// Time from the restart of the controller, or the restoration of the link, until the host was logged in there
    /// again.
    pub back: Duration,
}

/// Results.
#[derive(Debug, Default)]
pub struct Moves {
    /// All absences, in order.
    pub moves: Vec<Move>,
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Compared blocks.
    pub verified: u64,
    /// Acknowledged counter steps.
    pub counted: u64,
}

/// Repeats each kind of absence, and cuts the link in a network that supports it, in a folder below `parent` and a
/// namespace of its own.
///
/// # Errors
/// The violation.
pub fn moving(
    programs: &Programs,
    parent: &Path,
    place: &Pools,
    (addresses, mut network, times): (Addresses, Option<CutNetwork>, u64),
) -> Result<Moves> {
    let scratch = Scratch::new(parent, "moving")?;
    let result = World::new(programs, scratch.path(), place).and_then(|mut world| {
        let api = world.begin_with_moving_portals(addresses)?;
        let mut found = Moves::default();
        for round in 0..times {
            for away in [Away::KillFront, Away::KillHome, Away::StopFront] {
                let moved = world.take_away(away, api);
                found.moves.push(moved.with_context(|| format!("{away:?}, round {round}"))?);
            }
        }
        if let Some(network) = &mut network {
            found.moves.push(world.cut_off(network, api).context("the link is cut")?);
        }
        (found.acknowledged, found.verified) = (world.report.acknowledged, world.report.verified);
        found.counted = world.counters.counted;
        Ok(found)
    });
    scratch.end(result)
}

impl World {
    /// Makes the host use only portals at moving addresses. Returns the API's moving address.
    fn begin_with_moving_portals(&mut self, addresses: Addresses) -> Result<SocketAddr> {
        let Addresses { portals, api, are_added } = addresses;
        let is_here = |address: Ipv4Addr| TcpListener::bind((address, 0)).is_ok();
        ensure!(
            is_here(api) != are_added,
            "the machine has {api} although no controller holds it, or none of loopback"
        );
        self.added = Some([self.add_moving_portal(portals, 0)?, self.add_moving_portal(portals, 1)?]);
        self.uses_added_only = true;
        self.sessions = [None, None];
        let api = SocketAddr::from((api, free_port()?));
        let home = &self.controllers[self.home];
        home.cli(&["array", "api-address", "--set", &api.to_string(), "--moves"])?;
        home.cli(&["array", "api-address", "--confirm"])?;
        is_answered(api)?;
        self.register(false)?;
        Ok(api)
    }

    fn add_moving_portal(&self, portals: [Ipv4Addr; 2], at: usize) -> Result<String> {
        let controller = (at + 1).to_string();
        pair::retry(|| {
            let address = SocketAddr::from((portals[at], free_port()?)).to_string();
            self.controllers[self.home].cli(&[
                "portal",
                "add",
                &address,
                "--controller",
                &controller,
                "--moves",
            ])?;
            Ok(address)
        })
    }

    fn take_away(&mut self, away: Away, api: SocketAddr) -> Result<Move> {
        self.reach_both()?;
        self.load(WRITES)?;
        let gone = if away == Away::KillHome { self.home } else { self.front() };
        let stays = 1 - gone;
        let (counters, session) = self.counting(stays)?;
        counters.begin(session, gone % 4)?;
        let start = Instant::now();
        match away {
            Away::StopFront => self.controllers[gone].stop()?,
            Away::KillHome | Away::KillFront => self.controllers[gone].kill()?,
            Away::CutLink => bail!("no controller is away"),
        }
        let (counters, session) = self.counting(stays)?;
        counters.finish(session)?;
        if away == Away::KillHome {
            self.home = stays;
            self.controllers[stays].wait_ready().context("the API of the new home")?;
        }
        // The same address and port, while its controller is down.
        self.sessions[gone] = None;
        self.reach(gone).context("the home does not serve the portal of the other controller")?;
        let moved = start.elapsed();
        self.check_served_by(gone, stays)?;
        pair::retry(|| is_answered(api)).context("the address of the API did not move")?;
        self.load(WRITES)?;
        self.verify_by_both()?;
        let start = Instant::now();
        self.controllers[gone].restart_unattended()?;
        let back = self.move_back(gone, start)?;
        self.load(WRITES)?;
        self.verify_by_both()?;
        is_answered(api)?;
        Ok(Move { away, moved, back })
    }

    /// Waits until the host is logged in at a controller that could serve its portal since `start`. Returns the time.
    fn move_back(&mut self, at: usize, start: Instant) -> Result<Duration> {
        pair::retry(|| self.check_served_by(at, at)).context("the portal did not move back")?;
        self.sessions[at] = None;
        self.reach(at).context("the controller does not serve its portal again")?;
        Ok(start.elapsed())
    }

    /// The front end can't reach the home, and has commands. It ends the session before the home serves its portal, so
    /// that none of them takes effect after the restoration.
    fn cut_off(&mut self, network: &mut CutNetwork, api: SocketAddr) -> Result<Move> {
        let (home, front) = (self.home, self.front());
        self.reach_both()?;
        self.load(WRITES)?;
        let port = self.link_port()?;
        let start = Instant::now();
        network.cut(port, Direction::Both)?;
        let mut left = self.sessions[front].take().context("a session that works")?;
        let mut open = Vec::new();
        for _ in 0..UNDER_WAY {
            let (lba, stamp) = self.next();
            left.submit(stamp, command(lba, stamp))?;
            left.service(libc::POLLOUT)?;
            open.push((lba, stamp));
        }
        self.given_up = Some(front);
        // The load continues through the home alone.
        pair::retry(|| {
            self.load(WRITES)?;
            self.check_served_by(front, home)
        })
        .context("the home does not serve the portal")?;
        let ending = left.perform(cdb::test_unit_ready(1));
        ensure!(
            matches!(ending, Err(_) | Ok(Ending::Unanswered)),
            "the front end serves its portal although the home does: {ending:?}"
        );
        self.given_up = None;
        self.reach(front).context("the home does not serve the portal of the other controller")?;
        let moved = start.elapsed();
        for (lba, stamp) in open {
            self.write(lba, stamp)?;
        }
        self.load(BLOCKS)?;
        let start = Instant::now();
        network.mend()?;
        let back = self.move_back(front, start)?;
        self.verify_by_both()?;
        self.load(WRITES)?;
        self.verify_by_both()?;
        is_answered(api)?;
        Ok(Move { away: Away::CutLink, moved, back })
    }

    /// Checks which controller serves a portal.
    fn check_served_by(&self, of: usize, by: usize) -> Result<()> {
        let address = &self.added.as_ref().context("portals that move")?[of];
        let portal = self.controllers[self.home].cli(&["portal", "show", address])?;
        let (controller, served_by) = (&portal["controller"], &portal["served_by"]);
        ensure!(
            (controller, served_by) == (&Value::from(of + 1), &Value::from(by + 1)),
            "portal {address} of controller {controller} is served by {served_by}"
        );
        Ok(())
    }
}

/// A port that was free at the time of the call.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Checks that the array's API responds at an address.
fn is_answered(api: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&api, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // In one write, since the server may respond to the first one.
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {api}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    // Beyond loopback, the server accepts only HTTPS, and says so.
    let is_answer = ["HTTP/1.1 200", "HTTP/1.1 426"].iter().any(|status| answer.starts_with(status));
    ensure!(is_answer, "the API at {api} answers: {answer}");
    Ok(())
}
