//! Events and the audit log, as operators read them.

use crate::Error;
use crate::events::audit::Entry;
use crate::request::verbs;
use crate::shape::{shapes, time};
use history::{Page, Severity};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Default and maximum number of entries of a response.
const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 1000;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Event {
    /// Sequence number.
    pub id: i64,
    /// Time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub time: u64,
    /// Severity.
    pub severity: Severity,
    /// Machine-readable kind, such as `volume.created`.
    pub kind: String,
    /// Human-readable message.
    pub message: String,
    /// Kind of object, such as `volume`.
    pub noun: Option<String>,
    /// Name of the object.
    pub name: Option<String>,
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Audit {
    /// Sequence number.
    pub id: i64,
    /// Time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub time: u64,
    /// User.
    pub user: String,
    /// Origin: an address, or `local`.
    pub origin: String,
    /// Machine-readable action, such as `CreateVolume`.
    pub action: String,
    /// Verb, such as `create`.
    pub verb: String,
    /// Noun, such as `volume`.
    pub noun: String,
    /// Name of the object; `null` if the noun identifies it.
    pub object: Option<String>,
    /// The request, without secrets.
    pub detail: String,
    /// `done`, `refused`, or `interrupted` if the array stopped before the outcome was known.
    pub outcome: String,
    /// Reason for a refusal; `null` otherwise.
    pub message: Option<String>,
    /// Changed configuration records, before and after.
    pub changes: Vec<AuditChange>,
}

/// A changed configuration record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditChange {
    /// Key of the record.
    pub record: String,
    /// Kind of object; empty in entries of older versions.
    #[serde(default)]
    #[schema(required = true)]
    pub noun: String,
    /// Name of the object; `null` if the noun identifies it.
    #[serde(default)]
    pub name: Option<String>,
    /// Changed fields.
    #[serde(default)]
    #[schema(required = true)]
    pub fields: Vec<AuditField>,
    /// Previous value; `null` if there was none.
    #[schema(value_type = Option<Object>)]
    pub before: serde_json::Value,
    /// New value; `null` if there is none.
    #[schema(value_type = Option<Object>)]
    pub after: serde_json::Value,
}

/// A changed field. The values of secret fields are redacted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditField {
    /// Field name, with dots for nested fields.
    pub field: String,
    /// Previous value; `null` if there was none.
    pub before: serde_json::Value,
    /// New value; `null` if there is none.
    pub after: serde_json::Value,
}

shapes! {
    Event: "Events" "Events." "Newest first", whole;
    Audit: "AuditTrail" "The audit log." "Newest first", whole;
}

impl From<history::Event> for Event {
    fn from(it: history::Event) -> Self {
        let history::NewEvent { time, severity, kind, message, noun, name } = it.event;
        Self { id: it.id, time, severity, kind, message, noun, name }
    }
}

impl From<history::Audit> for Audit {
    fn from(it: history::Audit) -> Self {
        let history::Attempt { time, user, origin, action, detail } = it.attempt;
        // Older versions stored the request in another form.
        let request = Entry::read(&detail);
        let detail = request.as_ref().map_or(detail, Entry::sentence);
        let Entry { verb, noun, object, .. } = request.unwrap_or_default();
        Self {
            id: it.id,
            time,
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

/// Selects events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListEvents {
    /// Only entries with a smaller id; the last id of a page fetches the next page.
    pub before: Option<i64>,
    /// Maximum number of entries, 1000 at most; default 100.
    #[param(minimum = 0)]
    pub limit: Option<u32>,
    /// Minimum severity.
    #[serde(default)]
    #[param(inline)]
    pub severity: Severity,
}

/// Selects entries of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListAudit {
    /// Only entries with a smaller id; the last id of a page fetches the next page.
    pub before: Option<i64>,
    /// Maximum number of entries, 1000 at most; default 100.
    #[param(minimum = 0)]
    pub limit: Option<u32>,
}

verbs! {
    #![tag = "events"]

    /// List events, newest first
    ListEvents -> Vec<Event>, Read "list" "event", Viewer, at GET "/events"
        => |tx, it| {
            let found = tx.array.parts.history.events(&page(it.before, it.limit), it.severity);
            Ok(found.map_err(failed)?.into_iter().map(Event::from).collect())
        };
    /// List audit log entries, newest first
    ListAudit -> Vec<Audit>, Read "list" "audit", Admin, at GET "/audit" says "The audit trail"
        => |tx, it| {
            let found = tx.array.parts.history.audits(&page(it.before, it.limit));
            Ok(found.map_err(failed)?.into_iter().map(Audit::from).collect())
        };
}

fn page(before: Option<i64>, limit: Option<u32>) -> Page {
    Page { before, limit: limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT) }
}

fn failed(error: history::Error) -> Error {
    Error::failed("the history can't be read", error)
}
