//! Jobs: long-running work with progress. Evacuations and rebuilds are known from the drives and the scrub from its
//! record, so they resume after a restart; jobs that have ended are forgotten then.

use crate::array::{Array, Transaction, Update};
use crate::drive::called;
use crate::verb::verbs;
use crate::{Error, Result};
use serde::Serialize;
use shelf::pool::{DriveState, DriveStatus, PoolStatus};
use std::collections::VecDeque;

/// Jobs that have ended and are still listed.
const MAX_ENDED: usize = 100;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// A drive is emptied, as asked for.
    Evacuate,
    /// What a drive held that is out is placed on the others.
    Rebuild,
    /// Everything in use is read and verified.
    Scrub,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Not at its end.
    Running,
    /// It did what it was to do.
    Done,
    /// It could not; the message says why.
    Failed,
    /// Somebody ended it.
    Cancelled,
}

/// Work that takes long.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Eight hex digits.
    pub id: String,
    /// What it does.
    pub kind: JobKind,
    /// The slot of the drive that it is about.
    pub slot: Option<usize>,
    /// What it does, for people.
    pub what: String,
    /// The user who started it; `array` for what the array started.
    pub user: String,
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// When it ended, in seconds since 1970.
    pub ended: Option<u64>,
    /// How far it is.
    pub state: JobState,
    /// The part that is done, 0 to 1.
    pub progress: f64,
    /// What came of it, for people.
    pub message: Option<String>,
}

/// The jobs, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    list: VecDeque<Job>,
    /// Bytes that were to be placed elsewhere when a job about a drive began, by slot.
    placing: Vec<(usize, u64)>,
}

impl Jobs {
    fn running(&mut self, kind: JobKind, slot: Option<usize>) -> Option<&mut Job> {
        let wanted = |job: &&mut Job| job.kind == kind && job.slot == slot && job.state == JobState::Running;
        self.list.iter_mut().rev().find(wanted)
    }

    fn forget_old(&mut self) {
        while self.list.iter().filter(|job| job.state != JobState::Running).count() > MAX_ENDED {
            let oldest = self.list.iter().position(|job| job.state != JobState::Running);
            oldest.and_then(|oldest| self.list.remove(oldest));
        }
    }
}

/// All jobs, the newest last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListJobs;

/// One job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowJob {
    /// Its identity.
    pub id: String,
}

/// Cancel a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CancelJob {
    /// Its identity.
    pub id: String,
}

verbs! {
    ListJobs -> Vec<Job>, Read "list" "job", Viewer
        => |tx, _| Ok(tx.array.list_jobs());
    ShowJob -> Job, Read "show" "job", Viewer, about id
        => |tx, it| tx.array.job(&it.id);
    CancelJob -> Job, Change "cancel" "job", Operator, about id
        => |tx, it| tx.cancel_job(&it.id).await;
}

impl Array {
    pub(crate) fn list_jobs(&self) -> Vec<Job> {
        self.jobs.lock().list.iter().cloned().collect()
    }

    pub(crate) fn job(&self, id: &str) -> Result<Job> {
        let found = self.jobs.lock().list.iter().find(|job| job.id == id).cloned();
        found.ok_or_else(|| Error::not_found(format!("there is no job {id:?}: it may be long over")))
    }

    /// The newest job about a drive.
    pub(crate) fn job_about(&self, kind: JobKind, slot: usize) -> Option<Job> {
        let jobs = self.jobs.lock();
        jobs.list.iter().rev().find(|job| job.kind == kind && job.slot == Some(slot)).cloned()
    }

    pub(crate) fn begin_job(&self, kind: JobKind, slot: Option<usize>, what: String, user: &str) -> Job {
        let job = Job {
            id: format!("{:08x}", (self.env.random)() as u32),
            kind,
            slot,
            what,
            user: user.into(),
            started: self.env.seconds(),
            ended: None,
            state: JobState::Running,
            progress: 0.0,
            message: None,
        };
        {
            let mut jobs = self.jobs.lock();
            jobs.list.push_back(job.clone());
            jobs.forget_old();
        }
        self.publish(Update::Job(job.clone()));
        job
    }

