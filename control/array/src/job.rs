//! Operator requests about jobs.

use crate::request::verbs;
use crate::transaction::Transaction;
use crate::view::{Job, JobKind, JobState};
use crate::{Error, Result};
use serde::Serialize;

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
        => |tx, _| Ok(tx.array.jobs.list());
    ShowJob -> Job, Read "show" "job", Viewer, about id
        => |tx, it| tx.array.jobs.get(&it.id);
    CancelJob -> Job, Change "cancel" "job", Operator, about id
        => |tx, it| tx.cancel_job(&it.id).await;
}

impl Transaction<'_> {
    pub async fn cancel_job(&mut self, id: &str) -> Result<Job> {
        let job = self.array.jobs.get(id)?;
        if job.state != JobState::Running {
            return Err(Error::precondition(format!("job {id} has ended already")));
        }
        match (job.kind, job.slot) {
            (JobKind::Evacuate, Some(slot)) => self.keep_drive(slot).await?,
            (JobKind::Scrub, _) => self.array.scrubs.cancel()?,
            _ => {
                return Err(Error::precondition(format!(
                    "job {id} can't be cancelled: data without their protection are rebuilt whatever is asked for"
                )));
            }
        }
        self.array.jobs.get(id)
    }
}
