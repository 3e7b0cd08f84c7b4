use super::*;
use history::{Cell, Latencies, Sample};
use shelf::pool::{DriveStatus, ObjectPool};

fn kinds(found: &Conditions) -> Vec<(&str, Severity)> {
    found.values().map(|it| (it.kind.as_str(), it.severity)).collect()
}

fn path(host: &str, portal: u16, sessions: usize, commands: u64) -> PathUse {
    let cell = Cell { latency: Latencies::new([(1024, commands)], 0), ..Cell::default() };
    let sample = Sample { cells: [((0, 12), cell)].into(), ..Sample::default() };
    PathUse { host: host.into(), initiator: format!("iqn.x:{host}"), portal, sessions, sample }
}

#[test]
fn lonely_and_uneven_paths_are_found() {
    let paths = [
        path("even", 1, 1, 90_000),
        path("even", 2, 1, 100_000),
        path("lonely", 1, 1, 100_000),
        path("lonely", 2, 0, 100_000),
        path("uneven", 1, 1, 10_000),
        path("uneven", 2, 1, 100_000),
        path("idle", 1, 1, 0),
        path("idle", 2, 1, 100),
    ];
    let found = of_paths(&paths, 2);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["host.one-path/lonely", "host.uneven-paths/uneven"]);
    assert!(of_paths(&paths[2..4], 1).is_empty(), "there is only one portal");
}

fn shelf(states: &[DriveState], tolerates: usize) -> PoolStatus {
    let drive = |(slot, state): (usize, &DriveState)| DriveStatus {
        slot,
        name: (*state != DriveState::Failed).then(|| format!("drive{slot}")),
        drive: slot as u128,
        bytes: 1 << 30,
        used_bytes: 0,
        state: *state,
        journal: false,
        read_bytes: 0,
        written_bytes: 0,
        read_errors: 0,
        slow_reads: 0,
        bad_pages: 0,
        slow: false,
        lags: false,
        reduces_to: None,
    };
    let drives = states.iter().enumerate().map(drive).collect();
    PoolStatus { drives, tolerates, failures_to_tolerate: 2, ..PoolStatus::default() }
}

#[test]
fn failed_drives_and_reduced_protection_are_found() {
    use DriveState::{Evacuating, Failed, Online};
    use Severity::{Critical, Info, Warning};
    assert!(of_drives(&shelf(&[Online; 4], 2)).is_empty());
    let out = of_drives(&shelf(&[Online, Online, Failed, Online], 1));
    assert_eq!(kinds(&out), [("drive.failed", Warning), ("protection.degraded", Critical)]);
    let worse = of_drives(&shelf(&[Online, Online, Failed, Failed], 0));
    assert_eq!(kinds(&worse)[2], ("protection.degraded", Critical));
    let evacuating =
        of_drives(&PoolStatus { degraded_segments: 7, ..shelf(&[Online, Online, Online, Evacuating], 2) });
    assert_eq!(kinds(&evacuating), [("drive.evacuating", Info), ("protection.rebuilding", Info)]);
    // Two drives promise a mirror, but not when there were more.
    let two =
        |failures_to_tolerate| of_drives(&PoolStatus { failures_to_tolerate, ..shelf(&[Online, Online], 1) });
    assert_eq!(kinds(&two(1)), [("protection.low", Info)]);
    assert_eq!(kinds(&two(2)), [("protection.degraded", Critical)]);
    assert!(two(2)["protection.degraded"].message.contains("only 2 drives are online: add drives"));
    let pool = |failures_to_tolerate| {
        of_drives(&PoolStatus { failures_to_tolerate, ..shelf(&[], failures_to_tolerate) })
    };
    assert!(pool(2).is_empty(), "a pool has no drives of the array");
    assert!(pool(1)["protection.low"].message.contains("the pools of the array survive one failure"));
    let one = of_drives(&shelf(&[Online, Evacuating, Evacuating], 1));
    assert!(one["protection.degraded"].message.contains("only 1 drives are online"), "{one:?}");
    let mut corrupt = PoolStatus { lost_pages: 1, ..shelf(&[Online; 4], 2) };
    corrupt.drives[0].bad_pages = 3;
    assert_eq!(kinds(&of_drives(&corrupt)), [("data.lost", Critical), ("drive.checksum-errors", Warning)]);
}

