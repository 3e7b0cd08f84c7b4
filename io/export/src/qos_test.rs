use super::*;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Wake;

/// A clock that tests advance; it counts the timers that were set.
#[derive(Default)]
struct ManualClock {
    now: AtomicU64,
    sleeps: AtomicUsize,
}

impl Clock for ManualClock {
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
    clock: Arc<ManualClock>,
    limiter: Arc<RateLimiter>,
}

fn operations(per_second: u64, burst: u64) -> QosLimits {
    QosLimits { operations: Some(Rate { per_second, burst }), bytes: None }
}

fn bench(limits: QosLimits) -> Bench {
    let clock = Arc::new(ManualClock::default());
    clock.now.store(1_000_000 * MILLI, Ordering::SeqCst);
    Bench { limiter: RateLimiter::new(clock.clone(), limits), clock }
}

impl Bench {
    fn advance(&self, millis: u64) {
        self.clock.now.fetch_add(millis * MILLI, Ordering::SeqCst);
    }

    fn request(&self, initiator: &str, cost: Cost) -> Option<Admission> {
        Admission::request(std::iter::once((self.limiter.clone(), cost)).collect(), initiator)
    }

    /// Number of commands out of `count` that are admitted without a wait.
    fn admitted(&self, count: usize) -> usize {
        (0..count).filter(|_| self.request("a", ONE).is_none()).count()
    }
}

