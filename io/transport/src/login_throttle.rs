//! Throttle for guessing of secrets: after several failed authentications, a host at an address must wait before it may
//! authenticate again.
//!
//! Failures count for the address and the entry of the host's access together. So no other address can keep a host from
//! logging in, and new credentials of the host on the array start from zero. A refused iSCSI initiator gets status 0301
//! (RFC 7143 clause 11.13.5), an NVMe host Controller Busy, after which both try again later.

use crate::address::counted_address;
use export::Clock;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Failed responses without a wait.
const FREE_FAILURES: u32 = 5;
/// Longest wait, reached after seven more failures.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Failures expire after this time without another.
const MEMORY: Duration = Duration::from_secs(600);
/// Maximum number of entries. Only hosts with access create entries, one for each address from which they fail.
const MAX_ENTRIES: usize = 1024;

/// An address and the number of an access table entry.
type Key = (IpAddr, u64);

/// Failures in a row.
#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    last: Duration,
}

impl Failures {
    fn wait(&self) -> Duration {
        match self.count.checked_sub(FREE_FAILURES) {
            None => Duration::ZERO,
            Some(more) => Duration::from_secs(1 << more.min(16)).min(MAX_WAIT),
        }
    }
}

/// Failures of all initiators.
pub struct LoginThrottle {
    failures: Mutex<BTreeMap<Key, Failures>>,
    clock: Arc<dyn Clock>,
}

impl LoginThrottle {
    /// A throttle without failures.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { failures: Mutex::default(), clock }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now())
    }
}

/// The throttle for logins from one address.
#[derive(Clone)]
pub struct LoginAttempts {
    throttle: Arc<LoginThrottle>,
    address: IpAddr,
}

impl LoginAttempts {
    /// Logins from this address.
    pub fn new(throttle: Arc<LoginThrottle>, address: IpAddr) -> Self {
        Self { throttle, address: counted_address(address) }
    }

    /// The address by which failures are counted.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Remaining wait of the holder of this access table entry; zero if it may authenticate now.
    pub fn wait(&self, admission: u64) -> Duration {
        let entries = self.throttle.failures.lock();
        let Some(failures) = entries.get(&(self.address, admission)) else { return Duration::ZERO };
        (failures.last + failures.wait()).saturating_sub(self.throttle.now())
    }

    /// Counts a failed authentication.
    pub fn failed(&self, admission: u64) {
        let now = self.throttle.now();
        let mut entries = self.throttle.failures.lock();
        entries.retain(|_, failures| now.saturating_sub(failures.last) < MEMORY);
        let entry = entries.entry((self.address, admission)).or_insert(Failures { count: 0, last: now });
        *entry = Failures { count: entry.count.saturating_add(1), last: now };
        if entries.len() > MAX_ENTRIES
            && let Some(oldest) =
                entries.iter().min_by_key(|(_, failures)| failures.last).map(|(key, _)| *key)
        {
            entries.remove(&oldest);
        }
    }

    /// Resets the failures after a successful authentication.
    pub fn succeeded(&self, admission: u64) {
        self.throttle.failures.lock().remove(&(self.address, admission));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[derive(Default)]
    struct TestClock(std::sync::atomic::AtomicU64);

    impl TestClock {
        fn advance(&self, seconds: u64) {
            self.0.fetch_add(seconds * 1_000_000_000, std::sync::atomic::Ordering::Relaxed);
        }
    }

    impl Clock for TestClock {
        fn now(&self) -> u64 {
            self.0.load(std::sync::atomic::Ordering::Relaxed)
        }

        fn sleep_until(&self, _: u64) -> export::Sleep {
            unreachable!("nothing waits here")
        }
    }

    /// A throttle, and its clock.
    fn throttle() -> (Arc<LoginThrottle>, Arc<TestClock>) {
        let clock = Arc::new(TestClock::default());
        (Arc::new(LoginThrottle::new(clock.clone())), clock)
    }

    fn at(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
    }

    #[test]
    fn waits_grow_to_a_minute_and_end_with_success_or_new_credentials() {
        let (throttle, clock) = throttle();
        let one = LoginAttempts::new(throttle.clone(), at(1));
        let other = LoginAttempts::new(throttle, at(2));
        let mut waits = Vec::new();
        for _ in 0..13 {
            one.failed(7);
            waits.push(one.wait(7).as_secs());
        }
        assert_eq!(waits, [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!((one.wait(8), other.wait(7)), (Duration::ZERO, Duration::ZERO));
        clock.advance(45);
        assert_eq!(one.wait(7).as_secs(), 15);
        clock.advance(15);
        assert_eq!(one.wait(7), Duration::ZERO);
        one.failed(7);
        assert_eq!(one.wait(7).as_secs(), 60);
        one.succeeded(7);
        one.failed(7);
        assert_eq!(one.wait(7), Duration::ZERO);
    }

    #[test]
    fn failures_are_forgotten_and_bounded_and_one_ipv6_network_is_one_address() {
        let (throttle, clock) = throttle();
        let address = |low| IpAddr::V6(Ipv6Addr::from(0x2001_0db8_0000_0001_0000_0000_0000_0000_u128 + low));
        let attempts = |low| LoginAttempts::new(throttle.clone(), address(low));
        (0..5).for_each(|low| attempts(low).failed(1));
        assert_eq!(attempts(9).wait(1).as_secs(), 1);
        clock.advance(MEMORY.as_secs());
        attempts(0).failed(1);
        assert_eq!(attempts(0).wait(1), Duration::ZERO);
        (0..2 * MAX_ENTRIES as u64).for_each(|admission| attempts(0).failed(admission));
        assert_eq!(throttle.failures.lock().len(), MAX_ENTRIES);
    }
}
