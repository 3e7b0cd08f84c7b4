//! Threads beside each other, and the way to a device: what one thread with drives in memory can't show.

use crate::data::{BLOCK, Content, Maker};
use crate::rig::{Rig, Shape, cpu_us, write};
use crate::rows::{Bound, GIB, Measure, Row, measure, read, row, shuffled};
use block::{Disk, DiskId, Geometry, Op};
use bytes::Bytes;
use engine::{Engine, Options, Volume};
use shelf::device::{self, Ring};
use shelf::{AlignedBuf, Drive, DriveShelf, FormatOptions, Shelf, Sizes, wait};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::Barrier;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

/// Everything there is to measure.
pub const ALL: &[Measure] = &[
    measure("two shards on two cores, 4K random reads", |name| scaling(name, false)),
    measure("two shards on two cores, 4K random writes", |name| scaling(name, true)),
    measure("an acknowledged 4K write over the raw journal write", latency),
];

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread, which sleeps meanwhile.
fn sleep_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// What a shard did: processor time of each operation in µs, and how often its thread had to wait for another.
#[derive(Clone, Copy, Default)]
struct Cost {
    us: f64,
    switches: f64,
}

/// Times that this thread gave up its processor to wait.
fn switches() -> u64 {
    // SAFETY: the call fills in the structure that it is given, which is plain data.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nvcsw as u64
    }
}

const COUNT: u64 = 1 << 17;
const DEPTH: usize = 32;

/// A shard's operations, 32 asked for before the first is waited for.
fn shard(volume: &Volume, writes: bool, start: &Barrier) -> Cost {
    let mut maker = Maker::new(Content::Half);
    start.wait();
    let (us, before) = (cpu_us(), switches());
    let mut blocks = shuffled(13, 1 << 13).cycle();
    for _ in 0..COUNT / DEPTH as u64 {
        let ops = blocks.by_ref().take(DEPTH);
        let ops = ops.map(|block| if writes { write(block, maker.next(1)) } else { read(block, 1) });
        let running: Vec<_> = ops.map(|op| volume.execute(op)).collect();
        running.into_iter().for_each(|one| drop(sleep_on(one).expect("the operation succeeds")));
    }
    Cost { us: (cpu_us() - us) / COUNT as f64, switches: (switches() - before) as f64 / COUNT as f64 }
}

/// So many shards at once, each with a volume of its own, and the background on one more thread.
fn shards(count: usize, writes: bool) -> Cost {
    let mut rig = Rig::new(Shape::new(512));
    let volumes: Vec<_> = (0..count as u128).map(|number| rig.volume(1 + number, GIB)).collect();
    let mut maker = Maker::new(Content::Half);
    for volume in &volumes {
        rig.perform(&**volume, DEPTH, shuffled(13, 1 << 13).map(|block| write(block, maker.next(1))));
    }
    rig.settle();
    let start = Barrier::new(count);
    let engine = rig.engine.clone();
    let background = rig.into_background();
    let costs: Vec<Cost> = std::thread::scope(|scope| {
        let background = scope.spawn(move || sleep_on(background));
        let threads: Vec<_> =
            volumes.iter().map(|volume| scope.spawn(|| shard(volume, writes, &start))).collect();
        let costs = threads.into_iter().map(|thread| thread.join().expect("a shard")).collect();
        sleep_on(engine.shutdown()).expect("the last checkpoint");
        background.join().expect("the background");
        costs
    });
    let mean = |value: fn(&Cost) -> f64| costs.iter().map(value).sum::<f64>() / count as f64;
    Cost { us: mean(|cost| cost.us), switches: mean(|cost| cost.switches) }
}

