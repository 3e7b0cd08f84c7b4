//! Operator requests to the array. HTTP, command line, tests and simulation are views of the verbs declared here.
//!
//! The configuration lives in the engine's records, so an array starts from its drives alone. This crate is never on
//! the path of an I/O: it configures units and their mappings in `scsi` and log-ins in `iscsi`. It does
//! not depend on HTTP: a verb says at which method and path the API offers it, and its types say how they are described.

mod access;
mod alert;
mod alert_source;
mod api_address;
mod api_listeners;
mod array;
mod audit;
mod bundle;
mod bus;
mod caller;
pub mod catalogue;
mod certificate;
mod certificate_chain;
mod check;
mod condition;
mod configuration;
mod connection;
mod controller;
mod delivery_queue;
mod directory;
mod document;
mod drive;
mod ensure;
mod env;
mod event;
mod fibre_channel;
mod fibre_channel_session;
pub mod framed;
mod group;
pub mod hex;
mod host;
mod import;
mod job;
mod key;
mod link;
mod login;
mod machine;
mod membership;
mod moving;
mod moving_addresses;
mod notification;
mod overwrite;
mod page;
mod parts;
mod performance;
mod points;
mod policy;
mod portal;
mod ports;
mod projection;
mod promotion;
mod reconcile;
mod recover;
mod recycle_bin;
mod remote;
mod replicate;
mod replication;
mod request;
mod restore;
mod reverse;
mod schedule;
mod scrub;
mod sealing;
mod service;
mod settings;
mod shape;
mod snapshot;
mod status;
mod store;
mod synchronous;
mod test_failover;
mod tick;
mod time;
mod transaction;
mod upgrade;
mod usage;
mod verb;
mod view;
mod volume;
mod window;
mod witness;
mod work;

