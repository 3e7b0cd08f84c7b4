use super::*;

#[test]
fn a_histogram_tells_what_was_put_in() {
    let mut latencies = Latencies::default();
    assert_eq!((latencies.count(), latencies.at(0.5)), (0, 0.0));
    (1..=1000).for_each(|us| latencies.record(Duration::from_micros(us)));
    assert!((latencies.at(0.5) - 500.0).abs() < 1.0, "{}", latencies.at(0.5));
    assert!((latencies.at(0.99) - 990.0).abs() < 1.0);
    assert!((latencies.mean() - 500.5).abs() < 1.0);
    let mut both = latencies.clone();
    both.add(&latencies);
    assert_eq!(both.count(), 2000);
}

#[test]
fn the_middle_of_repeats_has_a_spread() {
    assert_eq!(middle([]), None);
    assert_eq!(middle([3.0, 1.0, 2.0]), Some(Middle { median: 2.0, low: 1.0, high: 3.0 }));
    assert_eq!(middle([4.0, 1.0]).map(|it| it.median), Some(2.5));
}

/// Pairs with a common level that varies much more than the builds differ.
fn pairs(count: u64, ratio: f64, noise: f64) -> Vec<(f64, f64)> {
    let mut seed = Seed::new(7);
    let mut part = || seed.range(0, 1000) as f64 / 1000.0 - 0.5;
    (0..count)
        .map(|_| {
            let level = 1000.0 * (1.0 + part());
            (level * ratio * (1.0 + noise * part()), level * (1.0 + noise * part()))
        })
        .collect()
}

#[test]
fn a_difference_is_told_from_noise() {
    let verdict = |ratio, noise| compare(&pairs(12, ratio, noise)).map(|it| it.verdict);
    assert_eq!(verdict(1.2, 0.1), Some(Verdict::More));
    assert_eq!(verdict(0.8, 0.1), Some(Verdict::Less));
    assert_eq!(verdict(1.0, 0.02), Some(Verdict::Same));
    assert_eq!(verdict(1.01, 0.8), Some(Verdict::Unclear));
    assert_eq!(compare(&[]), None);
    assert_eq!(compare(&[(1.0, 0.0)]), None);
}

#[test]
fn the_same_pairs_give_the_same_verdict() {
    let pairs = pairs(9, 1.1, 0.2);
    assert_eq!(compare(&pairs), compare(&pairs));
    let found = compare(&pairs).unwrap();
    assert!(found.low <= found.ratio && found.ratio <= found.high && found.confidence <= 1.0);
}

#[test]
fn noise_alone_is_no_difference() {
    let mut seed = Seed::new(11);
    let mut part = || 1.0 + (seed.range(0, 1000) as f64 / 1000.0 - 0.5);
    let verdicts = (0..400).filter_map(|_| compare(&(0..10).map(|_| (part(), part())).collect::<Vec<_>>()));
    let alarms = verdicts.filter(|it| matches!(it.verdict, Verdict::More | Verdict::Less)).count();
    assert!(alarms <= 6, "{alarms} of 400 where 2 are to be expected");
    let few: Vec<_> = [(2.0, 1.0); 8].into();
    assert_eq!(compare(&few).map(|it| it.verdict), Some(Verdict::Unclear));
}
