//! Alerts: what needs somebody's attention.

use super::event::Severity;
use super::{Answer, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{PARTIAL, Part, PartialList, list};
use crate::problem::{Problem, Problems};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(list_alerts)).routes(routes!(show_alert, change_alert))
}

/// How far an alert is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertState {
    /// Nobody looks after it yet.
    Open,
    /// Somebody does.
    Acknowledged,
    /// It is over.
    Closed,
}

/// Something that needs, or needed, attention. A condition that goes on is one alert.
#[derive(Debug, Serialize, ToSchema)]
pub struct Alert {
    /// Its number; later ones are larger.
    id: i64,
    /// What it is, for programs, such as `space.threshold`.
    kind: String,
    /// How far it is.
    state: AlertState,
    /// How much it matters.
    severity: Severity,
    /// What is the matter and what to do.
    message: String,
    /// What kind of thing it is about, such as `host`; `null`: the array.
    noun: Option<String>,
    /// Which one.
    name: Option<String>,
    /// When it began.
    #[schema(format = DateTime)]
    opened: String,
    /// When something of it was not what it had been.
    #[schema(format = DateTime)]
    changed: String,
    /// Who looks after it; `null`: nobody.
    acknowledged_by: Option<String>,
    /// When it was over; `null`: it is not.
    #[schema(format = DateTime)]
    closed: Option<String>,
}

/// Alerts.
#[derive(Debug, Serialize, ToSchema)]
pub struct Alerts {
    /// Newest first, when nothing else is asked for.
    items: Vec<Alert>,
    /// How many there are without `limit` and `offset`.
    total: usize,
}

/// How far an alert is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AlertChange {
    /// `acknowledged`: you look after it; `open`: nobody does; `closed`: it is over even if it is not, and not raised again
    /// before it really is, or matters more. One that is closed stays so.
    state: AlertState,
}

/// What needs, or needed, attention
///
/// Those that go on: `?filter=state!=closed`.
#[utoipa::path(get, path = "/api/v1/alerts", tag = "events", params(Part), responses(
    (status = 200, description = "The alerts", content((Alerts = "application/json"), (PartialList = PARTIAL))),
    Problems,
))]
async fn list_alerts(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let alerts = perform(operator, &context, array::ListAlerts).await?;
    let alerts = alerts.into_iter().map(Alert::from).collect::<Vec<_>>();
    list(alerts, &part)
}

/// An alert
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

/// Say that you look after an alert, that nobody does, or that it is over
#[utoipa::path(patch, path = "/api/v1/alerts/{id}", tag = "events", params(("id" = i64, Path)),
    request_body = AlertChange, responses(
    (status = 200, description = "The alert as it is now", body = Alert),
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
            severity: severity.into(),
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
