//! The configuration in memory: the records that the records say, by identity and by name.
//!
//! A change is a list of [`Edit`]s that is written as one step and then applied here; a start applies what was
//! written. What is in memory is therefore always what a restart would read.

use crate::access::{TokenEntry, UserEntry};
use crate::certificate::CertificateEntry;
use crate::connection::Connections;
use crate::directory::DirectoryEntry;
use crate::notification::TargetEntry;
use crate::policy::{Limits, Policy};
use crate::record::Record;
use crate::schedule::ScheduleEntry;
use crate::scrub::Scrub;
use crate::{Error, Result};
use block::DiskId;
use notify::mark;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use zeroize::Zeroize;

/// Who this array is; random when it was formatted, the same for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What people call it.
    pub name: String,
    /// Sixteen hex digits.
    pub serial: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
}

impl Identity {
    /// The iSCSI name of the array's one target.
    pub fn target_iqn(&self) -> String {
        format!("iqn.2026-11.io.ashlar:{}", self.serial)
    }
}

/// A secret that no log or error repeats.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(mark::SECRET, crate::redact::HIDDEN)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// One direction of CHAP, as an operator gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chap {
    /// The CHAP name.
    pub user: String,
    /// The shared secret.
    pub secret: Secret,
}

impl Chap {
    /// A CHAP name with its secret.
    pub fn new(user: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { user: user.into(), secret: Secret::new(secret) }
    }
}

/// One direction of CHAP, as it is kept: the secret is sealed (see [`crate::sealing`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedChap {
    /// The CHAP name.
    pub user: String,
    /// The sealed secret.
    pub secret: crate::sealing::Sealed,
}

/// Types for the identities of records.
macro_rules! identities {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(transparent)]
        pub struct $name(#[serde(with = "crate::record::hex64")] pub u64);

        impl serde::Serialize for $name {
            /// Sixteen hex digits, with the type's name for who can find what it names.
            fn serialize<S: serde::Serializer>(
                &self,
                serializer: S,
            ) -> std::result::Result<S::Ok, S::Error> {
                serializer.serialize_newtype_struct(stringify!($name), &format!("{:016x}", self.0))
            }
        }
    )*};
}
pub(crate) use identities;

identities! {
    /// Stable identity of a host.
    HostId;
    /// Stable identity of a host group.
    HostGroupId;
    /// Stable identity of a volume group.
    GroupId;
    /// Stable identity of a snapshot schedule.
    ScheduleId;
}

/// Something that has an identity for ever and a name for people.
pub trait Named {
    /// What identifies it.
    type Id: Ord + Copy;
    /// What it is called in messages.
    const NOUN: &'static str;
    /// Its identity.
    fn id(&self) -> Self::Id;
    /// The name that it goes by; none when it has given it up.
    fn name(&self) -> Option<&str>;
}

/// Things of one kind by identity and by name.
#[derive(Clone, Debug)]
pub struct Table<T: Named> {
    by_id: BTreeMap<T::Id, T>,
    names: BTreeMap<String, T::Id>,
}

impl<T: Named> Default for Table<T> {
    fn default() -> Self {
        Self { by_id: BTreeMap::new(), names: BTreeMap::new() }
    }
}

impl<T: Named> Table<T> {
    /// The record of that identity.
    pub fn get(&self, id: T::Id) -> Option<&T> {
        self.by_id.get(&id)
    }

    /// The record of that name, or the refusal that there is none.
    pub fn named(&self, name: &str) -> Result<&T> {
        self.find(name).ok_or_else(|| Error::not_found(format!("there is no {} {name:?}", T::NOUN)))
    }

    /// The record of that name.
    pub fn find(&self, name: &str) -> Option<&T> {
        self.names.get(name).and_then(|id| self.by_id.get(id))
    }

