//! Results of requests, and names in them: plain values.

use crate::policy::PolicyInForce;
use crate::shape::{digits, shapes, some_time, time};
use block::DiskId;
use engine::Ratios;
use history::{Sample, Severity};
use records::{
    Config, Content, Destination, GroupId, HostGroupId, HostId, Labels, Limits, Policy, Rule, ScheduleId,
    Scrub,
};
use serde::Serialize;
use shelf::pool::{DriveStatus, KeySource, PoolStatus};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use utoipa::ToSchema;

shapes! {
    Group: "Groups" "Volume groups." "Sorted by name", labels;
    Schedule: "Schedules" "Schedules." "Sorted by name";
    Host: "Hosts" "Hosts." "Sorted by name", labels;
    HostGroup: "HostGroups" "Host groups." "Sorted by name", labels;
    NotificationTarget: "NotificationTargets" "Alert notification targets." "Sorted by name";
    Job: "Jobs" "Jobs." "Newest last";
    Connection: "Connections" "Connections." "Sorted by volume";
}

/// A volume as an operator sees it. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its identity.
    pub id: DiskId,
    /// Its name.
    pub name: String,
    /// Size that hosts see.
    pub bytes: u64,
    /// Logical block length: 512 or 4096.
    pub block_bytes: u32,
    /// Mapped by hosts.
    pub mapped: u64,
    /// The name that hosts know it by (VPD page 83h): `naa.` and 32 hex digits.
    pub naa: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// The volume group that it is in.
    pub group: Option<String>,
    /// Its identity.
    pub group_id: Option<GroupId>,
    /// What it was cloned from; `None` if that is gone.
    pub source: Option<String>,
    /// The identity of what it was cloned from, even if that is gone.
    pub source_id: Option<DiskId>,
    /// It takes no changes.
    pub read_only: bool,
    /// What is set about its reduction.
    pub policy: Policy,
    /// How its data are reduced: what is set, or inherited.
    pub in_force: PolicyInForce,
    /// What it may do in a second.
    pub limits: Limits,
    /// RESERVE and RELEASE of SCSI-2 are commands of it.
    pub scsi2_reservations: bool,
    /// Hosts may see it over iSCSI and over NVMe/TCP at once.
    pub mixed_transports: bool,
    /// Its labels.
    pub labels: Labels,
    /// Number of its snapshots.
    pub snapshots: usize,
    /// What hosts did with it in the last seconds.
    pub recent: Sample,
    /// Its reduction when it was measured last.
    pub reduction: Option<MeasuredReduction>,
    /// Its connections: hosts, then host groups.
    pub connections: Vec<Connection>,
}

/// What a volume and its snapshots hold, and what only they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredReduction {
    /// Data, without zeros.
    pub data: u64,
    /// Space on the drives that only they take.
    pub physical: u64,
}

impl MeasuredReduction {
    /// Data to space; `None` if others hold all of it as well.
    pub fn ratio(&self) -> Option<f64> {
        (self.physical > 0).then(|| self.data as f64 / self.physical as f64)
    }
}

/// A snapshot as an operator sees it. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its identity.
    pub id: DiskId,
    /// Its name.
    pub name: String,
    /// The volume that it was taken of; `None` if that is gone.
    pub source: Option<String>,
    /// The identity of that volume, even if it is gone.
    pub source_id: DiskId,
    /// The schedule that took it; `None` if it was taken by hand, or the schedule is gone.
    pub schedule: Option<String>,
    /// Those that were taken at one moment have the same number here.
    pub set: u64,
    /// When it was taken, in seconds since 1970.
    pub created: u64,
    /// Size that hosts see.
    pub bytes: u64,
    /// Logical block length: 512 or 4096.
    pub block_bytes: u32,
    /// Mapped by hosts.
    pub mapped: u64,
    /// Hosts may write to it.
    pub writable: bool,
    /// Retention lock: it can't be deleted or changed before this time, in seconds since 1970.
    pub kept_until: Option<u64>,
    /// The name that hosts know it by (VPD page 83h): `naa.` and 32 hex digits.
    pub naa: String,
    /// Its labels.
    pub labels: Labels,
    /// Its connections: hosts, then host groups.
    pub connections: Vec<Connection>,
}

