//! The configuration on media: one small JSON record for each thing, under a key that never changes.
//!
//! | key | value |
//! |---|---|
//! | `array` | name, serial |
//! | `volume/<32 hex>` | name, created, state; the key is the disk identity |
//! | `host/<16 hex>` | name, initiators, CHAP, created; the key is the host identity |
//! | `connection/<host>/<lun>` | volume; the LUN has five digits |
//!
//! Every value has a `version`. A record is written whole and at once, and each action is at most one record's
//! change visible to the operator: nothing is ever half-configured.

use crate::config::{Chap, HostEntry, HostId, Identity, Secret, VolumeEntry};
use crate::{Error, Result};
use block::DiskId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The version that this code writes.
const VERSION: u32 = 1;

/// Key of the identity.
pub const ARRAY: &str = "array";
/// Keys of volumes begin with this.
pub const VOLUMES: &str = "volume/";
/// Keys of hosts begin with this.
pub const HOSTS: &str = "host/";
/// Keys of connections begin with this.
pub const CONNECTIONS: &str = "connection/";

/// How far a volume is: making and deleting one takes more than a record, so the record says what is to be
/// finished or taken back after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Being made; a start takes it back.
    Creating,
    /// There.
    Ready,
    /// Being deleted; a start finishes it.
    Deleting,
}

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
}

#[derive(Serialize, Deserialize)]
struct VolumeRecord {
    name: String,
    created: u64,
    stage: Stage,
}

#[derive(Serialize, Deserialize)]
struct HostRecord {
    name: String,
    initiators: Vec<String>,
    created: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chap: Option<ChapRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mutual: Option<ChapRecord>,
}

#[derive(Serialize, Deserialize)]
struct ChapRecord {
    user: String,
    secret: String,
}

#[derive(Serialize, Deserialize)]
struct ConnectionRecord {
    volume: String,
}

/// A key with the bytes to be kept under it.
pub type Record = (String, Vec<u8>);

/// The record of the array's identity.
pub fn identity(identity: &Identity) -> Record {
    let record = ArrayRecord { name: identity.name.clone(), serial: identity.serial.clone() };
    (ARRAY.into(), encode(record))
}

/// The identity in a record.
pub fn read_identity(value: &[u8]) -> Result<Identity> {
    let ArrayRecord { name, serial } = decode(ARRAY, value)?;
    Ok(Identity { name, serial })
}

/// Key of a volume.
pub fn volume_key(id: DiskId) -> String {
    format!("{VOLUMES}{:032x}", id.0)
}

/// The record of a volume.
pub fn volume(entry: &VolumeEntry, stage: Stage) -> Record {
    let record = VolumeRecord { name: entry.name.clone(), created: entry.created, stage };
    (volume_key(entry.id), encode(record))
}

/// The volume in a record.
pub fn read_volume(key: &str, value: &[u8]) -> Result<(VolumeEntry, Stage)> {
    let id = DiskId(hex(key, key.strip_prefix(VOLUMES))?);
    let VolumeRecord { name, created, stage } = decode(key, value)?;
    Ok((VolumeEntry { id, name, created }, stage))
}

/// Key of a host.
pub fn host_key(id: HostId) -> String {
    format!("{HOSTS}{:016x}", id.0)
}

/// The record of a host, without its connections.
pub fn host(entry: &HostEntry) -> Record {
    let chap = |chap: &Option<Chap>| {
        chap.as_ref().map(|chap| ChapRecord { user: chap.user.clone(), secret: chap.secret.expose().into() })
    };
    let record = HostRecord {
        name: entry.name.clone(),
        initiators: entry.initiators.clone(),
        created: entry.created,
        chap: chap(&entry.chap),
        mutual: chap(&entry.mutual),
    };
    (host_key(entry.id), encode(record))
}

/// The host in a record; its connections are records of their own.
pub fn read_host(key: &str, value: &[u8]) -> Result<HostEntry> {
    let id = HostId(host_id(key, key.strip_prefix(HOSTS))?);
    let HostRecord { name, initiators, created, chap, mutual } = decode(key, value)?;
    let chap_of = |record: ChapRecord| Chap { user: record.user, secret: Secret::new(record.secret) };
    let (chap, mutual) = (chap.map(chap_of), mutual.map(chap_of));
    Ok(HostEntry { id, name, initiators, chap, mutual, created, luns: Default::default() })
}

/// Key of a connection.
pub fn connection_key(host: HostId, lun: u16) -> String {
    format!("{CONNECTIONS}{:016x}/{lun:05}", host.0)
}

/// The record of a connection.
pub fn connection(host: HostId, lun: u16, volume: DiskId) -> Record {
    (connection_key(host, lun), encode(ConnectionRecord { volume: format!("{:032x}", volume.0) }))
}

/// The connection in a record.
pub fn read_connection(key: &str, value: &[u8]) -> Result<(HostId, u16, DiskId)> {
    let parts = key.strip_prefix(CONNECTIONS).and_then(|rest| rest.split_once('/'));
    let host = HostId(host_id(key, parts.map(|(host, _)| host))?);
    let lun = parts.and_then(|(_, lun)| lun.parse().ok()).ok_or_else(|| damaged(key, "no LUN in the key"))?;
    let ConnectionRecord { volume } = decode(key, value)?;
    Ok((host, lun, DiskId(hex(key, Some(&volume))?)))
}

fn encode<T: Serialize>(record: T) -> Vec<u8> {
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
            "the configuration record {key} has version {version}, this software reads {VERSION}: start a newer one"
        )));
    }
    let versioned: Versioned<T> = serde_json::from_slice(value).map_err(|error| damaged(key, error))?;
    Ok(versioned.record)
}

fn hex(key: &str, digits: Option<&str>) -> Result<u128> {
    digits
        .filter(|digits| digits.len() == 32)
        .and_then(|digits| u128::from_str_radix(digits, 16).ok())
        .ok_or_else(|| damaged(key, "not 32 hex digits"))
}

fn host_id(key: &str, digits: Option<&str>) -> Result<u64> {
    digits
        .filter(|digits| digits.len() == 16)
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| damaged(key, "not 16 hex digits"))
}

fn damaged(key: &str, cause: impl std::fmt::Display) -> Error {
    Error::failed(&format!("the configuration record {key} can't be read"), cause)
}

#[cfg(test)]
#[path = "record_test.rs"]
mod tests;
