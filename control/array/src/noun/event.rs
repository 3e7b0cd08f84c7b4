//! Events and the audit log, as operators read them.

use crate::Error;
use crate::request::verbs;
use history::{Audit, Event, Page, Severity};
use serde::Serialize;

/// Events, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListEvents {
    /// Which part.
    #[serde(skip)]
    pub page: Page,
    /// At least as severe.
    pub least: Severity,
}

/// The audit log, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListAudit {
    /// Which part.
    #[serde(skip)]
    pub page: Page,
}

verbs! {
    ListEvents -> Vec<Event>, Read "list" "event", Viewer
        => |tx, it| tx.array.parts.history.events(&it.page, it.least).map_err(failed);
    ListAudit -> Vec<Audit>, Read "list" "audit", Admin
        => |tx, it| tx.array.parts.history.audits(&it.page).map_err(failed);
}

fn failed(error: history::Error) -> Error {
    Error::failed("the history can't be read", error)
}
