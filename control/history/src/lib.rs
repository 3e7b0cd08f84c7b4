//! What happened: events, alerts, the audit trail and measurements, and for a while sessions and answers, in one SQLite
//! file.
//!
//! Nothing here decides anything: an array whose history is lost works as before, and one whose file can't be used
//! keeps its history in memory until it can. The file is bounded; what is old goes. Time is always an argument, in seconds since 1970.

mod alert;
mod event;
mod kept;
mod measure;
mod outage;
mod sample;
mod space;
mod store;

pub use alert::{Alert, AlertState, Condition, Turn};
pub use event::{Attempt, Audit, AuditId, Event, NewEvent, Severity};
pub use kept::{Kept, KeptKey};
pub use measure::{ALL, Recorder, Series, Span, Tier, tier_for};
pub use sample::{Cell, Latencies, Sample};
pub use space::SpacePoint;
pub use store::{Error, Page, Store};
