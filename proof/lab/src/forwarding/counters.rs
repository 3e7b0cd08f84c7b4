//! Counters in separate blocks, which a host at a front end advances by COMPARE AND WRITE while the home dies.
//!
//! An acknowledged step has taken effect once, a refused one has not. So a counter never miscompares: no step takes
//! effect without an acknowledgement, or twice.

use super::{ABORTED_COMMAND, BLOCK_BYTES, BUSY, UNIT_ATTENTION};
use crate::cdb;
use crate::libiscsi::{Command, Completion, Ending, Session, wait};
use anyhow::{Result, bail, ensure};
use std::collections::BTreeMap;

pub const COUNTERS: usize = 8;
/// Block of the first counter; others write the blocks before.
const FIRST_LBA: u64 = 8192;
/// Tag of the first counter's step.
pub const FIRST_TAG: u64 = u64::MAX / 2;
const MISCOMPARE: u8 = 0x0E;

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Counted,
    /// The step has not taken effect.
    Refused,
    /// It is unknown whether the step has taken effect; it has no later effect.
    Open,
}

/// The counters, from the view of the host.
#[derive(Default)]
pub struct Counters {
    values: [u64; COUNTERS],
    /// Steps in flight, by tag.
    under_way: BTreeMap<u64, usize>,
    /// Steps with an unknown effect.
    open: Vec<usize>,
    /// Number of acknowledged steps.
    pub counted: u64,
    /// Number of acknowledged steps that were in flight when the home died.
    pub crossed: u64,
    /// Number of refused steps that were in flight when the home died.
    pub refused: u64,
}

fn lba(counter: usize) -> u64 {
    FIRST_LBA + counter as u64
}

fn block(value: u64) -> Vec<u8> {
    value.to_le_bytes().into_iter().cycle().take(BLOCK_BYTES as usize).collect()
}

fn look(counter: usize) -> Command {
    cdb::read(1, lba(counter), 1, BLOCK_BYTES)
}

impl Counters {
    /// Sends a step of each counter, and waits for `answered` responses.
    pub fn begin(&mut self, session: &mut Session, answered: usize) -> Result<()> {
        self.step_all(session)?;
        session.service(libc::POLLOUT).map(|ended| self.take(ended))??;
        self.wait_for(session, COUNTERS.saturating_sub(answered))?;
        Ok(())
    }

    /// Sends a step of each idle counter with a known value.
    pub fn step_all(&mut self, session: &mut Session) -> Result<()> {
        for counter in 0..COUNTERS {
            let tag = FIRST_TAG + counter as u64;
            if self.under_way.contains_key(&tag) || self.open.contains(&counter) {
                continue;
            }
            let value = self.values[counter];
            let data = [block(value), block(value + 1)].concat();
            session.submit(tag, cdb::compare_and_write(1, lba(counter), 1, data))?;
            self.under_way.insert(tag, counter);
        }
        Ok(())
    }

    /// True if no step is in flight.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Waits for all steps that were in flight when the home died.
    pub fn finish(&mut self, session: &mut Session) -> Result<()> {
        let (counted, left, open) = (self.counted, self.under_way.len(), self.open.len());
        self.wait_for(session, 0)?;
        let crossed = self.counted - counted;
        self.crossed += crossed;
        self.refused += (left - (self.open.len() - open)) as u64 - crossed;
        for counter in std::mem::take(&mut self.open) {
            let (found, value) = (self.found(session, counter)?, self.values[counter]);
            ensure!(
                found == value || found == value + 1,
                "counter {counter} is {found}, not {value} or one more"
            );
            self.values[counter] = found;
        }
        Ok(())
    }

    /// Checks that all counters have the acknowledged value.
    pub fn verify(&self, session: &mut Session) -> Result<()> {
        for (counter, value) in self.values.into_iter().enumerate() {
            let found = self.found(session, counter)?;
            ensure!(found == value, "counter {counter} is {found}, and {value} was acknowledged");
        }
        Ok(())
    }

    fn found(&self, session: &mut Session, counter: usize) -> Result<u64> {
        loop {
            match session.perform(look(counter))? {
                Ending::Good(data) => match data.first_chunk() {
                    Some(bytes) => return Ok(u64::from_le_bytes(*bytes)),
                    None => bail!("a read without data"),
                },
                Ending::Status(BUSY) | Ending::Check { key: UNIT_ATTENTION, .. } => {}
                other => bail!("counter {counter} can't be read: {other:?}"),
            }
        }
    }

    /// Takes responses until at most `left` steps are in flight.
    fn wait_for(&mut self, session: &mut Session, left: usize) -> Result<()> {
        while self.under_way.len() > left {
            let mut poll = [session.pollfd()];
            wait(&mut poll, 1000)?;
            let ended = session.service(poll[0].revents)?;
            self.take(ended)?;
        }
        Ok(())
    }

    /// Processes the responses of steps.
    pub fn take(&mut self, ended: Vec<Completion>) -> Result<()> {
        for Completion { tag, ending } in ended {
            let Some(counter) = self.under_way.remove(&tag) else { continue };
            match step(counter, &ending)? {
                Step::Counted => {
                    self.values[counter] += 1;
                    self.counted += 1;
                }
                Step::Refused => {}
                Step::Open => self.open.push(counter),
            }
        }
        Ok(())
    }
}

fn step(counter: usize, ending: &Ending) -> Result<Step> {
    match ending {
        Ending::Good(_) => Ok(Step::Counted),
        Ending::Status(BUSY) | Ending::Check { key: UNIT_ATTENTION, .. } => Ok(Step::Refused),
        Ending::Check { key: ABORTED_COMMAND, .. } => Ok(Step::Open),
        Ending::Check { key: MISCOMPARE, .. } => {
            bail!("counter {counter} miscompares: a step took effect that was not acknowledged, or twice")
        }
        other => bail!("a step of counter {counter} ended with {other:?}"),
    }
}
