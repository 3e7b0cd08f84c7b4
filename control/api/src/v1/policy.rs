//! How volumes are treated: reduction policies and limits, of a volume or of its group.

use super::present;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How data are compressed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    Off,
    /// Quickly.
    Fast,
    /// As small as it gets, at more processor time.
    High,
    /// Quickly, as long as it pays.
    Adaptive,
}

/// How data are reduced from now on; `null` is inherited: by a volume from its group, by a group from the array.
#[derive(Debug, Serialize, ToSchema)]
pub struct Policy {
    /// Whether blocks that the array has already are not stored again.
    dedup: Option<bool>,
    /// How blocks are compressed.
    compression: Option<Compression>,
    /// Whether blocks with the same fingerprint are compared byte by byte before one stands for both.
    verify: Option<bool>,
}

/// How data are reduced: what is set, or inherited.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyInForce {
    /// Whether blocks that the array has already are not stored again.
    dedup: bool,
    /// How blocks are compressed.
    compression: Compression,
    /// Whether blocks with the same fingerprint are compared byte by byte before one stands for both.
    verify: bool,
}

/// What to set of a policy; what is left out stays, `null`: inherited.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyChange {
    /// Whether blocks that the array has already are not stored again.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<bool>)]
    dedup: Option<Option<bool>>,
    /// How blocks are compressed.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Compression>)]
    compression: Option<Option<Compression>>,
    /// Whether blocks with the same fingerprint are compared byte by byte before one stands for both.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<bool>)]
    verify: Option<Option<bool>>,
}

/// What may be done in a second; `null`: no limit.
#[derive(Debug, Serialize, ToSchema)]
pub struct Limits {
    /// Reads, writes and offloads.
    iops: Option<u64>,
    /// How many of them may come at once after a pause; `null`: those of a tenth of a second.
    iops_burst: Option<u64>,
    /// Bytes that they carry.
    bandwidth: Option<u64>,
    /// How many bytes may come at once after a pause; `null`: those of a tenth of a second.
    bandwidth_burst: Option<u64>,
}

/// What to set of limits; what is left out stays, `null`: none.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsChange {
    /// Reads, writes and offloads in a second.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    iops: Option<Option<u64>>,
    /// How many of them may come at once after a pause.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    iops_burst: Option<Option<u64>>,
    /// Bytes that they carry in a second.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    bandwidth: Option<Option<u64>>,
    /// How many bytes may come at once after a pause.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    bandwidth_burst: Option<Option<u64>>,
}

impl From<Compression> for array::Compression {
    fn from(it: Compression) -> Self {
        match it {
            Compression::Off => array::Compression::Off,
            Compression::Fast => array::Compression::Fast,
            Compression::High => array::Compression::High,
            Compression::Adaptive => array::Compression::Adaptive,
        }
    }
}

impl From<array::Compression> for Compression {
    fn from(it: array::Compression) -> Self {
        match it {
            array::Compression::Off => Compression::Off,
            array::Compression::Fast => Compression::Fast,
            array::Compression::High => Compression::High,
            array::Compression::Adaptive => Compression::Adaptive,
        }
    }
}

impl From<array::Policy> for Policy {
    fn from(array::Policy { dedup, compression, verify }: array::Policy) -> Self {
        Self { dedup, compression: compression.map(Into::into), verify }
    }
}

impl From<array::PolicyInForce> for PolicyInForce {
    fn from(array::PolicyInForce { dedup, compression, verify }: array::PolicyInForce) -> Self {
        Self { dedup, compression: compression.into(), verify }
    }
}

impl From<PolicyChange> for array::PolicyChange {
    fn from(PolicyChange { dedup, compression, verify }: PolicyChange) -> Self {
        Self { dedup, compression: compression.map(|it| it.map(Into::into)), verify }
    }
}

impl From<array::Limits> for Limits {
    fn from(it: array::Limits) -> Self {
        let array::Limits { iops, iops_burst, bandwidth, bandwidth_burst } = it;
        Self { iops, iops_burst, bandwidth, bandwidth_burst }
    }
}

impl From<LimitsChange> for array::LimitsChange {
    fn from(it: LimitsChange) -> Self {
        let LimitsChange { iops, iops_burst, bandwidth, bandwidth_burst } = it;
        Self { iops, iops_burst, bandwidth, bandwidth_burst }
    }
}
