//! The scrub: reads and verifies everything in use in the background, and repairs what is wrong. Its progress and last
//! result are a record, so it resumes after a restart.

use crate::configuration::Configuration;
use crate::events::bus::EventBus;
use crate::parts::env::Env;
use crate::parts::machine::Machine;
use crate::service::condition::{self, Conditions};
use crate::service::jobs::Jobs;
use crate::shape::view::{Job, JobKind, JobState};
use crate::{Error, Result};
use engine::Engine;
use history::Severity;
use parking_lot::Mutex;
use records::{Config, Record, Scrub, Topic};
use shelf::pool::{Pool, ScrubReport};
use std::sync::Arc;

/// How often its place is stored, in seconds.
const STORE_INTERVAL_SECONDS: u64 = 30;
/// How long one that could not begin by itself rests, in seconds.
const RETRY_SECONDS: u64 = 600;
/// How far a clock may be set back without a scrub for it, in seconds.
const MAX_AHEAD_SECONDS: u64 = 86_400;

/// A scrub with what another part of it has found.
fn with_part(scrub: &Scrub, next: u32, part: &ScrubReport) -> Scrub {
    Scrub {
        next,
        segments: scrub.segments + part.segments,
        bytes: scrub.bytes + part.bytes,
        errors: scrub.errors + part.errors,
        repaired: scrub.repaired + part.repaired,
        lost: scrub.lost + part.lost,
        ..scrub.clone()
    }
}

/// A scrub under way, shared with those who do it.
#[derive(Debug)]
struct Scrubbing {
    /// Where this start of it began.
    begin: Scrub,
    now: Mutex<Progress>,
    stored: Mutex<u64>,
}

#[derive(Debug, Default)]
struct Progress {
    next: u32,
    seen: ScrubReport,
    cancelled: bool,
    over: bool,
}

impl Scrubbing {
    /// How far it is, and whether it is over.
    fn now(&self) -> (Scrub, bool) {
        let now = self.now.lock();
        (Scrub { cancelled: now.cancelled, ..with_part(&self.begin, now.next, &now.seen) }, now.over)
    }
}

/// The scrub under way, when the next one is due, and what the last one found.
pub(crate) struct Scrubs {
    env: Arc<Env>,
    bus: Arc<EventBus>,
    configuration: Arc<Configuration>,
    jobs: Arc<Jobs>,
    engine: Arc<Engine>,
    pool: Arc<dyn Pool>,
    machine: Arc<dyn Machine>,
    /// When the array was made, in seconds since 1970.
    created: u64,
    under_way: Mutex<Option<Arc<Scrubbing>>>,
    /// When the scrub that was due could not begin, in seconds since 1970.
    failed: Mutex<Option<u64>>,
}

impl Scrubs {
    pub fn new(
        (env, bus, configuration): (Arc<Env>, Arc<EventBus>, Arc<Configuration>),
        jobs: Arc<Jobs>,
        (engine, pool, machine): (Arc<Engine>, Arc<dyn Pool>, Arc<dyn Machine>),
        created: u64,
    ) -> Self {
        let (under_way, failed) = (Mutex::default(), Mutex::default());
        Self { env, bus, configuration, jobs, engine, pool, machine, created, under_way, failed }
    }

    /// Whether one is to begin by itself now: it is time, and nothing is at risk.
    pub fn is_due(&self) -> bool {
        let now = self.env.seconds();
        let (every, next) = {
            let config = self.configuration.read();
            (config.settings.scrub_seconds, self.next(&config))
        };
        // Later than ever: the last one ended by a clock that was wrong.
        let due = next.is_some_and(|time| time <= now || time > now + every + MAX_AHEAD_SECONDS);
        let rests = || self.failed.lock().is_some_and(|since| now.abs_diff(since) < RETRY_SECONDS);
        due && !rests() && self.engine.stopped().is_none() && self.pool.status().degraded_segments == 0
    }

    /// Whether the one that was due began; if it did not, it rests for a while.
    pub fn note_start(&self, begun: bool) {
        *self.failed.lock() = (!begun).then(|| self.env.seconds());
    }

    /// A new scrub of a user, to be committed before it runs.
    ///
    /// # Errors
    /// When one is under way.
    pub fn new_scrub(&self, user: &str) -> Result<Scrub> {
        match self.under_way.lock().is_some() {
            true => Err(Error::conflict("a scrub is under way already: see the jobs")),
            false => Ok(Scrub { started: self.env.seconds(), user: user.into(), ..Scrub::default() }),
        }
    }

    /// Ends the scrub under way, after the segment that it is at.
    ///
    /// # Errors
    /// When none is under way.
    pub fn cancel(&self) -> Result<()> {
        let scrubbing = self.under_way.lock().clone();
        let scrubbing = scrubbing.ok_or_else(|| Error::precondition("no scrub is under way"))?;
        scrubbing.now.lock().cancelled = true;
        self.jobs.update(JobKind::Scrub, None, |job| job.state = JobState::Cancelled);
        Ok(())
    }

