//! Every operator action and its answer: the one list that REST, command line, GUI, tests and simulation are views
//! of. How each is carried out is in the file of its noun; [`crate::Array::perform`] is the way in.

use crate::access::{Member, Token, User};
use crate::bundle::File;
use crate::certificate::Certificate;
use crate::directory::{Directory, DirectoryChange, NewDirectory};
use crate::drive::NewDrive;
use crate::job::Job;
use crate::key::{Key, NewKey};
use crate::login::RefusedLogin;
use crate::notification::{Target, TargetChange};
use crate::performance::{Busy, By, Capacity, PathUse, Scope, Stretch};
use crate::usage::Usage;
use crate::view::{
    ArrayStatus, BinnedDisk, Connection, Difference, Drive, Group, Host, HostGroup, Protection, Schedule,
    Settings, Snapshot, Volume,
};
use history::{Alert, AlertState, Audit, Event, Page, Series, Severity};
use notify::Destination;
use records::DirectoryId;
use records::Rule;
use records::{Chap, Secret};
use records::{LimitsChange, PolicyChange};
use records::{Role, TokenId, UserId};
use serde::Serialize;

/// Who asks, and by what they were let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user's name, for people to read: nothing is decided by it.
    pub user: String,
    /// From where: an address, or `local`.
    pub origin: String,
    /// The role when the caller was let in; what counts is the role that the credential has now.
    pub role: Role,
    /// What let the caller in.
    pub credential: Credential,
}

/// What let a caller in. It is asked again when the action is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The array itself, or the token in the array's folder on its machine.
    Machine,
    /// An API token.
    Token(TokenId),
    /// A session that began with the password of a user, set at a time in seconds since 1970.
    Session(UserId, u64),
    /// A session of somebody whom a directory vouched for, at a time in seconds since 1970.
    Guest(DirectoryId, u64),
}

impl Caller {
    /// The array itself: schedules, the recycle bin.
    pub fn array() -> Self {
        let (user, origin, role) = ("array".into(), "local".into(), Role::Admin);
        Self { user, origin, role, credential: Credential::Machine }
    }
}

/// A host or a host group, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerName {
    /// A host.
    Host(String),
    /// A host group.
    HostGroup(String),
}

