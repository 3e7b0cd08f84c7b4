//! Background jobs.

use super::handler::{Answer, operations, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Named};
use crate::list::{List, PartialList, list};
use crate::problem::{Problem, Problems};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_jobs: ListJobs))
        .routes(operations!(show_job: ShowJob))
        .routes(operations!(cancel_job: CancelJob))
}

/// A background job.
#[derive(Debug, Serialize, ToSchema)]
pub struct Job {
    /// Identifier: eight hex digits.
    id: String,
    /// Kind of job.
    kind: JobKind,
    /// Slot of the drive concerned; `null` if none is.
    slot: Option<usize>,
    /// Description.
    description: String,
    /// User who started it; `array` if the array did.
    user: String,
    /// Start time.
    #[schema(format = DateTime)]
    started: String,
    /// End time; `null` while it runs.
    #[schema(format = DateTime)]
    ended: Option<String>,
    /// State.
    state: JobState,
    /// Completed fraction, 0 to 1.
    #[schema(extensions(("x-unit" = json!("fraction"))))]
    progress: f64,
    /// Result in words; `null` if there is none yet.
    message: Option<String>,
}

/// Kind of job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// Evacuation of a drive, started by a user.
    Evacuate,
    /// Rebuild of the data of a failed drive. Cannot be cancelled.
    Rebuild,
    /// Scrub: all data in use is read and verified.
    Scrub,
}

/// State of a job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// In progress.
    Running,
    /// Completed successfully.
    Done,
    /// Failed; see `message`.
    Failed,
    /// Cancelled by a user.
    Cancelled,
}

/// Jobs.
#[derive(Debug, Serialize, ToSchema)]
pub struct Jobs {
    /// Newest last unless `sort` is given.
    pub items: Vec<Job>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

/// List jobs
///
/// Running jobs continue after a restart. Completed jobs are not listed after a restart.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(List), responses(
    (status = 200, description = "The jobs", content(
        (Jobs = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_jobs(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
) -> Result<Response, Problem> {
    let jobs = perform(operator, &context, array::ListJobs).await?;
    list(jobs.into_iter().map(Job::from).collect(), part)
}

/// Get a job
#[utoipa::path(get, path = "/api/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path,)), responses(
    (status = 200, description = "The job", body = Job),
    Problems,
))]
async fn show_job(
    operator: Operator,
    State(context): State<Context>,
    Named(id): Named<String>,
) -> Answer<Job> {
    let it = perform(operator, &context, array::ShowJob { id }).await?;
    Ok(Json(it.into()))
}

/// Cancel a job
#[utoipa::path(post, path = "/api/v1/jobs/{id}/cancel", tag = "jobs", params(("id" = String, Path,)), responses(
    (status = 200, description = "The job", body = Job),
    Problems,
))]
async fn cancel_job(
    operator: Operator,
    State(context): State<Context>,
    Named(id): Named<String>,
) -> Answer<Job> {
    let it = perform(operator, &context, array::CancelJob { id }).await?;
    Ok(Json(it.into()))
}

impl From<array::Job> for Job {
    fn from(job: array::Job) -> Self {
        Self {
            id: job.id,
            kind: match job.kind {
                array::JobKind::Evacuate => JobKind::Evacuate,
                array::JobKind::Rebuild => JobKind::Rebuild,
                array::JobKind::Scrub => JobKind::Scrub,
            },
            slot: job.slot,
            description: job.what,
            user: job.user,
            started: utc(job.started),
            ended: job.ended.map(utc),
            state: match job.state {
                array::JobState::Running => JobState::Running,
                array::JobState::Done => JobState::Done,
                array::JobState::Failed => JobState::Failed,
                array::JobState::Cancelled => JobState::Cancelled,
            },
            progress: job.progress,
            message: job.message,
        }
    }
}
