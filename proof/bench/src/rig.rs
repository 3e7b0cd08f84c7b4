//! An engine on drives in memory, and the thread that drives it.

use block::{Data, Disk, DiskId, Geometry, Op, Pending};
use bytes::Bytes;
use engine::{Engine, Options, Rest, Volume};
use parking_lot::Mutex;
use raid::{DriveShelf, FormatOptions, MemDrive, Sizes};
use shelf::pool::Consent;
use shelf::{Done, Drive, Job, Shelf, Workers};
use std::collections::VecDeque;
use std::future::Future;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A drive that counts what is written. A discard costs nothing, as on a drive.
struct Counting {
    drive: Arc<dyn Drive>,
    written: Arc<Written>,
}

/// Bytes written to all drives, and read from them.
#[derive(Default)]
pub struct Written {
    /// Durable writes: journal, superblocks, labels.
    pub durable: AtomicU64,
    /// The log.
    pub log: AtomicU64,
    /// Reads.
    pub read: AtomicU64,
    /// Their number.
    pub reads: AtomicU64,
}

/// Consent to overwrite remains of earlier runs.
pub fn own() -> Consent {
    Consent { foreign: true, arrays: vec![1] }
}

/// A drive whose traffic is counted.
pub fn counted(drive: Arc<dyn Drive>, written: &Arc<Written>) -> Arc<dyn Drive> {
    Arc::new(Counting { drive, written: written.clone() })
}

impl Drive for Counting {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn bytes(&self) -> u64 {
        self.drive.bytes()
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        self.written.read.fetch_add(u64::from(len), Ordering::Relaxed);
        self.written.reads.fetch_add(1, Ordering::Relaxed);
        self.drive.read(offset, len, done);
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        let count = if durable { &self.written.durable } else { &self.written.log };
        count.fetch_add(bytes as u64, Ordering::Relaxed);
        self.drive.write(offset, pieces, durable, done);
    }

    fn sync(&self, done: Done<()>) {
        done(Ok(()));
    }