fn poll(admission: &mut Admission) -> bool {
    admission.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_burst_is_admitted_and_the_bucket_refills_with_time() {
    let bench = bench(operations(100, 10));
    assert_eq!(bench.admitted(50), 11, "the burst, and one command at a full bucket");
    bench.advance(10);
    assert_eq!(bench.admitted(50), 1);
    bench.advance(50);
    assert_eq!(bench.admitted(50), 5);
    bench.advance(60_000);
    assert_eq!(bench.admitted(50), 11, "a long pause accumulates no more than the burst");
}

#[test]
fn a_command_larger_than_the_burst_is_admitted_and_delays_later_ones() {
    let bench = bench(QosLimits { operations: None, bytes: Some(Rate { per_second: 1 << 20, burst: 4096 }) });
    let large = Cost { operations: 1, bytes: 1 << 20 };
    assert!(bench.request("a", large).is_none());
    bench.advance(900);
    assert!(bench.request("a", Cost { operations: 1, bytes: 512 }).is_some());
    bench.advance(100);
    assert!(bench.request("a", large).is_none());
}

#[test]
fn waiting_commands_are_admitted_in_order_and_a_late_timer_loses_no_time() {
    let bench = bench(operations(1000, 1));
    bench.admitted(2);
    let mut waiting: Vec<Admission> = (0..10).map(|_| bench.request("a", ONE).expect("a wait")).collect();
    assert_eq!(waiting.iter_mut().map(poll).filter(|done| *done).count(), 0);
    assert!(bench.request("a", ONE).is_some(), "a new command does not overtake waiting ones");
    // The timer was late by some milliseconds.
    bench.advance(4);
    let done: Vec<bool> = waiting.iter_mut().map(poll).collect();
    assert_eq!(done, [true, true, true, true, false, false, false, false, false, false]);
    bench.advance(6);
    assert!(waiting.iter_mut().skip(4).all(poll));
}

#[test]
fn one_waiting_command_owns_the_timer_and_its_successor_is_woken() {
    let bench = bench(operations(10, 1));
    bench.admitted(2);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut waiting: Vec<Admission> = (0..100).map(|_| bench.request("a", ONE).expect("a wait")).collect();
    for admission in &mut waiting {
        assert!(admission.poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(bench.clock.sleeps.load(Ordering::SeqCst), 1);
    // The command that owns the timer is aborted.
    drop(waiting.remove(0));
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert!(waiting[0].poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(bench.clock.sleeps.load(Ordering::SeqCst), 2);
    // Once a command conforms it is admitted, and the next one is woken to take the timer.
    bench.advance(100);
    assert!(poll(&mut waiting[0]));
    drop(waiting.remove(0));
    assert_eq!(wakes.0.load(Ordering::SeqCst), 3, "the admitted one, and the next");
    drop(waiting);
    bench.advance(100);
    assert!(bench.request("a", ONE).is_none(), "cancelled commands leave nothing in the limiter");
}

#[test]
fn initiators_share_the_rate_by_cost() {
    let bench = bench(QosLimits { operations: None, bytes: Some(Rate { per_second: 1000, burst: 0 }) });
    drop(bench.request("a", Cost { operations: 1, bytes: 1 }));
    let cost = |bytes| Cost { operations: 1, bytes };
    let mut small: Vec<_> = (0..400).filter_map(|_| bench.request("small", cost(10))).collect();
    let mut large: Vec<_> = (0..40).filter_map(|_| bench.request("large", cost(100))).collect();
    let (mut smalls, mut larges) = (0, 0);
    for _ in 0..400 {
        small.retain_mut(|admission| !poll(admission));
        large.retain_mut(|admission| !poll(admission));
        bench.advance(10);
    }
    smalls += 400 - small.len();
    larges += 40 - large.len();
    let (one, other) = (smalls * 10, larges * 100);
    assert!((3900..=4100).contains(&(one + other)), "{one} and {other} bytes in four seconds");
    assert!(one.abs_diff(other) <= 100, "{one} and {other} bytes");
}

/// One of the outstanding commands of an initiator, which keeps its queue depth constant.
struct Slot {
    initiator: usize,
    /// Arrival time of its next command, if none waits.
    next_arrival: u64,
    waits: Option<Admission>,
    woken: Arc<Wakes>,
}

/// Number of commands that each initiator completes in a second. `initiators` has names, queue depths, and microseconds
/// of latency without the wait. The timers of the machine have a resolution of a millisecond.
fn completed_per_second(per_second: u64, initiators: &[(&str, usize, u64)]) -> Vec<u64> {
    const STEP: u64 = 10_000;
    let bench = bench(operations(per_second, 1));
    let begun = bench.clock.now();
    let slot = |initiator| Slot { initiator, next_arrival: begun, waits: None, woken: Arc::default() };
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
            let (name, _, latency_us) = initiators[slot.initiator];
            let woken = slot.woken.0.swap(0, Ordering::SeqCst) > 0;
            let admitted = match &mut slot.waits {
                None if slot.next_arrival > now => continue,
                None => {
                    slot.waits = bench.request(name, ONE);
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
            if admitted {
                (slot.waits, slot.next_arrival) = (None, now + latency_us * 1000);
                done[slot.initiator] += 1;
            }
        }
    }
    done
}

#[test]
fn a_shallow_queue_gets_as_much_as_a_deep_one() {
    for (limit, few, latency_us) in
        [(500, 1, 200), (1000, 1, 200), (5000, 2, 100), (5000, 4, 300), (20_000, 4, 100)]
    {
        let done = completed_per_second(limit, &[("many", 32, latency_us), ("few", few, latency_us)]);
        let all = done.iter().sum::<u64>();
        assert!(all.abs_diff(limit) <= limit / 50, "{limit} IOPS admitted {all}");
        let share = done[1] as f64 / all as f64;
        assert!((0.45..=0.55).contains(&share), "queue depths of 32 and {few} got {done:?} of {limit}");
    }
}

#[test]
fn unused_share_goes_to_the_other_initiator() {
    let done = completed_per_second(2000, &[("many", 32, 200), ("slow", 1, 5000)]);
    assert!(done.iter().sum::<u64>() >= 1960, "{done:?}");
    assert!(
        (140..=200).contains(&done[1]),
        "{done:?}: a command of 5 ms waits little because its initiator received the least service"
    );
}

#[test]
fn changed_limits_apply_to_waiting_commands() {
    let bench = bench(operations(1, 1));
    bench.admitted(2);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut waiting: Vec<Admission> = (0..3).map(|_| bench.request("a", ONE).expect("a wait")).collect();
    waiting
        .iter_mut()
        .for_each(|admission| assert!(admission.poll(&mut Context::from_waker(&waker)).is_pending()));
    bench.limiter.set(QosLimits::default());
    assert!(wakes.0.load(Ordering::SeqCst) > 0);
    assert!(waiting.iter_mut().all(poll));
    bench.limiter.set(operations(10, 1));
    assert_eq!(bench.admitted(5), 1);
}

#[test]
fn commands_that_must_not_wait_delay_others() {
    let bench = bench(operations(10, 1));
    bench.admitted(2);
    let charges: Charges = std::iter::once((bench.limiter.clone(), ONE)).collect();
    Admission::count(&charges);
    bench.advance(100);
    assert!(bench.request("a", ONE).is_some());
    bench.advance(100);
    assert!(bench.request("a", ONE).is_none());
}

#[test]
fn each_level_of_the_unmap_throttle_halves_the_rate() {
    assert!(unmap_limits(0).is_none());
    let rate = |level| unmap_limits(level).bytes.expect("a limit").per_second;
    assert_eq!((rate(9), rate(10)), (384 << 20, 384 << 20));
    assert!((1..9).all(|level| rate(level) == 2 * rate(level + 1)));
}
