//! Operator requests to the array. HTTP, command line, tests and simulation are views of the verbs declared here.
//!
//! The configuration lives in the engine's records, so an array starts from its drives alone. This crate is never on
//! the path of an I/O: it configures units and their mappings in `scsi` and log-ins in `iscsi`. It does
//! not depend on HTTP: a verb says at which method and path the API offers it, and its types say how they are described.

mod array;
mod configuration;
mod events;
mod noun;
mod parts;
mod replication;
mod request;
mod service;
mod shape;

pub use ::directory::AuthorizationRequest;
pub use array::Array;
pub use array::page::{LabelSelector, ListPage, Listed};
pub use array::recover::{has_sealed_secrets, kept_threads, load_identity};
pub use engine::Ratios;
pub use events::bus::{GATHER, Update};
pub use events::catalogue;
pub use export::Operation;
pub use history::{
    AlertState, Cell, Condition, ExpiringKey, ExpiringKind, Latencies, Page, Sample, Series, Severity,
    SpacePoint,
};
pub use history::{seconds, utc};
pub use notify::AuditMessage;
pub use noun::access::{
    ChangeOwnPassword, ChangeUser, CreateToken, CreateUser, DeleteToken, DeleteUser, FIRST_USER, ListTokens,
    ListUsers, ShowOwnUser, ShowUser,
};
pub use noun::alert::{Alert, AlertStateChange, ChangeAlert, ListAlerts, ShowAlert};
pub use noun::api_address::{ApiAddress, ChangeApiAddress, ConfirmApiAddress, ShowApiAddress};
pub use noun::bundle::DownloadSupportBundle;
pub use noun::certificate::{Certificate, ReplaceCertificate, ShowCertificate};
pub use noun::connection::{
    Attachment, AttachmentPortal, Connection, CreateConnection, DeleteConnection, ListConnections,
    NvmeAddress, PeerName, ShowConnection,
};
pub use noun::controller::{
    CreateJoinToken, DrainController, ListControllers, RemoveController, ResumeController, ShowController,
};
pub use noun::directory::{
    ChangeDirectory, CreateDirectory, DeleteDirectory, Directory, DirectoryChange, DirectoryTest,
    ListDirectories, ShowDirectory, TestDirectory,
};
pub use noun::document::{CONFIGURATION_FORMAT, ConfigurationDocument, DocumentHead};
pub use noun::drive::{
    AddDrive, Drive, DriveState, EvacuateDrive, Evacuation, LastScrub, ListAvailableDrives, ListDrives,
    Protection, ReplaceDrive, ShowDrive, ShowProtection,
};
pub use noun::event::{Audit, AuditChange, AuditField, Event, ListAudit, ListEvents};
pub use noun::fibre_channel_session::{FibreChannelSession, ListFibreChannelSessions, SessionDevice};
pub use noun::group::{ChangeGroup, CreateGroup, DeleteGroup, Group, GroupChange, ListGroups, ShowGroup};
pub use noun::host::{
    ChangeHost, ChangeHostGroup, ClearVolumeState, CreateHost, CreateHostGroup, DeleteHost, DeleteHostGroup,
    Host, HostChange, HostGroup, HostGroupChange, ListHostGroups, ListHosts, ShowHost, ShowHostGroup,
};
pub use noun::import::{
    CompareConfiguration, Import, ImportAction, ImportConfiguration, ImportStep, ShowConfiguration,
};
pub use noun::job::{CancelJob, ListJobs, ShowJob};
pub use noun::key::{Key, RotateKey, ShowKey};
pub use noun::notification::{
    ChangeNotificationTarget, CreateNotificationTarget, DeleteNotificationTarget, ListNotificationTargets,
    NotificationTargetChange, ShowNotificationTarget, TestNotificationTarget,
};
pub use noun::performance::{ListBusiest, ListPaths, ShowCapacity, ShowPerformance, ShowReplicationHistory};
pub use noun::portal::{
    CreatePortal, DeletePortal, ListPortals, Portal, PortalRemoval, PortalState, ShowPortal,
};
pub use noun::recycle_bin::{
    BinnedDisk, DiskKind, EradicateFromRecycleBin, ListRecycleBin, Recovered, Restore, RestoreFromRecycleBin,
};
pub use noun::refused_login::ListRefusedLogins;
pub use noun::remote_array::{
    ChangeRemoteArray, CreatePairingKey, DeleteRemoteArray, ListRemoteArrays, PairRemoteArray, PairingKey,
    RemoteArray, RemoteArrayChange, ShowRemoteArray,
};
pub use noun::replication::{
    ChangeReplication, CreateReplication, DeleteReplication, DemoteReplication, ListReplications,
    PauseReplication, PromoteReplication, ReplicatedVolume, Replication, ReplicationChange,
    ReplicationDemotion, ReplicationPromotion, ResumeReplication, ShowReplication, SyncReplication,
    TestConnection,
};
pub use noun::restore::{Overwrite, RestoreVolume};
pub use noun::schedule::{
    ChangeSchedule, CreateSchedule, DeleteSchedule, ListSchedules, RunSchedule, Schedule, ShowSchedule,
};
pub use noun::scrub::StartScrub;
pub use noun::settings::{ChangeSettings, SettingsChange, ShowArray, ShowSettings, ShowStatus};
pub use noun::snapshot::{
    ChangeSnapshot, CompareSnapshots, Comparison, CreateSnapshotSet, CreateSnapshots, DeleteSnapshot,
    Difference, DifferentExtent, ListSnapshots, ShowSnapshot, Snapshot, SnapshotChange, SnapshotSource,
};
pub use noun::store::{ShowStore, Store};
pub use noun::time::ConfirmTime;
pub use noun::upgrade::{CommitUpgrade, Format, FormatPart, ShowUpgrade, Upgrade};
pub use noun::usage::{ShowGroupSpace, ShowVolumeSpace};
pub use noun::volume::{
    ChangeVolume, CloneVolume, CreateVolume, CreateVolumes, DeleteVolume, Deletion, ListVolumes, ShowVolume,
    Volume, VolumeChange,
};
pub use parts::api_listeners::ApiListeners;
pub use parts::env::{Env, File, Uptime};
pub use parts::fibre_channel::{FibreChannel, FibreChannelDevice, FibreChannelLink, FibreChannelNexus};
pub use parts::machine::{FoundDrive, Machine, NewKey};
pub use parts::membership::{
    Controller, ControllerChange, ControllerState, Controllers, JoinToken, Phases, Takeover, TakeoverCause,
};
pub use parts::moving_addresses::MovingAddresses;
pub use parts::overwrite::{Examined, Words, refusal};
pub use parts::remote_link::{Duplex, Link, LinkIdentity, Network};
pub use parts::sealing::SealingKey;
pub use parts::target_ports::{OwnPorts, shared_numbers};
pub use parts::{Parts, Threads};
pub use parts::{framed, hex};
pub use records::{
    ArrayIdentity, Chap, Compression, Content, DAY_MINUTES, Destination, DirectoryId, DirectorySettings,
    Endpoint, Error, Grant, GroupId, HostGroupId, HostId, Identity, Kind, Labels, LabelsChange, Ldap,
    LimitWindow, Limits, LimitsChange, Oidc, OnLinkLoss, Policy, PolicyChange, PortalEntry, PortalProtocol,
    Portals, Protection as MailProtection, ReplicationId, ReplicationMode, ReplicationRole, Result, Role,
    Rule, ScheduleId, Secret, TokenId, Topic, UserId, Weekday, Window,
};
pub use replication::points::{ListReplicationPoints, ReplicationPoint};
pub use replication::reversal::ReverseReplication;
pub use replication::test_failover::{NewTestFailover, StartTestFailover, StopTestFailover};
pub use request::verb::{BodyForm, Effect, Method, PathParameter, Route, Verb};
pub use request::{ReadPart, Request, Routed, Shown, Visitor};
pub use scsi::naa;
pub use service::accounts::{Accounts, Bearer, Member, Token, User};
pub use service::alerts::Alerts;
pub use service::caller::{Caller, Credential};
pub use service::directories::{Directories, Guest};
pub use service::login_queue::{LoginQueue, LoginReport, LoginReports};
pub use service::metering::{
    Busiest, Busy, By, Capacity, PathUse, Scope, TimeRange, imbalance, kind, size_limit,
};
pub use service::mirrors::SyncStatus;
pub use service::notifier::Notifier;
pub use service::remote_arrays::{LinkState, LinkStatus};
pub use service::replication_status::{Demotion, ReplicationState, ReplicationStatus};
pub use service::schedules::ScheduleChange;
pub use service::sealed_store::SealedStore;
pub use service::usage_meter::Usage;
pub use shape::ensure::Ensured;
pub use shape::policy::PolicyInForce;
pub use shape::status::{
    ArrayStatus, BriefStatus, Encryption, MemoryLimit, OpenAlerts, Settings, Space, State,
};
pub use shape::view::{
    Health, Job, JobKind, JobState, MeasuredReduction, NotificationTarget, RefusedLogin, SubjectName, Verdict,
};
pub use shape::window::{BandwidthWindow, WeeklyWindow};
pub use shape::work::{Latency, Work, micros, rate, round};
pub use shape::{Form, Listing, Objects, Outcome, Shape, rfc3339};
pub use shelf::pool::{KEY_BYTES, KeySource, ObjectPool, ObjectStore, WrappedKey};
pub use text::is_visible;

