use super::*;
use crate::events::catalogue::{ALERTS, EVENTS, Kind};
use crate::parts::membership::{Phases, Takeover, TakeoverCause};
use crate::service::controllers::takeover_message;
use crate::service::health::of_health;
use crate::service::metering::PathUse;
use crate::service::scrub::result_message;
use crate::service::space::crossed_message;
use crate::shape::view::{Health, Verdict};
use history::{Cell, Event, Latencies, NewEvent, Sample, SpacePoint};
use records::Scrub;
use shelf::pool::{DriveState, DriveStatus, PoolStatus};

/// One message of every kind with generated values, which the extractors of the dashboards are tested with.
const MESSAGES: &str = "../../integrations/go/vsphere/logs/testdata/messages.txt";
const ARRAY: (&str, &str) = ("lab", "0123456789abcdef");
const NOW: u64 = 1_795_000_000;
const DAY: u64 = 86_400;

fn scrub() -> Scrub {
    Scrub { bytes: 4096, errors: 12, repaired: 10, lost: 2, ..Scrub::default() }
}

/// Conditions whose messages have values, from the rules that make them.
fn measured() -> Conditions {
    let drive = DriveStatus {
        slot: 3,
        name: Some("/dev/nvme3n1".into()),
        drive: 3,
        bytes: 1 << 30,
        used_bytes: 0,
        state: DriveState::Evacuating,
        journal: false,
        read_bytes: 0,
        written_bytes: 0,
        read_errors: 0,
        slow_reads: 0,
        bad_pages: 1,
        slow: true,
        lags: true,
        reduces_to: None,
    };
    let pool =
        PoolStatus { drives: vec![drive], tolerates: 2, failures_to_tolerate: 2, ..PoolStatus::default() };
    let cell = Cell { latency: Latencies::new([(1024, 1000)], 0), ..Cell::default() };
    let sample = Sample { cells: [((0, 12), cell)].into(), ..Sample::default() };
    let path = PathUse { host: "esx1".into(), initiator: "iqn.x:1".into(), portal: 1, sessions: 1, sample };
    let space = engine::SpaceReport { map_pages: 97, map_pages_max: 100, ..engine::SpaceReport::default() };
    let point =
        |day| SpacePoint { time: day * DAY, physical: day * 60, total: 1000, ..SpacePoint::default() };
    let past: Vec<_> = (0..15).map(point).collect();
    let replication = About { noun: "replication", name: "db", key: "1" };
    let mut all = Conditions::default();
    condition::add_missed_rpo(&mut all, replication, (60, 301), Severity::Critical, ": the link is down");
    let health = Health { verdict: Verdict::Failing, used_percent: Some(95), ..Health::default() };
    for found in [
        of_health(pool.drives.iter().map(|drive| (drive, health.clone()))),
        condition::of_drives(&pool),
        condition::of_paths(&[path], 2),
        condition::of_map(&space),
        condition::of_forecast(&past, &Conditions::default()),
        condition::of_scrub(&scrub()),
        condition::of_threshold(90, Severity::Critical),
        condition::of_certificate(NOW + 3 * DAY, NOW),
        condition::of_contradictions(&["a".into(), "b".into(), "c".into()]),
    ] {
        all.extend(found);
    }
    all
}

/// A condition of a kind that no rule made here: its text is the meaning, its object has an unusual name.
fn generated(kind: &Kind) -> Condition {
    Condition {
        kind: kind.id.into(),
        severity: Severity::Warning,
        message: format!("{} (größer)", kind.meaning),
        noun: Some(kind.id.split(['.', '-']).next().unwrap_or_default().into()),
        name: Some("a \"b\" [c] d\\e".into()),
    }
}

fn alert(number: i64, condition: Condition) -> String {
    let (key, acknowledged, closed) = (condition.kind.clone(), None, None);
    let alert = Alert { id: number, key, condition, opened: NOW, changed: NOW, acknowledged, closed };
    let (array, serial) = (ARRAY.0.to_owned(), ARRAY.1.to_owned());
    let change = Some(AlertChange::Opened);
    LogMessage::of(&Notification { array, serial, uptime: 7, change, alert }).line()
}

fn event(number: i64, kind: &Kind) -> String {
    let phases = Phases { silence: 1, agreement: 2, store: 3, recovery: 4, start: 5 };
    let takeover = Takeover { time: NOW, from: 1, cause: TakeoverCause::Lost, phases };
    let Condition { kind: id, severity, message, noun, name } = generated(kind);
    let message = match kind.id {
        "controller.takeover" => takeover_message(2, "server2", &takeover),
        "scrub.finished" => result_message(&scrub()),
        "space.threshold-crossed" => crossed_message(80, 4096),
        _ => message,
    };
    let event = NewEvent { time: NOW, severity, kind: id, message, noun, name };
    LogMessage::of_event(ARRAY, &Event { id: number, event }).line()
}

fn messages() -> String {
    let made = measured();
    let mut lines = Vec::new();
    for (number, kind) in (1..).zip(ALERTS) {
        let condition = made.values().find(|it| it.kind == kind.id).cloned();
        lines.push(alert(number, condition.unwrap_or_else(|| generated(kind))));
    }
    lines.extend((1..).zip(EVENTS).map(|(number, kind)| event(number, kind)));
    lines.join("\n") + "\n"
}

/// `ASHLAR_WRITE=1 cargo test -p array messages_of_every_kind` writes the file.
#[test]
fn messages_of_every_kind_are_those_that_the_dashboards_are_tested_with() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(MESSAGES);
    let made = messages();
    for kind in ALERTS.iter().chain(EVENTS) {
        assert!(made.contains(&format!(" ashlar - {} [", kind.id)), "{}", kind.id);
    }
    if std::env::var_os("ASHLAR_WRITE").is_some() {
        std::fs::write(&path, &made).expect("the file is written");
    }
    let kept = std::fs::read_to_string(&path).expect("the file of messages");
    assert_eq!(kept, made, "{} is out of date: ASHLAR_WRITE=1 writes it", path.display());
}
