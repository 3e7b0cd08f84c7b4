//! The link between two controllers is cut under load, in one direction or both, while both reach Ceph, and then
//! restored.
//!
//! The home keeps serving. Commands through the other controller are held, then end with BUSY, and continue when the
//! link is restored. A host that gives up that path repeats its commands at the home, and their remains at the front
//! end must not take effect later.

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

/// Time after which both ends know that the link is broken.
const BROKEN_TIME: Duration = Duration::from_secs(2);
/// Longer than a front end holds commands that no home has begun.
const CUT_TIME: Duration = Duration::from_secs(10);
/// Shorter than a front end holds commands that a home may have begun.
const MAX_CUT_TIME: Duration = Duration::from_secs(20);
/// Time after which a host gives the path up: the home may begin younger commands.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Remaining time of the cut after that: afterwards the front end sends held commands to the home.
const SHORT_CUT_TIME: Duration = Duration::from_secs(5);
/// Load before a cut.
const LOAD_TIME: Duration = Duration::from_secs(2);
/// Number of responses of the front end after which it counts as serving.
const RESPONSES: u64 = 400;

/// A cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Dropped packets, from the view of a connection from the front end to the home's port.
    pub direction: Direction,
    /// Whether the host gave up the path through the front end.
    pub is_given_up: bool,
    /// Maximum time without a response on the home's path.
    pub pause: Duration,
    /// Maximum time of a command through the front end.
    pub slowest: Duration,
    /// BUSY responses of the front end.
    pub busy: u64,
    /// Time from the restoration until the front end served the host, if the host waited for it.
    pub path_back: Option<Duration>,
}

/// Results.
#[derive(Debug, Default)]
pub struct Report {
    /// All cuts, in order.
    pub cuts: Vec<Cut>,
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Compared blocks.
    pub verified: u64,
    /// Acknowledged counter steps.
    pub counted: u64,
}

/// Cuts the link of two controllers repeatedly in every direction, in a folder below `parent` and a namespace of its
/// own.
///
/// # Errors
/// The violation.
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

    /// The host waits for the front end. Returns the time from the restoration to the first response.
    fn wait_and_mend(&mut self, load: &mut Load, front: usize, network: &mut CutNetwork) -> Result<Duration> {
        // No home can have begun these: the link is known to be broken.
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

    /// The host gives the front end up. Its commands reach the home after the restoration, when there are no further
    /// writes, so that an effect would be found.
    fn give_up_and_mend(&mut self, load: &mut Load, front: usize, network: &mut CutNetwork) -> Result<()> {
        self.go_on(load, PATIENCE)?;
        // The session stays open: the front end is not informed that the waiter has ended.
        let mut left = self.give_up(load, front).context("a session by the front end")?;
        self.go_on(load, SHORT_CUT_TIME)?;
        self.finish(load)?;
        network.mend()?;
        // A new session of this host would end the commands of the old one; first, the home must have decided on all of
        // them.
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

    /// Number of times that each controller has become the home.
    fn times_home(&self) -> Result<[usize; 2]> {
        let [a, b] = &self.controllers;
        Ok([a.times_logged(IS_HOME)?, b.times_logged(IS_HOME)?])
    }

    /// Port of the home's link, the last one in a token for a new controller.
    pub(super) fn link_port(&self) -> Result<u16> {
        let made = pair::retry(|| self.controllers[self.home].cli(&["controller", "add"]))?;
        let token = made["token"].as_str().context("controller add without a token")?;
        let port = token.rsplit(':').next().and_then(|port| port.parse().ok());
        port.with_context(|| format!("a token without the address of a link: {token}"))
    }
}
