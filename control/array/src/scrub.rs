//! The scrub: reads and verifies everything in use in the background, and repairs what is wrong. Its progress and last
//! result are a record, so it resumes after a restart.

use crate::array::{Array, Transaction, put, put_records};
use crate::caller::Caller;
use crate::condition::{self, Conditions};
use crate::verb::verbs;
use crate::view::{Job, JobKind, JobState};
use crate::{Error, Result};
use history::Severity;
use parking_lot::Mutex;
use records::{Config, Edit, Record, Scrub, Topic};
use serde::Serialize;
use shelf::pool::ScrubReport;
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
pub(crate) struct Scrubbing {
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

/// Read and verify everything on the drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StartScrub;

verbs! {
    StartScrub -> Job, Change "start" "scrub", Operator
        => |tx, _| tx.start_scrub().await;
}

impl Array {
    /// The scrub under way, or the last one.
    pub(crate) fn scrub(&self, config: &Config) -> Option<Scrub> {
        let under_way = self.scrubbing.lock().as_ref().map(|it| it.now().0);
        under_way.or_else(|| config.scrub.clone())
    }

    /// When the next scrub begins by itself, in seconds since 1970; none while one is under way, and when none will.
    pub(crate) fn next_scrub(&self, config: &Config) -> Option<u64> {
        let every = config.settings.scrub_seconds;
        let last = match &config.scrub {
            Some(scrub) => scrub.ended?,
            None => self.identity.created,
        };
        (every > 0).then(|| last.saturating_add(every))
    }

    /// Begins a scrub when it is time, and nothing is at risk: what is missing comes before what may be wrong.
    pub(crate) async fn scrub_when_due(&self) {
        let now = self.env.seconds();
        let every = self.config().settings.scrub_seconds;
        // Later than ever: the last one ended by a clock that was wrong.
        let due = self
            .next_scrub(&self.config())
            .is_some_and(|time| time <= now || time > now + every + MAX_AHEAD_SECONDS);
        let rests =
            || self.watched.lock().scrub_failed.is_some_and(|since| now.abs_diff(since) < RETRY_SECONDS);
        let parts = &self.parts;
        if !due || rests() || parts.engine.stopped().is_some() || parts.pool.status().degraded_segments > 0 {
            return;
        }
        let begun = self.perform(&Caller::array(), StartScrub).await;
        self.watched.lock().scrub_failed = begun.as_ref().err().map(|_| now);
        if let Err(error) = begun {
            let message = format!("the scrub that is due could not begin: {error}; it is tried again");
            self.log_event(Severity::Warning, "scrub.failed", None, message);
        }
    }

    /// What the last scrub found is worth an alert until one finds nothing; `before`: what was found at the last look.
    pub(crate) fn scrub_conditions(&self, before: &Conditions) -> Conditions {
        match self.scrub(&self.config()) {
            // What was wrong may be wrong still while another one looks.
            Some(scrub) if scrub.ended.is_none() && scrub.errors == 0 && scrub.lost == 0 => before.clone(),
            Some(scrub) => condition::of_scrub(&scrub),
            None => Conditions::default(),
        }
    }

    /// Goes on with a scrub that was under way when the array went down.
    pub(crate) fn resume_scrub(&self) {
        let scrub = self.config().scrub.clone();
        if let Some(scrub) = scrub.filter(|scrub| scrub.ended.is_none()) {
            self.run_scrub(scrub);
        }
    }

    fn run_scrub(&self, begin: Scrub) {
        self.jobs.begin(JobKind::Scrub, None, "read and verify everything on the drives".into(), &begin.user);
        let next = begin.next;
        let now = Mutex::new(Progress { next, ..Progress::default() });
        let stored = Mutex::new(self.env.seconds());
        let scrubbing = Arc::new(Scrubbing { begin, now, stored });
        *self.scrubbing.lock() = Some(scrubbing.clone());
        let pool = self.parts.pool.clone();
        self.parts.machine.spawn(Box::pin(async move {
            let step = |segment: u32, seen: &ScrubReport| {
                let mut now = scrubbing.now.lock();
                (now.next, now.seen) = (segment, *seen);
                !now.cancelled
            };
            let seen = pool.scrub(next, Box::new(step)).await;
            let mut now = scrubbing.now.lock();
            (now.seen, now.over) = (seen, true);
        }));
    }

