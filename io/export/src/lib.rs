//! Exported volumes, independent of the host protocol: mappings of hosts, QoS limits, quotas, statistics, reservations
//! and events.
//!
//! Front ends encode these for their hosts: `scsi` as SCSI commands, sense data and unit attentions, an NVMe front end
//! as its own. So limits and reservations have the same semantics for all protocols. This crate handles neither
//! commands nor media.

mod clock;
mod edit;
mod event;
mod exports;
mod initiator;
mod limits;
mod mapping;
mod power;
mod qos;
mod quota;
mod registry;
pub mod reservation;
mod state;
mod state_lock;
mod statistics;
mod volume;

pub use clock::{Clock, Sleep};
pub use edit::Edit;
pub use event::{Event, FrontEnd, Touched};
pub use exports::Exports;
pub use initiator::{InitiatorPort, MAX_ISCSI_NAME_BYTES, NexusName, iscsi_name, parse_wwpn, shown_wwpn};
pub use mapping::Mapping;
pub use power::Power;
pub use qos::{Admission, Charges, Cost, MAX_UNMAP_THROTTLE_LEVEL, QosLimits, Rate, RateLimiter};
pub use quota::{QuotaRefusals, Usage, copied_by_sharing, grant_copy};
pub use registry::Registry;
pub use state::{CURRENT_STATE_VERSION, OLDEST_STATE_VERSION, Reader, StateError};
pub use state_lock::StateGuard;
pub use statistics::{Histogram, IoCounters, Operation, OperationCounts, PathId, Recorder, SizeClass};
pub use volume::{Limiters, PROVISIONING_BLOCK_BYTES, STATUS_MAX_BLOCKS, ScsiState, Volume, VolumeState};
