//! What an operator can do to the array. HTTP, command line, tests and simulation are views of the one enum
//! [`Action`].
//!
//! The configuration lives in the engine's records, so that an array comes up from its drives alone. This crate is
//! never on the path of an I/O: it tells `scsi` which units exist and who sees them, `iscsi` who may log in, and
//! steps aside. It does not know HTTP; its types carry no wire format.

mod access;
mod action;
mod alert;
mod array;
mod audit;
mod bundle;
mod certificate;
mod check;
mod clock;
mod condition;
mod delivery_queue;
mod directory;
mod drive;
mod external;
mod group;
mod health;
mod host;
mod job;
mod key;
mod login;
mod notification;
mod overwrite;
mod performance;
mod policy;
mod recover;
mod recycle_bin;
mod schedule;
mod scrub;
mod sealed_store;
mod sealing;
mod settings;
mod snapshot;
mod usage;
mod verb;
mod view;
mod volume;
mod watch;

pub use ::directory::{AuthorizationRequest, Ldap, Oidc, Settings as DirectorySettings};
pub use access::{FIRST_USER, Member, Token, User};
pub use action::{
    Action, Caller, Credential, GroupChange, HostChange, HostGroupChange, Outcome, PeerName, ScheduleChange,
    SettingsChange, SnapshotChange, SubjectName, VolumeChange,
};
pub use array::{Array, Env, Parts, Update};
pub use audit::Request;
pub use bundle::File;
pub use certificate::Certificate;
pub use clock::Uptime;
pub use directory::{Directory, DirectoryChange, Guest, NewDirectory};
pub use drive::{Machine, NewDrive};
pub use engine::Ratios;
pub use export::Operation;
pub use external::has_sealed_secrets;
pub use health::Health;
pub use history::{
    Alert, AlertChange, AlertState, Attempt, Audit, Cell, Condition, Event, ExpiringKey, ExpiringKind,
    Latencies, NewEvent, Page, Sample, Series, Severity, SpacePoint,
};
pub use job::{Job, JobKind, JobState};
pub use key::{Key, NewKey};
pub use login::RefusedLogin;
pub use notification::{Target, TargetChange};
pub use notify::{Destination, Protection as MailProtection};
pub use overwrite::{Examined, Words, refusal};
pub use performance::{Busy, By, Capacity, PathUse, Scope, Stretch, imbalance, kind, size_limit};
pub use policy::PolicyInForce;
pub use records::{
    ArrayIdentity, Chap, Compression, DirectoryId, Error, Grant, Kind, Limits, LimitsChange, Policy,
    PolicyChange, Result, Role, Rule, Scrub, Secret, TokenId, Topic, UserId,
};
pub use recover::load_identity;
pub use sealing::SealingKey;
pub use shelf::pool::PoolStatus;
pub use shelf::pool::{DriveState, DriveStatus};
pub use shelf::pool::{KEY_BYTES, Lock, WrappedKey};
pub use snapshot::MAX_EXTENTS;
pub use usage::Usage;
pub use verb::{Declaration, Effect, Verb};
pub use view::{
    ArrayStatus, BinnedDisk, Connection, Difference, DifferentExtent, Drive, Group, Host, HostGroup,
    LockKind, Protection, Schedule, Settings, Snapshot, Space, State, Volume,
};
