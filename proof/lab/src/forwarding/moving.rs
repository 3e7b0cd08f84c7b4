//! Addresses that move: each controller has a portal by one, and the array's API has another. While a controller is
//! away the host continues by the same address and port, which the home serves; when the controller is back, it serves
//! its portal again.
//!
//! Both controllers are on one machine. Its interface has the addresses in turn; or they are of loopback, which needs no
//! rights. What peers on a network learn is tested in the crate `address`.

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

/// Addresses that move: those of the portals by controller, and that of the API.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    portals: [Ipv4Addr; 2],
    api: Ipv4Addr,
    /// The machine has one only as long as a controller holds it.
    are_added: bool,
}

impl Addresses {
    /// The address that an interface has to have for [`Addresses::ON_INTERFACE`].
    pub const INTERFACE: &str = "192.0.2.1/24";
    /// Those in the network of an interface.
    pub const ON_INTERFACE: Self = Self {
        portals: [Ipv4Addr::new(192, 0, 2, 21), Ipv4Addr::new(192, 0, 2, 22)],
        api: Ipv4Addr::new(192, 0, 2, 20),
        are_added: true,
    };
    /// Those of loopback.
    pub const LOOPBACK: Self = Self {
        portals: [Ipv4Addr::new(127, 0, 40, 1), Ipv4Addr::new(127, 0, 40, 2)],
        api: Ipv4Addr::new(127, 0, 40, 3),
        are_added: false,
    };
}
/// Writes between two events.
const WRITES: u64 = 200;

/// What takes a controller away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// Kill -9 of the home.
    KillHome,
    /// Kill -9 of the other controller.
    KillFront,
    /// The other controller is stopped in order.
    StopFront,
    /// The link between both is cut, and both go on.
    CutLink,
}

/// A controller was away.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// How.
    pub away: Away,
    /// From then until the host was logged in again by the same address.
    pub moved: Duration,
    /// From when the controller was started again, or the link mended, until the host was logged in there again.
    pub back: Duration,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Moves {
    /// All of them, in their order.
    pub moves: Vec<Move>,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Blocks that were compared.
    pub verified: u64,
    /// Steps of counters that were acknowledged.
    pub counted: u64,
}

/// Takes controllers away this many times each, and cuts their link in a network that can be cut, in a folder below
/// `parent` and a namespace of its own.
///
/// # Errors
/// What was wrong.
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
    /// The host uses portals at addresses that move alone. Returns the address of the API that moves.
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
        // The same address and port, while its controller is not there.
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

    /// Waits until the host is logged in at a controller that can serve its portal again since `start`. Returns how
    /// long that took.
    fn move_back(&mut self, at: usize, start: Instant) -> Result<Duration> {
        pair::retry(|| self.check_served_by(at, at)).context("the portal did not move back")?;
        self.sessions[at] = None;
        self.reach(at).context("the controller does not serve its portal again")?;
        Ok(start.elapsed())
    }

    /// The front end can't reach the home, and has commands. It ends the session before the home serves its portal, so that none
    /// of them takes effect when the link is there again.
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
        // Load continues by the home alone.
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

    /// Which controller serves the portal of one.
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

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Fails unless the array's API answers at an address.
fn is_answered(api: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&api, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // In one piece: it may answer the first one.
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {api}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    // Beyond loopback it answers HTTPS alone, and says so.
    let is_answer = ["HTTP/1.1 200", "HTTP/1.1 426"].iter().any(|status| answer.starts_with(status));
    ensure!(is_answer, "the API at {api} answers: {answer}");
    Ok(())
}