    fn discard(&self, _offset: u64, _len: u64, done: Done<()>) {
        done(Ok(()));
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// A future and whether it was woken.
struct Task<F> {
    future: F,
    flag: Arc<Flag>,
    waker: Waker,
}

impl<F: Future + Unpin> Task<F> {
    fn new(future: F) -> Self {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        Self { future, waker: Waker::from(flag.clone()), flag }
    }

    fn poll(&mut self) -> Poll<F::Output> {
        if !self.flag.0.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        Pin::new(&mut self.future).poll(&mut Context::from_waker(&self.waker))
    }

    fn is_woken(&self) -> bool {
        self.flag.0.load(Ordering::Acquire)
    }
}

/// Jobs of workers that have not been computed.
#[derive(Clone, Default)]
struct Jobs(Arc<Mutex<VecDeque<Job>>>);

impl Jobs {
    const WORKERS: NonZeroUsize = NonZeroUsize::new(4).unwrap();

    fn workers(&self) -> Workers {
        let jobs = self.0.clone();
        Workers::new(Self::WORKERS, move |job| jobs.lock().push_back(job))
    }

    /// Computes all that there are.
    fn compute(&self) {
        loop {
            let next = self.0.lock().pop_front();
            let Some(job) = next else { return };
            job();
        }
    }
}

/// Configuration of an array under test.
pub struct Shape {
    /// Number of drives, and MiB of each.
    pub drives: u64,
    pub drive_mib: u64,
    /// Sizes of the shelf where they are not chosen by the drives.
    pub sizes: Sizes,
    /// Bounds of the engine.
    pub options: Options,
}

impl Shape {
    /// Four drives of `drive_mib` MiB and the engine's default bounds.
    pub fn new(drive_mib: u64) -> Self {
        // Idle-time work is not part of the cost of an operation.
        let options = Options { recompress: false, ..Options::new([7; 32]) };
        Self { drives: 4, drive_mib, sizes: Sizes::default(), options }
    }
}

/// The engine and its thread.
pub struct Rig {
    /// The engine.
    pub engine: Arc<Engine>,
    /// Traffic of its drives.
    pub written: Arc<Written>,
    drives: Vec<Arc<dyn Drive>>,
    background: Task<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Operations follow each other, faster than what they wrote becomes old.
    gathers: Arc<AtomicBool>,
    /// What its workers have been given: they compute when the background waits, on the same thread.
    jobs: Jobs,
    /// Processor time of the background so far, in µs, without that of its workers.
    pub background_us: f64,
    /// Additional work, called repeatedly.
    extra_work: Box<dyn FnMut()>,
}

impl Rig {
    /// An empty array.
    pub fn new(shape: Shape) -> Self {
        let written = Arc::new(Written::default());
        let drive = |number: u64| {
            let drive = MemDrive::new(format!("memory {number}"), shape.drive_mib << 20);
            // Memory that is touched for the first time costs more than the engine.
            drive.with(|bytes| {
                bytes.iter_mut().step_by(4096).for_each(|byte| *byte = std::hint::black_box(0))
            });
            counted(drive, &written)
        };
        let drives: Vec<_> = (0..shape.drives).map(drive).collect();
        let options =
            FormatOptions { array: 1, consent: own(), sizes: shape.sizes, ..FormatOptions::default() };
        let shelf = block_on(DriveShelf::format(drives.clone(), options));
        let shelf: Arc<dyn Shelf> = shelf.expect("blank drives");
        Self { drives, ..Self::over(shelf, written, shape.options) }
    }

    /// Copies what a power loss would leave on the drives to files that are named by their numbers.
    pub fn save(&self, folder: &Path) {
        const PIECE_BYTES: u32 = 1 << 20;
        for (number, drive) in self.drives.iter().enumerate() {
            let path = folder.join(number.to_string());
            raid::device::create(&path, drive.bytes()).expect("a new file");
            let file = std::fs::OpenOptions::new().write(true).open(path).expect("the file");
            for offset in (0..drive.bytes()).step_by(PIECE_BYTES as usize) {
                let (done, read) = shelf::wait();
                drive.read(offset, PIECE_BYTES, done);
                let piece = block_on(read).expect("a drive in memory");
                if !block::is_zero(&piece) {
                    file.write_all_at(&piece, offset).expect("room for the drives");
                }
            }
            file.sync_all().expect("room for the drives");
            // Drops the file from the page cache, so that the next program has as much free memory.
            // SAFETY: advice about a file that is open.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        }
    }

    /// An empty array over a shelf.
    pub fn over(shelf: Arc<dyn Shelf>, written: Arc<Written>, options: Options) -> Self {
        let jobs = Jobs::default();
        let options = Options { workers: jobs.workers(), ..options };
        let engine = block_on(Engine::open(shelf, options)).expect("an array in order");
        let gathers = Arc::new(AtomicBool::new(false));
        let operates = gathers.clone();
        let rest = move |rest| {
            let operates = operates.clone();
            std::future::poll_fn(move |_| match rest == Rest::Gather && operates.load(Ordering::Relaxed) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            })
        };
        let background = Task::new(Box::pin(engine.background_with_rest(rest)) as Pin<Box<_>>);
        Self {
            engine,
            written,
            drives: Vec::new(),
            jobs,
            background,
            gathers,
            background_us: 0.0,
            extra_work: Box::new(|| ()),
        }
    }

    /// A volume of 4 KiB blocks.
    pub fn volume(&mut self, number: u128, bytes: u64) -> Arc<Volume> {
        let geometry = Geometry { block_bytes: 4096, blocks: bytes / 4096 };
        let engine = self.engine.clone();
        self.run(engine.create_volume(DiskId(number), geometry, 0)).expect("a new volume")
    }

    /// Performs operations, `depth` at a time, together with the background. Panics if one fails.
    pub fn perform(&mut self, disk: &dyn Disk, depth: usize, ops: impl Iterator<Item = Op>) {
        self.operate(disk, depth, ops, true, || 0.0, |_| {});
    }

    /// The same, and calls `completed` for each operation with the processor time in µs between submission and
    /// completion, on the one thread that does everything.
    pub fn perform_timed(
        &mut self,
        disk: &dyn Disk,
        depth: usize,
        ops: impl Iterator<Item = Op>,
        completed: impl FnMut(f64),
    ) {
        self.operate(disk, depth, ops, true, cpu_us, completed);
    }

    /// Performs operations while the background is paused.
    pub fn perform_alone(&mut self, disk: &dyn Disk, depth: usize, ops: impl Iterator<Item = Op>) {
        self.operate(disk, depth, ops, false, || 0.0, |_| {});
    }

    /// Performs operations, `depth` at a time, while the background is paused, until the journal is full; returns the
    /// number of operations. Some of them never complete because of back-pressure.
    pub fn perform_until_full(
        &mut self,
        disk: &dyn Disk,
        depth: usize,
        mut ops: impl Iterator<Item = Op>,
    ) -> usize {
        let mut count = 0;
        let mut throttled: Vec<Task<Pending>> = Vec::new();
        loop {
            let before = self.written.durable.load(Ordering::Relaxed);
            let mut running: Vec<_> =
                ops.by_ref().take(depth).map(|op| Task::new(disk.execute(op))).collect();
            let submitted = running.len();
            while running.iter().any(Task::is_woken) {
                running.retain_mut(|task| task.poll().is_pending());
            }
            if self.written.durable.load(Ordering::Relaxed) == before {
                return count;
            }
            count += submitted;
            throttled.extend(running);
        }
    }

    fn operate(
        &mut self,
        disk: &dyn Disk,
        depth: usize,
        ops: impl Iterator<Item = Op>,
        background: bool,
        clock: fn() -> f64,
        mut completed: impl FnMut(f64),
    ) {
        let mut ops = ops.fuse();
        let mut running: Vec<(Task<Pending>, f64)> = Vec::with_capacity(depth);
        self.gathers.store(true, Ordering::Relaxed);
        loop {
            while running.len() < depth
                && let Some(op) = ops.next()
            {
                let submitted = clock();
                running.push((Task::new(disk.execute(op)), submitted));
            }
            if running.is_empty() {
                self.gathers.store(false, Ordering::Relaxed);
                self.background.flag.0.store(true, Ordering::Release);
                return;
            }
            running.retain_mut(|(task, submitted)| match task.poll() {
                Poll::Ready(result) => {
                    result.expect("the operation succeeds");
                    completed(clock() - *submitted);
                    false
                }
                Poll::Pending => true,
            });
            if background || running.len() == depth && !running.iter().any(|(task, _)| task.is_woken()) {
                self.poll_background();
            }
        }
    }

    /// Sets work to be done together with the background.
    pub fn beside(&mut self, work: impl FnMut() + 'static) {
        self.extra_work = Box::new(work);
    }

    fn poll_background(&mut self) {
        if self.background.is_woken() {
            let start = cpu_us();
            let _ended = self.background.poll();
            self.background_us += cpu_us() - start;
        }
        self.jobs.compute();
        (self.extra_work)();
    }

    /// Runs a future to its end, together with the background.
    pub fn run<T>(&mut self, future: impl Future<Output = T>) -> T {
        let future = pin!(future);
        let mut task = Task::new(future);
        loop {
            if let Poll::Ready(done) = task.poll() {
                return done;
            }
            self.poll_background();
        }
    }

    /// The background, for another thread to poll.
    pub fn into_background(self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self { jobs, background, .. } = self;
        let mut background = background.future;
        Box::pin(std::future::poll_fn(move |cx| {
            let polled = background.as_mut().poll(cx);
            jobs.compute();
            polled
        }))
    }

    /// Runs the background until it has no more work.
    pub fn settle(&mut self) {
        while self.background.is_woken() {
            self.poll_background();
        }
    }

    /// Flushes everything and writes a checkpoint; the array takes no more changes.
    pub fn finish(&mut self) {
        let engine = self.engine.clone();
        self.run(engine.shutdown()).expect("the last checkpoint");
    }
}

/// Runs a future that waits only for drives in memory.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let future = pin!(future);
    let mut task = Task::new(future);
    loop {
        if let Poll::Ready(done) = task.poll() {
            return done;
        }
    }
}

/// A write.
pub fn write(block: u64, bytes: Bytes) -> Op {
    Op::Write { lba: block, data: Data::from(bytes) }
}

/// Processor time of this thread in µs.
pub fn cpu_us() -> f64 {
    clock_us(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time of this process in µs.
pub fn process_us() -> f64 {
    clock_us(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock_us(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in the structure that it is given.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