    /// Follows the progress of the scrub, stores it now and then, and logs its result.
    pub(crate) async fn watch_scrub(&self) {
        let Some(scrubbing) = self.scrubbing.lock().clone() else { return };
        let (mut scrub, over) = scrubbing.now();
        if self.parts.engine.stopped().is_some() {
            // The shelf reads nothing any more. The record says where it goes on.
            return;
        }
        let now = self.env.seconds();
        if over {
            scrub.ended = Some(now);
        } else {
            let total = self.parts.pool.layout().segments.max(1);
            let progress = (f64::from(scrub.next) / f64::from(total) * 100.0).floor() / 100.0;
            self.jobs.update(JobKind::Scrub, None, |job| job.progress = progress.min(0.99));
        }
        let due = scrubbing.stored.lock().saturating_add(STORE_INTERVAL_SECONDS) <= now;
        if over || due {
            let _one_at_a_time = self.changing.lock().await;
            let record = Record::Scrub(scrub.clone());
            // A place that is not stored is read again after a restart.
            if let Err(error) = put_records(&self.parts.engine, vec![put(&self.parts.engine, &record)]).await
            {
                tracing::error!(%error, "how far the scrub is can't be stored");
            }
            *scrubbing.stored.lock() = now;
            self.configure(Edit::Put(record));
        }
        if over {
            *self.scrubbing.lock() = None;
            self.log_scrub_result(&scrub);
        }
    }

    fn log_scrub_result(&self, scrub: &Scrub) {
        let found = match (scrub.errors, scrub.lost) {
            (0, 0) => "nothing was wrong".to_owned(),
            (errors, lost) => {
                format!("{errors} pages were wrong, {} were written again, {lost} are lost", scrub.repaired)
            }
        };
        let (kind, severity) = match scrub.lost {
            0 => ("scrub.finished", Severity::Info),
            _ => ("scrub.finished", Severity::Critical),
        };
        let end = if scrub.cancelled { "was cancelled" } else { "is finished" };
        self.log_event(severity, kind, None, format!("the scrub {end}: {} bytes read, {found}", scrub.bytes));
        self.jobs.update(JobKind::Scrub, None, |job| {
            job.state = if scrub.cancelled { JobState::Cancelled } else { JobState::Done };
            if !scrub.cancelled {
                job.progress = 1.0;
            }
            job.message = Some(found);
        });
        self.publish_change(Topic::Drives);
    }
}

impl Transaction<'_> {
    pub async fn start_scrub(&mut self) -> Result<Job> {
        if self.array.scrubbing.lock().is_some() {
            return Err(Error::conflict("a scrub is under way already: see the jobs"));
        }
        let scrub = Scrub { started: self.now(), user: self.caller.user.clone(), ..Scrub::default() };
        self.commit(vec![Edit::Put(Record::Scrub(scrub.clone()))]).await?;
        self.array.run_scrub(scrub);
        let message = format!("a scrub was started by {}", self.caller.user);
        self.array.log_event(Severity::Info, "scrub.started", None, message);
        let job = self.array.jobs.newest(JobKind::Scrub, None);
        job.ok_or_else(|| Error::failed("the scrub runs", "and has no job"))
    }

    /// Ends the scrub under way, after the segment that it is at.
    pub async fn end_scrub(&mut self) -> Result<()> {
        let scrubbing = self.array.scrubbing.lock().clone();
        let scrubbing = scrubbing.ok_or_else(|| Error::precondition("no scrub is under way"))?;
        scrubbing.now.lock().cancelled = true;
        self.array.jobs.update(JobKind::Scrub, None, |job| {
            job.state = JobState::Cancelled;
        });
        Ok(())
    }
}
