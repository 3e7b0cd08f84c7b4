#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use array::{Cell, Latencies};

fn sample(kind: u8, millis: u64, buckets: &[(u64, u64)]) -> Sample {
    let total = buckets.iter().map(|(end, count)| end * count).sum();
    let latency = Latencies::new(buckets.iter().copied(), total);
    let cell = Cell { bytes: 4096 * latency.count(), failures: 0, latency };
    Sample { millis, cells: [((kind, 12), cell)].into(), shared: 0, moved: 0 }
}

#[test]
fn a_point_tells_rates_by_what_was_really_measured() {
    let point = Point::of(7, &sample(1, 2000, &[(1024, 100), (8192, 100)]));
    assert_eq!((point.write.iops, point.write.bytes_per_second, point.read.iops), (100.0, 409_600.0, 0.0));
    let latency = &point.write.latency_us;
    assert_eq!((latency.mean, latency.p50, latency.p99), (Some(4.608), Some(1.024), Some(8.192)));
    assert_eq!(point.read.latency_us.mean, None);
}
