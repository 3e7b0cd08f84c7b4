use super::*;

/// Sends pieces as soon as the throttle allows; returns the bytes of one second after the first.
fn sent_in(throttle: &Throttle, seconds: u64, piece: usize) -> u64 {
    let (mut now, mut sent) = (1_000_000_000, 0);
    while now < (1 + seconds) * 1_000_000_000 {
        now += throttle.wait_ns(now, piece);
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
    assert_eq!(throttle.wait_ns(5, usize::MAX), 0);
    throttle.set(1000);
    assert_eq!(throttle.wait_ns(0, 1000), 0);
    assert_eq!(throttle.wait_ns(0, 1), 1_000_000_000);
    // A time without traffic is not made up for.
    assert_eq!(throttle.wait_ns(100_000_000_000, 1000), 0);
    assert_eq!(throttle.wait_ns(100_000_000_000, 1), 950_000_000);
    throttle.set(0);
    assert_eq!(throttle.wait_ns(0, 1000), 0);
}
