//! Scaling over threads, and the path to a device, which one thread with drives in memory can't show.

use crate::data::{BLOCK, Content, Maker};
use crate::rig::{Rig, Shape, cpu_us, own, write};
use crate::rows::{Bound, GIB, Measure, Row, measure, median, read, row, shuffled};
use block::{Disk, DiskId, Geometry, Op};
use bytes::Bytes;
use engine::{Engine, Held, Options, Volume};
use raid::device::{self, Ring};
use raid::{DriveShelf, FormatOptions, Sizes};
use shelf::{AlignedBuf, Drive, Shelf, wait};
use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Barrier, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

/// All measurements.
pub const ALL: &[Measure] = &[
    measure("two shards on two cores, 4K random reads", |name| scaling(name, false)),
    measure("two shards on two cores, 4K random writes", |name| scaling(name, true)),
    measure("state lock held for writing", held),
    measure("an acknowledged 4K write over the raw journal write", latency),
];

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread, which sleeps while the future waits.
pub fn sleep_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Cost of a shard: processor time per operation in µs, and context switches per operation.
#[derive(Clone, Copy, Default)]
struct Cost {
    us: f64,
    switches: f64,
}

/// Voluntary context switches of this thread.
fn switches() -> u64 {
    // SAFETY: the call fills in the structure that it is given, which is plain data.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nvcsw as u64
    }
}

/// Operations of a shard in a round: long enough that its beginning and end do not count.
const fn count(writes: bool) -> u64 {
    if writes { 1 << 17 } else { 1 << 20 }
}

const DEPTH: usize = 32;
const ROUNDS: usize = 15;

/// Performs a shard's operations at a queue depth of 32.
fn shard(volume: &Volume, writes: bool, start: &Barrier) -> Cost {
    let mut maker = Maker::new(Content::Half);
    start.wait();
    let (us, before) = (cpu_us(), switches());
    let mut blocks = shuffled(13, 1 << 13).cycle();
    let count = count(writes);
    for _ in 0..count / DEPTH as u64 {
        let ops = blocks.by_ref().take(DEPTH);
        let ops = ops.map(|block| if writes { write(block, maker.next(1)) } else { read(block, 1) });
        let running: Vec<_> = ops.map(|op| volume.execute(op)).collect();
        running.into_iter().for_each(|one| drop(sleep_on(one).expect("the operation succeeds")));
    }
    Cost { us: (cpu_us() - us) / count as f64, switches: (switches() - before) as f64 / count as f64 }
}

/// Cost of arithmetic: two of these share only the processors.
fn spin(start: &Barrier) -> Cost {
    start.wait();
    let us = cpu_us();
    let mut word = 1u64;
    for _ in 0..1 << 26 {
        word = std::hint::black_box(word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (word >> 29));
    }
    Cost { us: cpu_us() - us, switches: 0.0 }
}