    /// The scrub under way, or the last one.
    pub fn last(&self, config: &Config) -> Option<Scrub> {
        let under_way = self.under_way.lock().as_ref().map(|it| it.now().0);
        under_way.or_else(|| config.scrub.clone())
    }

    /// When the next scrub begins by itself, in seconds since 1970; none while one is under way, and when none will.
    pub fn next(&self, config: &Config) -> Option<u64> {
        let every = config.settings.scrub_seconds;
        let last = match &config.scrub {
            Some(scrub) => scrub.ended?,
            None => self.created,
        };
        (every > 0).then(|| last.saturating_add(every))
    }

    /// What the last scrub found is worth an alert until one finds nothing; `before`: what was found at the last look.
    pub fn conditions(&self, before: &Conditions) -> Conditions {
        match self.last(&self.configuration.read()) {
            // What was wrong may be wrong still while another one looks.
            Some(scrub) if scrub.ended.is_none() && scrub.errors == 0 && scrub.lost == 0 => before.clone(),
            Some(scrub) => condition::of_scrub(&scrub),
            None => Conditions::default(),
        }
    }

    /// Resumes a scrub that was under way when the array went down.
    pub fn resume(&self) {
        let scrub = self.configuration.read().scrub.clone();
        if let Some(scrub) = scrub.filter(|scrub| scrub.ended.is_none()) {
            self.run(scrub);
        }
    }

    /// Runs a scrub from where it is to its end, in the background; returns its job.
    pub fn run(&self, begin: Scrub) -> Job {
        let job = self.jobs.begin(
            JobKind::Scrub,
            None,
            "read and verify everything on the drives".into(),
            &begin.user,
        );
        let next = begin.next;
        let now = Mutex::new(Progress { next, ..Progress::default() });
        let stored = Mutex::new(self.env.seconds());
        let scrubbing = Arc::new(Scrubbing { begin, now, stored });
        *self.under_way.lock() = Some(scrubbing.clone());
        let pool = self.pool.clone();
        self.machine.spawn(Box::pin(async move {
            let step = |segment: u32, seen: &ScrubReport| {
                let mut now = scrubbing.now.lock();
                (now.next, now.seen) = (segment, *seen);
                !now.cancelled
            };
            let seen = pool.scrub(next, Box::new(step)).await;
            let mut now = scrubbing.now.lock();
            (now.seen, now.over) = (seen, true);
        }));
        job
    }

    /// Follows the progress of the scrub, stores it now and then, and logs its result.
    pub async fn watch(&self) {
        let Some(scrubbing) = self.under_way.lock().clone() else { return };
        let (mut scrub, over) = scrubbing.now();
        if self.engine.stopped().is_some() {
            // The shelf reads nothing any more. The record says where the scrub is resumed.
            return;
        }
        let now = self.env.seconds();
        if over {
            scrub.ended = Some(now);
        } else {
            let total = self.pool.layout().segments.max(1);
            let progress = (f64::from(scrub.next) / f64::from(total) * 100.0).floor() / 100.0;
            self.jobs.update(JobKind::Scrub, None, |job| job.progress = progress.min(0.99));
        }
        let due = scrubbing.stored.lock().saturating_add(STORE_INTERVAL_SECONDS) <= now;
        if over || due {
            // A place that is not stored is read again after a restart.
            if let Err(error) = self.configuration.store_progress(Record::Scrub(scrub.clone())).await {
                tracing::error!(%error, "how far the scrub is can't be stored");
            }
            *scrubbing.stored.lock() = now;
        }
        if over {
            *self.under_way.lock() = None;
            self.log_result(&scrub);
        }
    }

    fn log_result(&self, scrub: &Scrub) {
        let found = found(scrub);
        let (kind, severity) = match scrub.lost {
            0 => ("scrub.finished", Severity::Info),
            _ => ("scrub.finished", Severity::Critical),
        };
        self.bus.log_event(severity, kind, None, result_message(scrub));
        self.jobs.update(JobKind::Scrub, None, |job| {
            job.state = if scrub.cancelled { JobState::Cancelled } else { JobState::Done };
            if !scrub.cancelled {
                job.progress = 1.0;
            }
            job.message = Some(found);
        });
        self.bus.publish_change(Topic::Drives);
    }
}

fn found(scrub: &Scrub) -> String {
    match (scrub.errors, scrub.lost) {
        (0, 0) => "nothing was wrong".to_owned(),
        (errors, lost) => {
            format!("{errors} pages were wrong, {} were written again, {lost} are lost", scrub.repaired)
        }
    }
}

/// What the event of the end of a scrub says.
pub(crate) fn result_message(scrub: &Scrub) -> String {
    let end = if scrub.cancelled { "was cancelled" } else { "is finished" };
    format!("the scrub {end}: {} bytes read, {}", scrub.bytes, found(scrub))
}
