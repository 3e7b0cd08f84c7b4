//! Data reduction settings and QoS limits of volumes and volume groups.

use super::handler::present;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Compression level.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Off.
    Off,
    /// Fast compression.
    Fast,
    /// Highest ratio, at the cost of processor time.
    High,
    /// Fast compression, suspended for data that does not compress.
    Adaptive,
}

/// Data reduction settings for new writes. `null`: inherited, by a volume from its group, by a group from the array.
#[derive(Debug, Serialize, ToSchema)]
pub struct Policy {
    /// Deduplication.
    dedup: Option<bool>,
    /// Compression level.
    compression: Option<Compression>,
    /// Byte-by-byte verification of duplicates with equal fingerprints.
    verify: Option<bool>,
}

/// Effective data reduction settings.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyInForce {
    /// Deduplication.
    dedup: bool,
    /// Compression level.
    compression: Compression,
    /// Byte-by-byte verification of duplicates with equal fingerprints.
    verify: bool,
}

/// Changes to data reduction settings. Omitted fields keep their values; `null`: inherited.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyChange {
    /// Deduplication.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<bool>)]
    dedup: Option<Option<bool>>,
    /// Compression level.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Compression>)]
    compression: Option<Option<Compression>>,
    /// Byte-by-byte verification of duplicates with equal fingerprints.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<bool>)]
    verify: Option<Option<bool>>,
}

/// QoS limits; `null`: unlimited.
#[derive(Debug, Serialize, ToSchema)]
pub struct Limits {
    /// Reads, writes and offloaded commands per second.
    iops: Option<u64>,
    /// Burst in commands; `null`: a tenth of a second's worth.
    iops_burst: Option<u64>,
    /// Bytes per second.
    #[schema(extensions(("x-unit" = json!("bytes/s"))))]
    bandwidth: Option<u64>,
    /// Burst in bytes; `null`: a tenth of a second's worth.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    bandwidth_burst: Option<u64>,
}

/// Changes to QoS limits. Omitted fields keep their values; `null`: unlimited.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsChange {
    /// Reads, writes and offloaded commands per second.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    iops: Option<Option<u64>>,
    /// Burst in commands.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    iops_burst: Option<Option<u64>>,
    /// Bytes per second.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    bandwidth: Option<Option<u64>>,
    /// Burst in bytes.
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
