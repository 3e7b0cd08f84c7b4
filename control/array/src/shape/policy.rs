//! Reduction policies and QoS limits as the engine and the SCSI target take them.

use records::{Compression, Config, Limits, Policy, VolumeEntry};
use serde::Serialize;
use utoipa::ToSchema;

/// Effective data reduction settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PolicyInForce {
    /// Deduplication.
    pub dedup: bool,
    /// Compression level.
    pub compression: Compression,
    /// Byte-by-byte verification of duplicates with equal fingerprints.
    pub verify: bool,
}

/// A policy with the array's defaults for what it leaves open.
fn in_force(policy: Policy) -> engine::Policy {
    let usual = engine::Policy::default();
    engine::Policy {
        dedup: policy.dedup.unwrap_or(usual.dedup),
        compression: policy.compression.map_or(usual.compression, to_engine),
        verify: policy.verify.unwrap_or(usual.verify),
    }
}

/// Limits as the SCSI target enforces them.
pub(crate) fn rates(limits: Limits) -> export::QosLimits {
    let rate = |per_second: u64, burst: Option<u64>| export::Rate {
        per_second,
        burst: burst.unwrap_or((per_second / 10).max(1)),
    };
    export::QosLimits {
        operations: limits.iops.map(|iops| rate(iops, limits.iops_burst)),
        bytes: limits.bandwidth.map(|bytes| rate(bytes, limits.bandwidth_burst)),
    }
}

fn to_engine(compression: Compression) -> engine::Compression {
    match compression {
        Compression::Off => engine::Compression::Off,
        Compression::Fast => engine::Compression::Fast,
        Compression::High => engine::Compression::High,
        Compression::Adaptive => engine::Compression::Adaptive,
    }
}

fn of_engine(compression: engine::Compression) -> Compression {
    match compression {
        engine::Compression::Off => Compression::Off,
        engine::Compression::Fast => Compression::Fast,
        engine::Compression::High => Compression::High,
        engine::Compression::Adaptive => Compression::Adaptive,
    }
}

impl From<engine::Policy> for PolicyInForce {
    fn from(policy: engine::Policy) -> Self {
        let engine::Policy { dedup, compression, verify } = policy;
        Self { dedup, compression: of_engine(compression), verify }
    }
}

/// How the data of a volume are reduced: its own policy, then its group's, then the array's.
pub(crate) fn policy_of(config: &Config, volume: &VolumeEntry) -> engine::Policy {
    let group = volume.group.and_then(|id| config.groups.get(id)).map(|group| group.policy);
    in_force(volume.policy.or(group.unwrap_or_default()))
}
