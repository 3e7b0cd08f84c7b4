//! Results of requests: plain values, made from the configuration and the engine.

use crate::array::Array;
use crate::health::Health;
use crate::login::RefusedLogin;
use crate::policy::PolicyInForce;
use crate::schedule::SubjectName;
use block::{Disk, DiskId};
use engine::Ratios;
use records::{
    Config, ConnectionEntry, DiskEntry, GroupEntry, HostEntry, HostGroupEntry, Limits, Peer, Policy, Rule,
    ScheduleEntry, Scrub, SnapshotEntry, Subject, VolumeEntry,
};
use shelf::pool::DriveStatus;
use shelf::pool::Lock;
use shelf::pool::PoolStatus;
use std::net::SocketAddr;
use std::time::Duration;

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
    /// Its connections: hosts, then host groups.
    pub connections: Vec<Connection>,
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
    /// Nobody can delete or change it before this time, in seconds since 1970.
    pub kept_until: Option<u64>,
    /// The name that hosts know it by (VPD page 83h): `naa.` and 32 hex digits.
    pub naa: String,
    /// Its connections: hosts, then host groups.
    pub connections: Vec<Connection>,
}

/// A snapshot schedule as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// What it takes snapshots of.
    pub subject: SubjectName,
    /// When, and how many are kept.
    pub rules: Vec<Rule>,
    /// Nobody can delete a snapshot before it is so many seconds old.
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

/// A volume group as an operator sees it. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Mapped bytes beyond which operators and hosts are warned.
    pub soft_quota: Option<u64>,
    /// Mapped bytes beyond which its volumes take no new space.
    pub hard_quota: Option<u64>,
    /// Names of its volumes.
    pub volumes: Vec<String>,
    /// Sum of the volumes' sizes.
    pub provisioned: u64,
    /// Mapped by hosts.
    pub mapped: u64,
    /// It is beyond its soft quota.
    pub soft_quota_crossed: bool,
    /// It reached its hard quota: its volumes take no new space.
    pub hard_quota_reached: bool,
    /// How the data of its volumes are reduced.
    pub policy: Policy,
    /// What its volumes may do together in a second.
    pub limits: Limits,
}

/// A host as an operator sees it. Secrets are never shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its initiator names, in lower case.
    pub initiators: Vec<String>,
    /// The CHAP user that it must log in as.
    pub chap_user: Option<String>,
    /// The CHAP user that the array answers as.
    pub mutual_user: Option<String>,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// The host group that it is in.
    pub host_group: Option<String>,
    /// What it sees, by itself or by its group, in order of LUNs.
    pub connections: Vec<Connection>,
    /// Sessions that its initiators have now.
    pub sessions: usize,
    /// Log-ins of its initiators that were refused, the last one first.
    pub refused_logins: Vec<RefusedLogin>,
}

/// A host group as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGroup {
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Names of its hosts.
    pub hosts: Vec<String>,
    /// What it sees, in order of LUNs.
    pub connections: Vec<Connection>,
}

/// A volume seen by a host, by a host group, or by a host because of its group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection {
    /// The volume's name.
    pub volume: String,
    /// The host's name.
    pub host: Option<String>,
    /// The host group's name.
    pub host_group: Option<String>,
    /// The LUN under which it is seen.
    pub lun: u16,
    /// Writes are refused, because of the connection or of the snapshot.
    pub read_only: bool,
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
    /// What the drives' data key is locked with; `None` if the drives are not encrypted.
    pub encryption: Option<LockKind>,
}

/// What the key of encrypted drives is locked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// A file.
    File,
    /// A passphrase.
    Passphrase,
    /// A key on a KMIP server.
    Kmip,
}