/// Everything that an operator can ask for. Sizes in bytes, times in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Action {
    /// The array's state and space.
    ShowArray,
    /// What is set for the array as a whole.
    ShowSettings,
    /// Set it.
    ChangeSettings(SettingsChange),
    /// Say that the time of day is right although the array saw it jump: what is kept until a time goes by it again.
    ConfirmTime,

    /// How the drives protect what is stored, and the last scrub.
    ShowProtection,
    /// All drives, by slot.
    ListDrives,
    /// One drive.
    ShowDrive {
        /// Its slot, or its path.
        which: String,
    },
    /// Make a drive a part of the array.
    AddDrive(NewDrive),
    /// Place what a drive holds on the others, so that it can be taken away.
    EvacuateDrive {
        /// Its slot, or its path.
        which: String,
        /// Even if fewer drives may fail without loss after that.
        accept_reduced_protection: bool,
    },
    /// Add a drive, and empty another one.
    ReplaceDrive {
        /// The slot or path of the other one.
        which: String,
        /// The new one.
        new: NewDrive,
    },
    /// Read and verify everything on the drives.
    StartScrub,
    /// What the drives are locked with.
    ShowKey,
    /// Lock the drives with another key, at once, however much they hold.
    RotateKey(NewKey),
    /// Work that takes long, the newest last.
    ListJobs,
    /// One job.
    ShowJob {
        /// Its identity.
        id: String,
    },
    /// End a job before it is done.
    CancelJob {
        /// Its identity.
        id: String,
    },

    /// What a volume and its snapshots cost on the drives.
    ShowVolumeUsage {
        /// The volume.
        name: String,
    },
    /// What the volumes of a group and their snapshots cost on the drives together.
    ShowGroupUsage {
        /// The volume group.
        name: String,
    },
    /// Make a volume. `bytes`: 1 MiB to 16 PiB; `block_bytes`: 512 or 4096.
    CreateVolume {
        /// Its name.
        name: String,
        /// Its size in bytes.
        bytes: u64,
        /// Its logical block length in bytes.
        block_bytes: u32,
        /// The volume group to be in.
        group: Option<String>,
    },
    /// Make a volume with the contents that a volume or a snapshot has now, sharing its space.
    CloneVolume {
        /// The volume or snapshot to copy.
        source: String,
        /// Name of the new one.
        name: String,
        /// The volume group to be in.
        group: Option<String>,
    },
    /// All volumes, by name.
    ListVolumes,
    /// One volume.
    ShowVolume {
        /// Its name.
        name: String,
    },
    /// Change a volume.
    ChangeVolume {
        /// Its name.
        name: String,
        /// What to change.
        change: VolumeChange,
    },
    /// Forget reservations and mode pages of a volume or snapshot that were saved and can't be understood: hosts may
    /// write to it again.
    ClearUnreadableState {
        /// The volume or snapshot.
        name: String,
    },
    /// Take a volume that no host sees away: into the recycle bin, or for good.
    DeleteVolume {
        /// Its name.
        name: String,
        /// With its data and at once, instead of into the recycle bin.
        eradicate: bool,
    },
    /// What is in the recycle bin, the newest last.
    ListBin,
    /// Take a volume or a snapshot out of the recycle bin.
    TakeFromBin {
        /// Its identity, or its name when that says which.
        which: String,
        /// The name to have; its old one when none is given.
        name: Option<String>,
    },
    /// Delete a volume or a snapshot in the recycle bin with its data.
    EradicateFromBin {
        /// Its identity, or its name when that says which.
        which: String,
    },
    /// Give a volume the contents and size that a snapshot, or another volume, has now. What it held is lost.
    RestoreVolume {
        /// The volume to be overwritten.
        volume: String,
        /// The snapshot or volume with the contents.
        source: String,
    },

    /// Take a snapshot of a volume, or of every volume of a group at one moment.
    CreateSnapshots {
        /// Of what.
        subject: SubjectName,
        /// What stands behind the volume's name and a dot; the time when none is given.
        suffix: Option<String>,
        /// Nobody can delete or change it before this time, in seconds since 1970.
        keep_until: Option<u64>,
    },
    /// All snapshots, by name.
    ListSnapshots,
    /// One snapshot.
    ShowSnapshot {
        /// Its name.
        name: String,
    },
    /// Change a snapshot.
    ChangeSnapshot {
        /// Its name.
        name: String,
        /// What to change.
        change: SnapshotChange,
    },
    /// Take a snapshot that no host sees away: into the recycle bin, or for good.
    DeleteSnapshot {
        /// Its name.
        name: String,
        /// With its data and at once, instead of into the recycle bin.
        eradicate: bool,
    },
    /// Make a snapshot schedule.
    CreateSchedule {
        /// Its name.
        name: String,
        /// What it takes snapshots of.
        subject: SubjectName,
        /// What to set; rules are needed.
        change: ScheduleChange,
    },
    /// All schedules, by name.
    ListSchedules,
    /// One schedule.
    ShowSchedule {
        /// Its name.
        name: String,
    },
    /// Change a schedule.
    ChangeSchedule {
        /// Its name.
        name: String,
        /// What to change.
        change: ScheduleChange,
    },
    /// Forget a schedule; its snapshots stay.
    DeleteSchedule {
        /// Its name.
        name: String,
    },
    /// Take the snapshots of a schedule, and let go of those that it no longer keeps.
    RunSchedule {
        /// Its name.
        name: String,
        /// Whether it is due or not.
        now: bool,
    },
    /// What differs between two volumes or snapshots.
    CompareDisks {
        /// The older one; nothing at all when none is given, so that everything mapped differs.
        base: Option<String>,
        /// The newer one.
        name: String,
        /// Where to begin, in bytes.
        from: u64,
        /// At most so many extents.
        most: usize,
    },

    /// Make a volume group.
    CreateGroup {
        /// Its name.
        name: String,
        /// What to set.
        change: GroupChange,
    },
    /// All volume groups, by name.
    ListGroups,
    /// One volume group.
    ShowGroup {
        /// Its name.
        name: String,
    },
    /// Change a volume group.
    ChangeGroup {
        /// Its name.
        name: String,
        /// What to change.
        change: GroupChange,
    },
    /// Forget a volume group; its volumes stay.
    DeleteGroup {
        /// Its name.
        name: String,
    },

    /// Make a host known, so that it may log in.
    CreateHost {
        /// Its name.
        name: String,
        /// Its iSCSI initiator names, at least one.
        initiators: Vec<String>,
        /// CHAP that it must pass.
        chap: Option<Chap>,
        /// CHAP that the array passes to it.
        mutual: Option<Chap>,
    },
    /// All hosts, by name.
    ListHosts,
    /// One host.
    ShowHost {
        /// Its name.
        name: String,
    },
    /// Change a host.
    ChangeHost {
        /// Its name.
        name: String,
        /// What to change.
        change: HostChange,
    },
    /// Forget a host that sees no volume.
    DeleteHost {
        /// Its name.
        name: String,
    },
    /// Log-ins that were refused, of known and unknown initiators, the last one first.
    ListRefusedLogins,
    /// Make a host group.
    CreateHostGroup {
        /// Its name.
        name: String,
        /// Names of its hosts.
        hosts: Vec<String>,
    },
    /// All host groups, by name.
    ListHostGroups,
    /// One host group.
    ShowHostGroup {
        /// Its name.
        name: String,
    },
    /// Change a host group.
    ChangeHostGroup {
        /// Its name.
        name: String,
        /// What to change.
        change: HostGroupChange,
    },
    /// Forget a host group that sees no volume; its hosts stay.
    DeleteHostGroup {
        /// Its name.
        name: String,
    },

    /// Let a host or a host group see a volume or a snapshot.
    Connect {
        /// Name of the volume or snapshot.
        volume: String,
        /// Who.
        peer: PeerName,
        /// The LUN, 0 to 16383; the lowest free one when none is given.
        lun: Option<u16>,
        /// Refuse writes, whatever the volume takes. A snapshot that is not writable takes none anyhow.
        read_only: bool,
    },
    /// Let a host or a host group no longer see a volume or a snapshot.
    Disconnect {
        /// Name of the volume or snapshot.
        volume: String,
        /// Who.
        peer: PeerName,
    },
    /// Who sees what, by volume.
    ListConnections,

    /// What somebody who helps from afar needs to know, without secrets.
    ShowSupportBundle,
    /// What needs, or needed, somebody's attention, newest first.
    ListAlerts,
    /// One alert.
    ShowAlert {
        /// Its number.
        id: i64,
    },
    /// Say that somebody looks after an alert, that nobody does, or that it is over: then it is not raised again before
    /// it really is, or matters more.
    ChangeAlert {
        /// Its number.
        id: i64,
        /// How far it is to be.
        #[serde(serialize_with = "crate::alert::word")]
        state: AlertState,
    },

    /// Whom alerts are told elsewhere, by name.
    ListTargets,
    /// One of them.
    ShowTarget {
        /// Its name.
        name: String,
    },
    /// Tell alerts elsewhere from now on.
    CreateTarget {
        /// Its name.
        name: String,
        /// Where notices go.
        destination: Destination,
        /// What it is depends on the destination.
        secret: Option<Secret>,
        /// The least that an alert must matter.
        least: Severity,
        /// Whether anything is sent.
        enabled: bool,
    },
    /// Change a notification target.
    ChangeTarget {
        /// Its name.
        name: String,
        /// What to change.
        change: TargetChange,
    },
    /// Forget a notification target.
    DeleteTarget {
        /// Its name.
        name: String,
    },
    /// Send a test there, and wait for it.
    TestTarget {
        /// Its name.
        name: String,
    },

    /// Directories elsewhere that know people, by name.
    ListDirectories,
    /// One of them.
    ShowDirectory {
        /// Its name.
        name: String,
    },
    /// Let people log in whom a directory knows.
    CreateDirectory(Box<NewDirectory>),
    /// Change a directory; sessions of its people end.
    ChangeDirectory {
        /// Its name.
        name: String,
        /// What to change.
        change: Box<DirectoryChange>,
    },
    /// Forget a directory; sessions of its people end.
    DeleteDirectory {
        /// Its name.
        name: String,
    },
    /// Ask a directory whether it is there and takes what is set.
    TestDirectory {
        /// Its name.
        name: String,
    },

    /// The certificate of the API.
    ShowCertificate,
    /// Replace it; that the key belongs to it has been looked at before.
    ReplaceCertificate {
        /// The chain in PEM, the array's own first.
        #[serde(serialize_with = "notify::mark::pem")]
        chain: String,
        /// The key in PEM.
        key: Secret,
    },
    /// Make a user.
    CreateUser {
        /// Its name.
        name: String,
        /// What it may do.
        role: Role,
        /// Its password, 8 to 256 characters.
        password: Secret,
    },
    /// All users, by name.
    ListUsers,
    /// One user.
    ShowUser {
        /// Its name.
        name: String,
    },
    /// Change a user; what is none stays.
    ChangeUser {
        /// Its name.
        name: String,
        /// What it may do.
        role: Option<Role>,
        /// Its password, 8 to 256 characters.
        password: Option<Secret>,
    },
    /// Forget a user, with its tokens.
    DeleteUser {
        /// Its name.
        name: String,
    },
    /// The user whose session it is.
    ShowOwnUser,
    /// Set the password of the user whose session it is.
    ChangeOwnPassword {
        /// Proof that the current password was given.
        #[serde(skip)]
        verified: Member,
        /// The new one, 8 to 256 characters.
        password: Secret,
    },
    /// Make a token for a program.
    CreateToken {
        /// Its name.
        name: String,
        /// Whose it is; the caller's when none is given.
        user: Option<String>,
        /// What may be done with it; what its user may when none is given, and never more.
        role: Option<Role>,
        /// When it stops to be good, in seconds since 1970; never when none is given.
        expires: Option<u64>,
    },
    /// All tokens, by name.
    ListTokens,
    /// Forget a token.
    DeleteToken {
        /// Its name.
        name: String,
    },

    /// What was done, and how fast, in the parts of a stretch of time.
    ShowPerformance {
        /// By whom.
        #[serde(skip)]
        scope: Scope,
        /// When.
        #[serde(skip)]
        stretch: Stretch,
    },
    /// What each did in the last moments, the busiest first.
    ListBusiest {
        /// Volumes or hosts.
        #[serde(skip)]
        by: By,
        /// How many seconds, 20 at most.
        seconds: u64,
    },
    /// What came by each path of one host, or of all.
    ListPaths {
        /// The host.
        host: Option<String>,
        /// When.
        #[serde(skip)]
        stretch: Stretch,
    },
    /// How the space was used, and how it goes on.
    ShowCapacity(#[serde(skip)] Stretch),

    /// What happened, newest first.
    ListEvents {
        /// Which part.
        #[serde(skip)]
        page: Page,
        /// At least as severe.
        least: Severity,
    },
    /// What operators did, newest first.
    ListAudit {
        /// Which part.
        #[serde(skip)]
        page: Page,
    },
}