    /// Refuses a name that is taken.
    pub fn free(&self, name: &str) -> Result<()> {
        match self.names.contains_key(name) {
            true => {
                Err(Error::conflict(format!("a {} {name:?} exists already: choose another name", T::NOUN)))
            }
            false => Ok(()),
        }
    }

    /// Those that go by a name, in order of names.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.names.values().filter_map(|id| self.by_id.get(id))
    }

    /// Number of those that go by a name.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Every one, with those that gave up their name, in order of identities.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.by_id.values()
    }

    /// Puts a record in the place of what had its identity. False when another one has its name.
    pub fn put(&mut self, record: T) -> bool {
        self.remove(record.id());
        let unique = match record.name() {
            Some(name) => self.names.insert(name.to_owned(), record.id()).is_none(),
            None => true,
        };
        self.by_id.insert(record.id(), record);
        unique
    }

    /// Takes a record out.
    pub fn remove(&mut self, id: T::Id) -> Option<T> {
        let old = self.by_id.remove(&id)?;
        if let Some(name) = old.name() {
            self.names.remove(name);
        }
        Some(old)
    }
}

/// How far a volume is: making and deleting one takes more than a record, so the record says what is to be
/// finished or taken back after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Being made; a start takes it back.
    Creating,
    /// There.
    Ready,
    /// In the recycle bin.
    Binned,
    /// Being eradicated; a start finishes it.
    Deleting,
}

/// A volume as configured; size and contents are the engine's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeEntry {
    /// Its identity in the engine.
    #[serde(with = "crate::record::disk")]
    pub id: DiskId,
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// How far it is.
    pub stage: Stage,
    /// The volume group that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    /// When it went to the recycle bin, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binned: Option<u64>,
    /// How its data are reduced.
    #[serde(default, skip_serializing_if = "Policy::is_inherited")]
    pub policy: Policy,
    /// What it may do in a second.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// RESERVE and RELEASE of SCSI-2 are commands of it.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub scsi2_reservations: bool,
}

fn yes() -> bool {
    true
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_yes(value: &bool) -> bool {
    *value
}

impl VolumeEntry {
    /// A volume with nothing special about it.
    pub fn new(id: DiskId, name: String, created: u64, stage: Stage, group: Option<GroupId>) -> Self {
        let (policy, limits) = (Policy::default(), Limits::default());
        Self { id, name, created, stage, group, binned: None, policy, limits, scsi2_reservations: true }
    }
}

impl Named for VolumeEntry {
    type Id = DiskId;
    const NOUN: &'static str = "volume";

    fn id(&self) -> DiskId {
        self.id
    }

    fn name(&self) -> Option<&str> {
        (self.stage == Stage::Ready).then_some(&self.name)
    }
}

/// A snapshot as configured; its contents are the engine's. Its record is written in the same step as it is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// Its identity in the engine.
    #[serde(with = "crate::record::disk")]
    pub id: DiskId,
    /// Its name.
    pub name: String,
    /// The volume that it was taken of, which may be gone.
    #[serde(with = "crate::record::disk")]
    pub source: DiskId,
    /// When it was taken, in seconds since 1970.
    pub created: u64,
    /// How far it is; never [`Stage::Creating`].
    pub stage: Stage,
    /// Those that were taken at one moment have the same number here.
    #[serde(with = "crate::record::hex64")]
    pub set: u64,
    /// When it went to the recycle bin, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binned: Option<u64>,
    /// The schedule that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleId>,
    /// The rules of that schedule that it was taken for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Which one of that schedule it is: a larger number is a newer one, whatever the clock showed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub order: u64,
}

impl Named for SnapshotEntry {
    type Id = DiskId;
    const NOUN: &'static str = "snapshot";

    fn id(&self) -> DiskId {
        self.id
    }

    fn name(&self) -> Option<&str> {
        (self.stage == Stage::Ready).then_some(&self.name)
    }
}

