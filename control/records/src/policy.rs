//! Configuration of data reduction policies and QoS limits, for volumes and volume groups.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Compression setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// No compression.
    Off,
    /// Low processor time.
    Fast,
    /// Best ratio, at more processor time.
    High,
    /// `Fast`, suspended while data are incompressible.
    Adaptive,
}

/// Data reduction of a volume, or of the volumes of a group, for new data. Fields that are `None` are inherited: by a
/// volume from its group, by a group from the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Whether blocks are deduplicated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<bool>,
    /// Compression of blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// Whether blocks with the same fingerprint are compared byte by byte before deduplication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
}

/// A change of a policy. `None` keeps a field, `Some(None)` makes it inherited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyChange {
    /// Whether blocks are deduplicated.
    pub dedup: Option<Option<bool>>,
    /// Compression of blocks.
    pub compression: Option<Option<Compression>>,
    /// Whether blocks with the same fingerprint are compared.
    pub verify: Option<Option<bool>>,
}

/// QoS limits of a volume, or shared by the volumes of a group, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Reads, writes and offloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Burst after a pause; by default a tenth of the rate per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops_burst: Option<u64>,
    /// Bytes transferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u64>,
    /// Burst after a pause; by default a tenth of the rate per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_burst: Option<u64>,
}

/// A change of limits. `None` keeps a field, `Some(None)` removes the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LimitsChange {
    /// Reads, writes and offloads per second.
    pub iops: Option<Option<u64>>,
    /// Burst of the IOPS limit.
    pub iops_burst: Option<Option<u64>>,
    /// Bytes per second.
    pub bandwidth: Option<Option<u64>>,
    /// Burst of the bandwidth limit.
    pub bandwidth_burst: Option<Option<u64>>,
}

impl Policy {
    /// True if every field is inherited.
    pub fn is_inherited(&self) -> bool {
        *self == Self::default()
    }

    /// The policy after a change.
    #[must_use]
    pub fn with(self, change: PolicyChange) -> Self {
        let PolicyChange { dedup, compression, verify } = change;
        Self {
            dedup: dedup.unwrap_or(self.dedup),
            compression: compression.unwrap_or(self.compression),
            verify: verify.unwrap_or(self.verify),
        }
    }

    /// Fills fields that are `None` from another policy.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            dedup: self.dedup.or(other.dedup),
            compression: self.compression.or(other.compression),
            verify: self.verify.or(other.verify),
        }
    }
}

impl Limits {
    /// True if nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The limits after a change.
    ///
    /// # Errors
    /// If a limit is zero, or if a burst has no limit.
    pub fn with(self, change: LimitsChange) -> Result<Self> {
        let LimitsChange { iops, iops_burst, bandwidth, bandwidth_burst } = change;
        let new = Self {
            iops: iops.unwrap_or(self.iops),
            iops_burst: iops_burst.unwrap_or(self.iops_burst),
            bandwidth: bandwidth.unwrap_or(self.bandwidth),
            bandwidth_burst: bandwidth_burst.unwrap_or(self.bandwidth_burst),
        };
        if [new.iops, new.iops_burst, new.bandwidth, new.bandwidth_burst].contains(&Some(0)) {
            return Err(Error::invalid("a limit of zero would stop everything: give at least 1, or none"));
        }
        if new.iops.is_none() && new.iops_burst.is_some()
            || new.bandwidth.is_none() && new.bandwidth_burst.is_some()
        {
            return Err(Error::invalid("a burst needs a limit: give the limit as well, or no burst"));
        }
        Ok(new)
    }
}
