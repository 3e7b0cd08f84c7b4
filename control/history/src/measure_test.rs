#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use crate::sample::{Cell, Latencies};

/// Start of a period of five minutes.
const BEGIN: u64 = 1_795_000_200;

fn busy(count: u64) -> Sample {
    let cell =
        Cell { bytes: count * 4096, failures: 0, latency: Latencies::new([(1024, count)], count * 1000) };
    Sample { millis: 1000, cells: [((0, 12), cell)].into(), shared: 0, moved: 0 }
}

fn idle() -> Sample {
    Sample { millis: 1000, ..Sample::default() }
}

fn second(recorder: &mut Recorder, store: &Store, time: u64, volume: u64) {
    let mut samples = vec![(ALL.to_owned(), if volume > 0 { busy(volume) } else { idle() })];
    if volume > 0 {
        samples.push(("volume/1".into(), busy(volume)));
    }
    recorder.add(store, time, samples).unwrap();
}

fn query(
    recorder: &Recorder,
    store: &Store,
    subject: &str,
    now: u64,
    from: u64,
    points: u64,
) -> Vec<Option<u64>> {
    let span = tier_for(now, from, now, points, 1).unwrap();
    let subjects = [subject.to_owned()];
    let series = store.read(recorder.begin(span, &subjects), &subjects).unwrap();
    let count = |sample: &Sample| sample.sum(|_, _| true).latency.count();
    series.samples.iter().map(|sample| sample.as_ref().map(count)).collect()
}

#[test]
fn a_series_has_the_seconds_that_are_only_in_memory() {
    let store = Store::in_memory();
    let mut recorder = Recorder::open(&store, BEGIN).unwrap();
    for time in 0..25 {
        second(&mut recorder, &store, BEGIN + time, time % 3);
    }
    for subject in [ALL, "volume/1"] {
        let series = query(&recorder, &store, subject, BEGIN + 25, BEGIN, 100);
        assert_eq!(series, (0..25).map(|time| Some(time % 3)).collect::<Vec<_>>(), "{subject}");
    }
    assert_eq!(query(&recorder, &store, "volume/2", BEGIN + 25, BEGIN, 100), vec![Some(0); 25]);
    let newest = recorder.newest(3);
    let all = newest.all();
    assert_eq!((all.millis, all.sum(|_, _| true).latency.count()), (3000, 3));
    assert_eq!(newest.each().count(), 1);
    assert_eq!(newest.of("volume/1").sum(|_, _| true).latency.count(), 3);
    assert_eq!(newest.of("volume/2").sum(|_, _| true).latency.count(), 0);
}

#[test]
fn unknown_seconds_are_not_zero() {
    let store = Store::in_memory();
    let mut recorder = Recorder::open(&store, BEGIN).unwrap();
    second(&mut recorder, &store, BEGIN + 10, 5);
    second(&mut recorder, &store, BEGIN + 12, 0);
    let series = query(&recorder, &store, "volume/1", BEGIN + 14, BEGIN + 9, 100);
    assert_eq!(series, [None, Some(5), None, Some(0), None]);
}

#[test]
fn coarser_tiers_are_the_sums_of_finer_ones() {
    let store = Store::in_memory();
    let mut recorder = Recorder::open(&store, BEGIN).unwrap();
    for time in 0..=900 {
        second(&mut recorder, &store, BEGIN + time, 2);
    }
    let now = BEGIN + 900;
    let tens = query(&recorder, &store, "volume/1", now + 2 * 3600, BEGIN, 10_000);
    assert_eq!(tens.iter().flatten().sum::<u64>(), 1800);
    assert_eq!(tens[0], Some(20));
    let minutes = query(&recorder, &store, "volume/1", now + 2 * 86_400, BEGIN, 10_000);
    assert_eq!(minutes.iter().flatten().copied().collect::<Vec<_>>(), [600, 600, 600]);
}

#[test]
fn a_restart_continues_where_the_file_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let store = Store::open(&path);
    let mut recorder = Recorder::open(&store, BEGIN).unwrap();
    (0..95).for_each(|time| second(&mut recorder, &store, BEGIN + time, 1));
    // A clean stop in the middle of a row, then a kill in the middle of a row.
    recorder.flush(&store, BEGIN + 95).unwrap();
    drop((recorder, store));
    let store = Store::open(&path);
    let mut recorder = Recorder::open(&store, BEGIN + 96).unwrap();
    (96..205).for_each(|time| second(&mut recorder, &store, BEGIN + time, 1));
    drop((recorder, store));
    let store = Store::open(&path);
    let mut recorder = Recorder::open(&store, BEGIN + 700).unwrap();
    let seconds = query(&recorder, &store, "volume/1", BEGIN + 705, BEGIN, 10_000);
    let expected = |time| (time < 200 && time != 95).then_some(1);
    assert_eq!(seconds, (0..705).map(expected).collect::<Vec<_>>());
    second(&mut recorder, &store, BEGIN + 705, 1);
    let minutes = query(&recorder, &store, "volume/1", BEGIN + 2 * 86_400, BEGIN, 10_000);
    assert_eq!(minutes[0], Some(199));
}

#[test]
fn rows_beyond_age_or_number_are_deleted() {
    let store = Store::in_memory();
    let mut recorder = Recorder::open(&store, BEGIN).unwrap();
    let hours = 2 * 3600;
    for time in (0..hours).step_by(10) {
        second(&mut recorder, &store, BEGIN + time, 1);
    }
    let rows = |tier: Tier| -> i64 {
        let sql = "SELECT count(*) FROM sample WHERE tier = ?";
        store.db().query_row(sql, params![tier.number], |row| row.get(0)).unwrap()
    };
    assert_eq!(rows(SECONDS), 2 * 360);
    assert_eq!((rows(TENS), rows(MINUTES)), (2 * 719, 2 * 23));
    assert_eq!(recorder.rows, [rows(SECONDS), rows(TENS), rows(MINUTES)]);
    assert_eq!(
        trim(&store.db(), SECONDS, 199).unwrap(),
        100,
        "the older half of 200 rows is not the array's own"
    );
    let hour = query(&recorder, &store, ALL, BEGIN + hours, BEGIN + hours - 3600, 10_000);
    assert_eq!(hour.iter().flatten().count(), 360);
}

#[test]
fn a_query_uses_the_finest_tier_within_the_row_limit() {
    let step = |from, points, subjects| {
        tier_for(BEGIN, from, BEGIN, points, subjects).map(|it| (it.tier.step, it.width))
    };
    assert_eq!(step(BEGIN - 300, 300, 1), Some((1, 1)));
    assert_eq!(step(BEGIN - 3600, 300, 1), Some((1, 12)));
    assert_eq!(step(BEGIN - 7200, 720, 1), Some((10, 10)));
    assert_eq!(step(BEGIN - 30 * 86_400, 300, 1), Some((300, 8700)));
    assert_eq!(step(BEGIN - 7200, 720, 1000), Some((300, 300)));
    assert_eq!(step(BEGIN - 365 * 86_400, 300, 1000), None);
}