/// Mean cost of these at the same time.
fn together<F: FnOnce(&Barrier) -> Cost + Send>(shards: Vec<F>) -> Cost {
    let (count, start) = (shards.len() as f64, Barrier::new(shards.len()));
    let costs: Vec<Cost> = std::thread::scope(|scope| {
        let start = &start;
        let threads: Vec<_> = shards.into_iter().map(|shard| scope.spawn(move || shard(start))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a shard")).collect()
    });
    let mean = |value: fn(&Cost) -> f64| costs.iter().map(value).sum::<f64>() / count;
    Cost { us: mean(|cost| cost.us), switches: mean(|cost| cost.switches) }
}

/// An engine with two volumes that have been written, and its background on a thread of its own.
struct Array {
    engine: Arc<Engine>,
    volumes: Vec<Arc<Volume>>,
    background: std::thread::JoinHandle<()>,
}

impl Array {
    fn new() -> Self {
        let mut rig = Rig::new(Shape::new(512));
        let volumes: Vec<_> = (1..3).map(|number| rig.volume(number, GIB)).collect();
        let mut maker = Maker::new(Content::Half);
        for volume in &volumes {
            rig.perform(&**volume, DEPTH, shuffled(13, 1 << 13).map(|block| write(block, maker.next(1))));
        }
        rig.settle();
        let engine = rig.engine.clone();
        let background = rig.into_background();
        Self { engine, volumes, background: std::thread::spawn(move || sleep_on(background)) }
    }

    fn end(self) {
        sleep_on(self.engine.shutdown()).expect("the last checkpoint");
        self.background.join().expect("the background");
    }
}

/// In processor time and context switches, which show waits for locks. One shard, two of one array, two of two arrays, and
/// two independent loops run alternately, so that other load of the machine affects all of them: the last two show the
/// machine's own limit.
fn scaling(name: &str, writes: bool) -> Vec<Row> {
    let (array, other) = (Array::new(), Array::new());
    let [one, two] = [0, 1].map(|index| array.volumes[index].clone());
    let separate = other.volumes[0].clone();
    let work = |volume: &Arc<Volume>| {
        let volume = volume.clone();
        move |start: &Barrier| shard(&volume, writes, start)
    };
    let mut rounds: Vec<[Cost; 5]> = Vec::new();
    for _ in 0..=ROUNDS {
        rounds.push([
            together(vec![work(&one)]),
            together(vec![work(&one), work(&two)]),
            together(vec![work(&one), work(&separate)]),
            together(vec![spin]),
            together(vec![spin, spin]),
        ]);
    }
    // The first round has cold caches.
    rounds.remove(0);
    let ratio = |alone: usize, both: usize| {
        median(rounds.iter().map(|round| 2.0 * round[alone].us / round[both].us).collect())
    };
    let us = |kind: usize| median(rounds.iter().map(|round| round[kind].us).collect());
    let waits = |kind: usize| median(rounds.iter().map(|round| round[kind].switches * 1e3).collect());
    let mut row = row(name, Bound::AtLeast(1.8), ratio(0, 1), "×");
    row.note = format!(
        "{:.2} and {:.2} µs of the shard's thread; it waited {:.1} and {:.1} times in 1,000 operations; two arrays {:.2} \
         ×, two loops that share nothing {:.2} ×",
        us(0),
        us(1),
        waits(0),
        waits(1),
        ratio(0, 2),
        ratio(3, 4)
    );
    array.end();
    other.end();
    vec![row]
}

/// Nanoseconds of a clock.
fn now_ns() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

/// How long one shard and the background hold the lock of the state for writing, for each operation: what more processors
/// than two would wait for.
fn held(name: &str) -> Vec<Row> {
    let array = Array::new();
    array.engine.time_state_lock(now_ns);
    let rows = [("4K random write", true), ("4K random read", false)].map(|(what, writes)| {
        let start = Barrier::new(1);
        let rounds: Vec<_> = (0..ROUNDS)
            .map(|_| {
                let before = array.engine.state_lock_held();
                shard(&array.volumes[0], writes, &start);
                array.engine.state_lock_held() - before
            })
            .collect();
        let each = |value: fn(&Held) -> u64| {
            median(rounds.iter().map(|held| value(held) as f64 / count(writes) as f64).collect())
        };
        let us = each(|held| held.ns) / 1e3;
        let mut row = row(&format!("{name}, {what}"), Bound::None, us, "µs");
        row.note =
            format!("by the clock, the background included; {:.3} times each", each(|held| held.times));
        row
    });
    array.end();
    rows.into()
}

const DRIVES: usize = 4;

/// Bytes of one.
const DRIVE_BYTES: usize = 256 << 20;

/// A temporary folder for drives, removed on drop.
pub struct Files(pub PathBuf);

impl Files {
    pub fn new(what: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ashlar-bench-{what}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the drives");
        Self(folder)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn drive(ring: &Arc<Ring>, folder: &Path, name: &str) -> Arc<dyn Drive> {
    let path = folder.join(name);
    device::create(&path, DRIVE_BYTES as u64).expect("a file");
    // Fully allocated like a drive, so that the file system allocates nothing during a measurement.
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).expect("the file");
    file.write_all(&vec![0; DRIVE_BYTES]).and_then(|()| file.sync_all()).expect("room for the drives");
    device::open(ring, &path).expect("a drive")
}

pub fn shelf(ring: &Arc<Ring>, folder: &Path, name: &str) -> Arc<DriveShelf> {
    let drives = (0..DRIVES).map(|number| drive(ring, folder, &format!("{name}{number}"))).collect();
    let sizes = Sizes { journal_bytes: Some(32 << 20), ..Sizes::default() };
    let options = FormatOptions { array: 1, consent: own(), sizes, ..FormatOptions::default() };
    sleep_on(DriveShelf::format(drives, options)).expect("blank drives")
}

/// Wall-clock latency at queue depth 1 on files: only the ratios are meaningful.
fn latency(name: &str) -> Vec<Row> {
    const ROUNDS: u64 = 400;
    let files = Files::new("latency");
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
    // Wall-clock time: reported, not checked by `--check`.
    let mut over = row(name, Bound::None, write / append, "×");
    over.note =
        format!("aim ≤ 1.3; {write:.0} µs over {append:.0} µs, medians of {ROUNDS}, one at a time, on files");
    let mut copies =
        row("the raw journal write over a durable write of one drive", Bound::None, append / device, "×");
    copies.note = format!("{append:.0} µs for three copies over {device:.0} µs for one, all on one disk");
    vec![over, copies]
}
