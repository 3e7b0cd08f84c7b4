use super::*;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Wake;

/// A clock that stands until it is set; it counts the waits that were begun.
#[derive(Default)]
struct Hand {
    now: AtomicU64,
    sleeps: AtomicUsize,
}

impl Clock for Hand {
    fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn sleep_until(&self, _: u64) -> Sleep {
        self.sleeps.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

/// Counts wake-ups.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

const MILLI: u64 = 1_000_000;
const ONE: Cost = Cost { operations: 1, bytes: 0 };

struct Bench {
    clock: Arc<Hand>,
    limiter: Arc<RateLimiter>,
}

fn operations(per_second: u64, burst: u64) -> QosLimits {
    QosLimits { operations: Some(Rate { per_second, burst }), bytes: None }
}

fn bench(limits: QosLimits) -> Bench {
    let clock = Arc::new(Hand::default());
    clock.now.store(1_000_000 * MILLI, Ordering::SeqCst);
    Bench { limiter: RateLimiter::new(clock.clone(), limits), clock }
}

impl Bench {
    fn pass(&self, millis: u64) {
        self.clock.now.fetch_add(millis * MILLI, Ordering::SeqCst);
    }

    fn begin(&self, initiator: &str, cost: Cost) -> Option<Admission> {
        Admission::request(std::iter::once((self.limiter.clone(), cost)).collect(), initiator)
    }

    /// How many of so many commands need not wait.
    fn free(&self, count: usize) -> usize {
        (0..count).filter(|_| self.begin("a", ONE).is_none()).count()
    }
}

fn poll(admission: &mut Admission) -> bool {
    admission.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_burst_is_free_and_then_time_fills_the_bucket() {
    let bench = bench(operations(100, 10));
    assert_eq!(bench.free(50), 11, "the burst, and one when nothing is owed");
    bench.pass(10);
    assert_eq!(bench.free(50), 1);
    bench.pass(50);
    assert_eq!(bench.free(50), 5);
    bench.pass(60_000);
    assert_eq!(bench.free(50), 11, "a long pause gives no more than the burst");
}

#[test]
fn a_command_larger_than_the_burst_is_admitted_and_delays_later_ones() {
    let bench = bench(QosLimits { operations: None, bytes: Some(Rate { per_second: 1 << 20, burst: 4096 }) });
    let large = Cost { operations: 1, bytes: 1 << 20 };
    assert!(bench.begin("a", large).is_none());
    bench.pass(900);
    assert!(bench.begin("a", Cost { operations: 1, bytes: 512 }).is_some());
    bench.pass(100);
    assert!(bench.begin("a", large).is_none());
}

#[test]
fn those_that_wait_go_on_in_order_and_lose_no_time() {
    let bench = bench(operations(1000, 1));
    bench.free(2);
    let mut waiting: Vec<Admission> = (0..10).map(|_| bench.begin("a", ONE).expect("a wait")).collect();
    assert_eq!(waiting.iter_mut().map(poll).filter(|done| *done).count(), 0);
    assert!(bench.begin("a", ONE).is_some(), "nobody overtakes those who wait");
    // The timer was late by some milliseconds.
    bench.pass(4);
    let done: Vec<bool> = waiting.iter_mut().map(poll).collect();
    assert_eq!(done, [true, true, true, true, false, false, false, false, false, false]);
    bench.pass(6);
    assert!(waiting.iter_mut().skip(4).all(poll));
}

#[test]
fn one_waiting_command_owns_the_timer_and_its_successor_is_woken() {
    let bench = bench(operations(10, 1));
    bench.free(2);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut waiting: Vec<Admission> = (0..100).map(|_| bench.begin("a", ONE).expect("a wait")).collect();
    for admission in &mut waiting {
        assert!(admission.poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(bench.clock.sleeps.load(Ordering::SeqCst), 1);
    // The one with the timer is aborted.
    drop(waiting.remove(0));
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert!(waiting[0].poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(bench.clock.sleeps.load(Ordering::SeqCst), 2);
    // Once it conforms it is admitted, and the next one is woken to take the timer.
    bench.pass(100);
    assert!(poll(&mut waiting[0]));
    drop(waiting.remove(0));
    assert_eq!(wakes.0.load(Ordering::SeqCst), 3, "the admitted one, and the next");
    drop(waiting);
    bench.pass(100);
    assert!(bench.begin("a", ONE).is_none(), "nothing of those that left stays");
}

#[test]
fn initiators_share_by_what_they_cost() {
    let bench = bench(QosLimits { operations: None, bytes: Some(Rate { per_second: 1000, burst: 0 }) });
    drop(bench.begin("a", Cost { operations: 1, bytes: 1 }));
    let cost = |bytes| Cost { operations: 1, bytes };
    let mut small: Vec<_> = (0..400).filter_map(|_| bench.begin("small", cost(10))).collect();
    let mut large: Vec<_> = (0..40).filter_map(|_| bench.begin("large", cost(100))).collect();
    let (mut smalls, mut larges) = (0, 0);
    for _ in 0..400 {
        small.retain_mut(|admission| !poll(admission));
        large.retain_mut(|admission| !poll(admission));
        bench.pass(10);
    }
    smalls += 400 - small.len();
    larges += 40 - large.len();
    let (one, other) = (smalls * 10, larges * 100);
    assert!((3900..=4100).contains(&(one + other)), "{one} and {other} bytes in four seconds");
    assert!(one.abs_diff(other) <= 100, "{one} and {other} bytes");
}

/// What one command of an initiator that keeps so many on their way does.
struct Slot {
    initiator: usize,
    /// Its way here and back, when it does not wait.
    ready: u64,
    waits: Option<Admission>,
    woken: Arc<Wakes>,
}

/// Commands that initiators got done in a second: names, how many each has on their way, and the microseconds that one
/// takes beside what it waits. The timers of the machine are a millisecond apart.
fn race(per_second: u64, initiators: &[(&str, usize, u64)]) -> Vec<u64> {
    const STEP: u64 = 10_000;
    let bench = bench(operations(per_second, 1));
    let begun = bench.clock.now();
    let slot = |initiator| Slot { initiator, ready: begun, waits: None, woken: Arc::default() };
    let mut slots: Vec<Slot> = initiators
        .iter()
        .enumerate()
        .flat_map(|(index, (_, depth, _))| (0..*depth).map(move |_| index))
        .map(slot)
        .collect();
    let mut done = vec![0; initiators.len()];
    for step in 0..100_000 {
        let now = bench.clock.now.fetch_add(STEP, Ordering::SeqCst) + STEP;
        for slot in &mut slots {
            let (name, _, takes) = initiators[slot.initiator];
            let woken = slot.woken.0.swap(0, Ordering::SeqCst) > 0;
            let through = match &mut slot.waits {
                None if slot.ready > now => continue,
                None => {
                    slot.waits = bench.begin(name, ONE);
                    let waker = Waker::from(slot.woken.clone());
                    slot.waits
                        .as_mut()
                        .is_none_or(|admission| admission.poll(&mut Context::from_waker(&waker)).is_ready())
                }
                Some(admission) if woken || step % 100 == 0 => {
                    let waker = Waker::from(slot.woken.clone());
                    admission.poll(&mut Context::from_waker(&waker)).is_ready()
                }
                Some(_) => continue,
            };
            if through {
                (slot.waits, slot.ready) = (None, now + takes * 1000);
                done[slot.initiator] += 1;
            }
        }
    }
    done
}

#[test]
fn a_shallow_queue_gets_as_much_as_a_deep_one() {
    for (limit, few, takes) in
        [(500, 1, 200), (1000, 1, 200), (5000, 2, 100), (5000, 4, 300), (20_000, 4, 100)]
    {
        let done = race(limit, &[("many", 32, takes), ("few", few, takes)]);
        let all = done.iter().sum::<u64>();
        assert!(all.abs_diff(limit) <= limit / 50, "{limit} IOPS let {all} through");
        let part = done[1] as f64 / all as f64;
        assert!((0.45..=0.55).contains(&part), "{few} at a time beside 32 had {done:?} of {limit}");
    }
}

#[test]
fn unused_share_goes_to_the_other_initiator() {
    let done = race(2000, &[("many", 32, 200), ("slow", 1, 5000)]);
    assert!(done.iter().sum::<u64>() >= 1960, "{done:?}");
    assert!(
        (140..=200).contains(&done[1]),
        "{done:?}: a command of 5 ms waits little, as its initiator had least"
    );
}

#[test]
fn other_limits_hold_at_once_for_those_that_wait() {
    let bench = bench(operations(1, 1));
    bench.free(2);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut waiting: Vec<Admission> = (0..3).map(|_| bench.begin("a", ONE).expect("a wait")).collect();
    waiting
        .iter_mut()
        .for_each(|admission| assert!(admission.poll(&mut Context::from_waker(&waker)).is_pending()));
    bench.limiter.set(QosLimits::default());
    assert!(wakes.0.load(Ordering::SeqCst) > 0);
    assert!(waiting.iter_mut().all(poll));
    bench.limiter.set(operations(10, 1));
    assert_eq!(bench.free(5), 1);
}

#[test]
fn commands_that_must_not_wait_delay_others() {
    let bench = bench(operations(10, 1));
    bench.free(2);
    let charges: Charges = std::iter::once((bench.limiter.clone(), ONE)).collect();
    Admission::count(&charges);
    bench.pass(100);
    assert!(bench.begin("a", ONE).is_some());
    bench.pass(100);
    assert!(bench.begin("a", ONE).is_none());
}

#[test]
fn each_level_of_the_unmap_throttle_halves_what_goes() {
    assert!(unmap_limits(0).is_none());
    let rate = |level| unmap_limits(level).bytes.expect("a limit").per_second;
    assert_eq!((rate(9), rate(10)), (384 << 20, 384 << 20));
    assert!((1..9).all(|level| rate(level) == 2 * rate(level + 1)));
}
