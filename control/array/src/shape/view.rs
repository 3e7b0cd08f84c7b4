//! Results of requests, and names in them: plain values.

use crate::shape::{shapes, some_time, time};
use history::Severity;
use records::{Config, Content, Destination};
use serde::{Serialize, Serializer};
use shelf::pool::DriveStatus;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use utoipa::ToSchema;

shapes! {
    NotificationTarget: "NotificationTargets" "Alert notification targets." "Sorted by name";
    Job: "Jobs" "Jobs." "Newest last";
    RefusedLogin: "RefusedLogins" "Refused log-ins." "Most recent first", whole;
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
    pub(crate) fn serialize_ratio<S: Serializer>(
        it: &Option<Self>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        it.and_then(|it| it.ratio()).serialize(serializer)
    }
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

/// Self-reported health of a drive, read by `smartctl` every ten minutes; `null` for values that are not reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Health {
    /// Overall health self-assessment.
    pub verdict: Verdict,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Firmware version.
    pub firmware: Option<String>,
    /// Temperature in degrees Celsius.
    pub temperature_celsius: Option<i64>,
    /// Percentage of the rated write endurance that is used; may exceed 100.
    pub used_percent: Option<u64>,
    /// Percentage of spare blocks that is left.
    pub spare_percent: Option<u64>,
    /// Power-on hours.
    pub power_on_hours: Option<u64>,
    /// Lifetime count of media errors.
    pub media_errors: Option<u64>,
    /// Lifetime bytes written.
    pub lifetime_written_bytes: Option<u64>,
    /// Lifetime bytes read.
    pub lifetime_read_bytes: Option<u64>,
}

/// Health self-assessment of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Healthy.
    Passed,
    /// Failing or predicted to fail.
    Failing,
    /// Not reported.
    #[default]
    Unknown,
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
