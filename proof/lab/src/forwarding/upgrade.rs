//! Rolling upgrade under load: an earlier program runs beside the new one, and the array is handed over between them in
//! both directions.
//!
//! A host that loses the path through a drained home continues on the other one, and logs in again after the handover,
//! like dm-multipath's daemon.

use super::World;
use super::load::{Load, Path as Seen};
use crate::array::Programs;
use crate::ceph::Pools;
use crate::pair::{self, TIMEOUT};
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Programs before and after, and number of handovers.
pub struct Upgrade<'a> {
    /// Programs before the upgrade.
    pub from: &'a Programs,
    /// Programs after the upgrade.
    pub to: &'a Programs,
    /// Handovers to the new program and back, while both run.
    pub turns: u64,
}

/// A planned handover.
#[derive(Clone, Debug)]
pub struct Handover {
    /// Whether the former and the new home run the new program.
    pub is_new: [bool; 2],
    /// Maximum time without a response to the host, on any path.
    pub pause: Duration,
    /// Maximum time of a command on the remaining path, that of the new home.
    pub slowest: Duration,
    /// Responses with BUSY.
    pub busy: u64,
    /// Unit attentions.
    pub attentions: u64,
    /// Responses with ABORTED COMMAND: the fate of the command is unknown. Zero if homes note commands.
    pub aborted: u64,
    /// Commands without a response when the session at the former home ended.
    pub unanswered: u64,
    /// Time from the drain until the former home served the host again.
    pub path_back: Duration,
}

/// Results.
#[derive(Debug, Default)]
pub struct Upgraded {
    /// All handovers, in order.
    pub handovers: Vec<Handover>,
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Compared blocks.
    pub verified: u64,
    /// Acknowledged counter steps.
    pub counted: u64,
    /// Engine formats before and after the commit of the upgrade.
    pub formats: [u64; 2],
}

/// Load before and after each event.
const LOAD_TIME: Duration = Duration::from_millis(500);
/// Number of responses of the new home after which a handover is over.
const ANSWERS: u64 = 400;
/// Log text of a controller that becomes the home.
pub(super) const IS_HOME: &str = "this controller is the home of the array";

/// Upgrades both controllers of an array, in a folder below `parent` and a namespace of its own.
///
/// # Errors
/// The violation.
pub fn upgrade(parent: &Path, place: &Pools, upgrade: &Upgrade<'_>) -> Result<Upgraded> {
    let scratch = Scratch::new(parent, "upgrade")?;
    let result = World::new(upgrade.from, scratch.path(), place).and_then(|world| {
        let is_new = [false; 2];
        let mut run = Run { world, new: upgrade.to, is_new, found: Upgraded::default() };
        run.upgrade(upgrade.turns)?;
        Ok(run.found)
    });
    scratch.end(result)
}

struct Run<'a> {
    world: World,
    new: &'a Programs,
    /// Whether each controller runs the new program.
    is_new: [bool; 2],
    found: Upgraded,
}

