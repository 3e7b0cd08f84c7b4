//! Operator requests about alerts.

use crate::request::verbs;
use history::{Alert, AlertState};
use serde::Serialize;

/// The word for a state.
pub(crate) fn word<S: serde::Serializer>(
    state: &AlertState,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(match state {
        AlertState::Open => "open",
        AlertState::Acknowledged => "acknowledged",
        AlertState::Closed => "closed",
    })
}

/// All alerts, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListAlerts;

/// One alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowAlert {
    /// Its number.
    pub id: i64,
}

/// Acknowledge an alert, reopen it, or clear it: a cleared alert is not raised again before
/// it really is, or matters more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeAlert {
    /// Its number.
    pub id: i64,
    /// How far it is to be.
    #[serde(serialize_with = "crate::noun::alert::word")]
    pub state: AlertState,
}

verbs! {
    ListAlerts -> Vec<Alert>, Read "list" "alert", Viewer
        => |tx, _| tx.array.alerts.list();
    ShowAlert -> Alert, Read "show" "alert", Viewer, about id
        => |tx, it| tx.array.alerts.get(it.id);
    ChangeAlert -> Alert, Change "change" "alert", Operator, about id
        => |tx, it| tx.array.alerts.change(it.id, it.state, &tx.caller.user);
}
