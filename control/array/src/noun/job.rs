//! Operator requests about jobs.

use crate::array::transaction::Transaction;
use crate::request::verbs;
use crate::shape::view::{Job, JobKind, JobState};
use crate::{Error, Result};

verbs! {
    #![tag = "jobs"]

    /// List jobs
    ///
    /// Running jobs continue after a restart. Completed jobs are not listed after a restart.
    ListJobs {} -> Vec<Job>, Read "list" "job", Viewer, at GET "/jobs"
        => |tx, _| Ok(tx.array.jobs.list());
    /// Get a job
    ShowJob { id } -> Job, Read "show" "job", Viewer, about id, at GET "/jobs/{id}"
        => |tx, it| tx.array.jobs.get(&it.id);
    /// Cancel a job
    CancelJob { id } -> Job, Change "cancel" "job", Operator, about id, at POST "/jobs/{id}/cancel"
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
