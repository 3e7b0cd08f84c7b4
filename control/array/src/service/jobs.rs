//! Jobs: long-running work with progress. Evacuations and rebuilds are known from the drives and the scrub from its
//! record, so they resume after a restart; jobs that have ended are forgotten then.

use crate::events::bus::{EventBus, Update};
use crate::parts::env::Env;
use crate::shape::view::{Job, JobKind, JobState, called};
use crate::{Error, Result};
use parking_lot::Mutex;
use shelf::pool::{DriveState, DriveStatus, PoolStatus};
use std::collections::VecDeque;
use std::sync::Arc;

/// Jobs that have ended and are still listed.
const MAX_ENDED: usize = 100;

/// The jobs that run, and those that ended since the start.
pub(crate) struct Jobs {
    env: Arc<Env>,
    bus: Arc<EventBus>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest last.
    list: VecDeque<Job>,
    /// Bytes to be moved off a drive when its job began, by slot.
    relocations: Vec<(usize, u64)>,
}

impl State {
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

impl Jobs {
    pub fn new(env: Arc<Env>, bus: Arc<EventBus>) -> Self {
        Self { env, bus, state: Mutex::default() }
    }

    /// All jobs, the newest last.
    pub fn list(&self) -> Vec<Job> {
        self.state.lock().list.iter().cloned().collect()
    }

    /// One job.
    pub fn get(&self, id: &str) -> Result<Job> {
        let found = self.state.lock().list.iter().find(|job| job.id == id).cloned();
        found.ok_or_else(|| Error::not_found(format!("there is no job {id:?}: it may be long over")))
    }

    /// The newest job of a kind about a drive, or about none.
    pub fn newest(&self, kind: JobKind, slot: Option<usize>) -> Option<Job> {
        let state = self.state.lock();
        state.list.iter().rev().find(|job| job.kind == kind && job.slot == slot).cloned()
    }

    /// Begins a job.
    pub fn begin(&self, kind: JobKind, slot: Option<usize>, description: String, user: &str) -> Job {
        let job = Job {
            id: format!("{:08x}", (self.env.random)() as u32),
            kind,
            slot,
            description,
            user: user.into(),
            started: self.env.seconds(),
            ended: None,
            state: JobState::Running,
            progress: 0.0,
            message: None,
        };
        {
            let mut state = self.state.lock();
            state.list.push_back(job.clone());
            state.forget_old();
        }
        self.publish(job.clone());
        job
    }

    /// Changes the running job of this kind, and publishes it if it has changed.
    pub fn update(&self, kind: JobKind, slot: Option<usize>, change: impl FnOnce(&mut Job)) {
        let changed = {
            let mut state = self.state.lock();
            let Some(job) = state.running(kind, slot) else { return };
            let before = job.clone();
            change(job);
            if job.state != JobState::Running {
                job.ended = Some(self.env.seconds());
            }
            (*job != before).then(|| job.clone())
        };
        changed.into_iter().for_each(|job| self.publish(job));
    }

    fn publish(&self, job: Job) {
        self.bus.publish(Update::Job(job));
    }

    /// Begins the evacuation or the rebuild of a drive.
    pub fn begin_relocation(&self, kind: JobKind, drive: &DriveStatus, user: &str) {
        let what = match kind {
            JobKind::Evacuate => format!("empty {}", called(drive)),
            _ => format!("rebuild what {} held", called(drive)),
        };
        self.state.lock().relocations.push((drive.slot, drive.used_bytes.max(1)));
        self.begin(kind, Some(drive.slot), what, user);
    }

    /// Ends the evacuation or the rebuild of a drive.
    pub fn end_relocation(&self, slot: usize, state: JobState, message: Option<&str>) {
        self.state.lock().relocations.retain(|(relocated, _)| *relocated != slot);
        for kind in [JobKind::Evacuate, JobKind::Rebuild] {
            self.update(kind, Some(slot), |job| {
                job.state = state;
                job.message = message.map(str::to_owned);
                if state == JobState::Done {
                    job.progress = 1.0;
                }
            });
        }
    }

    /// Follows evacuations and rebuilds by the state of the drives; finds those that the array began by itself.
    pub fn follow_relocations(&self, status: &PoolStatus) {
        let relocations = self.state.lock().relocations.clone();
        for (slot, total) in relocations {
            let drive = status.drives.iter().find(|drive| drive.slot == slot);
            let evacuation = self.state.lock().running(JobKind::Evacuate, Some(slot)).is_some();
            match drive.map(|drive| (drive.state, drive.used_bytes)) {
                Some((DriveState::Failed, _)) if evacuation => {
                    let message = "the drive failed: what it held is rebuilt";
                    self.end_relocation(slot, JobState::Failed, Some(message));
                }
                Some((DriveState::Evacuating | DriveState::Failed, left)) if left > 0 || evacuation => {
                    let progress = 1.0 - left.min(total) as f64 / total as f64;
                    let kind = if evacuation { JobKind::Evacuate } else { JobKind::Rebuild };
                    // Hundredths are as fine as anybody looks.
                    let progress = (progress * 100.0).floor() / 100.0;
                    self.update(kind, Some(slot), |job| job.progress = job.progress.max(progress));
                }
                _ => self.end_relocation(slot, JobState::Done, None),
            }
        }
        let known: Vec<usize> = self.state.lock().relocations.iter().map(|(slot, _)| *slot).collect();
        for drive in status.drives.iter().filter(|drive| !known.contains(&drive.slot)) {
            match drive.state {
                DriveState::Evacuating => self.begin_relocation(JobKind::Evacuate, drive, "array"),
                DriveState::Failed if drive.used_bytes > 0 => {
                    self.begin_relocation(JobKind::Rebuild, drive, "array");
                }
                _ => {}
            }
        }
    }
}