/// A snapshot schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Schedule {
    /// Name.
    pub name: String,
    /// Permanent identifier: 16 hex digits.
    #[schema(value_type = String)]
    pub id: ScheduleId,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Volume to snapshot; `null` for a group.
    pub volume: Option<String>,
    /// Volume group to snapshot, consistent across its volumes; `null` for a volume.
    pub group: Option<String>,
    /// Rules. Rules that are due at the same time share one snapshot; it is eradicated when no rule retains it.
    pub rules: Vec<Rule>,
    /// Retention lock: seconds during which a snapshot cannot be deleted.
    pub immutable_seconds: u64,
    /// Whether the schedule is active.
    pub enabled: bool,
    /// Next run; `null`: never.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next: Option<u64>,
    /// Time of its newest snapshot; `null` if it has none.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last: Option<u64>,
    /// Number of its snapshots.
    pub snapshots: usize,
}

/// What differs between two volumes or snapshots, as far as one answer goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// In order. What was written with what was there before may be among them.
    pub extents: Vec<DifferentExtent>,
    /// Where to go on, in bytes; none at the end.
    pub next: Option<u64>,
}

/// A run of bytes that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DifferentExtent {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// Whether it is mapped on the newer one; it reads as zeros otherwise.
    pub mapped: bool,
}

/// A volume or snapshot in the recycle bin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinnedDisk {
    /// Its identity.
    pub id: DiskId,
    /// It is a snapshot.
    pub snapshot: bool,
    /// The name that it had.
    pub name: String,
    /// Size that hosts saw.
    pub bytes: u64,
    /// Mapped by hosts.
    pub mapped: u64,
    /// When it was deleted, in seconds since 1970.
    pub deleted: u64,
    /// When it will be eradicated, in seconds since 1970.
    pub until: u64,
}

/// A volume group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Group {
    /// Name.
    pub name: String,
    /// Permanent identifier: 16 hex digits.
    #[schema(value_type = String)]
    pub id: GroupId,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Mapped bytes above which operators and hosts are warned; `null`: no quota.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub soft_quota: Option<u64>,
    /// Mapped bytes above which writes that need new space fail, checked once a second; `null`: no quota.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub hard_quota: Option<u64>,
    /// Volumes.
    pub volumes: Vec<String>,
    /// Provisioned bytes: sum of the volume sizes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub provisioned: u64,
    /// Mapped (written and not unmapped) bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub mapped: u64,
    /// Whether the soft quota is exceeded.
    pub soft_quota_crossed: bool,
    /// Whether the hard quota is reached, so that writes that need new space fail.
    pub hard_quota_reached: bool,
    /// Data reduction settings of its volumes, unless a volume overrides them.
    #[serde(serialize_with = "Policy::whole")]
    pub policy: Policy,
    /// QoS limits shared by its volumes.
    #[serde(serialize_with = "Limits::whole")]
    pub limits: Limits,
    /// Labels.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
}

/// A host. Secrets are never shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Host {
    /// Name.
    pub name: String,
    /// Permanent identifier: 16 hex digits.
    #[schema(value_type = String)]
    pub id: HostId,
    /// iSCSI initiator names, in lower case.
    pub initiators: Vec<String>,
    /// NVMe qualified names (NQNs) for NVMe/TCP.
    pub nqns: Vec<String>,
    /// N_Port names (WWPNs) for Fibre Channel, as pairs of hexadecimal digits with colons.
    pub wwpns: Vec<String>,
    /// CHAP user of the host; `null` if CHAP is not required.
    pub chap_user: Option<String>,
    /// CHAP user of the array (mutual CHAP); `null` if mutual CHAP is off.
    pub mutual_user: Option<String>,
    /// The host must authenticate over NVMe/TCP with its DH-HMAC-CHAP secret.
    pub dhchap: bool,
    /// The array has a DH-HMAC-CHAP secret of its own, with which it authenticates if the host asks.
    pub dhchap_controller: bool,
    /// The host has a PSK and must use TLS over NVMe/TCP.
    pub tls: bool,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Host group; `null` if it is in none.
    pub host_group: Option<String>,
    /// Permanent identifier of the host group.
    #[schema(value_type = Option<String>)]
    pub host_group_id: Option<HostGroupId>,
    /// Labels.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Connected volumes and snapshots, including those of its host group.
    pub connections: Vec<Connection>,
    /// Current number of iSCSI sessions, at the portals of all controllers.
    pub sessions: usize,
    /// Current number of NVMe/TCP controllers.
    pub controllers: usize,
    /// Current number of Fibre Channel sessions: pairs of an initiator port and a target port.
    pub fibre_channel_sessions: usize,
    /// Refused iSCSI log-ins of its initiators, most recent first.
    pub refused_logins: Vec<RefusedLogin>,
}

