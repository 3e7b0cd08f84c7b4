#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use crate::{
    ALL, AlertState, Attempt, AuditId, Cell, Condition, ExpiringKind, Latencies, NewEvent, Page, Recorder,
    ReplicationPoint, Sample, Severity, SpacePoint,
};

/// Pseudo-random numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Content of the tables, as a copy must have it: numbers of subjects may differ.
fn dump(store: &Store, queries: &[&str]) -> Vec<String> {
    let db = store.db();
    let all = |query: &&str| {
        let mut statement = db.prepare(query).unwrap();
        let columns = statement.column_count();
        let of = |row: &Row<'_>| Ok(format!("{:?}", fields(row, columns)?));
        let rows: Vec<String> = statement.query_map([], of).unwrap().map(Result::unwrap).collect();
        rows
    };
    queries.iter().flat_map(all).collect()
}

const NUMBERED_ROWS: [&str; 4] = [
    "SELECT * FROM event ORDER BY id",
    "SELECT * FROM audit ORDER BY id",
    "SELECT * FROM alert ORDER BY id",
    "SELECT rowid, * FROM kept ORDER BY rowid",
];
const SERIES_ROWS: [&str; 3] = [
    "SELECT tier, time, key, body FROM sample JOIN subject ON subject = id ORDER BY tier, time, key",
    "SELECT * FROM space ORDER BY tier, time",
    "SELECT * FROM replicated ORDER BY tier, time, subject",
];

/// Compares two histories, and shows the first rows that differ.
fn assert_same(home: &Store, copy: &Store, queries: &[&str], about: &str) {
    for query in queries {
        let (home, copy) = (dump(home, &[query]), dump(copy, &[query]));
        if home == copy {
            continue;
        }
        let missing = home.iter().find(|row| !copy.contains(row));
        let surplus = copy.iter().find(|row| !home.contains(row));
        let short = |row: Option<&String>| row.map(|row| row.chars().take(300).collect::<String>());
        let differ = (short(missing), short(surplus));
        panic!("{about}: {query}: missing and surplus in the copy: {differ:?}");
    }
}

/// Encodes and decodes a value as for sending.
fn sent<T: Serialize + serde::de::DeserializeOwned>(it: &T) -> T {
    serde_json::from_slice(&serde_json::to_vec(it).unwrap()).unwrap()
}

/// A home, the copy of another controller, and the connection between them.
struct World {
    home: Store,
    copy: Store,
    copier: Option<Copier>,
    random: Random,
    now: u64,
    events: Vec<String>,
    audits: Vec<String>,
    open: Vec<AuditId>,
}

impl World {
    fn new(seed: u64) -> Self {
        let (home, copy) = (Store::in_memory(), Store::in_memory());
        let (events, audits, open) = Default::default();
        let random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        Self { home, copy, copier: None, random, now: 1_700_000_000, events, audits, open }
    }

    fn connect(&mut self) {
        let position = sent(&self.copy.position().unwrap());
        self.home.absorb(&position).unwrap();
        self.copier = Some(self.home.copier(&position).unwrap());
    }

    /// Sends one batch; false if there was nothing to send.
    fn send(&mut self) -> bool {
        let Some(copier) = &mut self.copier else { return false };
        let had_more = copier.has_more();
        let batch = copier.next_batch(&self.home).unwrap();
        assert!(had_more || batch.is_empty(), "what has nothing more sends nothing");
        self.copy.apply(&sent(&batch)).unwrap();
        !batch.is_empty()
    }

