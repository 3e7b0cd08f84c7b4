//! Aims of the loads beside a peer, which the recorded figures stand beside.

use lab::load::READ_CACHE_BYTES;

/// The least that a load is to reach beside the peer in the same run, and the most that it is to cost. The peer of a write is
/// durable.
pub struct Aim {
    /// The name of the load.
    load: &'static str,
    /// IOPS as a multiple of the peer's.
    pub min_iops_ratio: Option<f64>,
    /// CPU time of the target for each I/O, in microseconds.
    pub max_cpu_us: Option<f64>,
    /// Median latency as a multiple of the peer's.
    pub max_p50_ratio: Option<f64>,
}

const fn aim(load: &'static str, min_iops_ratio: f64, max_cpu_us: f64, max_p50_ratio: Option<f64>) -> Aim {
    Aim { load, min_iops_ratio: Some(min_iops_ratio), max_cpu_us: Some(max_cpu_us), max_p50_ratio }
}

/// Where the used part fits into the read cache.
const CACHED: &[Aim] = &[
    aim("4K random, depth 32 write, 1 session", 3.0, 10.0, None),
    aim("4K random, depth 32 write, 4 sessions", 6.0, 8.0, None),
    aim("64K sequential, depth 8 write, 1 session", 1.1, 60.0, None),
    aim("64K sequential, depth 8 write, 4 sessions", 1.3, 50.0, None),
    aim("4K random, depth 1 write, 1 session", 1.0, 80.0, Some(1.25)),
];

/// Where most reads miss the read cache.
const UNCACHED: &[Aim] = &[
    aim("4K random, depth 32 read, 1 session", 1.5, 12.0, Some(1.0)),
    aim("4K random, depth 32 read, 4 sessions", 1.8, 12.0, Some(1.0)),
    aim("64K sequential, depth 8 read, 1 session", 1.5, 36.0, None),
    aim("64K sequential, depth 8 read, 4 sessions", 1.5, 36.0, None),
    aim("4K random, depth 1 read, 1 session", 1.1, 60.0, Some(1.0)),
];

/// NVMe/TCP beside iSCSI.
const NVME: &[Aim] = &[
    Aim {
        load: "4K random, depth 32 read, 1 session",
        min_iops_ratio: None,
        max_cpu_us: Some(2.2),
        max_p50_ratio: None,
    },
    Aim {
        load: "4K random, depth 1 read, 1 session",
        min_iops_ratio: None,
        max_cpu_us: None,
        max_p50_ratio: Some(1.0),
    },
];

/// Whether most reads miss the read cache with this used part.
pub fn misses(used_mib: u64) -> bool {
    used_mib << 20 > READ_CACHE_BYTES
}

/// The suite as which a run with this used part is recorded.
pub fn suite(used_mib: u64) -> &'static str {
    if misses(used_mib) { "uncached" } else { "peers" }
}

/// The aim of a load in a suite, if it has one.
pub fn of(suite: &str, load: &str) -> Option<&'static Aim> {
    let aims = match suite {
        "uncached" => UNCACHED,
        "nvme" => NVME,
        _ => CACHED,
    };
    aims.iter().find(|aim| aim.load == load)
}
