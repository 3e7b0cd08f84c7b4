//! Events and the audit log.

use super::handler::{Answer, operations, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::Problems;
use array::{Page, Severity};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

/// Default and maximum number of entries of a response.
const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 1000;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_events: ListEvents))
        .routes(operations!(list_audit: ListAudit))
}

/// Selects events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventQuery {
    /// Only entries with a smaller id; the last id of a page fetches the next page.
    before: Option<i64>,
    /// Maximum number of entries, 1000 at most; default 100.
    #[param(minimum = 0)]
    limit: Option<u32>,
    /// Minimum severity.
    #[serde(default)]
    #[param(inline)]
    severity: Severity,
}

/// Selects entries of the audit log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// Only entries with a smaller id; the last id of a page fetches the next page.
    before: Option<i64>,
    /// Maximum number of entries, 1000 at most; default 100.
    #[param(minimum = 0)]
    limit: Option<u32>,
}

/// An event.
#[derive(Debug, Serialize, ToSchema)]
pub struct Event {
    /// Sequence number.
    id: i64,
    /// Time.
    #[schema(format = DateTime)]
    time: String,
    /// Severity.
    severity: Severity,
    /// Machine-readable kind, such as `volume.created`.
    kind: String,
    /// Human-readable message.
    message: String,
    /// Kind of object, such as `volume`.
    noun: Option<String>,
    /// Name of the object.
    name: Option<String>,
}

/// Events.
#[derive(Debug, Serialize, ToSchema)]
pub struct Events {
    /// Newest first.
    items: Vec<Event>,
}

/// An entry of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub struct Audit {
    /// Sequence number.
    id: i64,
    /// Time.
    #[schema(format = DateTime)]
    time: String,
    /// User.
    user: String,
    /// Origin: an address, or `local`.
    origin: String,
    /// Machine-readable action, such as `CreateVolume`.
    action: String,
    /// Verb, such as `create`.
    verb: String,
    /// Noun, such as `volume`.
    noun: String,
    /// Name of the object; `null` if the noun identifies it.
    object: Option<String>,
    /// The request, without secrets.
    detail: String,
    /// `done`, `refused`, or `interrupted` if the array stopped before the outcome was known.
    outcome: String,
    /// Reason for a refusal; `null` otherwise.
    message: Option<String>,
    /// Changed configuration records, before and after.
    changes: Vec<AuditChange>,
}

/// A changed configuration record.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditChange {
    /// Key of the record.
    record: String,
    /// Kind of object; empty in entries of older versions.
    #[serde(default)]
    #[schema(required = true)]
    noun: String,
    /// Name of the object; `null` if the noun identifies it.
    #[serde(default)]
    name: Option<String>,
    /// Changed fields.
    #[serde(default)]
    #[schema(required = true)]
    fields: Vec<AuditField>,
    /// Previous value; `null` if there was none.
    #[schema(value_type = Option<Object>)]
    before: serde_json::Value,
    /// New value; `null` if there is none.
    #[schema(value_type = Option<Object>)]
    after: serde_json::Value,
}

/// A changed field. The values of secret fields are redacted.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditField {
    /// Field name, with dots for nested fields.
    field: String,
    /// Previous value; `null` if there was none.
    before: serde_json::Value,
    /// New value; `null` if there is none.
    after: serde_json::Value,
}

/// The audit log.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditTrail {
    /// Newest first.
    items: Vec<Audit>,
}

fn page(before: Option<i64>, limit: Option<u32>) -> Page {
    Page { before, limit: limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT) }
}

/// List events, newest first
#[utoipa::path(get, path = "/api/v1/events", tag = "events", params(EventQuery), responses(
    (status = 200, description = "The events", body = Events),
    Problems,
))]
async fn list_events(
    operator: Operator,
    State(context): State<Context>,
    Asked(EventQuery { before, limit, severity }): Asked<EventQuery>,
) -> Answer<Events> {
    let action = array::ListEvents { page: page(before, limit), least: severity };
    let events = perform(operator, &context, action).await?;
    Ok(Json(Events { items: events.into_iter().map(Into::into).collect() }))
}

/// List audit log entries, newest first
#[utoipa::path(get, path = "/api/v1/audit", tag = "events", params(AuditQuery), responses(
    (status = 200, description = "The audit trail", body = AuditTrail),
    Problems,
))]
async fn list_audit(
    operator: Operator,
    State(context): State<Context>,
    Asked(AuditQuery { before, limit }): Asked<AuditQuery>,
) -> Answer<AuditTrail> {
    let trail = perform(operator, &context, array::ListAudit { page: page(before, limit) }).await?;
    Ok(Json(AuditTrail { items: trail.into_iter().map(Into::into).collect() }))
}

impl From<array::Event> for Event {
    fn from(it: array::Event) -> Self {
        let array::NewEvent { time, severity, kind, message, noun, name } = it.event;
        Self { id: it.id, time: utc(time), severity, kind, message, noun, name }
    }
}

impl From<array::Audit> for Audit {
    fn from(it: array::Audit) -> Self {
        let array::Attempt { time, user, origin, action, detail } = it.attempt;
        // Older versions stored the request in another form.
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