    fn record(&mut self) {
        let (now, number) = (self.now, self.random.below(20));
        self.now += self.random.below(4);
        let name = format!("{}-{}", self.events.len(), self.audits.len());
        match self.random.below(7) {
            0 | 1 => {
                let message = format!("event {name} {}", "x".repeat(self.random.below(3000) as usize));
                let (kind, noun) = ("volume.created".into(), Some("volume".into()));
                let event = NewEvent { time: now, severity: Severity::Info, kind, message, noun, name: None };
                self.home.add_event(&event).unwrap();
                self.events.push(event.message);
            }
            2 => {
                let (user, origin, action) = ("ada".into(), "local".into(), format!("audit {name}"));
                let attempt = Attempt { time: now, user, origin, action, detail: "{}".into() };
                self.open.push(self.home.begin_audit(&attempt).unwrap());
                self.audits.push(attempt.action);
            }
            3 => {
                if let Some(id) = self.open.pop() {
                    self.home.end_audit(id, (number < 5).then_some("no"), "[1]").unwrap();
                }
            }
            4 => {
                let severity = if number % 2 == 0 { Severity::Warning } else { Severity::Critical };
                let (kind, message) = ("space".into(), format!("{number} %"));
                let condition = Condition { kind, severity, message, noun: None, name: None };
                self.home.raise(now, &format!("key {}", number % 5), &condition).unwrap();
            }
            5 => {
                let alerts = self.home.alerts(false).unwrap();
                if let Some(alert) = alerts.first() {
                    assert_ne!(alert.state(), AlertState::Closed);
                    match number % 2 {
                        0 => drop(self.home.close(now, &alert.key).unwrap()),
                        _ => drop(self.home.acknowledge(now, alert.id, Some("ada")).unwrap()),
                    }
                }
            }
            _ => {
                let (key, until) = ([number as u8; 32], now + self.random.below(40));
                let kind = if number % 3 == 0 { ExpiringKind::Session } else { ExpiringKind::Reply };
                match number % 4 {
                    0 => self.home.remove_expiring(kind, &key).unwrap(),
                    _ => self.home.put_expiring(kind, &key, until, &format!("body {name}"), now).unwrap(),
                }
            }
        }
    }

    /// The home dies and the copy takes over; the former home is the copy afterwards.
    fn take_over(&mut self) {
        self.copier = None;
        self.open.clear();
        std::mem::swap(&mut self.home, &mut self.copy);
        self.home.leave_room().unwrap();
    }
}

/// After any sequence of records, batches, connection failures and takeovers, both have the same history, and no record
/// is missing.
#[test]
fn a_copy_becomes_what_its_home_is_and_nothing_is_lost_by_takeovers() {
    for seed in 0..12 {
        let mut world = World::new(seed);
        for _ in 0..600 {
            match world.random.below(40) {
                0 => world.connect(),
                1 => world.copier = None,
                2 if world.random.below(4) == 0 => {
                    // The unsent part before a takeover is bounded, as with a working link.
                    world.connect();
                    while world.send() {}
                    (0..world.random.below(90)).for_each(|_| world.record());
                    world.take_over();
                }
                3..12 => _ = world.send(),
                _ => world.record(),
            }
        }
        world.connect();
        while world.send() {}
        assert!(!world.copier.as_ref().unwrap().has_more());
        assert_same(&world.home, &world.copy, &NUMBERED_ROWS, &format!("seed {seed}"));
        let page = Page { before: None, limit: u32::MAX };
        let mut events: Vec<String> = world
            .home
            .events(&page, Severity::Info)
            .unwrap()
            .into_iter()
            .map(|it| it.event.message)
            .collect();
        let mut audits: Vec<String> =
            world.home.audits(&page).unwrap().into_iter().map(|it| it.attempt.action).collect();
        for (found, recorded) in [(&mut events, &mut world.events), (&mut audits, &mut world.audits)] {
            found.sort();
            recorded.sort();
            assert_eq!(found, recorded, "seed {seed}");
        }
    }
}