#[test]
fn contradictions_on_the_drives_are_one_condition() {
    assert!(of_contradictions(&[]).is_empty());
    let found = of_contradictions(&["map page 7 is named, but does not exist".into(), "another".into()]);
    assert_eq!(kinds(&found), [("metadata.contradiction", Severity::Critical)]);
    let message = &found["metadata.contradiction"].message;
    assert!(
        message.contains("2 places") && message.contains("map page 7") && message.contains("--repair"),
        "{message}"
    );
}

#[test]
fn certificates_are_judged() {
    let left = |days| of_certificate(100 * DAY + days * DAY, 100 * DAY);
    assert!(left(31).is_empty());
    assert_eq!(kinds(&left(29)), [("certificate.expiry", Severity::Warning)]);
    assert_eq!(kinds(&left(6)), [("certificate.expiry", Severity::Critical)]);
    assert!(of_certificate(DAY, 2 * DAY)["certificate.expiry"].message.contains("has expired"));
}

/// Two weeks in which this many of a thousand bytes were used up each day.
fn fortnight(per_day: u64) -> Vec<SpacePoint> {
    let point = |day: u64| SpacePoint {
        time: day * DAY,
        physical: day * per_day,
        total: 1000,
        ..SpacePoint::default()
    };
    (0..15).map(point).collect()
}

#[test]
fn a_trend_that_ends_soon_is_found_and_does_not_flap() {
    let none = Conditions::default();
    let judge = |per_day, before| of_forecast(&fortnight(per_day), before);
    // After a fortnight 720, 440 and 300 bytes are left.
    assert!(judge(20, &none).is_empty());
    let soon = judge(40, &none);
    assert_eq!(kinds(&soon), [("space.forecast", Severity::Warning)]);
    assert_eq!(kinds(&judge(50, &none))[0].1, Severity::Critical);
    // 608 bytes at 20 a day are 30.4 days.
    let mut past = fortnight(20);
    past.iter_mut().for_each(|point| point.total = 280 + 608);
    assert!(of_forecast(&past, &none).is_empty());
    assert_eq!(of_forecast(&past, &soon), soon);
    assert!(of_forecast(&fortnight(50)[..1], &none).is_empty(), "too little is known");
}

#[test]
fn a_slow_drive_is_found_while_it_is() {
    let mut status = shelf(&[DriveState::Online; 4], 2);
    status.drives[2].slow = true;
    let found = of_drives(&status);
    assert_eq!(kinds(&found), [("drive.slow", Severity::Warning)]);
    assert_eq!(found.values().next().and_then(|it| it.name.as_deref()), Some("2"));
}

/// Sparse files that may grow by more than there is: reported from the start, and with a higher severity before hosts notice.
#[test]
fn a_file_system_that_may_run_out_is_told_of_before_it_does() {
    let below = |free, growth| {
        let file_system = shelf::pool::FileSystem { slots: vec![0, 1], free, total: 1000, growth };
        PoolStatus { file_systems: vec![file_system], ..shelf(&[DriveState::Online; 4], 2) }
    };
    assert!(of_drives(&below(500, 500)).is_empty());
    assert_eq!(kinds(&of_drives(&below(500, 501))), [("drive.overcommitted", Severity::Warning)]);
    assert_eq!(kinds(&of_drives(&below(99, 501))), [("drive.overcommitted", Severity::Critical)]);
    let full = PoolStatus { starved: true, ..below(0, 501) };
    let expected = [("drive.no-space", Severity::Critical), ("drive.overcommitted", Severity::Critical)];
    assert_eq!(kinds(&of_drives(&full)), expected);
}

#[test]
fn a_former_drive_that_keeps_a_key_is_named() {
    let found = of_drives(&PoolStatus {
        unwiped_drives: vec!["slot 2".into()],
        ..shelf(&[DriveState::Online; 4], 2)
    });
    assert_eq!(kinds(&found), [("drive.unwiped", Severity::Warning)]);
}

