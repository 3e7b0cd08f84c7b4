//! Snapshot schedules.

use super::handler::{Answer, Created, NoContent, no_content, operations, perform, utc};
use super::snapshot::{Snapshot, Snapshots, subject};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{List, PartialList, list};
use crate::problem::{Problem, Problems};
use array::SubjectName;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_schedules: ListSchedules, create_schedule: CreateSchedule))
        .routes(operations!(show_schedule: ShowSchedule, change_schedule: ChangeSchedule, delete_schedule: DeleteSchedule))
        .routes(operations!(run_schedule: RunSchedule))
}

/// A schedule rule: when to take a snapshot, and how many to retain.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// `hourly`, `daily`, `weekly`, `monthly`, `yearly`, or a cron expression of five fields: minute, hour, day, month,
    /// day of week. In the time zone of the array.
    #[schema(example = "hourly")]
    when: String,
    /// Number of snapshots to retain; older ones are eradicated.
    #[schema(minimum = 1, maximum = 10_000)]
    keep: u32,
}

/// A snapshot schedule.
#[derive(Debug, Serialize, ToSchema)]
pub struct Schedule {
    /// Name.
    name: String,
    /// Permanent identifier: 16 hex digits.
    id: String,
    /// Creation time.
    #[schema(format = DateTime)]
    created: String,
    /// Volume to snapshot; `null` for a group.
    volume: Option<String>,
    /// Volume group to snapshot, consistent across its volumes; `null` for a volume.
    group: Option<String>,
    /// Rules. Rules that are due at the same time share one snapshot; it is eradicated when no rule retains it.
    rules: Vec<Rule>,
    /// Retention lock: seconds during which a snapshot cannot be deleted.
    immutable_seconds: u64,
    /// Whether the schedule is active.
    enabled: bool,
    /// Next run; `null`: never.
    #[schema(format = DateTime)]
    next: Option<String>,
    /// Time of its newest snapshot; `null` if it has none.
    #[schema(format = DateTime)]
    last: Option<String>,
    /// Number of its snapshots.
    snapshots: usize,
}

/// Schedules.
#[derive(Debug, Serialize, ToSchema)]
pub struct Schedules {
    /// Sorted by name unless `sort` is given.
    pub items: Vec<Schedule>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

/// A new schedule for a `volume` or a `group`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSchedule {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Volume. Not allowed with `group`.
    volume: Option<String>,
    /// Volume group. Not allowed with `volume`.
    group: Option<String>,
    /// Rules, 1 to 16.
    rules: Vec<Rule>,
    /// Retention lock: seconds during which a snapshot cannot be deleted; default 0.
    #[serde(default)]
    immutable_seconds: u64,
    /// Whether the schedule is active; default true.
    enabled: Option<bool>,
}

/// Changes to a schedule. Omitted fields keep their values.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleChange {
    /// New name.
    name: Option<String>,
    /// Complete list of rules. Snapshots of a removed rule are kept.
    rules: Option<Vec<Rule>>,
    /// Retention lock of future snapshots: seconds during which they cannot be deleted.
    immutable_seconds: Option<u64>,
    /// Whether the schedule is active.
    enabled: Option<bool>,
}

/// List snapshot schedules
#[utoipa::path(get, path = "/api/v1/schedules", tag = "schedules", params(List), responses(
    (status = 200, description = "The schedules", content(
        (Schedules = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_schedules(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
) -> Result<Response, Problem> {
    let all = perform(operator, &context, array::ListSchedules).await?;
    list(all.into_iter().map(Schedule::from).collect(), part)
}

/// Create a snapshot schedule
#[utoipa::path(post, path = "/api/v1/schedules", tag = "schedules", request_body = NewSchedule, responses(
    (status = 201, description = "The schedule", body = Schedule),
    Problems,
))]
async fn create_schedule(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewSchedule>,
) -> Created<Schedule> {
    let NewSchedule { name, volume, group, rules, immutable_seconds, enabled } = new;
    let subject = subject(volume, group)?;
    let rules = Some(rules.into_iter().map(Into::into).collect());
    let immutable = Some(immutable_seconds);
    let change = array::ScheduleChange { name: None, rules, immutable, enabled };
    let made = perform(operator, &context, array::CreateSchedule { name, subject, change }).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// Get a snapshot schedule
#[utoipa::path(get, path = "/api/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path,)), responses(
    (status = 200, description = "The schedule", body = Schedule),
    Problems,
))]
async fn show_schedule(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Schedule> {
    let it = perform(operator, &context, array::ShowSchedule { name }).await?;
    Ok(Json(it.into()))
}

/// Change a snapshot schedule
#[utoipa::path(patch, path = "/api/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path,)),
    request_body = ScheduleChange, responses(
    (status = 200, description = "The schedule", body = Schedule),
    Problems,
))]
async fn change_schedule(
    operator: Operator,
    State(context): State<Context>,
    Named(schedule): Named<String>,
    Body(change): Body<ScheduleChange>,
) -> Answer<Schedule> {
    let ScheduleChange { name, rules, immutable_seconds: immutable, enabled } = change;
    let rules = rules.map(|rules| rules.into_iter().map(Into::into).collect());
    let change = array::ScheduleChange { name, rules, immutable, enabled };
    let done = perform(operator, &context, array::ChangeSchedule { name: schedule, change }).await?;
    Ok(Json(done.into()))
}

/// Delete a snapshot schedule
///
/// Its snapshots are kept.
#[utoipa::path(delete, path = "/api/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path,)), responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_schedule(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> NoContent {
    no_content(perform(operator, &context, array::DeleteSchedule { name }).await?)
}

/// Run a snapshot schedule now
///
/// Takes its snapshots and eradicates those that its rules no longer retain.
#[utoipa::path(post, path = "/api/v1/schedules/{name}/run", tag = "schedules", params(("name" = String, Path,)),
    responses(
    (status = 200, description = "The new snapshots", body = Snapshots),
    Problems,
))]
async fn run_schedule(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Snapshots> {
    let taken = perform(operator, &context, array::RunSchedule { name, now: true }).await?;
    let items: Vec<_> = taken.into_iter().map(Snapshot::from).collect();
    Ok(Json(Snapshots { total: items.len(), items }))
}

impl From<array::Rule> for Rule {
    fn from(array::Rule { when, keep }: array::Rule) -> Self {
        Self { when, keep }
    }
}

impl From<Rule> for array::Rule {
    fn from(Rule { when, keep }: Rule) -> Self {
        Self { when, keep }
    }
}

impl From<array::Schedule> for Schedule {
    fn from(it: array::Schedule) -> Self {
        let (volume, group) = match it.subject {
            SubjectName::Volume(name) => (Some(name), None),
            SubjectName::Group(name) => (None, Some(name)),
        };
        Self {
            name: it.name,
            id: super::handler::digits(it.id),
            created: utc(it.created),
            volume,
            group,
            rules: it.rules.into_iter().map(|array::Rule { when, keep }| Rule { when, keep }).collect(),
            immutable_seconds: it.immutable,
            enabled: it.enabled,
            next: it.next.map(utc),
            last: it.last.map(utc),
            snapshots: it.snapshots,
        }
    }
}