    /// Changes the running job of this kind, and publishes it if it has changed.
    pub(crate) fn change_job(&self, kind: JobKind, slot: Option<usize>, change: impl FnOnce(&mut Job)) {
        let told = {
            let mut jobs = self.jobs.lock();
            let Some(job) = jobs.running(kind, slot) else { return };
            let before = job.clone();
            change(job);
            if job.state != JobState::Running {
                job.ended = Some(self.env.seconds());
            }
            (*job != before).then(|| job.clone())
        };
        if let Some(job) = told {
            self.publish(Update::Job(job));
        }
    }

    /// A drive is being emptied, or what it held is rebuilt.
    pub(crate) fn begin_placing(&self, kind: JobKind, drive: &DriveStatus, user: &str) {
        let what = match kind {
            JobKind::Evacuate => format!("empty {}", called(drive)),
            _ => format!("rebuild what {} held", called(drive)),
        };
        self.jobs.lock().placing.push((drive.slot, drive.used_bytes.max(1)));
        self.begin_job(kind, Some(drive.slot), what, user);
    }

    pub(crate) fn end_placing(&self, slot: usize, state: JobState, message: Option<&str>) {
        self.jobs.lock().placing.retain(|(placing, _)| *placing != slot);
        for kind in [JobKind::Evacuate, JobKind::Rebuild] {
            self.change_job(kind, Some(slot), |job| {
                job.state = state;
                job.message = message.map(str::to_owned);
                if state == JobState::Done {
                    job.progress = 1.0;
                }
            });
        }
    }

    /// Looks how far what is being placed elsewhere is.
    pub(crate) fn watch_placing(&self, status: &PoolStatus) {
        let placing = self.jobs.lock().placing.clone();
        for (slot, total) in placing {
            let drive = status.drives.iter().find(|drive| drive.slot == slot);
            let evacuation = self.jobs.lock().running(JobKind::Evacuate, Some(slot)).is_some();
            match drive.map(|drive| (drive.state, drive.used_bytes)) {
                Some((DriveState::Failed, _)) if evacuation => {
                    self.end_placing(
                        slot,
                        JobState::Failed,
                        Some("the drive failed: what it held is rebuilt"),
                    );
                }
                Some((DriveState::Draining | DriveState::Failed, left)) if left > 0 || evacuation => {
                    let progress = 1.0 - left.min(total) as f64 / total as f64;
                    let kind = if evacuation { JobKind::Evacuate } else { JobKind::Rebuild };
                    // Hundredths are as fine as anybody looks.
                    let progress = (progress * 100.0).floor() / 100.0;
                    self.change_job(kind, Some(slot), |job| job.progress = job.progress.max(progress));
                }
                _ => self.end_placing(slot, JobState::Done, None),
            }
        }
        let known: Vec<usize> = self.jobs.lock().placing.iter().map(|(slot, _)| *slot).collect();
        for drive in status.drives.iter().filter(|drive| !known.contains(&drive.slot)) {
            match drive.state {
                DriveState::Draining => self.begin_placing(JobKind::Evacuate, drive, "array"),
                DriveState::Failed if drive.used_bytes > 0 => {
                    self.begin_placing(JobKind::Rebuild, drive, "array");
                }
                _ => {}
            }
        }
    }
}

impl Transaction<'_> {
    pub async fn cancel_job(&mut self, id: &str) -> Result<Job> {
        let job = self.array.job(id)?;
        if job.state != JobState::Running {
            return Err(Error::precondition(format!("job {id} has ended already")));
        }
        match (job.kind, job.slot) {
            (JobKind::Evacuate, Some(slot)) => self.keep_drive(slot).await?,
            (JobKind::Scrub, _) => self.end_scrub().await?,
            _ => {
                return Err(Error::precondition(format!(
                    "job {id} can't be cancelled: data without their protection are rebuilt whatever is asked for"
                )));
            }
        }
        Ok(self.array.job(id)?)
    }
}