/// A host group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct HostGroup {
    /// Name.
    pub name: String,
    /// Permanent identifier: 16 hex digits.
    #[schema(value_type = String)]
    pub id: HostGroupId,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Hosts.
    pub hosts: Vec<String>,
    /// Labels.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Volumes and snapshots connected to all of its hosts.
    pub connections: Vec<Connection>,
}

/// A connection of a volume or snapshot to a host or host group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub struct Connection {
    /// Volume or snapshot.
    pub volume: String,
    /// Permanent identifier of the volume or snapshot.
    #[serde(serialize_with = "digits")]
    #[schema(value_type = String)]
    pub volume_id: DiskId,
    /// Identifier reported to hosts (NAA, VPD page 83h).
    pub naa: String,
    /// Host; `null` for a connection to a host group.
    pub host: Option<String>,
    /// Permanent identifier of the host.
    #[schema(value_type = Option<String>)]
    pub host_id: Option<HostId>,
    /// Host group; in the connections of a host, the group that the connection is inherited from.
    pub host_group: Option<String>,
    /// Permanent identifier of the host group.
    #[schema(value_type = Option<String>)]
    pub host_group_id: Option<HostGroupId>,
    /// Logical unit number.
    pub lun: u16,
    /// Whether writes are refused, by the connection or because the snapshot is not writable.
    pub read_only: bool,
}

/// A connection, and what a host needs to attach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The connection.
    pub connection: Connection,
    /// The serial number that hosts know it by (VPD page 80h).
    pub serial: String,
    /// Size that hosts see, in bytes.
    pub bytes: u64,
    /// Logical block length: 512 or 4096.
    pub block_bytes: u32,
    /// iSCSI name of the target.
    pub target_iqn: String,
    /// Where the host logs in; the number of a portal is its portal group tag.
    pub portals: Vec<iscsi::Portal>,
    /// The host must pass CHAP; of a host group: one of its hosts must.
    pub chap: bool,
    /// The array passes CHAP to the host; of a host group: to one of its hosts.
    pub mutual_chap: bool,
    /// For hosts that use NVMe/TCP.
    pub nvme: Option<NvmeAttachment>,
}

/// What a host needs to attach a volume over NVMe/TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeAttachment {
    /// NQN of the subsystem.
    pub subsystem_nqn: String,
    /// The namespace identifier.
    pub nsid: u32,
    /// Where the host connects.
    pub portals: Vec<SocketAddr>,
}

/// Settings of the array as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What people call the array.
    pub name: String,
    /// How long the recycle bin keeps a volume, in seconds.
    pub bin_seconds: u64,
    /// How much UNMAP is slowed down: 0 not at all, 9 most.
    pub unmap_throttle: u8,
    /// How long after a scrub has ended the next one begins by itself, in seconds; 0: never.
    pub scrub_seconds: u64,
    /// Longest time for which a retention lock can be set, in seconds.
    pub max_lock_seconds: u64,
    /// The time zone of schedules, by its name in the IANA database.
    pub time_zone: String,
    /// Threads for connections of hosts that are set; `None`: one for each processor.
    pub threads: Option<u16>,
    /// Threads that there are since the start.
    pub threads_now: u16,
    /// An option of the start sets them, whatever is set here.
    pub threads_by_option: bool,
}

/// The memory that the process may use, by which its index, maps and connections are sized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes.
    pub bytes: u64,
    /// What limits it: the machine, or the file of a control group.
    pub source: String,
}

/// The array as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayStatus {
    /// What people call it.
    pub name: String,
    /// Sixteen hex digits.
    pub serial: String,
    /// Version of the software.
    pub version: String,
    /// Whether it serves.
    pub state: State,
    /// iSCSI name of its target.
    pub target_iqn: String,
    /// Where hosts log in.
    pub portals: Vec<SocketAddr>,
    /// NQN of its subsystem for NVMe/TCP.
    pub subsystem_nqn: String,
    /// Where hosts connect over NVMe/TCP; none without it.
    pub nvme_portals: Vec<SocketAddr>,
    /// How long it has been serving.
    pub uptime: Duration,
    /// Space.
    pub space: Space,
    /// How many volumes there are.
    pub volumes: usize,
    /// How many hosts there are.
    pub hosts: usize,
    /// How many iSCSI sessions there are now.
    pub sessions: usize,
    /// How many controllers hosts have over NVMe/TCP now.
    pub nvme_controllers: usize,
    /// The memory that sizes follow.
    pub memory: MemoryLimit,
    /// What the drives' data key is locked with; `None` if the drives are not encrypted.
    pub encryption: Option<KeySourceKind>,
}

