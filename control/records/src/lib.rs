//! Persistent configuration: every record type with its key, version, secrets, references and event topic.
//!
//! The engine stores records as small JSON values by key, so an array can start from its drives alone. Each record type
//! is declared once, in [`mod@record`]; tables, serialization, redaction, topics and references are derived. This crate
//! does no I/O.

mod access;
mod array;
mod config;
mod connection;
mod destination;
mod directory;
mod disk;
mod error;
mod host;
mod id;
mod label;
pub mod mark;
mod policy;
mod portal;
mod record;
mod redact;
mod remote;
mod replication;
mod schedule;
mod secret;
mod service;
mod severity;
mod stage;
mod stored;
mod table;
mod time;
mod topic;
mod window;
mod work;

pub use access::{Hashed, Role, TokenEntry, UserEntry};
pub use array::{
    ApiAddressEntry, ArrayIdentity, AuditLoss, AuditMark, CertificateEntry, ClockEntry, Scrub, Settings,
};
pub use config::{Config, Edit};
pub use connection::{ChosenLun, ConnectionEntry, Connections, MAX_LUN, Peer, check_lun};
pub use destination::{Content, Destination, Protection};
pub use directory::{DirectorySettings, Ldap, Oidc};
pub use disk::{DiskEntry, GroupEntry, SnapshotEntry, VolumeEntry};
pub use error::{Error, Kind, Result};
pub use host::{FormerNqns, HostEntry, HostGroupEntry};
pub use id::{
    DirectoryId, GroupId, HostGroupId, HostId, Identity, NotificationTargetId, RemoteArrayId, ReplicationId,
    ScheduleId, TokenId, UserId,
};
pub use label::{Labels, LabelsChange, MAX_LABEL_KEY_CHARS, MAX_LABEL_VALUE_BYTES, MAX_LABELS};
pub use policy::{Compression, Limits, LimitsChange, Policy, PolicyChange, present};
pub use portal::{Endpoint, PortalEntry, PortalProtocol, Portals};
pub use record::{ARRAY, AUDIT_MARK, CLOCK, Declaration, KeyValue, Record, Versions};
pub use redact::{HIDDEN, Redactor};
pub use remote::{LinkIdentityEntry, RemoteArrayEntry};
pub use replication::{
    LostSession, OnLinkLoss, Promotion, ReplicaVolume, ReplicationEntry, ReplicationMode, ReplicationRole,
    SourceVolume,
};
pub use schedule::{Rule, ScheduleEntry, Subject};
pub use secret::{Chap, Sealed, SealedChap, SealedField, Secret};
pub use service::{DirectoryEntry, Grant, NotificationTargetEntry};
pub use severity::{AlertState, Severity};
pub use stage::Stage;
pub use table::{Key, Named, Table};
pub use time::{seconds, utc};
pub use topic::Topic;
pub use window::{DAY_MINUTES, LimitWindow, Weekday, Window};
pub use work::looks;
