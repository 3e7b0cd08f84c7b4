//! The configuration on media: one small JSON record for each thing, under a key that never changes.
//!
//! | key | what it holds |
//! |---|---|
//! | `array` | name and serial number of the array, and when it was made |
//! | `clock` | how far the retention clock is, and by which uptime of the machine |
//! | `settings` | what can be set for the array as a whole |
//! | `scrub` | how far the scrub is, or what came of the last one |
//! | `volume/<id>` | a volume, ready or in the recycle bin; the identity is the disk's |
//! | `snapshot/<id>` | a snapshot, ready or in the recycle bin; the identity is the disk's |
//! | `schedule/<id>` | a snapshot schedule, and how far it is |
//! | `group/<id>` | a volume group |
//! | `host/<id>` | a host; CHAP secrets are sealed |
//! | `host-group/<id>` | a host group with its hosts |
//! | `notification/<id>` | a notification target; its secret is sealed |
//! | `directory/<id>` | a directory elsewhere that knows people; its secret is sealed |
//! | `certificate` | the certificate of the API; its key is sealed |
//! | `user/<id>`, `token/<id>` | who may operate the array; secrets are hashes |
//! | `connection/<volume>/<host or host group>` | who sees a volume under which LUN |
//!
//! Identities are hex digits: 32 for volumes and snapshots, 16 for all others. Every value has a `version`. The records of one
//! action are written in one step: nothing is ever half-configured.

use crate::access::{TokenEntry, UserEntry};
use crate::certificate::CertificateEntry;
use crate::clock::ClockEntry;
use crate::config::{
    GroupEntry, HostEntry, HostGroupEntry, Identity, Named, Settings, SnapshotEntry, VolumeEntry,
};
use crate::connection::ConnectionEntry;
use crate::directory::DirectoryEntry;
use crate::notification::TargetEntry;
use crate::schedule::ScheduleEntry;
use crate::scrub::Scrub;
use crate::{Error, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The version that this code writes.
const VERSION: u32 = 2;

/// Key of the identity.
pub const ARRAY: &str = "array";
/// Key of the retention clock.
pub const CLOCK: &str = "clock";

#[derive(Serialize, Deserialize)]
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

/// A key with the bytes to be kept under it.
pub type Record = (String, Vec<u8>);

/// Whatever a record can hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Thing {
    /// The array's settings.
    Settings(Settings),
    /// A scrub.
    Scrub(Scrub),
    /// A volume.
    Volume(VolumeEntry),
    /// A snapshot.
    Snapshot(SnapshotEntry),
    /// A snapshot schedule.
    Schedule(ScheduleEntry),
    /// A volume group.
    Group(GroupEntry),
    /// A host.
    Host(HostEntry),
    /// A host group.
    HostGroup(HostGroupEntry),
    /// Who sees a volume.
    Connection(ConnectionEntry),
    /// A directory elsewhere.
    Directory(DirectoryEntry),
    /// A notification target.
    Target(TargetEntry),
    /// The certificate of the API.
    Certificate(CertificateEntry),
    /// A user.
    User(UserEntry),
    /// An API token.
    Token(TokenEntry),
}

impl Thing {
    /// Where it is kept.
    pub fn key(&self) -> String {
        match self {
            Thing::Settings(_) => "settings".into(),
            Thing::Scrub(_) => "scrub".into(),
            Thing::Volume(it) => format!("volume/{:032x}", it.id.0),
            Thing::Snapshot(it) => format!("snapshot/{:032x}", it.id.0),
            Thing::Schedule(it) => format!("schedule/{:016x}", it.id.0),
            Thing::Group(it) => format!("group/{:016x}", it.id.0),
            Thing::Host(it) => format!("host/{:016x}", it.id.0),
            Thing::HostGroup(it) => format!("host-group/{:016x}", it.id.0),
            Thing::Connection(it) => format!("connection/{:032x}/{}", it.volume.0, it.peer),
            Thing::Directory(it) => it.place(),
            Thing::Target(it) => format!("notification/{:016x}", it.id.0),
            Thing::Certificate(_) => "certificate".into(),
            Thing::User(it) => format!("user/{:016x}", it.id.0),
            Thing::Token(it) => format!("token/{:016x}", it.id.0),
        }
    }

