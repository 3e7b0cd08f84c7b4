use super::*;

/// Maximum number of blocks, and the time that each takes.
const MOST: usize = 4096;
const BLOCK_NS: u64 = 10_000;

const SECOND: u64 = 1_000_000_000;

/// Hosts with a constant number of outstanding commands.
#[derive(Clone, Copy)]
struct Hosts {
    depth: u64,
    alone_ns: u64,
    /// Factor of their additional latency at the maximum number of outstanding blocks.
    slowdown: f64,
    writes: bool,
}

struct Array {
    throttle: HostThrottle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    now: u64,
    hosts: Option<Hosts>,
    io: HostIo,
    under_way: usize,
    /// Fraction of a command.
    part: f64,
}

impl Array {
    fn now_ns(&self) -> u64 {
        self.state.lock().now
    }

    fn host_io(&self) -> HostIo {
        self.state.lock().io
    }

    fn new(hosts: Option<Hosts>) -> Self {
        Self { throttle: HostThrottle::default(), state: Mutex::new(State { hosts, ..State::default() }) }
    }

    /// Advances the time during a transfer with these outstanding blocks.
    fn pass(&self, ns: u64, under_way: usize) {
        let mut state = self.state.lock();
        state.now += ns;
        state.under_way = under_way;
        let Some(hosts) = state.hosts else { return };
        let latency = hosts.alone_ns as f64 * (1.0 + hosts.slowdown * under_way as f64 / MOST as f64);
        state.part += ns as f64 * hosts.depth as f64 / latency;
        let count = state.part as u64;
        state.part -= count as f64;
        let done = Commands { count, ns: (count as f64 * latency) as u64 };
        let io = &mut state.io;
        let kind = if hosts.writes { &mut io.writes } else { &mut io.reads };
        *kind = kind.plus(done);
    }

    /// Transfers for some seconds. Returns the number of blocks in the last `counted` seconds, and the mean host
    /// latency in them.
    fn transfer(&self, seconds: u64, counted: u64) -> (u64, u64) {
        let begun = self.now_ns();
        let (mut blocks, mut counted_from, mut busy) = (0, None, 0);
        while self.now_ns() < begun + seconds * SECOND {
            if counted_from.is_none() && self.now_ns() >= begun + (seconds - counted) * SECOND {
                (blocks, counted_from) = (0, Some(self.host_io()));
            }
            let from = self.now_ns();
            loop {
                let (now, io) = (self.now_ns(), self.host_io());
                match self.throttle.wait_ns(now, now - from, busy, || io) {
                    0 => break,
                    wait => self.pass(wait.min(MAX_WAIT_NS), 0),
                }
            }
            let part = self.throttle.blocks(MOST);
            busy = part as u64 * BLOCK_NS;
            self.pass(busy, part);
            blocks += part as u64;
        }
        let done = self.host_io().since(counted_from.unwrap_or_default());
        let all = done.reads.plus(done.writes);
        (blocks, all.ns / all.count.max(1))
    }

    fn set_hosts(&self, hosts: Option<Hosts>) {
        self.state.lock().hosts = hosts;
    }
}

const FULL: u64 = SECOND / BLOCK_NS;

fn hosts(depth: u64, alone_us: u64, slowdown: f64) -> Hosts {
    Hosts { depth, alone_ns: alone_us * 1000, slowdown, writes: true }
}

#[test]
fn beside_idle_hosts_a_transfer_goes_at_full_speed() {
    assert!(Array::new(None).transfer(10, 10).0 >= 10 * FULL);
    // Two commands per second.
    let (blocks, _) = Array::new(Some(hosts(1, 500_000, 0.0))).transfer(60, 40);
    assert!(blocks >= 40 * FULL * 3 / 4, "{blocks} blocks of {}", 40 * FULL);
}

#[test]
fn hosts_that_a_transfer_disturbs_keep_about_the_latency_that_they_have_without_it() {
    for (depth, alone_us, slowdown) in [(4, 500, 12.0), (32, 3000, 12.0), (1, 300, 100.0), (128, 200, 3.0)] {
        let array = Array::new(Some(hosts(depth, alone_us, slowdown)));
        let (blocks, latency) = array.transfer(60, 40);
        assert!(latency <= alone_us * 1300, "{latency} ns instead of {alone_us} us, slowdown {slowdown}");
        assert!(blocks >= 40 * FULL / 100, "{blocks} blocks of {}", 40 * FULL);
    }
}