/// By processor time: a shard that waits for another's lock spins or sleeps, and both show.
fn scaling(name: &str, writes: bool) -> Vec<Row> {
    let middle = |count| {
        let mut runs: Vec<Cost> = (0..5).map(|_| shards(count, writes)).collect();
        runs.sort_by(|a, b| a.us.total_cmp(&b.us));
        runs[2]
    };
    let (one, two) = (middle(1), middle(2));
    let mut row = row(name, Bound::AtLeast(1.8), 2.0 * one.us / two.us, "×");
    row.note = format!(
        "{:.2} and {:.2} µs of the shard's thread; it waited {:.1} and {:.1} times in 1,000 operations",
        one.us,
        two.us,
        one.switches * 1e3,
        two.switches * 1e3
    );
    vec![row]
}

const DRIVES: usize = 4;

/// Files that go with this.
struct Files(PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn drive(ring: &Arc<Ring>, folder: &Path, name: &str) -> Arc<dyn Drive> {
    let path = folder.join(name);
    device::create(&path, 256 << 20).expect("a file");
    device::open(ring, &path).expect("a drive")
}

fn shelf(ring: &Arc<Ring>, folder: &Path, name: &str) -> Arc<DriveShelf> {
    let drives = (0..DRIVES).map(|number| drive(ring, folder, &format!("{name}{number}"))).collect();
    let sizes = Sizes { journal_bytes: Some(32 << 20), ..Sizes::default() };
    let options = FormatOptions { array: 1, force: true, sizes, ..FormatOptions::default() };
    sleep_on(DriveShelf::format(drives, options)).expect("blank drives")
}

/// One at a time on files: by the clock, so that only the ratios mean something.
fn latency(name: &str) -> Vec<Row> {
    const ROUNDS: u64 = 400;
    let folder = std::env::temp_dir().join(format!("ashlar-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the drives");
    let files = Files(folder);
    let ring = Ring::start().expect("io_uring");
    let raw = drive(&ring, &files.0, "raw");
    let journal = shelf(&ring, &files.0, "journal");
    let engine = sleep_on(Engine::open(shelf(&ring, &files.0, "engine"), Options::new([7; 32])));
    let engine = engine.expect("a new array");
    let geometry = Geometry { block_bytes: 4096, blocks: GIB / BLOCK as u64 };
    let volume = sleep_on(engine.create_volume(DiskId(1), geometry, 0)).expect("a new volume");
    let mut maker = Maker::new(Content::Random);
    let page = Arc::new(AlignedBuf::zeroed(BLOCK)).share(0..BLOCK);
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut time = |kind: usize, what: &mut dyn FnMut()| {
        let start = Instant::now();
        what();
        times[kind].push(start.elapsed().as_secs_f64() * 1e6);
    };
    // As the journal's place, it has its blocks of the file system already.
    for place in 0..64 {
        let (done, answer) = wait();
        raw.write(place * 2 * BLOCK as u64, vec![page.clone(), page.clone()], true, done);
        sleep_on(answer).expect("written");
    }
    for round in 0..ROUNDS {
        time(0, &mut || {
            let (done, answer) = wait();
            raw.write(round % 64 * 2 * BLOCK as u64, vec![page.clone(), page.clone()], true, done);
            sleep_on(answer).expect("written");
        });
        time(1, &mut || {
            let (done, answer) = wait();
            journal.append(Bytes::from(vec![7; 64]), vec![page.clone()], done);
            sleep_on(answer).expect("written");
        });
        let op = write(shuffled(18, round + 1).last().unwrap_or(0), maker.next(1));
        let mut op: Option<Op> = Some(op);
        time(2, &mut || {
            op.take().into_iter().for_each(|op| drop(sleep_on(volume.execute(op)).expect("written")));
        });
    }
    let [device, append, write] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    // By the clock: told, not held against anything by `--check`.
    let mut over = row(name, Bound::None, write / append, "×");
    over.note =
        format!("aim ≤ 1.3; {write:.0} µs over {append:.0} µs, medians of {ROUNDS}, one at a time, on files");
    let mut copies =
        row("the raw journal write over a durable write of one drive", Bound::None, append / device, "×");
    copies.note = format!("{append:.0} µs for three copies over {device:.0} µs for one, all on one disk");
    vec![over, copies]
}
