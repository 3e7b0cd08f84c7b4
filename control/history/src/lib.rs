//! What happened: events, alerts, the audit trail and measurements, in one SQLite file.
//!
//! Nothing here decides anything: an array whose history is lost works as before. The file is bounded; what is old
//! goes. Time is always an argument, in seconds since 1970.

mod event;
mod store;

pub use event::{Attempt, Audit, AuditId, Event, NewEvent, Severity};
pub use store::{Error, Page, Store};