#[test]
fn a_transfer_begins_with_little_under_way_until_something_is_known_of_hosts() {
    let array = Array::new(None);
    let begin = || {
        let waits = array.throttle.wait_ns(array.now_ns(), 0, 0, || array.host_io());
        assert_eq!((waits, array.throttle.blocks(MOST)), (0, MIN_BLOCKS));
    };
    begin();
    array.transfer(1, 1);
    assert_eq!(array.throttle.blocks(MOST), MOST, "hosts do nothing");
    // A time without transfers.
    array.pass(60 * SECOND, 0);
    begin();
    array.set_hosts(Some(hosts(4, 500, 0.05)));
    array.transfer(10, 1);
    assert_eq!(array.throttle.blocks(MOST), MOST, "it disturbs no host");
    array.pass(60 * SECOND, 0);
    begin();
}

#[test]
fn a_transfer_that_disturbs_nobody_goes_on_nearly_as_fast_as_alone() {
    for slowdown in [0.0, 0.05] {
        let (blocks, _) = Array::new(Some(hosts(16, 1000, slowdown))).transfer(60, 40);
        assert!(blocks >= 40 * FULL * 3 / 4, "{blocks} blocks of {}", 40 * FULL);
    }
}

#[test]
fn a_transfer_is_known_to_be_slowed_down_while_it_is_and_only_beside_active_hosts() {
    let array = Array::new(None);
    let is_slowing = || array.throttle.is_slowing(array.now_ns());
    assert!(!is_slowing(), "there is no transfer");
    array.transfer(5, 1);
    assert!(!is_slowing(), "hosts do nothing");
    array.set_hosts(Some(hosts(4, 500, 0.0)));
    array.transfer(40, 1);
    assert!(!is_slowing(), "it disturbs no host");
    array.set_hosts(Some(hosts(4, 500, 50.0)));
    array.transfer(40, 1);
    assert!(is_slowing());
    array.pass(60 * SECOND, 0);
    assert!(!is_slowing(), "the transfer has ended");
    array.transfer(40, 1);
    assert!(is_slowing());
    array.set_hosts(None);
    array.transfer(20, 1);
    assert!(!is_slowing(), "hosts have stopped");
}

#[test]
fn hosts_that_wait_for_other_reasons_do_not_stop_a_transfer() {
    // Even the minimum disturbs hosts.
    let array = Array::new(Some(hosts(4, 500, 1e6)));
    let (blocks, _) = array.transfer(60, 40);
    assert!(blocks >= 40 * FULL / 40, "{blocks} blocks of {}", 40 * FULL);
}

#[test]
fn a_load_of_longer_commands_is_not_taken_for_disturbance_for_long() {
    let array = Array::new(Some(hosts(4, 300, 0.0)));
    array.transfer(30, 10);
    array.set_hosts(Some(hosts(4, 9000, 0.0)));
    let (blocks, _) = array.transfer(60, 20);
    assert!(blocks >= 20 * FULL * 3 / 4, "{blocks} blocks of {}", 20 * FULL);
    // Reads replace writes.
    array.set_hosts(Some(Hosts { writes: false, ..hosts(8, 100, 40.0) }));
    let (_, latency) = array.transfer(60, 20);
    assert!(latency <= 150_000, "{latency} ns instead of 100 us");
}

#[test]
fn a_transfer_goes_at_full_speed_soon_after_hosts_have_stopped_and_slows_down_after_they_have_begun() {
    let array = Array::new(Some(hosts(4, 500, 50.0)));
    let (slow, _) = array.transfer(40, 20);
    array.set_hosts(None);
    let (fast, _) = array.transfer(20, 5);
    assert!(fast >= 5 * FULL * 19 / 20 && slow < 20 * FULL / 4, "{slow} in 20 s, then {fast} in 5 s");
    array.set_hosts(Some(hosts(4, 500, 50.0)));
    let (_, latency) = array.transfer(40, 20);
    assert!(latency <= 650_000, "{latency} ns instead of 500 us");
}

#[test]
fn hosts_that_hardly_get_through_are_not_taken_for_idle_ones() {
    // Two commands a second during the transfer, forty without.
    let array = Array::new(Some(hosts(4, 100_000, 20.0)));
    let (_, latency) = array.transfer(120, 60);
    assert!(latency <= 140_000_000, "{latency} ns instead of 100 ms");
}