/// How many alerts are open, acknowledged or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenAlerts {
    /// All.
    pub all: usize,
    /// Those that are warnings.
    pub warning: usize,
    /// Those that are critical.
    pub critical: usize,
}

/// The array in few figures.
#[derive(Clone, Debug, PartialEq)]
pub struct BriefStatus {
    /// What people call it.
    pub name: String,
    /// Sixteen hex digits.
    pub serial: String,
    /// Version of the software.
    pub version: String,
    /// Whether it serves.
    pub state: State,
    /// Alerts that are open.
    pub alerts: OpenAlerts,
    /// iSCSI name of its target.
    pub target_iqn: String,
    /// Space.
    pub space: Space,
}

/// What the key of encrypted drives is locked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySourceKind {
    /// A file.
    File,
    /// A passphrase.
    Passphrase,
    /// A key on a KMIP server.
    Kmip,
}

impl KeySourceKind {
    /// Of what an envelope says; `None` if its key has been destroyed.
    pub(crate) fn of(source: &KeySource) -> Option<Self> {
        match source {
            KeySource::Erased => None,
            KeySource::File => Some(Self::File),
            KeySource::Passphrase { .. } => Some(Self::Passphrase),
            KeySource::Kmip { .. } => Some(Self::Kmip),
        }
    }
}

/// Whether the array serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Online,
    /// It stopped to protect data; the text says why.
    Stopped(String),
}

/// How the drives protect what is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Protection {
    /// What the shelf says.
    pub shelf: PoolStatus,
    /// The scrub under way, or the last one; `None` if there never was one.
    pub scrub: Option<Scrub>,
    /// When the next one begins by itself, in seconds since 1970; none while one is under way, and when none will.
    pub next_scrub: Option<u64>,
}

/// A drive as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// What it is to the array.
    pub status: DriveStatus,
    /// Its health.
    pub health: Health,
    /// By how much emptying it reduces protection, for people; `None` if it does not.
    pub evacuation_warning: Option<String>,
}

/// A drive as messages call it.
pub(crate) fn called(drive: &DriveStatus) -> String {
    match &drive.name {
        Some(name) => format!("the drive {name} in slot {}", drive.slot),
        None => format!("the drive in slot {}", drive.slot),
    }
}

/// Space in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Space {
    /// Sum of the volumes' sizes.
    pub provisioned: u64,
    /// Mapped by hosts.
    pub mapped: u64,
    /// Of that, zeros: they are stored nowhere.
    pub zero: u64,
    /// Logical data: what volumes and snapshots hold, each by itself, without zeros.
    pub logical: u64,
    /// Mapped on snapshots and not zeros; most of it is shared with volumes and other snapshots.
    pub snapshot: u64,
    /// Different data of volumes and snapshots: what is left after zero detection and deduplication.
    pub unique: u64,
    /// What they hold beyond that: what deduplication, clones and snapshots save.
    pub shared: u64,
    /// In use on the drives, after compression.
    pub physical: u64,
    /// In use on the drives by maps and other data of the array's own.
    pub metadata: u64,
    /// In use on the drives by what nothing refers to any more; cleaning wins it back as it is needed.
    pub reclaimable: u64,
    /// Free on the drives.
    pub free: u64,
    /// Usable on the drives.
    pub total: u64,
    /// The ratios between them.
    pub ratios: Ratios,
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

impl SubjectName {
    /// Either a volume or a volume group.
    pub(crate) fn of(volume: Option<String>, group: Option<String>) -> crate::Result<Self> {
        match (volume, group) {
            (Some(volume), None) => Ok(Self::Volume(volume)),
            (None, Some(group)) => Ok(Self::Group(group)),
            _ => Err(crate::Error::invalid("name either a volume or a volume group")),
        }
    }

    /// For the audit log, with its name if it was given by its identity.
    pub(crate) fn shown(&self, config: &Config) -> String {
        match self {
            SubjectName::Volume(which) => format!("of volume {}", config.name_for(which)),
            SubjectName::Group(which) => format!("of volume group {}", config.name_for(which)),
        }
    }
}