/// A volume group as configured; its volumes say that they are in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupEntry {
    /// Its identity.
    pub id: GroupId,
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Mapped bytes beyond which operators and hosts are warned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_quota: Option<u64>,
    /// Mapped bytes beyond which its volumes take no new space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_quota: Option<u64>,
    /// How the data of its volumes are reduced.
    #[serde(default, skip_serializing_if = "Policy::is_inherited")]
    pub policy: Policy,
    /// What its volumes may do together in a second.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
}

impl Named for GroupEntry {
    type Id = GroupId;
    const NOUN: &'static str = "volume group";

    fn id(&self) -> GroupId {
        self.id
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }
}

/// A host as configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEntry {
    /// Its identity.
    pub id: HostId,
    /// Its name.
    pub name: String,
    /// Its initiator names, normalised.
    pub initiators: Vec<String>,
    /// CHAP that the host must pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<SealedChap>,
    /// CHAP that the array passes to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual: Option<SealedChap>,
    /// When it was made, in seconds since 1970.
    pub created: u64,
}

impl Named for HostEntry {
    type Id = HostId;
    const NOUN: &'static str = "host";

    fn id(&self) -> HostId {
        self.id
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }
}

/// A host group as configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostGroupEntry {
    /// Its identity.
    pub id: HostGroupId,
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Who is in it; a host is in one group at most.
    pub hosts: BTreeSet<HostId>,
}

impl Named for HostGroupEntry {
    type Id = HostGroupId;
    const NOUN: &'static str = "host group";

    fn id(&self) -> HostGroupId {
        self.id
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }
}

/// What can be set for the array as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// What people call the array.
    pub name: Option<String>,
    /// How long the recycle bin keeps a volume, in seconds.
    pub bin_seconds: u64,
    /// How much UNMAP is slowed down: 0 not at all, 9 most.
    pub unmap_throttle: u8,
    /// How long after a scrub has ended the next one begins by itself, in seconds; 0: never.
    pub scrub_seconds: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { name: None, bin_seconds: 24 * 3600, unmap_throttle: 0, scrub_seconds: 7 * 24 * 3600 }
    }
}

/// A step of a change.
#[derive(Clone, Debug)]
pub enum Edit {
    /// A record is there, in the place of what had its identity.
    Put(Record),
    /// It is gone.
    Remove(Record),
}

/// Everything that is configured.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Volumes, with those in the recycle bin.
    pub volumes: Table<VolumeEntry>,
    /// Snapshots, with those in the recycle bin.
    pub snapshots: Table<SnapshotEntry>,
    /// Snapshot schedules.
    pub schedules: Table<ScheduleEntry>,
    /// Volume groups.
    pub groups: Table<GroupEntry>,
    /// Hosts.
    pub hosts: Table<HostEntry>,
    /// Host groups.
    pub host_groups: Table<HostGroupEntry>,
    /// Users.
    pub users: Table<UserEntry>,
    /// Tokens.
    pub tokens: Table<TokenEntry>,
    /// Directories elsewhere that know people.
    pub directories: Table<DirectoryEntry>,
    /// Whom alerts are told elsewhere.
    pub targets: Table<TargetEntry>,
    /// The certificate of the API.
    pub certificate: Option<CertificateEntry>,
    /// Who sees what.
    pub connections: Connections,
    /// The array's settings.
    pub settings: Settings,
    /// The scrub under way, or the last one.
    pub scrub: Option<Scrub>,
}

