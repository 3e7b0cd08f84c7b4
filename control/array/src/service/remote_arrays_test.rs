use super::*;
use crate::parts::env::Uptime;
use history::Store;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

fn links() -> (Links, Arc<AtomicU64>) {
    let (clock, random) = (Arc::new(AtomicU64::new(1000)), AtomicU64::new(1));
    let (now, up) = (clock.clone(), clock.clone());
    let env = Arc::new(Env {
        random: Box::new(move || random.fetch_add(1, Ordering::SeqCst).into()),
        now: Box::new(move || UNIX_EPOCH + Duration::from_secs(now.load(Ordering::SeqCst))),
        uptime: Box::new(move || Uptime { boot: 1, since: Duration::from_secs(up.load(Ordering::SeqCst)) }),
        system: Box::new(Vec::new),
    });
    let bus = Arc::new(EventBus::new(env.clone(), Arc::new(Store::in_memory())));
    (Links::new(env, bus), clock)
}

fn remote(address: Option<&str>) -> RemoteArrayEntry {
    RemoteArrayEntry {
        id: RemoteArrayId(5),
        name: "dr".into(),
        created: 1,
        serial: "0123".into(),
        bandwidth_limit: None,
        bandwidth_windows: Vec::new(),
        address: address.map(str::to_owned),
        fingerprint: String::new(),
        secret: records::Sealed::of_text("AAAA".into()),
    }
}

#[test]
fn a_pairing_key_is_used_once_and_within_an_hour() {
    let (links, clock) = links();
    let (key, other) = (links.new_key(), links.new_key());
    let find = |key: &Key| links.find_key(|known| known == &key[..]);
    assert_eq!(find(&key), Some(key.clone()));
    assert!(links.use_up(&key));
    assert!(!links.use_up(&key), "it was used twice");
    assert_eq!(find(&key), None);
    clock.fetch_add(PAIRING_KEY_SECONDS - 1, Ordering::SeqCst);
    assert!(find(&other).is_some());
    clock.fetch_add(1, Ordering::SeqCst);
    assert_eq!(find(&other), None);
    let first = links.new_key();
    (0..MAX_PAIRING_KEYS).for_each(|_| drop(links.new_key()));
    assert_eq!(find(&first), None, "there are more keys than can be counted");
}

#[test]
fn an_alert_needs_failures_one_after_the_other_or_a_minute_of_silence() {
    let (links, clock) = links();
    let mut config = Config::default();
    let entry = remote(Some("10.0.0.2:8444"));
    config.remote_arrays.put(entry.clone());
    for failures in 1..=MIN_FAILURES {
        links.note_failure(&entry, "no route".into());
        assert_eq!(links.conditions(&config).len(), usize::from(failures == MIN_FAILURES));
    }
    let condition = links.conditions(&config).into_values().next().unwrap();
    assert!(condition.message.contains("no route"), "{}", condition.message);
    links.note_heard(&entry, Some(77));
    assert!(links.conditions(&config).is_empty());
    assert_eq!(links.status(&entry).rtt_us, Some(77));
    links.note_failure(&entry, "no route".into());
    assert!(links.conditions(&config).is_empty());

    let silent = remote(None);
    config.remote_arrays.put(silent.clone());
    links.note_heard(&silent, None);
    clock.fetch_add(MAX_SILENCE_SECONDS, Ordering::SeqCst);
    assert_eq!(links.status(&silent).state, LinkState::Connected);
    clock.fetch_add(1, Ordering::SeqCst);
    assert_eq!(links.status(&silent).state, LinkState::Disconnected);
    assert_eq!(links.conditions(&config).len(), 1);
}
