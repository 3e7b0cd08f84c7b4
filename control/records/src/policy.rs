//! Configuration of data reduction policies and QoS limits, for volumes and volume groups.

use crate::{Error, Result};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

/// Compression level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// Deduplication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<bool>,
    /// Compression level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// Byte-by-byte verification of duplicates with equal fingerprints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
}

/// Changes to data reduction settings. Omitted fields keep their values; `null`: inherited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyChange {
    /// Deduplication.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<bool>)]
    pub dedup: Option<Option<bool>>,
    /// Compression level.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Compression>)]
    pub compression: Option<Option<Compression>>,
    /// Byte-by-byte verification of duplicates with equal fingerprints.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<bool>)]
    pub verify: Option<Option<bool>>,
}

/// QoS limits; `null`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// Reads, writes and offloaded commands per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Burst in commands; `null`: a tenth of a second's worth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops_burst: Option<u64>,
    /// Bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(extensions(("x-unit" = json!("bytes/s"))))]
    pub bandwidth: Option<u64>,
    /// Burst in bytes; `null`: a tenth of a second's worth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub bandwidth_burst: Option<u64>,
}

/// Changes to QoS limits. Omitted fields keep their values; `null`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsChange {
    /// Reads, writes and offloaded commands per second.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub iops: Option<Option<u64>>,
    /// Burst in commands.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub iops_burst: Option<Option<u64>>,
    /// Bytes per second.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub bandwidth: Option<Option<u64>>,
    /// Burst in bytes.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub bandwidth_burst: Option<Option<u64>>,
}

/// Reads a field of a change that may be left out, null, or a value.
///
/// # Errors
/// When the value is none of its type.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl From<Policy> for PolicyChange {
    /// Sets what is not inherited.
    fn from(Policy { dedup, compression, verify }: Policy) -> Self {
        Self { dedup: dedup.map(Some), compression: compression.map(Some), verify: verify.map(Some) }
    }
}

impl PolicyChange {
    /// True when it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// With everything inherited that it does not set.
    #[must_use]
    pub fn whole(self) -> Self {
        let Self { dedup, compression, verify } = self;
        Self {
            dedup: dedup.or(Some(None)),
            compression: compression.or(Some(None)),
            verify: verify.or(Some(None)),
        }
    }
}

impl From<Limits> for LimitsChange {
    /// Sets what is limited.
    fn from(Limits { iops, iops_burst, bandwidth, bandwidth_burst }: Limits) -> Self {
        let [iops, iops_burst, bandwidth, bandwidth_burst] =
            [iops, iops_burst, bandwidth, bandwidth_burst].map(|it| it.map(Some));
        Self { iops, iops_burst, bandwidth, bandwidth_burst }
    }
}

impl LimitsChange {
    /// True when it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// With no limit where it sets none.
    #[must_use]
    pub fn whole(self) -> Self {
        let Self { iops, iops_burst, bandwidth, bandwidth_burst } = self;
        let [iops, iops_burst, bandwidth, bandwidth_burst] =
            [iops, iops_burst, bandwidth, bandwidth_burst].map(|it| it.or(Some(None)));
        Self { iops, iops_burst, bandwidth, bandwidth_burst }
    }
}

impl Policy {
    /// True if every field is inherited.
    pub fn is_inherited(&self) -> bool {
        *self == Self::default()
    }

    /// With `null` for what is inherited, as operators see it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn whole<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Self { dedup, compression, verify } = self;
        let mut fields = serializer.serialize_struct("Policy", 3)?;
        fields.serialize_field("dedup", dedup)?;
        fields.serialize_field("compression", compression)?;
        fields.serialize_field("verify", verify)?;
        fields.end()
    }

    /// The result of a change.
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

    /// With `null` for what is unlimited, as operators see it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn whole<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Self { iops, iops_burst, bandwidth, bandwidth_burst } = self;
        let mut fields = serializer.serialize_struct("Limits", 4)?;
        fields.serialize_field("iops", iops)?;
        fields.serialize_field("iops_burst", iops_burst)?;
        fields.serialize_field("bandwidth", bandwidth)?;
        fields.serialize_field("bandwidth_burst", bandwidth_burst)?;
        fields.end()
    }

    /// The result of a change.
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
