//! Results of requests, and names in them: plain values.

use crate::shape::policy::PolicyInForce;
use crate::shape::work::RecentPerformance;
use crate::shape::{digits, shapes, sixteen_digits, some_digits, some_time, time};
use block::DiskId;
use history::{Sample, Severity};
use records::{
    Config, Content, Destination, GroupId, HostGroupId, HostId, Labels, Limits, Policy, Rule, ScheduleId,
    Scrub,
};
use serde::{Serialize, Serializer};
use shelf::pool::{DriveStatus, PoolStatus};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use utoipa::ToSchema;

shapes! {
    Volume: "Volumes" "Volumes." "Sorted by name", labels;
    Snapshot: "Snapshots" "Snapshots." "Sorted by name", labels;
    BinnedDisk: "RecycleBin" "The contents of the recycle bin." "Newest last";
    Difference;
    Group: "Groups" "Volume groups." "Sorted by name", labels;
    Schedule: "Schedules" "Schedules." "Sorted by name";
    Host: "Hosts" "Hosts." "Sorted by name", labels;
    HostGroup: "HostGroups" "Host groups." "Sorted by name", labels;
    NotificationTarget: "NotificationTargets" "Alert notification targets." "Sorted by name";
    Job: "Jobs" "Jobs." "Newest last";
    Connection: "Connections" "Connections." "Sorted by volume";
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Volume {
    /// Name.
    pub name: String,
    /// Permanent identifier: 32 hex digits.
    #[serde(serialize_with = "digits")]
    #[schema(value_type = String)]
    pub id: DiskId,
    /// Size presented to hosts, in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub size: u64,
    /// Logical block length in bytes: 512 or 4096.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub block_size: u32,
    /// Mapped (written and not unmapped) bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub mapped: u64,
    /// Identifier reported to hosts (NAA, VPD page 83h).
    pub naa: String,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Volume group; `null` if it is in none.
    pub group: Option<String>,
    /// Permanent identifier of the volume group.
    #[schema(value_type = Option<String>)]
    pub group_id: Option<GroupId>,
    /// Volume or snapshot that it was cloned from; `null` if it is no clone, or the source has been deleted.
    pub source: Option<String>,
    /// Permanent identifier of the volume or snapshot that it was cloned from, even if that has been deleted.
    #[serde(serialize_with = "some_digits")]
    #[schema(value_type = Option<String>)]
    pub source_id: Option<DiskId>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Data reduction settings of this volume.
    #[serde(serialize_with = "Policy::whole")]
    pub policy: Policy,
    /// Effective data reduction settings for new writes.
    pub policy_in_force: PolicyInForce,
    /// QoS limits of this volume, in addition to those of its group.
    #[serde(serialize_with = "Limits::whole")]
    pub limits: Limits,
    /// Whether SCSI-2 RESERVE and RELEASE are supported.
    pub scsi2_reservations: bool,
    /// Whether hosts may see it over iSCSI and over NVMe/TCP at once.
    pub mixed_transports: bool,
    /// Labels.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Number of snapshots.
    pub snapshots: usize,
    /// Performance in the last five seconds.
    #[serde(serialize_with = "RecentPerformance::serialize_of")]
    #[schema(value_type = RecentPerformance)]
    pub performance: Sample,
    /// Data reduction when it was measured last, in the background: data with snapshots to the space that only it takes. `null`
    /// if it was not measured, has no data, or shares all of them.
    #[serde(serialize_with = "MeasuredReduction::serialize_ratio")]
    #[schema(value_type = Option<f64>, extensions(("x-unit" = json!("ratio"))))]
    pub reduction: Option<MeasuredReduction>,
    /// Connections to hosts and host groups.
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

    /// The ratio of what was measured.
    fn serialize_ratio<S: Serializer>(it: &Option<Self>, serializer: S) -> Result<S::Ok, S::Error> {
        it.and_then(|it| it.ratio()).serialize(serializer)
    }
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Snapshot {
    /// Name.
    pub name: String,
    /// Permanent identifier: 32 hex digits.
    #[serde(serialize_with = "digits")]
    #[schema(value_type = String)]
    pub id: DiskId,
    /// Source volume; `null` if it has been deleted.
    pub source: Option<String>,
    /// Permanent identifier of the source volume, even if that has been deleted.
    #[serde(serialize_with = "digits")]
    #[schema(value_type = String)]
    pub source_id: DiskId,
    /// Schedule that took it; `null` if taken manually or the schedule has been deleted.
    pub schedule: Option<String>,
    /// Snapshot set: sixteen hex digits, equal for snapshots taken at the same instant.
    #[serde(serialize_with = "sixteen_digits")]
    #[schema(value_type = String)]
    pub set: u64,
    /// Time at which it was taken.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Size presented to hosts, in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub size: u64,
    /// Logical block length in bytes: 512 or 4096.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub block_size: u32,
    /// Mapped (written and not unmapped) bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub mapped: u64,
    /// Whether hosts can write to it.
    pub writable: bool,
    /// Retention lock: it cannot be deleted or changed before this time; `null`: not locked.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub retain_until: Option<u64>,
    /// Identifier reported to hosts (NAA, VPD page 83h).
    pub naa: String,
    /// Labels.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Connections to hosts and host groups.
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

/// A page of differing extents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Difference {
    /// Differing extents by offset. May include extents rewritten with equal data.
    pub items: Vec<DifferentExtent>,
    /// Start offset of the next page in bytes; `null` at the end. A page without items may be followed by others.
    pub next: Option<u64>,
}

/// A differing extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DifferentExtent {
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whether it is mapped; otherwise it reads as zeros.
    pub mapped: bool,
}

/// A volume or snapshot in the recycle bin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BinnedDisk {
    /// Permanent identifier: 32 hex digits.
    #[serde(serialize_with = "digits")]
    #[schema(value_type = String)]
    pub id: DiskId,
    /// Volume or snapshot.
    pub kind: DiskKind,
    /// Name before it was deleted.
    pub name: String,
    /// Size presented to hosts, in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub size: u64,
    /// Mapped (written and not unmapped) bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub mapped: u64,
    /// Deletion time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub deleted: u64,
    /// Time at which its data is eradicated.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub eradicated_after: u64,
}

/// Kind of deleted item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskKind {
    /// A volume.
    Volume,
    /// A snapshot.
    Snapshot,
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