impl LockKind {
    /// Of what an envelope says; `None` if its key has been destroyed.
    pub(crate) fn of(lock: &Lock) -> Option<Self> {
        match lock {
            Lock::Erased => None,
            Lock::File => Some(Self::File),
            Lock::Passphrase { .. } => Some(Self::Passphrase),
            Lock::Kmip { .. } => Some(Self::Kmip),
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

impl Array {
    /// What people call the array.
    pub(crate) fn name(&self, config: &Config) -> String {
        config.settings.name.clone().unwrap_or_else(|| self.identity.name.clone())
    }

    /// The array as it is now.
    pub(crate) fn status(&self, config: &Config) -> ArrayStatus {
        let space = self.parts.engine.space();
        ArrayStatus {
            name: self.name(config),
            serial: self.identity.serial.clone(),
            version: self.version.clone(),
            state: match self.parts.engine.stopped() {
                None => State::Online,
                Some(why) => State::Stopped(why),
            },
            target_iqn: self.identity.target_iqn(),
            encryption: self.wrapped_key().and_then(|key| LockKind::of(key.lock())),
            portals: self.parts.server.portals(),
            uptime: Duration::from_secs(self.env.seconds().saturating_sub(self.started)),
            space: Space {
                provisioned: space.provisioned,
                mapped: space.mapped,
                zero: space.zero,
                logical: space.logical(),
                snapshot: space.snapshot,
                unique: space.unique,
                shared: space.shared,
                physical: space.physical,
                metadata: space.metadata,
                reclaimable: space.reclaimable,
                free: space.free,
                total: space.total,
                ratios: space.ratios(),
            },
            volumes: config.volumes.len(),
            hosts: config.hosts.len(),
            sessions: self.parts.server.sessions().len(),
        }
    }

    /// How what is stored is protected now.
    pub(crate) fn protection(&self, config: &Config) -> Protection {
        let (scrub, next_scrub) = (self.scrub(config), self.next_scrub(config));
        Protection { shelf: self.parts.pool.status(), scrub, next_scrub }
    }

    /// What is set.
    pub(crate) fn settings(&self, config: &Config) -> Settings {
        let records::Settings { bin_seconds, unmap_throttle, scrub_seconds, .. } = config.settings;
        Settings { name: self.name(config), bin_seconds, unmap_throttle, scrub_seconds }
    }

    /// Every volume, by name.
    pub(crate) fn volumes(&self, config: &Config) -> Vec<Volume> {
        config.volumes.iter().map(|entry| self.volume(config, entry)).collect()
    }

    /// One volume with those that see it.
    pub(crate) fn volume(&self, config: &Config, entry: &VolumeEntry) -> Volume {
        let disk = self.parts.engine.volume(entry.id);
        Volume {
            id: entry.id,
            name: entry.name.clone(),
            bytes: disk.as_ref().map_or(0, |disk| disk.geometry().bytes()),
            block_bytes: disk.as_ref().map_or(0, |disk| disk.geometry().block_bytes),
            mapped: disk.as_ref().map_or(0, |disk| disk.space().mapped),
            naa: scsi::naa(entry.id),
            created: entry.created,
            group: entry.group.and_then(|id| Some(config.groups.get(id)?.name.clone())),
            read_only: disk.is_some_and(|disk| disk.is_read_only()),
            policy: entry.policy,
            in_force: crate::policy::policy_of(config, entry).into(),
            limits: entry.limits,
            scsi2_reservations: entry.scsi2_reservations,
            connections: self.connections_of(config, entry.id),
        }
    }

    /// Every snapshot, by name.
    pub(crate) fn snapshots(&self, config: &Config) -> Vec<Snapshot> {
        config.snapshots.iter().map(|entry| self.snapshot(config, entry)).collect()
    }

    /// One snapshot with those that see it.
    pub(crate) fn snapshot(&self, config: &Config, entry: &SnapshotEntry) -> Snapshot {
        let disk = self.parts.engine.disk(entry.id);
        Snapshot {
            id: entry.id,
            name: entry.name.clone(),
            source: config.volumes.get(entry.source).map(|volume| volume.name.clone()),
            schedule: entry.schedule.and_then(|id| Some(config.schedules.get(id)?.name.clone())),
            set: entry.set,
            created: entry.created,
            bytes: disk.as_ref().map_or(0, |disk| disk.geometry.bytes()),
            block_bytes: disk.as_ref().map_or(0, |disk| disk.geometry.block_bytes),
            mapped: disk.as_ref().map_or(0, |disk| disk.space.mapped),
            writable: disk.as_ref().is_some_and(|disk| !disk.read_only),
            kept_until: disk.map(|disk| disk.kept_until).filter(|until| *until > self.retention_now()),
            naa: scsi::naa(entry.id),
            connections: self.connections_of(config, entry.id),
        }
    }

    /// Every schedule, by name.
    pub(crate) fn schedules(&self, config: &Config) -> Vec<Schedule> {
        config.schedules.iter().map(|entry| self.schedule(config, entry)).collect()
    }

    /// One schedule.
    pub(crate) fn schedule(&self, config: &Config, entry: &ScheduleEntry) -> Schedule {
        let own = || config.snapshots.iter().filter(|snapshot| snapshot.schedule == Some(entry.id));
        let subject = match entry.subject {
            Subject::Volume(id) => SubjectName::Volume(config.disk_name(id).unwrap_or_default().to_owned()),
            Subject::Group(id) => {
                SubjectName::Group(config.groups.get(id).map(|group| group.name.clone()).unwrap_or_default())
            }
        };
        Schedule {
            name: entry.name.clone(),
            created: entry.created,
            subject,
            rules: entry.rules.clone(),
            immutable: entry.immutable,
            enabled: entry.enabled,
            next: crate::schedule::next_run(entry),
            last: own().map(|snapshot| snapshot.created).max(),
            snapshots: own().count(),
        }
    }

    /// What is in the recycle bin, the newest last.
    pub(crate) fn bin(&self, config: &Config) -> Vec<BinnedDisk> {
        let view = |entry: DiskEntry| {
            let disk = self.parts.engine.volume(entry.id());
            let deleted = entry.binned()?;
            Some(BinnedDisk {
                id: entry.id(),
                snapshot: matches!(entry, DiskEntry::Snapshot(_)),
                name: entry.name().to_owned(),
                bytes: disk.as_ref().map_or(0, |disk| disk.geometry().bytes()),
                mapped: disk.as_ref().map_or(0, |disk| disk.space().mapped),
                deleted,
                until: deleted.saturating_add(config.settings.bin_seconds),
            })
        };
        let mut bin: Vec<_> = config.binned().filter_map(view).collect();
        bin.sort_by(|a, b| (a.deleted, &a.name, a.id).cmp(&(b.deleted, &b.name, b.id)));
        bin
    }

    /// Every volume group, by name.
    pub(crate) fn groups(&self, config: &Config) -> Vec<Group> {
        config.groups.iter().map(|entry| self.group(config, entry)).collect()
    }

    /// One volume group.
    pub(crate) fn group(&self, config: &Config, entry: &GroupEntry) -> Group {
        let disks = config.members(entry.id).filter_map(|volume| self.parts.engine.volume(volume.id));
        let (soft_quota_crossed, hard_quota_reached) = self.quota_state(entry.id);
        Group {
            name: entry.name.clone(),
            created: entry.created,
            soft_quota: entry.soft_quota,
            hard_quota: entry.hard_quota,
            volumes: config.members(entry.id).map(|volume| volume.name.clone()).collect(),
            provisioned: disks.map(|disk| disk.geometry().bytes()).sum(),
            mapped: self.mapped_by(config, entry.id),
            soft_quota_crossed,
            hard_quota_reached,
            policy: entry.policy,
            limits: entry.limits,
        }
    }

    /// Every host, by name.
    pub(crate) fn hosts(&self, config: &Config) -> Vec<Host> {
        let sessions = self.parts.server.sessions();
        config.hosts.iter().map(|entry| self.host_with(config, entry, &sessions)).collect()
    }

    /// One host.
    pub(crate) fn host(&self, config: &Config, entry: &HostEntry) -> Host {
        self.host_with(config, entry, &self.parts.server.sessions())
    }

    fn host_with(&self, config: &Config, entry: &HostEntry, sessions: &[iscsi::SessionInfo]) -> Host {
        let seen = |it: &ConnectionEntry| {
            Some(Connection { host: Some(entry.name.clone()), ..self.connection(config, it)? })
        };
        let mut connections: Vec<_> = config.seen_by(entry.id).filter_map(seen).collect();
        connections.sort_by_key(|it| it.lun);
        let own = |session: &&iscsi::SessionInfo| entry.initiators.contains(&session.initiator);
        Host {
            name: entry.name.clone(),
            initiators: entry.initiators.clone(),
            chap_user: entry.chap.as_ref().map(|chap| chap.user.clone()),
            mutual_user: entry.mutual.as_ref().map(|chap| chap.user.clone()),
            created: entry.created,
            host_group: config.group_of(entry.id).map(|group| group.name.clone()),
            connections,
            sessions: sessions.iter().filter(own).count(),
            refused_logins: self.refused_logins(config, Some(&entry.name)),
        }
    }

    /// Every host group, by name.
    pub(crate) fn host_groups(&self, config: &Config) -> Vec<HostGroup> {
        config.host_groups.iter().map(|entry| self.host_group(config, entry)).collect()
    }

    /// One host group.
    pub(crate) fn host_group(&self, config: &Config, entry: &HostGroupEntry) -> HostGroup {
        let mut hosts: Vec<_> =
            config.hosts_of(Peer::HostGroup(entry.id)).iter().map(|host| host.name.clone()).collect();
        hosts.sort();
        let seen = config.connections.of_peer(Peer::HostGroup(entry.id));
        HostGroup {
            name: entry.name.clone(),
            created: entry.created,
            hosts,
            connections: seen.filter_map(|entry| self.connection(config, entry)).collect(),
        }
    }

    /// All connections, by volume.
    pub(crate) fn connections(&self, config: &Config) -> Vec<Connection> {
        let snapshots = config.snapshots.iter().map(|entry| entry.id);
        let disks = config.volumes.iter().map(|entry| entry.id).chain(snapshots);
        disks.flat_map(|id| self.connections_of(config, id)).collect()
    }

    /// A connection with the names of both ends.
    pub(crate) fn connection(&self, config: &Config, entry: &ConnectionEntry) -> Option<Connection> {
        let volume = config.disk_name(entry.volume)?.to_owned();
        let (host, host_group) = match entry.peer {
            Peer::Host(id) => (Some(config.hosts.get(id)?.name.clone()), None),
            Peer::HostGroup(id) => (None, Some(config.host_groups.get(id)?.name.clone())),
        };
        let locked = || self.parts.engine.volume(entry.volume).is_some_and(|disk| disk.is_read_only());
        Some(Connection { volume, host, host_group, lun: entry.lun, read_only: entry.read_only || locked() })
    }

    /// The connections of a volume or snapshot.
    fn connections_of(&self, config: &Config, id: DiskId) -> Vec<Connection> {
        let seen = config.connections.of_volume(id);
        let mut all: Vec<_> = seen.filter_map(|entry| self.connection(config, entry)).collect();
        all.sort_by(|a, b| {
            (a.host.is_none(), &a.host, &a.host_group).cmp(&(b.host.is_none(), &b.host, &b.host_group))
        });
        all
    }
}
