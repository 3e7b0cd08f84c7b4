//! The array's history in one SQLite file: events, alerts, audit log, performance, capacity and replication samples, and entries that
//! expire (sessions, replies to idempotent requests).
//!
//! The history is a record for operators; the data path does not depend on it. An array that has lost its history works
//! as before, and while the file can't be used, the history is kept in memory. Other controllers of the array have
//! [copies](Copier). The file size is bounded; the oldest entries are deleted. Time is always an argument, in seconds
//! since 1970.

mod alert;
mod changes;
mod copy;
mod event;
mod expiring;
mod measure;
mod outage;
mod replicated;
mod sample;
mod space;
mod store;

pub use alert::{Alert, AlertChange, Condition};
pub use copy::{Batch, Copier, CopyError, Position};
pub use event::{Attempt, Audit, AuditId, Event, NewEvent};
pub use expiring::{ExpiringKey, ExpiringKind};
pub use measure::{ALL, Newest, Recorder, Series, Span, Tier, tier_for};
pub use records::{AlertState, Severity, seconds, utc};
pub use replicated::{REPLICATION_STEP_SECONDS, ReplicationPoint};
pub use sample::{Cell, Latencies, Sample};
pub use space::SpacePoint;
pub use store::{Error, Page, Store};