/// Fixed maxima of the configuration, which `docs/operating/sizing.md` lists.
pub mod maxima {
    pub use crate::configuration::check::{MAX_INITIATORS, MAX_VOLUME};
    pub use crate::noun::remote_array::MAX_REMOTE_ARRAYS;
    pub use crate::noun::replication::MAX_REPLICATIONS;
    pub use crate::noun::volume::MAX_NEW_VOLUMES;
    pub use crate::parts::target_ports::MAX_PORTS;
    pub use crate::replication::transfer::MAX_VOLUMES as MAX_REPLICATED_VOLUMES;
    pub use records::MAX_LUN;
}

/// Declares the modules of verbs.
macro_rules! nouns {
    ($($folder:ident::$noun:ident),* $(,)?) => {
        /// Every verb, by noun.
        pub const VERBS: &[&[Verb]] = &[$($folder::$noun::VERBS),*];

        /// Visits every verb that the API offers by its declaration.
        pub fn routes(visitor: &mut impl Visitor) {
            $($folder::$noun::routes(visitor);)*
        }
    };
}

nouns! {
    noun::settings,
    noun::upgrade,
    noun::time,
    noun::import,
    noun::controller,
    noun::portal,
    noun::api_address,
    noun::store,
    noun::drive,
    noun::scrub,
    noun::key,
    noun::job,
    noun::usage,
    noun::volume,
    noun::recycle_bin,
    noun::snapshot,
    noun::restore,
    noun::schedule,
    noun::group,
    noun::host,
    noun::connection,
    noun::refused_login,
    noun::fibre_channel_session,
    noun::bundle,
    noun::alert,
    noun::notification,
    noun::directory,
    noun::remote_array,
    noun::replication,
    replication::points,
    replication::reversal,
    replication::test_failover,
    noun::certificate,
    noun::access,
    noun::performance,
    noun::event,
}