/// What a drive reports of its health; `None` where it reports nothing. Bytes and errors are over its whole life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// What its maker calls it.
    pub model: Option<String>,
    /// Its number.
    pub serial: Option<String>,
    /// The version of its software.
    pub firmware: Option<String>,
    /// Its own verdict: false when it fails, or expects to.
    pub passed: Option<bool>,
    /// Its temperature in degrees Celsius.
    pub celsius: Option<i64>,
    /// Percent used of its rated writes; may exceed 100.
    pub used_percent: Option<u64>,
    /// Percent left of its spare space.
    pub spare_percent: Option<u64>,
    /// Power-on hours.
    pub power_on_hours: Option<u64>,
    /// Times that it could not give back what it had been given.
    pub media_errors: Option<u64>,
    /// Bytes written to it.
    pub written_bytes: Option<u64>,
    /// Bytes read from it.
    pub read_bytes: Option<u64>,
}

/// A log-in over iSCSI or a connect over NVMe/TCP that was refused or broke off, once or repeatedly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RefusedLogin {
    /// iSCSI initiator name or NQN; `null` if none was sent.
    pub initiator: Option<String>,
    /// Host with this name; `null` if there is none.
    pub host: Option<String>,
    /// Source address.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// Portal number, from 1; those of NVMe/TCP come after those of iSCSI.
    pub portal: u16,
    /// Machine-readable cause: `unknown-initiator`, `unknown-target`, `chap-required`, `chap-not-configured`,
    /// `wrong-chap-user`, `wrong-chap-secret`, `mutual-chap-not-configured`, `too-many-attempts`, `too-many-connections`,
    /// `access-changed`, `broken-off`, `dhchap-required`, `wrong-dhchap-secret`, `dhchap-controller-refused`,
    /// `tls-required`, `tls-handshake`, `tls-identity` or `protocol-error`.
    #[schema(value_type = String)]
    pub cause: Cow<'static, str>,
    /// Human-readable cause.
    pub reason: String,
    /// Number of occurrences.
    pub count: u64,
    /// First occurrence.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub first: u64,
    /// Most recent occurrence.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub last: u64,
}

/// Kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// Evacuation of a drive, started by a user.
    Evacuate,
    /// Rebuild of the data of a failed drive. Cannot be cancelled.
    Rebuild,
    /// Scrub: all data in use is read and verified.
    Scrub,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// In progress.
    Running,
    /// Completed successfully.
    Done,
    /// Failed; see `message`.
    Failed,
    /// Cancelled by a user.
    Cancelled,
}

/// A background job.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Job {
    /// Identifier: eight hex digits.
    pub id: String,
    /// Kind of job.
    pub kind: JobKind,
    /// Slot of the drive concerned; `null` if none is.
    pub slot: Option<usize>,
    /// Description.
    pub description: String,
    /// User who started it; `array` if the array did.
    pub user: String,
    /// Start time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub started: u64,
    /// End time; `null` while it runs.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended: Option<u64>,
    /// State.
    pub state: JobState,
    /// Completed fraction, 0 to 1.
    #[schema(extensions(("x-unit" = json!("fraction"))))]
    pub progress: f64,
    /// Result in words; `null` if there is none yet.
    pub message: Option<String>,
}

/// The first few names of a list, for a message.
pub(crate) fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 5;
    match names.len() {
        0..=SHOWN => names.join(", "),
        all => format!("{} and {} more", names[..SHOWN].join(", "), all - SHOWN),
    }
}

/// A notification target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct NotificationTarget {
    /// Name.
    pub name: String,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Destination.
    pub destination: Destination,
    /// Minimum severity of alerts and events to send.
    pub severity: Severity,
    /// What is sent.
    #[schema(value_type = Vec<Content>)]
    pub content: BTreeSet<Content>,
    /// Whether notifications are sent.
    pub enabled: bool,
    /// Whether a secret is set. The secret is never returned.
    pub has_secret: bool,
    /// Time of the last successful delivery since the array started; `null` if there was none.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub delivered: Option<u64>,
    /// Reason why the last delivery failed; `null` if it succeeded.
    pub failing: Option<String>,
    /// Number of queued notifications.
    pub waiting: usize,
    /// Number of notifications dropped because the queue was full.
    pub lost: u64,
}