#[test]
fn a_copy_that_was_away_gets_the_time_series_that_it_lacks() {
    let mut world = World::new(7);
    let mut recorder = Recorder::open(&world.home, world.now).unwrap();
    let subjects = 300;
    for round in 0..20 {
        for _ in 0..12 {
            let now = world.now;
            let sample = |number: u64| {
                let latency = Latencies::new([(128 * (1 + number % 9), 1 + number)], number);
                let cells = BTreeMap::from([((1, 2), Cell { bytes: 4096 + number, failures: 0, latency })]);
                Sample { millis: 1000, cells, ..Sample::default() }
            };
            let busy = (0..world.random.below(subjects)).map(|it| (format!("volume {it}"), sample(it)));
            let all = [(ALL.to_owned(), sample(0))];
            recorder.add(&world.home, now, all.into_iter().chain(busy)).unwrap();
            if now.is_multiple_of(10) {
                world
                    .home
                    .add_space(&SpacePoint { time: now, mapped: now, ..SpacePoint::default() })
                    .unwrap();
            }
            let point = ReplicationPoint { time: now, seconds: 1, wire: now, ..ReplicationPoint::default() };
            world.home.add_replications(now, &[("a".into(), point)]).unwrap();
            world.now += 1;
            world.send();
        }
        match round % 10 {
            3 => world.copier = None,
            5 => world.connect(),
            // The oldest rows of a tier are deleted.
            7 => world.now += 4000,
            _ => {}
        }
    }
    recorder.flush(&world.home, world.now + 300).unwrap();
    world.connect();
    while world.send() {}
    assert_same(&world.home, &world.copy, &SERIES_ROWS, "series");
    // An array opened from the copy shows the same.
    let mut continued = Recorder::open(&world.copy, world.now).unwrap();
    continued.flush(&world.copy, world.now).unwrap();
}

#[test]
fn a_copier_that_lacks_too_many_changes_begins_again() {
    let mut world = World::new(3);
    world.connect();
    while world.send() {}
    let event = |number: u64| {
        let (kind, message) = ("a".into(), number.to_string());
        NewEvent { time: number, severity: Severity::Info, kind, message, noun: None, name: None }
    };
    for number in 0..10_050 {
        world.home.add_event(&event(number)).unwrap();
    }
    let again = world.copier.as_mut().unwrap().next_batch(&world.home);
    assert!(matches!(again, Err(CopyError::Again)), "{again:?}");
    world.connect();
    while world.send() {}
    assert_same(&world.home, &world.copy, &NUMBERED_ROWS, "after it began again");
}

#[test]
fn what_is_no_part_of_a_history_changes_nothing() {
    let store = Store::in_memory();
    let event = NewEvent {
        time: 1,
        severity: Severity::Info,
        kind: "a".into(),
        message: "b".into(),
        noun: None,
        name: None,
    };
    store.add_event(&event).unwrap();
    let before = dump(&store, &NUMBERED_ROWS);
    let row = |table: &str, columns: &[&str], row: Vec<Field>| Rows {
        columns: columns.iter().map(|it| (*it).to_owned()).collect(),
        rows: vec![row],
        ..Rows::of(table)
    };
    let bytes = Field::Bytes { base64: "%".into() };
    for wrong in [
        row("event", &["id", "time"], vec![Field::Integer(1)]),
        row("event", &["id", "message"], vec![Field::Integer(1), Field::Null(())]),
        row("kept", &["rowid", "kind", "key"], vec![Field::Integer(1), Field::Null(()), bytes]),
        row("sample", &["tier", "time", "key"], vec![Field::Integer(1); 3]),
    ] {
        // Earlier changes in the batch are undone as well.
        let deletes = Rows { deleted: vec![1], ..Rows::of("event") };
        let refused = store.apply(&Batch { tables: vec![deletes, wrong.clone()] });
        assert!(refused.is_err(), "{wrong:?}");
        assert_eq!(dump(&store, &NUMBERED_ROWS), before);
    }
    // Tables and columns of a newer release, and invalid column names.
    let newer = [
        row("forecast", &["id"], vec![Field::Integer(1)]),
        row("subject", &["id", "key"], vec![Field::Integer(1), Field::Text("x".into())]),
        row("sqlite_master", &["name"], vec![Field::Text("x".into())]),
        row("event", &["id) VALUES (1); DROP TABLE event; --"], vec![Field::Integer(1)]),
    ];
    store.apply(&Batch { tables: newer.to_vec() }).unwrap();
    assert_eq!(dump(&store, &NUMBERED_ROWS), before);
    let position =
        Position { tail: vec![row("alert", &["id"], vec![Field::Integer(1)])], ..Position::default() };
    assert!(store.absorb(&position).is_err());
    assert!(serde_json::from_str::<Batch>("{\"tables\":[{\"table\":1}]}").is_err());
}
