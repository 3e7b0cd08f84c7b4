//! Reservations, one at a time: a host registers a key on all of its paths, reserves a unit, holds it for a while,
//! releases it and removes its keys, while hosts keep sending commands.

use super::checker::Checker;
use super::port::Request;
use crate::cdb::Exclusive;
use crate::host::Outcome;
use anyhow::{Context, Result, bail};

/// Maximum number of responses while a reservation is held.
const MAX_HELD_ANSWERS: u64 = 400;
/// Base of keys; the number of the host is added.
const KEY: u64 = 0x6c61_6200;

/// A reservation in progress.
pub struct Episode {
    host: usize,
    unit: usize,
    kind: Exclusive,
    persistent: bool,
    step: Step,
    /// Outstanding commands of this step.
    waiting: usize,
    /// Paths whose command of this step must be repeated.
    again: Vec<usize>,
    /// Whether the step has begun.
    begun: bool,
    /// Whether the target lacks reservations.
    given_up: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Register,
    Reserve,
    /// Holds until this number of responses.
    Hold(u64),
    Release,
    Remove,
}

impl Checker {
    /// Continues the current reservation, or begins one.
    pub(super) fn advance_reservation(&mut self) -> Result<()> {
        let Some(mut episode) = self.episode().take() else {
            let Some(persistent) = self.may_reserve() else { return Ok(()) };
            let (hosts, units) = (self.hosts() as u64, self.units.len() as u64);
            let host = self.seed().range(0, hosts) as usize;
            let unit = self.seed().range(0, units) as usize;
            let kind = if self.seed().one_in(2) { Exclusive::Writes } else { Exclusive::Access };
            let step = Step::Register;
            let (again, begun, given_up) = (Vec::new(), false, false);
            let episode = Episode { host, unit, kind, persistent, step, waiting: 0, again, begun, given_up };
            *self.episode() = Some(episode);
            return Ok(());
        };
        // Keys are registered by path, so a host with a lost path waits for it.
        let Some(paths) = self.paths_of(episode.host).filter(|_| episode.waiting == 0) else {
            *self.episode() = Some(episode);
            return Ok(());
        };
        if episode.given_up {
            self.give_up_reservations();
            return Ok(());
        }
        if episode.begun && episode.again.is_empty() {
            let Some(next) = self.next_step(&episode) else {
                self.report.reservations += 1;
                return Ok(());
            };
            (episode.step, episode.begun) = (next, false);
        }
        if let Step::Hold(until) = episode.step {
            episode.begun = self.report.answered >= until || self.is_closing();
            *self.episode() = Some(episode);
            return Ok(());
        }
        self.begin_step(episode, &paths)
    }

    fn begin_step(&mut self, mut episode: Episode, paths: &[usize]) -> Result<()> {
        let Episode { host, unit, kind, persistent, step, .. } = episode;
        let key = KEY + host as u64;
        let (request, some) = match step {
            Step::Register => (Request::Register { key, persistent }, paths),
            Step::Reserve => (Request::Reserve { key, kind }, &paths[..1]),
            Step::Release => (Request::Release { key, kind }, &paths[..1]),
            Step::Remove | Step::Hold(_) => (Request::Register { key: 0, persistent }, paths),
        };
        if !episode.begun && matches!(step, Step::Reserve | Step::Release) {
            let now = self.tick();
            let reservation = (step == Step::Reserve).then_some((host, kind));
            self.units[unit].reservation.begin(reservation, now);
        }
        let some = if episode.begun { std::mem::take(&mut episode.again) } else { some.to_vec() };
        (episode.begun, episode.waiting) = (true, some.len());
        *self.episode() = Some(episode);
        some.into_iter().try_for_each(|path| self.send_reservation(path, unit, request.clone()))
    }

    fn next_step(&mut self, episode: &Episode) -> Option<Step> {
        match episode.step {
            Step::Register => Some(Step::Reserve),
            Step::Reserve => {
                let held = self.seed().range(1, MAX_HELD_ANSWERS);
                Some(Step::Hold(self.report.answered + held))
            }
            Step::Hold(_) => Some(Step::Release),
            Step::Release => Some(Step::Remove),
            Step::Remove => None,
        }
    }

    /// Processes the end of a reservation command.
    pub(super) fn reservation_ended(&mut self, path: usize, outcome: Option<Outcome>) -> Result<()> {
        let now = self.tick();
        let faults = self.tolerates_faults();
        let mut episode = self.episode().take().context("no reservation is under way")?;
        episode.waiting -= 1;
        let unit = &mut self.units[episode.unit];
        match outcome {
            Some(Outcome::Good(_)) => {
                if matches!(episode.step, Step::Reserve | Step::Release) {
                    unit.reservation.settle(now);
                }
            }
            Some(Outcome::Busy) => episode.again.push(path),
            // Another path of the host removed it, if keys belong to hosts.
            Some(Outcome::Conflict) if episode.step == Step::Remove => {}
            None if faults => episode.again.push(path),
            Some(Outcome::Failed(_)) if faults => episode.again.push(path),
            Some(Outcome::Unsupported) if episode.step == Step::Register => {
                (episode.given_up, episode.persistent) = (!episode.persistent, false);
                episode.again.push(path);
            }
            other => bail!("a step of a reservation ended with {other:?}"),
        }
        *self.episode() = Some(episode);
        Ok(())
    }
}
