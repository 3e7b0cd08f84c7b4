//! Records of the array as a whole: identity, retention clock, settings, certificate and scrub.

use crate::secret::Sealed;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The array's identity: random when it was formatted, the same forever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayIdentity {
    /// Its display name.
    pub name: String,
    /// Sixteen hex digits.
    pub serial: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
}

impl ArrayIdentity {
    /// The iSCSI name of the array's one target.
    pub fn target_iqn(&self) -> String {
        format!("iqn.2026-11.io.ashlar:{}", self.serial)
    }

    /// The NQN of the subsystem.
    pub fn subsystem_nqn(&self) -> String {
        format!("nqn.2026-11.io.ashlar:{}", self.serial)
    }
}

/// The retention clock as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockEntry {
    /// Its reading, in seconds since 1970.
    pub retention: u64,
    /// Time of day at that reading.
    pub wall: u64,
    /// Boot identifier of the machine at that reading, in hex digits.
    pub boot: String,
    /// How long the machine was up, in seconds.
    pub uptime: u64,
    /// How much of the time of day is trusted over the next restart of the machine, in seconds.
    pub allowance: u64,
}

/// How far the audit log went when it was last looked at. Numbers of entries begin at 1 and are never used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditMark {
    /// The number of the newest entry; 0 if there is none.
    pub newest: i64,
    /// The last loss that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<AuditLoss>,
}

/// The audit log ended before an entry that it had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLoss {
    /// When that was found, in seconds since 1970.
    pub found: u64,
    /// The number of the newest entry then.
    pub newest: i64,
    /// The number that it should have been at least.
    pub expected: i64,
}

/// Settings of the array as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Display name of the array.
    pub name: Option<String>,
    /// How long the recycle bin keeps a volume, in seconds.
    pub bin_seconds: u64,
    /// How much UNMAP is slowed down: 0 not at all, 9 most.
    pub unmap_throttle: u8,
    /// How long after a scrub has ended the next one begins by itself, in seconds; 0: never.
    pub scrub_seconds: u64,
    /// The time zone of schedules, by its name in the IANA database.
    #[serde(skip_serializing_if = "is_utc")]
    pub time_zone: String,
    /// Longest time for which a retention lock can be set, in seconds from then on.
    #[serde(skip_serializing_if = "is_default_lock")]
    pub max_lock_seconds: u64,
    /// Threads for connections of hosts, from the next start on; none: one for each processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u16>,
}

/// Longest retention lock until another is set, in seconds: a year. Locks can't be taken back, so a mistake or a stolen token must
/// not fill an array for longer than its owner has decided.
const DEFAULT_MAX_LOCK_SECONDS: u64 = 366 * 24 * 3600;

fn is_default_lock(seconds: &u64) -> bool {
    *seconds == DEFAULT_MAX_LOCK_SECONDS
}

/// The time zone of schedules until another is set.
const UTC: &str = "UTC";

fn is_utc(zone: &str) -> bool {
    zone == UTC
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: None,
            bin_seconds: 24 * 3600,
            unmap_throttle: 0,
            scrub_seconds: 7 * 24 * 3600,
            time_zone: UTC.into(),
            max_lock_seconds: DEFAULT_MAX_LOCK_SECONDS,
            threads: None,
        }
    }
}

/// The certificate as configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateEntry {
    /// The chain in PEM, the array's own first.
    #[serde(serialize_with = "notify::mark::pem")]
    pub chain: String,
    /// The sealed key in PEM.
    pub secret: Sealed,
    /// Since when it is used, in seconds since 1970.
    pub since: u64,
}

impl CertificateEntry {
    /// Purpose for which its key is sealed.
    pub const PLACE: &str = "certificate";
}

/// An address of a controller's API, beside that of its options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiAddressEntry {
    /// The controller; 0 stands for the home, whichever it is.
    pub controller: u16,
    /// Address on which it listens.
    pub address: SocketAddr,
}

/// A scrub, the last one or the one in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrub {
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// When it ended, in seconds since 1970; none while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Cancelled before it was complete.
    #[serde(default)]
    pub cancelled: bool,
    /// The user who started it.
    pub user: String,
    /// The segment that comes next.
    pub next: u32,
    /// Segments that were in use and were read.
    pub segments: u64,
    /// Bytes read, parity included.
    pub bytes: u64,
    /// Pages that were not what had been written.
    pub errors: u64,
    /// Of these, written again.
    pub repaired: u64,
    /// Pages that could not be given back.
    pub lost: u64,
}