/// A volume or a volume group, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectName {
    /// A volume.
    Volume(String),
    /// A volume group.
    Group(String),
}

/// What to change of a snapshot: one record at a time, as each is a step of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotChange {
    /// Another name.
    Name(String),
    /// Whether hosts may write to it.
    Writable(bool),
    /// Nobody can delete or change it before this time, in seconds since 1970.
    KeepUntil(u64),
}

/// What to set of a schedule; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScheduleChange {
    /// Another name.
    pub name: Option<String>,
    /// When it takes snapshots, and how many it keeps: all rules.
    pub rules: Option<Vec<Rule>>,
    /// Nobody can delete a snapshot that is taken from now on before it is so many seconds old.
    pub immutable: Option<u64>,
    /// Whether it takes snapshots.
    pub enabled: Option<bool>,
}

/// What to set for the array as a whole; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SettingsChange {
    /// What people call the array.
    pub name: Option<String>,
    /// How long the recycle bin keeps a volume, in seconds.
    pub bin_seconds: Option<u64>,
    /// How much UNMAP is slowed down: 0 not at all, 9 most.
    pub unmap_throttle: Option<u8>,
    /// How long after a scrub has ended the next one begins by itself, in seconds, an hour to a year; 0: never.
    pub scrub_seconds: Option<u64>,
}

