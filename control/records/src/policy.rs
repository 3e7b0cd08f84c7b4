//! Data reduction policies and QoS limits of volumes and volume groups, as they are configured.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// How data are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    Off,
    /// Quickly.
    Fast,
    /// As small as it gets, at more processor time.
    High,
    /// Fast, as long as it reduces.
    Adaptive,
}

/// How the data of a volume, or of the volumes of a group, are reduced from now on; what is none is inherited: by a
/// volume from its group, by a group from the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Blocks that the array has already are not stored again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<bool>,
    /// How blocks are compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// Blocks with the same fingerprint are compared byte by byte before one stands for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
}

/// What to set of a policy; what is none stays, and some none is inherited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyChange {
    /// Whether blocks that the array has already are not stored again.
    pub dedup: Option<Option<bool>>,
    /// How blocks are compressed.
    pub compression: Option<Option<Compression>>,
    /// Whether blocks with the same fingerprint are compared.
    pub verify: Option<Option<bool>>,
}

/// What a volume, or the volumes of a group together, may do in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Reads, writes and offloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// How many of them may come at once after a pause; a tenth of a second's when none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops_burst: Option<u64>,
    /// Bytes that they carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u64>,
    /// How many of them may come at once after a pause; a tenth of a second's when none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_burst: Option<u64>,
}

/// What to set of limits; what is none stays, and some none is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LimitsChange {
    /// Reads, writes and offloads in a second.
    pub iops: Option<Option<u64>>,
    /// How many of them at once.
    pub iops_burst: Option<Option<u64>>,
    /// Bytes in a second.
    pub bandwidth: Option<Option<u64>>,
    /// How many of them at once.
    pub bandwidth_burst: Option<Option<u64>>,
}

impl Policy {
    /// True when everything is inherited.
    pub fn is_inherited(&self) -> bool {
        *self == Self::default()
    }

    /// With a change.
    #[must_use]
    pub fn with(self, change: PolicyChange) -> Self {
        let PolicyChange { dedup, compression, verify } = change;
        Self {
            dedup: dedup.unwrap_or(self.dedup),
            compression: compression.unwrap_or(self.compression),
            verify: verify.unwrap_or(self.verify),
        }
    }

    /// With what is inherited from another one.
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
    /// True when nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// With a change.
    ///
    /// # Errors
    /// When nothing would get through, or a burst has no limit.
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
            return Err(Error::invalid("a burst goes with a limit: give the limit as well, or no burst"));
        }
        Ok(new)
    }
}
