//! The link between two controllers is cut under load while both reach Ceph, in one direction or both, and mended.
//!
//! The home keeps serving. By the other controller commands are held, then end with BUSY, and go on when the link is
//! there. A host that gives that path up repeats its commands by the home, and what is left of them at the front end
//! must not take effect later.

use super::World;
use super::load::Load;
use super::upgrade::IS_HOME;
use crate::array::Programs;
use crate::ceph::Pools;
use crate::cut_network::{CutNetwork, Direction};
use crate::libiscsi::wait;
use crate::pair::{self, TIMEOUT};
use crate::scratch::Scratch;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::{Duration, Instant};

/// When both ends know that the link is broken.
const BROKEN_TIME: Duration = Duration::from_secs(2);
/// Longer than a front end holds commands that no home has begun.
const CUT_TIME: Duration = Duration::from_secs(10);
/// Shorter than it holds those that a home may have begun.
const MAX_CUT_TIME: Duration = Duration::from_secs(20);
/// When a host gives the path up: the home may begin what has waited less.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long the link stays cut then: what the front end holds is sent to the home afterwards.
const SHORT_CUT_TIME: Duration = Duration::from_secs(5);
/// Load before a cut.
const LOAD_TIME: Duration = Duration::from_secs(2);
/// Responses by the front end after which it serves again.
const RESPONSES: u64 = 400;

/// A cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// What was dropped, seen from the front end to the home's port.
    pub direction: Direction,
    /// Whether the host gave the path by the front end up.
    pub is_given_up: bool,
    /// The longest time without a response by the home's path.
    pub pause: Duration,
    /// The longest time of a command by the front end.
    pub slowest: Duration,
    /// Responses with BUSY by the front end.
    pub busy: u64,
    /// From the mend until the front end served the host, if that waited for it.
    pub path_back: Option<Duration>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// All cuts, in their order.
    pub cuts: Vec<Cut>,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Blocks that were compared.
    pub verified: u64,
    /// Steps of counters that were acknowledged.
    pub counted: u64,
}

/// Cuts the link of two controllers in every direction, this many times, in a folder below `parent` and a namespace of its own.
///
/// # Errors
/// What was wrong.
pub fn cut(
    programs: &Programs,
    parent: &Path,
    place: &Pools,
    (network, times): (&mut CutNetwork, u64),
) -> Result<Report> {
    let scratch = Scratch::new(parent, "cut")?;
    let result = World::new(programs, scratch.path(), place).and_then(|mut world| {
        world.register(false)?;
        let mut report = Report::default();
        for _ in 0..times {
            for direction in [Direction::Both, Direction::To, Direction::From] {
                for is_given_up in [false, true] {
                    let cut = world.cut(network, direction, is_given_up);
                    report.cuts.push(cut.with_context(|| format!("{direction:?}, {is_given_up}"))?);
                }
            }
        }
        (report.acknowledged, report.verified) = (world.report.acknowledged, world.report.verified);
        report.counted = world.counters.counted;
        Ok(report)
    });
    scratch.end(result)
}

impl World {
    fn cut(&mut self, network: &mut CutNetwork, direction: Direction, is_given_up: bool) -> Result<Cut> {
        let (home, front) = (self.home, self.front());
        let port = self.link_port()?;
        let mut load = self.begin(if is_given_up { home } else { front })?;
        self.go_on(&mut load, LOAD_TIME)?;
        let homes = self.times_home()?;
        network.cut(port, direction)?;
        let path_back = match is_given_up {
            true => self.give_up_and_mend(&mut load, front, network).map(|()| None),
            false => self.wait_and_mend(&mut load, front, network).map(Some),
        }?;
        ensure!(self.times_home()? == homes, "a controller took over, although both reach Ceph");
        let is_unanswered = load.paths[home].unanswered > 0 || (!is_given_up && load.both.unanswered > 0);
        ensure!(!is_unanswered, "a session of the host has ended");
        ensure!(load.both.aborted == 0, "commands were aborted, although homes note them");
        self.verify_by_both()?;
        let (pause, by_front) = (load.paths[home].pause, &load.paths[front]);
        let (slowest, busy) = (by_front.slowest, by_front.busy);
        Ok(Cut { direction, is_given_up, pause, slowest, busy, path_back })
    }

    fn go_on(&mut self, load: &mut Load, time: Duration) -> Result<()> {
        let start = Instant::now();
        self.load_until(load, time + TIMEOUT, |_, _| Ok(start.elapsed() >= time))
    }

    /// The host waits for the front end. Returns how long that took to respond after the mend.
    fn wait_and_mend(&mut self, load: &mut Load, front: usize, network: &mut CutNetwork) -> Result<Duration> {
        // These no home can have begun: the link is known to be broken.
        self.go_on(load, BROKEN_TIME)?;
        load.add_under_way(front, 2);
        let start = Instant::now();
        self.load_until(load, MAX_CUT_TIME, |_, load| {
            Ok(start.elapsed() >= CUT_TIME && load.paths[front].busy > 0)
        })
        .context("the front end holds commands and does not respond with BUSY")?;
        network.mend()?;
        let (mended, good) = (Instant::now(), load.paths[front].good);
        self.load_until(load, TIMEOUT, |_, load| Ok(load.paths[front].good > good))?;
        let path_back = mended.elapsed();
        self.load_until(load, TIMEOUT, |_, load| Ok(load.paths[front].good >= good + RESPONSES))?;
        self.finish(load)?;
        Ok(path_back)
    }

    /// The host gives the front end up. What that holds comes to the home after the mend, when nothing is written any more: it
    /// would be found.
    fn give_up_and_mend(&mut self, load: &mut Load, front: usize, network: &mut CutNetwork) -> Result<()> {
        self.go_on(load, PATIENCE)?;
        // The session stays open: the front end does not learn that the waiter is gone.
        let mut left = self.give_up(load, front).context("a session by the front end")?;
        self.go_on(load, SHORT_CUT_TIME)?;
        self.finish(load)?;
        network.mend()?;
        // A new session of this host would end what the old one left. Not before the home has decided on all of it.
        let mended = Instant::now();
        while left.in_flight() > 0 {
            let mut poll = [left.pollfd()];
            wait(&mut poll, 100)?;
            left.service(poll[0].revents)?;
            ensure!(mended.elapsed() < TIMEOUT, "{} commands are not answered", left.in_flight());
        }
        self.given_up = None;
        self.reach(front).context("the front end does not serve hosts again")?;
        self.verify_by_both()
    }

    /// How often each controller has become the home.
    fn times_home(&self) -> Result<[usize; 2]> {
        let [a, b] = &self.controllers;
        Ok([a.times_logged(IS_HOME)?, b.times_logged(IS_HOME)?])
    }

    /// The port of the home's link, which a token for a new controller names last.
    pub(super) fn link_port(&self) -> Result<u16> {
        let made = pair::retry(|| self.controllers[self.home].cli(&["controller", "add"]))?;
        let token = made["token"].as_str().context("controller add without a token")?;
        let port = token.rsplit(':').next().and_then(|port| port.parse().ok());
        port.with_context(|| format!("a token without the address of a link: {token}"))
    }
}
