#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use array::Latencies;

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

#[test]
fn rows_of_a_heat_map_hold_what_ends_in_them() {
    for end in [1024, 1152, 1280, 1536, 1664, 2048, 2304, 1 << 36] {
        let row = heat_row(end);
        assert!(row >= end && row <= end * 3 / 2, "{end} is in {row}");
    }
    let rows: BTreeSet<u64> = (8..=16).map(|eighth| heat_row(eighth << 7)).collect();
    assert_eq!(rows, BTreeSet::from([1024, 1536, 2048]));
}

#[test]
fn a_table_has_as_many_cells_in_each_row() {
    let mut work = WorkColumns::default();
    let cell = sample(0, 1000, &[(1024, 1)]).sum(|_, _| true);
    work.push(Some((&cell, 1000)));
    work.push(None);
    let empty = || {
        let mut work = WorkColumns::default();
        (0..2).for_each(|_| work.push(None));
        work
    };
    let performance = Performance {
        resolution_seconds: 1,
        times: vec![0, 1],
        read: work,
        write: empty(),
        offload: empty(),
    };
    let text = performance.csv();
    let cells: Vec<_> = text.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(cells, [28, 28, 28]);
    assert!(text.contains("1970-01-01T00:00:00Z,1,4096,0,1.024,"), "{text}");
}
