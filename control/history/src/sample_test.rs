#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;

fn sample(kind: u8, latencies: &[(u64, u64)]) -> Sample {
    let total = latencies.iter().map(|(end, count)| end * count).sum();
    let cell = Cell { bytes: 4096, failures: 1, latency: Latencies::new(latencies.iter().copied(), total) };
    Sample { millis: 1000, cells: [((kind, 12), cell)].into(), shared: 7, moved: 1 << 40 }
}

#[test]
fn a_row_gives_back_what_was_put_in_it() {
    let (first, second) = (sample(0, &[(1024, 5), (1 << 36, 1)]), sample(6, &[(1152, u64::MAX >> 40)]));
    let mut row = Vec::new();
    encode(&mut row, 0, &first);
    encode(&mut row, 9, &second);
    encode(&mut row, 3, &Sample::default());
    assert_eq!(decode(&row), [(0, first), (9, second), (3, Sample::default())]);
}

#[test]
fn a_damaged_row_is_cut_off_and_never_panics() {
    let mut row = Vec::new();
    encode(&mut row, 0, &sample(0, &[(1024, 5)]));
    encode(&mut row, 1, &sample(0, &[(1024, 5)]));
    for len in 0..row.len() {
        assert!(decode(&row[..len]).len() <= 1);
    }
    for at in 0..row.len() {
        let mut wrong = row.clone();
        wrong[at] = 0xff;
        decode(&wrong);
    }
}

#[test]
fn percentiles_come_from_the_buckets_of_all() {
    // 99 fast commands in one second, 99 slow ones in another: the mean of both medians is a latency that no command
    // had.
    let mut both = sample(0, &[(1024, 99)]);
    both.add(&sample(0, &[(1 << 20, 99)]));
    let all = both.sum(|kind, _| kind == 0).latency;
    assert_eq!((both.millis, all.count()), (2000, 198));
    assert_eq!(
        (all.quantile(0.5), all.quantile(0.51), all.quantile(1.0)),
        (Some(1024), Some(1 << 20), Some(1 << 20))
    );
    assert_eq!(both.sum(|kind, _| kind == 1).latency.quantile(0.5), None);
}
