//! The configuration on media: one small JSON record for each record, under a key that never changes.
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
pub type KeyValue = (String, Vec<u8>);

/// Whatever a record can hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Record {
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

impl Record {
    /// Where it is kept.
    pub fn key(&self) -> String {
        match self {
            Record::Settings(_) => "settings".into(),
            Record::Scrub(_) => "scrub".into(),
            Record::Volume(it) => format!("volume/{:032x}", it.id.0),
            Record::Snapshot(it) => format!("snapshot/{:032x}", it.id.0),
            Record::Schedule(it) => format!("schedule/{:016x}", it.id.0),
            Record::Group(it) => format!("group/{:016x}", it.id.0),
            Record::Host(it) => format!("host/{:016x}", it.id.0),
            Record::HostGroup(it) => format!("host-group/{:016x}", it.id.0),
            Record::Connection(it) => format!("connection/{:032x}/{}", it.volume.0, it.peer),
            Record::Directory(it) => it.place(),
            Record::Target(it) => format!("notification/{:016x}", it.id.0),
            Record::Certificate(_) => "certificate".into(),
            Record::User(it) => format!("user/{:016x}", it.id.0),
            Record::Token(it) => format!("token/{:016x}", it.id.0),
        }
    }

    /// What kind of record it is, for people.
    pub fn noun(&self) -> &'static str {
        match self {
            Record::Settings(_) => "settings",
            Record::Scrub(_) => "scrub",
            Record::Volume(_) => VolumeEntry::NOUN,
            Record::Snapshot(_) => SnapshotEntry::NOUN,
            Record::Schedule(_) => ScheduleEntry::NOUN,
            Record::Group(_) => GroupEntry::NOUN,
            Record::Host(_) => HostEntry::NOUN,
            Record::HostGroup(_) => HostGroupEntry::NOUN,
            Record::Connection(_) => "connection",
            Record::Directory(_) => DirectoryEntry::NOUN,
            Record::Target(_) => TargetEntry::NOUN,
            Record::Certificate(_) => "certificate",
            Record::User(_) => UserEntry::NOUN,
            Record::Token(_) => TokenEntry::NOUN,
        }
    }

    /// What is kept there.
    pub fn value(&self) -> Vec<u8> {
        match self {
            Record::Settings(it) => encode(it),
            Record::Scrub(it) => encode(it),
            Record::Volume(it) => encode(it),
            Record::Snapshot(it) => encode(it),
            Record::Schedule(it) => encode(it),
            Record::Group(it) => encode(it),
            Record::Host(it) => encode(it),
            Record::HostGroup(it) => encode(it),
            Record::Connection(it) => encode(it),
            Record::Directory(it) => encode(it),
            Record::Target(it) => encode(it),
            Record::Certificate(it) => encode(it),
            Record::User(it) => encode(it),
            Record::Token(it) => encode(it),
        }
    }

    /// The record in a record. None when the key is not one of the configuration's.
    pub fn read(key: &str, value: &[u8]) -> Result<Option<Record>> {
        let noun = key.split_once('/').map_or(key, |(noun, _)| noun);
        let record = match noun {
            "settings" => Record::Settings(decode(key, value)?),
            "scrub" => Record::Scrub(decode(key, value)?),
            "volume" => Record::Volume(decode(key, value)?),
            "snapshot" => Record::Snapshot(decode(key, value)?),
            "schedule" => Record::Schedule(decode(key, value)?),
            "group" => Record::Group(decode(key, value)?),
            "host" => Record::Host(decode(key, value)?),
            "host-group" => Record::HostGroup(decode(key, value)?),
            "connection" => Record::Connection(decode(key, value)?),
            "directory" => Record::Directory(decode(key, value)?),
            "notification" => Record::Target(decode(key, value)?),
            "certificate" => Record::Certificate(decode(key, value)?),
            "user" => Record::User(decode(key, value)?),
            "token" => Record::Token(decode(key, value)?),
            _ => return Ok(None),
        };
        match record.key() == key {
            true => Ok(Some(record)),
            false => Err(damaged(key, format!("it is about {}", record.key()))),
        }
    }
}

/// The record of the array's identity.
pub fn identity(identity: &Identity) -> KeyValue {
    let Identity { name, serial, created } = identity.clone();
    (ARRAY.into(), encode(&ArrayRecord { name, serial, created }))
}

/// The identity in a record.
pub fn read_identity(value: &[u8]) -> Result<Identity> {
    let ArrayRecord { name, serial, created } = decode(ARRAY, value)?;
    Ok(Identity { name, serial, created })
}

/// The record of the retention clock.
pub fn clock(entry: &ClockEntry) -> KeyValue {
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
