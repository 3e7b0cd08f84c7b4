//! Snapshots of a volume under writes, and restores, in wall-clock time on files, with little and with much data.

use crate::data::{BLOCK, Content, Maker};
use crate::rig::{cpu_us, write};
use crate::rows::{Bound, DEPTH, Measure, Row, measure, median, row, shuffled};
use crate::shards::{Files, shelf, sleep_on};
use block::{Disk, DiskId, Geometry};
use engine::{Engine, Options, Volume};
use raid::device::Ring;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// All measurements.
pub const ALL: &[Measure] = &[measure("snapshots under load", compare)];

/// MiB of the smaller volume, all of them written.
const MIB: u64 = 32;

const TIMES: u128 = 200;

/// Durations of an operation: wall-clock time in ms, and processor time of the calling thread in µs.
#[derive(Default)]
struct Times {
    ms: Vec<f64>,
    us: Vec<f64>,
}

impl Times {
    fn take<T>(&mut self, work: impl FnOnce() -> block::Result<T>) {
        let (start, us) = (Instant::now(), cpu_us());
        drop(work().expect("the volume is there"));
        self.us.push(cpu_us() - us);
        self.ms.push(start.elapsed().as_secs_f64() * 1e3);
    }

    /// 99th percentile, median and maximum in ms.
    fn spread(&self) -> [f64; 3] {
        let mut ms = self.ms.clone();
        ms.sort_by(f64::total_cmp);
        [ms.len() * 99 / 100, ms.len() / 2, ms.len() - 1].map(|at| ms[at])
    }
}

fn overwrite(volume: &Volume, maker: &mut Maker, blocks: impl Iterator<Item = u64>) {
    let running: Vec<_> = blocks.map(|block| volume.execute(write(block, maker.next(1)))).collect();
    running.into_iter().for_each(|one| drop(sleep_on(one).expect("the write succeeds")));
}

/// Snapshots and restores, in turn, of a volume of `mib` MiB.
fn times(mib: u64) -> [Times; 2] {
    let (files, ring) = (Files::new("snapshots"), Ring::start().expect("io_uring"));
    let engine = sleep_on(Engine::open(shelf(&ring, &files.0, "drive"), Options::new([7; 32])));
    let engine = engine.expect("a new array");
    let background = engine.background();
    let background = thread::spawn(move || sleep_on(background));
    let (id, blocks) = (DiskId(1), (mib << 20) / BLOCK as u64);
    let geometry = Geometry { block_bytes: BLOCK as u32, blocks };
    let volume = sleep_on(engine.create_volume(id, geometry, 0)).expect("a new volume");
    let mut maker = Maker::new(Content::Half);
    for first in (0..blocks).step_by(DEPTH) {
        overwrite(&volume, &mut maker, first..first + DEPTH as u64);
    }
    let ended = AtomicBool::new(false);
    let [mut made, mut restored] = [Times::default(), Times::default()];
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut order = shuffled(40, u64::MAX).map(|n| n % blocks);
            while !ended.load(Ordering::Relaxed) {
                overwrite(&volume, &mut maker, order.by_ref().take(DEPTH));
            }
        });
        for snapshot in (2..2 + TIMES).map(DiskId) {
            made.take(|| sleep_on(engine.snapshot(&[(id, snapshot)], &[], 0, 0)));
            restored.take(|| sleep_on(engine.restore_volume(id, snapshot)));
        }
        ended.store(true, Ordering::Relaxed);
    });
    sleep_on(engine.shutdown()).expect("the last checkpoint");
    background.join().expect("the background");
    [made, restored]
}

/// Wall-clock times are reported, but not checked by `--check`. The effect of ten times the data is measured in processor
/// time.
fn compare(name: &str) -> Vec<Row> {
    let (little, much) = (times(MIB), times(10 * MIB));
    let mut rows = Vec::new();
    for ((what, little), much) in ["create", "restore"].iter().zip(&little).zip(&much) {
        let [nearly_all, half, all] = much.spread();
        let mut clock = row(&format!("{name}: {what}, 99 of 100"), Bound::None, nearly_all, "ms");
        clock.note = format!(
            "aim < 5; {TIMES} of a volume of {} MiB that is written to {DEPTH} at a time, on files; median {half:.2}, \
             longest {all:.2}; of {MIB} MiB {}",
            10 * MIB,
            little.spread().map(|ms| format!("{ms:.2}")).join(", ")
        );
        let [from, to] = [little, much].map(|times| median(times.us.clone()));
        let what = format!("{name}: {what} with ten times the data");
        let mut cost = row(&what, Bound::AtMost(2.0), to / from, "×");
        cost.note = format!("{from:.1} and {to:.1} µs of processor time, medians");
        rows.extend([clock, cost]);
    }
    rows
}