pub use ::directory::AuthorizationRequest;
pub use access::{
    ChangeOwnPassword, ChangeUser, CreateToken, CreateUser, DeleteToken, DeleteUser, FIRST_USER, ListTokens,
    ListUsers, ShowOwnUser, ShowUser,
};
pub use alert::{ChangeAlert, ListAlerts, ShowAlert};
pub use api_address::{ApiAddress, ChangeApiAddress, ConfirmApiAddress, ShowApiAddress};
pub use api_listeners::ApiListeners;
pub use array::Array;
pub use audit::Entry as AuditEntry;
pub use bundle::DownloadSupportBundle;
pub use bus::{GATHER, Update};
pub use caller::{Caller, Credential};
pub use certificate::{Certificate, ReplaceCertificate, ShowCertificate};
pub use connection::{CreateConnection, DeleteConnection, ListConnections, PeerName, ShowConnection};
pub use controller::{
    CreateJoinToken, DrainController, ListControllers, RemoveController, ResumeController, ShowController,
};
pub use directory::{
    ChangeDirectory, CreateDirectory, DeleteDirectory, Directory, DirectoryChange, ListDirectories,
    NewDirectory, ShowDirectory, TestDirectory,
};
pub use document::{CONFIGURATION_FORMAT, ConfigurationDocument, DocumentHead};
pub use drive::{
    AddDrive, EvacuateDrive, ListAvailableDrives, ListDrives, NewDrive, ReplaceDrive, ShowDrive,
    ShowProtection,
};
pub use engine::Ratios;
pub use ensure::Ensured;
pub use env::{Env, File, Uptime};
pub use event::{ListAudit, ListEvents};
pub use export::Operation;
pub use fibre_channel::{FibreChannel, FibreChannelDevice, FibreChannelLink, FibreChannelNexus};
pub use fibre_channel_session::{FibreChannelSession, ListFibreChannelSessions};
pub use group::{ChangeGroup, CreateGroup, DeleteGroup, GroupChange, ListGroups, ShowGroup};
pub use history::{
    Alert, AlertChange, AlertState, Attempt, Audit, Cell, Condition, Event, ExpiringKey, ExpiringKind,
    Latencies, NewEvent, Page, Sample, Series, Severity, SpacePoint,
};
pub use history::{seconds, utc};
pub use host::{
    ChangeHost, ChangeHostGroup, ClearVolumeState, CreateHost, CreateHostGroup, DeleteHost, DeleteHostGroup,
    HostChange, HostGroupChange, ListHostGroups, ListHosts, ShowHost, ShowHostGroup,
};
pub use import::{
    CompareConfiguration, Import, ImportAction, ImportConfiguration, ImportStep, ShowConfiguration,
};
pub use job::{CancelJob, ListJobs, ShowJob};
pub use key::{Key, RotateKey, ShowKey};
pub use link::{Duplex, Link, LinkIdentity, Network};
pub use login::ListRefusedLogins;
pub use machine::{FoundDrive, Machine, NewKey};
pub use membership::{
    Controller, ControllerChange, ControllerState, Controllers, JoinToken, Phases, Takeover, TakeoverCause,
};
pub use moving_addresses::MovingAddresses;
pub use notification::{
    ChangeNotificationTarget, CreateNotificationTarget, DeleteNotificationTarget, ListNotificationTargets,
    NotificationTargetChange, ShowNotificationTarget, TestNotificationTarget,
};
pub use notify::AuditMessage;
pub use overwrite::{Examined, Words, refusal};
pub use page::{LabelSelector, ListPage, Listed};
pub use parts::{Parts, Threads};
pub use performance::{ListBusiest, ListPaths, ShowCapacity, ShowPerformance, ShowReplicationHistory};
pub use points::{ListReplicationPoints, ReplicationPoint};
pub use policy::PolicyInForce;
pub use portal::{CreatePortal, DeletePortal, ListPortals, Portal, PortalRemoval, PortalState, ShowPortal};
pub use ports::{OwnPorts, shared_numbers};
pub use records::{
    ArrayIdentity, Chap, Compression, Content, DAY_MINUTES, Destination, DirectoryId, DirectorySettings,
    Endpoint, Error, Grant, GroupId, HostGroupId, HostId, Identity, Kind, Labels, LabelsChange, Ldap,
    LimitWindow, Limits, LimitsChange, Oidc, OnLinkLoss, Policy, PolicyChange, PortalEntry, PortalProtocol,
    Portals, Protection as MailProtection, ReplicationId, ReplicationMode, ReplicationRole, Result, Role,
    Rule, ScheduleId, Scrub, Secret, TokenId, Topic, UserId, Weekday, Window, present,
};
pub use recover::{has_sealed_secrets, kept_threads, load_identity};
pub use recycle_bin::{EradicateFromRecycleBin, ListRecycleBin, Recovered, Restore, RestoreFromRecycleBin};
pub use remote::{
    ChangeRemoteArray, CreatePairingKey, DeleteRemoteArray, ListRemoteArrays, PairRemoteArray, PairingKey,
    RemoteArray, RemoteArrayChange, ShowRemoteArray,
};
pub use replication::{
    ChangeReplication, CreateReplication, DeleteReplication, DemoteReplication, ListReplications,
    PauseReplication, PromoteReplication, ReplicatedVolume, Replication, ReplicationChange,
    ReplicationDemotion, ReplicationPromotion, ResumeReplication, ShowReplication, SyncReplication,
    TestConnection,
};
pub use request::{ReadPart, Request, Routed, Shown, Visitor};
pub use restore::{Overwrite, RestoreVolume};
pub use reverse::ReverseReplication;
pub use schedule::{
    ChangeSchedule, CreateSchedule, DeleteSchedule, ListSchedules, RunSchedule, ShowSchedule,
};
pub use scrub::StartScrub;
pub use scsi::naa;
pub use sealing::SealingKey;
pub use service::accounts::{Accounts, Bearer, Member, Token, User};
pub use service::alerts::Alerts;
pub use service::directories::{Directories, Guest};
pub use service::links::{LinkState, LinkStatus};
pub use service::login_queue::{LoginQueue, LoginReport, LoginReports};
pub use service::metering::{
    Busiest, Busy, By, Capacity, PathUse, Scope, TimeRange, imbalance, kind, size_limit,
};
pub use service::mirrors::SyncStatus;
pub use service::notifier::Notifier;
pub use service::replication_status::{Demotion, ReplicationState, ReplicationStatus};
pub use service::schedules::ScheduleChange;
pub use service::sealed_store::SealedStore;
pub use service::usage_meter::Usage;
pub use settings::{ChangeSettings, SettingsChange, ShowArray, ShowSettings, ShowStatus};
pub use shape::{Form, Listing, Objects, Outcome, Shape, rfc3339};
pub use shelf::pool::{
    DriveState, DriveStatus, KEY_BYTES, KeySource, ObjectPool, ObjectStore, PoolStatus, WrappedKey,
};
pub use snapshot::{
    ChangeSnapshot, CompareSnapshots, Comparison, CreateSnapshotSet, CreateSnapshots, DeleteSnapshot,
    ListSnapshots, ShowSnapshot, SnapshotChange, SnapshotSource,
};
pub use status::{ArrayStatus, BriefStatus, Encryption, MemoryLimit, OpenAlerts, Settings, Space, State};
pub use store::{ShowStore, Store};
pub use test_failover::{NewTestFailover, StartTestFailover, StopTestFailover};
pub use text::is_visible;
pub use time::ConfirmTime;
pub use upgrade::{CommitUpgrade, Format, FormatPart, ShowUpgrade, Upgrade};
pub use usage::{ShowGroupSpace, ShowVolumeSpace};
pub use verb::{BodyForm, Effect, Method, PathParameter, Route, Verb};
pub use view::{
    Attachment, BinnedDisk, Connection, Difference, DifferentExtent, DiskKind, Drive, Group, Health, Host,
    HostGroup, Job, JobKind, JobState, MeasuredReduction, NotificationTarget, NvmeAttachment, Protection,
    RefusedLogin, Schedule, Snapshot, SubjectName, Volume,
};
pub use volume::{
    ChangeVolume, CloneVolume, CreateVolume, CreateVolumes, DeleteVolume, Deletion, ListVolumes, ShowVolume,
    VolumeChange,
};
pub use window::{BandwidthWindow, WeeklyWindow};
pub use work::{Latency, Work, micros, rate, round};

