//! What happened: events, and the audit trail.

use super::{Answer, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::Problems;
use array::Page;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Entries of an answer when no limit is asked for, and the most.
const USUAL: u32 = 100;
const MOST: u32 = 1000;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(list_events)).routes(routes!(list_audit))
}

/// How much something matters.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    #[default]
    Info,
    /// Somebody should look soon.
    Warning,
    /// Somebody must act now.
    Critical,
}

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only those with a smaller id: the last of a page, to get the next.
    before: Option<i64>,
    /// At most so many, 1000 at most; 100 when not given.
    #[param(minimum = 0)]
    limit: Option<u32>,
    /// At least as severe.
    #[serde(default)]
    #[param(inline)]
    severity: Severity,
}

/// Which entries of the audit trail.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WhichAudit {
    /// Only those with a smaller id: the last of a page, to get the next.
    before: Option<i64>,
    /// At most so many, 1000 at most; 100 when not given.
    #[param(minimum = 0)]
    limit: Option<u32>,
}

/// Something that happened.
#[derive(Debug, Serialize, ToSchema)]
pub struct Event {
    /// Its number; later ones are larger.
    id: i64,
    /// When.
    #[schema(format = DateTime)]
    time: String,
    /// How much it matters.
    severity: Severity,
    /// For programs, such as `volume.created`.
    kind: String,
    /// For people.
    message: String,
    /// What kind of thing it is about, such as `volume`.
    noun: Option<String>,
    /// Which one.
    name: Option<String>,
}

/// Events.
#[derive(Debug, Serialize, ToSchema)]
pub struct Events {
    /// Newest first.
    items: Vec<Event>,
}

/// What somebody did.
#[derive(Debug, Serialize, ToSchema)]
pub struct Audit {
    /// Its number; later ones are larger.
    id: i64,
    /// When.
    #[schema(format = DateTime)]
    time: String,
    /// Who.
    user: String,
    /// From where: an address, or `local`.
    origin: String,
    /// Which action, for programs: `CreateVolume`.
    action: String,
    /// What was to be done: `create`.
    verb: String,
    /// To what kind of thing: `volume`.
    noun: String,
    /// Which one; `null` when the noun says it.
    object: Option<String>,
    /// The whole request in words, without secrets.
    detail: String,
    /// `done`, `refused`, or `interrupted` when the array stopped before it knew.
    outcome: String,
    /// Why it was refused; `null` when it was not.
    message: Option<String>,
    /// Every record of the configuration that changed, before and after.
    changes: Vec<AuditChange>,
}

/// A record of the configuration that changed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditChange {
    /// Its key.
    record: String,
    /// What kind of thing it is about; empty in entries of older versions.
    #[serde(default)]
    #[schema(required = true)]
    noun: String,
    /// Which one; `null` when the noun says it.
    #[serde(default)]
    name: Option<String>,
    /// The fields that changed.
    #[serde(default)]
    #[schema(required = true)]
    fields: Vec<AuditField>,
    /// What was there; `null`: nothing.
    #[schema(value_type = Option<Object>)]
    before: serde_json::Value,
    /// What is there; `null`: nothing.
    #[schema(value_type = Option<Object>)]
    after: serde_json::Value,
}

/// A field that changed. One that is secret shows that it changed, and nothing more.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditField {
    /// Its name; dots lead into fields of fields.
    field: String,
    /// What was there; `null`: nothing.
    before: serde_json::Value,
    /// What is there; `null`: nothing.
    after: serde_json::Value,
}

/// What operators did.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditTrail {
    /// Newest first.
    items: Vec<Audit>,
}

fn page(before: Option<i64>, limit: Option<u32>) -> Page {
    Page { before, limit: limit.unwrap_or(USUAL).min(MOST) }
}

/// What happened, newest first
#[utoipa::path(get, path = "/api/v1/events", tag = "events", params(Which), responses(
    (status = 200, description = "The events", body = Events),
    Problems,
))]
async fn list_events(
    operator: Operator,
    State(context): State<Context>,
    Asked(Which { before, limit, severity }): Asked<Which>,
) -> Answer<Events> {
    let action = array::ListEvents { page: page(before, limit), least: severity.into() };
    let events = perform(operator, &context, action).await?;
    Ok(Json(Events { items: events.into_iter().map(Into::into).collect() }))
}

/// What operators did, newest first
#[utoipa::path(get, path = "/api/v1/audit", tag = "events", params(WhichAudit), responses(
    (status = 200, description = "The audit trail", body = AuditTrail),
    Problems,
))]
async fn list_audit(
    operator: Operator,
    State(context): State<Context>,
    Asked(WhichAudit { before, limit }): Asked<WhichAudit>,
) -> Answer<AuditTrail> {
    let trail = perform(operator, &context, array::ListAudit { page: page(before, limit) }).await?;
    Ok(Json(AuditTrail { items: trail.into_iter().map(Into::into).collect() }))
}

impl From<Severity> for array::Severity {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Info => array::Severity::Info,
            Severity::Warning => array::Severity::Warning,
            Severity::Critical => array::Severity::Critical,
        }
    }
}

impl From<array::Severity> for Severity {
    fn from(severity: array::Severity) -> Self {
        match severity {
            array::Severity::Info => Severity::Info,
            array::Severity::Warning => Severity::Warning,
            array::Severity::Critical => Severity::Critical,
        }
    }
}

impl From<array::Event> for Event {
    fn from(it: array::Event) -> Self {
        let array::NewEvent { time, severity, kind, message, noun, name } = it.event;
        Self { id: it.id, time: utc(time), severity: severity.into(), kind, message, noun, name }
    }
}

impl From<array::Audit> for Audit {
    fn from(it: array::Audit) -> Self {
        let array::Attempt { time, user, origin, action, detail } = it.attempt;
        // Older versions kept the request in another form.
        let request = array::AuditEntry::read(&detail);
        let detail = request.as_ref().map_or(detail, array::AuditEntry::sentence);
        let array::AuditEntry { verb, noun, object, .. } = request.unwrap_or_default();
        Self {
            id: it.id,
            time: utc(time),
            user,
            origin,
            action,
            verb,
            noun,
            object,
            detail,
            outcome: it.outcome,
            message: Some(it.message).filter(|message| !message.is_empty()),
            changes: serde_json::from_str(&it.changes).unwrap_or_default(),
        }
    }
}
