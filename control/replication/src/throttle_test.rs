use super::*;

/// Counts bytes; returns their wait.
fn wait_of(throttle: &Throttle, now: u64, bytes: usize) -> u64 {
    let place = throttle.count(now, bytes);
    throttle.wait_ns(now, place)
}

/// Sends pieces as soon as the throttle allows; returns the bytes of one second after the first.
fn sent_in(throttle: &Throttle, seconds: u64, piece: usize) -> u64 {
    let (mut now, mut sent) = (1_000_000_000, 0);
    while now < (1 + seconds) * 1_000_000_000 {
        now += wait_of(throttle, now, piece);
        sent += piece as u64;
    }
    sent
}

#[test]
fn the_limit_is_exact_within_five_percent() {
    for limit in [200_000, 1_000_000, 125_000_000] {
        for piece in [100, 4096, 65_536] {
            let sent = sent_in(&Throttle::new(limit), 10, piece);
            let wanted = limit * 10;
            assert!(sent.abs_diff(wanted) <= wanted / 20 + piece as u64, "{sent} of {wanted} in {piece}");
        }
    }
}

#[test]
fn without_a_limit_nothing_waits_and_a_limit_holds_once_it_is_set() {
    let throttle = Throttle::default();
    assert_eq!(wait_of(&throttle, 5, usize::MAX), 0);
    throttle.set(1000);
    assert_eq!(wait_of(&throttle, 5, 1000), 0);
    assert_eq!(wait_of(&throttle, 5, 1), 1_000_000_000);
    // Idle time earns no credit.
    assert_eq!(wait_of(&throttle, 100_000_000_000, 1000), 0);
    assert_eq!(wait_of(&throttle, 100_000_000_000, 1), 950_000_000);
    throttle.set(0);
    assert_eq!(wait_of(&throttle, 5, 1000), 0);
}

#[test]
fn a_limit_that_is_changed_holds_for_what_waits() {
    const SECOND: u64 = 1_000_000_000;
    let throttle = Throttle::new(1000);
    throttle.count(SECOND, 10_050);
    let waiting = throttle.count(SECOND, 1000);
    let after = throttle.count(SECOND, 1);
    assert_eq!([waiting, after].map(|place| throttle.wait_ns(SECOND, place)), [10 * SECOND, 11 * SECOND]);
    // Ten times the rate, then a tenth: bytes admitted since count.
    throttle.set(10_000);
    assert_eq!([waiting, after].map(|place| throttle.wait_ns(SECOND, place)), [SECOND, SECOND + SECOND / 10]);
    assert_eq!(throttle.wait_ns(SECOND + SECOND / 2, waiting), SECOND / 2);
    throttle.set(100);
    assert_eq!(throttle.wait_ns(SECOND + SECOND / 2, waiting), 50 * SECOND);
    throttle.set(0);
    assert_eq!(throttle.wait_ns(SECOND + SECOND / 2, after), 0);
}
