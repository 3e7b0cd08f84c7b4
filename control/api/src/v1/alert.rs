//! Alerts.

use super::handler::{Answer, operations, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{List, PARTIAL, PartialList, list};
use crate::problem::{Problem, Problems};
use array::Severity;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_alerts: ListAlerts))
        .routes(operations!(show_alert: ShowAlert, change_alert: ChangeAlert))
}

/// State of an alert.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertState {
    /// Open.
    Open,
    /// Acknowledged by a user.
    Acknowledged,
    /// Closed.
    Closed,
}

/// An alert. A condition that persists is a single alert.
#[derive(Debug, Serialize, ToSchema)]
pub struct Alert {
    /// Sequence number.
    id: i64,
    /// Machine-readable kind, such as `space.threshold`.
    kind: String,
    /// State.
    state: AlertState,
    /// Severity.
    severity: Severity,
    /// Description of the condition and of the corrective action.
    message: String,
    /// Kind of object, such as `host`; `null`: the array.
    noun: Option<String>,
    /// Name of the object.
    name: Option<String>,
    /// Start time.
    #[schema(format = DateTime)]
    opened: String,
    /// Time of the last change.
    #[schema(format = DateTime)]
    changed: String,
    /// User who acknowledged it; `null`: not acknowledged.
    acknowledged_by: Option<String>,
    /// Closing time; `null` while it is open.
    #[schema(format = DateTime)]
    closed: Option<String>,
}

/// Alerts.
#[derive(Debug, Serialize, ToSchema)]
pub struct Alerts {
    /// Newest first unless `sort` is given.
    items: Vec<Alert>,
    /// Total count, regardless of `limit` and `offset`.
    total: usize,
}

/// Change of the state of an alert.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AlertChange {
    /// `acknowledged`, `open` (withdraws the acknowledgement) or `closed`. A closed alert cannot be reopened; it is raised again
    /// only if the condition clears and recurs, or escalates.
    state: AlertState,
}

/// List alerts
///
/// Active alerts: `?filter=state!=closed`.
#[utoipa::path(get, path = "/api/v1/alerts", tag = "events", params(List), responses(
    (status = 200, description = "The alerts", content((Alerts = "application/json"), (PartialList = PARTIAL))),
    Problems,
))]
async fn list_alerts(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
) -> Result<Response, Problem> {
    let alerts = perform(operator, &context, array::ListAlerts).await?;
    let alerts = alerts.into_iter().map(Alert::from).collect::<Vec<_>>();
    list(alerts, part)
}

/// Get an alert
#[utoipa::path(get, path = "/api/v1/alerts/{id}", tag = "events", params(("id" = i64, Path)), responses(
    (status = 200, description = "The alert", body = Alert),
    Problems,
))]
async fn show_alert(
    operator: Operator,
    State(context): State<Context>,
    Named(id): Named<i64>,
) -> Answer<Alert> {
    let it = perform(operator, &context, array::ShowAlert { id }).await?;
    Ok(Json(it.into()))
}

/// Acknowledge, reopen or close an alert
#[utoipa::path(patch, path = "/api/v1/alerts/{id}", tag = "events", params(("id" = i64, Path)),
    request_body = AlertChange, responses(
    (status = 200, description = "The alert", body = Alert),
    Problems,
))]
async fn change_alert(
    operator: Operator,
    State(context): State<Context>,
    Named(id): Named<i64>,
    Body(AlertChange { state }): Body<AlertChange>,
) -> Answer<Alert> {
    let done = perform(operator, &context, array::ChangeAlert { id, state: state.into() }).await?;
    Ok(Json(done.into()))
}

impl From<AlertState> for array::AlertState {
    fn from(state: AlertState) -> Self {
        match state {
            AlertState::Open => array::AlertState::Open,
            AlertState::Acknowledged => array::AlertState::Acknowledged,
            AlertState::Closed => array::AlertState::Closed,
        }
    }
}

impl From<array::AlertState> for AlertState {
    fn from(state: array::AlertState) -> Self {
        match state {
            array::AlertState::Open => AlertState::Open,
            array::AlertState::Acknowledged => AlertState::Acknowledged,
            array::AlertState::Closed => AlertState::Closed,
        }
    }
}

impl From<array::Alert> for Alert {
    fn from(it: array::Alert) -> Self {
        let state = it.state().into();
        let array::Alert { id, condition, opened, changed, acknowledged, closed, .. } = it;
        let array::Condition { kind, severity, message, noun, name } = condition;
        Self {
            id,
            kind,
            state,
            severity,
            message,
            noun,
            name,
            opened: utc(opened),
            changed: utc(changed),
            acknowledged_by: acknowledged,
            closed: closed.map(utc),
        }
    }
}
