use super::*;
use crate::service::login_queue::MAX_PENDING;

fn refused(initiator: &str, address: u8) -> LoginReport {
    LoginReport {
        what: What::Refused {
            cause: "unknown-initiator".into(),
            reason: "no host has this initiator name".into(),
        },
        initiator: Some(initiator.to_owned()),
        address: [10, 0, 0, address].into(),
        portal: 1,
        count: 1,
    }
}

#[test]
fn what_is_the_same_is_one_entry_with_a_count_and_entries_are_bounded() {
    let mut items = Vec::new();
    for number in 0..10_000 {
        let kept = merge(&mut items, refused(&format!("iqn.{}", number % 2000), 1));
        assert_eq!(kept, number % 2000 < MAX_PENDING);
    }
    assert_eq!((items.len(), items[0].count), (MAX_PENDING, 5));
}

#[test]
fn a_ration_is_a_burst_and_one_in_a_minute() {
    let mut budget = EventBudget { left: EVENTS_BURST, since: 1000 };
    let logged = |budget: &mut EventBudget, seconds: std::ops::Range<u64>| {
        seconds.filter(|now| budget.take(*now)).count()
    };
    assert_eq!(logged(&mut budget, 1000..1060), 10);
    assert_eq!(logged(&mut budget, 1060..1660), 10);
    assert_eq!(logged(&mut budget, 100_000..100_060), 10, "what was not logged is not saved up");
}

#[test]
fn made_up_names_do_not_push_out_what_happened_to_a_host() {
    let mut log = LoginLog::default();
    log.enter(&refused("iqn.host", 1), Some("esx1"), 5);
    for number in 0..1000 {
        log.enter(&refused(&format!("iqn.{number}"), 2), None, 10 + number);
    }
    log.enter(&refused("iqn.999", 2), None, 2000);
    assert_eq!(log.refused.len(), MAX_LISTED);
    assert_eq!(log.refused[0].host.as_deref(), Some("esx1"));
    let last = log.refused.last().unwrap();
    assert_eq!((last.count, last.first, last.last), (2, 1009, 2000));
}