impl Config {
    /// Applies one step. False when a name is there twice, which only a damaged configuration says.
    pub fn apply(&mut self, edit: Edit) -> bool {
        match edit {
            Edit::Put(Record::Volume(entry)) => return self.volumes.put(entry),
            Edit::Put(Record::Snapshot(entry)) => return self.snapshots.put(entry),
            Edit::Put(Record::Schedule(entry)) => return self.schedules.put(entry),
            Edit::Put(Record::Group(entry)) => return self.groups.put(entry),
            Edit::Put(Record::Host(entry)) => return self.hosts.put(entry),
            Edit::Put(Record::HostGroup(entry)) => return self.host_groups.put(entry),
            Edit::Put(Record::Connection(entry)) => return self.connections.put(entry),
            Edit::Put(Record::User(entry)) => return self.users.put(entry),
            Edit::Put(Record::Token(entry)) => return self.tokens.put(entry),
            Edit::Put(Record::Directory(entry)) => return self.directories.put(entry),
            Edit::Put(Record::Target(entry)) => return self.targets.put(entry),
            Edit::Put(Record::Certificate(entry)) => self.certificate = Some(entry),
            Edit::Put(Record::Settings(settings)) => self.settings = settings,
            Edit::Put(Record::Scrub(scrub)) => self.scrub = Some(scrub),
            Edit::Remove(Record::Volume(entry)) => drop(self.volumes.remove(entry.id)),
            Edit::Remove(Record::Snapshot(entry)) => drop(self.snapshots.remove(entry.id)),
            Edit::Remove(Record::Schedule(entry)) => drop(self.schedules.remove(entry.id)),
            Edit::Remove(Record::Group(entry)) => drop(self.groups.remove(entry.id)),
            Edit::Remove(Record::Host(entry)) => drop(self.hosts.remove(entry.id)),
            Edit::Remove(Record::HostGroup(entry)) => drop(self.host_groups.remove(entry.id)),
            Edit::Remove(Record::Connection(entry)) => self.connections.remove(&entry),
            Edit::Remove(Record::User(entry)) => drop(self.users.remove(entry.id)),
            Edit::Remove(Record::Token(entry)) => drop(self.tokens.remove(entry.id)),
            Edit::Remove(Record::Directory(entry)) => drop(self.directories.remove(entry.id)),
            Edit::Remove(Record::Target(entry)) => drop(self.targets.remove(entry.id)),
            Edit::Remove(Record::Certificate(_)) => self.certificate = None,
            Edit::Remove(Record::Settings(_)) => self.settings = Settings::default(),
            Edit::Remove(Record::Scrub(_)) => self.scrub = None,
        }
        true
    }

    /// The volume or snapshot of that name: no two have the same.
    pub fn disk_named(&self, name: &str) -> Result<DiskId> {
        let snapshot = self.snapshots.find(name).map(|entry| entry.id);
        let found = self.volumes.find(name).map(|entry| entry.id).or(snapshot);
        found.ok_or_else(|| Error::not_found(format!("there is no volume or snapshot {name:?}")))
    }

    /// What a volume or snapshot is called.
    pub fn disk_name(&self, id: DiskId) -> Option<&str> {
        let snapshot = || self.snapshots.get(id).map(|entry| entry.name.as_str());
        self.volumes.get(id).map(|entry| entry.name.as_str()).or_else(snapshot)
    }

    /// Refuses a name that a volume or a snapshot has.
    pub fn disk_name_free(&self, name: &str) -> Result<()> {
        self.volumes.free(name)?;
        self.snapshots.free(name)
    }

    /// Refuses initiators that belong to another host than `own`.
    pub fn initiators_free(&self, initiators: &[String], own: Option<HostId>) -> Result<()> {
        for host in self.hosts.iter().filter(|host| Some(host.id) != own) {
            if let Some(taken) = initiators.iter().find(|name| host.initiators.contains(name)) {
                return Err(Error::conflict(format!(
                    "initiator {taken} belongs to host {:?}: use that host, or delete it first",
                    host.name
                )));
            }
        }
        Ok(())
    }

    /// The group that a host is in.
    pub fn group_of(&self, host: HostId) -> Option<&HostGroupEntry> {
        self.host_groups.iter().find(|group| group.hosts.contains(&host))
    }

    /// The volumes of a group, in order of names.
    pub fn members(&self, group: GroupId) -> impl Iterator<Item = &VolumeEntry> {
        self.volumes.iter().filter(move |volume| volume.group == Some(group))
    }
}