/// Fixed maxima of the configuration, which `docs/operating/sizing.md` lists.
pub mod maxima {
    pub use crate::check::{MAX_INITIATORS, MAX_VOLUME};
    pub use crate::ports::MAX_PORTS;
    pub use crate::remote::MAX_REMOTE_ARRAYS;
    pub use crate::replicate::MAX_VOLUMES as MAX_REPLICATED_VOLUMES;
    pub use crate::replication::MAX_REPLICATIONS;
    pub use crate::volume::MAX_NEW_VOLUMES;
    pub use records::MAX_LUN;
}

/// Declares the modules of verbs.
macro_rules! nouns {
    ($($noun:ident),* $(,)?) => {
        /// Every verb, by noun.
        pub const VERBS: &[&[Verb]] = &[$($noun::VERBS),*];

        /// Visits every verb that the API offers by its declaration.
        pub fn routes(visitor: &mut impl Visitor) {
            $($noun::routes(visitor);)*
        }
    };
}

nouns! {
    settings,
    upgrade,
    time,
    import,
    controller,
    portal,
    api_address,
    store,
    drive,
    scrub,
    key,
    job,
    usage,
    volume,
    recycle_bin,
    snapshot,
    restore,
    schedule,
    group,
    host,
    connection,
    login,
    fibre_channel_session,
    bundle,
    alert,
    notification,
    directory,
    remote,
    replication,
    points,
    reverse,
    test_failover,
    certificate,
    access,
    performance,
    event,
}
