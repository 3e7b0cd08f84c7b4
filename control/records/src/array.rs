//! Records of the array as a whole: identity, retention clock, settings, certificate and scrub.

use crate::secret::Sealed;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Identity of the array: random, created by formatting, and immutable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayIdentity {
    /// Initial display name.
    pub name: String,
    /// Sixteen hex digits.
    pub serial: String,
    /// Creation time, in seconds since 1970.
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

/// Stored state of the retention clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockEntry {
    /// Reading of the clock, in seconds since 1970.
    pub retention: u64,
    /// Time of day at that reading.
    pub wall: u64,
    /// Boot identifier of the machine at that reading, in hex digits.
    pub boot: String,
    /// Uptime of the machine at that reading, in seconds.
    pub uptime: u64,
    /// Maximum advance of the time of day that is trusted after the next restart of the machine, in seconds.
    pub allowance: u64,
}

/// End of the audit log at the last check. Entry numbers begin at 1 and are never reused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditMark {
    /// Number of the newest entry; 0 if there is none.
    pub newest: i64,
    /// The last loss that was detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<AuditLoss>,
}

/// A loss of entries at the end of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLoss {
    /// Time of the detection, in seconds since 1970.
    pub found: u64,
    /// Number of the newest entry at that time.
    pub newest: i64,
    /// Minimum expected number of the newest entry.
    pub expected: i64,
}

/// Settings of the array as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Display name of the array.
    pub name: Option<String>,
    /// Retention of deleted volumes in the recycle bin, in seconds.
    pub bin_seconds: u64,
    /// UNMAP throttle: 0 is off, 9 the maximum.
    pub unmap_throttle: u8,
    /// Time from the end of a scrub to the next automatic one, in seconds; 0: never.
    pub scrub_seconds: u64,
    /// Time zone of schedules, as an IANA name.
    #[serde(skip_serializing_if = "is_utc")]
    pub time_zone: String,
    /// Maximum duration of a new retention lock, in seconds.
    #[serde(skip_serializing_if = "is_default_lock")]
    pub max_lock_seconds: u64,
    /// Number of threads for connections of hosts after the next start; `None`: one for each processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u16>,
}

/// Default maximum of retention locks in seconds: a year. Locks can't be revoked, so a mistake or a stolen token must
/// not fill an array for longer than its owner has decided.
const DEFAULT_MAX_LOCK_SECONDS: u64 = 366 * 24 * 3600;

fn is_default_lock(seconds: &u64) -> bool {
    *seconds == DEFAULT_MAX_LOCK_SECONDS
}

/// Default time zone of schedules.
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

/// Configuration of the certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateEntry {
    /// The chain in PEM, the array's own certificate first.
    #[serde(serialize_with = "crate::mark::pem")]
    pub chain: String,
    /// The sealed key in PEM.
    pub secret: Sealed,
    /// Start of its use, in seconds since 1970.
    pub since: u64,
}

impl CertificateEntry {
    /// Purpose of the sealed key.
    pub const PLACE: &str = "certificate";
}

/// An address of a controller's API, in addition to that of its options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiAddressEntry {
    /// The controller; 0 means the current home.
    pub controller: u16,
    /// Address to listen on.
    pub address: SocketAddr,
}

/// The current or last scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrub {
    /// Start time, in seconds since 1970.
    pub started: u64,
    /// End time, in seconds since 1970; `None` while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Whether it was cancelled before it was complete.
    #[serde(default)]
    pub cancelled: bool,
    /// The user who started it.
    pub user: String,
    /// The next segment.
    pub next: u32,
    /// Number of segments in use that were read.
    pub segments: u64,
    /// Bytes read, including parity.
    pub bytes: u64,
    /// Number of pages with errors.
    pub errors: u64,
    /// Number of pages that were repaired.
    pub repaired: u64,
    /// Number of pages that could not be recovered.
    pub lost: u64,
}
