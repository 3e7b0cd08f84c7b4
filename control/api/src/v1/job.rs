//! Work that takes long.

use super::{Answer, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Named};
use crate::list::{Part, PartialList, list};
use crate::problem::{Problem, Problems};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(list_jobs)).routes(routes!(show_job)).routes(routes!(cancel_job))
}

/// Work that takes long.
#[derive(Debug, Serialize, ToSchema)]
pub struct Job {
    /// Eight hex digits.
    id: String,
    /// What kind of work it is.
    kind: JobKind,
    /// The slot of the drive that it is about; `null` when it is about none.
    slot: Option<usize>,
    /// What it does, for people.
    what: String,
    /// Who asked for it; `array` for what nobody asked for.
    user: String,
    /// When it began.
    #[schema(format = DateTime)]
    started: String,
    /// When it ended; `null` while it runs.
    #[schema(format = DateTime)]
    ended: Option<String>,
    /// How far it is.
    state: JobState,
    /// The part that is done, 0 to 1.
    progress: f64,
    /// What came of it, for people; `null` while there is nothing to say.
    message: Option<String>,
}

/// A kind of work.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// A drive is emptied, as asked for.
    Evacuate,
    /// What a drive held that is out is placed on the others; can't be cancelled.
    Rebuild,
    /// Everything in use is read and verified.
    Scrub,
}

/// How far a job is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
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

/// Jobs.
#[derive(Debug, Serialize, ToSchema)]
pub struct Jobs {
    /// The newest last, or as asked for.
    pub items: Vec<Job>,
    /// How many there are without `limit` and `offset`.
    pub total: usize,
}

/// Work that takes long
///
/// What is under way goes on after a restart; what has ended is forgotten then.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(Part), responses(
    (status = 200, description = "The jobs", content(
        (Jobs = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_jobs(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let jobs = perform(operator, &context, array::ListJobs).await?;
    list(jobs.into_iter().map(Job::from).collect(), &part)
}

/// One job
#[utoipa::path(get, path = "/api/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path,)), responses(
    (status = 200, description = "The job as it is now", body = Job),
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

/// End a job before it is done
#[utoipa::path(post, path = "/api/v1/jobs/{id}/cancel", tag = "jobs", params(("id" = String, Path,)), responses(
    (status = 200, description = "The job as it is now", body = Job),
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
            what: job.what,
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
