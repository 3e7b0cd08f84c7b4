#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;

fn event(time: u64, severity: Severity) -> NewEvent {
    let (kind, message) = ("volume.created".into(), "volume \"db1\" was created".into());
    NewEvent { time, severity, kind, message, noun: Some("volume".into()), name: Some("db1".into()) }
}

#[test]
fn events_are_listed_newest_first_in_pages() {
    let store = Store::in_memory();
    for time in 0..10 {
        let severity = if time % 2 == 0 { Severity::Info } else { Severity::Warning };
        store.add_event(&event(time, severity)).unwrap();
    }
    let times = |page: Page, minimum| -> Vec<u64> {
        store.events(&page, minimum).unwrap().into_iter().map(|it| it.event.time).collect()
    };
    let page = Page { before: None, limit: 3 };
    assert_eq!(times(page.clone(), Severity::Info), [9, 8, 7]);
    assert_eq!(times(page.clone(), Severity::Warning), [9, 7, 5]);
    let last = store.events(&page, Severity::Info).unwrap().pop().unwrap();
    assert_eq!(last.event, event(7, Severity::Warning));
    assert_eq!(times(Page { before: Some(last.id), limit: 2 }, Severity::Info), [6, 5]);
}

#[test]
fn an_audit_entry_is_stored_before_its_outcome_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let attempt = Attempt {
        time: 7,
        user: "ada".into(),
        origin: "10.0.0.7".into(),
        action: "CreateVolume".into(),
        detail: "{}".into(),
    };
    let store = Store::open(&path);
    let (first, second, _) = (
        store.begin_audit(&attempt).unwrap(),
        store.begin_audit(&attempt).unwrap(),
        store.begin_audit(&attempt).unwrap(),
    );
    store.end_audit(first, None, "[1]").unwrap();
    store.end_audit(second, Some("taken"), "[]").unwrap();
    drop(store);
    let store = Store::open(&path);
    let all = store.audits(&Page { before: None, limit: 10 }).unwrap();
    let outcomes: Vec<_> = all.iter().map(|it| (it.outcome.as_str(), it.message.as_str())).collect();
    assert_eq!(outcomes, [("interrupted", ""), ("refused", "taken"), ("done", "")]);
    assert_eq!(all[2].attempt, attempt);
    assert_eq!(all[2].changes, "[1]");
}

#[test]
fn the_oldest_events_are_deleted() {
    let store = Store::in_memory();
    for time in 0..(MAX_ENTRIES as u64 + 2000) {
        store.add_event(&event(time, Severity::Info)).unwrap();
    }
    let count: i64 = store.db().query_row("SELECT count(*) FROM event", [], |row| row.get(0)).unwrap();
    assert_eq!(count, MAX_ENTRIES);
}
