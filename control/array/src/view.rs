//! Results of requests, and names in them: plain values.

use crate::policy::PolicyInForce;
use crate::shape::{shapes, time};
use block::DiskId;
use engine::Ratios;
use history::{Sample, Severity};
use notify::{Content, Destination};
use records::{Config, GroupId, HostGroupId, HostId, Labels, Limits, Policy, Rule, ScheduleId, Scrub};
use serde::Serialize;
use shelf::pool::{DriveStatus, KeySource, PoolStatus};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use utoipa::ToSchema;

shapes! {
    Group: "Groups" "Volume groups." by "name", labels;
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

/// A snapshot schedule as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Its identity.
    pub id: ScheduleId,
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// What it takes snapshots of.
    pub subject: SubjectName,
    /// When, and how many are kept.
    pub rules: Vec<Rule>,
    /// Minimum age in seconds at which a snapshot can be deleted.
    pub immutable: u64,
    /// It takes snapshots.
    pub enabled: bool,
    /// When it runs next, in seconds since 1970.
    pub next: Option<u64>,
    /// When the newest of its snapshots was taken, in seconds since 1970.
    pub last: Option<u64>,
    /// How many snapshots it has.
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

/// A host as an operator sees it. Secrets are never shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its identity.
    pub id: HostId,
    /// Its name.
    pub name: String,
    /// Its initiator names, in lower case.
    pub initiators: Vec<String>,
    /// Its NVMe qualified names.
    pub nqns: Vec<String>,
    /// Its WWPNs of Fibre Channel.
    pub wwpns: Vec<String>,
    /// The CHAP user that it must log in as.
    pub chap_user: Option<String>,
    /// The CHAP user that the array answers as.
    pub mutual_user: Option<String>,
    /// It must authenticate by DH-HMAC-CHAP over NVMe/TCP.
    pub dhchap: bool,
    /// The array can authenticate by DH-HMAC-CHAP.
    pub dhchap_controller: bool,
    /// It must use TLS over NVMe/TCP.
    pub tls: bool,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// The host group that it is in.
    pub host_group: Option<String>,
    /// Its identity.
    pub host_group_id: Option<HostGroupId>,
    /// Its labels.
    pub labels: Labels,
    /// What it sees, by itself or by its group, in order of LUNs.
    pub connections: Vec<Connection>,
    /// Sessions that its initiators have now.
    pub sessions: usize,
    /// NVMe controllers that it has now.
    pub controllers: usize,
    /// Sessions that its Fibre Channel ports have now, each with a target port.
    pub fibre_channel_sessions: usize,
    /// Log-ins of its initiators that were refused, the last one first.
    pub refused_logins: Vec<RefusedLogin>,
}

/// A host group as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGroup {
    /// Its identity.
    pub id: HostGroupId,
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Names of its hosts.
    pub hosts: Vec<String>,
    /// Its labels.
    pub labels: Labels,
    /// What it sees, in order of LUNs.
    pub connections: Vec<Connection>,
}

/// A volume seen by a host, by a host group, or by a host because of its group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection {
    /// The volume's name.
    pub volume: String,
    /// Its identity.
    pub volume_id: DiskId,
    /// The host's name.
    pub host: Option<String>,
    /// The host's identity.
    pub host_id: Option<HostId>,
    /// The host group's name.
    pub host_group: Option<String>,
    /// The host group's identity.
    pub host_group_id: Option<HostGroupId>,
    /// The LUN under which it is seen.
    pub lun: u16,
    /// Writes are refused, because of the connection or of the snapshot.
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

/// A log-in that was refused, once or several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedLogin {
    /// The initiator's name, when it gave one.
    pub initiator: Option<String>,
    /// The host that has the name; `None` if no host has it.
    pub host: Option<String>,
    /// From where.
    pub address: IpAddr,
    /// The portal's number.
    pub portal: u16,
    /// Why, for programs, such as `wrong-chap-secret`.
    pub cause: Cow<'static, str>,
    /// Why, for people.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// When first, in seconds since 1970.
    pub first: u64,
    /// When last.
    pub last: u64,
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// A drive is emptied, as asked for.
    Evacuate,
    /// The data of a failed drive are rebuilt on the others.
    Rebuild,
    /// Everything in use is read and verified.
    Scrub,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Not at its end.
    Running,
    /// It did what it was to do.
    Done,
    /// It could not; the message says why.
    Failed,
    /// Cancelled.
    Cancelled,
}

/// Work that takes long.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Eight hex digits.
    pub id: String,
    /// What it does.
    pub kind: JobKind,
    /// The slot of the drive that it is about.
    pub slot: Option<usize>,
    /// What it does, for people.
    pub what: String,
    /// The user who started it; `array` for what the array started.
    pub user: String,
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// When it ended, in seconds since 1970.
    pub ended: Option<u64>,
    /// How far it is.
    pub state: JobState,
    /// The part that is done, 0 to 1.
    pub progress: f64,
    /// What came of it, for people.
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

/// A notification target as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationTarget {
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Where notices go.
    pub destination: Destination,
    /// The lowest severity of alerts and events that is sent.
    pub least: Severity,
    /// What is sent.
    pub content: BTreeSet<Content>,
    /// Whether anything is sent.
    pub enabled: bool,
    /// There is a secret.
    pub has_secret: bool,
    /// When a notification arrived last since the array began to serve, in seconds since 1970.
    pub delivered: Option<u64>,
    /// Why the last one did not.
    pub failing: Option<String>,
    /// Notices that wait.
    pub waiting: usize,
    /// Notices that were dropped because too many waited.
    pub lost: u64,
}
