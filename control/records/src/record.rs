//! Record types, each declared once in the table at the end of this file.
//!
//! | key | what it holds |
//! |---|---|
//! | `array` | name and serial number of the array, and its creation time |
//! | `clock` | reading of the retention clock, and uptime of the machine |
//! | `settings` | settings of the array as a whole |
//! | `scrub` | the progress of the scrub, or the result of the last one |
//! | `volume/<id>` | a volume, ready or in the recycle bin; the identity is the disk's |
//! | `snapshot/<id>` | a snapshot, ready or in the recycle bin; the identity is the disk's |
//! | `schedule/<id>` | a snapshot schedule, and the time until which it has run |
//! | `group/<id>` | a volume group |
//! | `host/<id>` | a host; CHAP secrets are sealed |
//! | `former-nqns` | NQNs that no host has any more, with the LUNs that they knew |
//! | `host-group/<id>` | a host group with its hosts |
//! | `notification/<id>` | a notification target; its secret is sealed |
//! | `directory/<id>` | a directory that authenticates users; its secret is sealed |
//! | `remote-array/<id>` | an array that this one is paired with; their common key is sealed |
//! | `replication/<id>` | a replicated volume or volume group, on either end |
//! | `link-identity` | the key that identifies this array to others; it is sealed |
//! | `certificate` | the certificate of the API; its key is sealed |
//! | `api-address/<controller>` | address of a controller's API, in addition to that of its options |
//! | `portal/<controller>/<number>` | a portal, current or removed: a target port with its number |
//! | `user/<id>`, `token/<id>` | users and API tokens; passwords and tokens are hashes |
//! | `connection/<volume>/<host or host group>` | a host's access to a volume, with the LUN |
//!
//! Identities are hex digits: 32 for volumes and snapshots, 16 for all others; numbers of portals are decimal. The
//! records of one change are written in one step.
//!
//! **Versions.** Every value has a `version`. Software reads a range of versions of each type and writes the current
//! one. A new field needs no new version: software that does not know the field ignores it, and keeps it when it writes
//! the record. A new version is needed only for a change that older software would misread; older software refuses such
//! a record. An unknown record type is ignored and kept. New fields belong at the top level of a record, where they are
//! kept.

use crate::access::{TokenEntry, UserEntry};
use crate::array::{
    ApiAddressEntry, ArrayIdentity, AuditMark, CertificateEntry, ClockEntry, Scrub, Settings,
};
use crate::connection::{ConnectionEntry, Connections, Peer};
use crate::disk::{GroupEntry, SnapshotEntry, VolumeEntry};
use crate::host::{FormerNqns, HostEntry, HostGroupEntry};
use crate::id::Identity;
use crate::portal::{PortalEntry, Portals};
use crate::remote::{LinkIdentityEntry, RemoteArrayEntry};
use crate::replication::ReplicationEntry;
use crate::schedule::ScheduleEntry;
use crate::secret::SealedField;
use crate::service::{DirectoryEntry, NotificationTargetEntry};
use crate::stage::Stage;
use crate::table::{Named, Table};
use crate::{Edit, Error, Result, Topic};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, de, forward_to_deserialize_any};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Key of the identity.
pub const ARRAY: &str = "array";
/// Key of the retention clock.
pub const CLOCK: &str = "clock";
/// Key of the audit log's mark.
pub const AUDIT_MARK: &str = "audit-mark";

/// A key and its stored value.
pub type KeyValue = (String, Vec<u8>);

/// The versions of a record type that this software reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Oldest version that is read.
    pub oldest: u32,
    /// Newest version that is read, and the one that is written.
    pub current: u32,
}

/// The current versions of all record types.
const V2: Versions = Versions { oldest: 2, current: 2 };

/// Declaration of a record type.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// Prefix of the keys: the part before the first slash.
    pub prefix: &'static str,
    /// Noun for messages and the audit log.
    pub noun: &'static str,
    /// Topic in the event stream.
    pub topic: Topic,
    /// Versions of the record type.
    pub versions: Versions,
    /// The fields that this software knows.
    pub fields: fn() -> &'static [&'static str],
    /// Whether its records may have sealed secrets.
    pub seals: bool,
}

/// A record type without identity: there is only one record, or its key consists of other fields.
trait Unnamed {
    const NOUN: &'static str;

    /// The part of the key after the prefix.
    fn suffix(&self) -> Option<String> {
        None
    }

    /// Name for display; `None` if the noun suffices.
    fn label(&self, _: &Config) -> Option<String> {
        None
    }

