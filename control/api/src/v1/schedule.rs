//! Snapshot schedules.

use super::snapshot::{Snapshot, Snapshots, subject};
use super::{Answer, Created, Gone, gone, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{Part, PartialList, list};
use crate::problem::{Problem, Problems};
use array::SubjectName;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(list_schedules, create_schedule))
        .routes(routes!(show_schedule, change_schedule, delete_schedule))
        .routes(routes!(run_schedule))
}

/// When a schedule takes a snapshot, and how many of these it keeps.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// `hourly`, `daily`, `weekly`, `monthly`, `yearly`, or a cron expression of five fields: minute, hour, day, month,
    /// day of week. UTC.
    #[schema(example = "hourly")]
    when: String,
    /// The newest so many are kept; older ones are eradicated.
    #[schema(minimum = 1, maximum = 10_000)]
    keep: u32,
}

/// A snapshot schedule.
#[derive(Debug, Serialize, ToSchema)]
pub struct Schedule {
    /// Its name.
    name: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created: String,
    /// The volume that it takes snapshots of; `null` when it is for a group.
    volume: Option<String>,
    /// The volume group that it takes snapshots of, all volumes at one moment; `null` when it is for a volume.
    group: Option<String>,
    /// When, and how many are kept. What is due at one time is one snapshot; it goes when no rule keeps it any more.
    rules: Vec<Rule>,
    /// Nobody can delete a snapshot before it is so many seconds old.
    immutable_seconds: u64,
    /// Whether it takes snapshots.
    enabled: bool,
    /// When it runs next; `null`: never.
    #[schema(format = DateTime)]
    next: Option<String>,
    /// When the newest of its snapshots was taken; `null`: it has none.
    #[schema(format = DateTime)]
    last: Option<String>,
    /// How many snapshots it has.
    snapshots: usize,
}

/// Schedules.
#[derive(Debug, Serialize, ToSchema)]
pub struct Schedules {
    /// In order of names, or as asked for.
    pub items: Vec<Schedule>,
    /// How many there are without `limit` and `offset`.
    pub total: usize,
}

/// A schedule to make, of a `volume` or a `group`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSchedule {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Name of the volume. Not with `group`.
    volume: Option<String>,
    /// Name of the volume group. Not with `volume`.
    group: Option<String>,
    /// When, and how many are kept; 1 to 16.
    rules: Vec<Rule>,
    /// Nobody can delete a snapshot before it is so many seconds old; 0 when not given.
    #[serde(default)]
    immutable_seconds: u64,
    /// Whether it takes snapshots; it does when nothing is said.
    enabled: Option<bool>,
}

/// What to change in a schedule; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleChange {
    /// Another name.
    name: Option<String>,
    /// When, and how many are kept: all rules. Snapshots that were taken for a rule that is not among them stay.
    rules: Option<Vec<Rule>>,
    /// Nobody can delete a snapshot that is taken from now on before it is so many seconds old.
    immutable_seconds: Option<u64>,
    /// Whether it takes snapshots.
    enabled: Option<bool>,
}

/// All snapshot schedules
#[utoipa::path(get, path = "/api/v1/schedules", tag = "schedules", params(Part), responses(
    (status = 200, description = "The schedules", content(
        (Schedules = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_schedules(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let all = perform(operator, &context, array::ListSchedules).await?;
    list(all.into_iter().map(Schedule::from).collect(), &part)
}

/// Make a snapshot schedule
#[utoipa::path(post, path = "/api/v1/schedules", tag = "schedules", request_body = NewSchedule, responses(
    (status = 201, description = "The schedule as it is now", body = Schedule),
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

/// One snapshot schedule
#[utoipa::path(get, path = "/api/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path,)), responses(
    (status = 200, description = "The schedule as it is now", body = Schedule),
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
    (status = 200, description = "The schedule as it is now", body = Schedule),
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

/// Forget a snapshot schedule; its snapshots stay
#[utoipa::path(delete, path = "/api/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path,)), responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn delete_schedule(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Gone {
    gone(perform(operator, &context, array::DeleteSchedule { name }).await?)
}

/// Take the snapshots of a schedule now, and let go of those that it no longer keeps
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
    let taken = taken;
    let items: Vec<_> = taken.into_iter().map(Snapshot::from).collect();
    Ok(Json(Snapshots { total: items.len(), items }))
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