/// What to change of a volume; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VolumeChange {
    /// Another name.
    pub name: Option<String>,
    /// Another size in bytes; hosts are told. Not together with anything else, as it is a step of its own.
    pub bytes: Option<u64>,
    /// Cut off the end and lose what is there. Without it a smaller size is refused.
    pub shrink: bool,
    /// Another volume group, or none.
    pub group: Option<Option<String>>,
    /// How its data are reduced from now on.
    pub policy: PolicyChange,
    /// What it may do in a second.
    pub limits: LimitsChange,
    /// Whether RESERVE and RELEASE of SCSI-2 are commands of it.
    pub scsi2_reservations: Option<bool>,
    /// Whether it takes no changes. Not together with anything else, as it is a step of its own.
    pub read_only: Option<bool>,
}

/// What to set of a volume group; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupChange {
    /// Another name.
    pub name: Option<String>,
    /// Mapped bytes beyond which operators and hosts are warned.
    pub soft_quota: Option<Option<u64>>,
    /// Mapped bytes beyond which its volumes take no new space.
    pub hard_quota: Option<Option<u64>>,
    /// How the data of its volumes are reduced from now on.
    pub policy: PolicyChange,
    /// What its volumes may do together in a second.
    pub limits: LimitsChange,
}

/// What to change of a host; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostChange {
    /// Another name.
    pub name: Option<String>,
    /// Other initiator names, all of them.
    pub initiators: Option<Vec<String>>,
    /// Other CHAP that it must pass, or none.
    pub chap: Option<Option<Chap>>,
    /// Other CHAP that the array passes to it, or none.
    pub mutual: Option<Option<Chap>>,
}