    /// Whether records of this type may have sealed secrets.
    const SEALS: bool = false;

    fn sealed(&self) -> Vec<SealedField> {
        Vec::new()
    }

    /// Applies the record to the configuration. False if it contradicts another record.
    fn put(self, config: &mut Config) -> bool;

    fn remove(&self, config: &mut Config);
}

macro_rules! records {
    (
        named { $($(#[$doc:meta])* $table:ident: $variant:ident($entry:ty), $prefix:literal, $topic:ident, $versions:ident;)* }
        unnamed { $($(#[$udoc:meta])* $uvariant:ident($uentry:ty), $uprefix:literal, $utopic:ident, $uversions:ident;)* }
    ) => {
        /// A record of the configuration.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(untagged)]
        pub enum Record {
            $($(#[$doc])* $variant($entry),)*
            $($(#[$udoc])* $uvariant($uentry),)*
        }

        /// The whole configuration.
        #[derive(Clone, Debug, Default)]
        pub struct Config {
            $($(#[$doc])* pub $table: Table<$entry>,)*
            /// Connections of volumes with hosts and host groups.
            pub connections: Connections,
            /// Portals.
            pub portals: Portals,
            /// API addresses that the array stores, by controller.
            pub api_addresses: BTreeMap<u16, SocketAddr>,
            /// The array's settings.
            pub settings: Settings,
            /// The certificate of the API.
            pub certificate: Option<CertificateEntry>,
            /// The key that identifies this array to others.
            pub link_identity: Option<LinkIdentityEntry>,
            /// The current or last scrub.
            pub scrub: Option<Scrub>,
            /// NQNs that no host has any more.
            pub former_nqns: FormerNqns,
        }

        impl Record {
            /// Every record type.
            pub const DECLARATIONS: &[Declaration] = &[
                $(Declaration {
                    prefix: $prefix,
                    noun: <$entry as Named>::NOUN,
                    topic: Topic::$topic,
                    versions: $versions,
                    fields: fields_of::<$entry>,
                    seals: <$entry as Named>::SEALS,
                },)*
                $(Declaration {
                    prefix: $uprefix,
                    noun: <$uentry as Unnamed>::NOUN,
                    topic: Topic::$utopic,
                    versions: $uversions,
                    fields: fields_of::<$uentry>,
                    seals: <$uentry as Unnamed>::SEALS,
                },)*
            ];

            fn prefix(&self) -> &'static str {
                match self {
                    $(Record::$variant(_) => $prefix,)*
                    $(Record::$uvariant(_) => $uprefix,)*
                }
            }

            /// Key of the record.
            pub fn key(&self) -> String {
                match self {
                    $(Record::$variant(it) => format!("{}/{}", $prefix, it.id().digits()),)*
                    $(Record::$uvariant(it) => match it.suffix() {
                        Some(suffix) => format!("{}/{suffix}", $uprefix),
                        None => $uprefix.into(),
                    },)*
                }
            }

            /// Value of the record, as a new one.
            pub fn value(&self) -> Vec<u8> {
                let versions = self.declaration().versions;
                match self {
                    $(Record::$variant(it) => encode(it, versions),)*
                    $(Record::$uvariant(it) => encode(it, versions),)*
                }
            }

            /// The record with this key and value; `None` if the type is unknown.
            ///
            /// # Errors
            /// If the value is damaged, or of an unsupported version.
            pub fn read(key: &str, value: &[u8]) -> Result<Option<Record>> {
                let prefix = key.split_once('/').map_or(key, |(prefix, _)| prefix);
                let record = match prefix {
                    $($prefix => Record::$variant(decode(key, value, $versions)?),)*
                    $($uprefix => Record::$uvariant(decode(key, value, $uversions)?),)*
                    _ => return Ok(None),
                };
                match record.key() == key {
                    true => Ok(Some(record)),
                    false => Err(damaged(key, format!("it is about {}", record.key()))),
                }
            }

            /// Stage of a volume or snapshot; `None` for other records.
            pub fn stage(&self) -> Option<Stage> {
                match self {
                    $(Record::$variant(it) => it.stage(),)*
                    $(Record::$uvariant(_) => None,)*
                }
            }

            /// Name for display; `None` if the noun suffices.
            pub fn label(&self, config: &Config) -> Option<String> {
                match self {
                    $(Record::$variant(it) => Some(it.label().to_owned()),)*
                    $(Record::$uvariant(it) => it.label(config),)*
                }
            }

            /// Sealed secrets of the record.
            pub fn sealed(&self) -> Vec<SealedField> {
                match self {
                    $(Record::$variant(it) if <$entry as Named>::SEALS => it.sealed(),)*
                    $(Record::$uvariant(it) if <$uentry as Unnamed>::SEALS => it.sealed(),)*
                    _ => Vec::new(),
                }
            }
        }

        impl Config {
            /// Applies one step. False if a name is taken twice, which only happens in a damaged configuration.
            pub fn apply(&mut self, edit: Edit) -> bool {
                match edit {
                    $(Edit::Put(Record::$variant(it)) => self.$table.put(it),
                    Edit::Remove(Record::$variant(it)) => {
                        self.$table.remove(it.id());
                        true
                    })*
                    $(Edit::Put(Record::$uvariant(it)) => it.put(self),
                    Edit::Remove(Record::$uvariant(it)) => {
                        it.remove(self);
                        true
                    })*
                }
            }

            /// All sealed secrets.
            pub fn sealed(&self) -> Vec<SealedField> {
                let mut all = Vec::new();
                $(if <$entry as Named>::SEALS {
                    all.extend(self.$table.all().flat_map(Named::sealed));
                })*
                all.extend(self.certificate.iter().flat_map(Unnamed::sealed));
                all.extend(self.link_identity.iter().flat_map(Unnamed::sealed));
                all
            }

            /// The name of the record with this identity, given as hex digits.
            pub fn label_of(&self, digits: &str) -> Option<&str> {
                $(if let Some(id) = <<$entry as Named>::Id as Identity>::from_digits(digits)
                    && let Some(it) = self.$table.get(id)
                {
                    return Some(it.label());
                })*
                None
            }

            /// The name of a referenced record: type and hex digits of its identity.
            pub fn name_of(&self, kind: &str, digits: &str) -> Option<String> {
                $(if kind == <<$entry as Named>::Id as Identity>::TYPE
                    && let Some(id) = <<$entry as Named>::Id as Identity>::from_digits(digits)
                    && let Some(it) = self.$table.get(id)
                {
                    return Some(it.label().to_owned());
                })*
                None
            }
        }
    };
}

records! {
    named {
        /// Volumes, including those in the recycle bin.
        volumes: Volume(VolumeEntry), "volume", Volumes, V2;
        /// Snapshots, including those in the recycle bin.
        snapshots: Snapshot(SnapshotEntry), "snapshot", Snapshots, V2;
        /// Snapshot schedules.
        schedules: Schedule(ScheduleEntry), "schedule", Schedules, V2;
        /// Volume groups.
        groups: Group(GroupEntry), "group", Groups, V2;
        /// Hosts.
        hosts: Host(HostEntry), "host", Hosts, V2;
        /// Host groups.
        host_groups: HostGroup(HostGroupEntry), "host-group", HostGroups, V2;
        /// Notification targets.
        notification_targets: NotificationTarget(NotificationTargetEntry), "notification", NotificationTargets, V2;
        /// Directories that authenticate users.
        directories: Directory(DirectoryEntry), "directory", Directories, V2;
        /// Remote arrays.
        remote_arrays: RemoteArray(RemoteArrayEntry), "remote-array", RemoteArrays, V2;
        /// Replications.
        replications: Replication(ReplicationEntry), "replication", Replications, V2;
        /// Users.
        users: User(UserEntry), "user", Users, V2;
        /// API tokens.
        tokens: Token(TokenEntry), "token", Tokens, V2;
    }
    unnamed {
        /// A connection of a volume with a host or host group.
        Connection(ConnectionEntry), "connection", Connections, V2;
        /// A portal, current or removed.
        Portal(PortalEntry), "portal", Portals, V2;
        /// An address of the API.
        ApiAddress(ApiAddressEntry), "api-address", ApiAddress, V2;
        /// The array's settings.
        Settings(Settings), "settings", Settings, V2;
        /// The certificate of the API.
        Certificate(CertificateEntry), "certificate", Certificate, V2;
        /// The key that identifies this array to others.
        LinkIdentity(LinkIdentityEntry), "link-identity", RemoteArrays, V2;
        /// The scrub.
        Scrub(Scrub), "scrub", Drives, V2;
        /// NQNs that no host has any more.
        FormerNqns(FormerNqns), "former-nqns", Hosts, V2;
    }
}

impl Unnamed for ConnectionEntry {
    const NOUN: &'static str = "connection";

    fn suffix(&self) -> Option<String> {
        Some(format!("{}/{}", self.volume.digits(), self.peer))
    }

    fn label(&self, config: &Config) -> Option<String> {
        let peer = match self.peer {
            Peer::Host(id) => config.hosts.get(id).map(|host| format!("host {}", host.name)),
            Peer::HostGroup(id) => {
                config.host_groups.get(id).map(|group| format!("host group {}", group.name))
            }
        };
        Some(format!("{} to {}", config.disk_name(self.volume)?, peer?))
    }

    fn put(self, config: &mut Config) -> bool {
        config.connections.put(self)
    }

    fn remove(&self, config: &mut Config) {
        config.connections.remove(self);
    }
}

impl Unnamed for ApiAddressEntry {
    const NOUN: &'static str = "API address";

    fn suffix(&self) -> Option<String> {
        Some(self.controller.to_string())
    }

    fn put(self, config: &mut Config) -> bool {
        config.api_addresses.insert(self.controller, self.address);
        true
    }

    fn remove(&self, config: &mut Config) {
        config.api_addresses.remove(&self.controller);
    }
}

impl Unnamed for PortalEntry {
    const NOUN: &'static str = "portal";

    fn suffix(&self) -> Option<String> {
        Some(format!("{}/{}", self.controller, self.number))
    }

    fn label(&self, _: &Config) -> Option<String> {
        Some(self.endpoint.address.clone())
    }

    fn put(self, config: &mut Config) -> bool {
        config.portals.put(self);
        true
    }

    fn remove(&self, config: &mut Config) {
        config.portals.remove(self);
    }
}

impl Unnamed for Settings {
    const NOUN: &'static str = "settings";

    fn put(self, config: &mut Config) -> bool {
        config.settings = self;
        true
    }

    fn remove(&self, config: &mut Config) {
        config.settings = Settings::default();
    }
}

impl Unnamed for CertificateEntry {
    const NOUN: &'static str = "certificate";

    const SEALS: bool = true;

    fn sealed(&self) -> Vec<SealedField> {
        let (what, place) = ("the certificate".into(), Self::PLACE.into());
        vec![SealedField { what, place, sealed: self.secret.clone() }]
    }

    fn put(self, config: &mut Config) -> bool {
        config.certificate = Some(self);
        true
    }

    fn remove(&self, config: &mut Config) {
        config.certificate = None;
    }
}

impl Unnamed for LinkIdentityEntry {
    const NOUN: &'static str = "link identity";

    const SEALS: bool = true;

    fn sealed(&self) -> Vec<SealedField> {
        let (what, place) = ("the key for other arrays".into(), Self::PLACE.into());
        vec![SealedField { what, place, sealed: self.secret.clone() }]
    }

    fn put(self, config: &mut Config) -> bool {
        config.link_identity = Some(self);
        true
    }

    fn remove(&self, config: &mut Config) {
        config.link_identity = None;
    }
}

impl Unnamed for Scrub {
    const NOUN: &'static str = "scrub";

    fn put(self, config: &mut Config) -> bool {
        config.scrub = Some(self);
        true
    }

    fn remove(&self, config: &mut Config) {
        config.scrub = None;
    }
}

impl Unnamed for FormerNqns {
    const NOUN: &'static str = "former NQNs";

    fn put(self, config: &mut Config) -> bool {
        config.former_nqns = self;
        true
    }

    fn remove(&self, config: &mut Config) {
        config.former_nqns = Self::default();
    }
}

impl Record {
    /// Declaration of the record's type.
    pub fn declaration(&self) -> &'static Declaration {
        let prefix = self.prefix();
        let found = Self::DECLARATIONS.iter().find(|it| it.prefix == prefix);
        found.expect("the same macro makes both")
    }

    /// The value of this record, which replaces another value; fields unknown to this software are kept, also in nested
    /// objects.
    pub fn value_over(&self, before: Option<&[u8]>) -> Vec<u8> {
        let value = self.value();
        let parsed = |value: &[u8]| serde_json::from_slice::<Value>(value).ok();
        let merged = before.and_then(|before| {
            // The re-encoded value: all other content is unknown.
            let understood = Record::read(&self.key(), before).ok()??.value();
            let (known, mut new) = ((self.declaration().fields)(), parsed(&value)?);
            let mut before = parsed(before)?;
            // A known field may be omitted where it has its default.
            let is_same = |name: &String| name == "version" || known.contains(&name.as_str());
            let understood = parsed(&understood)?;
            before.as_object_mut()?.retain(|name, _| !is_same(name) || understood.get(name).is_some());
            let changed = keep_unknown(&before, &understood, &mut new);
            changed.then(|| serde_json::to_vec(&new).ok()).flatten()
        });
        merged.unwrap_or(value)
    }
}

/// Copies the fields of `before` that are not `understood` to `new`; true if there are any. A list item corresponds to
/// the equal understood item, or to the item at the same position in a list of the same length.
fn keep_unknown(before: &Value, understood: &Value, new: &mut Value) -> bool {
    let mut changed = false;
    match (before, understood, new) {
        (Value::Object(before), Value::Object(understood), Value::Object(new)) => {
            for (name, old) in before {
                match (understood.get(name), new.get_mut(name)) {
                    (Some(understood), Some(new)) => changed |= keep_unknown(old, understood, new),
                    (None, None) if !old.is_null() => {
                        new.insert(name.clone(), old.clone());
                        changed = true;
                    }
                    _ => {}
                }
            }
        }
        (Value::Array(before), Value::Array(understood), Value::Array(new)) => {
            let same_length = understood.len() == new.len();
            for (place, item) in new.iter_mut().enumerate() {
                let in_place = same_length.then_some(place);
                let found = understood.iter().position(|it| it == item).or(in_place);
                let pair = found.and_then(|at| Some((before.get(at)?, understood.get(at)?)));
                changed |= pair.is_some_and(|(before, understood)| keep_unknown(before, understood, item));
            }
        }
        _ => {}
    }
    changed
}

#[derive(Serialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    record: T,
}

#[derive(Serialize, Deserialize)]
struct ArrayRecord {
    name: String,
    serial: String,
    #[serde(default)]
    created: u64,
}

impl ArrayIdentity {
    /// Record of the identity.
    pub fn record(&self) -> KeyValue {
        let Self { name, serial, created } = self.clone();
        (ARRAY.into(), encode(&ArrayRecord { name, serial, created }, V2))
    }

    /// Decodes the identity.
    ///
    /// # Errors
    /// If the value can't be read.
    pub fn read(value: &[u8]) -> Result<Self> {
        let ArrayRecord { name, serial, created } = decode(ARRAY, value, V2)?;
        Ok(Self { name, serial, created })
    }
}

impl ClockEntry {
    /// Record of the clock.
    pub fn record(&self) -> KeyValue {
        (CLOCK.into(), encode(self, V2))
    }

    /// Decodes the retention clock.
    ///
    /// # Errors
    /// If the value can't be read.
    pub fn read(value: &[u8]) -> Result<Self> {
        decode(CLOCK, value, V2)
    }
}

impl AuditMark {
    /// Record of the mark.
    pub fn record(&self) -> KeyValue {
        (AUDIT_MARK.into(), encode(self, V2))
    }

    /// Decodes the mark.
    ///
    /// # Errors
    /// If the value can't be read.
    pub fn read(value: &[u8]) -> Result<Self> {
        decode(AUDIT_MARK, value, V2)
    }
}

fn encode<T: Serialize>(record: &T, versions: Versions) -> Vec<u8> {
    serde_json::to_vec(&Versioned { version: versions.current, record })
        .expect("a record of strings and numbers is JSON")
}

fn decode<T: DeserializeOwned>(key: &str, value: &[u8], versions: Versions) -> Result<T> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } = serde_json::from_slice(value).map_err(|error| damaged(key, error))?;
    let Versions { oldest, current } = versions;
    if !(oldest..=current).contains(&version) {
        let range = if oldest == current { current.to_string() } else { format!("{oldest} to {current}") };
        return Err(Error::precondition(format!(
            "the configuration record {key} has version {version}, this software reads {range}: start the software \
             that wrote it"
        )));
    }
    serde_json::from_slice(value).map_err(|error| damaged(key, error))
}

fn damaged(key: &str, cause: impl std::fmt::Display) -> Error {
    Error::failed(&format!("the configuration record {key} can't be read"), cause)
}

/// Field names of a record type, from its derived [`Deserialize`].
fn fields_of<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    // This deserializer has no value: it fails after it has recorded the names.
    let _ = T::deserialize(FieldNames(&mut fields));
    fields
}

struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: de::Visitor<'de>>(self, _: V) -> std::result::Result<V::Value, Self::Error> {
        Err(de::Error::custom("there are names only"))
    }

    fn deserialize_struct<V: de::Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> std::result::Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
#[path = "record_test.rs"]
mod tests;