#[test]
fn a_drive_that_is_no_member_any_more_is_named() {
    let found = of_drives(&PoolStatus {
        former_drives: vec!["/dev/sdx".into()],
        ..shelf(&[DriveState::Online; 4], 2)
    });
    assert_eq!(kinds(&found), [("drive.stray", Severity::Warning)]);
    assert!(found.values().all(|it| it.message.starts_with("/dev/sdx ")));
}

#[test]
fn what_a_scrub_found_matters_and_more_when_it_is_lost() {
    let scrub = |errors, lost| Scrub { errors, repaired: errors - lost, lost, ..Scrub::default() };
    assert!(of_scrub(&scrub(0, 0)).is_empty());
    assert_eq!(kinds(&of_scrub(&scrub(5, 0))), [("scrub.found", Severity::Warning)]);
    assert_eq!(kinds(&of_scrub(&scrub(5, 1))), [("scrub.found", Severity::Critical)]);
}

#[test]
fn a_map_close_to_its_limit_is_an_alert() {
    let severity = |map_pages| {
        let found = of_map(&SpaceReport { map_pages, map_pages_max: 1000, ..SpaceReport::default() });
        found.get("space.map").map(|condition| condition.severity)
    };
    assert_eq!(severity(799), None);
    assert_eq!(severity(800), Some(Severity::Warning));
    assert_eq!(severity(1000), Some(Severity::Critical));
    assert!(of_map(&SpaceReport::default()).is_empty());
}

#[test]
fn a_pool_that_is_nearly_full_is_found_whoever_fills_it() {
    let pool = |stored, available| ObjectPool {
        name: "rbd".into(),
        stored: Some(stored),
        available: Some(available),
        ..ObjectPool::default()
    };
    let found = |pool: ObjectPool| {
        let objects = ObjectStore { pools: vec![pool], ..ObjectStore::default() };
        let status = PoolStatus {
            tolerates: 2,
            failures_to_tolerate: 2,
            objects: Some(objects),
            ..PoolStatus::default()
        };
        of_drives(&status)
    };
    assert!(found(pool(79, 21)).is_empty());
    assert!(found(pool(0, 0)).is_empty() && found(ObjectPool::default()).is_empty());
    assert_eq!(kinds(&found(pool(80, 20))), [("store.near-full", Severity::Warning)]);
    assert_eq!(kinds(&found(pool(90, 10))), [("store.near-full", Severity::Critical)]);
    assert_eq!(kinds(&found(pool(u64::MAX, 0))), [("store.near-full", Severity::Critical)]);
}

#[test]
fn a_portal_that_can_not_listen_is_a_warning_and_critical_if_no_other_one_listens() {
    let down = [("10.0.0.1:3260".parse().expect("an address"), "no such address".to_owned())];
    let severity = |all| of_portals(&down, all)["portal.down/10.0.0.1:3260"].severity;
    assert_eq!((severity(2), severity(1)), (Severity::Warning, Severity::Critical));
    let message = &of_portals(&down, 2)["portal.down/10.0.0.1:3260"].message;
    assert!(message.contains("10.0.0.1:3260 can't listen (no such address)"), "{message}");
    assert!(of_portals(&[], 2).is_empty());
}

#[test]
fn a_drive_that_hosts_wait_for_is_an_alert_though_it_is_not_avoided() {
    let mut status = shelf(&[DriveState::Online; 4], 2);
    assert!(of_drives(&status).is_empty());
    status.drives[1].lags = true;
    let found = of_drives(&status);
    assert_eq!(kinds(&found), [("drive.slow", Severity::Warning)]);
    assert!(found.values().all(|it| it.message.contains("hosts wait for it")));
    status.drives[1].slow = true;
    assert_eq!(of_drives(&status).len(), 1, "it is one alert");
}

#[test]
fn a_shortage_of_sessions_is_known_before_log_ins_are_refused() {
    assert!(of_sessions(799, 1000).is_empty());
    assert_eq!(kinds(&of_sessions(800, 1000)), [("host.sessions", Severity::Warning)]);
    assert_eq!(kinds(&of_sessions(1000, 1000)), [("host.sessions", Severity::Critical)]);
    assert!(of_sessions(0, 0).is_empty());
}