/// What to change of a host group; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostGroupChange {
    /// Another name.
    pub name: Option<String>,
    /// Other hosts, all of them.
    pub hosts: Option<Vec<String>>,
}

/// What an action answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The array as it is now.
    Array(Box<ArrayStatus>),
    /// The settings as they are now.
    Settings(Settings),
    /// How what is stored is protected.
    Protection(Box<Protection>),
    /// A drive as it is now.
    Drive(Box<Drive>),
    /// Drives.
    Drives(Vec<Drive>),
    /// What the drives are locked with.
    Key(Key),
    /// A job as it is now.
    Job(Job),
    /// Jobs.
    Jobs(Vec<Job>),
    /// A volume as it is now.
    Volume(Volume),
    /// Volumes.
    Volumes(Vec<Volume>),
    /// What is in the recycle bin.
    Bin(Vec<BinnedDisk>),
    /// A snapshot as it is now.
    Snapshot(Snapshot),
    /// Snapshots.
    Snapshots(Vec<Snapshot>),
    /// A schedule as it is now.
    Schedule(Schedule),
    /// Schedules.
    Schedules(Vec<Schedule>),
    /// What differs.
    Difference(Difference),
    /// What is used.
    Usage(Usage),
    /// A volume group as it is now.
    Group(Group),
    /// Volume groups.
    Groups(Vec<Group>),
    /// A host as it is now.
    Host(Host),
    /// Hosts.
    Hosts(Vec<Host>),
    /// Refused log-ins.
    RefusedLogins(Vec<RefusedLogin>),
    /// A host group as it is now.
    HostGroup(HostGroup),
    /// Host groups.
    HostGroups(Vec<HostGroup>),
    /// A connection as it is now.
    Connection(Connection),
    /// Connections.
    Connections(Vec<Connection>),
    /// The support bundle.
    Bundle(Vec<File>),
    /// An alert as it is now.
    Alert(Alert),
    /// Alerts.
    Alerts(Vec<Alert>),
    /// A notification target as it is now.
    Target(Box<Target>),
    /// Notification targets.
    Targets(Vec<Target>),
    /// A directory as it is now.
    Directory(Box<Directory>),
    /// Directories.
    Directories(Vec<Directory>),
    /// What a directory said to a test.
    Tested(String),
    /// The certificate as it is now.
    Certificate(Certificate),
    /// A user as it is now.
    User(User),
    /// Users.
    Users(Vec<User>),
    /// A new token, and the secret that is never told again.
    NewToken(Token, Secret),
    /// Tokens.
    Tokens(Vec<Token>),
    /// What was done.
    Performance(Box<Series>),
    /// What each did in so many milliseconds.
    Busiest {
        /// How long.
        millis: u64,
        /// Each that was not idle.
        busiest: Vec<Busy>,
    },
    /// What came by each path.
    Paths(Vec<PathUse>),
    /// How the space was used.
    Capacity(Capacity),
    /// What happened.
    Events(Vec<Event>),
    /// What operators did.
    Audit(Vec<Audit>),
    /// What was asked to go is gone.
    Gone,
}
