//! An ideal array in virtual time: every command takes a fixed time, with a limit on concurrency. Its effect on a host
//! can be calculated, so it checks the host model: [`calibrate`].

use crate::host::world::{Access, Job, Mix, Mover, Transfers, World};
use crate::host::{Content, Host, Kind, Outcome, Policy, Settings, Tag, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An array with a fixed service time and a maximum number of concurrent commands.
#[derive(Clone, Copy, Debug)]
pub struct Ideal {
    /// Duration of each command.
    pub service: Time,
    /// Concurrent commands; further ones wait in the array. 0 for no limit.
    pub at_once: usize,
    /// Duration per MiB of commands without data transfer.
    pub offload_per_mib: Time,
}

/// Runs a host against this array until a time, or until every world has finished.
pub fn run(host: &mut Host, ideal: Ideal, end: Time) {
    let mut free: BinaryHeap<Reverse<Time>> = (0..ideal.at_once).map(|_| Reverse(0)).collect();
    let mut answers: BinaryHeap<Reverse<(Time, Tag)>> = BinaryHeap::new();
    let mut out = Vec::new();
    while !host.is_finished() {
        let answer = answers.peek().map(|Reverse((time, _))| *time);
        let Some(now) = answer.into_iter().chain(host.next_event()).min().filter(|now| *now <= end) else {
            break;
        };
        if answer == Some(now) {
            if let Some(Reverse((_, tag))) = answers.pop() {
                host.answered(now, tag, Outcome::Good(Vec::new()));
            }
        } else {
            host.advance(now, &mut out);
        }
        for send in out.drain(..) {
            let begins = free.pop().map_or(now, |Reverse(time)| time.max(now));
            let offloaded = !send.command.kind.moves_data() && !matches!(send.command.kind, Kind::Ats { .. });
            let extra = if offloaded { ideal.offload_per_mib * (send.command.bytes >> 20) } else { 0 };
            let ends = begins + ideal.service + extra;
            if ideal.at_once > 0 {
                free.push(Reverse(ends));
            }
            answers.push(Reverse((ends, send.tag)));
        }
    }
    if !host.is_finished() {
        host.advance(end, &mut out);
    }
}

/// A check of the calibration: found and expected value.
#[derive(Clone, Debug)]
pub struct Check {
    /// Name of the check.
    pub name: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Calculated.
    pub expected: f64,
    /// Found.
    pub found: f64,
}

impl Check {
    /// Relative deviation of the model.
    pub fn deviation(&self) -> f64 {
        (self.found - self.expected) / self.expected
    }

    /// True if the deviation exceeds [`TOLERANCE`], or is not a number.
    pub fn misses(&self) -> bool {
        self.deviation().is_nan() || self.deviation().abs() > TOLERANCE
    }
}

/// Maximum accepted deviation.
pub const TOLERANCE: f64 = 0.05;

const MS: Time = 1_000_000;
const SECOND: Time = 1_000 * MS;

fn machine(disk: usize, outstanding: u32, bytes: u64, read: u64) -> Box<dyn World> {
    let access = Access { bytes, read, random: 100, weight: 1 };
    Box::new(Mix::new(disk, 0..1 << 30, outstanding, vec![access], Content::Half))
}

fn load(settings: Settings, ideal: Ideal, worlds: Vec<Box<dyn World>>) -> Host {
    let mut host = Host::new(settings, 4, worlds, 1);
    run(&mut host, ideal, 5 * SECOND);
    host
}

/// Tests every limit of the host, with the resulting rate or time.
pub fn calibrate() -> Vec<Check> {
    let mut checks = queues();
    checks.extend(links());
    checks.extend(offloads());
    checks
}

fn queues() -> Vec<Check> {
    let half = Ideal { service: MS / 2, at_once: 0, offload_per_mib: 0 };
    let settings = Settings { outstanding: 32, hba_depth: 64, ..Settings::default() };
    let rate = |name, expected, found: &Host| Check {
        name,
        unit: "commands/s",
        expected,
        found: found.figures().rate(),
    };
    let one = load(settings, half, vec![machine(0, 1, 4096, 100)]);
    let alone = load(settings, half, vec![machine(0, 256, 4096, 50)]);
    let two = load(settings, half, vec![machine(0, 256, 4096, 50), machine(0, 256, 4096, 50)]);
    let wide = Settings { outstanding: 256, hba_depth: 400, ..settings };
    let two_wide = load(wide, half, vec![machine(0, 128, 4096, 50), machine(0, 128, 4096, 50)]);
    let trip = load(Settings { round_trip: MS / 2, ..settings }, half, vec![machine(0, 16, 4096, 50)]);
    let few = load(wide, Ideal { at_once: 8, ..half }, vec![machine(0, 64, 4096, 50)]);
    let slow = load(Settings { coalescing: MS, ..wide }, half, vec![machine(0, 64, 4096, 100)]);
    let disks = load(settings, half, (0..4).map(|disk| machine(disk, 64, 4096, 70)).collect());
    let gavg = |name, expected, found: &Host| Check {
        name,
        unit: "ms",
        expected,
        found: found.figures().sum().gavg(),
    };
    vec![
        rate("one command at a time", 2_000.0, &one),
        rate("one world: the adapter's depth", 64.0 / 0.0005, &alone),
        rate("two worlds on a disk: outstanding with competing worlds", 32.0 / 0.0005, &two),
        gavg("the same: GAVG by Little's law", 512.0 / (32.0 / 0.5), &two),
        Check { name: "the same: QUED", unit: "commands", expected: 480.0, found: two.figures().queued() },
        Check { name: "the same: ACTV", unit: "commands", expected: 32.0, found: two.figures().active() },
        rate("two worlds, 256 outstanding", 256.0 / 0.0005, &two_wide),
        rate("a round trip on top", 16.0 / 0.001, &trip),
        rate("an array that does 8 at once", 8.0 / 0.0005, &few),
        rate("interrupts collected for 1 ms", 64.0 / 0.0015, &slow),
        rate("four disks", 4.0 * 64.0 / 0.0005, &disks),
    ]
}

fn links() -> Vec<Check> {
    let quick = Ideal { service: MS / 5, at_once: 0, offload_per_mib: 0 };
    // 64 KiB at 100 MB/s take 0.655 ms.
    let settings =
        Settings { link: 100_000_000, paths: 2, hba_depth: 64, outstanding: 64, ..Settings::default() };
    let robin = Settings { policy: Policy::RoundRobin, switch_every: 1, ..settings };
    let reads = |settings| load(settings, quick, vec![machine(0, 64, 65536, 100)]);
    let both = load(settings, quick, vec![machine(0, 64, 65536, 50), machine(0, 64, 65536, 50)]);
    let of_link = 100_000_000.0 / 65536.0;
    let rate = |name, expected, found: &Host| Check {
        name,
        unit: "commands/s",
        expected,
        found: found.figures().rate(),
    };
    vec![
        rate("a fixed path: its link", of_link, &reads(settings)),
        rate("round robin: both links", 2.0 * of_link, &reads(robin)),
        rate("reads and writes: both directions", 2.0 * of_link, &both),
    ]
}

fn offloads() -> Vec<Check> {
    let ideal = Ideal { service: MS, at_once: 0, offload_per_mib: MS / 4 };
    let gib = 1 << 30;
    let copy = Job::Copy { from: 0, from_at: 0, to: 1, to_at: 0, bytes: gib };
    let zero = Job::Zero { disk: 2, at: 0, bytes: gib };
    let time = |name, expected, job: Job, transfers: Transfers| {
        let mover: Vec<Box<dyn World>> = vec![Box::new(Mover::new([job], transfers))];
        let mut host = Host::new(Settings { hba_depth: 256, ..Settings::default() }, 4, mover, 1);
        run(&mut host, ideal, 1000 * SECOND);
        Check { name, unit: "s", expected, found: host.figures().now() as f64 / 1e9 }
    };
    let (by_array, by_host) = (Transfers::default(), Transfers { offload: false, ..Transfers::default() });
    let larger = Transfers { copy: 16 << 20, ..by_array };
    vec![
        time("1 GiB by EXTENDED COPY of 4 MiB", 256.0 / 8.0 * 0.002, copy, by_array),
        time("1 GiB by EXTENDED COPY of 16 MiB", 64.0 / 8.0 * 0.005, copy, larger),
        time("1 GiB read and written by the host", 2.0 * 16384.0 / 8.0 * 0.001, copy, by_host),
        time("1 GiB by WRITE SAME of 1 MiB", 1024.0 / 8.0 * 0.00125, zero, by_array),
        time("1 GiB of zeros written by the host", 16384.0 / 8.0 * 0.001, zero, by_host),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_or_too_far_off_is_a_miss() {
        let check = |found| Check { name: "", unit: "", expected: 100.0, found };
        assert!(![95.5, 100.0, 104.5].iter().any(|found| check(*found).misses()));
        assert!([94.0, 106.0, 0.0, f64::NAN].iter().all(|found| check(*found).misses()));
    }

    #[test]
    fn the_host_does_what_was_calculated() {
        for check in calibrate() {
            assert!(!check.misses(), "{check:?}");
        }
    }
}
