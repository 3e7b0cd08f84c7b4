use super::*;

fn point(days: u64, used: u64) -> SpacePoint {
    SpacePoint { time: 86_400 * (20_000 + days), physical: used, total: 1000 << 30, ..SpacePoint::default() }
}

#[test]
fn the_days_to_full_follow_the_trend() {
    let past: Vec<_> = (0..=10).map(|day| point(day, (100 + 10 * day) << 30)).collect();
    let (per_day, days) = forecast(&past);
    assert!((per_day.expect("a trend") / f64::from(1 << 30) - 10.0).abs() < 1e-6);
    assert!((days.expect("an end") - 80.0).abs() < 1e-6);
    let shrinking: Vec<_> = (0..=10).map(|day| point(day, (200 - 10 * day) << 30)).collect();
    assert_eq!(forecast(&shrinking).1, None);
    assert_eq!((forecast(&past[..1]), forecast(&[])), ((None, None), (None, None)));
}

#[test]
fn every_kind_and_size_has_a_number_of_its_own() {
    let keys: std::collections::BTreeSet<_> =
        Operation::ALL.iter().flat_map(|kind| SizeClass::all().map(|size| key((*kind, size)))).collect();
    assert_eq!(keys.len(), Operation::ALL.len() * SizeClass::all().count());
    for (operation, size) in
        Operation::ALL.iter().flat_map(|kind| SizeClass::all().map(move |size| (*kind, size)))
    {
        let (number, class) = key((operation, size));
        assert_eq!((kind(number), size_limit(class)), (Some(operation), size.limit()));
    }
}