    /// What kind of thing it is, for people.
    pub fn noun(&self) -> &'static str {
        match self {
            Thing::Settings(_) => "settings",
            Thing::Scrub(_) => "scrub",
            Thing::Volume(_) => VolumeEntry::NOUN,
            Thing::Snapshot(_) => SnapshotEntry::NOUN,
            Thing::Schedule(_) => ScheduleEntry::NOUN,
            Thing::Group(_) => GroupEntry::NOUN,
            Thing::Host(_) => HostEntry::NOUN,
            Thing::HostGroup(_) => HostGroupEntry::NOUN,
            Thing::Connection(_) => "connection",
            Thing::Directory(_) => DirectoryEntry::NOUN,
            Thing::Target(_) => TargetEntry::NOUN,
            Thing::Certificate(_) => "certificate",
            Thing::User(_) => UserEntry::NOUN,
            Thing::Token(_) => TokenEntry::NOUN,
        }
    }

    /// What is kept there.
    pub fn value(&self) -> Vec<u8> {
        match self {
            Thing::Settings(it) => encode(it),
            Thing::Scrub(it) => encode(it),
            Thing::Volume(it) => encode(it),
            Thing::Snapshot(it) => encode(it),
            Thing::Schedule(it) => encode(it),
            Thing::Group(it) => encode(it),
            Thing::Host(it) => encode(it),
            Thing::HostGroup(it) => encode(it),
            Thing::Connection(it) => encode(it),
            Thing::Directory(it) => encode(it),
            Thing::Target(it) => encode(it),
            Thing::Certificate(it) => encode(it),
            Thing::User(it) => encode(it),
            Thing::Token(it) => encode(it),
        }
    }

    /// The thing in a record. None when the key is not one of the configuration's.
    pub fn read(key: &str, value: &[u8]) -> Result<Option<Thing>> {
        let noun = key.split_once('/').map_or(key, |(noun, _)| noun);
        let thing = match noun {
            "settings" => Thing::Settings(decode(key, value)?),
            "scrub" => Thing::Scrub(decode(key, value)?),
            "volume" => Thing::Volume(decode(key, value)?),
            "snapshot" => Thing::Snapshot(decode(key, value)?),
            "schedule" => Thing::Schedule(decode(key, value)?),
            "group" => Thing::Group(decode(key, value)?),
            "host" => Thing::Host(decode(key, value)?),
            "host-group" => Thing::HostGroup(decode(key, value)?),
            "connection" => Thing::Connection(decode(key, value)?),
            "directory" => Thing::Directory(decode(key, value)?),
            "notification" => Thing::Target(decode(key, value)?),
            "certificate" => Thing::Certificate(decode(key, value)?),
            "user" => Thing::User(decode(key, value)?),
            "token" => Thing::Token(decode(key, value)?),
            _ => return Ok(None),
        };
        match thing.key() == key {
            true => Ok(Some(thing)),
            false => Err(damaged(key, format!("it is about {}", thing.key()))),
        }
    }
}

/// The record of the array's identity.
pub fn identity(identity: &Identity) -> Record {
    let Identity { name, serial, created } = identity.clone();
    (ARRAY.into(), encode(&ArrayRecord { name, serial, created }))
}

/// The identity in a record.
pub fn read_identity(value: &[u8]) -> Result<Identity> {
    let ArrayRecord { name, serial, created } = decode(ARRAY, value)?;
    Ok(Identity { name, serial, created })
}

/// The record of the retention clock.
pub fn clock(entry: &ClockEntry) -> Record {
    (CLOCK.into(), encode(entry))
}

/// The retention clock in a record.
pub fn read_clock(value: &[u8]) -> Result<ClockEntry> {
    decode(CLOCK, value)
}

fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(&Versioned { version: VERSION, record })
        .expect("a record of strings and numbers is JSON")
}

fn decode<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } = serde_json::from_slice(value).map_err(|error| damaged(key, error))?;
    if version != VERSION {
        return Err(Error::precondition(format!(
            "the configuration record {key} has version {version}, this software reads {VERSION}: start the software \
             that wrote it"
        )));
    }
    let versioned: Versioned<T> = serde_json::from_slice(value).map_err(|error| damaged(key, error))?;
    Ok(versioned.record)
}

fn damaged(key: &str, cause: impl std::fmt::Display) -> Error {
    Error::failed(&format!("the configuration record {key} can't be read"), cause)
}

/// Identities of 64 bits as hex digits.
pub mod hex64 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Sixteen hex digits.
    pub fn serialize<S: Serializer>(id: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{id:016x}"))
    }

    /// Back again.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let id = (digits.len() == 16).then(|| u64::from_str_radix(&digits, 16).ok()).flatten();
        id.ok_or_else(|| D::Error::custom("not 16 hex digits"))
    }
}

/// Identities of disks as hex digits.
pub mod disk {
    use block::DiskId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Thirty-two hex digits.
    pub fn serialize<S: Serializer>(id: &DiskId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct("DiskId", &format!("{:032x}", id.0))
    }

    /// Back again.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DiskId, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let id = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
        id.map(DiskId).ok_or_else(|| D::Error::custom("not 32 hex digits"))
    }
}

#[cfg(test)]
#[path = "record_test.rs"]
mod tests;
