use super::*;

#[test]
fn readers_see_whole_changes() {
    let shared = ShardedLock::new((0u64, 0u64));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let mut pair = shared.write();
                    pair.0 += 1;
                    pair.1 += 1;
                }
            });
        }
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while last < 40_000 {
                    let pair = shared.read();
                    assert_eq!(pair.0, pair.1);
                    assert!(pair.0 >= last);
                    last = pair.0;
                }
            });
        }
    });
    assert_eq!(*shared.read(), (40_000, 40_000));
}

#[test]
fn a_writer_waits_for_a_reader_that_takes_its_time() {
    let (shared, begun) = (ShardedLock::new(0), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        let reading = shared.read();
        let writer = scope.spawn(|| {
            begun.wait();
            *shared.write() += 1;
        });
        begun.wait();
        // Whether the writer sleeps by now or not, it has not written.
        for _ in 0..1000 {
            assert_eq!(*reading, 0);
            std::thread::yield_now();
        }
        drop(reading);
        writer.join().unwrap();
    });
    assert_eq!(*shared.read(), 1);
}

#[test]
fn several_read_at_the_same_time() {
    let shared = ShardedLock::new(7);
    let (one, two) = (shared.read(), shared.read());
    assert_eq!(*one + *two, 14);
    drop((one, two));
    *shared.write() = 8;
    assert_eq!(*shared.read(), 8);
}

#[test]
fn writers_are_timed_once_that_is_asked_for() {
    static CLOCK: AtomicU64 = AtomicU64::new(0);
    fn now() -> u64 {
        CLOCK.load(Ordering::Relaxed)
    }
    let shared = ShardedLock::new(0);
    let hold = |ns| {
        let _held = shared.write();
        CLOCK.fetch_add(ns, Ordering::Relaxed);
    };
    hold(5);
    assert_eq!(shared.held(), Held::default());
    shared.time_writers(now);
    hold(7);
    let reading = shared.read();
    CLOCK.fetch_add(9, Ordering::Relaxed);
    drop(reading);
    let before = shared.held();
    hold(30);
    assert_eq!((before, shared.held() - before), (Held { times: 1, ns: 7 }, Held { times: 1, ns: 30 }));
}
