//! Operator requests about alerts.

use crate::request::verbs;
use crate::shape::{shapes, some_time, time};
use history::{AlertState, Severity};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An alert. A condition that persists is a single alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Alert {
    /// Sequence number.
    pub id: i64,
    /// Machine-readable kind, such as `space.threshold`.
    pub kind: String,
    /// State.
    pub state: AlertState,
    /// Severity.
    pub severity: Severity,
    /// Description of the condition and of the corrective action.
    pub message: String,
    /// Kind of object, such as `host`; `null`: the array.
    pub noun: Option<String>,
    /// Name of the object.
    pub name: Option<String>,
    /// Start time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub opened: u64,
    /// Time of the last change.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub changed: u64,
    /// User who acknowledged it; `null`: not acknowledged.
    pub acknowledged_by: Option<String>,
    /// Closing time; `null` while it is open.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub closed: Option<u64>,
}

shapes! {
    Alert: "Alerts" "Alerts." "Newest first";
}

impl From<history::Alert> for Alert {
    fn from(it: history::Alert) -> Self {
        let state = it.state();
        let history::Alert { id, condition, opened, changed, acknowledged: acknowledged_by, closed, .. } = it;
        let history::Condition { kind, severity, message, noun, name } = condition;
        Self { id, kind, state, severity, message, noun, name, opened, changed, acknowledged_by, closed }
    }
}

/// Change of the state of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AlertChange)]
pub struct AlertStateChange {
    /// `acknowledged`, `open` (withdraws the acknowledgement) or `closed`. A closed alert cannot be reopened; it is raised again
    /// only if the condition clears and recurs, or escalates.
    pub state: AlertState,
}

verbs! {
    #![tag = "events"]

    /// List alerts
    ///
    /// Active alerts: `?filter=state!=closed`.
    ListAlerts {} -> Vec<Alert>, Read "list" "alert", Viewer, at GET "/alerts"
        => |tx, _| Ok(tx.array.alerts.list()?.into_iter().map(Alert::from).collect());
    /// Get an alert
    ShowAlert { id: i64 } -> Alert, Read "show" "alert", Viewer, about id, at GET "/alerts/{id}"
        => |tx, it| tx.array.alerts.get(it.id).map(Alert::from);
    /// Acknowledge, reopen or close an alert
    ChangeAlert { id: i64; body change: AlertStateChange } -> Alert, Change "change" "alert", Operator, about id,
        at PATCH "/alerts/{id}"
        => |tx, it| tx.array.alerts.change(it.id, it.change.state, &tx.caller.user).map(Alert::from);
}