impl Run<'_> {
    /// Controller 2 gets the new program first. The array moves to it and back while controller 1 has the old one.
    fn upgrade(&mut self, turns: u64) -> Result<()> {
        // A program of another release need not keep volatile state.
        self.world.register(true)?;
        self.world.verify_by_both()?;
        self.replace_front().context("controller 2 gets the new program")?;
        for turn in 0..turns {
            self.hand_over().with_context(|| format!("turn {turn}, to the new program"))?;
            self.hand_over().with_context(|| format!("turn {turn}, back to the old program"))?;
        }
        self.hand_over().context("to the new program for good")?;
        let before = self.formats()?;
        if !before.committed {
            self.refuse_commit().context("a commit while a controller runs the old program")?;
        }
        self.replace_front().context("controller 1 gets the new program")?;
        self.home_cli(&["array", "upgrade", "--commit", "--yes"])?;
        let after = self.formats()?;
        ensure!(after.committed, "the commit of the upgrade has no effect");
        self.found.formats = [before.engine, after.engine];
        // The next home is the first one that uses the newest format completely.
        self.hand_over().context("after the commit")?;
        self.hand_over().context("after the commit, back")?;
        // In an earlier format, homes do not note commands: the fate of a begun one may stay unknown.
        let exact = if before.committed { 0 } else { self.found.handovers.len() - 1 };
        for handover in &self.found.handovers[exact..] {
            ensure!(handover.aborted == 0, "commands were aborted, although homes note them: {handover:?}");
        }
        let report = &self.world.report;
        (self.found.acknowledged, self.found.verified) = (report.acknowledged, report.verified);
        self.found.counted = self.world.counters.counted;
        Ok(())
    }

    /// Drains the home under load, and waits until the other controller is the home and the host has both paths again.
    fn hand_over(&mut self) -> Result<()> {
        let (from, to) = (self.world.home, self.world.front());
        let homes = self.world.controllers[to].times_logged(IS_HOME)?;
        let logins = self.world.logins[to];
        let mut load = self.loaded(to)?;
        let start = Instant::now();
        self.order(&mut load, from, "drain")?;
        let mut answers = None;
        self.world.load_until(&mut load, TIMEOUT, |world, load| {
            let good = load.paths[to].good;
            if world.controllers[to].times_logged(IS_HOME)? > homes {
                answers.get_or_insert(good);
            }
            Ok(answers.is_some_and(|before| good >= before + ANSWERS))
        })?;
        self.world.finish(&mut load)?;
        self.world.home = to;
        ensure!(self.world.logins[to] == logins, "a session at the next home ended with the handover");
        self.world.reach(from).context("the former home does not serve hosts again")?;
        let path_back = start.elapsed();
        self.resume(from)?;
        self.world.verify_by_both()?;
        let Seen { busy, attentions, aborted, unanswered, pause, .. } = load.both;
        let slowest = load.paths[to].slowest;
        let is_new = [self.is_new[from], self.is_new[to]];
        self.found.handovers.push(Handover {
            is_new,
            pause,
            slowest,
            busy,
            attentions,
            aborted,
            unanswered,
            path_back,
        });
        ensure!(load.paths[to].unanswered == 0, "a command by the next home was not answered");
        Ok(())
    }

    /// Drains, stops and starts the front end under load, and resumes it with the new program.
    fn replace_front(&mut self) -> Result<()> {
        let (home, front) = (self.world.home, self.world.front());
        let mut load = self.loaded(home)?;
        self.order(&mut load, front, "drain")?;
        self.world.controllers[front].ask_to_stop()?;
        self.world.load_until(&mut load, TIMEOUT, |world, _| world.controllers[front].has_stopped())?;
        self.world.controllers[front].set_programs(self.new);
        self.world.controllers[front].restart_unattended()?;
        self.is_new[front] = true;
        let joins = self.world.controllers[front].starts();
        self.world
            .load_until(&mut load, TIMEOUT, |world, _| Ok(world.controllers[front].joins()? >= joins))?;
        self.world.finish(&mut load)?;
        ensure!(load.paths[home].unanswered == 0, "a command by the home was not answered");
        self.world.reach(front).context("the new program does not serve hosts")?;
        self.resume(front)?;
        self.world.verify_by_both()
    }

    /// A running load with counters on this controller.
    fn loaded(&mut self, counted_by: usize) -> Result<Load> {
        let mut load = self.world.begin(counted_by)?;
        let start = Instant::now();
        self.world.load_until(&mut load, TIMEOUT, |_, _| Ok(start.elapsed() >= LOAD_TIME))?;
        Ok(load)
    }

    /// Executes an operator command for a controller during the load.
    fn order(&mut self, load: &mut Load, controller: usize, order: &str) -> Result<()> {
        let number = (controller + 1).to_string();
        let mut cli = self.world.controllers[self.world.home].start_cli(&["controller", order, &number])?;
        self.world.load_until(load, TIMEOUT, |_, _| Ok(cli.try_wait()?.is_some()))?;
        let output = cli.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        ensure!(output.status.success(), "ashlar controller {order} {number}: {said}");
        Ok(())
    }

    fn resume(&self, controller: usize) -> Result<()> {
        self.home_cli(&["controller", "resume", &(controller + 1).to_string()]).map(drop)
    }

    /// Runs a command at the home, whose API may start slightly after its portals.
    fn home_cli(&self, words: &[&str]) -> Result<Value> {
        pair::retry(|| self.world.controllers[self.world.home].cli(words))
    }

    fn formats(&self) -> Result<Formats> {
        let shown = self.home_cli(&["array", "upgrade"])?;
        let parts = shown["formats"].as_array().context("array upgrade without formats")?;
        let engine = parts.iter().find(|it| it["part"] == "engine").context("no format of the engine")?;
        Ok(Formats {
            committed: shown["committed"].as_bool().context("array upgrade without committed")?,
            engine: engine["active"].as_u64().context("a format that is no number")?,
            blocked: shown["blocked"].as_str().map(str::to_owned),
        })
    }

    fn refuse_commit(&self) -> Result<()> {
        ensure!(self.formats()?.blocked.is_some(), "nothing is said against it");
        let home = &self.world.controllers[self.world.home];
        match home.cli(&["array", "upgrade", "--commit", "--yes"]) {
            Ok(_) => bail!("it is not refused"),
            Err(_) => ensure!(!self.formats()?.committed, "it is refused, and was done"),
        }
        Ok(())
    }
}

/// The output of `ashlar array upgrade`.
struct Formats {
    committed: bool,
    engine: u64,
    blocked: Option<String>,
}
