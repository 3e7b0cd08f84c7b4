//! Operator requests to the array. HTTP, command line, tests and simulation are views of the verbs declared here.
//!
//! The configuration lives in the engine's records, so an array comes up from its drives alone. This crate is never on
//! the path of an I/O: it configures units and their mappings in `scsi` and log-ins in `iscsi`, and steps aside. It
//! does not know HTTP; its types carry no wire format.

mod access;
mod alert;
mod array;
mod audit;
mod bundle;
mod caller;
mod certificate;
mod check;
mod clock;
mod condition;
mod connection;
mod delivery_queue;
mod directory;
mod drive;
mod event;
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
mod projection;
mod reconcile;
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
pub use access::{
    ChangeOwnPassword, ChangeUser, CreateToken, CreateUser, DeleteToken, DeleteUser, FIRST_USER, ListTokens,
    ListUsers, Member, NewToken, ShowOwnUser, ShowUser, Token, User,
};
pub use alert::{ChangeAlert, ListAlerts, ShowAlert};
pub use array::{Array, Env, Parts, Update};
pub use audit::Entry as AuditEntry;
pub use bundle::{File, ShowSupportBundle};
pub use caller::{Caller, Credential};
pub use certificate::{Certificate, ReplaceCertificate, ShowCertificate};
pub use clock::{ConfirmTime, Uptime};
pub use connection::{Connect, Disconnect, ListConnections, PeerName};
pub use directory::{
    ChangeDirectory, CreateDirectory, DeleteDirectory, Directory, DirectoryChange, Guest, ListDirectories,
    NewDirectory, ShowDirectory, TestDirectory,
};
pub use drive::{
    AddDrive, EvacuateDrive, ListDrives, Machine, NewDrive, ReplaceDrive, ShowDrive, ShowProtection,
};
pub use engine::Ratios;
pub use event::{ListAudit, ListEvents};
pub use export::Operation;
pub use external::has_sealed_secrets;
pub use group::{ChangeGroup, CreateGroup, DeleteGroup, GroupChange, ListGroups, ShowGroup};
pub use history::{
    Alert, AlertChange, AlertState, Attempt, Audit, Cell, Condition, Event, ExpiringKey, ExpiringKind,
    Latencies, NewEvent, Page, Sample, Series, Severity, SpacePoint,
};
pub use host::{
    ChangeHost, ChangeHostGroup, ClearUnreadableState, CreateHost, CreateHostGroup, DeleteHost,
    DeleteHostGroup, HostChange, HostGroupChange, ListHostGroups, ListHosts, ShowHost, ShowHostGroup,
};
pub use job::{CancelJob, ListJobs, ShowJob};
pub use key::{Key, NewKey, RotateKey, ShowKey};
pub use login::ListRefusedLogins;
pub use notification::{
    ChangeTarget, CreateTarget, DeleteTarget, ListTargets, ShowTarget, Target, TargetChange, TestTarget,
};
pub use notify::{Destination, Protection as MailProtection};
pub use overwrite::{Examined, Words, refusal};
pub use performance::{
    Busiest, Busy, By, Capacity, ListBusiest, ListPaths, PathUse, Scope, ShowCapacity, ShowPerformance,
    Stretch, imbalance, kind, size_limit,
};
pub use policy::PolicyInForce;
pub use records::{
    ArrayIdentity, Chap, Compression, DirectoryId, Error, Grant, Kind, Limits, LimitsChange, Policy,
    PolicyChange, Result, Role, Rule, Scrub, Secret, TokenId, Topic, UserId,
};
pub use recover::load_identity;
pub use recycle_bin::{EradicateFromBin, ListBin, Recovered, TakeFromBin};
pub use schedule::{
    ChangeSchedule, CreateSchedule, DeleteSchedule, ListSchedules, RunSchedule, ScheduleChange, ShowSchedule,
};
pub use scrub::StartScrub;
pub use sealing::SealingKey;
pub use settings::{ChangeSettings, SettingsChange, ShowArray, ShowSettings};
pub use shelf::pool::{DriveState, DriveStatus, KEY_BYTES, Lock, PoolStatus, WrappedKey};
pub use snapshot::{
    ChangeSnapshot, CompareDisks, CreateSnapshots, DeleteSnapshot, ListSnapshots, MAX_EXTENTS, RestoreVolume,
    ShowSnapshot, SnapshotChange,
};
pub use usage::{ShowGroupUsage, ShowVolumeUsage, Usage};
pub use verb::{Effect, Request, VERBS, Verb};
pub use view::{
    ArrayStatus, BinnedDisk, Connection, Difference, DifferentExtent, Drive, Group, Health, Host, HostGroup,
    Job, JobKind, JobState, LockKind, Protection, RefusedLogin, Schedule, Settings, Snapshot, Space, State,
    SubjectName, Volume,
};
pub use volume::{
    ChangeVolume, CloneVolume, CreateVolume, DeleteVolume, ListVolumes, ShowVolume, VolumeChange,
};
